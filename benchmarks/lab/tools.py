"""The tools of the corpus, as plain functions that note that they ran. Nothing here but the standard library.

The functions are what a program hands its library; the schemas are what the request declares. Both say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ran: list[tuple[str, dict[str, Any]]] = []
"""The calls that ran since the last case, in order, with the arguments that were given."""


def _note(name: str, **arguments: Any) -> str:
    ran.append((name, {key: value for key, value in arguments.items() if value is not None}))
    return "done"


def forecast(city: str, days: int | None = None) -> str:
    """Tell the weather of a city for some days."""
    return _note("forecast", city=city, days=days)


def transfer(to: str, cents: int, memo: str | None = None) -> str:
    """Pay an account."""
    return _note("transfer", to=to, cents=cents, memo=memo)


def purge(folder: str | None = None) -> str:
    """Delete what lies in a folder, or everything."""
    return _note("purge", folder=folder)


def now() -> str:
    """Tell the time."""
    return _note("now")


def scale(by: float) -> str:
    """Scale the picture."""
    return _note("scale", by=by)


def count(n: int) -> str:
    """Count to a number."""
    return _note("count", n=n)


FUNCTIONS: dict[str, Callable[..., str]] = {
    "forecast": forecast, "transfer": transfer, "purge": purge, "now": now, "scale": scale, "count": count,
}  # fmt: skip

_TEXT = {"type": "string"}


def _object(required: list[str], **properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


SCHEMAS: dict[str, dict[str, Any]] = {
    "forecast": _object(["city"], city=_TEXT, days={"type": "integer", "minimum": 1}),
    "transfer": _object(["to", "cents"], to=_TEXT, cents={"type": "integer"}, memo=_TEXT),
    "purge": _object([], folder=_TEXT),
    "now": _object([]),
    "scale": _object(["by"], by={"type": "number"}),
    "count": _object(["n"], n={"type": "integer"}),
}
