"""Platforms compress as their clients please; a batch that cannot be read would stop its reader."""

from __future__ import annotations

from aiokafka import codec


def test_every_compression_of_the_protocol_can_be_read() -> None:
    assert codec.has_gzip()
    assert codec.has_snappy()
    assert codec.has_lz4()
    assert codec.has_zstd()
