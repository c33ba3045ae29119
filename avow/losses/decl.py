"""DECL: learn evidence from pairs that may be wrong, and do not learn a match from those.

A pair believed wrong has no target at all: whatever evidence its items give in the batch is
too much, and is taken back (negative learning). Which pairs those are is predicted before
every epoch after `warm_up`: a pair is believed where, of its batch, it has the most evidence
of both directions together. Beside it stands a hinge over the n hardest negatives of every
believed pair; n falls from the whole batch to `fewest` while the network gets better.

Paper: Qin et al., "Deep Evidential Learning with Noisy Correspondence for Cross-modal
Retrieval", ACM MM 2022; equations of its supplement. Its Table 1 (all with tau 0.1):

| noise        | data      | warm_up | epochs, decay_after | lr   |
|--------------|-----------|---------|---------------------|------|
| 0, 20, 40 %  | Flickr30K | 5       | 40, 20              | 2e-4 |
| 0, 20, 40 %  | COCO      | 2       | 20, 10              | 5e-4 |
| 60, 80 %     | Flickr30K | 2       | 40, 20              | 2e-4 |
| 60, 80 %     | COCO      | 1       | 20, 10              | 5e-4 |
| as collected | CC152K    | 5       | 40, 20              | 2e-4 |

Its Table 3: row MSE(alpha) has `hinge = 0`, `kl = 0` and `sift = false`; row MSE has
`risk = "similarity"` besides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from avow.core.contracts import Lesson, Matches, PerView, Scores, SiftingLoss, Similarities
from avow.core.errors import BadRecipe
from avow.core.opinion import EvidenceKind, Opinion, kl_to_uniform, log_evidence, squared_risk
from avow.losses._shapes import PairMatches, PairScores, PerPair, PerQuery, QueryScores, Value
from avow.losses.hinge import violation

Risk = Literal["evidence", "similarity"]


def believed(match: Matches, trust: PerPair) -> Scores:
    """The targets: a match as far as its text is trusted to be one, and nothing elsewhere."""
    return match * trust[None]


def shared(target: QueryScores) -> QueryScores:
    """Where a query has several matches they share one unit, as a distribution must."""
    return target / target.sum(1, keepdim=True).clamp(min=1)


def softened_hinge(
    scores: PairScores, match: PairMatches, margin: float, negatives: int
) -> PerPair:
    """The mean violation of each pair's hardest negatives, added over both directions."""
    count = min(negatives, len(scores))
    sides = (violation(scores, match, margin), violation(scores.T, match.T, margin))
    return (
        sum((side.topk(count).values.sum(-1) for side in sides), scores.new_zeros(())) / count
    )


def two_way_evidence(scores: PairScores, tau: float, evidence: EvidenceKind) -> PairScores:
    """Logarithm of the evidence of both directions together: e + e transposed."""
    there = log_evidence(scores, tau, evidence)
    return torch.logaddexp(there, there.T)


def check_fewest(fewest: int) -> None:
    """With no negative left, the mean over them would be 0 / 0."""
    if fewest < 1:
        raise BadRecipe(
            f"The hinge keeps '{fewest}' negatives. Expected at least 1; change fewest."
        )


@dataclass(frozen=True)
class Decl(SiftingLoss):
    """hinge, kl: lambda 1 and lambda 2 of the paper. easing, fewest: its eta and mu.

    warm_up: epochs that believe every pair. sift: whether pairs are judged at all.
    """

    tau: float = 0.1
    evidence: EvidenceKind = "exp"
    risk: Risk = "evidence"
    hinge: float = 0.8
    kl: float = 0.1
    margin: float = 0.2
    easing: float = 0.025
    fewest: int = 5
    warm_up: int = 5
    sift: bool = True

    views = 1

    def __post_init__(self) -> None:
        check_fewest(self.fewest)

    def steps(self, similarities: Similarities, lesson: Lesson) -> Iterator[Value]:
        (scores,) = similarities()
        yield self.evidential(scores, lesson) + self.hinged(scores, lesson)

    def evidential(self, scores: Scores, lesson: Lesson) -> Value:
        """Risk of the believed matches and evidence for anything else, both directions."""
        target = believed(lesson.match, lesson.trust[0])
        to_text = self._query(scores, shared(target))
        to_image = self._query(scores.T, shared(target.T))
        return (to_text + to_image).mean()

    def hinged(self, scores: Scores, lesson: Lesson) -> Value:
        """The hinge of the believed pairs, summed over the batch as published."""
        if self.hinge == 0:
            return scores.new_zeros(())
        count = self.negatives(len(scores), lesson.step)
        costs = softened_hinge(scores, lesson.match, self.margin, count)
        return self.hinge * (costs * lesson.trust[0]).sum()

    def negatives(self, batch: int, step: int) -> int:
        """How many a pair is compared with; published steps count from 1."""
        return max(int(batch - self.easing * (step + 1)), self.fewest)

    def _query(self, scores: QueryScores, target: QueryScores) -> PerQuery:
        opinion = Opinion.from_similarity(scores, self.tau, self.evidence)
        if self.risk == "evidence":
            value = squared_risk(opinion, target)
        else:
            value = (target - scores).square().mean(-1)
        if self.kl > 0:
            value = value + self.kl * kl_to_uniform(opinion.discounted(target))
        return value

    def sifts(self, epoch: int) -> bool:
        return self.sift and epoch >= self.warm_up

    def glance(self, scores: Sequence[Scores], match: Matches) -> PerView:
        """1 where a pair, or another of the same image, has the most two-way evidence."""
        first_fits = []
        for one in scores:
            first = two_way_evidence(one, self.tau, self.evidence).argmax(1, keepdim=True)
            first_fits.append(match.gather(1, first).squeeze(1).float())
        return torch.stack(first_fits)

    def settle(
        self, seen: PerView, before: PerView | None, epoch: int
    ) -> tuple[PerView, PerView]:
        """The values of an epoch are used as they are, without a running average."""
        return seen, seen


build = Decl
