"""What variables may hold: addresses, names, and the names of the variables themselves. Texts never quote a value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from urllib.parse import urlsplit

BROKER = re.compile(r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
REDIS_SCHEMES = ("redis", "rediss")
PORT_MAX = 65_535
ALIKE = 0.85
"""Two names that are as alike as this (difflib's ratio) are one name misspelt."""
SERVICE_LINK = re.compile(r".*_(?:SERVICE_(?:HOST|PORT(?:_.+)?)|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_.+)?)?)")
"""Variables that Kubernetes makes of the services of a namespace; one may be called turngate."""


def check_brokers(value: str) -> str:
    """Raises ValueError where it is not host:port[,host:port]."""
    for entry in value.split(","):
        found = BROKER.fullmatch(entry.strip())
        if found is None or not 0 < int(found["port"]) <= PORT_MAX:
            raise ValueError("is not host:port[,host:port]: set every broker's host and port")
    return value


def check_redis_url(value: str) -> str:
    """Raises ValueError where it is not redis[s]://[user:password@]host[:port][/number]."""
    hint = "set redis://host:port/0 or rediss://host:port/0"
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise ValueError(f"has no usable host and port: {hint}") from None
    if parts.scheme not in REDIS_SCHEMES or not parts.hostname or port == 0 or value != value.strip():
        raise ValueError(f"is not a Redis URL: {hint}")
    if re.fullmatch(r"/?[0-9]*", parts.path) is None:
        raise ValueError(f"names no database by number: {hint}")
    return value


def misspelt(given: Iterable[str], known: Collection[str], *, spared: Collection[str] = ()) -> dict[str, str]:
    """Variable that means nothing -> the known one that must have been meant; '' where none is near.

    spared: names that have a meaning of their own, known only here and now.
    """
    out: dict[str, str] = {}
    for name in sorted(given):
        if name not in known and name not in spared and SERVICE_LINK.fullmatch(name) is None:
            near = get_close_matches(name, sorted(known), n=1, cutoff=ALIKE)
            out[name] = near[0] if near else ""
    return out
