"""What the routes of one server share: the open index, its threads, its counts.

Whatever may wait (for the disk, a lock, a model) runs in one of the pools, never on the
event loop: a route that blocks the loop stops every other request, health included.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Annotated

from fastapi import Depends, Request

from avow.api.clients import Proxies
from avow.api.jobs import JobList
from avow.api.limits import Limits
from avow.api.logs import LOG, log_request
from avow.api.metrics import Metrics
from avow.api.pictures import Origin, Thumbnails, origin
from avow.api.refusals import Refusal
from avow.api.together import Together
from avow.api.workers import Workers
from avow.core.errors import AvowError, BadQuery
from avow.core.places import store_address
from avow.retrieval.encoders.lazy import Deferred
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Item
from avow.retrieval.search import Retriever
from avow.retrieval.store.report import Progress
from avow.retrieval.transfer import trust_after_indexing

_DRAWING = 2
_READING = 2
_OPINIONS = 8  # that may wait: each may wait for another writer before it
_MANY = 512  # requests that may wait: a page asks for many thumbnails at once
_PASSES = 4  # that fit into the time that a search may take


@dataclass(frozen=True)
class Service:
    """One retriever and everything that keeps many askers apart."""

    retriever: Retriever
    limits: Limits
    metrics: Metrics
    searching: Workers
    together: Together
    """Texts that wait for a thread of `searching`."""
    drawing: Workers
    """Pictures have threads of their own, so that a page stays quick during a search."""
    reading: Workers
    """Short questions to the catalogue and the file system."""
    writing: Workers
    """Feedback: one thread, because the catalogue has one writer at a time."""
    learning: Workers
    """Ticks: one thread, so that the last word of all is the last to be kept."""
    probing: Workers
    """Whether the store answers: one thread, which no other request can keep busy."""
    thumbnails: Thumbnails
    jobs: JobList
    roots: tuple[str, ...] = ()
    """Real folders below which others may be chosen from the page."""
    proxies: Proxies = field(default_factory=Proxies)
    by_many: bool = False
    """Whether other processes serve the same port: what one keeps, the next may be asked."""
    draining: Event = field(default_factory=Event)
    """Set when the server was told to end and finishes what it has begun."""
    exports: dict[str, list[int]] = field(default_factory=dict)
    """Items of archives that may be fetched, by name."""

    @classmethod
    def of(
        cls,
        retriever: Retriever,
        limits: Limits,
        roots: Sequence[str | Path] = (),
        proxies: Proxies | None = None,
        by_many: bool = False,
    ) -> "Service":
        def scan(
            folders: Sequence[str],
            progress: Callable[[Progress], None],
            stop: Callable[[], bool],
        ) -> str:
            report = index_folders(
                folders,
                index=Path(retriever.library.address),
                encoder=retriever.encoder,
                progress=progress,
                stop=stop,
                dedupe=store_address(retriever.library.address) is None,
            )
            counts = (
                f"{report.new} new, {report.changed} changed, {report.moved} moved, "
                f"{report.deleted} gone, {report.unchanged} as before."
            )
            sentences = [counts, *map(str, report.absent)]
            if not report.stopped:
                sentences.append(_judged(retriever, progress))
            return " ".join(filter(None, sentences))

        metrics = Metrics()
        searching = Workers(limits.at_once, limits.waiting, limits.seconds)
        searching.changed = metrics.searches_inside.set
        return cls(
            retriever,
            limits,
            metrics,
            searching,
            Together(retriever, limits.together, limits.seconds / _PASSES),
            Workers(_DRAWING, _MANY, limits.seconds, "pictures"),
            Workers(_READING, _MANY, limits.seconds, "questions to the index"),
            Workers(1, _OPINIONS, limits.seconds, "opinions to write down"),
            Workers(1, _OPINIONS, limits.seconds, "ticks to learn from"),
            Workers(1, _OPINIONS, limits.ready_seconds, "questions whether it is ready"),
            Thumbnails(limits.thumbnail_bytes, limits.pixels),
            JobList(scan, lambda: (retriever.library.refresh(), None)[1]),
            tuple(os.path.realpath(Path(root).expanduser()) for root in roots),
            proxies or Proxies(),
            by_many,
        )

    def note_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended, and write its line of the log."""
        self.metrics.count(method, route, status, seconds)
        self.metrics.thumbnail_bytes.set(self.thumbnails.held)
        log_request(method, route, status, seconds)

    def metrics_text(self) -> bytes:
        """For the threads of a pool: counting the items waits for the store."""
        with suppress(AvowError):  # the other numbers are needed most while it is away
            self.metrics.items.set(len(self.retriever.library))
        return self.metrics.text()

    async def check_ready(self) -> None:
        """Refuse where requests should go to another server, without a word on the index."""
        if self.draining.is_set():
            raise Refusal(503, "The server is about to end. Ask another one.", retry_after=1)
        try:
            await self.probing.run(self.retriever.library.check_reachable)
        except (AvowError, OSError, Refusal) as error:
            LOG.warning("the store does not answer: %s", error)
            raise Refusal(
                503, "The store does not answer. Ask again in a moment.", retry_after=1
            ) from error

    async def item(self, number: int) -> Item:
        return await self.reading.run(self.read_item, number)

    async def picture(self, number: int, noun: str = "picture") -> tuple[Item, Origin]:
        """A picture or a moment of a video, and its file if that lies where it was indexed."""

        def read() -> tuple[Item, Origin]:
            item = self.read_item(number)
            if item.kind == "text":
                raise Refusal(404, f"Item {number} is a text and has no {noun}.")
            return item, origin(item, self.retriever.library.folders())

        return await self.reading.run(read)

    def read_item(self, number: int) -> Item:
        """For the threads of a pool: it waits for the catalogue."""
        try:
            return self.retriever.library.items([number])[0]
        except BadQuery as error:
            raise Refusal(404, str(error)) from error

    @property
    def _pools(self) -> tuple[Workers, ...]:
        return (
            *(self.searching, self.drawing, self.reading, self.writing, self.learning),
            self.probing,
        )

    def open(self) -> None:
        for pool in self._pools:
            pool.open()

    def close(self) -> None:
        self.jobs.close()
        for pool in self._pools:
            pool.close()


def _judged(retriever: Retriever, progress: Callable[[Progress], None]) -> str:
    """Transfer trust to a model that has none, where there are pictures enough by now."""
    model = Deferred(retriever.library.manifest["model"], "", lambda: retriever.encoder)
    return trust_after_indexing(
        Path(retriever.library.address),
        model,
        progress=progress,
        allow_code=retriever.allow_code,
    )


async def service_of(request: Request) -> Service:
    """A coroutine: FastAPI would start a thread for a function, at every request."""
    return request.app.state.service


Here = Annotated[Service, Depends(service_of)]
