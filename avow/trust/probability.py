"""From what is seen of an answer to the probability that it is right, or relevant.

A logistic model over a few numbers per hit (`top_k.describe`), each also multiplied by the
logarithm of the gallery size: one fit then serves galleries of twenty and of a hundred
thousand. It is fitted on held-out queries, never changes the ranking's encoder, and is
stored as plain numbers. What is known of the query itself, its length and how common its words
are, comes in by its products with those numbers (`of_query`).

Two events must never be mixed: *right* (the annotated match) and *relevant* (a person would
say that it fits). Each has a model of its own, which carries the event's name.
"""

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from avow.core.errors import BadData
from avow.core.groups import folds
from avow.core.logistic import expit, fit_logistic, logit
from avow.core.shapes import Bool, Float, Int, Num

STRENGTHS = (0.03, 0.3, 3.0)
_USUAL_LOG_SIZE, _LOG_SIZE_SCALE = 6.0, 2.0  # galleries of about 400 are the middle
_FOLDS = 5
LOG_WORDS, COMMON, ONE_WORD = "log words", "common", "one word"
NAME_WORDS = 2
"""The most words of a query that is a name, articles not counted."""

Features = Float[np.ndarray, "hits features"]


@dataclass(frozen=True)
class Probability:
    """A fitted model: numbers in, probability of `event` out."""

    event: str
    names: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    strength: float
    """Inverse of the penalty on the weights, chosen by cross-validation."""
    hits: int
    """How many hits it was fitted on."""

    def __call__(
        self, features: Features, gallery: int | Int[np.ndarray, " hits"]
    ) -> Float[np.ndarray, " hits"]:
        return expit(self.log_odds(features, gallery))

    def log_odds(
        self, features: Features, gallery: int | Int[np.ndarray, " hits"]
    ) -> Float[np.ndarray, " hits"]:
        # one product for what is multiplied by the size and what is not
        parts = features.astype(np.float64) @ self._slopes
        size = _log_size(gallery)
        once, twice = self._size_slopes
        return parts[:, 0] + size * (parts[:, 1] + once) + size**2 * twice + self._offset

    @cached_property
    def _straight(self) -> Float[np.ndarray, " wide"]:
        """Weights of the numbers as they come, neither centred nor scaled."""
        return np.array(self.weights) / np.array(self.scale)

    @cached_property
    def _slopes(self) -> Float[np.ndarray, "features 2"]:
        count = (len(self.weights) - 2) // 2
        return np.stack([self._straight[:count], self._straight[count : 2 * count]], 1)

    @cached_property
    def _size_slopes(self) -> tuple[float, float]:
        return float(self._straight[-2]), float(self._straight[-1])

    @cached_property
    def _offset(self) -> float:
        return self.bias - float(np.array(self.centre) @ self._straight)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Probability":
        """What `to_dict` gave; ValueError or TypeError where it can be no such model."""
        # numpy would make every number as long as a text in its place
        if not isinstance(content.get("bias"), int | float):
            raise ValueError("the bias of a probability is no number")
        lists: dict[str, Any] = {
            key: tuple(value) for key, value in content.items() if isinstance(value, list)
        }
        probability = cls(**(content | lists))
        numbers = np.array([probability.centre, probability.scale, probability.weights], float)
        if numbers.ndim != 2 or not np.isfinite([*numbers.flat, probability.bias]).all():
            raise ValueError("the numbers of a probability do not go together")
        if numbers.shape[1] != 2 * len(probability.names) + 2:
            raise ValueError("a probability has other numbers than names")
        return probability


