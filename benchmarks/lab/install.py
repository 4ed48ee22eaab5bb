"""The lab's own environments below `.turngate/lab`, from locks with a hash for every file.

The libraries never enter the project's locks: they are what it is compared with, not what it needs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
LAB = ROOT / ".turngate" / "lab"
NODE = LAB / "node"
PYTHONS = ("lab", "litellm")
"""Each has a requirements-<name>.txt and a lock here, and a venv of that name."""

sys.path.insert(0, str(ROOT / "scripts"))
import bootstrap  # noqa: E402 - the project's own installer, which is no package


def python_of(name: str) -> Path:
    return LAB / name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install() -> None:
    """Make what is missing or stale; nothing happens where all is there. Raises CalledProcessError."""
    for name in PYTHONS:
        install_python(name)
    package, locked = HERE / "node" / "package.json", HERE / "node" / "package-lock.json"
    NODE.mkdir(parents=True, exist_ok=True)
    for path in (package, locked, HERE / "node" / "run.js"):
        shutil.copyfile(path, NODE / path.name)
    if not _fresh("node", locked.read_bytes()):
        _npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", folder=NODE)
        _done("node", locked.read_bytes())


def install_python(name: str) -> None:
    """One of PYTHONS, where it is missing or stale. Raises CalledProcessError."""
    lock = HERE / f"requirements-{name}.lock"
    if _fresh(name, lock.read_bytes()):
        return
    shutil.rmtree(LAB / name, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(LAB / name)], check=True)
    _install_locked(python_of(name), lock)
    _done(name, lock.read_bytes())


def upgrade() -> None:
    """Write the locks anew, with the newest of each library. Raises CalledProcessError."""
    tool = bootstrap.uv()
    if tool is None:
        raise SystemExit("locks are made by uv, which cannot be had on this machine")
    options = ("--quiet", "--universal", "--generate-hashes", "--no-annotate", "--no-header", "--upgrade")
    for name in PYTHONS:
        target, source = (f"benchmarks/lab/requirements-{name}.{suffix}" for suffix in ("lock", "txt"))
        bootstrap.run(
            [tool, "pip", "compile", *options, "--python-version", "3.11", "-o", target, source],
            env=bootstrap.uv_environment(),
        )
    install()
    names = ("@ai-sdk/anthropic", "@ai-sdk/openai-compatible", "ai", "zod")
    _npm(
        "install", "--package-lock-only", "--ignore-scripts", "--omit-lockfile-registry-resolved", "--save-exact",
        "--no-audit", "--no-fund", *(f"{name}@latest" for name in names), folder=HERE / "node",
    )  # fmt: skip
    install()


def node() -> Path:
    """The Node.js that came with the lock."""
    return python_of("lab").with_name("node")


def environment() -> dict[str, str]:
    """For the children: no proxy between them and this machine's own address, nothing fetched at import."""
    proxies = {"http_proxy", "https_proxy", "all_proxy"}
    kept = {name: value for name, value in os.environ.items() if name.lower() not in proxies}
    kept.pop("VIRTUAL_ENV", None)
    return {**kept, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"}


def _install_locked(python: Path, lock: Path) -> None:
    tool = bootstrap.uv()
    options = ("install", "--quiet", "--require-hashes", "-r", str(lock))
    if tool is None:
        subprocess.run([str(python), "-m", "pip", *options], check=True)
        return
    subprocess.run(
        [tool, "pip", *options[:1], "--python", str(python), *options[1:]], check=True, env=bootstrap.uv_environment()
    )


def _npm(*arguments: str, folder: Path) -> None:
    binary = python_of("lab").with_name("npm")
    path = f"{binary.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    subprocess.run([str(binary), *arguments], cwd=folder, check=True, env={**os.environ, "PATH": path})


def _stamp(name: str) -> Path:
    return LAB / f"{name}.done"


def _fresh(name: str, lock: bytes) -> bool:
    stamp = _stamp(name)
    return stamp.exists() and stamp.read_text() == hashlib.sha256(lock).hexdigest()


def _done(name: str, lock: bytes) -> None:
    _stamp(name).write_text(hashlib.sha256(lock).hexdigest())
