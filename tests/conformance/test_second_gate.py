"""scripts/validate_tool_stream.py says what `turngate conformance` says: of every fixture and of generated streams.

The two share no code. Where they disagree, one of them is wrong.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest

from turngate.domain.stream import Limits
from turngate.domain.stream.conformance import UnreadableFixture, failed, judge_fixture, read_fixture
from turngate.domain.stream.findings import GateCode
from turngate.domain.stream.toolset import compile_schema
from turngate.testing.streams import PROFILES, streams
from turngate.testing.streams.mutations import MUTATIONS
from turngate.testing.streams.schemas import VALUES, schemas

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
FIXTURES = Path(__file__).with_name("fixtures")
SEED = 20261203
STREAMS = {"openai": 3334, "mistral": 3333, "anthropic": 3333}
CODES_MIN = 20
"""How often every code that a profile can have is found, at least."""
Report = dict[str, Any]


@pytest.fixture(scope="module")
def plain() -> Iterator[Callable[[bytes], Report]]:
    """The second gate, in this process."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        from plain_gate.fixture import report_on

        yield report_on
    finally:
        sys.path.remove(str(SCRIPTS))


def first(data: bytes) -> Report:
    try:
        return judge_fixture(read_fixture(data))
    except UnreadableFixture as error:
        return failed("unreadable", str(error))


def essence(report: Report) -> Report:
    """What the two must agree on. Arguments as text: 1 and 1.0 are not the same, nor are two orders of keys."""
    findings = sorted({(finding["code"], finding["severity"]) for finding in report["findings"]})
    taken = {name: report.get(name) for name in ("status", "applicable", "executable", "code", "meta", "turn")}
    return {**taken, "calls": json.dumps(report["calls"]), "findings": findings}


def errors(report: Report) -> set[str]:
    return {finding["code"] for finding in report["findings"] if finding["severity"] == "error"}


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.stem)
def test_both_say_the_same_of_a_fixture(path: Path, plain: Callable[[bytes], Report]) -> None:
    data = path.read_bytes()
    mine, second = first(data), plain(data)
    if second.get("code") == "unsupported_profile":
        assert json.loads(data)["profile"] not in PROFILES
        assert second["executable"] is False
    else:
        assert essence(second) == essence(mine)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff", b"[]", b"{}", b'{"profile": 3}', b'{"profile": "openai"}', b'{"profile": "openai", "chunks": {}}',
        b'{"profile": "openai", "chunks": [], "events": []}',
        b'{"profile": "openai", "chunks": [], "tool_schemas": []}',
        b'{"profile": "openai", "chunks": [], "fault": "x"}', b'{"profile": "openai", "chunks": [], "fault": []}',
        b'{"profile": "none", "chunks": []}',
        b'\xef\xbb\xbf{"profile": "openai", "chunks": [], "meta": {"a": [1]}}',
        b'{"profile": "openai", "chunks": [1], "chunks": []}',
    ],
)  # fmt: skip
def test_both_say_the_same_of_a_file_that_holds_no_stream(data: bytes, plain: Callable[[bytes], Report]) -> None:
    assert essence(plain(data)) == essence(first(data))


def mistral(arguments: str) -> bytes:
    """A call with arguments as JSON, given as text, in the chunk that ends the turn."""
    entry = {"id": "c", "function": {"name": "any", "arguments": "HERE"}}
    body = {"index": 0, "delta": {"tool_calls": [entry]}, "finish_reason": "tool_calls"}
    text = json.dumps(
        {"profile": "mistral", "tool_schemas": {"any": {"type": "object"}}, "chunks": [{"id": "r", "choices": [body]}]}
    )
    return text.replace('"HERE"', arguments).encode()


