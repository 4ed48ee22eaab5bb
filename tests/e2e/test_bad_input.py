"""Bad records straight into every topic a role reads, between the records of good conversations (I11).

Each must end as a dead letter or in quarantine, with reason and origin, once for each reader that gives it up; every
group catches up, every process lives on, and conversations of the same partition and of other tenants are answered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from aiokafka.errors import MessageSizeTooLargeError

from turngate.devstack.demo.toolset import TENANT, toolset
from turngate.devstack.provider_sim.script import Match, Plan, Rule, Script, ToolPlan
from turngate.domain.adapters.registry import adapter
from turngate.domain.sequence import CommittedHistory, build_input_turn, build_sequence
from turngate.schemas.blocks import BlockContent
from turngate.schemas.codec import encode
from turngate.schemas.control import Control
from turngate.schemas.digests import sha256_hex, text_digest
from turngate.schemas.envelope import MOVED_HEADER, attempt_headers, conversation_key
from turngate.schemas.quarantine import QUARANTINE_BYTES_MAX, Origin, Payload
from turngate.schemas.requests import NewBlock, TurnOptions, TurnRequest
from turngate.schemas.sequence import OperationSpec, SequenceCommand
from turngate.schemas.session import SessionEvent
from turngate.schemas.stream import EventsFrame
from turngate.schemas.tools import ToolResult, Toolset, toolset_digest
from turngate.schemas.turn import Turn
from turngate.topology.desired import batch_bytes_max
from turngate.topology.groups import answering_role
from turngate.topology.topics import TOPICS

if TYPE_CHECKING:
    from conftest import FleetUnderTest

    from turngate.schemas.base import Record

pytestmark = [pytest.mark.kafka, pytest.mark.asyncio(loop_scope="module")]

PARTITION = 1
"""Everything bad goes here, and so do good conversations."""
OTHER, STRANGER = "other", "stranger"
TOPICS_READ = (
    "turn-requests", "control", "sequences", "stream-events", "turns", "tool-results", "session-events", "toolsets",
)  # fmt: skip
TWO_MEGABYTES = 2_000_000
ZERO = "0" * 64
OPTIONS = TurnOptions(endpoint="openai", model="sim-1", max_output_tokens=16)
CALL = ToolPlan(id="call_weather", name="get_weather", arguments=('{"city":', '"Oslo"}'))
SCRIPT = Script(
    rules=(
        Rule(match=Match(tool_results=True), plan=Plan(text=("It is ", "cold."))),
        Rule(match=Match(contains="[tools]"), plan=Plan(text=("Let me look.",), tools=(CALL,))),
        Rule(plan=Plan(text=("One ", "word ", "after ", "the ", "other."), delay_ms=40)),
    )
)

DEAD, QUARANTINED, REFUSED = "dead-letters", "quarantine", "refused"
Ends = tuple[tuple[str, str, str], ...]
"""(dead-letters | quarantine, role, reason), or (refused, '', '') where the broker takes no such record."""


@dataclass(frozen=True)
class Bad:
    """One bad record and where it must end."""

    what: str
    value: bytes | None
    ends: Ends
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int = PARTITION


# --- records that are right but for one thing ------------------------------------------------------------------------


def turn_of(tenant: str, conversation: str) -> Turn:
    request = TurnRequest(
        tenant=tenant, conversation=conversation, request_id="r", options=OPTIONS,
        blocks=(NewBlock(role="user", content=BlockContent(text="Hello")),),
    )  # fmt: skip
    return build_input_turn(CommittedHistory(tenant, conversation, ()), request, 1)


def command_of(tenant: str, conversation: str) -> SequenceCommand:
    history = CommittedHistory(tenant, conversation, (turn_of(tenant, conversation),))
    sequence = build_sequence(history, options=OPTIONS, adapter=adapter("openai-chat"), policy_digest=ZERO)
    spec = OperationSpec(
        operation_id="op-nobodys", request_id="r", tenant=tenant, conversation=conversation, base_revision=1,
        cancel_generation=0, sequence_digest=sequence.sequence_digest, options=OPTIONS,
    )  # fmt: skip
    return SequenceCommand(spec=spec, expected_generation=0, sequence=sequence)


def result_of(tenant: str, conversation: str, content: str = "cold") -> ToolResult:
    return ToolResult(
        tenant=tenant, conversation=conversation, call_key=f"{tenant}/{conversation}/2/a-2-c1", call_id="a-2-c1",
        tool="get_weather", revision=2, generation=1, attempt=1, arguments_digest=text_digest("{}"),
        idempotency_key="k", result_id="r", status="success", content=content,
    )  # fmt: skip


def frame_of(tenant: str, conversation: str, *events: str, operation: str = "op-nobodys") -> EventsFrame:
    return EventsFrame(
        tenant=tenant, conversation=conversation, operation_id=operation, generation=1, relay=1, profile="openai",
        first_seq=0, events=events,
    )  # fmt: skip


def valid(topic: str, tenant: str, conversation: str) -> Record:
    """A whole record of a topic that belongs to nothing."""
    who = {"tenant": tenant, "conversation": conversation}
    tools = toolset().tools
    match topic:
        case "turn-requests":
            return TurnRequest(**who, request_id="r", options=OPTIONS)
        case "control":
            return Control(**who, control_id="c", command="pause")
        case "sequences":
            return command_of(tenant, conversation)
        case "stream-events":
            return frame_of(tenant, conversation)
        case "turns":
            return turn_of(tenant, conversation)
        case "tool-results":
            return result_of(tenant, conversation)
        case "session-events":
            return SessionEvent(**who, type="session_meta", event_id="e")
        case _:
            return Toolset(tenant=tenant, tools=tools, toolset_digest=toolset_digest(tenant, tools))


# --- what is bad -----------------------------------------------------------------------------------------------------


class Bads:
    """The bad records of one topic. key: of a conversation of the known tenant on PARTITION, and its name."""

    def __init__(self, topic: str, fleet: FleetUnderTest) -> None:
        self.topic = topic
        self.readers = tuple(role.name for role in fleet.roles if topic in role.inputs and DEAD in role.outputs)
        self.conversation = fleet.on_partition(PARTITION, "bad")
        self.key = conversation_key(TENANT, self.conversation)
        self.neighbour = conversation_key(TENANT, fleet.on_partition(PARTITION, "neighbour"))
        self.stranger = fleet.on_partition(PARTITION, "bad", STRANGER)
        self.wrong = (PARTITION + 1) % fleet.plan.partitions
        self.plain: dict[str, Any] = json.loads(encode(valid(topic, TENANT, self.conversation)))

    def one(self, reason: str) -> Ends:
        """What no reader can use: one dead letter, by the role that answers for the topic."""
        return ((DEAD, answering_role(self.topic), reason),)

    def each(self, reason: str) -> Ends:
        """What each reader judges for itself."""
        return tuple((DEAD, name, reason) for name in self.readers)

    def addressed(self, reason: str, foreign: str = "unknown_operation") -> Ends:
        """A whole record at a wrong address. A command is its owner's alone (here: pause, the validator's)."""
        match self.topic:
            case "control":
                return ((DEAD, "validator", reason),)
            case "stream-events":
                return ((QUARANTINED, "reassembler", foreign),)
            case "tool-results":
                return ((QUARANTINED, "ledger", reason),)
            case _:
                return self.each(reason)

    def changed(self, **fields: object) -> bytes:
        return json.dumps(self.plain | fields).encode()

    def all(self) -> Iterator[Bad]:
        yield from self.broken()
        yield from self.misplaced()
        yield from self.large()
        yield from self.own()

    def broken(self) -> Iterator[Bad]:
        text = self.changed()
        name = self.plain["schema"].removesuffix(".v1")
        yield Bad("no value", None, self.one("null_value"))
        yield Bad("empty value", b"", self.one("malformed_json"))
        yield Bad("not JSON", b"hello", self.one("malformed_json"))
        yield Bad("JSON, but a list", b"[1,2]", self.one("malformed_json"))
        yield Bad("cut in half", text[: len(text) // 2], self.one("malformed_json"))
        yield Bad("absurdly deep", b'{"schema":' + b"[" * 50_000, self.one("malformed_json"))
        yield Bad("not UTF-8", text.replace(b'"schema"', b'"\xff\xfe"'), self.one("malformed_json"))
        yield Bad("a lone surrogate", self.changed(tenant="\ud800"), self.one("malformed_json"))
        yield Bad("a later version", self.changed(schema=f"{name}.v9"), self.each("unknown_schema"))
        yield Bad("a schema nobody knows", self.changed(schema="Nonsense.v1"), self.each("unknown_schema"))
        unnamed = json.dumps({name: value for name, value in self.plain.items() if name != "schema"}).encode()
        yield Bad("no schema", unnamed, self.each("unknown_schema"))
        yield Bad("a huge integer", self.changed(generation=10**30), self.each("invalid_record"))
        yield Bad("a field of another type", self.changed(tenant=["x"]), self.each("invalid_record"))

    def misplaced(self) -> Iterator[Bad]:
        unknown = encode(valid(self.topic, STRANGER, self.stranger))
        yield Bad(
            "an unknown tenant", unknown, self.addressed("unknown_tenant"), conversation_key(STRANGER, self.stranger)
        )
        moved = ((MOVED_HEADER, b"1"), ("odd", None))
        if TOPICS[self.topic].keyed:
            ends = self.each("key_mismatch") if self.topic == "stream-events" else self.addressed("key_mismatch")
            yield Bad("another conversation's key", self.changed(), ends, self.neighbour)
            yield Bad("a key without slash", b"{}", self.one("invalid_key"), b"acme")
            yield Bad("still misrouted", b"{}", self.one("misrouted"), headers=moved, partition=self.wrong)
        yield Bad("a key that is no text", b"{}", self.one("undecodable_key"), b"\xff/\xfe")
        yield Bad("a key of 60 KB", b"{}", self.one("invalid_key"), b"a/" + b"\xff" * 60_000)

    def large(self) -> Iterator[Bad]:
        spec = TOPICS[self.topic]
        refused = batch_bytes_max(spec) < TWO_MEGABYTES
        large = self.changed(padding="x" * TWO_MEGABYTES)
        ends: Ends = self.each("invalid_record")
        if self.topic == "tool-results":
            large = encode(result_of(TENANT, self.conversation, "x" * TWO_MEGABYTES))
            ends = ((QUARANTINED, "ledger", "unknown_call"),)
        elif self.topic == "stream-events":
            large = encode(frame_of(TENANT, self.conversation, "x" * TWO_MEGABYTES, operation="op-large"))
            ends = ((QUARANTINED, "reassembler", "unknown_operation"),)
        yield Bad("two megabytes", large, ((REFUSED, "", ""),) if refused else ends)
        yield Bad("between the limits", b"x" * (spec.bytes_max + 1), self.one("oversized_record"))

    def own(self) -> Iterator[Bad]:
        """What is bad in one topic only."""
        match self.topic:
            case "control":
                yield Bad(
                    "approves nothing", self.changed(command="approve"), ((DEAD, "ledger", "incomplete_command"),)
                )
                odd = self.changed(command="deny", callKey=f"{TENANT}/{self.conversation}/\u00b2/c")
                yield Bad("denies no call", odd, ((DEAD, "ledger", "incomplete_command"),))
                resolve = self.changed(command="resolve_unknown")
                yield Bad("resolves nothing", resolve, ((DEAD, "recovery", "incomplete_command"),))
                yield Bad("cannot fork", self.changed(command="fork"), ((DEAD, "validator", "unsupported_command"),))
            case "sequences":
                yield Bad("nobody's operation", self.changed(), ((DEAD, "dispatcher", "unknown_operation"),))
                spec = self.plain["spec"] | {"sequenceDigest": ZERO}
                yield Bad("another sequence", self.changed(spec=spec), ((DEAD, "dispatcher", "sequence_mismatch"),))
            case "stream-events":
                ends = ((QUARANTINED, "reassembler", "unknown_operation"),)
                headers = attempt_headers("op-nobodys", 1, 1)
                yield Bad("a foreign frame", self.changed(), ends, headers=headers)
                yield Bad("not JSON under foreign headers", b"hello", ends, headers=headers)
                odd = [(name, None) for name, _ in headers]
                yield Bad("headers without values", self.changed(), ends, headers=odd)
                huge = [(name, b"9" * 400) for name, _ in headers]
                yield Bad("headers beyond all numbers", self.changed(), ends, headers=huge)
            case "tool-results":
                yield Bad("nobody's call", self.changed(), ((QUARANTINED, "ledger", "unknown_call"),))
                other = self.changed(callKey=f"{OTHER}/x/2/a-2-c1")
                yield Bad("another call's key", other, ((QUARANTINED, "ledger", "result_mismatch"),))
            case "toolsets":
                yield Bad("another digest", self.changed(toolsetDigest=ZERO), self.one("digest_mismatch"))
            case _:
                pass


# --- the proof -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fleet_changes() -> dict[str, Any]:
    return {"script": SCRIPT}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def working(fleet: FleetUnderTest) -> FleetUnderTest:
    """The fleet with its tool executor."""
    await fleet.start_executor()
    return fleet


Letter = tuple[str, str, str, str, int, int]


async def ends_of(fleet: FleetUnderTest) -> dict[Letter, tuple[Payload, Origin]]:
    """(where, role, reason, topic, partition, offset) of everything given up; none of them twice."""
    dead = [(DEAD, letter.role, letter.reason, letter) for letter in await fleet.dead_letters()]
    writer = {"stream-events": "reassembler", "tool-results": "ledger"}
    kept = [(QUARANTINED, writer[one.origin.topic], one.reason, one) for one in await fleet.quarantined()]
    found: dict[Letter, tuple[Payload, Origin]] = {}
    for where, role, reason, record in (*dead, *kept):
        at = record.origin
        name = (where, role, reason, at.topic, at.partition, at.offset)
        assert name not in found, "given up twice"
        found[name] = (record.payload, at)
    return found


@pytest.mark.parametrize("topic", TOPICS_READ)
async def test_bad_records_end_where_they_are_seen_and_nobody_waits(working: FleetUnderTest, topic: str) -> None:
    fleet = working
    before, pids = await ends_of(fleet), fleet.pids()
    mine, same = fleet.on_partition(PARTITION, topic), fleet.on_partition(PARTITION, topic, OTHER)
    later = fleet.on_partition(PARTITION, f"{topic}-later", OTHER)
    await fleet.ask(mine, "Look for me. [tools]", tools=True)
    await fleet.ask(same, "Say something.", tenant=OTHER, endpoint="anthropic")

    expected: dict[Letter, Bad] = {}
    bads = Bads(topic, fleet)
    for number, bad in enumerate(bads.all()):
        key = bads.key if bad.key is None else bad.key
        if bad.ends[0][0] == REFUSED:
            with pytest.raises(MessageSizeTooLargeError):
                await fleet.produce(topic, key, bad.value, partition=bad.partition, headers=bad.headers)
            continue
        place = await fleet.produce(topic, key, bad.value, partition=bad.partition, headers=bad.headers)
        expected |= {(*end, *place): bad for end in bad.ends}
        if number == 8:
            await fleet.ask(later, "Say something else.", tenant=OTHER)
    place = await fleet.produce(topic, None, b"{}", partition=PARTITION)
    expected |= {(*end, *place): Bad("no key", b"{}", ()) for end in bads.one("null_key")}

    await asyncio.gather(
        fleet.answered(mine, 4), fleet.answered(same, 2, tenant=OTHER), fleet.answered(later, 2, tenant=OTHER)
    )
    await fleet.no_lag()
    found = {name: kept for name, kept in (await ends_of(fleet)).items() if name not in before}
    missing = {name: bad.what for name, bad in expected.items() if name not in found}
    assert (missing, sorted(set(found) - set(expected))) == ({}, [])
    for name, (payload, _) in found.items():
        whole = expected[name].value or b""
        assert (payload.length, payload.digest) == (len(whole), sha256_hex(whole))
        assert len(payload.value) <= 2 * QUARANTINE_BYTES_MAX
    await fleet.all_ready()
    assert fleet.pids() == pids


async def test_a_misrouted_request_is_moved_once_and_answered(working: FleetUnderTest) -> None:
    fleet = working
    before = await ends_of(fleet)
    conversation = fleet.on_partition(PARTITION, "stray", OTHER)
    request = TurnRequest(
        tenant=OTHER, conversation=conversation, request_id="r", options=OPTIONS,
        blocks=(NewBlock(role="user", content=BlockContent(text="Hello")),),
    )  # fmt: skip
    wrong = (PARTITION + 2) % fleet.plan.partitions
    key = conversation_key(OTHER, conversation)
    await fleet.produce("turn-requests", key, encode(request), partition=wrong, headers=[("traceparent", b"00-1")])
    await fleet.answered(conversation, 2, tenant=OTHER)
    await fleet.no_lag()
    assert await ends_of(fleet) == before


async def test_a_misrouted_record_is_given_up_where_its_key_belongs(working: FleetUnderTest) -> None:
    """Of every topic one role moves it, so it is there once, and is dead-lettered there once."""
    fleet = working
    before = await ends_of(fleet)
    key = conversation_key(TENANT, fleet.on_partition(PARTITION, "stray"))
    keyed = [topic for topic in TOPICS_READ if TOPICS[topic].keyed]
    for topic in keyed:
        await fleet.produce(topic, key, b"lost", partition=(PARTITION + 1) % fleet.plan.partitions)
    await fleet.no_lag()
    found = sorted((where, role, reason, topic, at) for where, role, reason, topic, at, _ in await new(fleet, before))
    assert found == sorted((DEAD, answering_role(topic), "malformed_json", topic, PARTITION) for topic in keyed)


async def new(fleet: FleetUnderTest, before: dict[Letter, Any]) -> list[Letter]:
    return [name for name in await ends_of(fleet) if name not in before]


async def test_the_audit_passes(working: FleetUnderTest) -> None:
    report = await working.audit()
    assert report.refuted == (), [breach for result in report.results for breach in result.breaches]
