"""`python -m benchmarks.lab [--upgrade]`: the lab; with --upgrade on the newest libraries, whose locks it writes."""

from __future__ import annotations

import argparse
import sys

from benchmarks.lab.install import upgrade
from benchmarks.lab.run import run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="write the locks anew first")
    if parser.parse_args().upgrade:
        upgrade()
    sys.exit(run())