@dataclass(frozen=True)
class Line:
    """Log-odds as one index's people see them: slope * log-odds + offset.

    Names ("a dog") and phrases have an offset more, each its own. The slope is positive, so
    what was more probable stays so; one line for hits and for "one of the first ten" keeps
    them in order as well.
    """

    slope: float = 1.0
    offset: float = 0.0
    names: float = 0.0
    phrases: float = 0.0

    def __post_init__(self) -> None:
        if not np.isfinite(astuple(self)).all() or self.slope <= 0:
            raise ValueError("a line has finite numbers and a positive slope")

    def __call__(
        self, stated: Float[np.ndarray, "queries ..."], words: Int[np.ndarray, " queries"]
    ) -> Float[np.ndarray, "queries ..."]:
        """Probabilities of queries with so many words, moved."""
        kind = np.where(is_name(words), self.names, self.phrases)
        kind = kind.reshape(-1, *(1 for _ in stated.shape[1:]))
        return expit(self.slope * logit(stated) + self.offset + kind)  # 0 and 1 stay


def is_name(words: Num[np.ndarray, " queries"]) -> Bool[np.ndarray, " queries"]:
    """Which queries are names rather than phrases, by their number of words."""
    return words <= NAME_WORDS


def named(first: Features, names: tuple[str, ...]) -> Bool[np.ndarray, " queries"]:
    """The same from the features of first hits, where the length is among them."""
    if LOG_WORDS not in names:
        return np.zeros(len(first), bool)
    return is_name(word_counts(first, names))


def word_counts(first: Features, names: tuple[str, ...]) -> Int[np.ndarray, " queries"]:
    """How many words queries have, from the features of first hits, which have the length."""
    return np.expm1(first[:, names.index(LOG_WORDS)]).round().astype(int)


def fit_probability(
    event: str,
    names: Sequence[str],
    features: Features,
    happened: Bool[np.ndarray, " hits"],
    gallery: int | Int[np.ndarray, " hits"],
    groups: Int[np.ndarray, " hits"],
    strengths: Sequence[float] = STRENGTHS,
    balanced: bool = False,
) -> Probability:
    """groups: hits of one group (one photograph) are never on both sides of a fold.

    balanced: as if what happened and what did not were equally common.
    """
    if happened.all() or not happened.any():
        raise BadData(
            f"All {len(happened)} answers are {'right' if happened.any() else 'wrong'}. "
            "Expected some of both, to learn the difference from; give more queries."
        )
    wide = _with_size(features, gallery)
    centre, scale = wide.mean(0), wide.std(0) + 1e-9
    ready = (wide - centre) / scale
    weight = _weights(happened, balanced)
    strength = _best_strength(ready, happened, groups, weight, strengths)
    fitted = fit_logistic(ready, happened, weight, strength)
    return Probability(
        event,
        tuple(names),
        tuple(centre.tolist()),
        tuple(scale.tolist()),
        tuple(fitted[:-1].tolist()),
        float(fitted[-1]),
        strength,
        len(happened),
    )


def _with_size(
    features: Features, gallery: int | Int[np.ndarray, " hits"]
) -> Float[np.ndarray, "hits wide"]:
    """The features, the features times the size of the gallery, and the size itself."""
    log_size = np.broadcast_to(_log_size(gallery), (len(features),))[:, None]
    return np.concatenate(
        [features, features * log_size, log_size, log_size**2], axis=1, dtype=np.float64
    )


def _log_size(
    gallery: int | Int[np.ndarray, " hits"],
) -> np.floating | Float[np.ndarray, " hits"]:
    return (np.log(np.asarray(gallery, np.float64)) - _USUAL_LOG_SIZE) / _LOG_SIZE_SCALE


def _weights(happened: Bool[np.ndarray, " hits"], balanced: bool) -> Float[np.ndarray, " hits"]:
    """How much each hit counts; both outcomes together the same where `balanced`."""
    share = happened.mean() if balanced else 0.5
    return np.where(happened, 0.5 / share, 0.5 / (1 - share))


def _best_strength(
    ready: np.ndarray,
    happened: np.ndarray,
    groups: np.ndarray,
    weight: np.ndarray,
    strengths: Sequence[float],
) -> float:
    count = min(_FOLDS, len(np.unique(groups)))
    if len(strengths) == 1 or count < 2:
        return float(strengths[0])
    losses = np.zeros(len(strengths))
    for fitted, held in folds(groups, count):
        if len(np.unique(happened[fitted])) < 2:
            continue
        against = np.where(happened[held], -1.0, 1.0)
        part = ready[fitted], happened[fitted], weight[fitted]
        coefficients = None
        for place, strength in enumerate(strengths):  # each begins where the last one ended
            coefficients = fit_logistic(*part, strength, start=coefficients)
            raw = ready[held] @ coefficients[:-1] + coefficients[-1]
            losses[place] += weight[held] @ np.logaddexp(0, against * raw)
    return float(strengths[int(losses.argmin())])