def messages(*more: object, wrapped: str = "") -> bytes:
    """A call of Anthropic's, and what a relay appends or wraps around each event."""
    events: list[Any] = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c", "name": "any"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
        *more,
    ]
    if wrapped:
        events = [json.loads(wrapped.replace("HERE", json.dumps(event))) for event in events]
    return json.dumps({"profile": "anthropic", "tool_schemas": {"any": {"type": "object"}}, "events": events}).encode()


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: mistral('{"n": 1}'), ("pass", "commit", "tool_calls", set())),
        (lambda: mistral('{"n": %s}' % ("9" * 5000)), ("fail", "blocked", "tool_calls", {"too_large"})),
        (lambda: mistral('{"n": -%s}' % ("9" * 400)), ("fail", "blocked", "tool_calls", {"too_large"})),
        (lambda: mistral('{"n": NaN}'), ("fail", "blocked", "tool_calls", {"non_finite_number"})),
        (lambda: mistral('{"n": 1e999}'), ("fail", "blocked", "tool_calls", {"non_finite_number"})),
        (lambda: mistral('{"n": NaN, "s": "\\ud800"}'), ("fail", "unknown", "unknown", None)),
        (lambda: mistral('"{}", "n": [%s]' % ("9" * 5000)), ("fail", "blocked", "tool_calls", {"too_large"})),
        (lambda: chat(call("{}"), finish="stop"), ("fail", "blocked", "unknown", {"wrong_terminal_reason"})),
        (
            lambda: chat(call("{}"), finish="function_call"),
            ("fail", "blocked", "tool_calls", {"wrong_terminal_reason"}),
        ),
        (messages, ("pass", "commit", "tool_calls", set())),
        (lambda: messages("[DONE]"), ("pass", "commit", "tool_calls", set())),
        (lambda: messages("[DONE] "), ("fail", "blocked", "tool_calls", {"malformed_json"})),
        (lambda: messages(wrapped='{"data": HERE}'), ("pass", "commit", "tool_calls", set())),
        (lambda: messages(wrapped='{"event": null, "data": HERE}'), ("pass", "commit", "tool_calls", set())),
        (
            lambda: messages(wrapped='{"event": "x", "id": "7", "retry": 10, "data": HERE}'),
            ("pass", "commit", "tool_calls", set()),
        ),
        (lambda: messages(wrapped='{"x": 1, "data": HERE}'), ("fail", "unknown", "unknown", None)),
    ],
)
def test_both_read_the_same_in_odd_forms(
    make: Callable[[], bytes], wanted: tuple[str, str, str, set[str] | None], plain: Callable[[bytes], Report]
) -> None:
    data = make()
    mine, second = first(data), plain(data)
    assert (mine["status"], mine["turn"]["verdict"], mine["turn"]["stop"]) == wanted[:3]
    assert wanted[3] is None or errors(mine) == wanted[3]
    assert essence(second) == essence(mine)


def test_an_integer_without_end_in_a_schema_refuses_the_schema(plain: Callable[[bytes], Report]) -> None:
    data = chat(call("{}"), finish="tool_calls").replace(b'"object"', b'"object", "maxProperties": ' + b"9" * 5000)
    mine, second = first(data), plain(data)
    assert errors(mine) == {"unsupported_schema"}
    assert essence(second) == essence(mine)


# -- generated streams -------------------------------------------------------------------------------------------------


@pytest.mark.timeout(600)  # four seconds on an idle machine
@pytest.mark.parametrize("profile", PROFILES)
def test_both_say_the_same_of_generated_streams(profile: str, plain: Callable[[bytes], Report]) -> None:
    statuses, codes, done = Counter[str](), Counter[str](), Counter[str]()
    for generated in streams(profile, SEED, STREAMS[profile]):
        mine, second = first(generated.fixture), plain(generated.fixture)
        assert essence(second) == essence(mine), (generated.number, generated.done)
        assert mine["executable"] == (mine["status"] == "pass") == bool(mine["calls"])
        statuses[mine["status"]] += 1
        codes.update(errors(mine))
        done.update(set(generated.done))
    print(profile, dict(statuses), dict(codes.most_common()), dict(done.most_common()))
    possible = set(get_args(GateCode)) - ({"multiple_choices"} if profile == "anthropic" else set())
    assert {code: codes[code] for code in possible if codes[code] < CODES_MIN} == {}
    assert {
        name: done[name] for name in (*MUTATIONS, "bad arguments", "fault", "odd fixture") if done[name] < CODES_MIN
    } == {}
    assert min(statuses["pass"], statuses["not_applicable"]) >= 250
    assert statuses["fail"] >= 1500


