"""Every request has an id: its answer, its error and its lines of the log carry it.

An asker or a proxy may send its own in `X-Request-ID`, so that one request can be followed
through several servers. What is not plain, or long, is replaced: it goes into logs.
"""

import re
import time
from collections.abc import Callable
from contextvars import ContextVar
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-ID"
WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_CURRENT: ContextVar[str] = ContextVar("request_id", default="")

Ended = Callable[[str, str, int, float], None]
"""Told of a request that has ended: method, route, status, seconds."""


def current_id() -> str:
    """The id of the request that is being answered here; empty outside of one."""
    return _CURRENT.get()


def id_of(scope: Scope) -> str:
    """The id of a request: its own where that is well-formed, else one made for it."""
    state = scope.setdefault("state", {})
    if "request_id" not in state:
        given = Headers(scope=scope).get(HEADER, "")
        state["request_id"] = given if WELL_FORMED.fullmatch(given) else new_id()
    return state["request_id"]


def new_id() -> str:
    return uuid4().hex


class Watched:
    """Names every request, and tells how it ended; only what traces lies further out."""

    def __init__(self, app: ASGIApp, *, ended: Ended, leaving: Callable[[], bool]):
        """leaving: whether the server is about to end, so that connections should go."""
        self.app, self.ended, self.leaving = app, ended, leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, request_id = time.perf_counter(), 500, id_of(scope)

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[HEADER] = request_id
                if self.leaving():
                    headers["Connection"] = "close"
            await send(message)

        token = _CURRENT.set(request_id)
        try:
            await self.app(scope, receive, note)
        finally:
            self.ended(method_of(scope), route_of(scope), status, time.perf_counter() - began)
            _CURRENT.reset(token)


def method_of(scope: Scope) -> str:
    return scope["method"] if scope["method"] in _METHODS else "other"


def route_of(scope: Scope) -> str:
    """The pattern of the route, so that addresses made up by askers fill no memory."""
    pattern = getattr(scope.get("route"), "path", None)
    return pattern if isinstance(pattern, str) else "other"
