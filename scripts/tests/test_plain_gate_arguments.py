"""Strict JSON, exact texts, the subset of JSON Schema, and the limits of a turn."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from plain_gate.strict_json import BYTES_MAX, Refused, members, read_arguments, text_at
from plain_gate.tool_schema import CHARACTERS_MAX, DEPTH_MAX, PARTS_MAX, ToolSchema
from plain_gate.turn import BLOCKS_MAX, CALL, TURN_BYTES_MAX, Turn

ANY = {"type": "object"}


def refusal(text):
    try:
        read_arguments(text)
    except Refused as refused:
        return refused.code
    return None


class StrictJson(unittest.TestCase):
    def test_codes(self):
        for text, code in (
            ("{}", None),
            (" {\n}\t", None),
            ('{"a": 1e-400}', None),
            ('{"a": "\\\\ud800"}', None),
            ('{"a": "\\ud83d\\ude00"}', None),
            ("", "malformed_json"),
            (" ", "malformed_json"),
            ("{", "malformed_json"),
            ('{"a": 1,}', "malformed_json"),
            ('{"a": 01}', "malformed_json"),
            ('{"a": "\n"}', "malformed_json"),
            ("\ufeff{}", "malformed_json"),
            ("{'a': 1}", "malformed_json"),
            ("{} {}", "trailing_json"),
            ("{}x", "trailing_json"),
            ("{}\u00a0", "trailing_json"),
            ('{"a": 1, "a": 2} x', "trailing_json"),
            ('{"a": {"b": 1, "b": 1}}', "duplicate_key"),
            ('[{"a": 1, "a": 1}]', "duplicate_key"),
            ('{"a": NaN}', "non_finite_number"),
            ('{"a": -Infinity', "non_finite_number"),
            ('{"a": -1e400}', "non_finite_number"),
            ('{"a": "\\ud800"}', "invalid_unicode"),
            ('{"\\udc00": 1}', "invalid_unicode"),
            ('{"a": "\ud83d"}', "invalid_unicode"),
            ('{"a": "\\ud83d\\ud83d\\ude00"}', "invalid_unicode"),
            ('{"a": "\\ud800", "a": 1}', "invalid_unicode"),
            ("[]", "non_object_arguments"),
            ("null", "non_object_arguments"),
            ('"x"', "non_object_arguments"),
            ("1", "non_object_arguments"),
            ('{"n": ' + "9" * 400 + "}", "too_large"),
            ('{"n": ' + "9" * 5000 + "}", "too_large"),
            ('{"n": ' + "9" * 400, "malformed_json"),
        ):
            with self.subTest(text=text[:40]):
                self.assertEqual(refusal(text), code)

    def test_limits(self):
        at_most = '{"a": "' + "é" * ((BYTES_MAX - 10) // 2) + '"}'
        self.assertEqual(len(at_most.encode()) - BYTES_MAX, -1)
        self.assertEqual((refusal(at_most + " "), refusal(at_most + "  ")), (None, "too_large"))
        self.assertEqual(
            (refusal('{"a":' * 64 + "1" + "}" * 64), refusal('{"a":' * 65 + "1" + "}" * 65)), (None, "too_large")
        )
        self.assertEqual(refusal('{"a":' * 100_000), "too_large")

    def test_exact_texts(self):
        text = ' { "a" : [1.0, {"b":  "\\u00e9"}] , "c":{}, "a": [ 2 , 3] }'
        self.assertEqual(list(members(text)), [("a", '[1.0, {"b":  "\\u00e9"}]'), ("c", "{}"), ("a", "[ 2 , 3]")])
        self.assertEqual((text_at(text, "a"), text_at(text, "a", 1), text_at(text, "x", "y")), ("[ 2 , 3]", "3", ""))


class Schemas(unittest.TestCase):
    def test_values(self):
        account = {"$defs": {"n": {"type": "integer"}}, "properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["x"]}
        tree = {"type": "object", "properties": {"below": {"$ref": "#"}}, "additionalProperties": False}
        for schema, good, bad in (
            (account, [{"x": 1.0}, {"x": 10**30}, "other"], [{"x": 1.5}, {"x": True}, {}]),
            (tree, [{}, {"below": {"below": {}}}], [{"below": {"x": 1}}, []]),
            ({"type": ["string", "null"]}, ["", None], [0, False]),
            ({"enum": [1, "a", None]}, [1.0, "a", None], [True, "1", 0]),
            ({"const": {"a": [1, False]}}, [{"a": [1.0, False]}], [{"a": [1, 0]}, {"a": [1]}]),
            ({"minimum": 1, "exclusiveMaximum": 3}, [1, 2.5, "x"], [0.5, 3]),
            ({"minLength": 1, "maxLength": 2}, ["é", "🌊🌊"], ["", "abc"]),
            ({"items": {"type": "null"}, "prefixItems": [True]}, [[1, None], []], [[1, 1]]),
            ({"uniqueItems": True, "minItems": 1}, [[1, True], [[1], [2]]], [[], [1, 1.0], [{"a": 1}, {"a": 1.0}]]),
            ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 1}]),
            ({"properties": {"a": True}, "additionalProperties": {"type": "string"}}, [{"a": 1, "b": ""}], [{"b": 1}]),
            ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2], [0, 3]),
            ({"anyOf": [{"maximum": 1}, {"minimum": 3}]}, [0, 3], [2]),
            ({"oneOf": [{"maximum": 2}, {"minimum": 2}]}, [1, 3], [2]),
            ({"not": {"type": "string"}}, [1], ["x"]),
            ({"format": "email", "description": "x", "default": 3}, ["no mail"], []),
            (False, [], [None]), (True, [None], []),
        ):  # fmt: skip
            with self.subTest(schema=schema):
                self.assertEqual([value for value in good if not ToolSchema(schema).accepts(value)], [])
                self.assertEqual([value for value in bad if ToolSchema(schema).accepts(value)], [])

    def test_what_is_outside_the_subset_is_refused_wherever_it_stands(self):
        for schema in (
            {"pattern": "x"},
            {"multipleOf": 2},
            {"if": {}},
            {"patternProperties": {}},
            {"unevaluatedProperties": False},
            {"contains": {}},
            {"$dynamicRef": "#"},
            {"nullable": True},
            {"strict": True},
            {"type": "str"},
            {"type": []},
            {"type": ["string", "string"]},
            {"required": ["a", "a"]},
            {"required": "a"},
            {"enum": 3},
            {"minLength": -1},
            {"maximum": "3"},
            {"minItems": True},
            {"allOf": []},
            {"items": [True]},
            {"properties": [1]},
            {"title": 3},
            {"$schema": "x"},
            {"properties": {"a": {"$schema": "https://json-schema.org/draft/2020-12/schema"}}},
            {"$ref": "https://example.com/x"},
            {"$ref": "#/$defs/none"},
            {"$ref": "#/$defs"},
            {"$ref": 3},
            {"$ref": "#"},
            3,
            None,
            [],
            {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
            {"minimum": float("nan")},
            {"enum": ["\ud800"]},
            {"description": "x" * CHARACTERS_MAX},
            {"allOf": [True] * PARTS_MAX},
        ):
            for whole in (schema, {"properties": {"deep": schema}}, {"$defs": {"unused": {"not": schema}}}):
                with self.subTest(schema=str(whole)[:80]), self.assertRaises(Refused) as raised:
                    ToolSchema(whole)
                if raised:
                    self.assertEqual(raised.exception.code, "unsupported_schema")
                if schema == {"$ref": "#"}:
                    break  # below a property it goes down into the value

    def test_depth(self):
        deep = {}
        for _ in range(DEPTH_MAX):
            deep = {"items": deep}
        ToolSchema(deep)
        with self.assertRaises(Refused):
            ToolSchema({"items": deep})

    def test_references_that_double_with_each_step_are_refused_at_once(self):
        for steps, refused in ((8, False), (9, True), (60, True)):
            places = {f"{n}": {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(steps)}
            schema = {"$defs": {**places, f"{steps}": {}}}
            with self.subTest(steps=steps):
                if refused:
                    self.assertRaises(Refused, ToolSchema, schema)
                else:
                    ToolSchema(schema)

    def test_what_takes_too_much_to_tell_is_refused(self):
        doubled = {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "type": "object"}
        value = 1
        for _ in range(60):
            value = {"a": value}
        self.assertFalse(ToolSchema(doubled).accepts(value))  # what was said there is remembered
        wide = {"items": {"anyOf": [{"const": n} for n in range(200)]}}
        with self.assertRaises(Refused) as raised, mock.patch("plain_gate.tool_schema.STEPS_MAX", 10_000):
            ToolSchema(wide).accepts([199] * 100)
        self.assertEqual(raised.exception.code, "too_large")
        nested = {"items": {"$ref": "#"}}
        for _ in range(30):
            nested = {"allOf": [nested]}
        value = []
        for _ in range(60):
            value = [value]
        with self.assertRaises(Refused) as raised:
            ToolSchema(nested).accepts(value)
        self.assertEqual(raised.exception.code, "too_large")
        chain = {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(2000)}
        with self.assertRaises(Refused) as raised:
            ToolSchema({"$defs": {**chain, "2000": {}}})
        self.assertEqual(raised.exception.code, "unsupported_schema")


class Limits(unittest.TestCase):
    def codes(self, turn):
        return [finding["code"] for finding in turn.findings]

    def test_bytes_of_a_turn(self):
        turn = Turn(blocks_need_an_end=False)
        turn.begin(0, 0, "text", 0)
        turn.add(0, 0, "é" * (TURN_BYTES_MAX // 2))
        self.assertEqual(self.codes(turn), [])
        turn.add(0, 0, "x")
        self.assertEqual((self.codes(turn), len(turn.choices[0].blocks[0].text)), (["too_large"], TURN_BYTES_MAX // 2))

    def test_bytes_of_a_call(self):
        turn = Turn(blocks_need_an_end=False)
        turn.begin(0, 0, CALL, 0, "c", "any")
        turn.add(0, 0, "x" * BYTES_MAX)
        self.assertEqual(self.codes(turn), [])
        turn.add(0, 0, "x")
        self.assertEqual((self.codes(turn), turn.choices[0].blocks[0].text), (["too_large"], ""))

    def test_ids_names_usage_and_what_is_kept_verbatim(self):
        deep, flat = '{"a":' * 65 + "1" + "}" * 65, '{"a":' * 64 + "1" + "}" * 64
        for code, step in (
            (None, lambda turn: turn.begin(0, 0, CALL, 0, "c" * 256, "n" * 256)),
            ("too_large", lambda turn: turn.begin(0, 0, CALL, 0, "c" * 257, "n")),
            ("too_large", lambda turn: turn.begin(0, 0, CALL, 0, "c", "n" * 257)),
            (None, lambda turn: turn.begin(0, 0, "opaque", 0, holds=flat)),
            ("too_large", lambda turn: turn.begin(0, 0, "opaque", 0, holds=deep)),
            (None, lambda turn: turn.count({"a": 1}, '"' + "x" * 65_534 + '"')),
            ("too_large", lambda turn: turn.count({"a": 1}, '"' + "x" * 65_535 + '"')),
            ("too_large", lambda turn: turn.count({"a": 1}, deep)),
            (None, lambda turn: turn.stop(0, "filtered", refusal="x" * TURN_BYTES_MAX)),
            ("too_large", lambda turn: turn.stop(0, "filtered", refusal="x" * (TURN_BYTES_MAX + 1))),
        ):
            turn = Turn(blocks_need_an_end=False)
            step(turn)
            self.assertEqual(self.codes(turn), [code] if code else [])
        for use, codes in (("text", []), ("word", []), ("json", ["too_large"])):
            turn = Turn(blocks_need_an_end=False)
            turn.begin(0, 0, "text", 0)
            turn.add(0, 0, deep, use)
            self.assertEqual((self.codes(turn), turn.choices[0].blocks[0].text), (codes, deep if use == "text" else ""))
        turn.name_response("r" * 257)
        self.assertEqual((self.codes(turn), turn.findings[-1]["severity"]), (["too_large"] * 2, "note"))

    def test_blocks_of_a_turn(self):
        turn = Turn(blocks_need_an_end=False)
        for number in range(BLOCKS_MAX + 1):
            self.assertEqual(self.codes(turn), [])
            turn.begin(0, number, "text", number)
        self.assertEqual(self.codes(turn), ["too_large"])


if __name__ == "__main__":
    unittest.main()
