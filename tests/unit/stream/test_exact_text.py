"""The exact text of a part of a JSON text: taken from the parsed value only where that cannot make a difference."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.domain.stream.rawjson import again, replaced, slice_at

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(before=VALUES, part=VALUES, plain=st.booleans(), spaced=st.booleans(), compact=st.booleans())
def test_what_is_written_again_is_what_was_written(
    before: object, part: object, plain: bool, spaced: bool, compact: bool
) -> None:
    value = {"before": before, "part": part, "behind": 0}
    text = (
        orjson.dumps(value).decode()
        if compact
        else json.dumps(value, ensure_ascii=plain, separators=None if spaced else (",", ":"))
    )
    read: Any = orjson.loads(text)
    found = again(text, read, read["part"])
    other = again(text, read, {**read, "part": orjson.Fragment('"x"')})
    assert (found is None) == (other is None)
    assert found is not None or not compact or read != value
    if found is not None:
        assert found == slice_at(text, ("part",))
        assert other == replaced(text, ("part",), '"x"')


@pytest.mark.parametrize(
    "text",
    ['{"part":1.0e1}', '{"part":{"a":1,"a":1}}', '{"part":[], "part":[]}', '{"part":"\\u0061"}', ' {"part":0}',
     '{"part":"\\/"}', '{"part":1e400}', '{"part":123456789012345678901}', '{"part":NaN}'],
)  # fmt: skip
def test_what_reading_loses_is_not_written_again(text: str) -> None:
    value = json.loads(text)
    assert again(text, value, value["part"]) is None


def test_what_is_nested_too_deeply_is_not_written_again() -> None:
    text = '{"part":' + "[" * 300 + "]" * 300 + "}"
    value = orjson.loads(text)
    assert again(text, value, value["part"]) is None
    assert slice_at(text, ("part",)) == "[" * 300 + "]" * 300
