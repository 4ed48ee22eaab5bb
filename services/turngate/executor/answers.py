"""The records an executor writes, made from the order they answer: the identity is copied field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

from turngate.executor.tools import ToolOutput
from turngate.schemas.codec import encode
from turngate.schemas.digests import text_digest
from turngate.schemas.envelope import Headers, cloud_event_headers, conversation_key
from turngate.schemas.tools import CallIdentity, ReplyTo, ToolOrder, ToolProgress, ToolResult
from turngate.topology.topics import TOPICS

ProgressKind: TypeAlias = Literal["claimed", "heartbeat", "output"]


class Identity(TypedDict):
    """The fields that order, progress and result have in common."""

    tenant: str
    conversation: str
    call_key: str
    call_id: str
    tool: str
    revision: int
    generation: int
    attempt: int
    arguments_digest: str
    idempotency_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A finished record and the exact partition it goes to."""

    to: ReplyTo
    key: bytes
    value: bytes
    headers: Headers


def claim_key(order: CallIdentity) -> str:
    """Names one execution: an order delivered again has the same, a further attempt another."""
    return f"{order.idempotency_key}/{order.attempt}"


def result_id(order: CallIdentity) -> str:
    """Deterministic, so that a repeated answer is recognised as the same one."""
    return f"r-{order.idempotency_key[:16]}-{order.attempt}"


def repeatable(order: ToolOrder) -> bool:
    """Whether its tool may be executed again when nobody knows if it was."""
    return order.side_effects in ("read", "idempotent")


def result_of(order: ToolOrder, output: ToolOutput, *, executor: str) -> ToolResult:
    """The result record; output beyond the topic's limit becomes an error, never a cut text."""
    result = _result(order, output, executor)
    if len(encode(result)) > TOPICS["tool-results"].bytes_max:
        text = f"the output of {order.tool} is larger than a result may be"
        return _result(order, ToolOutput(content=text, status="error", reason="too_large"), executor)
    return result


def result_reply(order: ToolOrder, result: ToolResult, *, source: str) -> Reply:
    return _reply(order, result, cloud_event_headers(result, event_id=result.result_id, source=source))


def progress_reply(
    order: ToolOrder,
    kind: ProgressKind,
    seq: int,
    *,
    executor: str,
    source: str,
    content: str | None = None,
) -> Reply:
    """seq: numbers the progress records of one execution, from 0."""
    record = ToolProgress(**_identity(order), progress=kind, seq=seq, content=content, executor=executor)
    event_id = f"p-{order.idempotency_key[:16]}-{order.attempt}-{seq}"
    return _reply(order, record, cloud_event_headers(record, event_id=event_id, source=source))


def arguments_intact(order: ToolOrder) -> bool:
    """Whether the argument text is the one that was committed."""
    return text_digest(order.arguments_raw) == order.arguments_digest


def _result(order: ToolOrder, output: ToolOutput, executor: str) -> ToolResult:
    return ToolResult(
        **_identity(order),
        result_id=result_id(order),
        status=output.status,
        reason=output.reason,
        content=output.content,
        executor=executor,
    )


def _identity(order: ToolOrder) -> Identity:
    return Identity(
        tenant=order.tenant,
        conversation=order.conversation,
        call_key=order.call_key,
        call_id=order.call_id,
        tool=order.tool,
        revision=order.revision,
        generation=order.generation,
        attempt=order.attempt,
        arguments_digest=order.arguments_digest,
        idempotency_key=order.idempotency_key,
    )


def _reply(order: ToolOrder, record: ToolResult | ToolProgress, headers: Headers) -> Reply:
    key = conversation_key(order.tenant, order.conversation)
    return Reply(to=order.reply_to, key=key, value=encode(record), headers=headers)
