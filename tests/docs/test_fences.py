"""Whatever a reader may copy from a page is right: records decode, commands exist, programs compile."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from pydantic import TypeAdapter

from turngate.cli.app import build_app
from turngate.devstack.provider_sim.script import Script
from turngate.runtime.endpoints import Endpoint
from turngate.runtime.settings import PREFIX, Settings
from turngate.schemas.codec import encode
from turngate.schemas.registry import RECORDS, decode_any
from turngate.schemas.tools import Toolset, toolset_digest

if TYPE_CHECKING:
    from conftest import Fence

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = {"bash", "json", "mermaid", "python", "text"}
FILES: dict[str, TypeAdapter[Any]] = {
    "call.json": TypeAdapter(dict[str, Any]),
    "endpoints.json": TypeAdapter(tuple[Endpoint, ...]),
    "script.json": TypeAdapter(Script),
    "stream.json": TypeAdapter(dict[str, Any]),
}
OTHER_VARIABLES = {"TURNGATE_BOOTSTRAP"}
FOREIGN = {"curl", "docker", "git", "helm", "pip", "source"}
WORD_OF_A_READER = re.compile(r"[A-Z]+")


def of(fences: list[Fence], language: str) -> list[Fence]:
    found = [fence for fence in fences if fence.language == language]
    assert found, f"no page has a block of {language}"
    return found


def commands(fence: Fence) -> list[tuple[str, list[str]]]:
    """(place, words) of every command of a shell block, without leading assignments."""
    found = []
    for number, line in enumerate(fence.text.replace("\\\n", " ").splitlines(), fence.line):
        words = shlex.split(line, comments=True)
        while words:
            end = next((index for index, word in enumerate(words) if word in ("&&", "|", ";")), len(words))
            found.append((f"{fence.page}:{number}", words[:end]))
            words = words[end + 1 :]
    return found


def variable_problem(word: str) -> str | None:
    name = word.partition("=")[0]
    known = {f"{PREFIX}{field.upper()}" for field in Settings.model_fields} | OTHER_VARIABLES
    return f"no setting {name}" if name.startswith(PREFIX) and name not in known else None


def command_problem(words: list[str], fences: list[Fence]) -> str | None:
    """Why this command line would not work, or None."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        problem = variable_problem(words.pop(0))
        if problem:
            return problem
    program, *arguments = words
    if program == "export":
        return next((problem for word in arguments if (problem := variable_problem(word))), None)
    if program in ("turngate", ".venv/bin/turngate"):
        return turngate_problem(arguments)
    if program == "make":
        return make_problem(arguments)
    if program == "python3" and arguments[:2] == ["-m", "unittest"]:
        return None if (ROOT / arguments[-1]).is_dir() else f"no folder {arguments[-1]}"
    if program in (".venv/bin/python", "python3"):
        known = {fence.name for fence in fences if fence.language == "python"}
        return None if arguments[0] in known or (ROOT / arguments[0]).is_file() else f"no program {arguments[0]}"
    if program.startswith("scripts/") or program == ".ci/run":
        return None if os.access(ROOT / program, os.X_OK) else f"{program} is not there to be run"
    if program not in FOREIGN:
        return f"unknown program {program}"
    missing = [word for word in arguments if word.startswith("helm/") and not (ROOT / word).exists()]
    return f"no such path: {missing}" if missing else None


def turngate_problem(arguments: list[str]) -> str | None:
    """What the real command line's parser says, without running anything."""
    command: Any = typer.main.get_command(build_app())
    rest = list(arguments)
    while hasattr(command, "commands"):
        if not rest or rest[0] not in command.commands:
            return f"no command {shlex.join(arguments)}"
        command = command.commands[rest.pop(0)]
    try:
        command.make_context("turngate", rest)
    except typer.TyperException as error:
        return error.format_message()
    return None


def make_problem(arguments: list[str]) -> str | None:
    targets = set(re.findall(r"(?m)^([a-z][a-z-]*):", (ROOT / "Makefile").read_text()))
    wanted = {word for word in arguments if "=" not in word}
    return None if wanted <= targets else f"no target {sorted(wanted - targets)}"


def test_every_block_says_its_language(fences: list[Fence]) -> None:
    assert [fence.place for fence in fences if fence.language not in LANGUAGES] == []


def holds(kept: object, given: object) -> bool:
    """Whether everything given came through; defaults may have been added."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return all(name in kept and holds(kept[name], value) for name, value in given.items())
    if isinstance(given, list) and isinstance(kept, list):
        return len(kept) == len(given) and all(map(holds, kept, given))
    return kept == given


def test_records_decode(fences: list[Fence]) -> None:
    seen = set()
    for fence in of(fences, "json"):
        if fence.name:
            FILES[fence.name].validate_json(fence.text)
            continue
        record = decode_any(fence.text.encode(), tuple(RECORDS))
        seen.add(record.SCHEMA)
        assert holds(json.loads(encode(record)), json.loads(fence.text)), fence.place
        if isinstance(record, Toolset):
            assert record.toolset_digest == toolset_digest(record.tenant, record.tools), fence.place
    assert {"TurnRequest", "Verdict", "Control"} <= seen


def test_commands_exist_and_parse(fences: list[Fence], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGATE_KAFKA", "127.0.0.1:9")
    found = [
        f"{place}: {problem}"
        for fence in of(fences, "bash")
        for place, words in commands(fence)
        if (problem := command_problem(list(words), fences)) is not None
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "turngate audit --no-such-option",
        "turngate nothing",
        "turngate unknown resolve op-1",
        "turngate run janitor",
        "make nothing",
        "TURNGATE_NOTHING=1 make demo",
        "export TURNGATE_NOTHING=1",
        "scripts/nothing.py",
        "scripts/bootstrap.py setup",
        ".venv/bin/python nothing.py",
        "rm -rf .turngate",
        "helm install turngate helm/nothing",
    ],
)
def test_a_wrong_command_is_noticed(line: str, fences: list[Fence]) -> None:
    assert command_problem(shlex.split(line), fences) is not None


def test_commands_named_in_the_text_exist(prose: dict[str, str]) -> None:
    """Inline code that begins with `turngate` or `make`; words in capitals stand for what the reader fills in."""
    wrong = []
    for page, text in prose.items():
        for code in re.findall(r"`((?:turngate|make) [^`|]+)`", text):
            program, *words = shlex.split(code)
            names = [word for word in words if not WORD_OF_A_READER.fullmatch(word)]
            problem = make_problem(words) if program == "make" else group_problem(names)
            if problem:
                wrong.append(f"{page}: {problem}")
    assert wrong == []


def group_problem(words: list[str]) -> str | None:
    """Whether the leading words name a command or a group, and every option is one of that command."""
    command: Any = typer.main.get_command(build_app())
    for word in words:
        if not hasattr(command, "commands"):
            break
        if word not in command.commands:
            return f"no command turngate {shlex.join(words)}"
        command = command.commands[word]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("--") and word not in known | {"--help"}]
    return f"turngate {words[0]} has no {unknown}" if unknown else None


def test_programs_compile_and_pass_the_linter(fences: list[Fence], tmp_path: Path) -> None:
    for fence in of(fences, "python"):
        assert fence.name, f"{fence.place}: a program needs a file name behind `python`"
        compile(fence.text, fence.place, "exec")
        file = tmp_path / fence.page.replace("/", "-") / fence.name
        file.parent.mkdir(exist_ok=True)
        file.write_text(fence.text)
    for action in (["check", "--ignore", "T20"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *action, "--config", str(ROOT / "pyproject.toml"), str(tmp_path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
