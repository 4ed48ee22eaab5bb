"""`python -m benchmarks NAME...`: one benchmark or several, each beside its baseline."""

from __future__ import annotations

import importlib
import sys

NAMES = ("core",)


def main(names: list[str]) -> int:
    for name in names or NAMES:
        print(f"== {name}", flush=True)
        code: int = importlib.import_module(f"benchmarks.{name}").main()
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
