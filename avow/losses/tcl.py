"""TCL: learn evidence for the true match, and let two views agree on it.

View 0 learns image-to-text, view 1 text-to-image; then each teaches the other the
direction it learnt, so that both end with the same beliefs.

Paper: Qin et al., "Trustworthy Visual-Textual Retrieval", IEEE TIP 2025, Eq. 3-13 and
Algorithm 1. Defaults follow the published system where it differs from the paper: the
epoch in lambda counts from 0, and agreement starts at epoch 1 (`agree_from = 0` is
Algorithm 1). Transformer text encoders use `kl_rate = 0.001`.

The rows of its Table IV: #1 is the default and the average of both views; #2 has
`agreement_steps = 0`; #3 and #5 are the single views of #1, which evaluation reports
beside their average; #4 and #6 are those of #2, or `learn = "image"` and
`learn = "text"`, which train one network alone.

Ours: where pairs were judged beforehand (`train.trust`), each learns as far as its match is
believed. A pair that nobody believes teaches nothing, not even that there is no match.

Ours, too: a text fits more images than its own. `others = "left_out"` takes pairs that
probably fit out of the negatives, and `others = "graded"` learns them as matches as far as
they are probable (`training.caption_agreement` says how probable that is).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from avow.core.contracts import Lesson, Loss, Scores, Similarities
from avow.core.opinion import (
    EvidenceKind,
    Opinion,
    dirichlet_risk,
    disagreement,
    kl_to_uniform,
)
from avow.losses._shapes import QueryScores, Value
from avow.losses.decl import believed, shared

Learn = Literal["both", "image", "text"]
Others = Literal["wrong", "left_out", "graded"]
_PROBABLE = 0.5


@dataclass(frozen=True)
class Tcl(Loss):
    tau: float
    evidence: EvidenceKind
    kl_rate: float
    kl_most: float
    agreement_steps: int
    agree_from: int
    learn: Learn
    # pyrefly: ignore [bad-override]  (frozen)
    views: int
    risk_steps: int
    others: Others = "wrong"
    weighs = True

    @property
    def needs_fits(self) -> bool:
        return self.others != "wrong"

    def steps(self, similarities: Similarities, lesson: Lesson) -> Iterator[Value]:
        sides = [believed(lesson.match, trust) for trust in lesson.trust]
        weight = min(self.kl_most, self.kl_rate * lesson.epoch)
        for _ in range(self.risk_steps):
            yield self._risk(list(similarities()), sides, lesson.fits, weight)
        if self.learn == "both" and lesson.epoch >= self.agree_from:
            for _ in range(self.agreement_steps):
                yield agreement(*similarities(), tau=self.tau, evidence=self.evidence)

    def _risk(
        self, scores: list[Scores], sides: list[Scores], fits: Scores | None, kl_weight: float
    ) -> Value:
        """Each view learns the direction of its own."""
        turned = None if fits is None else fits.T
        if self.learn == "text":
            return self._learn(scores[0].T, sides[0].T, turned, kl_weight)
        to_text = self._learn(scores[0], sides[0], fits, kl_weight)
        if self.learn == "image":
            return to_text
        return to_text + self._learn(scores[1].T, sides[1].T, turned, kl_weight)

    def _learn(
        self,
        scores: QueryScores,
        target: QueryScores,
        fits: QueryScores | None,
        kl_weight: float,
    ) -> Value:
        """Risk of the match plus evidence for anything else (TCL Eq. 8-10)."""
        opinion, share = self._opinion(scores), target
        if fits is not None and self.others == "left_out":
            opinion = opinion.without((fits > _PROBABLE) & (target == 0))
        elif fits is not None and self.others == "graded":
            target = target.maximum(fits)
            share = shared(target)
        value = dirichlet_risk(opinion, share)
        if kl_weight > 0:
            rest = kl_to_uniform(opinion.discounted(target))
            value = value + kl_weight * target.amax(-1) * rest
        return value.mean()

    def _opinion(self, scores: QueryScores) -> Opinion:
        return Opinion.from_similarity(scores, self.tau, self.evidence)


def agreement(
    image_view: Scores, text_view: Scores, tau: float, evidence: EvidenceKind
) -> Value:
    """Each view follows the other where the other is at home (TCL Eq. 13)."""
    opinion = partial(Opinion.from_similarity, tau=tau, kind=evidence)
    to_text = disagreement(student=opinion(text_view), teacher=opinion(image_view))
    to_image = disagreement(student=opinion(image_view.T), teacher=opinion(text_view.T))
    return to_text + to_image


def build(
    tau: float = 0.05,
    evidence: EvidenceKind = "exp",
    kl_rate: float = 0.005,
    kl_most: float = 1.0,
    agreement_steps: int = 3,
    agree_from: int = 1,
    learn: Learn = "both",
    risk_steps: int = 1,
    others: Others = "wrong",
) -> Tcl:
    """tau: evidence temperature. kl_rate: how fast the KL weight grows, per epoch.

    agreement_steps: T_max of the paper, extra steps per batch; 0 for none. risk_steps: steps
    on the risk per batch, 1 in the paper; more compares losses at equal numbers of steps.
    others: what pairs of a batch are that no dataset matched, where captions say they fit.
    """
    views = 2 if learn == "both" else 1
    settings = (tau, evidence, kl_rate, kl_most, agreement_steps, agree_from, learn)
    return Tcl(*settings, views, risk_steps, others)
