"""A search on its way: the request, and the best items for it."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from avow.core.shapes import Float32, Float64, Int64
from avow.retrieval.answer import Hit
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words
from avow.retrieval.gallery import Gallery
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.question import Style
from avow.retrieval.store.items import Item
from avow.retrieval.understanding import Understanding
from avow.retrieval.where import Where
from avow.trust.judgements import Judgements
from avow.trust.top_k import SHOWN

PICTURE_RISK = 0.1


@dataclass(frozen=True)
class Page:
    """Which answers are wanted: `k` of them, behind the first `offset`.

    What is stated of an answer, and of all together, is the same on every page.
    """

    k: int
    offset: int = 0

    @property
    def end(self) -> int:
        return self.offset + self.k

    def within(self, items: int) -> "Page":
        """The same of so many items."""
        return Page(self.k, min(self.offset, items))


@dataclass(frozen=True)
class Request:
    """A search from here on: its query is a vector, and its filter is parsed."""

    query: dict[str, Any]
    """As the result repeats it."""
    style: Style
    vector: Float32[np.ndarray, " dim"]
    kind: str
    page: "Page"
    risk: float | None = None
    where: Where | None = None
    but: tuple[int, ...] = ()
    """Items that are no answers, because the others are compared with them."""
    put_apart: bool = False
    """Whether pictures that are the one asked with are among these already."""
    asked: str = ""
    """The text as the model read it: a name in one form, whatever form was typed."""
    understanding: Understanding | None = None
    """What was understood of a text, where the model reads English alone."""
    leaving: "Request | None" = None
    """What the hits must not show, as a search of its own."""

    @property
    def k(self) -> int:
        """How many answers are needed."""
        return self.page.end

    @property
    def wanted_risk(self) -> float | None:
        """The risk asked for; None: the policy's own.

        Of pictures that ask for pictures fewer than half could be answered at a risk that
        people would bear, so their policy's own would be a large one.
        """
        return PICTURE_RISK if self.risk is None and self.style == "picture" else self.risk

    @property
    def words(self) -> Int64[np.ndarray, " 1"]:
        return of_queries([self])[0]

    def with_hint(self, why: str) -> str:
        """A sentence, followed by the message on how the query was understood, if any."""
        hint = None if self.understanding is None else self.understanding.message
        return why if hint is None else f"{why} {hint}"


def of_queries(
    requests: Sequence[Request],
) -> tuple[Int64[np.ndarray, " queries"], Float64[np.ndarray, " queries"] | None]:
    """The number of words of every query, and how common it is; None where none is a text."""
    asked = [request.asked for request in requests]
    return count_words(asked), commonness(asked) if all(asked) else None


@dataclass(frozen=True)
class Candidates:
    """The best items of a gallery with their scores."""

    gallery: Gallery
    ids: Int64[np.ndarray, " hits"]
    scores: Float32[np.ndarray, " hits"]


ReadItems = Callable[[Int64[np.ndarray, " items"]], list[Item]]


def shown_hits(
    read: ReadItems, candidates: Candidates, k: int, judgements: Judgements | None
) -> tuple[Hit, ...]:
    """The first k: by probability where it is known, behind them by similarity.

    judgements: of all that were judged.
    """
    places = shown_places(candidates, k, judgements)
    stated = [] if judgements is None else judgements.probability[0].tolist()
    stated = stated[: len(places)] + [None] * (len(places) - len(stated))
    ranked = zip(read(candidates.ids[places]), candidates.scores[places], stated, strict=True)
    return tuple(
        _hit(rank, item, float(score), p)
        for rank, (item, score, p) in enumerate(ranked, start=1)
    )


def shown_places(
    candidates: Candidates, k: int, judgements: Judgements | None
) -> Int64[np.ndarray, " shown"]:
    """The first k as places of the candidates, in the order they are shown."""
    ids = candidates.ids
    first = np.arange(0) if judgements is None else judgements.order[0]
    beyond = np.arange(0 if judgements is None else SHOWN, len(ids))
    return np.concatenate([first, beyond])[:k]


def written_hits(library: OpenIndex, request: Request, text: str) -> tuple[Hit, ...]:
    """The first k pictures in which the words of a text are written."""
    ids = library.written(text)
    if ids:
        among = np.isin(ids, library.find(request.where, request.kind))
        ids = np.array(ids)[among][: request.page.k].tolist()
    scores = (library.vectors(ids) @ request.vector).tolist() if ids else []
    return tuple(
        replace(_hit(rank, item, score, None), by="text")
        for rank, (item, score) in enumerate(zip(library.items(ids), scores, strict=True), 1)
    )


def _hit(rank: int, item: Item, score: float, p: float | None) -> Hit:
    moment = item.moment
    return Hit(
        rank,
        item.path,
        p,
        score,
        item.id,
        item.kind,
        item.text,
        item.width,
        item.height,
        item.taken,
        item.tags,
        item.tags_total,
        *((None,) * 4 if moment is None else astuple(moment)),
        latitude=item.latitude,
        longitude=item.longitude,
        same_as=item.same_as,
    )
