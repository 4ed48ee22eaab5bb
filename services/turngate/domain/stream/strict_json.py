"""Tool arguments read once and strictly: one JSON object, exact integers, nothing a lenient parser would let
through.

orjson is the gate (UTF-8, surrogates, NaN, 1e999, depth, trailing text); the value used is the standard
library's, read with hooks, because orjson keeps the last of two equal keys and turns large integers into
floats.
"""

from __future__ import annotations

import json
import re
from typing import Literal, NoReturn, cast

import orjson

from turngate.domain.stream.findings import GateCode

_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<lone>u[dD][89a-fA-F]..)|.)", re.DOTALL)
"""An escape of a JSON text; `lone`: half a pair. Looked for in the text, since a repeated key hides what came first."""
_ORJSON_DEPTH_MAX = 1024


class RejectedJson(ValueError):
    """The text is not one strict JSON object. `code` is the finding, the message says why without quoting
    it."""

    def __init__(self, code: GateCode, message: str) -> None:
        super().__init__(message)
        self.code: GateCode = code


def parse_object(text: str, *, bytes_max: int, depth_max: int) -> dict[str, object]:
    """The arguments of one call. Raises RejectedJson with the finding's code."""
    if len(text) > bytes_max or (not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > bytes_max):
        raise RejectedJson("too_large", f"arguments exceed {bytes_max} bytes")
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        raise RejectedJson(*_why(text)) from None
    try:
        value: object = _STRICT.decode(text)
    except RejectedJson:
        raise
    except RecursionError:
        raise RejectedJson("too_large", f"arguments are nested deeper than {depth_max} levels") from None
    except ValueError:
        raise RejectedJson("too_large", "arguments hold an integer of too many digits") from None
    if not isinstance(value, dict):
        raise RejectedJson("non_object_arguments", "arguments are JSON but not an object")
    if _may_be_deep(text, depth_max) and not _shallow(value, depth_max):
        raise RejectedJson("too_large", f"arguments are nested deeper than {depth_max} levels")
    return cast("dict[str, object]", value)


def event_fault(text: str) -> tuple[GateCode, str]:
    """Code and message for an event text that the strict parser refused."""
    code, message = _why(text)
    return code, f"event: {message}"


def repeated_key(value: object, text: str) -> Literal["same", "other", "deep"] | None:
    """Whether an object in an event names a key twice, and whether both times with the same value; "deep" where it is
    nested too deeply to tell.

    value: `text`, parsed. Nearly every event is written as it would be written again, but for spaces between its
    tokens: then nothing was lost in reading.
    """
    try:
        again = orjson.dumps(value)
        if again == text.encode() or again == text.replace('": ', '":').replace(', "', ',"').encode():
            return None
    except TypeError:  # nested too deeply to be written again
        pass
    found: Literal["same", "other"] | None = None

    def once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal found
        out = dict(pairs)
        if len(out) != len(pairs) and found != "other":
            found = "same" if all(json.dumps(out[key]) == json.dumps(one) for key, one in pairs) else "other"
        return out

    try:
        json.loads(text, object_pairs_hook=once_each, parse_int=integer)
    except RecursionError:
        return "deep"
    return found


def but_for_numbers(text: str) -> object | None:
    """The value of an event text in which nothing but numbers is refused: some are infinite or no numbers in it.

    None for any other. What such an event says of the turn's end counts, though the turn will not pass.
    """
    try:
        value: object = json.loads(text, parse_int=integer)
    except (ValueError, RecursionError):
        return None
    if any(escape["lone"] for escape in _ESCAPE.finditer(text)) or not _shallow(value, _ORJSON_DEPTH_MAX):
        return None
    return value


def integer(digits: str) -> int | float:
    """An integer of a JSON text. One with more digits than Python takes becomes infinite, which no argument and no
    schema may be: the rest of the text can be read on."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def is_too_deep(text: str, depth_max: int) -> bool:
    """Whether a JSON text is nested deeper than that."""
    if not _may_be_deep(text, depth_max):
        return False
    try:
        return not _shallow(orjson.loads(text), depth_max)
    except orjson.JSONDecodeError:
        return True  # no JSON, or nested deeper than the parser goes


def _why(text: str) -> tuple[GateCode, str]:
    """Name the reason the gate refused `text`."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "invalid_unicode", "the text holds a lone surrogate"
    try:
        value: object = json.loads(text, parse_constant=_constant, parse_float=_finite)
    except RejectedJson as rejected:
        return rejected.code, str(rejected)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return "trailing_json", "text follows the JSON value"
        return "malformed_json", "the text is not complete JSON"
    except RecursionError:
        return "too_large", "the JSON is nested too deeply"
    except ValueError:
        return "too_large", "the JSON holds an integer of too many digits"
    if any(escape["lone"] for escape in _ESCAPE.finditer(text)):
        return "invalid_unicode", "a string holds a lone surrogate"
    if _shallow(value, _ORJSON_DEPTH_MAX):
        return "too_large", "the JSON holds an integer of too many digits"
    return "too_large", "the JSON is nested too deeply"


def _constant(_word: str) -> NoReturn:
    raise RejectedJson("non_finite_number", "NaN and Infinity are not JSON")


def _finite(word: str) -> float:
    number = float(word)
    if number in (float("inf"), float("-inf")):
        raise RejectedJson("non_finite_number", "a number exceeds the range of a double")
    return number


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise RejectedJson("duplicate_key", "an object names a key twice")
    return out


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant)


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else []


def _may_be_deep(text: str, depth_max: int) -> bool:
    """Nearly every text tells by the number of its brackets that it is not."""
    return text.count("{") + text.count("[") > depth_max


def _shallow(value: object, depth_max: int) -> bool:
    """Whether objects and lists are nested at most `depth_max` deep."""
    level = [value]
    for _ in range(depth_max):
        level = [child for node in level for child in _children(node) if isinstance(child, (dict, list))]
        if not level:
            return True
    return False
