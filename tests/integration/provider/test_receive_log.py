"""The receive log is the outside witness of an audit: one line for each request, whatever became of it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2
import openai
import orjson
import pytest

from turngate.devstack.provider_sim.script import Fault, Match, Plan, Rule, Script
from turngate.domain.audit import parse_receive_line
from turngate.schemas.digests import request_digest, sha256_hex

if TYPE_CHECKING:
    from conftest import Simulated

Simulate = Callable[..., "AbstractAsyncContextManager[Simulated]"]
CHAT = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "a secret question"}]}
HEADERS = {
    "Authorization": "Bearer k-secret", "Idempotency-Key": "i-1", "X-Turngate-Operation": "op-1",
    "X-Turngate-Generation": "2", "OpenAI-Beta": "b=1", "Content-Type": "application/json",
}  # fmt: skip


async def post(sim: Simulated, path: str, body: bytes, headers: dict[str, str]) -> int:
    async with httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.post(f"http://127.0.0.1:{sim.port}{path}", content=body, headers=headers)
        return answer.status_code


async def test_a_line_names_digest_key_and_time_and_no_content(simulate: Simulate) -> None:
    body = orjson.dumps(CHAT)
    before = datetime.now(UTC)
    async with simulate(text=("a",)) as sim:
        assert await post(sim, "/openai/v1/chat/completions?trace=1", body, HEADERS) == 200
        (line,) = sim.lines()
        raw = sim.log.read_bytes()
    assert before <= datetime.fromisoformat(line.pop("time")) <= datetime.now(UTC)
    path = "/v1/chat/completions?trace=1"
    assert line == {
        "endpoint": "openai", "method": "POST", "path": path, "bodySha256": sha256_hex(body),
        "requestDigest": request_digest("POST", path, body, {"openai-beta": "b=1"}), "idempotencyKey": "i-1",
        "operation": "op-1", "attemptGeneration": 2, "length": len(body),
    }  # fmt: skip
    assert b"secret" not in raw
    parsed = parse_receive_line(raw.splitlines()[0], 1)
    assert (parsed.operation, parsed.request_digest) == ("op-1", line["requestDigest"])


async def test_every_request_has_its_line_whatever_becomes_of_it(simulate_script: Callable[[Script], Any]) -> None:
    kinds = ["status", "refuse", "cut", "reset", "error_event"]
    rules = tuple(
        Rule(match=Match(request=number), plan=Plan(text=("a",), fault=Fault.model_validate({"kind": kind})))
        for number, kind in enumerate(kinds, start=1)
    )
    async with simulate_script(Script(rules=rules)) as sim:
        for _ in kinds:
            with pytest.raises((openai.OpenAIError, httpx2.HTTPError)):
                await sim.chat()
        assert (await sim.chat("whole")).choices[0].message.content == "You said: whole"
        assert await post(sim, "/openai/v1/chat/completions", b"{}", {}) == 401
        assert await post(sim, "/openai/v1/chat/completions", b"not json", HEADERS) == 400
        assert await post(sim, "/openai/v1/elsewhere", b"{}", HEADERS) == 404
        lines = sim.lines()
    assert len(lines) == len(kinds) + 4
    assert len({line["requestDigest"] for line in lines[:5]}) == 1, "the same bytes, the same digest"
    assert lines[-1]["path"] == "/openai/v1/elsewhere"


async def test_the_line_is_there_before_the_answer(simulate: Simulate) -> None:
    async with simulate(fault=Fault(kind="stall")) as sim:
        question = asyncio.create_task(sim.message())
        async with asyncio.timeout(30):
            while not sim.lines():
                await asyncio.sleep(0.01)
        assert not question.done()
        question.cancel()
        await asyncio.gather(question, return_exceptions=True)


@pytest.mark.parametrize(
    ("path", "body", "complaint"),
    [
        ("/openai/v1/chat/completions", {**CHAT, "messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]},
         "must be a response to a preceding"),
        ("/openai/v1/chat/completions", {**CHAT, "messages": [
            {"role": "assistant", "tool_calls": [{"id": "c"}]}, {"role": "user", "content": "x"}]},
         "must be followed by tool messages"),
        ("/openai/v1/chat/completions", {**CHAT, "stream": False}, "only streams"),
        ("/openai/v1/chat/completions", {"stream": True, "messages": []}, "model"),
        ("/anthropic/v1/messages", CHAT, "max_tokens"),
        ("/anthropic/v1/messages", {**CHAT, "max_tokens": 5, "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t"}]}, {"role": "user", "content": "x"}]},
         "without tool_result"),
        ("/anthropic/v1/messages", {**CHAT, "max_tokens": 5, "messages": [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]}, "unexpected tool_use_id"),
    ],
)  # fmt: skip
async def test_what_a_provider_refuses_the_simulator_refuses(
    simulate: Simulate, path: str, body: dict[str, Any], complaint: str
) -> None:
    headers = {**HEADERS, "anthropic-version": "2023-06-01"}
    async with simulate(text=("a",)) as sim, httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.post(f"http://127.0.0.1:{sim.port}{path}", json=body, headers=headers)
    assert answer.status_code == 400
    assert complaint in answer.json()["error"]["message"]


@contextlib.asynccontextmanager
async def process(folder: Path, script: bytes = b"{}") -> AsyncIterator[str]:
    """The base URL of a simulator in a process of its own; its receive log is `log.jsonl`."""
    written, port_file = folder / "script.json", folder / "port"
    written.write_bytes(script)
    port_file.unlink(missing_ok=True)
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "turngate.devstack.provider_sim", "--script", str(written),
        "--receive-log", str(folder / "log.jsonl"), "--port-file", str(port_file),
    )  # fmt: skip
    try:
        async with asyncio.timeout(30):
            while not port_file.exists():
                await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{int(port_file.read_text())}"
        started.terminate()
        async with asyncio.timeout(30):
            assert await started.wait() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()


QUESTION: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}


async def test_a_process_of_its_own_with_a_script_that_can_be_changed(tmp_path: Path) -> None:
    script = orjson.dumps({"rules": [{"match": {"contains": "Hello"}, "plan": {"text": ["first"]}}]})
    async with (
        process(tmp_path, script) as base,
        anthropic.AsyncAnthropic(api_key="k", base_url=base, max_retries=0) as client,
    ):
        texts = []
        for text in ("", "second"):
            if text:
                async with httpx2.AsyncClient(trust_env=False) as http:
                    body = {"rules": [{"plan": {"text": [text]}}]}
                    assert (await http.put(f"{base}/_sim/script", json=body)).status_code == 200
                    assert (await http.put(f"{base}/_sim/script", json={"rules": [{}]})).status_code == 400
            async with client.messages.stream(**QUESTION) as stream:
                texts.append(await stream.get_final_text())
    assert texts == ["first", "second"]
    received = (tmp_path / "log.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["endpoint"] for line in received] == ["root", "root"]


async def test_a_response_id_never_comes_again_after_a_restart(tmp_path: Path) -> None:
    idents = []
    for _ in range(2):
        async with (
            process(tmp_path) as base,
            anthropic.AsyncAnthropic(api_key="k", base_url=base, max_retries=0) as client,
        ):
            for _ in range(2):
                async with client.messages.stream(**QUESTION) as stream:
                    idents.append((await stream.get_final_message()).id)
    assert len(set(idents)) == 4


async def test_response_ids_are_those_of_the_run_that_is_named(simulate: Simulate) -> None:
    async with simulate() as sim:
        assert [(await sim.chat()).id, (await sim.message()).id] == ["chatcmpl-sim-run-1", "msg_sim_run-2"]
