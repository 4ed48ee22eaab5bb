"""The conformance lab: one corpus of streams through turngate and through the accumulators people use today.

python -m benchmarks lab
"""

from __future__ import annotations


def main() -> int:
    """Set up, run, and write docs/lab.md; returns an exit code."""
    # Imported late: the children that run a library have no turngate.
    from benchmarks.lab.run import run

    return run()
