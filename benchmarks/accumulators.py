"""The stream core per event, all checks on, beside the accumulators of other libraries, in the lab's environment.

python -m benchmarks accumulators
"""

from __future__ import annotations

import os
import subprocess

from benchmarks.lab.install import ROOT, environment, install_python, python_of

PORTIONS = ("services", "schemas", "topology")


def main() -> int:
    install_python("lab")
    path = os.pathsep.join(str(ROOT / folder) for folder in ("", *PORTIONS))
    command = [str(python_of("lab")), "-m", "benchmarks.lab.speed"]
    return subprocess.run(command, cwd=ROOT, env={**environment(), "PYTHONPATH": path}, check=False).returncode
