"""A turn over HTTP alone, through the whole fleet: asked for, followed live, replayed after the edge was killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from turngate.devstack.base import Stack
from turngate.devstack.fleet import DevFleet, FleetPlan
from turngate.devstack.provider_sim.script import Plan, Rule, Script

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
ANSWER = ("It is ", "11 degrees ", "in Oslo — ", "grüß Gott.")
TURN = {
    "blocks": [{"role": "user", "content": {"text": "Is it warm in Oslo?"}}],
    "options": {"endpoint": "openai", "model": "m", "maxOutputTokens": 100},
}


async def test_a_turn_is_asked_for_and_followed(
    stack: Stack, topic_prefix: str, tmp_path: Path, http: httpx2.AsyncClient, event_source: Any
) -> None:
    script = Script(rules=(Rule(plan=Plan(text=ANSWER, delay_ms=50)),))
    plan = FleetPlan(folder=tmp_path, prefix=topic_prefix, partitions=2, tenants="demo", script=script)
    async with DevFleet(stack, plan) as fleet:
        url = f"{fleet.url('edge')}/v1/tenants/demo/conversations/oslo"
        async with http.stream("GET", f"{url}/events") as response:
            source = event_source(response.aiter_lines())
            assert (await source.next()).json["revision"] == 0
            for _ in range(2):  # the same request twice is one turn
                asked = await http.post(f"{url}/turns", json=TURN | {"requestId": "r1"})
                assert asked.status_code == 202
            frames = [await source.next()]
            while (frames[-1].json["type"], frames[-1].json.get("kind")) != ("turn_committed", "assistant"):
                frames.append(await source.next())
        events = [frame.json for frame in frames]
        deltas = [event for event in events if event["type"] == "partial_text" and event["step"] == "delta"]
        assert len(deltas) > 1, "the answer came piece by piece"
        assert "".join(event["text"] for event in deltas) == "".join(ANSWER)
        order = [event["type"] for event in events if not event["type"].startswith("partial_")]
        assert order == ["request_begin", "text", "token_usage", "request_end", "turn_committed"]

        await fleet.supervisor.restart("edge", graceful=False)
        await fleet.supervisor.wait_ready("edge")
        async with http.stream("GET", f"{url}/events", headers={"Last-Event-ID": frames[2].id}) as response:
            source = event_source(response.aiter_lines())
            again = await source.take(len(frames) - 2)
        assert again[:-1] == frames[3:], "replayed from Redis, nothing numbered again"
        assert (again[-1].name, again[-1].json["revision"], again[-1].json["operation"]) == ("task_state", 2, None)
