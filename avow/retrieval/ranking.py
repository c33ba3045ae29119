"""Some queries at once: their best items, and their scores with these and with the sample.

One query is the case of one row. All queries of a call search the same gallery.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avow.core.errors import Unavailable
from avow.core.shapes import Float32, Int64
from avow.core.tracing import spanned
from avow.retrieval.gallery import Gallery, QueryScores
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.request import Candidates, Request
from avow.trust.top_k import SHOWN


@dataclass(frozen=True)
class Ranked:
    """The best items of every query, best first."""

    gallery: Gallery
    ids: Int64[np.ndarray, "queries hits"]
    scores: Float32[np.ndarray, "queries hits"]
    sampled: Float32[np.ndarray, "queries sample"] | None = None
    """Scores of the gallery's sample, where they came with the search."""
    missing: tuple[str, ...] = ()
    """Sentences on parts of the index that did not answer."""
    left_out: tuple[int, ...] = ()
    """Items of the gallery that are no answers, such as the one whose neighbours are asked."""

    @property
    def first(self) -> Int64[np.ndarray, "queries judged"]:
        """Those that are judged."""
        return self.ids[:, :SHOWN]

    def of(self, place: int) -> Candidates:
        """Those of one query."""
        return Candidates(self.gallery, self.ids[place], self.scores[place])


@spanned("store")
def rank(library: OpenIndex, gallery: Gallery, requests: Sequence[Request]) -> Ranked:
    """requests: of one kind, filter and number of answers; with `but`, a single one."""
    queries = np.stack([request.vector for request in requests])
    if not len(gallery):
        nothing = (len(requests), 0)
        return Ranked(gallery, np.empty(nothing, np.int64), np.empty(nothing, np.float32))
    most, but = max(requests[0].k, SHOWN), requests[0].but
    found = library.nearest(queries, most + len(but), gallery.choice)
    ids, scores = found.ids, found.scores
    left_out = but
    if but:
        allowed = ~np.isin(ids[0], but)
        if requests[0].where is not None:  # it may be outside; inside it looks most like itself
            left_out = tuple(ids[0, ~allowed].tolist())
        ids, scores = ids[:, allowed], scores[:, allowed]
    missing = (*found.missing, *gallery.missing)
    best = ids[:, :most], scores[:, :most]
    return Ranked(gallery, *best, found.sampled, missing, left_out)


def score(library: OpenIndex, requests: Sequence[Request], ranked: Ranked) -> QueryScores:
    """Score the best items of every query in every view, and the sample of the gallery.

    That of an index of which a part is missing would be no sample: such a score is refused.
    """
    if ranked.missing:
        raise Unavailable(ranked.missing[0])
    first = ranked.first
    best = library.vectors(first.ravel()).reshape(*first.shape, -1)
    return QueryScores.of(
        ranked.gallery,
        np.stack([request.vector for request in requests]),
        best,
        first,
        library.manifest["views"],
        ranked.left_out,
        ranked.sampled,
    )
