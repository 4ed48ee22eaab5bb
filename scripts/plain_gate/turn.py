"""A turn as it comes in, and the judgement over it once it is over.

The readers of the providers' events say what begins, grows and ends; this page keeps order: what comes after the end,
twice, or for something that never began is a finding. Nothing is run unless all of it is whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plain_gate.strict_json import BYTES_MAX, DEPTH_MAX, Refused, is_too_deep, read_arguments, read_value, utf8_length
from plain_gate.tool_schema import ToolSchema

TURN_BYTES_MAX = 720_000
BLOCKS_MAX = 1024
IDENTITY_CHARACTERS_MAX = 256
"""Of the id or name of a call, and of a response id that is kept."""
USAGE_CHARACTERS_MAX = 65_536

CALL, SERVER_CALL = "tool_call", "server_tool_call"


@dataclass
class Block:
    """A piece of the turn: text, thinking, a call. number: its place in the turn. slot: the provider's own index of it.

    event: the one it began with. closed: its end came. broken: its order was broken, so nothing more is taken.
    """

    kind: str
    number: int
    slot: str
    event: int | None
    ident: str | None = None
    name: str | None = None
    closed: bool = False
    broken: bool = False
    pieces: list[str] = field(default_factory=list)
    length_bytes: int = 0

    @property
    def text(self) -> str:
        """What came, joined; of a call its argument text."""
        return "".join(self.pieces)


@dataclass
class Choice:
    """One alternative of the response. stop: class of the stop reason, None until there is one."""

    blocks: dict[int, Block] = field(default_factory=dict)
    stop: str | None = None


class Turn:
    """blocks_need_an_end: whether the provider ends every block itself, and the whole message after them.

    event: number of the event being read, set by whoever reads them. ended: the end mark came. failed: an error was
    reported. refused: the provider declared what came before void. takes_usage: not while an unsound event is read.
    """

    def __init__(self, *, blocks_need_an_end: bool) -> None:
        self.blocks_need_an_end = blocks_need_an_end
        self.choices: dict[int, Choice] = {}
        self.findings: list[dict[str, Any]] = []
        self.usage: dict[str, Any] | None = None
        self.event: int | None = None
        self.ended = False
        self.failed = False
        self.refused = False
        self.takes_usage = True
        self._found: set[tuple[str, str, str | None]] = set()
        self._bytes = 0
        self._blocks = 0

    def find(self, code: str, message: str, *, slot: str | None = None, severity: str = "error") -> None:
        """Note a finding, the same one only once. Only severity `error` blocks."""
        if (code, message, slot) not in self._found:
            self._found.add((code, message, slot))
            finding = {"code": code, "severity": severity, "slot": slot, "eventIndex": self.event, "message": message}
            self.findings.append(finding)

    def fail(self) -> None:
        """The provider reports an error: nothing before or after it makes this turn good."""
        self.failed = True
        self.find("provider_error", "the provider reports an error")

    def _is_over(self, choice: int) -> bool:
        return self.ended or (choice in self.choices and self.choices[choice].stop is not None)

    # -- blocks -------------------------------------------------------------------------------------------------------

    def begin(
        self,
        choice: int,
        number: int,
        kind: str,
        slot: int,
        ident: str | None = None,
        name: str | None = None,
        *,
        holds: str = "",
    ) -> None:
        """A block begins. holds: the provider's own text of it, where it is kept to be given back."""
        label = f"{choice}/{slot}"
        if self._is_over(choice):
            self.find("delta_after_terminal", "a block begins after the end of the turn", slot=label)
            return
        blocks = self.choices.setdefault(choice, Choice()).blocks
        if number in blocks:
            if not blocks[number].broken:
                self.find("identity_collision", "a block begins on a slot in use", slot=label)
            blocks[number].broken = True
        elif self._blocks >= BLOCKS_MAX:
            self.find("too_large", f"more than {BLOCKS_MAX} blocks")
        else:
            self._blocks += 1
            blocks[number] = Block(kind, number, label, self.event, ident, name)
            if self.has_room(holds):
                self._check_depth(holds)
            if any(word is not None and len(word) > IDENTITY_CHARACTERS_MAX for word in (ident, name)):
                self.find("too_large", f"an id or name of more than {IDENTITY_CHARACTERS_MAX} characters", slot=label)

    def add(self, choice: int, number: int, text: str, use: str = "text") -> None:
        """More of a block. use: `text` is what it says or asks; `json` and `word` (a signature) are kept beside it."""
        block = self._running(choice, number, "a piece")
        if block is None or not text or not self.has_room(text):
            return
        if use == "json":
            self._check_depth(text)
        if use != "text":
            return
        block.pieces.append(text)
        block.length_bytes += utf8_length(text)
        if block.kind in (CALL, SERVER_CALL) and block.length_bytes > BYTES_MAX:
            self.find("too_large", f"more than {BYTES_MAX} bytes of arguments", slot=block.slot)
            block.pieces, block.broken = [], True

    def close(self, choice: int, number: int) -> None:
        block = self._running(choice, number, "an end", ends=True)
        if block is not None:
            block.closed = True

    def _running(self, choice: int, number: int, what: str, *, ends: bool = False) -> Block | None:
        """The block that takes a piece or its end; None where that is out of order, which is a finding."""
        blocks = self.choices[choice].blocks if choice in self.choices else {}
        block = blocks.get(number)
        label = f"{choice}/{number}" if block is None else block.slot
        if self._is_over(choice):
            self.find("delta_after_terminal", f"{what} of a block after the end of the turn", slot=label)
        elif block is None:
            self.find("missing_slot", f"{what} of a block that never began", slot=label)
        elif block.closed and not block.broken:
            code = "duplicate_terminal" if ends else "delta_after_terminal"
            self.find(code, f"{what} of a block after its end", slot=label)
            block.broken = True
        elif not block.broken:
            return block
        return None

    def has_room(self, text: str) -> bool:
        """Count content; beyond the limit nothing more is kept."""
        self._bytes += utf8_length(text)
        if self._bytes > TURN_BYTES_MAX:
            self.find("too_large", f"the turn has more than {TURN_BYTES_MAX} bytes")
            return False
        return True

    def _check_depth(self, text: str) -> None:
        if is_too_deep(text):
            self.find("too_large", f"JSON that is kept is nested deeper than {DEPTH_MAX} levels")

    def count(self, usage: dict[str, Any], text: str, *, add: bool = False) -> None:
        """The provider's count of tokens. text: the same as received. add: to what was counted, field by field."""
        if not self.takes_usage:
            return
        if is_too_deep(text):
            self._check_depth(text)
            return
        if add and self.usage is not None:
            usage = {**self.usage, **{name: value for name, value in usage.items() if value is not None}}
            text = json.dumps(usage, ensure_ascii=False, separators=(",", ":"))
        if len(text) > USAGE_CHARACTERS_MAX:
            self.find("too_large", f"the usage has more than {USAGE_CHARACTERS_MAX} characters")
        else:
            self.usage = usage

    def name_response(self, ident: str) -> None:
        """The provider's id of the response; nothing rests on it."""
        if len(ident) > IDENTITY_CHARACTERS_MAX:
            self.find("too_large", "the response id is too long to be kept", severity="note")

    # -- its end ------------------------------------------------------------------------------------------------------

    def stop(self, choice: int, stop_class: str, *, refusal: str | None = None) -> None:
        """The provider says why it stops. refusal: its words where it declares what came before void."""
        if self._is_over(choice):
            self.find("duplicate_terminal", "a stop reason after the end of the turn", slot=str(choice))
        else:
            self.choices.setdefault(choice, Choice()).stop = stop_class
            self.refused = refusal is not None
            self.has_room(refusal or "")

    def end(self) -> None:
        """The provider's mark behind the whole message."""
        if self.ended:
            self.find("duplicate_terminal", "the message ends twice")
        self.ended = True


