"""The profile anthropic: what passes, and for every finding a stream that has it and one that just has not."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from plain_gate.fixture import report_on

TOOLS = {"forecast": {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}}
VOSS = '{"city": "Voss"}'
BEGIN = {"type": "message_start", "message": {"id": "m1", "content": [], "usage": {"input_tokens": 1}}}
END = {"type": "message_stop"}


def start(index=0, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index=0, **fields):
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop(index=0):
    return {"type": "content_block_stop", "index": index}


def ending(reason, **more):
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": {"output_tokens": 2}}


def call(text=VOSS, index=0, ident="t1", name="forecast"):
    begun = start(index, type="tool_use", id=ident, name=name, input={})
    return [begun, delta(index, type="input_json_delta", partial_json=text), stop(index)]


def server(text, index=1):
    begun = start(index, type="server_tool_use", id="srv", name="web", input={})
    return [begun, delta(index, type="input_json_delta", partial_json=text), stop(index)]


TEXT = [start(type="text", text=""), delta(type="text_delta", text="hei"), stop()]


def judge(*events, raw=False, reason="tool_use"):
    whole = list(events) if raw else [BEGIN, *events, ending(reason), END]
    return report_on(json.dumps({"profile": "anthropic", "tool_schemas": TOOLS, "events": whole}).encode())


def codes(report, severity="error"):
    return {finding["code"] for finding in report["findings"] if finding["severity"] == severity}


class Passes(unittest.TestCase):
    def test_thinking_then_text_then_a_call_in_pieces(self):
        thinking = [start(type="thinking", thinking=""), delta(type="thinking_delta", thinking="hm"),
                    delta(type="signature_delta", signature="s"), stop()]  # fmt: skip
        text = [start(1, type="text", text=""), delta(1, type="text_delta", text="hei"), stop(1)]
        begun = start(2, type="tool_use", id="t1", name="forecast", input={})
        pieces = [delta(2, type="input_json_delta", partial_json=part) for part in ("", '{"city": "V', 'oss"}')]
        report = judge(*thinking, {"type": "ping"}, *text, begun, *pieces, stop(2))
        self.assertEqual((report["status"], report["findings"]), ("pass", []))
        (only,) = report["calls"]
        self.assertEqual(
            (only["id"], only["name"], only["argumentsRaw"], only["slot"]), ("t1", "forecast", VOSS, "0/2")
        )
        wanted = {"input_tokens": 1, "output_tokens": 2}
        self.assertEqual(
            (report["turn"]["text"], report["turn"]["reasoning"], report["turn"]["usage"]), ("hei", "hm", wanted)
        )

    def test_no_input_is_an_empty_object(self):
        for events in (call(""), [call()[0], stop()]):
            (only,) = judge(*events)["calls"]
            self.assertEqual((only["arguments"], only["argumentsRaw"]), ({}, ""))

    def test_input_in_the_start_counts_as_it_stands(self):
        block = '{"type":"tool_use","id":"t1","name":"forecast","input":{"city":  "Voss"}}'
        event = f'{{"type":"content_block_start","index":0,"content_block":{block}}}'
        events = [json.dumps(BEGIN), event, *map(json.dumps, (stop(), ending("tool_use"), END))]
        report = report_on(
            f'{{"profile":"anthropic","tool_schemas":{json.dumps(TOOLS)},"events":[{",".join(events)}]}}'.encode()
        )
        self.assertEqual([call["argumentsRaw"] for call in report["calls"]], ['{"city":  "Voss"}'])

    def test_server_tools_beside_a_call_are_no_calls(self):
        result = [start(2, type="web_search_tool_result", tool_use_id="srv", content=[]), stop(2)]
        report = judge(*call(), *server('{"q": 1}'), *result)
        self.assertEqual((report["status"], len(report["calls"])), ("pass", 1))

    def test_text_alone_a_pause_and_a_refusal_are_not_applicable(self):
        for reason in ("end_turn", "stop_sequence", "max_tokens", "pause_turn", "refusal"):
            report = judge(*TEXT, reason=reason)
            self.assertEqual((report["status"], report["applicable"], codes(report)), ("not_applicable", False, set()))


class Findings(unittest.TestCase):
    """(code, a stream that has it, one that just has not); whole streams where they begin with message_start."""

    CASES = (
        ("identity_collision", [*call(), *call(ident="t2")], [*call(), *call(index=1, ident="t2")]),
        (
            "identity_collision",
            [BEGIN, *TEXT, BEGIN, *call(index=1), ending("tool_use"), END],
            [BEGIN, BEGIN, *call(), ending("tool_use"), END],
        ),
        ("missing_slot", call()[1:], call()),
        ("missing_slot", [*call()[:2], {"type": "content_block_stop"}], call()),
        ("missing_slot", [call()[0], delta(type="text_delta", text="x"), stop()], call()),
        ("missing_slot", [*call(), delta(4, type="input_json_delta", partial_json="{}")], call()),
        ("missing_identity", call(ident=""), call(ident="x")),
        ("missing_identity", call(name=None), call()),
        ("missing_terminal", [BEGIN, *call(), ending("tool_use")], [BEGIN, *call(), ending("tool_use"), END]),
        (
            "missing_terminal",
            [BEGIN, *call(), ending(None), END],
            [BEGIN, *call(), ending(None), ending("tool_use"), END],
        ),
        ("missing_terminal", call()[:2], call()),
        ("wrong_terminal_reason", TEXT, call()),
        ("wrong_terminal_reason", [BEGIN, *call(), ending("end_turn"), END], [BEGIN, *TEXT, ending("end_turn"), END]),
        (
            "wrong_terminal_reason",
            [BEGIN, *call(), ending("max_tokens"), END],
            [BEGIN, *TEXT, ending("max_tokens"), END],
        ),
        ("wrong_terminal_reason", [BEGIN, *TEXT, ending("mystery"), END], [BEGIN, *TEXT, ending("refusal"), END]),
        ("duplicate_terminal", [*call(), stop()], call()),
        (
            "duplicate_terminal",
            [BEGIN, *call(), ending("end_turn"), ending("tool_use"), END],
            [BEGIN, *call(), ending("tool_use"), ending("tool_use"), END],
        ),
        (
            "duplicate_terminal",
            [BEGIN, *call(), ending("tool_use"), END, END],
            [BEGIN, *call(), ending("tool_use"), END, {"type": "ping"}],
        ),
        ("delta_after_terminal", [*call(), call()[1]], call()),
        ("delta_after_terminal", [BEGIN, ending("tool_use"), *call(), END], [BEGIN, *call(), ending("tool_use"), END]),
        ("delta_after_terminal", [BEGIN, END, *call(), ending("tool_use")], [BEGIN, *call(), ending("tool_use"), END]),
        (
            "delta_after_terminal",
            [BEGIN, *call(), ending("tool_use"), call(index=7)[1], END],
            [BEGIN, *call(), ending("tool_use"), END],
        ),
        (
            "missing_events",
            [*call(), ending("tool_use"), END, BEGIN],
            [{"type": "ping"}, BEGIN, *call(), ending("tool_use"), END],
        ),
        ("malformed_json", call('{"city": "Vo'), call()),
        ("malformed_json", [*call(), *server('{"q": "cu')], [*call(), *server("")]),
        ("trailing_json", call(VOSS + "{}"), call(VOSS + " ")),
        ("trailing_json", [start(type="tool_use", id="t1", name="forecast", input={"city": "x"}), *call()[1:]], call()),
        ("duplicate_key", call('{"city": "a", "city": "b"}'), call()),
        ("non_finite_number", call('{"city": -Infinity}'), call('{"city": "-Infinity"}')),
        ("invalid_unicode", call('{"city": "\\udc00"}'), call('{"city": "\\\\udc00"}')),
        ("non_object_arguments", call("null"), call("{}")),
        ("unknown_tool", call(name="nobody"), call()),
        ("schema_invalid", call('{"town": "x"}'), call()),
        ("duplicate_call_id", [*call(), *call(index=1)], [*call(), *call(index=1, ident="t2")]),
        ("unknown_event", [*call(), {"type": "sparkle"}], [*call(), {"type": "ping"}]),
        (
            "unknown_event",
            [*call(), start(1, type="sparkle"), stop(1)],
            [*call(), start(1, type="new_tool_result"), stop(1)],
        ),
        ("unknown_event", [*call()[:2], delta(type="sparkle_delta"), stop()], call()),
        (
            "provider_error",
            [BEGIN, *call(), ending("tool_use"), END, {"type": "error", "error": {"type": "x"}}],
            [BEGIN, *call(), ending("tool_use"), END],
        ),
        ("too_large", call('{"a":' * 65 + "1" + "}" * 65), call()),
    )

    def test_every_finding_blocks_and_its_near_miss_does_not(self):
        for code, bad, good in self.CASES:
            with self.subTest(code=code, bad=bad):
                report = judge(*bad, raw=BEGIN in bad)
                self.assertEqual((report["status"], report["executable"], report["calls"]), ("fail", False, []))
                self.assertIn(code, codes(report))
                report = judge(*good, raw=BEGIN in good)
                self.assertEqual((codes(report), report["turn"]["verdict"]), (set(), "commit"))

    def test_the_cut_input_of_a_server_tool_is_void_with_a_refusal(self):
        cut = server('{"q": "cu', index=0)
        self.assertEqual(codes(judge(*cut, reason="end_turn")), {"malformed_json"})
        self.assertEqual(codes(judge(*cut, reason="refusal")), set())

    def test_a_block_that_may_be_a_call_counts_as_one(self):
        self.assertEqual(judge(start(type="tool_future"), stop(), reason="end_turn")["status"], "fail")
        self.assertEqual(judge(start(type="sparkle"), stop(), reason="end_turn")["status"], "not_applicable")

    def test_cut_anywhere_nothing_runs(self):
        events = [BEGIN, *TEXT, *call(index=1), ending("tool_use"), END]
        for end in range(len(events)):
            self.assertEqual(judge(*events[:end], raw=True)["calls"], [])


if __name__ == "__main__":
    unittest.main()
