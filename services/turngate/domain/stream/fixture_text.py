"""A fixture as the text of a file: what `read_fixture` gives back to the last character of every event."""

from __future__ import annotations

import json

from turngate.domain.stream.conformance import Fixture, UnreadableFixture, read_fixture


def fixture_text(fixture: Fixture) -> bytes:
    """The file. Events stand in it as JSON where they are JSON, one a line, otherwise as text."""
    fields: list[tuple[str, str]] = [
        ("profile", json.dumps(fixture.profile)),
        ("tool_schemas", json.dumps(fixture.tool_schemas, ensure_ascii=False)),
        ("events", "[\n  " + ",\n  ".join(_element(event) for event in fixture.events) + "\n ]"),
    ]
    if fixture.tool_choice is not None:
        fields.append(("tool_choice", json.dumps(fixture.tool_choice)))
    if fixture.fault is not None:
        fields.append(("fault", json.dumps(fixture.fault)))
    if fixture.meta is not None:
        fields.append(("meta", json.dumps(fixture.meta, ensure_ascii=False)))
    lines = ",\n ".join(f'"{name}": {text}' for name, text in fields)
    return f"{{\n {lines}\n}}\n".encode("utf-8", "backslashreplace")


def _element(event: str) -> str:
    """The event itself where a reader finds exactly it again."""
    if not event.startswith('"'):
        try:
            same = read_fixture(f'{{"profile":"","events":[{event}]}}'.encode()).events == [event]
        except (UnreadableFixture, UnicodeEncodeError):
            same = False
        if same:
            return event
    return json.dumps(event)