# -- the judgement -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """In what the providers differ.

    no_arguments: what a whole call without any argument text means: "{}", or "" (which is not JSON).
    forced: the request forced one tool, so that a stop label "stop" beside its call is right.
    """

    no_arguments: str
    forced: bool


class Judgement:
    """status: pass, fail or not_applicable. stop: the turn's stop class. calls: to be handed over, only with pass."""

    def __init__(self, turn: Turn, schemas: Mapping[str, object], rules: Rules, fault: str | None) -> None:
        self.turn, self.schemas, self.rules = turn, schemas, rules
        turn.event = None  # from here on findings are about the turn
        filled = {number: choice for number, choice in turn.choices.items() if choice.blocks}
        self.filled = [filled[number] for number in sorted(filled)]
        self.first = self.filled[0] if self.filled else turn.choices.get(0, Choice())
        self.all_calls = [block for choice in filled.values() for block in in_order(choice) if block.kind == CALL]
        if fault is not None:
            self._find(fault, "what the provider sent could not be read to its end")
        whole = self._is_whole()
        if turn.failed:
            self.stop = "error"
        elif whole:
            self.stop = self._stop_class()
        else:
            self.stop = "unknown"
            self._find("missing_terminal", "the stream ended without the provider's terminal")
        if not self.all_calls:
            soften_unknown_events(turn.findings)
        wrong = any(finding["severity"] == "error" for finding in turn.findings)
        self.verdict = "failed" if turn.failed else "unknown" if not whole else "blocked" if wrong else "commit"
        runs = self.verdict == "commit" and self.stop == "tool_calls" and bool(self.all_calls)
        self.status = "pass" if runs else "not_applicable" if self.verdict == "commit" else "fail"
        self.calls = [self._call(block) for block in in_order(self.first) if block.kind == CALL] if runs else []

    def _is_whole(self) -> bool:
        """Whether everything that began was stopped by the provider's own word. Nothing else counts as an end."""
        stopped = bool(self.turn.choices) and all(choice.stop is not None for choice in self.turn.choices.values())
        return stopped and (self.turn.ended or not self.turn.blocks_need_an_end)

    def _find(self, code: str, message: str, block: Block | None = None) -> None:
        self.turn.event = None if block is None else block.event
        self.turn.find(code, message, slot=None if block is None else block.slot)

    def _stop_class(self) -> str:
        """What the stop reason of a whole turn really means, with everything that contradicts it as findings."""
        stop = self.first.stop or "unknown"
        if len(self.filled) > 1:
            if self.all_calls:
                self._find("multiple_choices", "more than one choice holds content, and a call is among it")
            else:
                message = "more than one choice holds text; the first is reported"
                self.turn.find("multiple_choices", message, severity="note")
        self._check_blocks()
        if stop == "unknown":
            self._find("wrong_terminal_reason", "the stop reason is not one of this provider's")
            return stop
        if not self.all_calls:
            if stop != "tool_calls":
                return stop
            self._find("wrong_terminal_reason", "stopped for calls without any call")
            return "unknown"
        if stop == "complete" and self.rules.forced:
            stop = "tool_calls"
        if stop != "tool_calls":
            self._find("wrong_terminal_reason", "calls in a turn that did not stop for them")
            return "unknown" if stop == "complete" else stop  # label and content contradict each other
        if any(block.kind == "refusal" for block in self.first.blocks.values()):
            self._find("wrong_terminal_reason", "calls beside a refusal")
        self._check_calls()
        return stop

    def _check_blocks(self) -> None:
        for choice in self.filled:
            for block in in_order(choice):
                if self.turn.blocks_need_an_end and not block.closed and not block.broken:
                    self._find("missing_terminal", "a block was never ended", block)
                elif block.kind == SERVER_CALL and block.text and not self.turn.refused:
                    # It runs at the provider, but it is given back to it in the next request: cut, it would break that.
                    try:
                        read_value(block.text)
                    except Refused:
                        self._find("malformed_json", "the input of a server tool is not JSON", block)

    def _check_calls(self) -> None:
        seen: set[str] = set()
        for block in self.all_calls:
            if block.ident is None:
                self._find("missing_identity", "a call without an id", block)
            elif block.ident in seen:
                self._find("duplicate_call_id", "two calls have the same id", block)
            else:
                seen.add(block.ident)
            if block.name is None:
                self._find("missing_identity", "a call without a tool name", block)
            elif block.name not in self.schemas:
                self._find("unknown_tool", "the tool was not declared", block)
            else:
                try:
                    schema = ToolSchema(self.schemas[block.name])
                    if not schema.accepts(read_arguments(block.text or self.rules.no_arguments)):
                        self._find("schema_invalid", "the arguments do not match the tool's schema", block)
                except Refused as refused:
                    self._find(refused.code, str(refused), block)

    def _call(self, block: Block) -> dict[str, Any]:
        return {
            "id": block.ident,
            "name": block.name,
            "arguments": read_arguments(block.text or self.rules.no_arguments),
            "argumentsRaw": block.text,
            "slot": block.slot,
        }

    def text_of(self, *kinds: str) -> str:
        """What was assembled, also of a turn that is blocked."""
        return "".join(block.text for block in in_order(self.first) if block.kind in kinds)


def in_order(choice: Choice) -> list[Block]:
    return [choice.blocks[number] for number in sorted(choice.blocks)]


def soften_unknown_events(findings: list[dict[str, Any]]) -> None:
    """What a reader does not know can only hide a part of a call where the turn has calls."""
    for finding in findings:
        if finding["code"] == "unknown_event" and finding["severity"] == "error":
            finding["severity"] = "note"
