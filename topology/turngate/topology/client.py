"""What a Kafka client needs to reach the broker, beside its address."""

from __future__ import annotations

from ssl import SSLContext
from typing import TypedDict


class ClientOptions(TypedDict, total=False):
    """Options every aiokafka client takes by these names; all optional, plaintext without any."""

    client_id: str
    security_protocol: str
    ssl_context: SSLContext
    sasl_mechanism: str
    sasl_plain_username: str
    sasl_plain_password: str
    request_timeout_ms: int
