"""How a test restarts the servers of a stack that another process runs.

That process listens on loopback and writes a control file {port, token}. A request is one line of JSON
{token, action: ping | stop | start | shutdown, server, graceful, keepData}, the answer one line {error: null
| text}. Whoever can read the file may use it; the token keeps out what merely finds the port.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socketserver
import threading
from pathlib import Path
from typing import Literal, TypedDict, cast

from turngate.devstack.base import ServerName, Stack
from turngate.devstack.errors import StackError
from turngate.devstack.ports import LOOPBACK
from turngate.schemas.errors import TurngateError

Action = Literal["ping", "stop", "start", "shutdown"]


class Request(TypedDict):
    token: str
    action: Action
    server: ServerName | None
    graceful: bool
    keepData: bool


class ControlServer:
    """Serves one stack's control file until it is closed. `shutdown` is set when a client asked for the end
    of it all.
    """

    def __init__(self, stack: Stack, control_file: Path) -> None:
        self.shutdown = threading.Event()
        self._stack = stack
        self._file = control_file
        self._token = secrets.token_hex(16)
        self._turn = threading.Lock()
        handler = _handler(self)
        self._server = socketserver.ThreadingTCPServer((LOOPBACK, 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def __enter__(self) -> ControlServer:
        self._thread.start()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".draft")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps({"port": self._server.server_address[1], "token": self._token}) + "\n")
        os.replace(draft, self._file)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.unlink(missing_ok=True)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, line: bytes) -> str | None:
        """Do what one request says; the error's text, or None when it was done."""
        try:
            request = cast(Request, json.loads(line))
            if not hmac.compare_digest(request["token"], self._token):
                return "the token does not fit: the control file is older than this stack"
            with self._turn:
                self._act(request)
        except TurngateError as error:
            return str(error)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return f"not a control request: {type(error).__name__}"
        return None

    def _act(self, request: Request) -> None:
        server = request["server"]
        if request["action"] == "shutdown":
            self.shutdown.set()
        elif request["action"] == "ping":
            return
        elif server is None:
            raise StackError("the request names no server")
        elif request["action"] == "stop":
            self._stack.stop_server_sync(server, graceful=request["graceful"], keep_data=request["keepData"])
        else:
            self._stack.start_server_sync(server)


def _handler(control: ControlServer) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        timeout = 10.0

        def handle(self) -> None:
            error = control.answer(self.rfile.readline(4096))
            self.wfile.write(json.dumps({"error": error}).encode() + b"\n")

    return Handler
