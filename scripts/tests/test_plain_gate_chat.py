"""The profiles openai and mistral: what passes, and for every finding a stream that has it and one that has it not."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from plain_gate.fixture import report_on

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = {"forecast": CITY, "any": {"type": "object"}, "odd": {"type": "object", "pattern": "x", "nullable": True}}
VOSS = '{"city": "Voss"}'


def chunk(delta=None, finish=None, choice=0, **more):
    body = {"index": choice, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "r1", "object": "chat.completion.chunk", "choices": [body], **more}


def piece(arguments, index=0, choice=0, **named):
    entry = {"function": {"arguments": arguments}}
    if index is not None:
        entry["index"] = index
    if "name" in named:
        entry["function"]["name"] = named["name"]
    if "ident" in named:
        entry["id"] = named["ident"]
    return chunk({"tool_calls": [entry]}, choice=choice)


def call(arguments=VOSS, index=0, ident="c1", name="forecast", choice=0):
    return piece(arguments, index, choice, ident=ident, name=name)


CALLS, STOP, HELLO = chunk(finish="tool_calls"), chunk(finish="stop"), chunk({"content": "hello"})


def judge(*events, profile="openai", **more):
    fixture = {"profile": profile, "tool_schemas": TOOLS, "chunks": list(events), **more}
    return report_on(json.dumps(fixture).encode())


def codes(report, severity="error"):
    return {finding["code"] for finding in report["findings"] if finding["severity"] == severity}


def shown(report):
    return [(call["id"], call["name"], call["argumentsRaw"], call["slot"]) for call in report["calls"]]


class Passes(unittest.TestCase):
    def test_a_call_in_pieces(self):
        report = judge(call('{"ci'), piece('ty": "V'), piece("oss"), piece('"}'), CALLS, "[DONE]")
        self.assertEqual((report["status"], report["applicable"], report["executable"]), ("pass", True, True))
        self.assertEqual(shown(report), [("c1", "forecast", VOSS, "0/0")])
        self.assertEqual(report["calls"][0]["arguments"], {"city": "Voss"})
        self.assertEqual(report["findings"], [])

    def test_interleaved_calls_come_in_order_of_their_beginning(self):
        report = judge(call('{"city": "A', 1), call('{"city": "B', 0, "c2"), piece('1"}', 1), piece('2"}'), CALLS)
        wanted = [("c1", "forecast", '{"city": "A1"}', "0/1"), ("c2", "forecast", '{"city": "B2"}', "0/0")]
        self.assertEqual(shown(report), wanted)

    def test_numbers_keep_their_digits(self):
        text = '{"n": 12345678901234567890123, "f": 1.0}'
        (only,) = judge(call(text, name="any"), CALLS)["calls"]
        self.assertEqual((only["argumentsRaw"], json.dumps(only["arguments"])), (text, text))

    def test_text_alone_is_not_applicable(self):
        report = judge(
            HELLO, chunk({"content": " there"}), STOP, {"id": "r1", "choices": [], "usage": {"total_tokens": 3}}
        )
        self.assertEqual(
            (report["status"], report["applicable"], report["executable"]), ("not_applicable", False, False)
        )
        wanted = {
            "verdict": "commit",
            "stop": "complete",
            "text": "hello there",
            "reasoning": "",
            "usage": {"total_tokens": 3},
        }
        self.assertEqual(report["turn"], wanted)

    def test_a_forced_tool_may_stop_with_stop_in_openai_alone(self):
        named = {"type": "function", "function": {"name": "forecast"}}
        for choice in ("forced", named):
            self.assertEqual(judge(call(), STOP, tool_choice=choice)["status"], "pass")
            self.assertEqual(judge(call(), STOP, profile="mistral", tool_choice=choice)["status"], "fail")
        for choice in ("auto", "required", {"type": "allowed_tools"}):
            self.assertEqual(judge(call(), STOP, tool_choice=choice)["status"], "fail")

    def test_an_identity_said_again_is_noted(self):
        report = judge(call('{"city": '), call('"Voss"}'), CALLS)
        self.assertEqual(
            (report["status"], codes(report), codes(report, "note")), ("pass", set(), {"identity_collision"})
        )

    def test_events_may_be_recorded_with_their_names(self):
        events = [
            {"event": None, "data": call()},
            {"event": None, "data": json.dumps(CALLS)},
            {"event": None, "data": "[DONE]"},
        ]
        self.assertEqual(judge(*events)["status"], "pass")


class Findings(unittest.TestCase):
    """(code, a stream that has it, one that just has not), in the profile openai."""

    CASES = (
        ("identity_collision", [call(), call(ident="c2"), CALLS], [call(), call(index=1, ident="c2"), CALLS]),
        (
            "identity_collision",
            [call("{"), piece("}", name="forecast"), CALLS],
            [call(VOSS), piece("", name=""), CALLS],
        ),
        ("identity_collision", [call("", name="fore"), call(name="cast"), CALLS], [call(""), call(), CALLS]),
        ("identity_collision", [{**HELLO, "id": "r2"}, call(), CALLS], [{**HELLO, "id": ""}, call(), CALLS]),
        ("missing_slot", [call(index=None), CALLS], [call(), CALLS]),
        ("missing_slot", [call(index="0"), CALLS], [call(index=3), CALLS]),
        ("missing_slot", [chunk({"content": "x"}, choice=None), call(), CALLS], [HELLO, call(), CALLS]),
        ("missing_identity", [piece(VOSS, name="forecast"), CALLS], [call(), CALLS]),
        ("missing_identity", [piece(VOSS, ident="c1"), CALLS], [call(""), piece(VOSS), CALLS]),
        (
            "missing_identity",
            [chunk({"function_call": {"name": "any"}}), CALLS],
            [chunk({"function_call": {}}), call(), CALLS],
        ),
        ("missing_terminal", [call(), "[DONE]"], [call(), CALLS]),
        ("wrong_terminal_reason", [call(), STOP], [HELLO, STOP]),
        ("wrong_terminal_reason", [HELLO, CALLS], [HELLO, STOP]),
        ("wrong_terminal_reason", [call(), chunk(finish="length")], [HELLO, chunk(finish="length")]),
        ("wrong_terminal_reason", [HELLO, chunk(finish="mystery")], [HELLO, chunk(finish="content_filter")]),
        ("wrong_terminal_reason", [chunk({"refusal": "no"}), call(), CALLS], [chunk({"refusal": "no"}), STOP]),
        ("duplicate_terminal", [call(), CALLS, CALLS], [call(), CALLS, chunk({"content": ""})]),
        ("delta_after_terminal", [call(), CALLS, HELLO], [HELLO, call(), CALLS]),
        ("delta_after_terminal", [call(), CALLS, piece("")], [call(), piece(""), CALLS]),
        (
            "missing_events",
            [{"id": "r1", "choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}]}],
            [HELLO, {"id": "r1", "choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}]}],
        ),
        ("malformed_json", [call('{"city": "Vo'), CALLS], [call(), CALLS]),
        ("malformed_json", [call(""), CALLS], [call("{}", name="any"), CALLS]),
        ("malformed_json", [call({"city": "Voss"}), CALLS], [call(), CALLS]),
        ("malformed_json", ["{no json", HELLO, STOP], ["[DONE]", HELLO, STOP]),
        ("trailing_json", [call(VOSS + VOSS), CALLS], [call(VOSS + " \n"), CALLS]),
        (
            "duplicate_key",
            [call('{"a": 1, "\\u0061": 1}', name="any"), CALLS],
            [call('{"a": 1, "A": 1}', name="any"), CALLS],
        ),
        ("non_finite_number", [call('{"x": NaN}', name="any"), CALLS], [call('{"x": "NaN"}', name="any"), CALLS]),
        ("non_finite_number", [call('{"x": 1e999}', name="any"), CALLS], [call('{"x": 1e300}', name="any"), CALLS]),
        (
            "invalid_unicode",
            [call('{"x": "\\ud800"}', name="any"), CALLS],
            [call('{"x": "\\ud83d\\ude00"}', name="any"), CALLS],
        ),
        ("invalid_unicode", [chunk({"content": "\ud83d"}), STOP], [chunk({"content": "\ud83d\ude00"}), STOP]),
        ("non_object_arguments", [call("[1]", name="any"), CALLS], [call('{"a": [1]}', name="any"), CALLS]),
        ("unknown_tool", [call(name="Forecast"), CALLS], [call(), CALLS]),
        ("unsupported_schema", [call("{}", name="odd"), CALLS], [call("{}", name="any"), CALLS]),
        ("schema_invalid", [call('{"city": 1}'), CALLS], [call('{"city": "1"}'), CALLS]),
        ("duplicate_call_id", [call(), call(index=1), CALLS], [call(), call(index=1, ident="c2"), CALLS]),
        (
            "multiple_choices",
            [call(), chunk({"content": "x"}, choice=1), CALLS, chunk(finish="stop", choice=1)],
            [HELLO, chunk({"content": "x"}, choice=1), STOP, chunk(finish="stop", choice=1)],
        ),
        ("unknown_event", [call(), {"type": "surprise"}, CALLS], [HELLO, {"type": "surprise"}, STOP]),
        ("unknown_event", [call(), chunk({"tool_patch": {"x": 1}}), CALLS], [call(), chunk({"mood": "x"}), CALLS]),
        ("unknown_event", [chunk({"tool_patch": {"x": 1}}), STOP], [chunk({"tool_patch": {}}), STOP]),
        ("provider_error", [call(), CALLS, {"error": {"type": "x"}}], [call(), {**CALLS, "error": None}]),
        (
            "too_large",
            [call('{"a":' * 65 + "1" + "}" * 65, name="any"), CALLS],
            [call('{"a":' * 64 + "1" + "}" * 64, name="any"), CALLS],
        ),
        ("too_large", [call(ident="c" * 257), CALLS], [call(ident="c" * 256), CALLS]),
        (
            "too_large",
            [call('{"n": ' + "9" * 310 + "}", name="any"), CALLS],
            [call('{"n": ' + "9" * 308 + "}", name="any"), CALLS],
        ),
    )

    def test_every_finding_blocks_and_its_near_miss_does_not(self):
        for code, bad, good in self.CASES:
            with self.subTest(code=code, bad=bad):
                report = judge(*bad)
                self.assertEqual((report["status"], report["executable"], report["calls"]), ("fail", False, []))
                self.assertIn(code, codes(report))
                report = judge(*good)
                self.assertEqual((codes(report), report["turn"]["verdict"]), (set(), "commit"))

    def test_no_finding_quotes_content(self):
        for code, bad, _ in self.CASES:
            for finding in judge(*bad)["findings"]:
                self.assertNotRegex(finding["message"], "Voss|surprise|hello", code)

    def test_cut_anywhere_nothing_runs(self):
        events = [HELLO, call('{"city": "V'), piece('oss"}'), CALLS]
        for end in range(len(events)):
            self.assertEqual(judge(*events[:end])["calls"], [])

    def test_bytes_that_could_not_be_read_to_their_end_block(self):
        self.assertEqual(codes(judge(call(), CALLS, fault="bad_checksum")), {"missing_events"})


class Events(unittest.TestCase):
    def test_an_event_that_names_a_key_twice_blocks(self):
        twice = json.dumps(call()).replace('"id": "c1"', '"id": "c0", "id": "c1"')
        self.assertEqual(judge(call(), CALLS)["status"], "pass")
        report = judge(twice, CALLS)
        self.assertEqual((report["turn"]["verdict"], codes(report)), ("blocked", {"duplicate_key"}))

    def test_a_number_that_is_none_hides_no_stop(self):
        for number, code in (("NaN", "non_finite_number"), ("9" * 5000, "too_large")):
            last = json.dumps(chunk(finish="tool_calls", n="HERE")).replace('"HERE"', number)
            report = judge(call(), last)
            self.assertEqual((report["turn"]["verdict"], codes(report)), ("blocked", {code}))

    def test_a_stream_has_so_many_events(self):
        for most, wanted in ((3, set()), (2, {"too_large"})):
            with mock.patch("plain_gate.fixture.EVENTS_MAX", most):
                self.assertEqual(codes(judge(HELLO, call(), CALLS)), wanted)

    def test_a_label_that_contradicts_is_unknown(self):
        self.assertEqual(judge(call(), STOP)["turn"]["stop"], "unknown")
        self.assertEqual(codes(judge(call(), chunk(finish="function_call"))), {"wrong_terminal_reason"})


class Mistral(unittest.TestCase):
    def judge(self, *events, **more):
        return judge(*events, profile="mistral", **more)

    def test_whole_calls_without_an_index_are_told_apart_by_id(self):
        report = self.judge(call(VOSS, None, "a"), call("{}", None, "b", "any"), CALLS)
        self.assertEqual(shown(report), [("a", "forecast", VOSS, "0/0"), ("b", "any", "{}", "0/1")])

    def test_object_arguments_keep_their_exact_text(self):
        entry = '{"id": "a", "function": {"name": "any", "arguments": {"n":  1.0, "é": [1, 2]}}}'
        chunk = f'{{"choices": [{{"index": 0, "delta": {{"tool_calls": [{entry}]}}, "finish_reason": "tool_calls"}}]}}'
        fixture = f'{{"profile": "mistral", "tool_schemas": {{"any": {{}}}}, "chunks": [{chunk}]}}'
        self.assertEqual(shown(report_on(fixture.encode())), [("a", "any", '{"n":  1.0, "é": [1, 2]}', "0/0")])

    def test_an_empty_name_and_the_id_null_name_nothing(self):
        report = self.judge(call("{"), piece("}", ident="null", name=""), CALLS)
        self.assertEqual((shown(report), codes(report)), ([], {"schema_invalid"}))
        self.assertIn("missing_identity", codes(self.judge(call(ident="null"), CALLS)))
        self.assertIn("missing_slot", codes(self.judge(call(index=None, ident="null"), CALLS)))

    def test_another_name_or_index_collides(self):
        self.assertEqual(
            codes(self.judge(call("", name="fore"), call(name="cast"), CALLS)), {"identity_collision", "unknown_tool"}
        )
        self.assertIn("identity_collision", codes(self.judge(call(ident="a"), call(ident="b"), CALLS)))

    def test_thinking_and_text_chunks(self):
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "s"}
        report = self.judge(chunk({"content": [thinking, {"type": "text", "text": "hei"}]}), STOP)
        self.assertEqual((report["turn"]["reasoning"], report["turn"]["text"]), ("hm", "hei"))
        self.assertEqual(codes(self.judge(call(), chunk({"content": [{"type": "sparkle"}]}), CALLS)), {"unknown_event"})

    def test_its_stop_words(self):
        for word, verdict in (
            ("length", "commit"),
            ("model_length", "commit"),
            ("error", "failed"),
            ("content_filter", "blocked"),
        ):
            self.assertEqual(self.judge(HELLO, chunk(finish=word))["turn"]["verdict"], verdict, word)


if __name__ == "__main__":
    unittest.main()
