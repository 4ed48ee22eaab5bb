"""What may happen to a stream on its way, and what a provider or a server in between may do wrong.

A mutation changes a list of events in place. An event is a JSON object, or text that stands for itself.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import cast

from turngate.testing.streams.calls import NAMES, Json

Events = list[object]
Mutation = Callable[[Events, str, Random], None]
Place = tuple[list[object] | Json, int | str]
"""A container and the key or place of a value in it."""

ODD: tuple[object, ...] = (
    None,
    "",
    0,
    -1,
    7,
    True,
    False,
    1.5,
    {},
    [],
    "x",
    "null",
    [None],
    {"x": 1},
    "stop",
    "tool_calls",
    "tool_use",
    "function",
)
UNKNOWN_FIELDS = (
    "tool_patch",
    "mood",
    "function_call",
    "reasoning",
    "annotations",
    "refusal",
    "error",
    "text",
    "message",
)


_KEY = re.compile(r'"(\w+)": ')


def places(value: object, *, keys: tuple[str, ...] | None = None) -> Iterator[Place]:
    """Every value inside, or those under one of the keys."""
    if isinstance(value, dict):
        for key, child in cast("Json", value).items():
            if keys is None or key in keys:
                yield cast("Json", value), key
            yield from places(child, keys=keys)
    elif isinstance(value, list):
        items = cast("list[object]", value)
        for place, child in enumerate(items):
            if keys is None:
                yield items, place
            yield from places(child, keys=keys)


def some_place(events: Events, random: Random, *keys: str) -> Place | None:
    found = [place for event in events for place in places(event, keys=keys or None)]
    return random.choice(found) if found else None


def get(place: Place) -> object:
    holder, key = place
    return cast("Json", holder)[cast("str", key)]


def put(place: Place, value: object) -> None:
    holder, key = place
    cast("Json", holder)[cast("str", key)] = value


def truncate(events: Events, profile: str, random: Random) -> None:
    del events[random.randrange(len(events)) :]


def drop(events: Events, profile: str, random: Random) -> None:
    del events[random.randrange(len(events))]


def repeat(events: Events, profile: str, random: Random) -> None:
    """An event again, at once or later."""
    at = random.randrange(len(events))
    to = at if random.random() < 0.4 else random.randint(at, len(events))
    events.insert(to, copy.deepcopy(events[at]))


def move(events: Events, profile: str, random: Random) -> None:
    event = events.pop(random.randrange(len(events)))
    events.insert(random.randint(0, len(events)), event)


def swap(events: Events, profile: str, random: Random) -> None:
    if len(events) > 1:
        at = random.randrange(len(events) - 1)
        events[at], events[at + 1] = events[at + 1], events[at]


def odd_value(events: Events, profile: str, random: Random) -> None:
    place = some_place(events, random)
    if place is not None:
        put(place, copy.deepcopy(random.choice(ODD)))


def lost_key(events: Events, profile: str, random: Random) -> None:
    found = [place for event in events for place in places(event) if isinstance(place[0], dict)]
    if found:
        holder, key = random.choice(found)
        del cast("Json", holder)[cast("str", key)]


def added_field(events: Events, profile: str, random: Random) -> None:
    found = [cast("Json", get(place)) for event in events for place in places(event) if isinstance(get(place), dict)]
    if found:
        random.choice(found)[random.choice(UNKNOWN_FIELDS)] = copy.deepcopy(random.choice([*ODD, {"name": "forecast"}]))


def identity(events: Events, profile: str, random: Random) -> None:
    """Another index, id, name or type."""
    place = some_place(events, random, "index", "id", "name", "type")
    if place is None:
        return
    key = place[1]
    names = (*NAMES, "fore", "cast", "odd", "looped", "Forecast")
    others: dict[object, tuple[object, ...]] = {
        "index": (0, 1, 2, -1, None, "0", 0.0, True),
        "id": ("call_0", "call_1", "toolu_0", "toolu_1", "", None, "null", "r2", "x" * 257),
        "name": (*names, "", None),
        "type": (
            "function",
            "custom",
            "tool_use",
            "text",
            "thinking",
            "ping",
            "tool_future",
            "sparkle",
            "input_json_delta",
        ),
    }
    put(place, random.choice(others[key]))


def another_tool(events: Events, profile: str, random: Random) -> None:
    """A call of a tool that is not declared, or whose schema no gate takes."""
    place = some_place(events, random, "name")
    if place is not None:
        put(place, random.choice(["odd", "looped", "nobody", "x"]))


def said_again(events: Events, profile: str, random: Random) -> None:
    """A later piece of a call names it again: rightly, in part, or as another."""
    found = [
        get(place) for event in events for place in places(event, keys=("function",)) if isinstance(get(place), dict)
    ]
    if found:
        cast("Json", random.choice(found))["name"] = random.choice([*NAMES, "fore", "cast", ""])


def same_call_id(events: Events, profile: str, random: Random) -> None:
    """Every call has the id of the first."""
    found = [place for event in events for place in places(event, keys=("id",))]
    calls = [place for place in found if str(get(place)).startswith(("call_", "toolu_", "Ab3"))]
    for place in calls[1:]:
        put(place, get(calls[0]))


def other_response(events: Events, profile: str, random: Random) -> None:
    event = random.choice(events)
    if isinstance(event, dict):
        cast("Json", event)["id"] = random.choice(["r2", "", None, 5])


def other_choice(events: Events, profile: str, random: Random) -> None:
    """What stands in choice 0 also, or instead, in choice 1."""
    wholly = random.random() < 0.5
    copies: Events = []
    for event in events:
        choices = cast("Json", event).get("choices") if isinstance(event, dict) else None
        if choices and isinstance(choices, list) and (wholly or random.random() < 0.4):
            again = copy.deepcopy(cast("Json", event))
            for choice in cast("list[object]", again["choices"]):
                if isinstance(choice, dict):
                    choice["index"] = 1
            copies.append(again)
    if random.random() < 0.7:
        events.extend(copies)
    elif copies:
        events[random.randrange(len(events))] = copies[0]


def stop_label(events: Events, profile: str, random: Random) -> None:
    place = some_place(events, random, "finish_reason", "stop_reason")
    words = (
        "stop", "tool_calls", "length", "content_filter", "error", "model_length", "end_turn", "tool_use", "max_tokens",
        "refusal", "pause_turn", "", "mystery", 3,
    )  # fmt: skip
    if place is not None:
        put(place, random.choice(words))


def provider_error(events: Events, profile: str, random: Random) -> None:
    if profile == "anthropic":
        event: Json = {
            "type": "error",
            "error": {"type": random.choice(["overloaded_error", "api_error"]), "message": "x"},
        }
    else:
        event = random.choice(
            [
                {"error": {"message": "x", "type": "server_error"}},
                {"object": "error", "message": "x"},
                {"id": "r1", "error": "x"},
            ]
        )
    events.insert(random.randint(0, len(events)), event)


def unknown_event(events: Events, profile: str, random: Random) -> None:
    event = random.choice(
        [{"type": "sparkle"}, {}, [], 3, {"type": "content_block_patch", "index": 0}, {"choices": None}]
    )
    events.insert(random.randint(0, len(events)), event)


def broken_event(events: Events, profile: str, random: Random) -> None:
    """An event that is no strict JSON: cut, followed by something, or with what JSON does not have."""
    at = random.randrange(len(events))
    text = events[at] if isinstance(events[at], str) else json.dumps(events[at])
    assert isinstance(text, str)
    events[at] = random.choice(
        [
            text[: random.randrange(len(text) or 1)],
            text + "}",
            text + text,
            '{"x": NaN}',
            '{"x": 1e999}',
            '{"x": "\\ud83d"}',
            "",
            "[DONE]",
            " [DONE]",
            '{"x": ' + "9" * 400 + "}",
            "[" * 3000,
            '{"choices": [], "choices": []}',
            "data: {}",
        ]
    )


def _written_in(events: Events, random: Random, name: str | None, value: str) -> None:
    """One more member before another one of an event's text; without a name that one's own."""
    found = [at for at, event in enumerate(events) if isinstance(event, dict) and event]
    if found:
        at = random.choice(found)
        text = json.dumps(events[at])
        key = random.choice(list(_KEY.finditer(text)))
        events[at] = f'{text[: key.start()]}"{name or key[1]}": {value}, {text[key.start() :]}'


def key_twice(events: Events, profile: str, random: Random) -> None:
    _written_in(events, random, None, json.dumps(random.choice(ODD)))


def no_number(events: Events, profile: str, random: Random) -> None:
    """An event that is sound but for a number in it."""
    _written_in(events, random, "n", random.choice(["NaN", "-Infinity", "1e999", "9" * 400, "9" * 5000]))


def half_a_character(events: Events, profile: str, random: Random) -> None:
    """Text cut inside a character, by whoever split it."""
    found = [place for event in events for place in places(event) if isinstance(get(place), str)]
    if found:
        place = random.choice(found)
        text = cast("str", get(place))
        at = random.randint(0, len(text))
        put(place, text[:at] + random.choice(["\ud83d", "\udc00"]) + text[at:])


def shorter_text(events: Events, profile: str, random: Random) -> None:
    """Text of one piece lost, in part or wholly."""
    place = some_place(events, random, "arguments", "partial_json", "content", "text", "input")
    if place is not None and isinstance(text := get(place), str):
        put(place, text[: random.randint(0, len(text))])


def named_event(events: Events, profile: str, random: Random) -> None:
    """Recorded with the name of the event beside its data; some recorders keep the data as text."""
    for at, event in enumerate(events):
        data = json.dumps(event) if isinstance(event, dict) and random.random() < 0.3 else event
        events[at] = {"event": random.choice([None, "message"]), "data": data}


def whole_message(events: Events, profile: str, random: Random) -> None:
    """A message that comes whole, instead of a part of the stream or behind it."""
    call = {"id": "call_0", "type": "function", "function": {"name": "loose", "arguments": "{}"}}
    if profile == "anthropic":
        block = {"type": "tool_use", "id": "toolu_9", "name": "loose", "input": {"a": 1.0}}
        message: Json = {"id": "msg_1", "content": [block], "stop_reason": "tool_use"}
        events[random.randrange(len(events))] = {"type": "message_start", "message": message}
        return
    said: list[Json] = [
        {"message": {"content": "hei"}},
        {"text": "hei"},
        {"message": {"content": None, "tool_calls": [call]}},
    ]
    choice = {"index": 0, **random.choice(said), "finish_reason": random.choice(["stop", "tool_calls", None])}
    events[random.randrange(len(events))] = {"id": "r1", "choices": [choice]}


MUTATIONS: Mapping[str, tuple[int, Mutation]] = {
    "truncated": (6, truncate),
    "dropped": (4, drop),
    "repeated": (5, repeat),
    "moved": (5, move),
    "swapped": (3, swap),
    "odd value": (10, odd_value),
    "lost key": (6, lost_key),
    "added field": (5, added_field),
    "identity": (8, identity),
    "another tool": (3, another_tool),
    "said again": (3, said_again),
    "same call id": (4, same_call_id),
    "other response": (1, other_response),
    "other choice": (3, other_choice),
    "stop label": (5, stop_label),
    "provider error": (4, provider_error),
    "unknown event": (3, unknown_event),
    "broken event": (4, broken_event),
    "key twice": (4, key_twice),
    "no number": (3, no_number),
    "half a character": (3, half_a_character),
    "shorter text": (3, shorter_text),
    "named event": (2, named_event),
    "whole message": (2, whole_message),
}
"""Name -> weight and mutation."""
