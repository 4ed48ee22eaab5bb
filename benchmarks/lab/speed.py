"""Runs in the lab's venv: per event, turngate's stream core with all checks beside the accumulators of other libraries.

Every side begins with the same payload texts and ends with the same two calls, arguments parsed, which is asserted.
JSON is read by orjson for every side, also for the libraries that read it with the slower json themselves.
"""

from __future__ import annotations

import gc
import json
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import orjson
from anthropic._models import construct_type_unchecked
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI
from openai._models import construct_type
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from pydantic_ai._parts_manager import ModelResponsePartsManager
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import ModelRequestParameters

from benchmarks.streams import SHAPES, TOOLS
from turngate.domain.stream import Assembler, StreamEnd, compile_toolset

SIZES = (500, 5_000)
ROUNDS = 7
EVENTS_A_ROUND = 5_000
"""Each side repeats a stream until it has read so many."""
FRAME = 16
OURS = "turngate"
TOOLSET = compile_toolset(TOOLS)
CHAT_MODEL = ChatOpenAI(model="m", api_key="none")  # type: ignore[arg-type]

Calls = list[tuple[str, dict[str, Any]]]
Events = Iterable[Any]


@dataclass(frozen=True, slots=True)
class Side:
    """build: payload texts to the library's own event objects, one at a time. take: those to calls.

    claim: how many times its time ours should fit in.
    """

    name: str
    build: Callable[[list[str]], Iterator[Any]]
    take: Callable[[Events], Calls]
    claim: float


# -- turngate ------------------------------------------------------------------------------------------------


def ours(profile: str, events: list[str]) -> Calls:
    assembler = Assembler(profile=profile, tools=TOOLSET)
    for at in range(0, len(events), FRAME):
        assembler.feed(at, events[at : at + FRAME])
    outcome = assembler.end(StreamEnd("eof", count=len(events)))
    assert outcome.verdict == "commit", outcome.findings
    return [(call.name or "", dict(call.arguments or {})) for call in outcome.calls]


# -- the others ----------------------------------------------------------------------------------------------


def parsed(events: list[str]) -> Iterator[Any]:
    return map(orjson.loads, events)


def openai_build(events: list[str]) -> Iterator[Any]:
    return (construct_type(type_=ChatCompletionChunk, value=orjson.loads(raw)) for raw in events)


def openai_take(chunks: Events) -> Calls:
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(chunk)
    message = state.get_final_completion().choices[0].message
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]


def anthropic_build(events: list[str]) -> Iterator[Any]:
    kind: Any = RawMessageStreamEvent
    return (construct_type_unchecked(type_=kind, value=orjson.loads(raw)) for raw in events)


def anthropic_take(events: Events) -> Calls:
    message: Any = None
    buffers: dict[int, bytes] = {}
    for event in events:
        message = accumulate_event(event=event, current_snapshot=message, json_bufs=buffers)
    return [(block.name, block.input) for block in message.content if block.type == "tool_use"]


def langchain_build(events: list[str]) -> Iterator[Any]:
    convert = CHAT_MODEL._convert_chunk_to_generation_chunk
    for raw in events:
        chunk = convert(orjson.loads(raw), AIMessageChunk, None)
        assert chunk is not None
        yield chunk.message


def langchain_take(chunks: Events) -> Calls:
    full: Any = None
    for chunk in chunks:
        full = chunk if full is None else full + chunk
    return [(call["name"], call["args"]) for call in full.tool_calls]


def parts_of(manager: ModelResponsePartsManager) -> Calls:
    return [(part.tool_name, part.args_as_dict()) for part in manager.get_parts() if isinstance(part, ToolCallPart)]


def pydantic_ai_chat(chunks: Events) -> Calls:
    """As pydantic-ai's own reading of a chat stream calls the manager, less everything else that it does."""
    manager = ModelResponsePartsManager(model_request_parameters=ModelRequestParameters())
    for chunk in chunks:
        delta = chunk["choices"][0]["delta"]
        if content := delta.get("content"):
            for _ in manager.handle_text_delta(vendor_part_id="content", content=content):
                pass
        for call in delta.get("tool_calls", ()):
            function = call["function"]
            manager.handle_tool_call_delta(
                vendor_part_id=call["index"],
                tool_name=function.get("name"),
                args=function.get("arguments"),
                tool_call_id=call.get("id"),
            )
    return parts_of(manager)


