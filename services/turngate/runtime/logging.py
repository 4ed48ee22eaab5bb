"""JSON log lines on stderr. They carry codes, ids, counts and offsets, never content or credentials."""

from __future__ import annotations

import logging
import sys
from typing import Protocol, cast

import structlog


class Log(Protocol):
    """The part of a structlog logger that is used. `event` is a stable snake_case name."""

    def debug(self, event: str, **fields: object) -> None: ...

    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None: ...

    def error(self, event: str, **fields: object) -> None: ...

    def bind(self, **fields: object) -> Log: ...


def configure_logging(*, role: str, instance: str, level: str = "info") -> Log:
    """Sets up the process's logging and returns its logger, bound to role and instance.

    Library loggers speak through the same lines from `warning` on: their own texts may quote what they were
    given, so nothing below that level is let through.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    log = cast(Log, structlog.get_logger().bind(role=role, instance=instance))
    root = logging.getLogger()
    for handler in tuple(root.handlers):
        if isinstance(handler, _Forward):
            root.removeHandler(handler)
    root.addHandler(_Forward(log))
    root.setLevel(max(number, logging.WARNING))
    return log


def get_log() -> Log:
    """A logger where none was handed in; takes whatever configuration the process has."""
    return cast(Log, structlog.get_logger())


class _Forward(logging.Handler):
    """Library records as one JSON line: logger, text, and the kind of a traceback's error without its text."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = {"logger": record.name, "text": record.getMessage()[:500]}
        # asyncio says False where there is no exception.
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = record.exc_info[0].__name__
        if record.levelno >= logging.ERROR:
            self._log.error("library", **fields)
        else:
            self._log.warning("library", **fields)
