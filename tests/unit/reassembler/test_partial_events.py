"""Partials are written without building the model: byte for byte what the model would have given."""

from __future__ import annotations

import pytest

from turngate.domain.stream import Preview
from turngate.reassembler.events import IDENTIFIER_LENGTH_MAX, AttemptEvents
from turngate.runtime.records import Output
from turngate.schemas.codec import decode, encode
from turngate.schemas.requests import TurnOptions
from turngate.schemas.sequence import OperationSpec
from turngate.schemas.session import SessionEvent

SPEC = OperationSpec(
    operation_id="op-1", request_id="r", tenant="acme", conversation="c", base_revision=1, cancel_generation=0,
    sequence_digest="0" * 64, options=TurnOptions(endpoint="e", model="m", max_output_tokens=1),
)  # fmt: skip
PREVIEWS = (
    Preview("text", "started", 0),
    Preview("text", "delta", 0, 7, 'a "quoted" line\n\u2028 \U0001f600'),
    Preview("refusal", "delta", 0, 0, "no"),
    Preview("text", "stopped", 0, 9),
    Preview("thinking", "started", 1),
    Preview("reasoning", "delta", 1, 3, "hm"),
    Preview("tool_call", "started", 2, call_id="call_1", name="weather"),
    Preview("tool_call", "delta", 2, call_id="call_1", name="weather", byte_count=12),
)


def written(preview: Preview, relay: int = 1) -> Output:
    (out,) = AttemptEvents(SPEC, 3).previews([preview], relay, 1_700_000_000_000)
    return out


@pytest.mark.parametrize("preview", PREVIEWS, ids=lambda preview: f"{preview.kind}-{preview.phase}")
def test_a_partial_is_what_the_model_would_write(preview: Preview) -> None:
    out = written(preview)
    event = decode(SessionEvent, out.value)
    assert encode(event) == out.value
    assert (event.tenant, event.conversation, event.operation_id, event.generation) == ("acme", "c", "op-1", 3)
    assert (event.relay, event.block_index, event.at_ms) == (1, preview.block_index, 1_700_000_000_000)
    assert out.key == b"acme/c"
    headers = dict(out.headers)
    assert headers["ce_id"] == event.event_id.encode()
    assert headers["ce_type"] == b"io.turngate.SessionEvent.v1"
    assert headers["turngate_preview"] == b"1"
    if preview.kind == "tool_call":
        assert (event.type, event.call_id, event.tool) == ("partial_tool_call", "call_1", "weather")
        assert (event.byte_count, event.text) == (preview.byte_count, None)
    elif preview.phase == "delta":
        assert (event.text, event.text_offset) == (preview.text, preview.text_offset)
    else:
        assert (event.text, event.text_offset) == (None, None)


def test_partials_that_differ_have_ids_that_differ() -> None:
    longer = Preview("text", "delta", 0, 7, 'a "quoted" line and more')
    outs = [written(preview) for preview in (*PREVIEWS, longer)]
    outs.append(written(PREVIEWS[0], relay=2))
    assert len({dict(out.headers)["ce_id"] for out in outs}) == len(outs)


def test_a_call_id_no_record_can_hold_is_left_out_of_its_partial() -> None:
    event = decode(SessionEvent, written(Preview("tool_call", "started", 0, call_id="x" * 257, name="w")).value)
    assert (event.call_id, event.tool) == (None, "w")
    fits = Preview("tool_call", "started", 0, call_id="x" * IDENTIFIER_LENGTH_MAX, name="w")
    assert decode(SessionEvent, written(fits).value).call_id == fits.call_id
