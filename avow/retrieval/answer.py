"""What a search gives back, in one shape for the command line, the page and programs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from jaxtyping import Float
from numpy import ndarray

Verdict = Literal["answer", "check", "nothing_found", "unjudged"]
ALIKE = 0.85
"""Answers with at least this share of the first one's probability fit as well as it."""
_NUMBERS = "No One Two Three Four Five Six Seven Eight Nine Ten Eleven Twelve".split()


@dataclass(frozen=True)
class Hit:
    """One item of the index that a search shows, with its probability.

    >>> hit = avow.open("my-index").search("a cat").hits[0]
    >>> hit.rank, hit.kind, 0.5 < hit.p_relevant <= 1
    (1, 'image', True)
    """

    rank: int
    path: str
    p_relevant: float | None
    """Probability that a person would say it fits; None where nothing is calibrated."""
    similarity: float
    id: int
    kind: str = "image"
    text: str | None = None
    width: int | None = None
    height: int | None = None
    taken: str | None = None
    tags: tuple[str, ...] = ()
    """The first ones."""
    tags_total: int = 0
    """How many there are."""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "tags": list(self.tags)}


@dataclass(frozen=True)
class Uncertainty:
    """u = K / S, which means nothing without K, tau and the evidence function."""

    u: float | None
    K: int
    tau: float
    evidence: str


@dataclass(frozen=True)
class SearchResult:
    """The hits of a search, its verdict, and how far they can be trusted.

    >>> result = avow.open("my-index").search("a cat")
    >>> result.verdict in ("answer", "check")
    True
    >>> absent = avow.open("my-index").search("a submarine under the ice")
    >>> absent.verdict, len(absent.hits)
    ('nothing_found', 0)
    """

    query: dict[str, Any]
    verdict: Verdict
    trust: float | None
    """Probability that the answer is good; None where nothing is calibrated."""
    uncertainty: Uncertainty
    why: str
    hits: tuple[Hit, ...] = ()
    near_misses: tuple[Hit, ...] = ()
    """What would have been shown, where nothing was found."""
    seconds: dict[str, float] = field(default_factory=dict, compare=False)
    """How long encoding, ranking and judging took; not part of the answer."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "verdict": self.verdict,
            "trust": self.trust,
            "uncertainty": asdict(self.uncertainty),
            "why": self.why,
            "hits": [hit.to_dict() for hit in self.hits],
            "near_misses": [hit.to_dict() for hit in self.near_misses],
        }


def in_words(
    verdict: Verdict,
    probability: Float[ndarray, " shown"],
    noun: str,
    odd: bool = False,
    doubts: Sequence[str] = (),
) -> str:
    """Why the verdict is what it is, from what was measured.

    noun: what was looked for. odd: whether the query is unlike those of the calibration.
    """
    parts = []
    if verdict == "nothing_found":
        parts.append(
            "Nothing here looks like this: the best match fits no better than for unrelated "
            "queries."
        )
    else:
        parts.append(_standing(probability, noun))
        if verdict == "check":
            parts.append("That is not sure enough to promise, so look before you rely on it.")
    if odd:
        parts.append("Unlike anything this model was calibrated on.")
    if doubts:
        parts.append(f"Careful: {'; '.join(doubts)}.")
    return " ".join(parts)


def _standing(probability: Float[ndarray, " shown"], noun: str) -> str:
    """How many of the answers fit as well as the first one."""
    first = float(probability[0])
    alike = int((probability >= ALIKE * first).sum())
    share = f"{100 * first:.0f} %"
    if first < 0.5:
        return f"The best {noun} fits with a probability of {share} only."
    if alike == 1:
        return f"One {noun} stands out."
    return f"{_count(alike)} {noun}s fit equally well."


def _count(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)
