"""When to answer, when to say "look yourself", when to say "nothing found": for a search.

    what was seen of the answers --Policy.judge--> probability of every hit, verdict

A policy is fitted once, on queries of several kinds over galleries of many sizes: whole
captions, short phrases, names of things, and a quarter of them with nothing to find. It
states, for every hit, the probability that a person would call it relevant; for the answer,
the probability that one of those shown is. It keeps the held-out answers it was checked
with, so that any risk may be asked for: "at most one answer in ten with nothing relevant
among those shown". What the gallery hardly holds at all is refused.

How many words a query has says what kind it is: a name fits many pictures, a caption one.
Hits are shown in the order of their probability, which knows of hubs where similarity does
not: of the best candidates by similarity, the most probable come first.
"""

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from avow.core.errors import WrongTrust
from avow.core.files import write_text
from avow.trust.galleries import one_of, state
from avow.trust.judge import Conditions, Verdict
from avow.trust.probability import Probability
from avow.trust.promise import Promise, promise
from avow.trust.sight import Sight, describe

FORMAT = 1
SHOWN = 10
DELTA = 0.1
RISKS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
_ODD = 0.15  # share of numbers outside what was ever seen that makes a query unlike the rest
_LEAST = 1e-6


@dataclass(frozen=True)
class Held:
    """Answers that were not learnt from: what was stated of them, and what was true."""

    stated: Float[np.ndarray, "queries shown"]
    relevant: Bool[np.ndarray, "queries shown"]
    groups: Int[np.ndarray, " queries"]


@dataclass(frozen=True)
class Ruling:
    """What may be said of the answers of some queries."""

    order: Int[np.ndarray, "queries shown"]
    """Which of the candidates seen to show, the most probable first."""
    probability: Float[np.ndarray, "queries shown"]
    """That each of these is relevant."""
    confidence: Float[np.ndarray, " queries"]
    """That one of those shown is."""
    present: Float[np.ndarray, " queries"]
    """That the gallery holds anything relevant, were that as likely as not."""
    verdicts: list[Verdict]
    promise: Promise
    doubts: list[str] = field(default_factory=list)
    odd: Float[np.ndarray, " queries"] | None = None
    """Share of what is seen that lies outside everything the policy was fitted on."""