def test_the_three_profiles_have_ten_thousand_streams() -> None:
    assert sum(STREAMS.values()) == 10_000
    assert set(STREAMS) == set(PROFILES)


def test_the_same_seed_gives_the_same_streams_and_another_gives_others() -> None:
    some = list(streams("openai", 1, 5))
    assert some == list(streams("openai", 1, 9))[:5]
    assert [one.fixture for one in some] != [one.fixture for one in streams("openai", 2, 5)]


# -- limits ------------------------------------------------------------------------------------------------------------


def chat(*deltas: object, finish: str = "stop") -> bytes:
    chunks = [{"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return json.dumps({"profile": "openai", "tool_schemas": {"any": {"type": "object"}}, "chunks": chunks}).encode()


def call(arguments: str, name: str = "any") -> object:
    return {"tool_calls": [{"index": 0, "id": "c", "function": {"name": name, "arguments": arguments}}]}


def closing(**more: object) -> bytes:
    """A text turn of Anthropic with something in its message_delta, or a block with something in it."""
    block = {"type": "container_upload", "held": more.pop("held", 1)}
    events: list[Report] = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": more.pop("stop", "end_turn"), **more.pop("delta", {})},
            **more,
        },
        {"type": "message_stop"},
    ]
    return json.dumps({"profile": "anthropic", "events": events}).encode()


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def padded(size: int) -> str:
    return '{"a": "' + "x" * (size - 9) + '"}'


AT_MOST = {
    "verbatim": (closing(held=nested(63)), closing(held=nested(64))),
    "usage, deep": (closing(usage={"a": nested(63)}), closing(usage={"a": nested(64)})),
    "usage, long": (closing(usage={"a": "x" * 65_511}), closing(usage={"a": "x" * 65_512})),
    "refusal": tuple(
        closing(stop="refusal", delta={"stop_details": {"explanation": "x" * size}}) for size in (719_000, 720_001)
    ),
    "name": (chat(call("{}", "n" * 256), finish="tool_calls"), chat(call("{}", "n" * 257), finish="tool_calls")),
    "text of a turn": (chat({"content": "é" * 360_000}), chat({"content": "é" * 360_000}, {"content": "x"})),
    "arguments": (chat(call(padded(512_000)), finish="tool_calls"), chat(call(padded(512_001)), finish="tool_calls")),
    "blocks": (
        chat(*[{"content": "a"}, {"refusal": "b"}] * 512),
        chat(*[{"content": "a"}, {"refusal": "b"}] * 512, {"content": "a"}),
    ),
}


@pytest.mark.parametrize("name", AT_MOST)
def test_both_have_the_same_limits(name: str, plain: Callable[[bytes], Report]) -> None:
    for data, wanted in zip(AT_MOST[name], (False, True), strict=True):
        mine, second = first(data), plain(data)
        assert ("too_large" in errors(mine), "too_large" in errors(second)) == (wanted, wanted)
        assert essence(second) == essence(mine)


# -- schemas -----------------------------------------------------------------------------------------------------------


def test_both_say_the_same_of_generated_schemas(plain: object) -> None:
    """Within the vocabulary of the second gate: the same schemas are refused, and the same values accepted."""
    from plain_gate.strict_json import Refused
    from plain_gate.tool_schema import ToolSchema

    said = Counter[object]()
    for schema in schemas(Random(SEED), 4000):
        mine = compile_schema(schema)
        try:
            second = ToolSchema(schema)
        except Refused:
            second = None
        assert (mine.validator is None) == (second is None), json.dumps(schema)
        said["refused" if second is None else "taken"] += 1
        for value in VALUES if mine.validator is not None and second is not None else ():
            valid = mine.validator.is_valid(value)
            assert second.accepts(value) == valid, (json.dumps(schema), json.dumps(value))
            said[valid] += 1
    assert min(said["refused"], said["taken"]) > 500
    assert min(said[True], said[False]) > 10_000


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^a"}, {"multipleOf": 2}, {"if": True}, {"contains": {}}, {"patternProperties": {}},
        {"propertyNames": {}}, {"dependentRequired": {}}, {"unevaluatedProperties": False},
    ],
)  # fmt: skip
def test_what_only_the_first_gate_knows_the_second_refuses(schema: Report, plain: Callable[[bytes], Report]) -> None:
    """The one disagreement allowed, and it fails closed."""
    data = json.loads(chat(call("{}"), finish="tool_calls"))
    data["tool_schemas"] = {"any": {"type": "object", **schema}}
    both = first(json.dumps(data).encode()), plain(json.dumps(data).encode())
    assert [(report["status"], errors(report)) for report in both] == [
        ("pass", set()),
        ("fail", {"unsupported_schema"}),
    ]


