"""Traces of requests by OpenTelemetry, for whoever serves with `avow serve --telemetry`.

    GET /api/search  ->  encode, store, judge

Spans have a name, times, the route, the status and the request id: no words of a search and
no paths. Where they go is said by OpenTelemetry's own variables, such as
OTEL_EXPORTER_OTLP_ENDPOINT; nothing is sent unless --telemetry is given.
"""

import importlib.util
import os
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from avow.api.requests import id_of, method_of, route_of
from avow.core.errors import MissingExtra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def otlp_provider() -> "TracerProvider":
    """Spans that are sent in batches by OTLP over HTTP."""
    for name in PACKAGES:
        try:
            there = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            there = False
        if not there:
            raise MissingExtra("Telemetry", "opentelemetry-sdk", "telemetry")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    os.environ.setdefault("OTEL_SERVICE_NAME", "avow")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class Traced:
    """One span for every request; an asker that traces too is its parent."""

    def __init__(self, app: ASGIApp, *, provider: "TracerProvider"):
        self.app, self.tracer = app, provider.get_tracer("avow")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, Status, StatusCode

        status = 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        above = extract(dict(Headers(scope=scope)))
        method = method_of(scope)
        with self.tracer.start_as_current_span(method, above, SpanKind.SERVER) as span:
            try:
                await self.app(scope, receive, note)
            finally:
                route = route_of(scope)
                span.update_name(f"{method} {route}")
                span.set_attribute("http.request.method", method)
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)
                span.set_attribute("avow.request_id", id_of(scope))
                if status >= 500:
                    span.set_status(Status(StatusCode.ERROR))
