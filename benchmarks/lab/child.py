"""One library over the corpus, in the venv that holds it: `python -m benchmarks.lab.child NAME CORPUS RESULT`.

A library module has `PACKAGES` (whose versions are told), `APIS` and `run(case, address)`, which uses the library as
its documentation says and calls the tools for what it hands over. What it raises is its refusal.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.lab import tools
from benchmarks.lab.server import serving


def over(module: Any, case: dict[str, Any], address: str) -> dict[str, Any]:
    """{ran, error} of one case."""
    tools.ran.clear()
    error = None
    try:
        module.run(case, f"{address}/{case['name']}")
    except Exception as problem:
        # Some libraries wrap what the stream said, or several problems, in their own.
        while isinstance(problem, ExceptionGroup):
            problem = problem.exceptions[0]
        error = type(problem).__name__
    return {"ran": [[name, arguments] for name, arguments in tools.ran], "error": error}


def main(name: str, corpus: Path, result: Path) -> int:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    module = importlib.import_module(f"benchmarks.lab.libraries.{name}")
    cases = [case for case in json.loads(corpus.read_text(encoding="utf-8")) if case["api"] in module.APIS]
    with serving(cases) as address:
        found = {case["name"]: over(module, case, address) for case in cases}
    versions = {package: version(package) for package in module.PACKAGES}
    result.write_text(json.dumps({"versions": versions, "cases": found}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