def pydantic_ai_messages(events: Events) -> Calls:
    manager = ModelResponsePartsManager(model_request_parameters=ModelRequestParameters())
    for event in events:
        if event["type"] == "content_block_delta":
            delta, index = event["delta"], event["index"]
            if delta["type"] == "text_delta":
                for _ in manager.handle_text_delta(vendor_part_id=index, content=delta["text"]):
                    pass
            else:
                manager.handle_tool_call_delta(vendor_part_id=index, args=delta["partial_json"])
        elif event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            block = event["content_block"]
            manager.handle_tool_call_delta(
                vendor_part_id=event["index"], tool_name=block["name"], args="", tool_call_id=block["id"]
            )
    return parts_of(manager)


SIDES = {
    "openai": (
        Side("pydantic-ai parts manager", parsed, pydantic_ai_chat, 1),
        Side("langchain-core", langchain_build, langchain_take, 10),
        Side("openai", openai_build, openai_take, 50),
    ),
    "anthropic": (
        Side("pydantic-ai parts manager", parsed, pydantic_ai_messages, 1),
        Side("anthropic", anthropic_build, anthropic_take, 5),
    ),
}
PACKAGES = ("orjson", "pydantic-ai-slim", "langchain-core", "langchain-openai", "openai", "anthropic", "pydantic")


def best_us(events: int, works: list[tuple[Callable[[], Any], Callable[[Any], object]]]) -> list[float]:
    """For each (prepare, run): best of some rounds, in microseconds of processor time an event; prepare is not timed.

    The works take turns, so that a busy machine slows all of them.
    """
    best = [float("inf")] * len(works)
    repeat = max(1, EVENTS_A_ROUND // events)
    for _ in range(ROUNDS):
        for place, (prepare, run) in enumerate(works):
            inputs = [prepare() for _ in range(repeat)]
            gc.collect()
            gc.freeze()  # what was prepared is no part of the work, nor is looking through it for garbage
            begin = time.process_time()
            for one in inputs:
                run(one)
            best[place] = min(best[place], (time.process_time() - begin) / repeat)
            gc.unfreeze()
            inputs.clear()
    return [seconds / events * 1e6 for seconds in best]


def compared(profile: str, size: int) -> dict[str, tuple[float, float]]:
    """Side -> (microseconds an event from text, the same from the library's own objects); ours only from text."""
    events = SHAPES[profile](size)
    sides = SIDES[profile]
    wanted = ours(profile, events)
    assert len(wanted) == 2
    works: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
        (lambda: events, lambda texts: ours(profile, texts))
    ]
    for side in sides:
        assert side.take(side.build(events)) == wanted, side.name
        works.append((lambda: events, lambda texts, side=side: side.take(side.build(texts))))
        works.append((lambda side=side: list(side.build(events)), side.take))
    first, *rest = best_us(len(events), works)
    return {OURS: (first, first)} | {
        side.name: (rest[2 * place], rest[2 * place + 1]) for place, side in enumerate(sides)
    }


def main() -> int:
    print(f"CPython {platform.python_version()}; {', '.join(f'{name} {version(name)}' for name in PACKAGES)}")
    head = f"{'from text':>12}{'ratio':>7}{'from objects':>14}{'ratio':>7}"
    print(f"{'profile':<11}{'events':>7}  {'accumulator':<26}{head}")
    lowest: dict[str, float] = {}
    for profile in SIDES:
        for size in SIZES:
            figures = compared(profile, size)
            base = figures[OURS][0]
            for name, (text, objects) in figures.items():
                tail = "" if name == OURS else f"{text / base:>7.1f}{objects:>11.2f} us{objects / base:>7.1f}"
                print(f"{profile:<11}{len(SHAPES[profile](size)):>7}  {name:<26}{text:>9.2f} us{tail}", flush=True)
                if name != OURS:
                    lowest[name] = min(lowest.get(name, float("inf")), text / base)
    claims = {side.name: side.claim for sides in SIDES.values() for side in sides}
    for name, claim in claims.items():
        holds = "holds" if lowest[name] >= claim else "does not hold"
        print(f"at least {claim:g} times {name}'s speed from text: {holds}, {lowest[name]:.1f} at the least")
    return 0


if __name__ == "__main__":
    sys.exit(main())
