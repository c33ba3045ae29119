"""What a policy was checked with, and what that promises of names and of descriptions.

    held.promise("relevant", risk=0.1, among=10, delta=0.1, asked="names")  ->  Promise

Names ("a dog") and descriptions have promises, and usual risks, of their own: where both are
equally sure, more answers to descriptions are wrong.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from avow.core.shapes import Bool, Float, Int
from avow.trust.gallery_sampling import one_of
from avow.trust.probability import is_name
from avow.trust.risk_control import Promise, promise

Asked = Literal["names", "descriptions", "questions"]
"""What a promise is about: queries of one kind, or all of them."""

RISKS = (*(n / 100 for n in range(1, 10)), 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
USUAL = tuple(risk for risk in RISKS if risk <= 0.25)  # where nobody chose one
ANSWERED: dict[Asked, float] = {"names": 0.5, "descriptions": 0.3, "questions": 0.3}
"""Share of the held-out queries that is answered at the usual risk. One in four has no answer,
of descriptions more; a name that many pictures show should seldom end in "check"."""
FAR_BEYOND = 4.0
"""Every answer from a gallery this many times larger than any of the fit says so."""
_NEAR, _ENOUGH = 2, 100
"""Galleries up to so many times larger or smaller are of about one size; and the held-out
queries in them that say anything of it."""
_PROMISE = 400
"""Held-out queries of a kind that can make a promise of their own."""
LEAST = 0.5
"""What is more likely wrong is not answered, at whatever risk: of all answers together few
may be wrong, and this one would still contradict its own number."""


@dataclass(frozen=True)
class Measured:
    """How a promise went with held-out queries in galleries of about one size."""

    queries: int
    smallest: int
    largest: int
    """Of these galleries."""
    coverage: float
    """Share of the queries that were answered."""
    wrong: float | None
    """Share of the answers that were wrong; None where nothing was answered."""


@dataclass(frozen=True, eq=False)  # hashed by identity: arrays have no hash
class HeldOut:
    """Hits that the probabilities were not fitted on: what was stated, and the truth."""

    probability: Float[np.ndarray, "queries shown"]
    correct: Bool[np.ndarray, "queries shown"]
    groups: Int[np.ndarray, " queries"]
    anything: Float[np.ndarray, " queries"] | None = None
    """What was stated of the first ten together, where the policy has `anything`."""
    sizes: Int[np.ndarray, " queries"] | None = None
    """Of the gallery of each query, where that is known."""
    words: Int[np.ndarray, " queries"] | None = None
    """How many words each query has, where that is known."""

    def check(self) -> None:
        """Raise ValueError if the parts do not belong to the same queries."""
        if self.probability.ndim != 2 or self.probability.shape != self.correct.shape:
            raise ValueError("stated and true are of different hits")
        if self.groups.shape != self.probability.shape[:1]:
            raise ValueError("there is not one group for every query")
        if self.anything is not None and self.anything.shape != self.groups.shape:
            raise ValueError("there is not one judgement of the first ten for every query")
        if self.sizes is not None and self.sizes.shape != self.groups.shape:
            raise ValueError("there is not one size of a gallery for every query")
        if self.words is not None and self.words.shape != self.groups.shape:
            raise ValueError("there is not one number of words for every query")

    @cached_property
    def kinds(self) -> tuple[Asked, ...]:
        """What has promises of its own: names and descriptions, where enough of both are known.

        Of equally sure answers to descriptions more are wrong, so one promise about both would
        be broken for these.
        """
        if self.words is None or self.anything is None:
            return ("questions",)
        names = int(is_name(self.words).sum())
        enough = min(names, len(self.words) - names) >= _PROMISE
        return ("names", "descriptions") if enough else ("questions",)

    def of_kind(self, asked: Asked) -> Bool[np.ndarray, " queries"]:
        """Which queries are of one kind."""
        if asked == "questions" or self.words is None:
            return np.full(len(self.groups), True)
        return is_name(self.words) == (asked == "names")

    def near(
        self, size: int, asked: Asked = "questions"
    ) -> Bool[np.ndarray, " queries"] | None:
        """The queries in galleries of about this size; None where they are not enough."""
        if self.sizes is None or self.anything is None:
            return None
        if not self.sizes.min() <= size <= self.sizes.max():
            return None
        near = (self.sizes <= _NEAR * size) & (self.sizes * _NEAR >= size)
        near &= self.of_kind(asked)
        return near if near.sum() >= _ENOUGH else None

    def measured(
        self, promised: Promise, size: int, asked: Asked = "questions"
    ) -> "Measured | None":
        """What was answered in galleries of about this size, and how much of it was wrong."""
        near = self.near(size, asked)
        if near is None or self.sizes is None or self.anything is None:
            return None
        answered = near & promised.answers(self.anything)
        wrong = answered & ~self.correct.any(1)
        share = float(wrong.sum() / answered.sum()) if answered.any() else None
        ends = int(self.sizes[near].min()), int(self.sizes[near].max())
        return Measured(int(near.sum()), *ends, float(answered.sum() / near.sum()), share)

    def promise(
        self,
        event: str,
        risk: float,
        among: int,
        delta: float,
        size: int | None = None,
        asked: Asked = "questions",
    ) -> Promise:
        """What holds for answers of which `among` hits are looked at.

        asked: of which kind the queries are. size: of the gallery. The promise holds for all
        sizes together with confidence 1 - `delta`; where enough was measured of this size, no
        larger share of those answers may have been wrong either. Far beyond all that was
        measured, nothing can be promised.
        """
        made = self._promise(event, risk, among, delta, self.of_kind(asked))
        if size is not None and self.sizes is not None:
            most = int(self.sizes.max())
            if size > FAR_BEYOND * most:
                reason = (
                    f"galleries like this one of {size} were not measured, only up to {most}"
                )
                return replace(made, threshold=None, answered=0, wrong=0, reason=reason)
        near = None if size is None else self.near(size, asked)
        return made if near is None else self._kept(made, near, among)

    def _kept(self, made: Promise, near: Bool[np.ndarray, " queries"], among: int) -> Promise:
        """The promise with the laxest threshold at which these queries kept it as well."""
        if made.threshold is None:
            return made
        score, wrong = self._judged(among)
        some = near & (score >= made.threshold)
        order = np.argsort(-score[some], kind="stable")
        ordered, errors = score[some][order], np.cumsum(wrong[some][order])
        ends = np.append(ordered[1:] != ordered[:-1], [True] * (len(ordered) > 0))
        kept = np.flatnonzero(ends & (errors <= made.alpha * np.arange(1, len(errors) + 1)))
        if len(kept) == 0 < len(ordered):
            reason = "too many of the surest answers in galleries like this one are wrong"
            return replace(made, threshold=None, answered=0, wrong=0, reason=reason)
        if len(ordered) == 0 or kept[-1] == len(ordered) - 1:
            return made
        threshold = float(ordered[kept[-1]])
        answered = (score >= threshold) & near
        return replace(
            made,
            threshold=threshold,
            queries=int(near.sum()),
            groups=len(set(self.groups[near].tolist())),
            answered=int(answered.sum()),
            wrong=int((answered & wrong).sum()),
        )

    def _judged(
        self, among: int
    ) -> tuple[Float[np.ndarray, " queries"], Bool[np.ndarray, " queries"]]:
        """How sure each answer was, and whether it was wrong."""
        score = one_of(self.probability[:, :among]) if self.anything is None else self.anything
        return score, np.logical_not(self.correct[:, :among].any(axis=1))

    def _promise(
        self,
        event: str,
        risk: float,
        among: int,
        delta: float,
        some: Bool[np.ndarray, " queries"],
    ) -> Promise:
        score, wrong = self._judged(among)
        says = f"none of {among} hits is {event}" if among > 1 else f"the hit is not {event}"
        tried = some if self.anything is None else some & (score >= LEAST)
        made = promise(
            score[tried],
            wrong[tried],
            risk,
            delta,
            event=says,
            groups=self.groups[tried],
            starts=3,  # one early mistake among the surest must not end everything
        )
        groups = len(set(self.groups[some].tolist()))
        return replace(made, queries=int(some.sum()), groups=groups)


@lru_cache(maxsize=1024)
def promise_once(
    held: HeldOut,
    event: str,
    risk: float,
    among: int,
    delta: float,
    size: int | None,
    asked: Asked,
) -> Promise:
    """`HeldOut.promise`, which takes milliseconds, made once for all searches."""
    return held.promise(event, risk, among, delta, size, asked)


def usual_risk(promised: Callable[[float], Promise], kind: Asked) -> float:
    """The lowest that answers `ANSWERED` of a kind, or as many as any. promised: of a risk."""
    coverage = [promised(risk).coverage for risk in USUAL]
    enough = min(ANSWERED[kind], max(coverage))
    answering = (risk for risk, one in zip(USUAL, coverage, strict=True) if one >= enough)
    return next(answering) if enough else USUAL[-1]


def answered_by_kind(
    made: Sequence[Promise],
    sure: Float[np.ndarray, " queries"],
    words: Int[np.ndarray, " queries"],
) -> tuple[Bool[np.ndarray, " queries"], list[Promise]]:
    """Which queries the promise of their kind allows to answer, and that promise of each.

    made: of all queries, or of names and of descriptions.
    """
    kind = np.where(is_name(words), 0, len(made) - 1)
    answered = np.stack([one.answers(sure) for one in made])
    return answered[kind, np.arange(len(words))], [made[one] for one in kind.tolist()]
