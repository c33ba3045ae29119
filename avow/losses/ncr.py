"""NCR: two networks sort out each other's wrong pairs, and doubtful ones get a small margin.

Before every epoch after `warm_up` each network says what every pair costs it; a mixture of
two curves over these costs gives the probability that a pair is right, and the other network
learns by it. A pair that is probably right has nearly the whole margin. One that is probably
wrong teaches nothing before epoch `wrong_from`; from then on it has the margin that both
networks' own predictions suggest.

Paper: Huang et al., "Learning with Noisy Correspondence for Cross-modal Matching", NeurIPS
2021. Its system runs over the probably right and the probably wrong pairs in batches of
their own; here they share a batch and are only compared among themselves. In the published
code the margin of a text query is that of the image it is compared with (`text_margin =
"candidate"`, the default); "own" is the margin of the query's own pair.

Three more things are not as in the published code. The predictions of the two networks for a
pair are averaged and then clamped to [0, 1]; there each is clamped before. They come from the
training pass, with dropout on, where there the networks are put into evaluation mode and
asked beforehand. And the best tenth of n pairs is n - int(0.9 n) of them, where there it is
n // 10 + 1: one more where n is a multiple of ten, else the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from avow.core.contracts import Lesson, Matches, PerView, Scores, SiftingLoss, Similarities
from avow.losses._mixture import chance_of_higher
from avow.losses._shapes import PairMatches, PairScores, PerPair, Value
from avow.losses.hinge import violation

Curve = Literal["linear", "exponential", "sin"]
TextMargin = Literal["candidate", "own"]


def mean_cost(scores: PairScores, match: PairMatches, margin: float) -> PerPair:
    """The mean violation of all candidates, added over both directions."""
    sides = violation(scores, match, margin), violation(scores.T, match.T, margin)
    return sides[0].mean(-1) + sides[1].mean(-1)


def predicted(scores: PairScores, match: PairMatches, margin: float) -> PerPair:
    """How right each pair looks beside the best tenth of its batch."""
    room = (margin - mean_cost(scores, match, margin) / 2).clamp(0, margin)
    best = room.sort().values[int(0.9 * len(room)) :]
    return room / best.mean().clamp(min=1e-8)


def softened(label: PerPair, curve: Curve) -> PerPair:
    """The share of the margin that a pair of this label gets."""
    if curve == "linear":
        return label
    if curve == "exponential":
        return (10**label - 1) / 9
    return (torch.sin(torch.pi * (label - 0.5)) + 1) / 2


@dataclass(frozen=True)
class Ncr(SiftingLoss):
    """curve: how a label becomes a margin. warm_up: epochs that believe every pair.

    wrong_from: epoch from which pairs that are probably wrong are learnt from as well; the
    paper begins after half of the epochs. threshold: probability above which a pair counts
    as right.
    """

    margin: float = 0.2
    curve: Curve = "exponential"
    warm_up: int = 1
    wrong_from: int = 20
    threshold: float = 0.5
    text_margin: TextMargin = "candidate"

    views = 2

    def steps(self, similarities: Similarities, lesson: Lesson) -> Iterator[Value]:
        scores = list(similarities())
        if lesson.epoch < self.warm_up:
            costs = [mean_cost(one, lesson.match, self.margin).sum() for one in scores]
            yield torch.stack(costs).sum()
            return
        total = scores[0].new_zeros(())
        for own, trust in zip(scores, lesson.trust, strict=True):
            right = trust > self.threshold
            total = total + self._learn(right, own, [own], trust, lesson.match)
            if lesson.epoch >= self.wrong_from:
                nothing = torch.zeros_like(trust)
                total = total + self._learn(~right, own, scores, nothing, lesson.match)
        # where no pair can be compared, nothing is learnt, but the step is still taken
        yield total + 0 * torch.stack([one.sum() for one in scores]).sum()

    def _learn(
        self,
        chosen: Bool[Tensor, " pairs"],
        scores: PairScores,
        advisers: Sequence[PairScores],
        trust: PerPair,
        match: PairMatches,
    ) -> Value:
        """The hinge among the `chosen` pairs, whose labels the `advisers` complete."""
        places = chosen.nonzero().squeeze(1)
        if len(places) < 2:
            return scores.new_zeros(())
        grid = (places[:, None], places[None])
        among = match[grid]
        labels = [predicted(one.detach()[grid], among, self.margin) for one in advisers]
        trust = trust[places]
        label = trust + (1 - trust) * torch.stack(labels).mean(0)
        return self.hinge(scores[grid], among, label.clamp(0, 1))

    def hinge(self, scores: PairScores, match: PairMatches, label: PerPair) -> Value:
        """The hardest violation of each query under its pair's margin, summed."""
        margin = self.margin * softened(label, self.curve)[:, None]
        turned = margin.T if self.text_margin == "candidate" else margin
        to_text = violation(scores, match, margin).amax(-1)
        to_image = violation(scores.T, match.T, turned).amax(-1)
        return to_text.sum() + to_image.sum()

    def sifts(self, epoch: int) -> bool:
        return epoch >= self.warm_up

    def glance(self, scores: Sequence[Scores], match: Matches) -> PerView:
        return torch.stack([mean_cost(one, match, self.margin) for one in scores])

    def settle(
        self, seen: PerView, before: PerView | None, epoch: int
    ) -> tuple[PerView, PerView]:
        """Each view's probabilities go to the other view."""
        return torch.stack([self._right(cost) for cost in seen]).flip(0), seen

    def _right(self, cost: PerPair) -> PerPair:
        """The probability that each pair is right, by what it costs one network."""
        scaled = (cost - cost.min()) / (cost.max() - cost.min()).clamp(min=1e-12)
        # as published: few rounds, a coarse end, and curves that cannot become narrow
        right = chance_of_higher(-scaled, 10, 1e-2, 5e-4, monotone=False)
        if (right > self.threshold).all():
            right = right.clone()
            right[cost.topk(max(1, len(cost) // 100)).indices] = 0
        return right


build = Ncr