def with_words(
    features: Float[np.ndarray, "queries shown features"], words: Int[np.ndarray, " queries"]
) -> Float[np.ndarray, "queries shown more"]:
    """Append the logarithm of the query length, and its product with every feature.

    A short query has many relevant pictures, so the same features mean something else.
    """
    length = np.log1p(words.astype(np.float32))[:, None, None]
    wide = np.broadcast_to(length, (*features.shape[:2], 1))
    return np.concatenate([features, wide, features * length], axis=2, dtype=np.float32)


@lru_cache(maxsize=16)
def names_with_words(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the features of `with_words`."""
    return (*names, LOG_WORDS, *(f"{name} x {LOG_WORDS}" for name in names))


def of_query(
    names: tuple[str, ...],
    features: Float[np.ndarray, "queries shown features"],
    words: Int[np.ndarray, " queries"],
    common: Float[np.ndarray, " queries"] | None,
    wanted: Sequence[str] = (ONE_WORD,),
) -> tuple[tuple[str, ...], Float[np.ndarray, "queries shown more"]]:
    """Append what is known of the query itself, and its product with every feature.

    Hardly any picture stands out for what many show ("a dog", "man"), as none does for what is
    not there; the same features mean more where people name a thing often. One word alone
    fits far more pictures than two, so it is a column of its own. wanted: the names that a
    policy was fitted with, where that column may be missing.
    """
    wide = with_words(features, words)
    if common is None:
        return names_with_words(names), wide
    one_word = ONE_WORD in wanted
    kinds = [common.astype(np.float32)]
    if one_word:
        kinds.append((words == 1).astype(np.float32))
    columns = [wide]
    for values in kinds:
        column = values[:, None, None]
        columns += [np.broadcast_to(column, (*features.shape[:2], 1)), features * column]
    if one_word:
        both = (kinds[0] * kinds[1])[:, None, None]
        columns.append(np.broadcast_to(both, (*features.shape[:2], 1)))
    labels = names_of_query(names, one_word)
    return labels, np.concatenate(columns, axis=2, dtype=np.float32)


def given(
    words: Int[np.ndarray, " queries"] | None,
    common: Float[np.ndarray, " queries"] | None,
    wanted: Sequence[str],
) -> tuple[Int[np.ndarray, " queries"], Float[np.ndarray, " queries"] | None]:
    """What is known of the queries, as far as a policy wants it; BadData where that lacks."""
    if words is None:
        raise BadData(
            "The policy reads how many words a query has. Expected `words`, one "
            "number per query (0 for a photograph); pass it."
        )
    if COMMON in wanted and common is None:
        raise BadData(
            "The policy reads how common a query is. Expected `common`, one number "
            "per query; pass what `avow.retrieval.commonness` gives."
        )
    return words, common if COMMON in wanted else None


@lru_cache(maxsize=16)
def names_of_query(names: tuple[str, ...], one_word: bool) -> tuple[str, ...]:
    """Names of the features of `of_query`, where `common` is among them."""
    labels = list(names_with_words(names))
    for label in (COMMON, ONE_WORD) if one_word else (COMMON,):
        labels += [label, *(f"{name} x {label}" for name in names)]
    return (*labels, f"{COMMON} x {ONE_WORD}") if one_word else tuple(labels)


def kind_of(
    sizes: Int[np.ndarray, " queries"], words: Num[np.ndarray, " queries"]
) -> Float[np.ndarray, "queries 4"]:
    """What the refusal threshold is linear in: log gallery size, log query length."""
    size, length = np.log(sizes) - 5, np.log1p(words) - 1.5
    return np.stack([np.ones(len(size)), size, length, size * length], 1)
