"""The simulator's HTTP server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from aiohttp import web
from pydantic import ValidationError

from turngate.devstack.provider_sim.checks import Asked, read_request
from turngate.devstack.provider_sim.receive_log import ReceiveLog
from turngate.devstack.provider_sim.script import Fault, Plan, Script, ScriptRunner
from turngate.devstack.provider_sim.wire import (
    WireEvent,
    anthropic_events,
    error_body,
    error_event,
    openai_events,
    recorded_body,
)
from turngate.schemas.errors import ConfigurationError

ROUTES = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic"}
REQUEST_ID = {"openai": "x-request-id", "anthropic": "request-id"}
STALL_SECONDS = 3600.0


class ProviderSimulator:
    """Answers by script. `script` may be replaced at any time, also over HTTP (`PUT /_sim/script`).

    run: names this run in every response id, since a provider never gives an id twice, whatever restarts.
    """

    def __init__(self, script: Script, log: ReceiveLog, run: str) -> None:
        self.script = ScriptRunner(script)
        self._log = log
        self._run = run
        self._count = 0

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_put("/_sim/script", self._put_script)
        app.router.add_post("/{path:.*}", self._post)
        return app

    async def _put_script(self, request: web.Request) -> web.Response:
        try:
            self.script.use(Script.model_validate_json(await request.read()))
        except ValidationError as error:
            return web.json_response({"errors": error.error_count()}, status=400)
        return web.json_response({"ok": True})

    async def _post(self, request: web.Request) -> web.StreamResponse:
        suffix = next((route for route in ROUTES if request.path.endswith(route)), None)
        body = await request.read()
        prefix = request.path.removesuffix(suffix) if suffix is not None else ""
        target = request.raw_path.removeprefix(prefix)
        self._log.write(prefix.strip("/") or "root", "POST", target, body, request.headers)
        if suffix is None:
            return _refusal("openai", 404, "unknown path")
        api = ROUTES[suffix]
        refusal = _refused_headers(api, request)
        if refusal is not None:
            return _refusal(api, refusal)
        asked = _asked(api, body)
        if asked.complaint:
            return _refusal(api, 400, asked.complaint)
        self._count += 1
        plan = self.script.choose(request.path, asked.last_user, asked.tool_results)
        return await self._answer(request, api, plan, asked)

    async def _answer(self, request: web.Request, api: str, plan: Plan, asked: Asked) -> web.StreamResponse:
        fault = plan.fault
        if fault is not None and fault.kind == "refuse":
            _abort(request)
            return web.Response()
        if fault is not None and fault.kind == "status":
            return _refusal(api, fault.status, retry_after=fault.retry_after)
        recorded = b""
        if plan.replay is not None:
            try:
                recorded = recorded_body(plan.replay)
            except ConfigurationError as error:
                return _refusal(api, 500, str(error))
        number = f"{self._run}-{self._count}"
        ident = f"chatcmpl-sim-{number}" if api == "openai" else f"msg_sim_{number}"
        named = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", REQUEST_ID[api]: f"req_{ident}"}
        response = web.StreamResponse(headers=named)
        await response.prepare(request)
        if plan.replay is not None:
            await _send_recorded(response, recorded, plan)
            return response
        if api == "openai":
            events = openai_events(plan, asked.model, ident, with_usage=asked.with_usage)
        else:
            events = anthropic_events(plan, asked.model, ident)
        await _send(request, response, _disturbed(events, plan), plan, api)
        return response


def _refusal(api: str, status: int, message: str | None = None, retry_after: str | None = None) -> web.Response:
    headers = {REQUEST_ID[api]: "req_sim"}
    if retry_after is not None:
        headers["Retry-After"] = retry_after
    return web.json_response(error_body(api, status, message), status=status, headers=headers)


def _refused_headers(api: str, request: web.Request) -> int | None:
    bearer = request.headers.get("Authorization", "").startswith("Bearer ")
    if api == "anthropic":
        if not bearer and not request.headers.get("x-api-key"):
            return 401
        return None if request.headers.get("anthropic-version") else 400
    return None if bearer else 401


def _asked(api: str, body: bytes) -> Asked:
    try:
        return read_request(api, json.loads(body))
    except ValueError:
        return Asked("", "", False, "body is not JSON")


def _disturbed(events: list[WireEvent], plan: Plan) -> list[WireEvent]:
    """Events twice or out of order, as the plan wants it."""
    order = list(range(len(events)))
    for number in plan.reorder:
        if number + 1 < len(order):
            order[number], order[number + 1] = order[number + 1], order[number]
    return [events[number] for number in order for _ in range(2 if number in plan.duplicate else 1)]


async def _send(
    request: web.Request, response: web.StreamResponse, events: Sequence[WireEvent], plan: Plan, api: str
) -> None:
    fault = plan.fault
    for number, event in enumerate(events):
        if fault is not None and number == fault.after_events and await _fails(request, response, event, fault, api):
            return
        await response.write(event.encode())
        if plan.delay_ms:
            await asyncio.sleep(plan.delay_ms / 1000)
    await response.write_eof()


async def _fails(request: web.Request, response: web.StreamResponse, event: WireEvent, fault: Fault, api: str) -> bool:
    """Lets the stream fail before `event`; True where nothing more may be sent."""
    match fault.kind:
        case "cut_bytes":
            encoded = event.encode()
            await response.write(encoded[: len(encoded) // 2])
            _close(request)
        case "cut":
            _close(request)
        case "reset":
            await asyncio.sleep(0.05)  # what was written must reach the reader before the reset overtakes it
            _abort(request)
        case "stall":
            await asyncio.sleep(STALL_SECONDS)
        case "error_event":
            await response.write(error_event(api).encode())
            await response.write_eof()
        case "garbage":
            await response.write(b"data: {not json\n\n")
            return False
        case "refuse" | "status":
            return False
    return True


async def _send_recorded(response: web.StreamResponse, body: bytes, plan: Plan) -> None:
    size = plan.chunk_bytes or len(body) or 1
    for start in range(0, len(body), size):
        await response.write(body[start : start + size])
        if plan.delay_ms:
            await asyncio.sleep(plan.delay_ms / 1000)
    await response.write_eof()


def _close(request: web.Request) -> None:
    """Closes the connection without the end of the body: what was written is flushed first."""
    if request.transport is not None:
        request.transport.close()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def serve(script: Script, log: ReceiveLog, port: int, run: str) -> tuple[web.AppRunner, int]:
    """Serves on loopback; returns the runner (to clean up) and the port. Raises ConfigurationError (port in use)."""
    runner = web.AppRunner(ProviderSimulator(script, log, run).app(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise ConfigurationError(f"the simulator cannot listen on port {port} ({error.strerror})") from error
    return runner, int(runner.addresses[0][1])
