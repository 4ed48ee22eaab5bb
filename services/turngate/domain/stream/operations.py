"""Block operations: the one language between the normalisers, which know providers, and the slots, which do
not.

A normaliser turns one provider event into a few operations. `choice` numbers the alternatives of a response,
`block`
numbers the blocks of a choice: the provider's own content index where it has one, otherwise the order of
arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from turngate.domain.stream.findings import GateCode, Severity

BlockKind = Literal[
    "text",
    "thinking",
    "redacted_thinking",
    "reasoning",
    "tool_call",
    "server_tool_call",
    "server_tool_result",
    "refusal",
    "image",
    "document",
]
"""`server_tool_result` also holds opaque provider parts that are only ever given back verbatim (compaction,
fallback)."""

StopClass = Literal["complete", "tool_calls", "truncated", "filtered", "paused", "error", "unknown"]

DeltaField = Literal["text", "arguments", "signature", "citation", "part"]

ErrorClass = Literal["auth", "invalid_request", "retryable"]


class Start(NamedTuple):
    """A block begins. `slot` is the provider's own index of it (for a Chat tool call: among the calls).

    data: the provider's own block, its exact JSON text, where it must be kept. arguments_at: where in it the
    streamed input belongs.
    """

    choice: int
    block: int
    kind: BlockKind
    slot: int
    ident: str | None = None
    name: str | None = None
    data: str | None = None
    arguments_at: tuple[str, ...] = ()


class Identify(NamedTuple):
    """A later fragment names the call again, or for the first time."""

    choice: int
    block: int
    ident: str | None
    name: str | None


class Delta(NamedTuple):
    """More of a block: text, argument text, a signature (replaces), a citation or an opaque part
    (appends)."""

    choice: int
    block: int
    field: DeltaField
    text: str


class Whole(NamedTuple):
    """The call shares its provider slot with another one: it is only believed if it is complete in itself."""

    choice: int
    block: int


class Replace(NamedTuple):
    """The end of a block gives another text than its deltas did. To be shown; a Note beside it blocks the turn."""

    choice: int
    block: int
    text: str


class Stop(NamedTuple):
    """The block ends."""

    choice: int
    block: int


class TurnStop(NamedTuple):
    """The provider names its reason for stopping. `void` is set where it declares the partial output void."""

    choice: int
    value: str
    stop: StopClass
    void: str | None = None


class Reopen(NamedTuple):
    """The provider goes on after a stop that, for this profile, need not be the last: the stop no longer
    counts."""

    choice: int


class TurnEnd(NamedTuple):
    """The provider's end mark of the whole response, where the profile has one."""


class Usage(NamedTuple):
    """The provider's usage object. `path` finds it in `source`, the event's exact text; `merge` overlays it
    by field."""

    value: dict[str, object]
    source: str
    path: tuple[str | int, ...]
    merge: bool = False


class Handle(NamedTuple):
    """The provider's response id."""

    value: str


class Failure(NamedTuple):
    """The provider reports an error inside the stream; `error_type` is its own type word."""

    error_type: str
    error_class: ErrorClass


class Note(NamedTuple):
    """A finding of the normaliser itself."""

    code: GateCode
    severity: Severity
    message: str
    choice: int | None = None
    slot: int | None = None


Operation = (
    Start | Identify | Delta | Whole | Replace | Stop | TurnStop | Reopen | TurnEnd | Usage | Handle | Failure | Note
)

CLOSING = (TurnStop, TurnEnd, Usage, Failure)
"""What says how a turn ended and what it cost: of a stream in quarantine, every event that holds one is kept."""


class Normaliser(Protocol):
    """The state of one relay's reading. Not shared between streams."""

    def event(self, value: object, raw: str, out: list[Operation]) -> None:
        """Append the operations of one event. `value` is `raw` parsed; `raw` is the exact text received."""
        ...


class Continuation(NamedTuple):
    """How the events that only go on where a delta was are told from all others.

    reads: a parsed event and the number it must have (None: none) -> the text it adds, where it does nothing else;
    otherwise None. Changes nothing, and depends neither on the text nor on what stands in a padding. It may give a
    text only where `event` would give nothing but a Delta of that text to the same field, beside notes that it gave
    before.
    due: the number of the next event, in a profile that numbers them. took: told what `reads` gave for the events that
    came next, one by one and joined.
    """

    reads: Callable[[Any, int | None], str | None]
    due: Callable[[], int | None] | None = None
    took: Callable[[list[str], str], None] | None = None


class Continuing(Protocol):
    """A normaliser that knows how most of its events look: more text for the block that the last one added to."""

    def continuation(self, value: object, delta: Delta) -> Continuation | None:
        """What the events have in common that only go on where `delta` was; None where that cannot be told.

        value: the parsed event whose last operation was `delta`. What is returned holds until another event goes
        through `event` with a result.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """What the gate must know of a profile, as data.

    empty_arguments: what empty argument text of a properly ended call means.
    end_mark: a turn is terminal only once TurnEnd came. blocks_close_with_turn: blocks have no end event of
    their own.
    complete_with_calls: how a "complete" label beside complete calls is read.
    sentinels: event texts that are not JSON and carry nothing.
    json_bodies: a body may also be one JSON array of events, and an error may stand in it as bare JSON.
    media_type: of the body that is asked for.
    stop_may_go_on: a stop without a call need not be the last; only the end of the body tells.
    same_key_again: what an object means that names a key twice with the same value; with two values it is an error.
    """

    empty_arguments: Literal["object", "tolerated", "malformed"]
    end_mark: bool
    blocks_close_with_turn: bool
    complete_with_calls: Literal["wrong", "forced", "tolerated"]
    sentinels: frozenset[str] = frozenset()
    json_bodies: bool = False
    media_type: str = "text/event-stream"
    stop_may_go_on: bool = False
    same_key_again: Literal["error", "tolerated"] = "error"


@dataclass(frozen=True, slots=True)
class NormaliserSpec:
    """One normaliser as an adapter folder offers it: `profile@version`, its facts, and how to make a fresh
    one."""

    profile: str
    version: int
    facts: ProfileFacts
    build: Callable[[], Normaliser]

    @property
    def name(self) -> str:
        return f"{self.profile}@{self.version}"
