"""Runs a command, or the shell that asks, against a real Apache Kafka 4 broker and Debian's redis-server.

    scripts/real_kafka.py run -- CMD...   start both, run CMD with their addresses, stop both; CMD's exit code
    scripts/real_kafka.py up              start both in the background, print export lines for the shell
    scripts/real_kafka.py down            stop what `up` started

CMD and the export lines get TURNGATE_KAFKA, TURNGATE_REDIS, TURNGATE_BROKER_NAME and TURNGATE_STACK_CONTROL
(the file through which tests restart the servers). Needs Python 3.11, Java 17 and mvn; also redis-server,
which apt-get installs when this runs as root. Logs and data: .turngate/real*/.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "scripts"), str(REPOSITORY / "services"), str(REPOSITORY / "schemas")]

from apache_kafka import real_stack  # noqa: E402 - the path above comes first

from turngate.devstack import probe  # noqa: E402
from turngate.devstack.base import Stack  # noqa: E402
from turngate.devstack.control import ControlServer  # noqa: E402
from turngate.devstack.errors import log_tail  # noqa: E402
from turngate.devstack.external import ExternalStack  # noqa: E402
from turngate.schemas.errors import TurngateError  # noqa: E402

WORK = REPOSITORY / ".turngate"
JARS = WORK / "kafka-jars"
BACKGROUND = WORK / "real"
UP_SECONDS = 1200.0  # the first time includes Maven's downloads


@contextlib.contextmanager
def served(data: Path) -> Generator[tuple[ControlServer, dict[str, str]]]:
    """Both servers running on fresh data with a control file; gives the environment that points to them."""
    shutil.rmtree(data, ignore_errors=True)
    control_file = data / "control.json"
    with real_stack(data, JARS) as stack, ControlServer(stack, control_file) as control:
        yield control, addresses(stack, control_file)


def addresses(stack: Stack, control_file: Path) -> dict[str, str]:
    return {
        "TURNGATE_KAFKA": stack.kafka_bootstrap,
        "TURNGATE_REDIS": stack.redis_url,
        "TURNGATE_BROKER_NAME": stack.kafka_product,
        "TURNGATE_STACK_CONTROL": str(control_file),
    }


def run(command: list[str]) -> int:
    """Servers, then `command`; its exit code (128 + signal if one ended it)."""
    data = WORK / f"real-{os.getpid()}"
    with served(data) as (_, environment):
        print(f"running on {environment['TURNGATE_BROKER_NAME']}", file=sys.stderr, flush=True)
        process = subprocess.Popen(command, env={**os.environ, **environment})
        # Ctrl-C reaches the command by itself; SIGTERM is passed on. Either way the servers stop after it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        on_sigterm(process.terminate)
        code = process.wait()
    clean(data, keep_logs=code != 0)
    return code if code >= 0 else 128 - code


def up() -> int:
    """Start `serve` detached and wait for its environment file."""
    exports = BACKGROUND / "environment"
    if exports.exists() and _answers(BACKGROUND / "control.json"):
        print(exports.read_text(), end="")
        return 0
    shutil.rmtree(BACKGROUND, ignore_errors=True)
    log = WORK / "real.log"
    WORK.mkdir(exist_ok=True)
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, __file__, "serve"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    ready = probe.wait_until(lambda: exports.exists() or server.poll() is not None, UP_SECONDS, poll_seconds=0.1)
    if not ready or not exports.exists():
        server.terminate()
        print(f"the servers did not start; {log}:\n{log_tail(log)}", file=sys.stderr)
        return 1
    print(exports.read_text(), end="")
    return 0


def serve() -> int:
    """The background process of `up`: holds the servers until `down` or SIGTERM."""
    with served(BACKGROUND) as (control, environment):
        on_sigterm(control.shutdown.set)
        draft = BACKGROUND / "environment.draft"
        draft.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items()))
        draft.rename(BACKGROUND / "environment")
        control.shutdown.wait()
    return 0


def down() -> int:
    """Ask the background process to end and wait until it has."""
    control_file = BACKGROUND / "control.json"
    if not _answers(control_file):
        print("nothing is up", file=sys.stderr)
        return 0
    ExternalStack("", "", kafka_product="", control_file=control_file).shutdown_sync()
    if not probe.wait_until(_released, 60.0, poll_seconds=0.1):
        print("the servers still run after 60 s", file=sys.stderr)
        return 1
    clean(BACKGROUND, keep_logs=True)
    return 0


def clean(data: Path, *, keep_logs: bool) -> None:
    """Delete the servers' data, and unless `keep_logs` everything else with it."""
    if not keep_logs:
        shutil.rmtree(data, ignore_errors=True)
    for name in ("kafka", "redis"):
        shutil.rmtree(data / name, ignore_errors=True)
    (data / "environment").unlink(missing_ok=True)


def on_sigterm(action: Callable[[], None]) -> None:
    def handle(_number: int, _frame: object) -> None:
        action()

    signal.signal(signal.SIGTERM, handle)


def _released() -> bool:
    """Whether the background process let go of its folder, which it does after its servers ended."""
    with (BACKGROUND / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _answers(control_file: Path) -> bool:
    return control_file.exists() and ExternalStack("", "", kafka_product="", control_file=control_file).controllable()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["up", "down", "run", "serve"])
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after run --")
    arguments = parser.parse_args()
    command: list[str] = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if (arguments.action == "run") != bool(command):
        parser.error("run needs a command after --, the other actions take none")
    try:
        if arguments.action == "run":
            return run(command)
        return {"up": up, "down": down, "serve": serve}[arguments.action]()
    except TurngateError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
