"""The data payloads of a recorded SSE body, by the WHATWG line rules; for whole files, not for sockets."""

from __future__ import annotations

import re

_LINE_END = re.compile(r"\r\n|\n|\r")


def data_payloads(body: str) -> list[str]:
    """The data of every dispatched event, in order. An event that no blank line ends is not dispatched."""
    out: list[str] = []
    data: list[str] = []
    lines = _LINE_END.split(body.removeprefix("\ufeff"))
    for line in lines[:-1]:  # what follows the last line end is no line yet
        if line == "":
            if data:
                out.append("\n".join(data))
                data.clear()
            continue
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
    return out
