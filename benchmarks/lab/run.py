"""Every library over the corpus, each in its own process and environment, and the page from what they did."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.lab import ours
from benchmarks.lab.cases import Case
from benchmarks.lab.corpus import as_json, corpus
from benchmarks.lab.install import LAB, NODE, ROOT, environment, install, node, python_of
from benchmarks.lab.page import OURS, Column, page, summary

PAGE = ROOT / "docs" / "lab.md"
CHILD_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True)
class Library:
    """title: its column's. module: below benchmarks/lab/libraries, or None for Node.js. how: what counts as running."""

    title: str
    module: str | None
    venv: str
    how: str


LIBRARIES = (
    Library(
        "openai", "openai_sdk", "lab",
        "`client.chat.completions.stream` with `pydantic_function_tool`; each call of the final completion runs with "
        "its `parsed_arguments`; an exception of the stream or of the parsing is a refusal",
    ),
    Library(
        "anthropic", "anthropic_sdk", "lab",
        "`client.messages.stream`; where the final message's stop reason is `tool_use`, each `tool_use` block runs "
        "with its `input`; an exception, or another stop reason, is a refusal",
    ),
    Library(
        "langchain", "langchain_core", "lab",
        "chunks of `ChatOpenAI` or `ChatAnthropic` with `bind_tools`, added up; each of the sum's `tool_calls` goes to "
        "`invoke` of a typed tool; an exception, or a call under `invalid_tool_calls`, is a refusal",
    ),
    Library(
        "litellm", "litellm_sdk", "litellm",
        "`stream_chunk_builder` over the chunks of `completion(stream=True)`; each call of the message runs with "
        "`json.loads` of its text; an exception is a refusal",
    ),
    Library(
        "pydantic-ai", "pydantic_ai_agent", "lab",
        "an `Agent` with typed tools and an `event_stream_handler`, `retries=0`; the agent runs the tools itself; what "
        "it raises, or would send back to the model, is a refusal",
    ),
    Library(
        "AI SDK", None, "lab",
        "`streamText` with zod tools, through `@ai-sdk/openai-compatible` and `@ai-sdk/anthropic`; the SDK runs the "
        "tools itself; an error part or an invalid call is a refusal",
    ),
)  # fmt: skip


def run_library(library: Library, cases: Path) -> Column:
    """Raises CalledProcessError or TimeoutExpired with what the child said."""
    result = LAB / f"{library.module or 'node'}.json"
    result.unlink(missing_ok=True)
    if library.module is None:
        command, folder = [str(node()), "run.js", str(cases), str(result)], NODE
    else:
        child = [str(python_of(library.venv)), "-m", "benchmarks.lab.child"]
        command, folder = [*child, library.module, str(cases), str(result)], ROOT
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=CHILD_SECONDS_MAX, check=False
    )
    if done.returncode or not result.exists():
        raise SystemExit(f"{library.title} did not run to its end:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return Column(library.title, versions, library.how, found["cases"])


def our_column(cases: list[Case]) -> Column:
    return Column(OURS, "this checkout", ours.__doc__ or "", {case.name: ours.run(case) for case in cases})


def run() -> int:
    install()
    cases = corpus()
    path = LAB / "corpus.json"
    path.write_text(json.dumps(as_json(cases)), encoding="utf-8")
    columns = []
    for library in LIBRARIES:
        columns.append(run_library(library, path))
        print(f"{library.title}: {columns[-1].versions}", flush=True)
    columns.append(our_column(cases))
    PAGE.write_text(page(cases, columns, when(), runtimes()), encoding="utf-8")
    print("\n".join(summary(cases, columns)))
    print(f"written: {PAGE.relative_to(ROOT)}")
    return 0


def when() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def runtimes() -> str:
    version = subprocess.run([str(node()), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return f"CPython {platform.python_version()} and Node.js {version.removeprefix('v')}"
