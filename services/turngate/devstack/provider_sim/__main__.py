"""`python -m turngate.devstack.provider_sim`."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import sys
from pathlib import Path

from pydantic import ValidationError

from turngate.devstack.provider_sim.receive_log import ReceiveLog
from turngate.devstack.provider_sim.script import Script
from turngate.devstack.provider_sim.server import serve
from turngate.schemas.errors import ConfigurationError


def main() -> int:
    """Serves until SIGTERM; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="A provider simulator for OpenAI Chat Completions and Anthropic Messages."
    )
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--port-file", type=Path, help="where the port is written once the server listens")
    parser.add_argument("--script", type=Path, help="JSON script; without one, answers are echoes")
    parser.add_argument("--receive-log", type=Path, help="one JSON line for each request")
    parser.add_argument("--run", default=secrets.token_hex(4), help="names this run in response ids; else drawn")
    options = parser.parse_args()
    try:
        script = Script() if options.script is None else Script.model_validate_json(options.script.read_bytes())
        asyncio.run(_run(script, options.receive_log, options.port, options.port_file, options.run))
    except (ConfigurationError, OSError) as error:
        sys.stderr.write(f"provider simulator: {error}\n")
        return 78
    except ValidationError as error:
        sys.stderr.write(f"provider simulator: the script has {error.error_count()} errors\n")
        return 78
    return 0


async def _run(script: Script, receive_log: Path | None, port: int, port_file: Path | None, run: str) -> None:
    log = ReceiveLog(receive_log)
    runner, bound = await serve(script, log, port, run)
    if port_file is not None:
        draft = port_file.with_name(f".{port_file.name}.draft")
        draft.write_text(f"{bound}\n")
        draft.replace(port_file)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await stopping.wait()
    await runner.cleanup()
    log.close()


if __name__ == "__main__":
    sys.exit(main())
