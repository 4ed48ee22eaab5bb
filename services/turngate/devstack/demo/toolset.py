"""The declarations of the demo's tools: what the model is given and what its calls are checked against."""

from __future__ import annotations

import json

from turngate.schemas.tools import ToolDeclaration, Toolset, toolset_digest

TENANT = "demo"
CITY_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"city": {"type": "string", "minLength": 1}},
        "required": ["city"],
        "additionalProperties": False,
    },
    separators=(",", ":"),
)


def toolset() -> Toolset:
    """The declarations the model is given."""
    tools = (
        ToolDeclaration(
            name="get_weather", description="Weather of a city.", input_schema=CITY_SCHEMA, side_effects="read"
        ),
        ToolDeclaration(
            name="get_population", description="Population of a city.", input_schema=CITY_SCHEMA, side_effects="read"
        ),
    )
    return Toolset(tenant=TENANT, tools=tools, toolset_digest=toolset_digest(TENANT, tools))
