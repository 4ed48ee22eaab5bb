"""All record kinds by schema name: what the exports, the codec tests and the audit go by."""

from __future__ import annotations

from turngate.schemas.base import Record
from turngate.schemas.codec import check_strict, decode, schema_name
from turngate.schemas.control import Control
from turngate.schemas.errors import UnknownSchema
from turngate.schemas.manifest import Dispatch, DispatchManifest
from turngate.schemas.quarantine import DeadLetter, Quarantined
from turngate.schemas.requests import TurnRequest
from turngate.schemas.sequence import MessageSequence, SequenceCommand
from turngate.schemas.session import SessionEvent
from turngate.schemas.shadow import LegacyRequest, RolloutDiff
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame, ResolveFrame
from turngate.schemas.tools import ToolCancel, ToolOrder, ToolProgress, ToolResult, Toolset
from turngate.schemas.turn import Turn
from turngate.schemas.verdict import Verdict

RECORDS: dict[str, type[Record]] = {
    f"{kind.SCHEMA}.v1": kind
    for kind in (
        TurnRequest,
        Control,
        MessageSequence,
        SequenceCommand,
        DispatchManifest,
        Dispatch,
        BeginFrame,
        EventsFrame,
        EndFrame,
        ResolveFrame,
        Turn,
        Verdict,
        SessionEvent,
        ToolOrder,
        ToolCancel,
        ToolResult,
        ToolProgress,
        Toolset,
        Quarantined,
        DeadLetter,
        LegacyRequest,
        RolloutDiff,
    )
}


def decode_any(data: bytes | None, allowed: tuple[str, ...]) -> Record:
    """A record of any of the `allowed` schemas (wire names such as `ToolResult.v1`).

    Raises InvalidRecord or UnknownSchema.
    """
    name = schema_name(data)
    if name not in allowed:
        raise UnknownSchema(f"expected one of {', '.join(allowed)}")
    return decode(RECORDS[name], data)


def decode_any_strict(data: bytes | None, allowed: tuple[str, ...]) -> Record:
    """`decode_any` for what others wrote; also raises InvalidRecord where a key comes twice."""
    record = decode_any(data, allowed)
    check_strict(data or b"")
    return record
