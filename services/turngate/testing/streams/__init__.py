"""Streams by the thousand, from one seed: whole turns of a provider, and turns to which something happened."""

from __future__ import annotations

from turngate.testing.streams.generate import PROFILES, Generated, streams

__all__ = ["PROFILES", "Generated", "streams"]
