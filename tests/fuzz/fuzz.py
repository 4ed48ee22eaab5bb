"""`python tests/fuzz/fuzz.py --seconds N [TARGET...]`: the targets under atheris, one after the other in equal time.

Each runs in a process of its own, guided by which code an input reaches; what it learns is kept in `.turngate/fuzz`
and used again by the next run. An input that breaks something is left there too, and this command ends with exit 1:
`python tests/fuzz/fuzz.py --input FILE TARGET` runs it once more. Where atheris has no package, inputs are random.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".turngate" / "fuzz"
NAMES = ("relay", "stream", "runs", "body", "bytes", "json", "schema")
HANG_SECONDS = 20
START_SECONDS_MAX = 600
"""To instrument the code, also on a busy machine. An input that hangs ends the process by itself."""
INPUT_BYTES_MAX = 4096
MEMORY_MIB_MAX = 2048


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=NAMES, metavar="TARGET", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=int, default=60, help="all targets together")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs to come; 0: another one each time")
    parser.add_argument("--input", type=Path, help="one input instead")
    parser.add_argument("--guided", nargs=2, metavar=("TARGET", "SECONDS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.guided:
        guided(chosen.guided[0], int(chosen.guided[1]), chosen.seed)
    if unknown := set(chosen.targets) - set(NAMES):
        parser.error(f"no target {', '.join(sorted(unknown))}")
    if chosen.input is not None:
        from fuzz_targets import TARGETS

        for name in chosen.targets:
            TARGETS[name](chosen.input.read_bytes())
        return 0
    seconds = max(1, chosen.seconds // len(chosen.targets))
    if find_spec("atheris") is None:
        print("atheris is not installed here: the inputs are random, not guided", flush=True)
        return sum(unguided(name, seconds, chosen.seed) for name in chosen.targets) and 1
    return max(in_a_process(name, seconds, chosen.seed) for name in chosen.targets)


def in_a_process(name: str, seconds: int, seed: int) -> int:
    """One target under atheris; 0 or 1."""
    done = subprocess.run(
        [sys.executable, __file__, "--guided", name, str(seconds), "--seed", str(seed)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=START_SECONDS_MAX + 2 * seconds,
    )
    said = done.stderr + done.stdout
    runs = re.findall(r"stat::number_of_executed_units:\s+(\d+)|^#(\d+)", said, re.MULTILINE)
    count = max((int(a or b) for a, b in runs), default=0)
    word = "broken" if done.returncode else "held"
    print(f"{name:8}{count:>10} inputs {count / seconds:>8.0f} a second  {word}", flush=True)
    if done.returncode:
        print("\n".join(said.splitlines()[-60:]))
    return int(done.returncode != 0)


def guided(name: str, seconds: int, seed: int) -> None:
    """Runs the target in this process, which atheris ends."""
    import atheris

    with atheris.instrument_imports(include=["turngate.domain"]):
        import fuzz_targets

        from turngate.domain.adapters.normalisers import all_normalisers

        all_normalisers()  # they are imported by name when first asked for
    corpus, broken = KEPT / name, KEPT / "broken"
    for folder in (corpus, broken):
        folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(first)
    options = {
        "max_total_time": seconds,
        "seed": seed,
        "max_len": INPUT_BYTES_MAX if name == "bytes" else 256,
        "len_control": 0,
        "timeout": HANG_SECONDS,
        "rss_limit_mb": MEMORY_MIB_MAX,
        "print_final_stats": 1,
        "artifact_prefix": f"{broken}/{name}-",
    }
    atheris.Setup(
        [name, *(f"-{key}={value}" for key, value in options.items()), str(corpus)], fuzz_targets.TARGETS[name]
    )
    atheris.Fuzz()
    os._exit(0)


def seeds(name: str) -> list[bytes]:
    """Inputs to begin with: decisions by chance, and for the target that reads bytes the recorded files."""
    if name == "bytes":
        from fuzz_streams import FIXTURES, binary_bodies

        files = [path.read_bytes() for path in sorted(FIXTURES.iterdir())] + [whole for whole, _ in binary_bodies()]
        return [bytes([number % 8, number]) + one[:INPUT_BYTES_MAX] for number, one in enumerate(files)]
    chance = random.Random(name)
    return [chance.randbytes(64) for _ in range(64)]


def unguided(name: str, seconds: int, seed: int) -> int:
    from fuzz_targets import TARGETS

    chance = random.Random(seed or time.time_ns())
    begin, count = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        data = chance.randbytes(chance.choice((8, 16, 32, 64, 128)))
        count += 1
        try:
            TARGETS[name](data)
        except Exception as error:
            path = KEPT / "broken" / f"{name}-{count}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            print(f"{name:8} broken: {type(error).__name__}: {error}; --input {path}", flush=True)
            return 1
    print(f"{name:8}{count:>10} inputs {count / seconds:>8.0f} a second  held", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
