"""What comes from standard input, and what may go to a terminal."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import BinaryIO


def read_input(name: str) -> bytes:
    """A file's bytes; `-` is standard input. Raises OSError, also where standard input is closed."""
    if name != "-":
        return Path(name).read_bytes()
    stdin: BinaryIO | None = getattr(sys.stdin, "buffer", None)  # None where the shell has closed it
    if stdin is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return stdin.read()


def shown(line: str) -> str:
    """One line of a report: ids and names come from providers, and may not begin another line or move the cursor."""
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
