"""One order from claim to answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, cast

from aiokafka import TopicPartition

from turngate.executor.answers import (
    ProgressKind,
    Reply,
    arguments_intact,
    claim_key,
    progress_reply,
    repeatable,
    result_of,
    result_reply,
)
from turngate.executor.arguments import parse_arguments
from turngate.executor.claims import CLOCK_SKEW_MS, ClaimLog
from turngate.executor.tools import Arguments, CallContext, ToolError, ToolHandler, ToolOutput
from turngate.schemas.tools import ToolOrder

log = logging.getLogger("turngate.executor")

STOP_GRACE_S = 5.0
"""How long a handler may take to end after its task was cancelled; then its result no longer counts."""

CANCELLED = ToolOutput(content="cancelled before it ended", status="cancelled", reason="cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """group, executor: name the group and this process in records. source: CloudEvents source.

    quiet_s: how long another group's claim of a repeatable execution holds without a sign of life.
    """

    group: str
    executor: str
    source: str
    heartbeat_s: float = 5.0
    quiet_s: float = 30.0
    stale_ms: int = 300_000
    poll_s: float = 0.5


class Sent(Protocol):
    """Where an acknowledged record lies, and its time in milliseconds."""

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...


class Call:
    """The execution of one order in this process. A second delivery of the order waits for the same execution."""

    def __init__(
        self,
        order: ToolOrder,
        handler: ToolHandler,
        *,
        ordered_ms: int,
        claims: ClaimLog,
        send: Callable[[Reply], Awaitable[Sent | None]],
        settings: CallSettings,
        now_ms: Callable[[], int],
    ) -> None:
        """ordered_ms: the time of the order's record. send: None where the order's partition does not exist."""
        self.order = order
        self.key = claim_key(order)
        self._handler = handler
        self._since_ms = max(0, min(ordered_ms, now_ms()) - CLOCK_SKEW_MS)
        self._claims = claims
        self._send = send
        self._settings = settings
        self._now_ms = now_ms
        self._seq = 0
        self._running: asyncio.Task[str | ToolOutput] | None = None
        self._context = CallContext(order, progress=self._output, now_ms=now_ms)
        self.ended = asyncio.Event()

    def cancel(self) -> None:
        """The call need not be executed any more: its handler's task is cancelled and nothing is answered."""
        self._context.cancel()
        if self._running is not None:
            self._running.cancel()

    async def run(self) -> None:
        """Claim the order, execute it, answer it. Raises what the broker raises; the order is then delivered again."""
        late_ms = self._now_ms() - self.order.deadline_ms
        if late_ms > self._settings.stale_ms:
            log.info("order %s is long past its deadline: left to the ledger", self.key)
            return
        if self._context.cancelled or not await self._first():
            return
        output = await self._execute() if late_ms < 0 else self._expired()
        if output is not CANCELLED:
            result = result_of(self.order, output, executor=self._settings.executor)
            await self._send(result_reply(self.order, result, source=self._settings.source))

    async def _first(self) -> bool:
        """Claim the execution and learn whether it is ours.

        It is where our claim lies first. It is not where it was answered. Another's claim without an answer is for good
        unless the tool may be executed again: then it ends with its worker. In our own group the broker says that it
        did, by delivering the order to us; in another, silence says so.
        """
        claimed = await self._send(self._progress_reply("claimed"))
        if claimed is None:
            return False
        at = TopicPartition(self.order.reply_to.topic, self.order.reply_to.partition)
        while True:
            standing = None
            if claimed.timestamp >= self._since_ms:  # else our clock is so far behind that others would not see us
                standing = await self._claims.standing(
                    self.key, at, claimed_offset=claimed.offset, since_ms=self._since_ms
                )
            if standing is None:
                return self._unproved()
            if standing.offset == claimed.offset:
                return True
            if standing.answered:
                return False
            if not repeatable(self.order):
                log.warning("order %s is claimed by another worker: left to the ledger's deadline", self.key)
                return False
            group = (standing.executor or "").rpartition("/")[0]
            if group == self._settings.group or self._claims.quiet_s(standing) >= self._settings.quiet_s:
                return True
            if self._context.cancelled or self._context.seconds_left <= 0:
                return False
            await asyncio.sleep(self._settings.poll_s)

    def _unproved(self) -> bool:
        if repeatable(self.order):
            return True
        log.error("nobody can tell whether order %s was executed: left to the ledger's deadline", self.key)
        return False

    async def _execute(self) -> ToolOutput:
        if self._context.cancelled:
            return CANCELLED
        if not arguments_intact(self.order):
            return _error("the arguments are not the ones that were committed", "arguments_mismatch")
        try:
            arguments = parse_arguments(self.order.arguments_raw)
        except ToolError as error:
            return _error(error.message, error.reason)
        running = self._running = asyncio.ensure_future(self._handled(arguments))
        beating = asyncio.create_task(self._beat())
        try:
            await asyncio.wait({running, beating}, timeout=self._context.seconds_left,
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
            if beating.done():
                beating.result()  # the broker is gone: the worker stops
            if running.done():
                return self._outcome(running)
            running.cancel()
            await asyncio.wait({running}, timeout=STOP_GRACE_S)
            return CANCELLED if self._context.cancelled else self._expired()
        finally:
            for task in (running, beating):
                task.cancel()
                if task.done() and not task.cancelled():
                    task.exception()  # looked at, so that it is not reported as forgotten
            with suppress(asyncio.CancelledError):
                await asyncio.wait({beating})

    async def _handled(self, arguments: Arguments) -> str | ToolOutput:
        try:
            return await self._handler(arguments, self._context)
        except SystemExit:  # a tool's library may call sys.exit: that ends the call, not the worker
            raise ToolError(f"{self.order.tool} failed: SystemExit", reason="handler_error") from None

    def _outcome(self, running: asyncio.Task[str | ToolOutput]) -> ToolOutput:
        if running.cancelled():
            return CANCELLED if self._context.cancelled else _error(f"{self.order.tool} gave up", "handler_error")
        error = running.exception()
        if isinstance(error, ToolError):
            return _error(error.message, error.reason)
        if error is not None:
            # Only the type: an exception's text may hold anything, and the model would read it.
            log.warning("tool %s failed with %s", self.order.tool, type(error).__name__)
            return _error(f"{self.order.tool} failed: {type(error).__name__}", "handler_error")
        answer = _answer(running.result())
        if answer is None:
            log.warning("tool %s returned something that is not text", self.order.tool)
            return _error(f"{self.order.tool} failed: what it returned is not text", "handler_error")
        return answer

    def _expired(self) -> ToolOutput:
        return _error(f"{self.order.tool} did not finish before its deadline", "deadline")

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.heartbeat_s)
            await self._send(self._progress_reply("heartbeat"))

    async def _output(self, content: str) -> None:
        await self._send(self._progress_reply("output", content))

    def _progress_reply(self, kind: ProgressKind, content: str | None = None) -> Reply:
        seq, self._seq = self._seq, self._seq + 1
        return progress_reply(
            self.order, kind, seq,
            executor=self._settings.executor, source=self._settings.source, content=content,
        )  # fmt: skip


def _error(content: str, reason: str) -> ToolOutput:
    return ToolOutput(content=content, status="error", reason=reason)


def _answer(returned: object) -> ToolOutput | None:
    """What a handler returned as an output; None where no result record could hold it."""
    output = ToolOutput(content=returned) if isinstance(returned, str) else returned
    if not isinstance(output, ToolOutput) or not isinstance(cast("object", output.content), str):
        return None
    try:
        output.content.encode()
    except UnicodeEncodeError:
        return None
    return output
