"""The reassembler: orders, normalises, gates; alone decides and writes an attempt's outcome (DESIGN §7, §9)."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from turngate.domain.dispatch.retry import RetryPolicy
from turngate.domain.stream import CompiledToolset, Preview, compile_toolset, joined
from turngate.reassembler.conclude import Conclusions, OwnerLives
from turngate.reassembler.events import PREVIEW_HEADER, AttemptEvents
from turngate.reassembler.frames import AttemptRef, Events, attempt_of, is_of, parse
from turngate.reassembler.quarantine import FrameQuarantine
from turngate.reassembler.store import Asked, AttemptView, ReassemblerStore
from turngate.reassembler.streams import OpenStream, OpenStreams, assembler_for
from turngate.runtime.errors import Poison
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.outbound import source_of
from turngate.runtime.records import InputRecord, Output, Position, StepResult
from turngate.runtime.redis.registry import Toolsets
from turngate.runtime.redis.scripts import Scripts
from turngate.schemas.codec import decode, decode_model
from turngate.schemas.errors import LostFence, Retryable
from turngate.schemas.manifest import DispatchManifest
from turngate.schemas.sequence import OperationSpec
from turngate.schemas.stream import BeginFrame, EndFrame, ResolveFrame
from turngate.schemas.tools import Toolset

TOPIC = "stream-events"
COMPILED_MAX = 256
BEGIN_TYPE = b"io.turngate.StreamBegin.v1"
IS_PREVIEW = (PREVIEW_HEADER, b"1")

Lane = list[tuple[InputRecord, AttemptRef]]
"""The records of one conversation in a batch, in order."""


@dataclass(frozen=True, slots=True)
class ReassemblerDeps:
    """What a reassembler partition needs of the process."""

    scripts: Scripts
    toolsets: Toolsets
    metrics: Metrics
    policy: RetryPolicy


class ReassemblerHandler:
    """One partition of the reassembler.

    Redelivery is harmless: a frame's outputs are remembered until the next batch begins, so a batch that is tried again
    gives the same outputs although its frames have already been fed. Within a batch conversations go side by side, so
    that what they ask of Redis shares round trips; most frames ask nothing.
    """

    def __init__(self, deps: ReassemblerDeps) -> None:
        self._deps = deps
        self._store = ReassemblerStore(deps.scripts, 0)
        self._streams = OpenStreams(0)
        self._counted = 0
        self._views: dict[Asked, AttemptView] = {}
        self._given: dict[int, list[Output]] = {}
        self._quarantine = FrameQuarantine(deps.metrics)
        self._compiled: OrderedDict[str, tuple[CompiledToolset, Toolset]] = OrderedDict()
        self._compiling: dict[str, asyncio.Task[tuple[CompiledToolset, Toolset]]] = {}
        self._conclusions = self._conclude_with(self._store)

    def _conclude_with(self, store: ReassemblerStore) -> Conclusions:
        return Conclusions(store, self._quarantine, self._deps.policy, self._deps.metrics)

    async def start(self, start: PartitionStart) -> None:
        position = start.positions[TOPIC]
        self._store = ReassemblerStore(self._deps.scripts, start.term)
        self._conclusions = self._conclude_with(self._store)
        self._streams = OpenStreams(int(position.metadata or position.offset))
        self._given = {}
        self._count_open()

    async def stop(self) -> None:
        self._streams = OpenStreams(0)
        self._count_open()

    def _count_open(self) -> None:
        """The gauge is the process's, which has more than this partition."""
        self._deps.metrics.open_streams.inc(len(self._streams) - self._counted)
        self._counted = len(self._streams)

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        if not records:
            return StepResult()
        if self._streams.expect([record.offset for record in records]):
            self._given = {}
        refs = [self._ref(record) for record in records]
        await self._look_up(records, refs)
        await self._step_lanes(records, refs)
        outputs = [out for record in records for out in self._given[record.offset]]
        oldest, emitted = self._streams.watermark()
        self._count_open()
        return StepResult(
            outputs=outputs,
            positions={TOPIC: Position(oldest, str(emitted))},
            # Nobody who reads committed records waits for previews: the transaction may stay open a little.
            hold=all(IS_PREVIEW in out.headers for out in outputs),
            # What is lost with a transaction is read again from the watermark, however much was stepped since.
            ahead=True,
        )

    def _ref(self, record: InputRecord) -> AttemptRef:
        try:
            return attempt_of(record)
        except Poison:
            self._streams.done(record.offset)
            raise

    async def _step_lanes(self, records: Sequence[InputRecord], refs: Sequence[AttemptRef]) -> None:
        """Fills in what each record gives. Raises the first error once every lane has ended."""
        lanes: dict[bytes, Lane] = {}
        for record, ref in zip(records, refs, strict=True):
            if record.offset in self._given:
                self._streams.done(record.offset)
            else:
                lanes.setdefault(record.key or b"", []).append((record, ref))
        waiting = [self._go_on(lane, at) for lane in lanes.values() if (at := self._feed_ahead(lane, 0)) < len(lane)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        del results
        if errors:
            # Taken out of the list: an error and the frame that names it hold each other, and the batch with them.
            raise errors.pop(0)

    async def _go_on(self, lane: Lane, at: int) -> None:
        """Steps a lane from a record on that may need Redis."""
        while at < len(lane):
            record, ref = lane[at]
            try:
                outputs = await self._frame(record, ref)
            except (Retryable, LostFence):
                raise
            except Exception:
                # Whatever it was, the runtime steps this record again or gives it to the dead letters.
                self._streams.done(record.offset)
                raise
            self._give(record, outputs)
            at = self._feed_ahead(lane, at + 1)

    def _give(self, record: InputRecord, outputs: list[Output]) -> None:
        self._given[record.offset] = outputs
        self._streams.done(record.offset)

    def _feed_ahead(self, lane: Lane, at: int) -> int:
        """Takes the event frames that only go on with a stream open here; returns where the lane goes on.

        What consecutive frames show is given with the last of them, each block's text in one delta. Anything odd is
        left to `_frame`, errors too.
        """
        stream: OpenStream | None = None
        shown: list[Preview] = []
        while at < len(lane):
            record, ref = lane[at]
            found = self._streams.get(ref.operation_id, ref.generation)
            if found is None or found is not (stream or found) or not found.goes_on(record.key, ref.relay):
                break
            try:
                frame = parse(record)
            except Poison:
                break
            if not isinstance(frame, Events) or not is_of(frame, ref):
                break
            stream = found
            previews = stream.feed(record, frame)
            if record.offset >= self._streams.muted_until:
                shown += previews
            self._give(record, [])
            at += 1
        if stream is not None and shown:
            record = lane[at - 1][0]
            self._given[record.offset] = stream.events.previews(joined(shown), stream.relay, record.timestamp_ms)
        return at

    async def _look_up(self, records: Sequence[InputRecord], refs: Sequence[AttemptRef]) -> None:
        """One batched look-up for the attempts of this batch that are not open in memory."""
        wanted = {
            (ref.operation_id, record.key or b"")
            for record, ref in zip(records, refs, strict=True)
            if record.offset not in self._given and self._streams.get(ref.operation_id, ref.generation) is None
        }
        self._views = await self._store.look_up(wanted) if wanted else {}

    async def _view(self, record: InputRecord, ref: AttemptRef) -> AttemptView:
        asked = (ref.operation_id, record.key or b"")
        view = self._views.get(asked)
        if view is None:
            view = await self._store.view(*asked)
            self._views[asked] = view
        return view

    async def _frame(self, record: InputRecord, ref: AttemptRef) -> list[Output]:
        """One frame. Below `muted_until` everything has been written by a predecessor: only memory is rebuilt."""
        muted = record.offset < self._streams.muted_until
        stream = self._streams.get(ref.operation_id, ref.generation)
        if stream is not None and stream.key != record.key:
            return self._muted(muted, self._quarantine.put(record, ref, "other_conversation"))
        refused = None if stream is not None else await self._refused(record, ref, muted)
        if refused is not None:
            return refused
        frame = parse(record)
        if not is_of(frame, ref):
            return self._muted(muted, self._quarantine.put(record, ref, "attempt_mismatch"))
        if isinstance(frame, BeginFrame):
            return self._muted(muted, await self._begin(record, ref, frame, stream))
        if isinstance(frame, Events):
            return self._muted(muted, await self._events(record, ref, frame, stream))
        if not muted:
            return await self._end(record, ref, frame, stream)
        if stream is not None and ref.relay >= stream.relay and await self._took_effect(record, ref, frame):
            self._streams.drop(ref.operation_id, ref.generation)
        return []

    async def _took_effect(self, record: InputRecord, ref: AttemptRef, frame: EndFrame | ResolveFrame) -> bool:
        """Whether an `end` that a predecessor read ended its stream. One that only says that the owner's lease had run
        out did not where it had been renewed meanwhile; then no note says that the attempt became UNKNOWN by it."""
        if not isinstance(frame, EndFrame) or frame.cause != "ownerGone":
            return True
        view = await self._view(record, ref)
        return ref.generation <= view.decided or (view.began == ref.generation and 0 <= view.began_at <= record.offset)

    async def _refused(self, record: InputRecord, ref: AttemptRef, muted: bool) -> list[Output] | None:
        """What a frame of an attempt that is not open here gives where it is not fed; None where it is."""
        view = await self._view(record, ref)
        refusal = self._refusal(record, ref, view)
        if refusal is None:
            return None
        if refusal == "consumed":
            return None if self._reopens(record, ref, view) else []
        if muted:
            return []
        if refusal == "decided":
            return await self._again(record, ref, view)
        return [*self._begun_below(record, ref, view), *self._quarantine.put(record, ref, refusal)]

    @staticmethod
    def _muted(muted: bool, outputs: list[Output]) -> list[Output]:
        return [] if muted else outputs

    @staticmethod
    def _refusal(record: InputRecord, ref: AttemptRef, view: AttemptView) -> str | None:
        """Why a frame of an attempt that is not open here is not fed; None where it may be.

        `consumed`: it was read before its attempt's outcome. `decided`: it is the frame that caused it, or a later one.
        """
        if not view.state:
            return "unknown_operation"
        if view.key != record.key:
            return "other_conversation"
        if ref.generation <= view.decided:
            return "consumed" if record.offset < view.decided_at(ref.generation) else "decided"
        if ref.generation < view.generation:
            return "late_generation"
        if ref.generation > view.generation:
            return "unknown_generation"
        if ref.relay < view.relay:
            return "late_relay"
        if ref.relay > view.relay:
            return "unknown_relay"
        return None

    def _reopens(self, record: InputRecord, ref: AttemptRef, view: AttemptView) -> bool:
        """Whether a `begin` read before its attempt's outcome opens the stream once more.

        It does where the transaction of that outcome has not been committed: the outcome's records are stored, but what
        was shown since the last commit, request_begin included, is only to be had by feeding the frames again.
        """
        published = view.decided_at(ref.generation) < self._streams.muted_until
        return not published and (record.header("ce_type") or b"") == BEGIN_TYPE

    @staticmethod
    def _begins(record: InputRecord, ref: AttemptRef, view: AttemptView) -> bool:
        """Whether request_begin is due with this `begin`: not where an earlier frame's outcome says it is written."""
        return view.began != ref.generation or record.offset < view.began_at

    @staticmethod
    def _begun_below(record: InputRecord, ref: AttemptRef, view: AttemptView) -> list[Output]:
        """request_begin of a lower relay's `begin`, read again because the transaction in which its attempt became
        UNKNOWN was lost: the higher relay goes by the note that it is written, and nobody else would write it."""
        noted = ref.generation == view.generation == view.began and record.offset < view.began_at
        if not noted or (record.header("ce_type") or b"") != BEGIN_TYPE:
            return []
        return [AttemptEvents(decode_model(OperationSpec, view.spec), ref.generation).begin(record.timestamp_ms)]

    async def _again(self, record: InputRecord, ref: AttemptRef, view: AttemptView) -> list[Output]:
        """A frame of a decided attempt: the very one that decided it is answered from store, others are late."""
        if view.source(ref.generation) == source_of(record) or view.state == "CANCELLED":
            frame = parse(record)
            if is_of(frame, ref) and isinstance(frame, EndFrame | ResolveFrame):
                return await self._conclusions.repeat(record, frame)
        return self._quarantine.put(record, ref, "late")

    # --- begin and events ----------------------------------------------------------------------------------------

    async def _begin(
        self, record: InputRecord, ref: AttemptRef, frame: BeginFrame, stream: OpenStream | None
    ) -> list[Output]:
        if stream is not None:
            if ref.relay == stream.relay:
                return []
            if ref.relay < stream.relay:
                return self._quarantine.put(record, ref, "late_relay")
        view = await self._view(record, ref)
        manifest = decode(DispatchManifest, view.manifest)
        if manifest.manifest_digest != frame.manifest_digest:
            return self._quarantine.put(record, ref, "other_manifest")
        fresh = await self._open(record, ref, view, manifest)
        outputs: list[Output] = []
        if stream is not None:
            fresh.first_offset = stream.first_offset
        elif self._begins(record, ref, view):
            outputs.append(fresh.events.begin(record.timestamp_ms))
        if ref.relay > 1 and (stream is not None or not self._begins(record, ref, view)):
            # Whatever the one below has shown. Its stream is not in memory any more where it had become UNKNOWN.
            outputs.append(fresh.events.retracted("superseded_relay", record.timestamp_ms, ref.relay - 1))
            self._deps.metrics.preview_retractions.labels(reason="superseded_relay").inc()
        fresh.keep(record)
        self._streams.put(fresh)
        return outputs

    async def _open(
        self, record: InputRecord, ref: AttemptRef, view: AttemptView, manifest: DispatchManifest
    ) -> OpenStream:
        spec = decode_model(OperationSpec, view.spec)
        compiled, tools = await self._tools(manifest.toolset_digest, record.key or b"")
        return OpenStream(
            key=record.key or b"",
            operation_id=spec.operation_id,
            manifest_digest=manifest.manifest_digest,
            tools=tools,
            generation=ref.generation,
            relay=ref.relay,
            first_offset=record.offset,
            assembler=assembler_for(
                manifest, compiled, "forced" if spec.options.tool_choice.mode == "forced" else None
            ),
            events=AttemptEvents(spec, ref.generation),
            # Of an attempt that is decided, or that another one has succeeded, the bind was answered long ago.
            bound=ref.generation < view.generation or ref.generation <= view.decided,
        )

    async def _tools(self, digest: str | None, key: bytes) -> tuple[CompiledToolset, Toolset | None]:
        if digest is None:
            return compile_toolset({}), None
        found = self._compiled.get(digest)
        if found is None:
            compiling = self._compiling.get(digest)
            if compiling is None:  # hundreds of streams may begin at once, with one toolset
                compiling = self._compiling[digest] = asyncio.create_task(self._compile(digest, key))
                compiling.add_done_callback(lambda _: self._compiling.pop(digest, None))
            found = await asyncio.shield(compiling)
        return found

    async def _compile(self, digest: str, key: bytes) -> tuple[CompiledToolset, Toolset]:
        toolset = await self._deps.toolsets.require(digest, lambda: self._store.look_up([("", key)]))
        schemas = {tool.name: json.loads(tool.input_schema) for tool in toolset.tools}
        found = (compile_toolset(schemas), toolset)
        self._compiled[digest] = found
        if len(self._compiled) > COMPILED_MAX:
            self._compiled.popitem(last=False)
        return found

    async def _events(
        self, record: InputRecord, ref: AttemptRef, frame: Events, stream: OpenStream | None
    ) -> list[Output]:
        if stream is None:
            return self._quarantine.put(record, ref, "no_begin")
        if ref.relay != stream.relay:
            return self._quarantine.put(record, ref, "late_relay" if ref.relay < stream.relay else "no_begin")
        if stream.foreign:
            return self._quarantine.put(record, ref, stream.foreign)
        # Kept until they are given: where the bind has to wait for Redis, the frame is fed again and shows nothing new.
        stream.unshown += stream.feed(record, frame)
        handle = stream.assembler.handle
        if handle and not stream.bound:
            reply = await self._store.bind(
                stream.key, ref.operation_id, ref.generation, ref.relay, handle, stream.manifest_digest
            )
            if reply[0] == b"foreign":
                stream.foreign = reply[1].decode()
                return self._quarantine.put(record, ref, stream.foreign)
            stream.bound = True
        previews, stream.unshown = stream.unshown, ()
        return stream.events.previews(previews, ref.relay, record.timestamp_ms) if previews else []

    # --- end and resolve -----------------------------------------------------------------------------------------

    async def _end(
        self, record: InputRecord, ref: AttemptRef, frame: EndFrame | ResolveFrame, stream: OpenStream | None
    ) -> list[Output]:
        if stream is not None and ref.relay < stream.relay:
            return self._quarantine.put(record, ref, "late_relay")
        if stream is not None and stream.foreign:
            self._streams.drop(ref.operation_id, ref.generation)
            return self._quarantine.put(record, ref, stream.foreign)
        try:
            outputs = await self._conclusions.conclude(record, frame, stream)
        except OwnerLives:
            return []
        self._streams.drop(ref.operation_id, ref.generation)
        # What was looked up for this batch was so before the outcome.
        self._views.pop((ref.operation_id, record.key or b""), None)
        return outputs
