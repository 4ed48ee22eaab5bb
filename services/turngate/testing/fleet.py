"""A fleet of handlers over a MemoryLog and a real Redis, stepped by hand, with crashes where a test wants them.

Each role is one partition worker per partition number, under the worker's rules: outputs and offsets move together or
not at all; after a crash a new handler starts from the committed positions. Nothing runs by itself: `run` steps the
roles in an order drawn from the caller's random source until nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from turngate.runtime.deadletters import dead_record
from turngate.runtime.errors import Poison
from turngate.runtime.handlers import PartitionHandler, PartitionStart
from turngate.runtime.records import InputRecord, Output, Position, StepResult
from turngate.runtime.redis.registry import ToolsetUnknown
from turngate.schemas.codec import encode
from turngate.schemas.errors import Retryable
from turngate.schemas.quarantine import DeadLetter, Origin, payload_of
from turngate.testing.memory_log import MemoryLog
from turngate.topology.groups import ROLES, RoleSpec

HandlerFactory = Callable[[int], PartitionHandler]
Fault = str | None
"""None, or when the process dies: `before` its step; `lost`: after the step, before anything of it reached the broker;
`abort`: after its outputs did, before the commit; `after` the commit."""


GIVEN_UP = (Poison, ToolsetUnknown)
"""What ends a record in the dead letters; anything else that is raised is a defect of the handler."""


@dataclass(slots=True)
class Seat:
    """One partition of one role."""

    role: RoleSpec
    partition: int
    factory: HandlerFactory
    handler: PartitionHandler | None = None
    term: int = 0
    offsets: dict[str, int] = field(default_factory=dict[str, int])


class Fleet:
    """Steps roles over a log. factories: role name -> how a handler of a partition is made."""

    def __init__(self, log: MemoryLog, factories: Mapping[str, HandlerFactory], random: Random) -> None:
        self.log = log
        self._random = random
        self._seats = [
            Seat(ROLES[name], partition, factory)
            for name, factory in factories.items()
            for partition in range(log.partitions)
        ]
        self.dead_letters: list[DeadLetter] = []

    async def crash(self, role: str) -> None:
        """The process of a role dies: memory is lost, the log and Redis stay."""
        for seat in self._seats:
            if seat.role.name == role:
                seat.handler = None

    async def run(self, *, fault: Callable[[Seat, list[InputRecord]], Fault] | None = None, rounds: int = 500) -> int:
        """Steps until a whole round of all roles had nothing to read; returns the number of steps.

        fault: asked before each step. Raises AssertionError where the rounds do not suffice.
        """
        steps = 0
        for _ in range(rounds):
            seats = list(self._seats)
            self._random.shuffle(seats)
            moved = False
            for seat in seats:
                if await self._step(seat, fault):
                    moved = True
                    steps += 1
            if not moved:
                return steps
        raise AssertionError(f"the fleet did not come to rest in {rounds} rounds")

    async def idle(self, role: str) -> None:
        """One step without records (clock work) for every partition of a role."""
        for seat in self._seats:
            if seat.role.name == role:
                await self._start(seat)
                assert seat.handler is not None
                self._commit(seat, [], await seat.handler.step([]))

    async def _start(self, seat: Seat) -> None:
        if seat.handler is not None:
            return
        seat.term += 1
        seat.handler = seat.factory(seat.partition)
        group = seat.role.name
        positions = {topic: self.log.position(group, topic, seat.partition) for topic in seat.role.inputs}
        seat.offsets = {topic: position.offset for topic, position in positions.items()}
        await seat.handler.start(PartitionStart(seat.partition, seat.term, positions))

    async def _step(self, seat: Seat, fault: Callable[[Seat, list[InputRecord]], Fault] | None) -> bool:
        await self._start(seat)
        committed = seat.role.isolation == "read_committed"
        records: list[InputRecord] = []
        for topic in seat.role.inputs:
            limit = self._random.randint(1, 8)
            found = self.log.read(topic, seat.partition, seat.offsets[topic], committed=committed, limit=limit)
            records += found
            seat.offsets[topic] = min(seat.offsets[topic] + limit, self.log.end(topic, seat.partition))
        if not records:
            return False
        what = fault(seat, records) if fault is not None else None
        if what == "before":
            seat.handler = None
            return True
        await self._steps(seat, records, what)
        if what is not None:
            seat.handler = None
        return True

    async def _steps(self, seat: Seat, records: list[InputRecord], fault: Fault) -> None:
        assert seat.handler is not None
        try:
            result = await seat.handler.step(records)
        except Retryable:
            # Not ready: nothing moves; the same records are read again.
            for record in records:
                seat.offsets[record.topic] = min(seat.offsets[record.topic], record.offset)
            return
        except GIVEN_UP:
            for record in records:
                await self._one(seat, record)
            return
        if fault in ("abort", "lost"):
            for out in result.outputs if fault == "abort" else ():
                self.log.append(out, aborted=True)
            return
        self._commit(seat, records, result)

    async def _one(self, seat: Seat, record: InputRecord) -> None:
        assert seat.handler is not None
        try:
            self._commit(seat, [record], await seat.handler.step([record]))
        except GIVEN_UP as error:
            dead = dead_record(record, error)
            self.dead_letters.append(
                DeadLetter(
                    reason=dead.reason,
                    detail=dead.detail,
                    role=seat.role.name,
                    origin=Origin(topic=record.topic, partition=record.partition, offset=record.offset),
                    payload=payload_of(record.value),
                )
            )
            letter = self.dead_letters[-1]
            self.log.append(Output(topic="dead-letters", key=record.key or b"", value=encode(letter)))
            self._move(seat, [record], None)

    def _commit(self, seat: Seat, records: list[InputRecord], result: StepResult) -> None:
        for out in result.outputs:
            assert out.topic in seat.role.outputs, f"{seat.role.name} does not write {out.topic}"
            self.log.append(out)
        self._move(seat, records, result.positions)
        for call in result.after_commit:
            call()

    def _move(self, seat: Seat, records: list[InputRecord], positions: Mapping[str, Position] | None) -> None:
        for topic in seat.role.inputs:
            if positions is not None and topic in positions:
                self.log.move(seat.role.name, topic, seat.partition, positions[topic])
                continue
            behind = [record.offset + 1 for record in records if record.topic == topic]
            if behind:
                self.log.move(seat.role.name, topic, seat.partition, Position(max(behind)))
