"""What a policy was fitted for, what it was checked with, and what it states of answers.

Conditions(model="abc", ...).differences(gallery_size, model="xyz")  ->  [Difference, ...]
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from avow.core.errors import WrongTrust
from avow.core.shapes import Bool, Float, Int
from avow.trust.gallery_sampling import one_of
from avow.trust.probability import is_name
from avow.trust.risk_control import Promise, promise
from avow.trust.top_k import TopKSummary

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

Verdict = Literal["answer", "check", "nothing found"]
Asked = Literal["names", "descriptions", "questions"]
"""What a promise is about: queries of one kind, or all of them."""
Agreed = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Probabilities of hits, "one of the first ten" and rho; see `coherence.agree`."""


@dataclass(frozen=True)
class Difference:
    """One condition that is not as when the policy was fitted."""

    what: str
    """"model", "gallery", "style", "exact" or "size"."""
    fitted: Any
    now: Any

    def __str__(self) -> str:
        if self.what == "size":
            smallest, largest = self.fitted
            return f"fitted on galleries of {smallest} to {largest}, used on one of {self.now}"
        return f"fitted for {self.what} {self.fitted!r}, used for {self.now!r}"


def refuse_other_model(different: list[Difference]) -> None:
    """Vectors of two models have nothing in common; other differences are doubts."""
    for one in different:
        if one.what == "model":
            raise WrongTrust(
                f"The policy was {one}. Expected the model it was fitted with; calibrate with "
                "`avow calibrate`, or fit another with `avow.fit_policy`."
            )


@dataclass(frozen=True)
class Conditions:
    """What a policy was fitted for; its probabilities hold for nothing else."""

    model: str = ""
    """Fingerprint of the model whose similarities it reads."""
    gallery: str = ""
    """Fingerprint of the gallery, if it was fitted on one in particular."""
    style: str = "caption"
    """Kind of queries: captions, object names, photographs."""
    smallest: int = 0
    largest: int = 0
    exact: bool = True
    """Whether whole rows of similarities were given, or only the top k and a sample."""
    transferred: str = ""
    """The model whose probabilities stood for labels (`trust.transfer`); empty: real labels."""

    def differences(
        self, gallery_size: int, beyond: float = FAR_BEYOND, **now: Any
    ) -> list[Difference]:
        """What is different now; `now` has any of model, gallery, style and exact.

        beyond: how many times larger than any of the fit a gallery may be.
        """
        differences = [
            Difference(key, getattr(self, key), value)
            for key, value in now.items()
            if value is not None and getattr(self, key) not in ("", value)
        ]
        if not self.smallest <= gallery_size <= beyond * self.largest:
            differences.append(Difference("size", (self.smallest, self.largest), gallery_size))
        return differences

    def doubts(self, gallery_size: int, **now: Any) -> list[str]:
        """The differences as sentences, of any size outside those of the fit, too."""
        return [str(one) for one in self.differences(gallery_size, 1.0, **now)]


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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Reading:
    """What a policy reads of some queries, and what it states before it judges them."""

    summary: TopKSummary
    features: Float[np.ndarray, "queries shown features"]
    words: Int[np.ndarray, " queries"]
    stated: Float[np.ndarray, "queries shown"]
    """Of the hits by similarity."""
    agreed: Agreed | None
    """Hits by probability, "one of the first ten" and rho, where the policy has `anything`."""
    level: Float[np.ndarray, " queries"] | None = None
    """The level of every query, where the policy reads it."""

    @property
    def above(self) -> Float[np.ndarray, " queries"] | None:
        """How far the last hits of names are above their level; 0 for other queries."""
        relative = self.summary.relative
        if self.level is None or relative is None:
            return None
        return np.where(is_name(self.words), relative[:, -1] - self.level, 0)


@dataclass(frozen=True)
class Judgements:
    """Probabilities and verdicts for the answers of some queries."""

    order: Int[np.ndarray, "queries shown"]
    """Positions in the summary of the hits to show, in order."""
    probability: Float[np.ndarray, "queries shown"]
    """That each of these is right or relevant (`event`)."""
    confidence: Float[np.ndarray, " queries"]
    """That one of those the promise concerns is."""
    present: Float[np.ndarray, " queries"]
    """That the gallery holds a match, if that were as likely as not."""
    verdicts: list[Verdict]
    promises: list[Promise]
    """What the verdict of each query rests on."""
    doubts: list[str] = field(default_factory=list)
    """Why the probabilities may not hold here."""
    odd: Float[np.ndarray, " queries"] | None = None
    """Share of features outside the range the policy was fitted on."""
    event: str = "relevant"
    one_of_first: Float[np.ndarray, "queries ten"] | None = None
    """P_k that one of the first k is, for k = 1 … 10; never falls with k."""
    candidates: Int[np.ndarray, "queries shown"] | None = None
    """The hits as columns of the similarity, if whole rows were given."""
    uncertainty: Float[np.ndarray, " queries"] | None = None
    """u = K / S, if whole rows were given; it means nothing without `evidence`."""
    evidence: dict[str, Any] | None = None
    """K, tau and evidence function of `uncertainty`."""

    def of(self, place: int) -> "Judgements":
        """Those of one query."""
        one = slice(place, place + 1)
        arrays = (
            "order",
            "probability",
            "confidence",
            "present",
            "verdicts",
            "promises",
            "odd",
        )
        arrays += ("one_of_first", "candidates", "uncertainty")
        kept = {name: getattr(self, name) for name in arrays}
        return replace(
            self, **{name: None if v is None else v[one] for name, v in kept.items()}
        )

    def among(self, shown: int) -> "Judgements":
        """The same where fewer hits are shown; needs `one_of_first`."""
        assert self.one_of_first is not None
        last = min(shown, self.one_of_first.shape[1]) - 1
        return replace(
            self,
            order=self.order[:, :shown],
            probability=self.probability[:, :shown],
            confidence=self.one_of_first[:, last],
        )

    @property
    def trust(self) -> Float[np.ndarray, " queries"]:
        """The probability of the first hit."""
        return self.probability[:, 0]


def verdicts(
    answered: Bool[np.ndarray, " queries"], refused: Bool[np.ndarray, " queries"]
) -> list[Verdict]:
    """The one verdict rule. answered: what the promise allows."""
    return [
        "nothing found" if no else "answer" if yes else "check"
        for yes, no in zip(answered, refused, strict=True)
    ]
