"""The supervisor: programs by name, killed, restarted on the same environment, gone with their parent."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from turngate.devstack import ports, probe
from turngate.devstack.children import Child
from turngate.devstack.errors import StackError
from turngate.devstack.supervisor import ProcessSpec, RestartPolicy, Supervisor

# Answers /readyz with 200 and its instance id; with `deaf` it ignores SIGTERM.
PROGRAM = """
import http.server, os, signal, sys
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer.allow_reuse_address = True
server = http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
print("instance", os.environ["INSTANCE"], flush=True)
server.serve_forever()
"""


def program(tmp_path: Path, name: str, *arguments: str, restart: RestartPolicy | None = None) -> ProcessSpec:
    (port,) = ports.free_ports(1)
    return ProcessSpec(
        name=name,
        argv=(sys.executable, "-c", PROGRAM, *arguments),
        log=tmp_path / f"{name}.log",
        env={"PORT": str(port), "INSTANCE": f"{name}-0"},
        ready_url=f"http://127.0.0.1:{port}/readyz",
        restart=restart,
    )


async def test_kill_stays_down_and_restart_keeps_instance_and_port(tmp_path: Path) -> None:
    spec = program(tmp_path, "role")
    async with Supervisor() as supervisor:
        supervisor.start(spec)
        await supervisor.wait_ready("role")
        first = supervisor.pid("role")
        assert await supervisor.kill("role") == -signal.SIGKILL
        assert not supervisor.running("role")
        await supervisor.restart("role")
        await supervisor.wait_ready()
        assert supervisor.pid("role") != first
        assert supervisor.starts("role") == 2
    assert spec.log.read_text() == "instance role-0\n" * 2
    assert not supervisor.running("role")


async def test_restart_policy_brings_a_crashed_program_back(tmp_path: Path) -> None:
    async with Supervisor() as supervisor:
        supervisor.start(program(tmp_path, "role", restart=RestartPolicy(limit=1, delay_seconds=0.01)))
        await supervisor.wait_ready()
        supervisor.send("role", signal.SIGKILL)
        await supervisor.wait_exit("role", timeout_seconds=5)
        await supervisor.wait_ready(timeout_seconds=10)
        assert supervisor.starts("role") == 2


async def test_stop_all_asks_first_and_then_insists(tmp_path: Path) -> None:
    async with Supervisor() as supervisor:
        supervisor.start(program(tmp_path, "polite"))
        supervisor.start(program(tmp_path, "stubborn", "deaf"))
        await supervisor.wait_ready()
        codes = await supervisor.stop_all(timeout_seconds=0.5)
    assert codes == {"polite": -signal.SIGTERM, "stubborn": -signal.SIGKILL}


async def test_a_program_that_ends_early_shows_its_log(tmp_path: Path) -> None:
    spec = ProcessSpec(
        name="broken",
        argv=(sys.executable, "-c", "raise SystemExit('no such setting')"),
        log=tmp_path / "broken.log",
        ready_url="http://127.0.0.1:9/readyz",
    )
    async with Supervisor() as supervisor:
        supervisor.start(spec)
        with pytest.raises(StackError, match=r"exit code 1.*\n.*no such setting"):
            await supervisor.wait_ready()
        with pytest.raises(StackError, match="no program named other"):
            supervisor.pid("other")


async def test_a_stopped_program_ends_too(tmp_path: Path) -> None:
    async with Supervisor() as supervisor:
        supervisor.start(program(tmp_path, "role"))
        await supervisor.wait_ready()
        supervisor.send("role", signal.SIGSTOP)
    assert supervisor.exit_code("role") == -signal.SIGTERM


PARENT = """
import asyncio, sys
from pathlib import Path
from turngate.devstack.supervisor import ProcessSpec, Supervisor
async def main():
    async with Supervisor() as supervisor:
        supervisor.start(ProcessSpec("sleeper", ("/bin/sleep", "600"), Path(sys.argv[1]) / "log"))
        print(supervisor.pid("sleeper"), flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def test_children_end_with_a_killed_parent(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert process_runs(child)
        parent.kill()
        parent.wait(10)
        assert probe.wait_until(lambda: not process_runs(child), 10.0)


RECKLESS = """
import os, signal, sys
from pathlib import Path
from turngate.devstack.children import Child
Child.start("sleeper", ("/bin/sh", "-c", "sleep 600; : " + sys.argv[1]), log=Path(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_child_escapes_a_parent_killed_right_after_starting_it(tmp_path: Path) -> None:
    token = f"escape-{secrets.token_hex(8)}"

    def escaped() -> bool:
        done = subprocess.run(["ps", "-A", "-o", "stat=,args="], capture_output=True, text=True)
        return any(token in line and not line.startswith("Z") for line in done.stdout.splitlines())

    for _ in range(5):
        subprocess.run([sys.executable, "-c", RECKLESS, token, str(tmp_path / "log")], check=False)
    assert probe.wait_until(lambda: not escaped(), 15.0, poll_seconds=0.1)


async def test_what_a_program_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    spec = ProcessSpec("forker", ("/bin/sh", "-c", "sleep 600 & echo $!; exit 3"), tmp_path / "log")
    async with Supervisor() as supervisor:
        supervisor.start(spec)
        assert await supervisor.wait_exit("forker", timeout_seconds=5) == 3
        grandchild = int(spec.log.read_text())
        assert probe.wait_until(lambda: not process_runs(grandchild), 5.0)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="nothing to look with: it is asked for once")
def test_a_program_that_ends_while_it_is_looked_at_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    child = Child.start("forker", ("/bin/sh", "-c", "sleep 600 & echo $!"), log=log)
    look = os.waitid

    def looks_too_early(kind: int, pid: int, options: int) -> None:
        look(kind, pid, os.WEXITED | os.WNOWAIT)  # it ends just behind the look

    monkeypatch.setattr(os, "waitid", looks_too_early)
    assert child.poll() is None
    monkeypatch.undo()
    assert child.wait(5.0) == 0
    assert probe.wait_until(lambda: not process_runs(int(log.read_text())), 5.0)


def process_runs(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")
