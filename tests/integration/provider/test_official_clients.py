"""The official clients read the simulator's streams as they read their provider's: that makes it a fair stand-in."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2
import openai
import pytest

from turngate.devstack.provider_sim.script import Fault, Plan, ToolPlan

if TYPE_CHECKING:
    from conftest import Simulated

Simulate = Callable[..., "AbstractAsyncContextManager[Simulated]"]
Ask = Callable[["Simulated"], Awaitable[Any]]

RECORDED = Path(__file__).parent / "recorded"
BOTH = pytest.mark.parametrize("ask", ["chat", "message"])
CALLS = (
    ToolPlan(id="call_1", name="weather", arguments=('{"ci', 'ty":', '"Bergen \\u00e9', '"}')),
    ToolPlan(id="call_2", name="population", arguments=('{"city"', ':"Oslo","year":2026}')),
)


async def raised(question: Awaitable[Any]) -> Exception:
    """What a client raises."""
    with pytest.raises((openai.OpenAIError, anthropic.AnthropicError, httpx2.HTTPError)) as caught:
        await question
    return caught.value


async def test_openai_text_and_usage(simulate: Simulate) -> None:
    async with simulate(text=("Hel", "lo ", "wörld"), usage=(3, 5)) as sim:
        answer = await sim.chat()
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason, choice.message.tool_calls) == ("Hello wörld", "stop", None)
    assert (answer.model, answer.usage.prompt_tokens, answer.usage.completion_tokens) == ("gpt-sim", 3, 5)


async def test_openai_gives_usage_only_where_it_is_asked_for(simulate: Simulate) -> None:
    async with simulate(text=("a",)) as sim:
        stream = await sim.openai.chat.completions.create(
            model="gpt-sim", messages=[{"role": "user", "content": "a"}], stream=True
        )
        chunks = [chunk async for chunk in stream]
    assert [chunk.usage for chunk in chunks if chunk.usage is not None] == []
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "a"


async def test_anthropic_text_thinking_and_usage(simulate: Simulate) -> None:
    async with simulate(thinking=("Hm, ", "well."), text=("Hel", "lo"), usage=(3, 5)) as sim:
        answer = await sim.message()
    thinking, text = answer.content
    assert (thinking.thinking, thinking.signature, text.text) == ("Hm, well.", "c2ln", "Hello")
    assert (answer.stop_reason, answer.usage.input_tokens, answer.usage.output_tokens) == ("end_turn", 3, 5)


async def test_openai_accumulates_two_parallel_calls(simulate: Simulate) -> None:
    async with simulate(text=("Let me look.",), tools=CALLS) as sim:
        answer = await sim.chat()
    calls = answer.choices[0].message.tool_calls
    assert answer.choices[0].finish_reason == "tool_calls"
    assert [(call.id, call.function.name, call.function.arguments) for call in calls] == [
        (call.id, call.name, "".join(call.arguments)) for call in CALLS
    ]


async def test_anthropic_accumulates_two_parallel_calls(simulate: Simulate) -> None:
    async with simulate(text=("Let me look.",), tools=CALLS) as sim:
        answer = await sim.message()
    assert answer.stop_reason == "tool_use"
    assert [(block.id, block.name, block.input) for block in answer.content if block.type == "tool_use"] == [
        ("call_1", "weather", {"city": "Bergen é"}), ("call_2", "population", {"city": "Oslo", "year": 2026}),
    ]  # fmt: skip


@BOTH
@pytest.mark.parametrize(
    ("status", "name"),
    [(400, "BadRequestError"), (401, "AuthenticationError"), (403, "PermissionDeniedError"), (404, "NotFoundError"),
     (429, "RateLimitError"), (500, "InternalServerError"), (503, ""), (529, "")],
)  # fmt: skip
async def test_an_error_status_is_the_clients_own_error(simulate: Simulate, ask: str, status: int, name: str) -> None:
    async with simulate(fault=Fault(kind="status", status=status, retry_after="7")) as sim:
        error: Any = await raised(getattr(sim, ask)())
    assert isinstance(error, openai.APIStatusError | anthropic.APIStatusError)
    assert (error.status_code, error.response.headers["retry-after"]) == (status, "7")
    assert f"simulated {status}" in str(error)
    assert not name or type(error).__name__ == name
    assert error.request_id == "req_sim"


async def test_a_request_without_a_key_is_refused(simulate: Simulate) -> None:
    async with simulate(text=("a",)) as sim, httpx2.AsyncClient(trust_env=False) as http:
        for path in ("/openai/v1/chat/completions", "/anthropic/v1/messages"):
            answer = await http.post(f"http://127.0.0.1:{sim.port}{path}", json={"model": "m"})
            assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")


@BOTH
@pytest.mark.parametrize("kind", ["cut", "cut_bytes", "reset"])
async def test_a_stream_that_is_cut_raises(simulate: Simulate, ask: str, kind: str) -> None:
    plan = Plan(text=("Hel", "lo"), fault=Fault.model_validate({"kind": kind, "after_events": 3}))
    async with simulate(plan) as sim:
        error = await raised(getattr(sim, ask)())
    assert isinstance(error, httpx2.TransportError | openai.APIConnectionError | anthropic.APIConnectionError)


@BOTH
async def test_a_connection_closed_without_an_answer_raises(simulate: Simulate, ask: str) -> None:
    async with simulate(fault=Fault(kind="refuse")) as sim:
        error = await raised(getattr(sim, ask)())
        assert len(sim.lines()) == 1
    assert isinstance(error, openai.APIConnectionError | anthropic.APIConnectionError)


async def test_an_error_event_raises(simulate: Simulate) -> None:
    async with simulate(text=("Hel", "lo"), fault=Fault(kind="error_event", after_events=3)) as sim:
        chat, message = await raised(sim.chat()), await raised(sim.message())
    assert isinstance(chat, openai.APIError)
    assert "Sim error" in str(chat)
    assert isinstance(message, anthropic.APIStatusError)
    assert "overloaded_error" in str(message)


@BOTH
async def test_a_stalled_stream_times_out(simulate: Simulate, ask: str) -> None:
    async with simulate(text=("a", "b"), fault=Fault(kind="stall", after_events=2)) as sim:
        error = await raised(getattr(sim, ask)(timeout=0.3))
    assert isinstance(error, httpx2.TimeoutException | openai.APITimeoutError | anthropic.APITimeoutError)


async def test_an_event_that_is_no_json(simulate: Simulate) -> None:
    async with simulate(text=("a",), fault=Fault(kind="garbage", after_events=2)) as sim:
        with pytest.raises(json.JSONDecodeError):
            await sim.chat()
        answer = await sim.message()
    assert answer.content[0].text == "a", "anthropic's client skips an event without a name"


async def test_slow_tokens_arrive_one_by_one(simulate: Simulate) -> None:
    async with simulate(text=("a", "b", "c"), delay_ms=60) as sim:
        stream = await sim.openai.chat.completions.create(
            model="gpt-sim", messages=[{"role": "user", "content": "a"}], stream=True
        )
        at = [time.monotonic() async for chunk in stream if chunk.choices and chunk.choices[0].delta.content]
    assert len(at) == 3
    assert at[-1] - at[0] >= 0.1, "two pauses of 60 ms lie between"


async def contents(sim: Simulated) -> list[str]:
    stream = await sim.openai.chat.completions.create(
        model="gpt-sim", messages=[{"role": "user", "content": "a"}], stream=True
    )
    return [
        chunk.choices[0].delta.content async for chunk in stream if chunk.choices and chunk.choices[0].delta.content
    ]


async def test_events_twice_and_out_of_order_on_demand(simulate: Simulate) -> None:
    async with simulate(text=("a", "b", "c"), duplicate=(2,), reorder=(2,)) as sim:
        assert await contents(sim) == ["a", "c", "b", "b"]
        blocks = [event.type async for event in await sim.anthropic.messages.create(
            model="claude-sim", max_tokens=9, messages=[{"role": "user", "content": "a"}], stream=True
        )]  # fmt: skip
    assert blocks[:4] == ["message_start", "content_block_delta", "content_block_start", "content_block_start"]


@pytest.mark.parametrize("chunk_bytes", [None, 1, 5])
async def test_a_recorded_body_is_replayed_byte_for_byte(simulate: Simulate, chunk_bytes: int | None) -> None:
    path = RECORDED / "chat-text-crlf.sse"
    async with simulate(replay=path, chunk_bytes=chunk_bytes) as sim, httpx2.AsyncClient(trust_env=False) as http:
        assert "".join(await contents(sim)) == "Grüße aus 東京 🗼"
        answer = await http.post(
            f"http://127.0.0.1:{sim.port}/openai/v1/chat/completions",
            json={"model": "m", "stream": True, "messages": [{"role": "user", "content": "a"}]},
            headers={"Authorization": "Bearer k"},
        )
    assert answer.content == path.read_bytes()


async def test_a_capture_is_replayed(simulate: Simulate) -> None:
    async with simulate(replay=RECORDED / "messages-call-capture.json", chunk_bytes=7) as sim:
        answer = await sim.message()
    assert (answer.id, answer.stop_reason, answer.content[0].input) == ("msg_rec_1", "tool_use", {"city": "Oslo"})


async def test_a_recording_that_cannot_be_read_is_an_error_that_names_it(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text('{"no": "events"}')
    for name in ("absent.sse", "odd.json"):
        async with simulate(replay=tmp_path / name) as sim:
            error = await raised(sim.chat())
        assert isinstance(error, openai.InternalServerError)
        assert name in str(error)
