"""HTTP of the observer, beside the health endpoints: for operators, on the same port as /metrics, without tokens."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from turngate.observer.service import Observer
from turngate.runtime.settings import Settings


def routes(observer: Observer, settings: Settings) -> list[Route]:
    """GET /v1/tenants/{tenant}/turns-per-minute."""

    async def turns_per_minute(request: Request) -> Response:
        tenant = str(request.path_params["tenant"])
        if not settings.allows_tenant(tenant):
            return JSONResponse({"code": "unknown_tenant"}, status_code=404)
        if not observer.ready:
            return JSONResponse({"code": "not_ready"}, status_code=503, headers={"Retry-After": "1"})
        windows, complete = observer.turns_per_minute(tenant)
        return JSONResponse({"tenant": tenant, "complete": complete, "windows": windows})

    return [Route("/v1/tenants/{tenant}/turns-per-minute", turns_per_minute)]