# -- the script itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "refused"), [(8, False), (9, True), (45, True)])
def test_both_refuse_references_that_double_without_end(
    steps: int, refused: bool, plain: Callable[[bytes], Report]
) -> None:
    defs: Report = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(steps)}
    schema = {"type": "object", "$ref": "#/$defs/d0", "$defs": {**defs, f"d{steps}": {}}}
    held = {**json.loads(chat(call("{}"), finish="tool_calls")), "tool_schemas": {"any": schema}}
    data = json.dumps(held).encode()
    mine, second = first(data), plain(data)
    assert errors(mine) == ({"unsupported_schema"} if refused else set())
    assert essence(second) == essence(mine)


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize(("steps", "code"), [(6, "schema_invalid"), (20, "unsupported_schema")])
def test_both_refuse_references_that_double_with_every_step_down(
    steps: int, code: str, cyclic: bool, plain: Callable[[bytes], Report]
) -> None:
    def alternatives(name: str) -> Report:
        one = {"type": "object", "properties": {"c": {"$ref": f"#/$defs/{name}"}}, "required": ["c"]}
        return {"anyOf": [one, one]}

    defs = {f"d{n}": alternatives(f"d{n + 1}") for n in range(steps)}
    defs[f"d{steps}"] = alternatives("d0") if cyclic else {"type": "string"}
    schema = {"type": "object", "properties": {"c": {"$ref": "#/$defs/d0"}}, "$defs": defs}
    arguments = '{"c": ' * 50 + "1" + "}" * 50
    if not cyclic:
        arguments = '{"c": ' * (steps + 1) + "1" + "}" * (steps + 1)
    held = {**json.loads(chat(call(arguments), finish="tool_calls")), "tool_schemas": {"any": schema}}
    data = json.dumps(held).encode()
    mine, second = first(data), plain(data)
    assert errors(mine) == {code}
    assert essence(second) == essence(mine)


@pytest.mark.parametrize(("count", "codes"), [(500, set[str]()), (501, {"too_large"})])
def test_both_bound_long_integers_beside_unique_items(
    count: int, codes: set[str], plain: Callable[[bytes], Report]
) -> None:
    schema = {"type": "object", "properties": {"ids": {"uniqueItems": True}}}
    arguments = json.dumps({"ids": [2**63 + n for n in range(count)]})
    held = {**json.loads(chat(call(arguments), finish="tool_calls")), "tool_schemas": {"any": schema}}
    data = json.dumps(held).encode()
    mine, second = first(data), plain(data)
    assert errors(mine) == codes
    assert essence(second) == essence(mine)


def test_both_take_as_many_events(plain: Callable[[bytes], Report]) -> None:
    from plain_gate.fixture import EVENTS_MAX

    assert Limits().events == EVENTS_MAX


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


def test_it_imports_the_standard_library_and_itself_alone() -> None:
    files = [SCRIPTS / "validate_tool_stream.py", *(SCRIPTS / "plain_gate").glob("*.py")]
    assert len(files) > 5
    foreign = {
        name for path in files for name in imports(path) if name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert {name for name in foreign if not name.startswith("plain_gate.")} == set()


@pytest.mark.timeout(600)
def test_its_own_tests_pass_without_any_package() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "unittest", "discover", "-s", "scripts/tests"],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "\nOK" in done.stderr
