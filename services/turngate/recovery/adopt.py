"""Which adopt script an effect record asks for. Pure: a record in, script calls out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from turngate.runtime.records import InputRecord, Output
from turngate.runtime.redis.owed import pack
from turngate.runtime.redis.scripts import Call
from turngate.schemas.codec import decode, encode, encode_model
from turngate.schemas.digests import call_idempotency_key, call_key
from turngate.schemas.envelope import conversation_key
from turngate.schemas.errors import TurngateError
from turngate.schemas.manifest import Dispatch, DispatchManifest
from turngate.schemas.registry import decode_any
from turngate.schemas.sequence import SequenceCommand
from turngate.schemas.session import SessionEvent
from turngate.schemas.tools import ToolOrder
from turngate.schemas.turn import Turn
from turngate.schemas.verdict import Verdict
from turngate.topology.keys import bucket_of

ORDER_GRACE_MS = 60_000
"""How long after a reconcile an order's deadline is left alone: its result may be on the way."""


def adoption(record: InputRecord, lease_ms: int) -> list[Call]:
    """The calls that raise Redis to what this record says; lease_ms is given to attempts that may still be running."""
    if record.key is None or record.value is None:
        return []
    try:
        return _BY_TOPIC[record.topic](record, lease_ms)
    except TurngateError:
        # Our own roles wrote this topic; what cannot be read was not theirs, and it decides nothing.
        return []


def _call(script: str, key: bytes, *args: str | bytes | int) -> list[Call]:
    return [Call(f"recovery/{script}", bucket_of(key), args)]


def _turn(record: InputRecord, lease_ms: int) -> list[Call]:
    turn = decode(Turn, record.value)
    key = conversation_key(turn.tenant, turn.conversation)
    has_calls = "1" if turn.kind == "assistant" and turn.tool_edges else ""
    return _call(
        "adopt_turn_v1", key, key, turn.revision, encode(turn), turn.history_digest, turn.kind,
        turn.operation_id or "", "" if turn.generation is None else turn.generation, has_calls,
    ) + _call("adopt_calls_v1", key, *_calls_of(turn))  # fmt: skip


def _calls_of(turn: Turn) -> tuple[str | bytes | int, ...]:
    key = conversation_key(turn.tenant, turn.conversation)
    head: tuple[str | bytes | int, ...] = (key, turn.revision, turn.kind)
    rows: list[str | bytes | int] = []
    for edge in turn.tool_edges:
        key_of_call = call_key(turn.tenant, turn.conversation, turn.revision, edge.call_id)
        rows += [key_of_call, call_idempotency_key(key_of_call), edge.arguments_digest, edge.generation, edge.tool]
    return head + tuple(rows)


def _sequence(record: InputRecord, lease_ms: int) -> list[Call]:
    command = decode(SequenceCommand, record.value)
    spec = command.spec
    key = conversation_key(spec.tenant, spec.conversation)
    return _call(
        "adopt_sequence_v1", key, spec.operation_id, key, spec.base_revision, spec.cancel_generation,
        encode_model(spec), encode(command),
    )  # fmt: skip


def _manifest(record: InputRecord, lease_ms: int) -> list[Call]:
    manifest = decode(DispatchManifest, record.value)
    key = conversation_key(manifest.tenant, manifest.conversation)
    return _call("adopt_manifest_v1", key, manifest.operation_id, manifest.manifest_digest, encode(manifest))


def _dispatch(record: InputRecord, lease_ms: int) -> list[Call]:
    dispatch = decode(Dispatch, record.value)
    key = conversation_key(dispatch.tenant, dispatch.conversation)
    return _call(
        "adopt_dispatch_v1", key, dispatch.operation_id, key, dispatch.generation, dispatch.relay, dispatch.owner,
        dispatch.boot, dispatch.request_digest, lease_ms,
    )  # fmt: skip


def _session(record: InputRecord, lease_ms: int) -> list[Call]:
    event = decode(SessionEvent, record.value)
    key = conversation_key(event.tenant, event.conversation)
    if event.type == "request_begin":
        return _call("adopt_begin_v1", key, event.operation_id or "", event.generation or 0)
    if event.type == "request_end":
        return _call(
            "adopt_outcome_v1", key, event.operation_id or "", key, event.generation or 0, event.status or "",
            "" if event.retry_in_ms is None else event.retry_in_ms,
        )  # fmt: skip
    if event.type == "tool_call_output":
        return _call(
            "adopt_settled_v1", key, event.call_key or "", key, event.revision or 0, event.result_status or "",
            record.value or b"",
        )  # fmt: skip
    if event.type == "approval_requested":
        return _call("adopt_approval_v1", key, event.call_key or "", key, event.revision or 0)
    return []


def _order(record: InputRecord, lease_ms: int) -> list[Call]:
    order = decode_any(record.value, ("ToolOrder.v1", "ToolCancel.v1"))
    if not isinstance(order, ToolOrder):
        return []
    key = conversation_key(order.tenant, order.conversation)
    return _call(
        "adopt_order_v1", key, order.call_key, key, order.revision, order.attempt, order.idempotency_key,
        order.arguments_digest, order.generation, order.tool, encode(order), ORDER_GRACE_MS,
    )  # fmt: skip


def _verdict(record: InputRecord, lease_ms: int) -> list[Call]:
    verdict = decode(Verdict, record.value)
    key = conversation_key(verdict.tenant, verdict.conversation)
    answer = Output(topic="verdicts", key=key, value=record.value or b"", headers=record.headers)
    request = b"" if verdict.request is None else encode(verdict.request)
    return _call("adopt_verdict_v1", key, key, verdict.request_id, verdict.verdict, pack([answer]), request)


_BY_TOPIC: Mapping[str, Callable[[InputRecord, int], list[Call]]] = {
    "turns": _turn,
    "sequences": _sequence,
    "manifests": _manifest,
    "dispatches": _dispatch,
    "session-events": _session,
    "tool-calls": _order,
    "verdicts": _verdict,
}
