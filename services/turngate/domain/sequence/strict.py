"""Whether a text is one whole JSON object, read strictly: no duplicate keys, NaN, trailing text or half
surrogates.
"""

from __future__ import annotations

import json
from typing import NoReturn

import orjson


def is_strict_object(text: str) -> bool:
    try:
        if not isinstance(orjson.loads(text), dict):
            return False
        json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("duplicate key")
    return out


def _refuse(_word: str) -> NoReturn:
    raise ValueError("not JSON")
