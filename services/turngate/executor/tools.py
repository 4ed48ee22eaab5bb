"""What a tool handler gets and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from turngate.schemas.tools import ToolOrder

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
Arguments: TypeAlias = dict[str, JsonValue]


class ToolError(Exception):
    """Raised by a handler: settles its call as an error with exactly this text, which the model will read."""

    def __init__(self, message: str, *, reason: str = "tool_error") -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """The terminal answer to a call. reason: a stable word for books and metrics, of an error or cancellation."""

    content: str
    status: Literal["success", "error", "cancelled"] = "success"
    reason: str | None = None


class Progress(Protocol):
    """Sends one piece of partial output."""

    async def __call__(self, content: str) -> None: ...


class CallContext:
    """One execution, as its handler sees it."""

    def __init__(self, order: ToolOrder, *, progress: Progress, now_ms: Callable[[], int]) -> None:
        self.order = order
        self._progress = progress
        self._now_ms = now_ms
        self._cancelled = False

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this call: hand it to any system whose effects must happen once."""
        return self.order.idempotency_key

    @property
    def deadline_ms(self) -> int:
        """When the ledger acts on its own, in milliseconds since the epoch; the handler is cancelled then."""
        return self.order.deadline_ms

    @property
    def seconds_left(self) -> float:
        """Until the deadline; never negative."""
        return max(0, self.order.deadline_ms - self._now_ms()) / 1000

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled. The handler's task is cancelled too; a result would change nothing."""
        return self._cancelled

    def cancel(self) -> None:
        """Note the cancellation; the worker calls it."""
        self._cancelled = True

    async def progress(self, content: str) -> None:
        """Send partial output to whoever watches the conversation; it never becomes history."""
        await self._progress(content)


ToolHandler: TypeAlias = "Callable[[Arguments, CallContext], Awaitable[str | ToolOutput]]"
