"""What the calls of generated streams are made of: tools, arguments, and texts that only look like arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

Json = dict[str, object]

TOOLS: Mapping[str, object] = {
    "forecast": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "search": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "maxLength": 40},
            "tags": {"type": "array", "items": {"enum": ["a", "b", 1, None]}, "uniqueItems": True, "maxItems": 3},
            "page": {"type": ["integer", "null"], "exclusiveMinimum": 0},
        },
        "required": ["query"],
    },
    "pay": {
        "type": "object",
        "properties": {
            "amount": {"type": "number", "exclusiveMinimum": 0},
            "to": {"$ref": "#/$defs/account"},
            "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        },
        "required": ["amount", "to"],
        "$defs": {
            "account": {
                "oneOf": [{"type": "string", "minLength": 3}, {"type": "object", "required": ["iban"]}],
                "not": {"const": "nobody"},
            }
        },
    },
    "now": {"type": "object", "properties": {}, "additionalProperties": False},
    "loose": {"type": "object"},
    "odd": {"type": "object", "properties": {"x": {"type": "string", "nullable": True}}},
    "looped": {"allOf": [{"$ref": "#"}]},
}
"""Two of them hold what no gate takes."""

NAMES = ("forecast", "search", "pay", "now", "loose")
SAID_TWICE = (
    '{"a": 1, "\\u0061": 2}',
    '{"a": {"b": [{"c": 1, "c": 1}]}}',
    '{"": 1, "": 1}',
    '{"city": "a", "city": "a"}',
)
TEXTS = (
    "Voss",
    "Tromsø",
    "naïve",
    "東京",
    "🌊",
    "a\u0000b",
    'quote " and \\',
    "line\nbreak",
    "",
    "\u2028",
    "👩🏽‍🚀 up",
)


def some_text(random: Random) -> str:
    return "".join(random.choice(TEXTS) for _ in range(random.randint(1, 3)))


def arguments_for(name: str, random: Random) -> object:
    """Arguments that keep the tool's schema."""
    if name == "forecast":
        return {"city": some_text(random), **({"days": random.randint(1, 14)} if random.random() < 0.5 else {})}
    if name == "search":
        found: Json = {"query": "x" + random.choice(TEXTS)}
        if random.random() < 0.5:
            found["tags"] = random.sample(["a", "b", 1, None], random.randint(0, 3))
        if random.random() < 0.5:
            found["page"] = random.choice([None, 1, 2.0, 10**20])
        return found
    if name == "pay":
        to = random.choice(["acct", {"iban": "NO93"}, {"iban": None, "bic": [1, {"x": 2.5}]}])
        return {"amount": random.choice([1, 0.5, 12.25, 10**18, 1e300]), "to": to, "note": random.choice([None, "hi"])}
    if name == "loose":
        return random.choice([{}, {"a": [1, [2, {"b": "é"}]]}, {"n": 12345678901234567890123, "f": -0.0}])
    return {}


def broken_schema(name: str, random: Random) -> object:
    """An object that breaks the tool's schema, where the tool has one to break."""
    wrong: dict[str, list[object]] = {
        "forecast": [{}, {"city": 3}, {"city": "x", "days": 0}, {"city": "x", "days": 1.5}, {"city": "x", "more": 1}],
        "search": [
            {"query": ""},
            {"query": "x", "tags": ["a", "a"]},
            {"query": "x", "tags": [True]},
            {"query": "x" * 41},
        ],
        "pay": [
            {"amount": 0, "to": "abc"},
            {"amount": 1, "to": "ab"},
            {"amount": 1, "to": {}},
            {"amount": True, "to": "abc"},
        ],
        "now": [{"x": 1}],
    }
    return random.choice(wrong.get(name, [{}]))


def written(value: object, random: Random) -> str:
    """JSON text, compact or wide, with or without escapes."""
    wide = random.random() < 0.5
    text = json.dumps(value, ensure_ascii=random.random() < 0.5, separators=None if wide else (",", ":"))
    return f"{random.choice(['', ' ', chr(10)])}{text}{random.choice(['', '', ' ', chr(9)])}"


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def not_arguments(text: str, random: Random) -> str:
    """A text that is no strict JSON object."""
    inner = text.strip()
    return random.choice(
        [
            inner[: random.randrange(len(inner))],
            inner + random.choice(["{}", "x", "\u00a0", "}", "\x00", "null"]),
            inner + inner,
            '{"a": NaN}', '{"a": [-Infinity]}', '{"a": 1e999}', '{"a": -1e400, "b":',
            '{"a": "\\ud83d"}', '{"a": "\\ude00\\ud83d"}', '{"\\udc00": 1}', '{"a": "\\ud83d", "a": 1}',
            "[]", "null", '"text"', "3", "true", "[{}]",
            '{"a": 01}', "{'a': 1}", '{"a": 1,}', '{"a": "\n"}', "{a: 1}", '{"a": .5}', "\ufeff{}", "{", " ",
            nested(65), nested(2000), '{"n": ' + "9" * 400 + "}", '{"n": ' + "9" * 5000 + "}",
        ]
    )  # fmt: skip


def near_misses(random: Random) -> str:
    """Objects that strict JSON allows, though only just."""
    return random.choice(
        [
            nested(64),
            '{"a": "NaN"}',
            '{"a": 1e-400}',
            '{"a": "\\ud83d\\ude00"}',
            '{"a": "\\\\ud83d"}',
            '{"a": 1, "A": 2}',
            '{"a": -' + "9" * 308 + "}",
            "\t{ }\n",
            '{"": {"": {"": ""}}}',
        ]
    )


def argument_text(name: str, random: Random, wrong: float) -> str:
    """Text of the arguments of a call; with probability `wrong` not what the tool wants."""
    if random.random() >= wrong:
        text = written(arguments_for(name, random), random)
        return near_misses(random) if name == "loose" and random.random() < 0.3 else text
    kind = random.random()
    if kind < 0.25:
        return written(broken_schema(name, random), random)
    if kind < 0.35:
        return random.choice(SAID_TWICE)
    return not_arguments(written(arguments_for(name, random), random), random)


def pieces(text: str, random: Random) -> list[str]:
    """The text cut anywhere, also inside an escape; some pieces may be empty."""
    cuts = sorted(random.randint(0, len(text)) for _ in range(random.choice([0, 0, 1, 2, 4])))
    return [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
