"""Strict JSON: one value, nothing after it, and nothing in it that two readers could understand differently."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

BYTES_MAX = 512_000
"""UTF-8 bytes of the arguments of one call."""
DEPTH_MAX = 64
"""Objects and lists inside each other, in the arguments of one call."""

INTEGER_MAX = int(sys.float_info.max)
"""Beyond the range of a double other readers see infinity."""

SPACE = re.compile(r"[ \t\r\n]*")
ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<lone>u[dD][89a-fA-F]..)|.)", re.DOTALL)


class Refused(Exception):
    """The gate does not accept a text or a schema. code: of the finding. The message never quotes content."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments of one call: an object, no key twice, integers exact. Raises Refused."""
    if utf8_length(text) > BYTES_MAX:
        raise Refused("too_large", f"more than {BYTES_MAX} bytes of arguments")
    value, repeats_a_key = read_value(text)
    if repeats_a_key:
        raise Refused("duplicate_key", "an object names a key twice")
    if not isinstance(value, dict):
        raise Refused("non_object_arguments", "arguments are JSON but not an object")
    if depth(value) > DEPTH_MAX:
        raise Refused("too_large", f"arguments are nested deeper than {DEPTH_MAX} levels")
    return value


def read_value(text: str) -> tuple[Any, bool]:
    """The value that a text is, and whether an object in it names a key twice (the last one counts). Raises Refused."""
    repeats_a_key = too_long = False

    def integer(digits: str) -> int:
        nonlocal too_long
        number = int(digits)
        too_long = too_long or abs(number) > INTEGER_MAX
        return number

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeats_a_key
        found = dict(pairs)
        if len(found) < len(pairs):
            repeats_a_key = True
        return found

    decoder = json.JSONDecoder(
        object_pairs_hook=object_of, parse_constant=finite_number, parse_float=finite_number, parse_int=integer
    )
    if utf8_length(text) < 0:
        raise Refused("invalid_unicode", "the text holds a lone surrogate")
    try:
        value, end = decoder.raw_decode(text, after_space(text, 0))
    except json.JSONDecodeError:
        raise Refused("malformed_json", "the text is not complete JSON") from None
    except ValueError:  # Python's own bound on the digits of an integer
        raise Refused("too_large", "an integer has too many digits") from None
    except RecursionError:
        raise Refused("too_large", "the JSON is nested too deeply") from None
    if after_space(text, end) < len(text):
        raise Refused("trailing_json", "text follows the JSON value")
    if any(escape["lone"] for escape in ESCAPE.finditer(text)):
        raise Refused("invalid_unicode", "a string holds a lone surrogate")
    if too_long:
        raise Refused("too_large", "an integer has too many digits")
    return value, repeats_a_key


def but_for_numbers(text: str, code: str) -> Any:
    """The value of an event that was refused for its numbers alone, None of any other. Nothing passes after such an
    event, but where it ends the turn, the turn has ended."""
    if code not in ("non_finite_number", "too_large") or any(escape["lone"] for escape in ESCAPE.finditer(text)):
        return None
    try:
        return json.loads(text, parse_int=integer)
    except (ValueError, RecursionError):
        return None


def integer(digits: str) -> int | float:
    """An integer with more digits than Python takes becomes infinite, so that the rest can be read on."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def finite_number(word: str) -> float:
    """Also called for the words NaN, Infinity and -Infinity, which are not JSON."""
    number = float(word)
    if number != number or abs(number) == float("inf"):
        raise Refused("non_finite_number", "a number is not finite, or beyond the range of a double")
    return number


def utf8_length(text: str) -> int:
    """Bytes in UTF-8; -1 for a text that has none, because half a character is in it."""
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return -1


def depth(value: object) -> int:
    deepest, todo = 0, [(value, 1)]
    while todo:
        node, level = todo.pop()
        if isinstance(node, dict | list):
            deepest = max(deepest, level)
            todo += [(child, level + 1) for child in (node.values() if isinstance(node, dict) else node)]
    return deepest


def is_too_deep(text: str) -> bool:
    """Of JSON that is kept as it is, to be given back: deeper than arguments may be, it could not be written again."""
    if text.count("{") + text.count("[") <= DEPTH_MAX:
        return False
    try:
        return depth(read_value(text)[0]) > DEPTH_MAX
    except Refused:
        return True


# -- exact texts: what a provider wrote is judged and reported as written, never as written again ----------------------


def after_space(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at


def members(text: str) -> Iterator[tuple[str | int, str]]:
    """Key (in a list: place) and exact text of each member of an object or a list. `text` must be JSON."""
    read = json.JSONDecoder(parse_int=float).raw_decode  # only the ends of values are of interest
    at = after_space(text, 0)
    is_object = text[at] == "{"
    place = 0
    at = after_space(text, at + 1)
    while text[at] not in "]}":
        key: str | int = place
        if is_object:
            key, at = read(text, at)
            at = after_space(text, after_space(text, at) + 1)  # over the colon
        _, end = read(text, at)
        yield key, text[at:end]
        place += 1
        at = after_space(text, end)
        if text[at] == ",":
            at = after_space(text, at + 1)


def text_at(text: str, *path: str | int) -> str:
    """The exact text of the value at `path`, of a repeated key the last; "" where there is none."""
    for step in path:
        text = dict(members(text)).get(step, "")
        if not text:
            break
    return text
