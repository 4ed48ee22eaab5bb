"""Writes fixtures with placeholders beside a report (`turngate conformance --redact OUT`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from turngate.domain.stream.conformance import Fixture
from turngate.domain.stream.fixture_text import fixture_text
from turngate.domain.stream.redact import RedactionChanges, redact_fixture


def write_redacted(out: Path, files: Sequence[str], fixtures: Sequence[Fixture | None]) -> bool:
    """One file, or one a fixture in a folder where there are several or `out` is one. Says what could not be written;
    False where anything could not. What was no fixture (None) has its report already."""
    folder = out.is_dir() or len(files) > 1
    written: set[Path] = set()
    for name, fixture in zip(files, fixtures, strict=True):
        if fixture is None:
            continue
        target = out / _file_name(name) if folder else out
        try:
            if target in written:
                raise FileExistsError(0, "another FILE of this name was written there")
            data = fixture_text(redact_fixture(fixture))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except RedactionChanges as error:
            print(f"turngate conformance: {name}: {error.code}: {error}", file=sys.stderr)
            return False
        except OSError as error:
            print(f"turngate conformance: cannot write {target}: {error.strerror or 'output error'}", file=sys.stderr)
            return False
        written.add(target)
    return True


def _file_name(name: str) -> str:
    return "stdin.json" if name == "-" else Path(name).with_suffix(".json").name
