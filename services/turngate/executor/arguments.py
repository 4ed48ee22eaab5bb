"""The arguments of a call, parsed strictly and exactly once."""

from __future__ import annotations

import json
from typing import NoReturn, cast

from turngate.executor.tools import Arguments, JsonValue, ToolError


def parse_arguments(raw: str) -> Arguments:
    """The argument object of a call; integers are exact, whatever their size. Empty text is an empty object.

    Raises ToolError (reason `invalid_arguments`) on what is not one JSON object without duplicate keys.
    """
    if not raw:
        return {}
    try:
        value = json.loads(raw, object_pairs_hook=_unique, parse_constant=_not_finite)
    except (ValueError, RecursionError):
        raise _invalid("are not strict JSON") from None
    if not isinstance(value, dict):
        raise _invalid("are not a JSON object")
    return cast(Arguments, value)


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("duplicate key")
    return unique


def _not_finite(name: str) -> NoReturn:
    raise ValueError(name)


def _invalid(what: str) -> ToolError:
    return ToolError(f"the arguments {what}", reason="invalid_arguments")
