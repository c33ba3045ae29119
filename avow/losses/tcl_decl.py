"""TCL + DECL: two views learn evidence from pairs that both have sifted.

As in TCL, view 0 learns image-to-text, view 1 text-to-image, and each teaches the other. As
in DECL, a pair believed wrong has no target and may only lose evidence. What is new is who
decides: before every epoch after `warm_up` each view weighs every pair against its batch in
both directions; these weights are averaged over the epochs (`history`) and over the views
(`ask`), and give the probability that each pair is right, a share of its target, or rounded
(`round`). `judge = "null"` compares a pair with the other combinations of its batch, which
are wrong for certain; "mixture" fits two curves to all pairs, as NCR does; "argmax" is DECL.

`judge = "argmax"`, `ask = "own"`, `history = 0`, `risk = "squared"`, `kl_least = 0.1`,
`kl_rate = 0`, `hinge = 0.8`, `tau = 0.1` and `agreement_steps = 0` are two networks of DECL,
each of which learns one direction of the evidence.

Papers: Qin et al., "Trustworthy Visual-Textual Retrieval", IEEE TIP 2025, and "Deep
Evidential Learning with Noisy Correspondence for Cross-modal Retrieval", ACM MM 2022.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from avow.blocks.null_comparison import chance_of_right, normal_scores
from avow.core.contracts import Lesson, Matches, PerView, Scores, SiftingLoss, Similarities
from avow.core.opinion import (
    EvidenceKind,
    Opinion,
    dirichlet_risk,
    kl_to_uniform,
    squared_risk,
)
from avow.losses._mixture import chance_of_higher
from avow.losses._shapes import PerQuery, QueryMatches, QueryScores, Value
from avow.losses.decl import (
    believed,
    check_fewest,
    shared,
    softened_hinge,
    two_way_evidence,
)
from avow.losses.tcl import agreement

Risk = Literal["entropy", "squared"]
Judge = Literal["null", "mixture", "argmax"]
Ask = Literal["own", "other", "mean", "both"]


@dataclass(frozen=True)
class TclDecl(SiftingLoss):
    """kl_least, kl_rate, kl_most: weight of the KL term at first, more per epoch, at most.

    hinge, easing, fewest: DECL's hinge beside the evidence, as in `decl`; 0 for none.
    ask: whose sifting a view learns by. history: share of the past in it, 0 to 1.
    """

    tau: float = 0.05
    evidence: EvidenceKind = "exp"
    risk: Risk = "entropy"
    kl_rate: float = 0.005
    kl_least: float = 0.0
    kl_most: float = 1.0
    hinge: float = 0.0
    margin: float = 0.2
    easing: float = 0.025
    fewest: int = 5
    agreement_steps: int = 3
    agree_from: int = 1
    warm_up: int = 2
    judge: Judge = "null"
    ask: Ask = "mean"
    history: float = 0.5
    round: bool = False

    views = 2

    def __post_init__(self) -> None:
        check_fewest(self.fewest)

    def steps(self, similarities: Similarities, lesson: Lesson) -> Iterator[Value]:
        scores = list(similarities())
        targets = [believed(lesson.match, trust) for trust in lesson.trust]
        to_text = self._learn(scores[0], lesson.match, targets[0], lesson.trust[0], lesson)
        to_image = self._learn(
            scores[1].T, lesson.match.T, targets[1].T, lesson.trust[1], lesson
        )
        yield to_text + to_image
        agrees = lesson.epoch >= self.agree_from
        for _ in range(self.agreement_steps if agrees else 0):
            yield agreement(*similarities(), tau=self.tau, evidence=self.evidence)

    def _learn(
        self,
        scores: QueryScores,
        match: QueryMatches,
        target: QueryScores,
        trust: PerQuery,
        lesson: Lesson,
    ) -> Value:
        """Risk of what is believed, evidence for anything else, and a hinge where wanted."""
        opinion = self._opinion(scores)
        target = shared(target)
        risk = dirichlet_risk if self.risk == "entropy" else squared_risk
        value = risk(opinion, target).mean()
        weight = min(self.kl_most, self.kl_least + self.kl_rate * lesson.epoch)
        if weight > 0:
            value = value + weight * kl_to_uniform(opinion.discounted(target)).mean()
        if self.hinge > 0:
            count = max(int(len(scores) - self.easing * (lesson.step + 1)), self.fewest)
            costs = softened_hinge(scores, match, self.margin, count)
            value = value + self.hinge * (costs * trust).sum()
        return value

    def _opinion(self, scores: QueryScores) -> Opinion:
        return Opinion.from_similarity(scores, self.tau, self.evidence)

    def sifts(self, epoch: int) -> bool:
        return epoch >= self.warm_up

    def glance(self, scores: Sequence[Scores], match: Matches) -> PerView:
        """How far the pair's two-way evidence exceeds that of its rivals in the batch.

        The rivals are taken together, or the strongest alone where argmax judges.
        """
        leads = []
        for one in scores:
            if self.judge == "null":
                leads.append(normal_scores(self._opinion(one).log_evidence, match))
                continue
            weight = two_way_evidence(one, self.tau, self.evidence)
            rivals = weight.masked_fill(match, -torch.inf)
            against = rivals.logsumexp(1) if self.judge == "mixture" else rivals.amax(1)
            leads.append(weight.masked_fill(~match, -torch.inf).amax(1) - against)
        # a pair without rivals has an infinite lead, which could not be averaged
        return torch.stack(leads).clamp(-1e4, 1e4)

    def settle(
        self, seen: PerView, before: PerView | None, epoch: int
    ) -> tuple[PerView, PerView]:
        averaged = seen if before is None else self.history * before + (1 - self.history) * seen
        asked = {
            "own": lambda: averaged,
            "other": lambda: averaged.flip(0),
            "mean": lambda: averaged.mean(0, keepdim=True).expand_as(averaged),
            "both": lambda: averaged.amin(0, keepdim=True).expand_as(averaged),
        }[self.ask]()
        if self.judge == "argmax":
            return (asked >= 0).to(seen.dtype), averaged
        chance = chance_of_right if self.judge == "null" else chance_of_higher
        trust = torch.stack([chance(one) for one in asked])
        return (trust.round() if self.round else trust), averaged


build = TclDecl
