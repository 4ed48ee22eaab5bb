"""The command line's frame: what is mounted, and which exit code an error becomes."""

from __future__ import annotations

import builtins
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer

from turngate.cli import app as frame
from turngate.cli.main import EXIT_UNAVAILABLE, main
from turngate.schemas.errors import ConfigurationError

FOLDER = Path(frame.__file__).parent


def command_modules() -> set[str]:
    return {path.stem for path in FOLDER.glob("*.py") if "\ndef register(" in path.read_text()}


def mount(monkeypatch: pytest.MonkeyPatch, command: object) -> None:
    """Make `probe` the only command group, running `command`."""

    def register(app: typer.Typer) -> None:
        app.command("probe")(command)  # type: ignore[type-var]  # any callable will do

    module = ModuleType("turngate.cli.probe")
    module.register = register  # type: ignore[attr-defined]  # a module made for this test
    monkeypatch.setitem(sys.modules, "turngate.cli.probe", module)
    monkeypatch.setattr(frame, "COMMANDS", {"probe": ("probe",)})


def test_every_command_module_is_listed() -> None:
    assert command_modules() == set(frame.COMMANDS)


@pytest.mark.parametrize("module", sorted(frame.COMMANDS))
def test_listed_words_are_what_the_module_mounts(module: str) -> None:
    app = typer.Typer()
    importlib.import_module(f"turngate.cli.{module}").register(app)
    groups = {group.name for group in app.registered_groups}
    commands = {command.name for command in app.registered_commands}
    assert groups | commands == set(frame.COMMANDS[module])


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("turngate ")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for words in frame.COMMANDS.values() for word in words)


@pytest.mark.parametrize("arguments", [[], ["nope"], ["run"], ["run", "nobody"], ["run", "edge", "--nope"]])
def test_usage_errors_exit_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == frame.EXIT_USAGE
    shown = capsys.readouterr()
    assert "Usage: turngate" in shown.out + shown.err


def test_exit_code_of_a_command_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        raise typer.Exit(2)

    mount(monkeypatch, command)
    assert main(["probe"]) == 2


def test_turngate_error_is_one_line_and_exit_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise ConfigurationError("set TURNGATE_KAFKA")

    mount(monkeypatch, command)
    assert main(["probe"]) == frame.EXIT_FAILED
    assert capsys.readouterr().err == "configuration_error: set TURNGATE_KAFKA\n"


def test_interrupt_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        raise KeyboardInterrupt

    mount(monkeypatch, command)
    assert main(["probe"]) == frame.EXIT_INTERRUPTED


def test_defect_of_a_command_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        raise ZeroDivisionError

    mount(monkeypatch, command)
    with pytest.raises(ZeroDivisionError):
        main(["probe"])


def fail_import(monkeypatch: pytest.MonkeyPatch, module: str, missing: str) -> None:
    genuine = importlib.import_module

    def imported(name: str, package: str | None = None) -> ModuleType:
        if name == module:
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return genuine(name, package)

    monkeypatch.setattr(importlib, "import_module", imported)


def test_missing_extra_is_named_by_its_command_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_import(monkeypatch, "turngate.cli.topology", "noida_db")
    assert main(["--help"]) == 0
    assert main(["topology", "plan", "--kafka", "nowhere:1"]) == EXIT_UNAVAILABLE
    assert 'pip install "turngate[devstack]"' in capsys.readouterr().err


def test_any_other_failing_import_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_import(monkeypatch, "turngate.cli.topology", "turngate.topology.nothing")
    with pytest.raises(ModuleNotFoundError):
        main(["topology"])


def test_bare_install_says_which_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    genuine = builtins.__import__

    def imported(name: str, *rest: object, **named: object) -> object:
        if name == "typer":
            raise ModuleNotFoundError("No module named 'typer'", name="typer")
        return genuine(name, *rest, **named)  # type: ignore[arg-type]  # passed through as it came

    monkeypatch.setattr(builtins, "__import__", imported)
    assert main(["--version"]) == EXIT_UNAVAILABLE
    assert 'pip install "turngate[fleet]"' in capsys.readouterr().err


def test_reader_that_goes_away_is_no_traceback() -> None:
    code = "import sys; from turngate.cli.main import main; sys.exit(main(['--help']))"
    line = f'{sys.executable} -c "{code}" | true'
    shown = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in shown.stderr
    assert "BrokenPipe" not in shown.stderr


@pytest.mark.parametrize("conversation", ["a/b/c", "a/", "/b", "a", "", "a b/c"])
def test_trace_of_what_is_no_conversation_is_a_usage_error(
    conversation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", conversation, "--dump", str(tmp_path)]) == 64
    assert "TENANT/CONVERSATION" in capsys.readouterr().err
    assert main(["trace", "b/c", "--tenant", "a", "--dump", str(tmp_path)]) == 64
