"""Steps a batch; where that fails, conversation by conversation, then record by record (DESIGN §4 rules 4, 6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from turngate.runtime.deadletters import DeadRecord, dead_record
from turngate.runtime.errors import LostFence, Retryable
from turngate.runtime.producer import check_size
from turngate.runtime.records import InputRecord, StepResult
from turngate.schemas.errors import ConfigurationError, TurngateError

Step = Callable[[Sequence[InputRecord]], Awaitable[StepResult]]
PASSED_ON = (LostFence, ConfigurationError, Retryable)
"""What is never a record's fault. The caller's step waits out Retryable itself, so it comes here only to interrupt."""


@dataclass(slots=True)
class Outcome:
    """What stepping a batch gave. results are in the order of the steps."""

    results: list[StepResult] = field(default_factory=list[StepResult])
    dead: list[DeadRecord] = field(default_factory=list[DeadRecord])
    redone: bool = False


async def step_isolated(step: Step, records: Sequence[InputRecord]) -> Outcome:
    """One step for the whole batch if it can be; otherwise the offender, and only it, ends in `dead`.

    Raises what is not a record's fault (LostFence, ConfigurationError, Retryable).
    """
    outcome = Outcome()
    try:
        outcome.results.append(await step(records))
    except PASSED_ON:
        raise
    except Exception as error:
        outcome.redone = True
        if len(records) == 1:
            outcome.dead.append(dead_record(records[0], error))
        else:
            for lane in _lanes(records):
                await _step_lane(step, lane, outcome)
    return outcome


def checked(result: StepResult, outputs_allowed: frozenset[str]) -> StepResult:
    """The result, if everything in it can be produced. Raises OversizedOutput or an error of the role's making."""
    for out in result.outputs:
        if out.topic not in outputs_allowed:
            raise TurngateError(f"this role does not write {out.topic}", code="undeclared_output")
        check_size(out)
    return result


async def _step_lane(step: Step, lane: Sequence[InputRecord], outcome: Outcome) -> None:
    if len(lane) > 1:
        try:
            outcome.results.append(await step(lane))
            return
        except PASSED_ON:
            raise
        except Exception:  # noqa: S110 - the error shows again at the one record that causes it
            pass
    for record in lane:
        try:
            outcome.results.append(await step([record]))
        except PASSED_ON:
            raise
        except Exception as error:
            outcome.dead.append(dead_record(record, error))


def _lanes(records: Sequence[InputRecord]) -> list[list[InputRecord]]:
    lanes: dict[bytes, list[InputRecord]] = {}
    for record in records:
        lanes.setdefault(record.key or b"", []).append(record)
    return list(lanes.values())
