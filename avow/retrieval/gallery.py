"""What a search may find: the items that are left, and a fixed sample of them.

Trust looks at the whole gallery, and a sample of 2,048 stands for it at a cost that does not
grow: small galleries are looked at whole. The sample is that of the smallest hashes of what the
items are, so the same question gets the same answer in every store, and many shards draw the
sample that one would (`retrieval/merged_shards.py`). A filter makes a gallery of its own, whose
K is what the filter leaves.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from avow.core.background import Background
from avow.core.errors import Unavailable
from avow.core.evidence import EvidenceKind, log_evidence, logsumexp
from avow.core.evidence_sum import Reference
from avow.core.logistic import expit
from avow.core.shapes import Bool, Float, Float32, Int64
from avow.retrieval.open_index import Choice, OpenIndex
from avow.retrieval.where import Where
from avow.trust.coherence import Behind
from avow.trust.top_k import SHOWN, TopKSummary, hub_statistics, summarise_best

SAMPLE = 2048


@dataclass(frozen=True)
class Gallery:
    """The candidates of a search and their sample."""

    choice: Choice
    vectors: Float32[np.ndarray, "sample dim"]
    """Of the sampled items."""
    background: Background | None
    """What is usual for them, where the index knows it."""
    missing: tuple[str, ...] = ()
    """Sentences on why the sample could not be read; then nothing is judged."""

    @classmethod
    def of(cls, library: OpenIndex, where: Where | None, kind: str) -> "Gallery":
        choice = library.choose(where, kind, SAMPLE)
        try:
            usual = library.usual(choice.sampled) if len(choice.sampled) else None
            vectors = np.ascontiguousarray(library.vectors(choice.sampled))
        except Unavailable as error:  # the hits may still be had, as they are far fewer
            return cls(choice, np.empty((0, library.dim), np.float32), None, (str(error),))
        return cls(choice, vectors, usual)

    def __len__(self) -> int:
        return self.choice.count

    @cached_property
    def usual(self) -> Float32[np.ndarray, " sample"] | None:
        """The log-evidence that the sampled items usually get, mean of the views."""
        return None if self.background is None else self.background.log_mean.mean(0)

    @property
    def sampled(self) -> Int64[np.ndarray, " sample"]:
        """Which items the sample holds, in ascending order."""
        return self.choice.sampled

    def left(
        self, hit_ids: Int64[np.ndarray, "queries k"]
    ) -> Bool[np.ndarray, "queries sample"]:
        """Which sampled items are not among the hits of each query."""
        return Reference(len(self), self.sampled).without(hit_ids)


@dataclass(frozen=True)
class QueryScores:
    """The scores of some queries: of their best items per view, and of the sample."""

    best: Float[np.ndarray, "views queries k"]
    sampled: Float[np.ndarray, "queries sample"]
    """Mean of the views."""
    left: Bool[np.ndarray, "queries sample"]
    gallery: int

    @classmethod
    def of(
        cls,
        gallery: Gallery,
        queries: Float32[np.ndarray, "queries dim"],
        best: Float32[np.ndarray, "queries k dim"],
        hit_ids: Int64[np.ndarray, "queries k"],
        views: int,
        but: tuple[int, ...] = (),
        sampled: Float32[np.ndarray, "queries sample"] | None = None,
    ) -> "QueryScores":
        """but: items that are left out, such as the one whose neighbours are searched.

        sampled: the scores of the sample, where the search has them already.
        """
        if sampled is None:
            sampled = queries @ gallery.vectors.T
        away = np.concatenate([hit_ids, np.tile(but, (len(hit_ids), 1))], 1) if but else hit_ids
        return cls(
            by_view(best, queries, views),
            sampled,
            gallery.left(away),
            len(gallery) - len(but),
        )

    def summary(
        self,
        tau: float,
        usual: Background | None,
        everyone: Float[np.ndarray, "*queries sample"] | None,
    ) -> TopKSummary:
        """As trust reads it.

        usual: of the best of all queries, one after another; everyone: of the sample.
        """
        shape = self.best.shape[1:]
        order = np.arange(shape[0] * shape[1]).reshape(shape)
        return summarise_best(
            self.best[..., :SHOWN],
            self.sampled,
            self.left,
            self.gallery,
            tau,
            usual_best=None if usual is None else hub_statistics(usual, order),
            usual_sample=everyone,
        )

    def behind(
        self, summary: TopKSummary, everyone: Float[np.ndarray, "*queries sample"] | None
    ) -> Behind:
        """The sampled items behind the hits; they stand for all that are."""
        evidence = self.sampled / summary.tau
        last = summary.scores.mean(0)[:, -1:] / summary.tau
        if summary.relative is not None and everyone is not None:
            evidence, last = evidence - everyone, summary.relative[:, -1:]
        count = max(self.gallery - summary.scores.shape[-1], 0)
        return Behind(last - evidence, self.left, np.full(len(evidence), count))

    def uncertainty(self, tau: float, kind: EvidenceKind) -> Float[np.ndarray, " queries"]:
        """u = K / S; exact where the sample is the whole gallery, else estimated from it."""
        best = self.best.mean(0)
        total = logsumexp(log_evidence(best, tau, kind))
        rest, sample_size = self.gallery - best.shape[1], self.left.sum(1)
        if rest and sample_size.all():
            sample_evidence = log_evidence(self.sampled, tau, kind)
            # as `core.evidence_sum` estimates it, without its bounds, which cost more
            tail = logsumexp(np.where(self.left, sample_evidence, np.float32(-np.inf)))
            total = np.logaddexp(total, tail + np.log(rest / sample_size))
        return expit(math.log(self.gallery) - total)


def slices(
    vectors: Float32[np.ndarray, "items dim"], views: int
) -> Float32[np.ndarray, "views items part"]:
    """Each view's part of the vectors."""
    count, dim = vectors.shape
    return vectors.reshape(count, views, dim // views).swapaxes(0, 1)


def by_view(
    vectors: Float32[np.ndarray, "queries items dim"],
    queries: Float32[np.ndarray, "queries dim"],
    views: int,
) -> Float32[np.ndarray, "views queries items"]:
    """Every item's score in every view."""
    parts = (vectors * queries[:, None]).reshape(*vectors.shape[:2], views, -1).sum(-1)
    return np.moveaxis(np.float32(views) * parts, -1, 0)
