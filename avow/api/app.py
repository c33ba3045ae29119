"""The application: routes, guards and the page, around one open index."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles

import avow
from avow.api import about, export, folders, items, searching, videos
from avow.api.clients import Proxies, Rates
from avow.api.guard import Guard
from avow.api.limits import Limits
from avow.api.refusals import tell_refusals
from avow.api.requests import Watched
from avow.api.service import Service
from avow.api.telemetry import Traced
from avow.core.tracing import trace_with
from avow.retrieval.search import Retriever

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

PAGE = Path(avow.__file__).parent / "web"
RATES = "rates"
"""Of the folder that several processes share: the file with the table of `Rates`."""


def create_app(
    retriever: Retriever,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    hosts: Collection[str] = (),
    roots: Sequence[str | Path] = (),
    proxies: Collection[str] = (),
    shared: Path | None = None,
    traces: "TracerProvider | None" = None,
) -> FastAPI:
    """A server of `retriever`.

    token: what askers must know; None: nothing. hosts: names by which the server is reached
    besides this machine's own and addresses in numbers. roots: folders below which the page may
    choose some to index; none: only what is indexed can be scanned again. proxies: networks of
    proxies that are believed when they name a client. shared: a folder of what several
    processes that serve one port know together; a scan of one would be unknown to the others,
    so there is none. traces: of OpenTelemetry, which gets a span for every request.
    """
    limits = limits or Limits()
    trusted = Proxies(proxies)
    service = Service.of(retriever, limits, roots, trusted, by_many=shared is not None)
    table = None if shared is None else shared / RATES
    rates = Rates(limits.rate, limits.burst, table) if limits.rate else None

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        service.open()
        if traces is not None:
            trace_with(traces.get_tracer("avow"))
        yield
        await asyncio.to_thread(service.close)
        if traces is not None:
            trace_with(None)
            await asyncio.to_thread(traces.shutdown)

    app = FastAPI(
        title="Avow",
        version=avow.__version__,
        summary="Visual-textual retrieval that tells you when to trust it.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # their pages would load scripts from elsewhere
        redoc_url=None,
        lifespan=life,
    )
    app.state.service = service
    tell_refusals(app)
    for part in (searching, items, videos, export, folders, about):
        app.include_router(part.router)
    _serve_page(app)
    known = {"token": token, "hosts": hosts, "limits": limits}
    app.add_middleware(Guard, **known, proxies=trusted, rates=rates)
    leaving = service.draining.is_set
    app.add_middleware(Watched, ended=service.note_request, leaving=leaving)
    if traces is not None:  # around the line of the log, which so has the trace's id
        app.add_middleware(Traced, provider=traces)
    return app


def _serve_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/", _Files(directory=PAGE))


class _Files(StaticFiles):
    """Files of the page; a browser asks each time whether they are the same."""

    def file_response(self, *arguments, **named):  # type: ignore[no-untyped-def]
        answer = super().file_response(*arguments, **named)
        answer.headers["Cache-Control"] = "no-cache"
        return answer
