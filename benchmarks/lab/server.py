"""The provider of the lab: on this machine's own address, it answers each POST with the stream of the case in its path.

Nothing here but the standard library.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def body_of(case: Mapping[str, Any]) -> bytes:
    """The events as server-sent events, named as the API names them."""
    lines = []
    for event in case["events"]:
        if case["api"] == "messages":
            lines.append(f"event: {json.loads(event)['type']}\n")
        lines.append(f"data: {event}\n\n")
    return "".join(lines).encode("utf-8")


@contextmanager
def serving(cases: list[dict[str, Any]]) -> Iterator[str]:
    """The base address; a case's own is `<base>/<name>`, followed by the API's path."""
    bodies = {case["name"]: body_of(case) for case in cases}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            body = bodies[self.path.split("/")[1]]
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
