"""What the routes of one server share: the open index, its threads, its counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from avow.api.jobs import JobList
from avow.api.limits import Limits
from avow.api.metrics import Metrics
from avow.api.pictures import Thumbnails
from avow.api.refusals import Refusal
from avow.api.workers import Workers
from avow.core.errors import BadQuery
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Item
from avow.retrieval.report import Progress
from avow.retrieval.search import Retriever

_DRAWING = 2
_MANY = 512  # thumbnails that may wait: a page of them is asked for at once


@dataclass(frozen=True)
class Service:
    """One retriever and everything that keeps many askers apart."""

    retriever: Retriever
    limits: Limits
    metrics: Metrics
    searching: Workers
    drawing: Workers
    """Pictures have threads of their own, so that a page stays quick during a search."""
    thumbnails: Thumbnails
    jobs: JobList

    @classmethod
    def of(cls, retriever: Retriever, limits: Limits) -> "Service":
        def scan(
            folders: Sequence[str],
            progress: Callable[[Progress], None],
            stop: Callable[[], bool],
        ) -> str:
            report = index_folders(
                folders,
                index=retriever.library.folder,
                encoder=retriever.encoder,
                progress=progress,
                stop=stop,
            )
            return (
                f"{report.new} new, {report.changed} changed, {report.moved} moved, "
                f"{report.deleted} gone, {report.unchanged} as before."
            )

        return cls(
            retriever,
            limits,
            Metrics(),
            Workers(limits.at_once, limits.waiting, limits.seconds),
            Workers(_DRAWING, _MANY, limits.seconds),
            Thumbnails(limits.thumbnail_bytes, limits.pixels),
            JobList(scan, lambda: (retriever.library.refresh(), None)[1]),
        )

    def item(self, number: int) -> Item:
        try:
            return self.retriever.library.items([number])[0]
        except BadQuery as error:
            raise Refusal(404, str(error)) from error

    def open(self) -> None:
        self.searching.open()
        self.drawing.open()

    def close(self) -> None:
        self.jobs.close()
        self.searching.close()
        self.drawing.close()


def service_of(request: Request) -> Service:
    return request.app.state.service


Here = Annotated[Service, Depends(service_of)]