@dataclass(frozen=True, eq=False)  # arrays have no hash, and promises are remembered
class Policy:
    """Fitted probabilities, the answers they were checked with, and what they are for."""

    conditions: Conditions
    probability: Probability
    present: Probability
    refuse: tuple[float, ...]
    """Where to refuse, in log-odds of `present`: by size of the gallery and words asked."""
    held: Held
    answer: tuple[tuple[float, float], ...]
    """Per number shown, slope and offset from `one_of` to a probability, in log-odds.

    As many as the galleries it was fitted on could show.
    """
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    """The range of each number that describes a first hit, extremes left out."""

    @cached_property
    def default_risk(self) -> float:
        """The lowest risk at which at least half of the held answers may be given."""
        for risk in RISKS:
            if self.promised(risk, SHOWN).coverage >= 0.5:
                return risk
        return RISKS[-1]

    def promised(self, risk: float, among: int, delta: float = DELTA) -> Promise:
        """The promise that one of `among` hits is relevant in all but `risk` of the answers."""
        return _promised(self, risk, min(among, len(self.answer)), delta)

    def judge(
        self,
        sight: Sight,
        words: Int[np.ndarray, " queries"],
        *,
        shown: int = SHOWN,
        risk: float | None = None,
        delta: float = DELTA,
        model: str | None = None,
        style: str | None = None,
    ) -> Ruling:
        """Probabilities and verdicts for what a search has seen of its answers."""
        features = described(describe(sight).numpy(), words)
        if features.shape[-1] != len(self.probability.names):
            raise WrongTrust(
                f"The policy reads {len(self.probability.names)} numbers per hit and the "
                f"search gives {features.shape[-1]}. Expected the same bank of reference "
                "queries (or none) as when it was fitted; calibrate again."
            )
        sizes = sight.gallery.numpy()
        doubts = self.conditions.doubts(int(sizes.max()), model=model, style=style)
        if any(doubt.startswith("fitted for model") for doubt in doubts):
            raise WrongTrust(
                f"The policy was {doubts[0]}. Expected the model it was fitted with; "
                "calibrate with `avow calibrate`."
            )
        stated = state(self.probability, features, sizes)
        order = np.argsort(-stated, axis=1, kind="stable")[:, :shown]
        stated = np.take_along_axis(stated, order, axis=1)
        kept = min(stated.shape[1], len(self.answer))
        there = self.present(features[:, 0], sizes)
        chosen = self.promised(self.default_risk if risk is None else risk, kept, delta)
        score = one_of(stated[:, :kept])
        return Ruling(
            order,
            stated,
            self._answered(score, kept),
            there,
            self._verdicts(chosen.answers(score), there, sizes, words),
            chosen,
            doubts,
            self._odd(features[:, 0]),
        )

    def _verdicts(
        self,
        answered: Bool[np.ndarray, " queries"],
        there: Float[np.ndarray, " queries"],
        sizes: Int[np.ndarray, " queries"],
        words: Int[np.ndarray, " queries"],
    ) -> list[Verdict]:
        refused = log_odds(there) < kind_of(sizes, words) @ self._bounds[0]
        return [
            "nothing found" if low else "answer" if yes else "check"
            for yes, low in zip(answered, refused, strict=True)
        ]

    def _answered(
        self, score: Float[np.ndarray, " queries"], kept: int
    ) -> Float[np.ndarray, " queries"]:
        slope, offset = self.answer[kept - 1]
        return 1 / (1 + np.exp(-(slope * log_odds(score) + offset)))

    def _odd(
        self, first: Float[np.ndarray, "queries features"]
    ) -> Float[np.ndarray, " queries"]:
        _, lowest, highest = self._bounds
        return ((first < lowest) | (first > highest)).mean(1)

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`refuse`, `lowest` and `highest` as arrays, made once."""
        return np.array(self.refuse), np.array(self.lowest), np.array(self.highest)

    @staticmethod
    def is_odd(share: float) -> bool:
        """Whether a query is unlike everything the policy was fitted on."""
        return bool(share > _ODD)

    def save(self, path: str | Path) -> None:
        """One JSON file of plain numbers."""
        content = {
            "format": FORMAT,
            "conditions": asdict(self.conditions),
            "probability": self.probability.to_dict(),
            "present": self.present.to_dict(),
            "refuse": self.refuse,
            "answer": self.answer,
            "lowest": self.lowest,
            "highest": self.highest,
            "held": {
                "stated": np.round(self.held.stated, 4).tolist(),
                "relevant": self.held.relevant.astype(int).tolist(),
                "groups": self.held.groups.tolist(),
            },
        }
        write_text(Path(path), json.dumps(content))

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise ValueError("another format")
            held = content["held"]
            return cls(
                Conditions(**content["conditions"]),
                Probability.from_dict(content["probability"]),
                Probability.from_dict(content["present"]),
                tuple(map(float, content["refuse"])),
                Held(
                    np.array(held["stated"], float),
                    np.array(held["relevant"], bool),
                    np.array(held["groups"], int),
                ),
                tuple((float(slope), float(offset)) for slope, offset in content["answer"]),
                tuple(map(float, content["lowest"])),
                tuple(map(float, content["highest"])),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WrongTrust(
                f"The policy {str(path)!r} cannot be read ({error}). Expected a file written "
                "by `Policy.save`; calibrate again with `avow calibrate`."
            ) from error


def described(
    features: Float[np.ndarray, "queries shown features"], words: Int[np.ndarray, " queries"]
) -> Float[np.ndarray, "queries shown more"]:
    """What is seen of hits, and of what kind the query is.

    A short query has many relevant pictures, so the same sight of it means something else:
    beside the number of words stand its products with how far the first hits stand out.
    """
    length = np.log1p(words.astype(np.float32))[:, None, None]
    wide = np.broadcast_to(length, (*features.shape[:2], 1))
    return np.concatenate([features, wide, features * length], axis=2, dtype=np.float32)


def kind_of(
    sizes: Int[np.ndarray, " queries"], words: Num[np.ndarray, " queries"]
) -> Float[np.ndarray, "queries 4"]:
    """Size of the gallery and number of words, as a plane can be laid through."""
    size, length = np.log(sizes) - 5, np.log1p(words) - 1.5
    return np.stack([np.ones(len(size)), size, length, size * length], 1)


def log_odds(share: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    inside = np.clip(share, _LEAST, 1 - _LEAST)
    return np.log(inside / (1 - inside))


@lru_cache(maxsize=512)
def _promised(policy: Policy, risk: float, among: int, delta: float) -> Promise:
    held = policy.held
    return promise(
        one_of(held.stated[:, :among]),
        np.logical_not(held.relevant[:, :among].any(axis=1)),
        risk,
        delta,
        event=f"none of {among} hits is relevant" if among > 1 else "the hit is not relevant",
        groups=held.groups,
        starts=3,  # one early mistake among the surest must not end everything
    )
