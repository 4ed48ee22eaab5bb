"""Beyond its limit quarantine keeps what ends a turn: every terminal, usage and error event, of every profile."""

from __future__ import annotations

import json

import pytest

from turngate.domain.adapters.normalisers import profiles
from turngate.domain.stream import Assembler, compile_toolset
from turngate.domain.stream.quarantined import Kept, cases_of
from turngate.reassembler.closing import CLOSING_BYTES_MAX, closing_frames
from turngate.reassembler.frames import AttemptRef, Events
from turngate.reassembler.quarantine import FrameQuarantine
from turngate.reassembler.streams import OpenStream
from turngate.runtime.metrics import Metrics
from turngate.runtime.records import InputRecord
from turngate.schemas.codec import decode, encode
from turngate.schemas.quarantine import QUARANTINE_BYTES_MAX, Quarantined
from turngate.schemas.stream import EndFrame, EventsFrame

REF = AttemptRef("op", 1, 1)
CHUNK = {"id": "r", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}
FINISH = {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE = {"id": "r", "choices": [], "usage": {"total_tokens": 3}}
ERROR = {"error": {"type": "server_error"}}


def frame(*events: object, first: int = 0, profile: str = "openai") -> bytes:
    texts = tuple(event if isinstance(event, str) else json.dumps(event) for event in events)
    return encode(EventsFrame(
        tenant="t", conversation="c", operation_id="op", generation=1, relay=1, profile=profile, first_seq=first,
        events=texts,
    ))  # fmt: skip


def end() -> bytes:
    return encode(EndFrame.model_validate({
        "tenant": "t", "conversation": "c", "operation_id": "op", "generation": 1, "relay": 1,
        "cause": "eof", "count": 9,
    }))  # fmt: skip


def read(values: list[bytes]) -> list[tuple[int, tuple[str, ...]]]:
    frames = [decode(EventsFrame, value) for value in values]
    return [(one.first_seq, one.events) for one in frames]


CLOSERS: dict[str, list[object]] = {
    "openai": [FINISH, USAGE, ERROR],
    "openai-compat": [FINISH, USAGE, ERROR, {"x_groq": {"usage": {"a": 1}}, "choices": []}],
    "mistral": [FINISH, {**FINISH, "usage": {"total_tokens": 1}}, ERROR],
    "openai-responses": [
        {"type": "response.completed", "sequence_number": 40, "response": {"status": "completed", "output": []}},
        {"type": "response.failed", "sequence_number": 40, "response": {"status": "failed"}},
        {"type": "error", "sequence_number": 40, "code": "server_error", "message": "m"},
    ],
    "anthropic": [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
        {"type": "error", "error": {"type": "overloaded_error"}},
    ],
    "gemini": [
        {"candidates": [{"finishReason": "STOP"}]},
        {"usageMetadata": {"totalTokenCount": 1}},
        {"error": {"code": 503, "status": "UNAVAILABLE"}},
        {"promptFeedback": {"blockReason": "SAFETY"}},
    ],
    "bedrock": [
        {"messageStop": {"stopReason": "end_turn"}},
        {"metadata": {"usage": {"totalTokens": 1}}},
        {"throttlingException": {"message": "m"}},
    ],
    "canonical": [
        {"handle": "h", "generation": 1, "turnStop": {"class": "complete", "blocks": 0}},
        {"handle": "h", "generation": 1, "usage": {"a": 1}},
        {"handle": "h", "generation": 1, "error": {"type": "e", "class": "retryable"}},
    ],
}


def test_every_profile_is_here() -> None:
    assert set(CLOSERS) == set(profiles())


@pytest.mark.parametrize(("profile", "event"), [(p, e) for p, events in CLOSERS.items() for e in events])
def test_each_terminal_usage_and_error_is_kept_alone(profile: str, event: object) -> None:
    noise: list[object] = ["not json", {"type": "ping"}, {"x": 1}]
    found = read(closing_frames(frame(*noise, event, *noise, first=10, profile=profile)))
    assert found == [(13, (json.dumps(event),))]


def test_runs_of_closing_events_are_frames_and_an_end_stays() -> None:
    value = frame(FINISH, USAGE, CHUNK, ERROR, first=7)
    assert read(closing_frames(value)) == [(7, (json.dumps(FINISH), json.dumps(USAGE))), (10, (json.dumps(ERROR),))]
    assert closing_frames(frame(CHUNK)) == []
    assert closing_frames(end()) == [end()]
    assert closing_frames(b"{") == closing_frames(b'{"schema":"Else.v1"}') == []
    assert closing_frames(frame(FINISH, profile="no-such-profile")) == []


def test_beyond_the_limit_only_they_are_written() -> None:
    quarantine = FrameQuarantine(Metrics())
    big = frame({**CHUNK, "pad": "x" * QUARANTINE_BYTES_MAX})
    values = [big, frame(CHUNK, first=1), frame(CHUNK, FINISH, CHUNK, USAGE, first=2), end()]
    outputs = [
        quarantine.put(InputRecord("stream-events", 0, offset, 1, b"t/c", value), REF, "late")
        for offset, value in enumerate(values)
    ]
    assert [len(one) for one in outputs] == [1, 0, 2, 1]
    kept = [Kept(1, decode(Quarantined, one.value)) for output in outputs for one in output]
    (case,) = cases_of([*kept, *kept])
    assert len(case.kept) == 4
    assert read([one.payload for one in case.kept if one.whole][:2]) in (
        [(3, (json.dumps(FINISH),)), (5, (json.dumps(USAGE),))],
        [(5, (json.dumps(USAGE),)), (3, (json.dumps(FINISH),))],
    )
    assert len({dict(one.headers)["ce_id"] for output in outputs for one in output}) == 4


def test_a_terminal_inside_the_frame_that_is_cut_is_kept() -> None:
    value = frame({**CHUNK, "pad": "x" * QUARANTINE_BYTES_MAX}, FINISH)
    outputs = FrameQuarantine(Metrics()).put(InputRecord("stream-events", 0, 0, 1, b"t/c", value), REF, "late")
    cut, part = (decode(Quarantined, one.value) for one in outputs)
    assert len(cut.payload.value) < cut.payload.length == len(value)
    assert read([part.payload.value.encode()]) == [(1, (json.dumps(FINISH),))]


def test_what_closes_is_bounded_too() -> None:
    quarantine = FrameQuarantine(Metrics())
    usage = {**USAGE, "pad": "x" * 50_000}
    written = 0
    for offset in range(20):
        record = InputRecord("stream-events", 0, offset, 1, b"t/c", frame(usage, first=offset))
        written += sum(len(one.value) for one in quarantine.put(record, REF, "late"))
    assert CLOSING_BYTES_MAX < written < 2 * (CLOSING_BYTES_MAX + 2 * QUARANTINE_BYTES_MAX)


def test_an_open_stream_keeps_them_too() -> None:
    one = OpenStream(
        key=b"t/c", operation_id="op", manifest_digest="", tools=None, generation=1, relay=1, first_offset=0,
        assembler=Assembler(profile="openai", tools=compile_toolset({})), events=None,  # type: ignore[arg-type]
    )  # fmt: skip
    long = {"id": "r", "choices": [{"index": 0, "delta": {"content": "x" * 40_000}, "finish_reason": None}]}
    sent: list[list[object]] = [[long], [long], [CHUNK], [CHUNK, FINISH], [USAGE]]
    seq = 0
    for offset, events in enumerate(sent):
        value = frame(*events, first=seq)
        texts = [json.dumps(event) for event in events]
        one.feed(InputRecord("stream-events", 0, offset, 1, b"t/c", value), Events("op", 1, 1, seq, texts))
        seq += len(events)
    assert [offset for offset, _ in one.kept] == [0, 3, 4]
    assert read([value for _, value in one.kept[1:]]) == [(4, (json.dumps(FINISH),)), (5, (json.dumps(USAGE),))]
