"""What all routes share: who calls, for which conversation, with which body; and errors as JSON {code, message}."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import cast

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from turngate.edge.auth import Gatekeeper
from turngate.runtime.errors import OversizedOutput
from turngate.runtime.settings import Settings
from turngate.schemas.codec import check_strict
from turngate.schemas.errors import InvalidRecord, Refused, Retryable, TurngateError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~:@+-]{0,127}")
"""A tenant, a conversation, or an id that a client may choose: it becomes part of keys."""
NAME_FORM = "has up to 128 of A-Z a-z 0-9 . _ ~ : @ + -, a letter or digit first"
RETRY_AFTER_SECONDS = "1"

Handler = Callable[[Request], Awaitable[Response]]


class Rejected(Refused):
    """An answer other than 2xx that the caller can do something about. path: of the offending field, '' if none."""

    def __init__(self, status: int, code: str, message: str, *, path: str = "") -> None:
        super().__init__(message, code=code)
        self.status = status
        self.path = path


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, media_type="application/json")


def answering(handler: Handler) -> Handler:
    """Turns our errors into answers. Texts of ours never quote what was sent."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Rejected as error:
            headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
            return _problem(error.status, error, error.path, headers)
        except InvalidRecord as error:
            return _problem(400, error, error.path)
        except OversizedOutput as error:
            return _problem(413, error, code="too_large")
        except Retryable as error:
            return _problem(503, error, headers={"Retry-After": RETRY_AFTER_SECONDS})
        except ClientDisconnect:
            return Response(status_code=400)

    return answer


def _problem(
    status: int, error: TurngateError, path: str = "", headers: dict[str, str] | None = None, *, code: str = ""
) -> Response:
    body = {"code": code or error.code, "message": str(error)}
    return json_response(body | ({"path": path} if path else {}), status, headers)


class Caller:
    """Checks each request before a route looks at it."""

    def __init__(self, settings: Settings, gatekeeper: Gatekeeper) -> None:
        self._settings = settings
        self._gatekeeper = gatekeeper

    def tenant(self, request: Request) -> str:
        """The tenant of the path. Raises Rejected: 401 without a token we know, 404 for what it does not open."""
        tenant = str(request.path_params["tenant"])
        mine = self._gatekeeper.open
        if not mine:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            tenants = self._gatekeeper.tenants(token.strip()) if scheme.lower() == "bearer" else frozenset[str]()
            if not tenants:
                raise Rejected(401, "unauthorized", "a bearer token of this edge is needed")
            mine = tenant in tenants
        if not mine or not NAME.fullmatch(tenant) or not self._settings.allows_tenant(tenant):
            raise Rejected(404, "unknown_tenant", "there is no such tenant here")
        return tenant

    def conversation(self, request: Request) -> tuple[str, str]:
        """Tenant and conversation of the path. Raises Rejected."""
        tenant = self.tenant(request)
        conversation = str(request.path_params["conversation"])
        if not NAME.fullmatch(conversation):
            raise Rejected(400, "invalid_conversation", f"a conversation's name {NAME_FORM}")
        return tenant, conversation

    async def body(self, request: Request) -> dict[str, object]:
        """The JSON object sent; an empty body is an empty object. Raises Rejected: 413 beyond the limit, else 400."""
        limit = self._settings.edge_body_bytes_max
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > limit:
                raise Rejected(413, "too_large", f"the body is larger than {limit} bytes")
        try:
            value = orjson.loads(data or b"{}")
            check_strict(bytes(data or b"{}"))
        except orjson.JSONDecodeError:
            raise Rejected(400, "malformed_json", "the body is not JSON") from None
        except InvalidRecord as error:
            raise Rejected(400, error.code, "an object of the body names a key twice") from None
        if not isinstance(value, dict):
            raise Rejected(400, "malformed_json", "the body is not a JSON object")
        return cast("dict[str, object]", value)


def filled(body: dict[str, object], **fixed: str) -> bytes:
    """The body as a record: what the path says is filled in. Raises Rejected where the body says something else."""
    for name, value in fixed.items():
        if body.setdefault(name, value) != value:
            raise Rejected(400, "address_mismatch", f"{name} is not what this address says", path=name)
    return orjson.dumps(body)


def chosen_id(body: dict[str, object], name: str, draw: Callable[[], str]) -> None:
    """An id that makes a request idempotent: the client's own, or one that is drawn. Raises Rejected."""
    value = body.setdefault(name, draw())
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise Rejected(400, "invalid_id", f"{name} {NAME_FORM}", path=name)
