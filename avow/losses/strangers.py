"""TCL on wrong pairs: whether a pair is right is judged by the view that never learnt it.

A network learns wrong pairs by heart within an epoch or two, and then believes them. So for
the first epochs (`apart`) each of the two views learns from its own half of the pairs, in
both directions, and after every such epoch each pair is judged by the other view, as a
stranger: how it stands among combinations that belong to nobody gives the probability that
it is right. That probability is its weight from then on. Once the views have met, both learn
all pairs so weighed and agree as in TCL. Judges who believe most pairs after one epoch meet
then: to learn from halves for longer makes them better, and costs more than that is worth. A
pair that nobody believes teaches nothing: with many of them, the KL term would take all
evidence away.

Halves are the first and the last of the split, where captions of one image stand together:
five captions that moved to another image are learnt, or judged, as one.

Paper: Qin et al., "Trustworthy Visual-Textual Retrieval", IEEE TIP 2025 (learning and
agreement). Ours: strangers as judges, after cross-fitting in statistics.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from avow.blocks.null_comparison import chance_of_right, normal_scores
from avow.core.contracts import Lesson, Matches, PerView, Scores, SiftingLoss, Similarities
from avow.core.opinion import EvidenceKind, Opinion, dirichlet_risk, kl_to_uniform
from avow.losses._shapes import PerPair, QueryScores, Value
from avow.losses.decl import believed, shared
from avow.losses.tcl import agreement


@dataclass(frozen=True)
class Strangers(SiftingLoss):
    """apart: epochs in which the views learn from halves and judge each other's; 0 is TCL.

    meet_at: the share of pairs believed at which they stop that earlier; above 1 for never.
    Half of the pairs must be enough to learn from: a few thousand, rather than hundreds.
    The rest as in `tcl`: agreement steps begin when the views have met.
    """

    tau: float = 0.05
    evidence: EvidenceKind = "exp"
    kl_rate: float = 0.005
    kl_most: float = 1.0
    agreement_steps: int = 3
    apart: int = 3
    meet_at: float = 0.5

    views = 2

    def steps(self, similarities: Similarities, lesson: Lesson) -> Iterator[Value]:
        scores = list(similarities())
        sides = [believed(lesson.match, trust) for trust in lesson.trust]
        # views that met early believe the same of every pair
        if lesson.epoch < self.apart and not torch.equal(*lesson.trust):
            yield torch.stack(
                [
                    self._learn(one, side, lesson.epoch)
                    + self._learn(one.T, side.T, lesson.epoch)
                    for one, side in zip(scores, sides, strict=True)
                ]
            ).sum()
            return
        yield self._learn(scores[0], sides[0], lesson.epoch) + self._learn(
            scores[1].T, sides[1].T, lesson.epoch
        )
        for _ in range(self.agreement_steps):
            yield agreement(*similarities(), tau=self.tau, evidence=self.evidence)

    def _learn(self, scores: QueryScores, target: QueryScores, epoch: int) -> Value:
        """TCL's risk and KL, each query as far as its match is believed."""
        opinion, target = self._opinion(scores), shared(target)
        value = dirichlet_risk(opinion, target)
        weight = min(self.kl_most, self.kl_rate * epoch)
        if weight > 0:
            value = value + weight * target.sum(-1) * kl_to_uniform(opinion.discounted(target))
        return value.mean()

    def _opinion(self, scores: QueryScores) -> Opinion:
        return Opinion.from_similarity(scores, self.tau, self.evidence)

    def sifts(self, epoch: int) -> bool:
        return epoch <= self.apart

    def glance(self, scores: Sequence[Scores], match: Matches) -> PerView:
        """How each pair stands among combinations that belong to nobody."""
        return torch.stack(
            [normal_scores(self._opinion(one).log_evidence, match) for one in scores]
        )

    def settle(
        self, seen: PerView, before: PerView | None, epoch: int
    ) -> tuple[PerView, PerView]:
        first = torch.arange(seen.shape[1]) < seen.shape[1] / 2
        learns = torch.stack([first, ~first])
        if epoch == 0:  # before any training, all pairs are trusted
            return (learns if self.apart else torch.ones_like(learns)).to(seen.dtype), seen
        trust = _judged(seen, first)
        if epoch > 1 and before is not None:
            earlier = _judged(before, first)
            if self._meet(earlier):  # and have learnt all pairs: no strangers any more
                trust, seen = earlier, before
        both = trust.expand_as(seen)
        together = epoch >= self.apart or self._meet(trust)
        return (both.clone() if together else both * learns), seen

    def _meet(self, trust: PerPair) -> bool:
        return float(trust.mean()) >= self.meet_at


def _judged(seen: Float[Tensor, "views pairs"], first: Bool[Tensor, " pairs"]) -> PerPair:
    """The chance that each pair is right, by the view that did not learn from it."""
    return chance_of_right(torch.where(first, seen[1], seen[0]))


build = Strangers
