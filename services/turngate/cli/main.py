"""The entry point of `turngate`: works on a bare install too, where it says what is missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence

EXIT_UNAVAILABLE = 69


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's); returns the exit code.

    The base install carries the records alone; the command line belongs to the `fleet` extra.
    """
    try:
        import typer as _  # noqa: F401 - asks only whether the extra is there
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        print('the turngate command needs its extra: pip install "turngate[fleet]"', file=sys.stderr)
        return EXIT_UNAVAILABLE
    from turngate.cli.app import run_command_line

    return run_command_line(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
