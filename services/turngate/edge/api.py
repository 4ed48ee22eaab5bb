"""What callers may ask for over HTTP: a turn, a cancel, a toolset. Answered once the record is acknowledged."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from turngate.domain.stream import refusal_of
from turngate.edge.answers import Caller, Rejected, answering, chosen_id, filled, json_response
from turngate.runtime.outbound import event_id, output
from turngate.runtime.producer import SideProducer
from turngate.schemas.codec import decode
from turngate.schemas.control import Control
from turngate.schemas.requests import TurnRequest
from turngate.schemas.tools import ToolDeclaration, Toolset, toolset_digest

ROLE = "edge"
CONVERSATION = "/v1/tenants/{tenant}/conversations/{conversation}"
CANCEL_FIELDS = frozenset({"controlId", "operationId", "expectedCancelGeneration", "reason"})
TOOLSETS_LANE = "toolsets"
"""Stands for the conversation in the key of a toolset, which belongs to a tenant alone."""


@dataclass(frozen=True, slots=True)
class Api:
    """The routes that write."""

    caller: Caller
    producer: SideProducer

    def routes(self) -> list[Route]:
        return [
            Route(f"{CONVERSATION}/turns", answering(self.ask), methods=["POST"]),
            Route(f"{CONVERSATION}/cancel", answering(self.cancel), methods=["POST"]),
            Route("/v1/tenants/{tenant}/toolsets", answering(self.register), methods=["PUT"]),
        ]

    async def ask(self, request: Request) -> Response:
        """A TurnRequest. The same requestId again is the same request: its answer is on the topic of verdicts."""
        tenant, conversation = self.caller.conversation(request)
        body = await self.caller.body(request)
        if "causeId" in body:
            raise Rejected(400, "reserved_field", "causeId is set by the fleet alone", path="causeId")
        chosen_id(body, "requestId", _draw)
        data = filled(body, schema="TurnRequest.v1", tenant=tenant, conversation=conversation)
        wanted = decode(TurnRequest, data)
        ident = event_id("turn-request", tenant, conversation, wanted.request_id)
        await self.producer.send(
            output("turn-requests", wanted, tenant=tenant, conversation=conversation, event_id=ident, role=ROLE)
        )
        return json_response({"requestId": wanted.request_id}, 202)

    async def cancel(self, request: Request) -> Response:
        """Control `cancel`. It names what it ends, so that it never ends what was begun after the caller looked."""
        tenant, conversation = self.caller.conversation(request)
        body = await self.caller.body(request)
        if not set(body) <= CANCEL_FIELDS:
            raise Rejected(400, "invalid_record", f"cancel takes {', '.join(sorted(CANCEL_FIELDS))}")
        chosen_id(body, "controlId", _draw)
        data = filled(body, schema="Control.v1", tenant=tenant, conversation=conversation, command="cancel")
        control = decode(Control, data)
        if control.operation_id is None and control.expected_cancel_generation is None:
            raise Rejected(400, "incomplete_command", "cancel needs operationId or expectedCancelGeneration")
        ident = event_id("control", tenant, conversation, control.control_id)
        await self.producer.send(
            output("control", control, tenant=tenant, conversation=conversation, event_id=ident, role=ROLE)
        )
        return json_response({"controlId": control.control_id}, 202)

    async def register(self, request: Request) -> Response:
        """A toolset. What a gate could not check later is refused here, before anything is sent with it."""
        tenant = self.caller.tenant(request)
        body = await self.caller.body(request)
        given = body.pop("toolsetDigest", None)
        data = filled(body, schema="Toolset.v1", tenant=tenant, toolsetDigest="0" * 64)
        tools = decode(Toolset, data).tools
        _check_tools(tools)
        digest = toolset_digest(tenant, tools)
        if given not in (None, digest):
            raise Rejected(422, "digest_mismatch", "not the digest of these tools", path="toolsetDigest")
        toolset = Toolset(tenant=tenant, tools=tools, toolset_digest=digest)
        ident = event_id("toolset", tenant, digest)
        await self.producer.send(
            output("toolsets", toolset, tenant=tenant, conversation=TOOLSETS_LANE, event_id=ident, role=ROLE)
        )
        return json_response({"toolsetDigest": digest})


def _check_tools(tools: Sequence[ToolDeclaration]) -> None:
    """Raises Rejected with the place, a JSON pointer that begins with the tool's name."""
    refusal = refusal_of((tool.name, tool.input_schema) for tool in tools)
    if refusal is not None:
        raise Rejected(422, refusal.code, refusal.message, path=refusal.path)


def _draw() -> str:
    return uuid.uuid4().hex
