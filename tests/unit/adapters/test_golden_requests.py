"""Golden requests: the sequences are files, so a change of one byte of what is sent is a change of a file here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turngate.domain.adapters.registry import adapter, build_manifest
from turngate.domain.sequence import check_sequence
from turngate.schemas.codec import decode
from turngate.schemas.digests import request_digest, sha256_hex
from turngate.schemas.sequence import MessageSequence
from turngate.schemas.tools import Toolset

GOLDEN = Path(__file__).parent / "golden"
ADAPTERS = ("openai-chat@1", "openai-compat@1", "anthropic@1")
CASES = ("tools", "media")


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("case", CASES)
def test_the_bytes_are_the_golden_bytes(name: str, case: str) -> None:
    sequence = decode(MessageSequence, (GOLDEN / f"{case}.sequence.json").read_bytes())
    toolset = decode(Toolset, (GOLDEN / "toolset.json").read_bytes()) if sequence.toolset_digest else None
    digests = json.loads((GOLDEN / "digests.json").read_bytes())
    chosen = adapter(name)
    rendered = chosen.render(sequence, toolset)
    assert check_sequence(sequence) == ()
    assert rendered.body == (GOLDEN / f"{case}.{name}.body").read_bytes()
    manifest = build_manifest(sequence, rendered, chosen, operation_id="op-golden", provider="main", created_at_ms=0)
    assert manifest.request_digest == digests[f"{case}.{name}"]
    named = request_digest("POST", rendered.path, rendered.body, rendered.headers)
    assert manifest.request_digest == named


def test_golden_sequence_digests() -> None:
    digests = json.loads((GOLDEN / "digests.json").read_bytes())
    for case in CASES:
        sequence = decode(MessageSequence, (GOLDEN / f"{case}.sequence.json").read_bytes())
        assert sequence.sequence_digest == digests[f"{case}.sequence"]
        assert sequence.history_digest == digests[f"{case}.history"]


def test_an_adapter_digest_is_a_sha256_and_differs_by_variant() -> None:
    digests = {adapter(name).digest for name in ADAPTERS}
    assert len(digests) == len(ADAPTERS)
    assert all(len(digest) == len(sha256_hex(b"")) for digest in digests)
