"""`python -m benchmarks [NAME...]`: benchmarks, each beside its baseline. A number goes to the name before it."""

from __future__ import annotations

import importlib
import sys

NAMES = ("core", "open-streams", "takeover", "worker")
"""Of a run of all. `accumulators` and `lab` go by name alone: they install what the project is compared with."""


def main(words: list[str]) -> int:
    for index, name in enumerate(words or NAMES):
        if name.isdecimal():
            continue
        print(f"== {name}", flush=True)
        number = [word for word in words[index + 1 : index + 2] if word.isdecimal()]
        code: int = importlib.import_module(f"benchmarks.{name.replace('-', '_')}").main(*map(int, number))
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
