"""A toolset that no gate could work with never reaches Redis, whoever wrote it to the topic, and that is seen."""

from __future__ import annotations

import json

import pytest

from turngate.runtime.outbound import output
from turngate.runtime.redis.keys import toolset_key
from turngate.schemas.tools import ToolDeclaration, Toolset, toolset_digest
from turngate.testing.scripted import Answer

SOUND = '{"type":"object","properties":{"city":{"type":"string"}}}'
DEEP = '{"type":"object","properties":{"a":{"type":"object","properties":{"b/c":{"type":"string","nullable":true}}}}}'
REFUSED = [
    ({"sound": SOUND, "odd": DEEP}, "unsupported_schema", "/odd/properties/a/properties/b~1c/nullable"),
    ({"far": '{"$ref":"https://example.com/s.json"}'}, "unsupported_schema", "/far/$ref"),
    ({"text": "not json"}, "unsupported_schema", "/text"),
    ({"list": "[]"}, "unsupported_schema", "/list"),
    ({"pattern": '{"type":"object","properties":{"x":{"type":"string","pattern":"("}}}'}, "unsupported_schema", "/pat"),
]


def toolset(schemas: dict[str, str]) -> Toolset:
    tools = tuple(
        ToolDeclaration(name=name, input_schema=schema, side_effects="read") for name, schema in schemas.items()
    )
    return Toolset(tenant="acme", tools=tools, toolset_digest=toolset_digest("acme", tools))


def register(world, tools: Toolset) -> str:
    event = tools.toolset_digest[:16]
    world.log.append(
        output("toolsets", tools, tenant="acme", conversation="toolsets", event_id=event, role="test", partition=0)
    )
    return toolset_key(world.prefix, tools.toolset_digest)


@pytest.mark.parametrize(("schemas", "reason", "path"), REFUSED)
async def test_it_is_dead_lettered_with_its_path(make_world, schemas: dict[str, str], reason: str, path: str) -> None:
    world = make_world(lambda relay: Answer(()))
    refused, sound = register(world, toolset(schemas)), register(world, toolset({"sound": SOUND}))
    await world.fleet.idle("recovery")
    await world.fleet.run()
    assert [letter.reason for letter in world.fleet.dead_letters] == [reason]
    (letter,) = world.fleet.dead_letters
    assert path in json.dumps(letter.detail)
    assert await world.redis.exists(refused) == 0
    assert await world.redis.exists(sound) == 1


async def test_two_tools_of_one_name_are_refused(make_world) -> None:
    world = make_world(lambda relay: Answer(()))
    tool = ToolDeclaration(name="same", input_schema=SOUND, side_effects="read")
    both = Toolset(tenant="acme", tools=(tool, tool), toolset_digest=toolset_digest("acme", (tool, tool)))
    refused = register(world, both)
    await world.fleet.idle("recovery")
    await world.fleet.run()
    assert [letter.reason for letter in world.fleet.dead_letters] == ["duplicate_tool"]
    assert await world.redis.exists(refused) == 0


async def test_what_was_refused_does_not_come_in_when_redis_is_filled_again(make_world) -> None:
    world = make_world(lambda relay: Answer(()))
    refused, sound = register(world, toolset({"odd": DEEP})), register(world, toolset({"sound": SOUND}))
    await world.fleet.idle("recovery")
    await world.fleet.run()
    keys = [key async for key in world.redis.scan_iter(match=f"{world.prefix}:*", count=1000)]
    await world.redis.delete(*keys)
    await world.fleet.crash("recovery")
    await world.fleet.idle("recovery")
    assert await world.redis.exists(sound) == 1
    assert await world.redis.exists(refused) == 0
