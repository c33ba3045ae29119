"""What a policy was fitted for, and what it states of answers.

Conditions(model="abc", ...).differences(gallery_size, model="xyz")  ->  [Difference, ...]
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from avow.core.errors import WrongTrust
from avow.core.shapes import Bool, Float, Int
from avow.trust.held_out import FAR_BEYOND
from avow.trust.probability import is_name
from avow.trust.risk_control import Promise
from avow.trust.top_k import TopKSummary

Verdict = Literal["answer", "check", "nothing found"]
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
