"""Child processes that die with their parent, however the parent dies.

Each parent process has one reaper (see reaper.py). A child registers itself there before it becomes the
wanted program: it starts as a one-line shell whose stdin is the reaper's pipe, writes its pid into it and
execs. The pid stays the same, and because the shell holds the pipe open until it has registered, there is no
moment in which a child exists that the reaper does not learn about. PR_SET_PDEATHSIG is not used: it fires
when the starting *thread* ends, and macOS has none.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from turngate.devstack import reaper
from turngate.devstack.errors import StackError, log_tail

POLL_SECONDS = 0.01
_WAITID = hasattr(os, "waitid")
# Where the pipe is broken (no reaper) the child must not run at all: nobody would end it.
_REGISTER_THEN_EXEC = 'printf "+%s\\n" "$$" >&0 || exit 125; exec "$@" </dev/null'


class _Reaper:
    """This process's reaper: started with the first child, told about every child, released at exit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._groups: set[int] = set()

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], log: Path, cwd: Path | None
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            self._ensure()
            with log.open("ab") as output:
                child = subprocess.Popen(
                    ["/bin/sh", "-c", _REGISTER_THEN_EXEC, "sh", *argv],
                    stdin=self._pipe,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(env),
                    cwd=cwd,
                    start_new_session=True,
                )
            self._groups.add(child.pid)
            return child

    def forget(self, group: int) -> None:
        """The child was waited for; its pid may soon belong to somebody else."""
        with self._lock:
            self._groups.discard(group)
            if self._process is not None and self._process.poll() is None:
                os.write(self._pipe, f"-{group}\n".encode())

    def release(self) -> None:
        """Close the pipe and wait until the reaper has ended what was left."""
        with self._lock:
            if self._process is not None:
                os.close(self._pipe)
                self._process.wait()
                self._process = None

    def after_fork(self) -> None:
        """A forked copy of this process owns no children and must not keep the pipe open."""
        self._lock = threading.Lock()
        if self._process is not None:
            os.close(self._pipe)
            self._process.returncode = 0  # not this process's child: nothing to wait for or warn about
            self._process = None
        self._groups.clear()

    def _ensure(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is not None:
            os.close(self._pipe)
        read_end, self._pipe = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_end)
        for group in self._groups:
            os.write(self._pipe, f"+{group}\n".encode())


_reaper = _Reaper()
atexit.register(_reaper.release)
os.register_at_fork(after_in_child=_reaper.after_fork)


class Child:
    """One running program in a process group of its own, its output appended to a log file."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process
        self._forgotten = False
        self._waiting = threading.Lock()

    @classmethod
    def start(
        cls,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Child:
        """Start `argv` with this process's environment plus `env`. Raises StackError when it cannot be
        started.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            process = _reaper.spawn(argv, env={**os.environ, **(env or {})}, log=log, cwd=cwd)
        except OSError as error:
            raise StackError(f"{name}: cannot start: {error.strerror}") from error
        return cls(name, process, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code (negative: the signal that ended it), or None while it runs."""
        with self._waiting:
            if self._process.returncode is None and _WAITID:
                if not _has_ended(self._process.pid):
                    return None  # not asked for again below: it may have ended since, and its group still stands
                # What it left behind in its group ends with it. Not yet waited for, so the pid is still its own.
                reaper.signal_group(self._process.pid, signal.SIGKILL)
            code = self._process.poll()
            if code is not None and not self._forgotten:
                self._forgotten = True
                if not _WAITID:
                    reaper.signal_group(self._process.pid, signal.SIGKILL)
                _reaper.forget(self._process.pid)
            return code

    def signal(self, number: int) -> None:
        """Send a signal to the whole group; nothing happens when it already ended."""
        if self.poll() is None:
            reaper.signal_group(self._process.pid, number)

    def wait(self, timeout_seconds: float) -> int | None:
        """The exit code, or None when it still runs after `timeout_seconds`."""
        deadline = time.monotonic() + timeout_seconds
        while (code := self.poll()) is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return code

    def end(self, timeout_seconds: float, *, graceful: bool = True) -> int:
        """SIGTERM, then SIGKILL after `timeout_seconds`; at once SIGKILL unless `graceful`. Gives the exit
        code.

        Raises StackError when even SIGKILL did not end it (a process stuck in the kernel).
        """
        if graceful:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
            if (code := self.wait(timeout_seconds)) is not None:
                return code
        self.signal(signal.SIGKILL)
        if (code := self.wait(10.0)) is None:
            raise StackError(f"{self.name}: process {self.pid} survived SIGKILL")
        return code

    def failure(self, what: str) -> StackError:
        """An error that says what failed, how the process stands and what it logged last."""
        code = self.poll()
        state = "still running" if code is None else f"exit code {code}"
        return StackError(f"{self.name}: {what} ({state}); log {self.log}:\n{log_tail(self.log)}")


def _has_ended(pid: int) -> bool:
    """Whether a child is a zombie, without reaping it (where Python has waitid, which on macOS it has not)."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # somebody else has waited for it
