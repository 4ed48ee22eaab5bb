"""The one error hierarchy of turngate, by whose fault it is and what to do next.

TurngateError
 |-- InvalidRecord      a record cannot be what it claims to be: dead letter or quarantine, never retried
 |-- UnknownSchema      a record of a schema or version this build does not know: dead letter
 |-- ConfigurationError something an operator must set or mend; the process does not start
 |-- Retryable          the world is not ready (Redis away, bucket closed): the same step is tried again
 |-- Poison             this record can never be processed: it goes to the dead letters with its origin
 |-- LostFence          another process owns what this one was about to change: drop state, rejoin
 `-- Refused            a caller asked for something the rules forbid; the code says which rule

Texts never hold content, arguments or credentials: they name fields, codes and ids.
"""

from __future__ import annotations


class TurngateError(Exception):
    """Base of every error turngate raises on purpose. `code` is stable, snake_case and safe to count by."""

    code: str = "turngate_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class InvalidRecord(TurngateError):
    """A record does not match its schema. `path` names the first offending field, never its value."""

    code = "invalid_record"

    def __init__(self, message: str, *, path: str = "", code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.path = path


class UnknownSchema(TurngateError):
    """A record names a schema or version that this build does not know."""

    code = "unknown_schema"


class ConfigurationError(TurngateError):
    """A setting is missing or wrong; the text says which variable and what to set."""

    code = "configuration_error"


class Retryable(TurngateError):
    """Nothing is wrong with the record; the same step is to be tried again after a pause."""

    code = "retryable"


class Poison(TurngateError):
    """This record can never be processed; it goes to the dead letters with its origin."""

    code = "poison"


class LostFence(TurngateError):
    """Another process took over; local state must be dropped without writing anything more."""

    code = "lost_fence"


class Refused(TurngateError):
    """A caller asked for something the protocol forbids; the code names the rule."""

    code = "refused"
