"""What can go wrong with the development stack, in the one hierarchy of turngate.

TurngateError
 `-- StackError               a server or process did not do what was asked; the text ends with its log's tail
      `-- StackControlUnavailable  this stack's servers cannot be restarted from here
"""

from __future__ import annotations

from pathlib import Path

from turngate.schemas.errors import TurngateError

LOG_TAIL_BYTES = 2_000


class StackError(TurngateError):
    """A server or process of the development stack failed to start, answer or stop."""

    code = "stack_failed"


class StackControlUnavailable(StackError):
    """An external stack was asked to restart a server, and nobody offered a control hook for it."""

    code = "stack_control_unavailable"


def log_tail(log: Path, limit_bytes: int = LOG_TAIL_BYTES) -> str:
    """The last `limit_bytes` of a log file as text, or a note that there is none. Never raises."""
    try:
        with log.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - limit_bytes))
            return stream.read().decode("utf-8", "replace").strip() or "(log is empty)"
    except OSError:
        return "(no log)"
