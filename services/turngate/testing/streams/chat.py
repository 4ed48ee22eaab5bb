"""Whole turns of Chat Completions and of Mistral, as lists of events."""

from __future__ import annotations

from random import Random

from turngate.testing.streams.calls import NAMES, Json, argument_text, arguments_for, pieces, some_text

OPENAI_STOPS = ("stop", "length", "content_filter", "function_call", "tool_calls", "mystery")
MISTRAL_STOPS = ("stop", "length", "model_length", "error", "tool_calls", "mystery")


def chunk(delta: Json, finish: str | None = None, **more: object) -> Json:
    choice: Json = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "r1", "object": "chat.completion.chunk", "choices": [choice], **more}


def ids(profile: str, number: int, random: Random) -> str:
    if random.random() < 0.02:
        return "call_same"
    if profile == "mistral" and random.random() < 0.7:
        return f"Ab3dE6gH{number}"
    return f"call_{number}"


def call_fragments(profile: str, number: int, random: Random, wrong: float) -> list[Json]:
    """The entries of `tool_calls` that make up one call, in order."""
    name = random.choice(NAMES)
    ident = ids(profile, number, random)
    if profile == "mistral" and random.random() < 0.5:
        return [whole_call(name, ident, number, random, wrong)]
    text = argument_text(name, random, wrong)
    first, *rest = pieces(text, random)
    entries: list[Json] = [
        {"index": number, "id": ident, "type": "function", "function": {"name": name, "arguments": first}}
    ]
    for piece in rest:
        entry: Json = {"index": number, "function": {"arguments": piece}}
        if random.random() < 0.2:  # what some servers add, and what means the same
            entry = random.choice(
                [
                    {**entry, "id": None, "type": None},
                    {**entry, "id": "", "function": {"name": "", "arguments": piece}},
                    {**entry, "id": ident, "type": "function", "function": {"name": name, "arguments": piece}},
                    {**entry, "id": "null", "function": {"name": None, "arguments": piece}},
                ]
            )
        entries.append(entry)
    return entries


def whole_call(name: str, ident: str, number: int, random: Random, wrong: float) -> Json:
    """Mistral: a call in one piece, often without an index, its arguments text or an object."""
    arguments: object = argument_text(name, random, wrong)
    if random.random() < 0.4:
        arguments = arguments_for(name, random)
    entry: Json = {"id": ident, "function": {"name": name, "arguments": arguments}}
    if random.random() < 0.3:
        entry["index"] = number
    return entry


def woven(lists: list[list[Json]], random: Random) -> list[Json]:
    """The fragments of several calls, one call after the other or interleaved; each in its own order."""
    if random.random() < 0.6:
        return [entry for entries in lists for entry in entries]
    waiting = [list(entries) for entries in lists]
    out: list[Json] = []
    while waiting:
        entries = random.choice(waiting)
        out.append(entries.pop(0))
        if not entries:
            waiting.remove(entries)
    return out


def mistral_content(random: Random) -> list[Json]:
    parts: list[Json] = [
        {"type": "text", "text": some_text(random)},
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm " + some_text(random)}], "closed": True},
        {"type": "thinking", "thinking": [{"type": "reference", "reference_ids": [1]}], "signature": "s=="},
        {"type": "reference", "reference_ids": [3, "x"]},
        {"type": "image_url", "image_url": {"url": "u", "n": 1.0}},
        {"type": "thinking", "thinking": "plain"},
    ]
    return random.sample(parts, random.randint(1, 3))


def prose(profile: str, random: Random) -> list[Json]:
    deltas: list[Json] = []
    for _ in range(random.choice([0, 1, 1, 3])):
        content: object = some_text(random)
        if profile == "mistral" and random.random() < 0.4:
            content = mistral_content(random)
        deltas.append({"content": content})
    if random.random() < 0.05:
        deltas.append({"refusal": "No."})
    if random.random() < 0.05:
        deltas.append({"reasoning_content": "hm"})
    return deltas


def chat_stream(profile: str, random: Random, wrong: float) -> list[object]:
    """One response. wrong: how likely each call's arguments are not what its tool wants."""
    calls = random.choice([0, 1, 1, 1, 2, 3])
    deltas: list[Json] = [{"role": "assistant", "content": random.choice(["", None])}] if random.random() < 0.7 else []
    said = prose(profile, random)
    asked: list[Json] = []
    for entry in woven([call_fragments(profile, number, random, wrong) for number in range(calls)], random):
        if asked and random.random() < 0.15:
            joined = asked[-1]["tool_calls"]
            assert isinstance(joined, list)
            joined.append(entry)
        else:
            asked.append({"tool_calls": [entry]})
    deltas += said + asked if random.random() < 0.8 else asked + said
    events: list[object] = [chunk(delta) for delta in deltas]
    return events + ending(profile, calls, events, random)


def ending(profile: str, calls: int, events: list[object], random: Random) -> list[object]:
    """The finish, in a chunk of its own or with the last delta, then usage and [DONE] where they come."""
    finish = "tool_calls" if calls else random.choice(("stop", "stop", "length"))
    if random.random() < 0.06:
        finish = random.choice(MISTRAL_STOPS if profile == "mistral" else OPENAI_STOPS)
    out: list[object] = []
    last = events[-1] if events else None
    if isinstance(last, dict) and random.random() < (0.5 if profile == "mistral" else 0.05):
        choices = last["choices"]
        assert isinstance(choices, list)
        choices[0]["finish_reason"] = finish
    else:
        out.append(chunk({}, finish))
    usage: Json = {"prompt_tokens": 5, "completion_tokens": random.randint(1, 9)}
    if random.random() < 0.4:
        out.append({"id": "r1", "choices": [], "usage": usage})
    elif random.random() < 0.3:
        holder = out[-1] if out else last
        assert isinstance(holder, dict)
        holder["usage"] = usage
    if random.random() < 0.6:
        out.append("[DONE]")
    return out
