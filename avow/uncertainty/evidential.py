"""How much evidence there is at all, and whether two views agree on it.

Every view reads its similarities as evidence; the share that is committed to no candidate
is its uncertainty u = K/S, and depends on K. Over the whole gallery thousands of hopeless
candidates take part in K and S. Over a shortlist of the best ones, as many as there were
in a training batch, the belief in the first answer is what the network learnt to give.

Paper: Qin et al., "Trustworthy Visual-Textual Retrieval", IEEE TIP 2025, Eq. 3-4 (belief
and u) and Eq. 12 (disagreement).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from avow.core.contracts import Probe, QueryBatch
from avow.core.opinion import EvidenceKind, Opinion
from avow.uncertainty._answers import Measures, first, in_blocks, nearest


@dataclass(frozen=True)
class Evidential(Probe):
    """u, belief and disagreement."""

    shortlist: int

    def measure(self, asked: QueryBatch) -> Measures:
        """u is of the averaged similarity, `own` of the view that learnt this direction."""

        def look(views: Float[Tensor, "views queries candidates"]) -> Measures:
            together = _single(views.mean(0), self.shortlist, asked.tau, asked.kind)
            if len(views) == 1:
                return together
            others = [view for view in range(len(views)) if view != asked.own]
            pair = (views[asked.own], views[others].mean(0))
            return together | _double(*pair, tau=asked.tau, kind=asked.kind)

        return in_blocks(asked.similarity, look)


def _single(
    similarity: Float[Tensor, "queries candidates"],
    shortlist: int,
    tau: float,
    kind: EvidenceKind,
) -> Measures:
    whole = Opinion.from_similarity(similarity, tau, kind)
    near = similarity.gather(-1, nearest(similarity, shortlist))
    return {
        "u": whole.uncertainty,
        "belief": -whole.belief.amax(-1),
        "belief shortlist": -Opinion.from_similarity(near, tau, kind).belief[:, 0],
    }


def _double(
    own: Float[Tensor, "queries candidates"],
    other: Float[Tensor, "queries candidates"],
    tau: float,
    kind: EvidenceKind,
) -> Measures:
    mine, theirs = (Opinion.from_similarity(view, tau, kind) for view in (own, other))
    return {
        "u own": mine.uncertainty,
        "u other": theirs.uncertainty,
        "disagreement": (mine.belief - theirs.belief).abs().mean(-1),
        "first answers differ": (first(own) != first(other)).to(torch.float32),
    }


def build(*, shortlist: int = 128) -> Probe:
    """shortlist: how many of the best candidates share the second belief."""
    return Evidential(shortlist)
