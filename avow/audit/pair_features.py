"""How a pair stands among its rivals: everything an audit looks at, from scores alone.

The caption asks which image it belongs to and the image asks for its captions. A right pair
stands out both ways, its views agree on it, and the other captions of the image like the
same images as it does. The same questions can be put to a pair that nobody made, which is
how an audit learns what wrong pairs look like.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.core.evidence import top_positions

Places = Int[np.ndarray, " pairs"]
"""Of the image or of the caption of every pair."""
Scores = Float[np.ndarray, "queries candidates"]
NOBODY = -1
_AT_ONCE = 512  # pairs whose whole row or column is looked at together
_NEAREST = 24  # candidates kept of each query: more than an image has captions
_SMALL = 1e-12


@dataclass(frozen=True)
class Pairs:
    """Captions, each with the image it is said to belong to; places in one score matrix."""

    text: Places
    image: Places
    siblings: Int[np.ndarray, "pairs some"]
    """The other captions said to belong to that image; no rivals. Padded with -1."""
    hidden_texts: Int[np.ndarray, "pairs others"]
    """Captions that are taken to be absent. Padded with -1."""
    hidden_images: Int[np.ndarray, "pairs few"]
    """Images that are taken to be absent. Padded with -1."""

    def __len__(self) -> int:
        return len(self.text)


def given_pairs(image_of: Int[np.ndarray, " texts"]) -> Pairs:
    """The pairs as the dataset has them."""
    families = _families(image_of)
    text = np.arange(len(image_of))
    image = np.asarray(image_of, np.int64)
    return Pairs(
        text, image, _without(families[image], text), _nobody(len(text)), _nobody(len(text))
    )


def made_up_pairs(
    image_of: Int[np.ndarray, " texts"], seed: int, together: bool = False
) -> Pairs:
    """Every caption with an image that is not its own.

    The caption goes astray alone, or `together` with all captions of its image. What belongs
    to either may be among the rivals or, for every other pair, absent from the data.
    """
    rng = np.random.default_rng(seed)
    families = _families(image_of)
    text = np.arange(len(image_of))
    own = np.asarray(image_of, np.int64)
    shift = rng.integers(1, len(families), len(text))
    image = (own + shift) % len(families)
    absent = rng.random(len(text)) < 0.5
    moved, stayed = _without(families[own], text), families[image]
    siblings = moved if together else stayed
    hides = absent[:, None] & together
    hidden = np.where(hides, stayed, NOBODY)
    images = np.where(absent, own, NOBODY)
    return Pairs(text, image, siblings, hidden, images[:, None])


@dataclass(frozen=True)
class PairFeatures:
    """One number per pair and question."""

    measures: dict[str, Float[np.ndarray, " pairs"]]

    def table(self) -> Float[np.ndarray, "pairs measures"]:
        return np.stack(list(self.measures.values()), 1).astype(np.float32)

    def some(self, pairs: Bool[np.ndarray, " pairs"]) -> "PairFeatures":
        return PairFeatures({name: value[pairs] for name, value in self.measures.items()})


FALLING = frozenset(
    "similarity,share of image,share of text,lead of image,lead of text,"
    "unusual for image,unusual for text,weaker view".split(",")
)
"""The more of these, the less suspect, whatever else is known."""
RISING = frozenset({"rank of image", "rank of text"})


def standing(
    views: Sequence[Float[np.ndarray, "images texts"]], pairs: Pairs, tau: float
) -> PairFeatures:
    """Every question about every pair, by the views together; and whether they agree."""
    together = np.asarray(np.mean(views, 0, dtype=np.float32))
    features = _stand(together, pairs, tau)
    features |= _beside_siblings(together, pairs, features.pop("usual evidence"), tau)
    if len(views) > 1:
        both = np.stack([_both_ways(view, pairs, tau) for view in views])
        features["weaker view"] = both.min(0)
        features["views apart"] = both.max(0) - both.min(0)
    return PairFeatures(features)


def _both_ways(
    scores: Float[np.ndarray, "images texts"], pairs: Pairs, tau: float
) -> Float[np.ndarray, " pairs"]:
    shares = _shares(scores, pairs, tau)
    return shares["share of image"] + shares["share of text"]


def _shares(
    scores: Float[np.ndarray, "images texts"], pairs: Pairs, tau: float
) -> dict[str, Float[np.ndarray, " pairs"]]:
    """Logarithm of the pair's part of the evidence, among the rivals of either side."""
    own = scores[pairs.image, pairs.text].astype(np.float64) / tau
    of_text = _evidence(scores.T, tau)
    of_image = _evidence(scores, tau)
    absent = _at(scores.T, pairs.text, pairs.hidden_images, tau)
    among_images = of_text[pairs.text] - np.exp(absent).sum(1)
    excluded = np.concatenate([pairs.siblings, pairs.hidden_texts], 1)
    others = np.exp(_at(scores, pairs.image, excluded, tau)).sum(1)
    among_texts = of_image[pairs.image] - others
    return {
        "share of image": np.minimum(own - np.log(np.maximum(among_images, _SMALL)), 0),
        "share of text": np.minimum(own - np.log(np.maximum(among_texts, _SMALL)), 0),
        "usual evidence": np.log(of_text),
    }


def _stand(
    scores: Float[np.ndarray, "images texts"], pairs: Pairs, tau: float
) -> dict[str, Float[np.ndarray, " pairs"]]:
    features = {"similarity": scores[pairs.image, pairs.text].astype(np.float64)}
    features |= _shares(scores, pairs, tau)
    excluded = np.concatenate([pairs.siblings, pairs.hidden_texts], 1)
    sides = {
        "image": (scores.T, pairs.text, pairs.image, pairs.hidden_images),
        "text": (scores, pairs.image, pairs.text, excluded),
    }
    for name, (table, query, answer, absent) in sides.items():
        own = features["similarity"]
        above, best = _rivals(table, query, answer, absent)
        features[f"rank of {name}"] = np.log1p(above.astype(np.float64))
        features[f"lead of {name}"] = own - best
        spread = np.maximum(_spread(table), _SMALL)
        features[f"unusual for {name}"] = (
            own - table.mean(1, dtype=np.float64)[query]
        ) / spread[query]
    return features


def _rivals(
    table: Scores,
    query: Places,
    answer: Places,
    absent: Int[np.ndarray, "pairs some"],
) -> tuple[Places, Float[np.ndarray, " pairs"]]:
    """How many rivals score at least as much as the answer, and the score of the best."""
    above, best = np.empty(len(query), np.int64), np.empty(len(query))
    for start in range(0, len(query), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        rows = table[query[part]]
        own = np.take_along_axis(rows, answer[part, None], 1)
        gone = np.concatenate([absent[part], answer[part, None]], 1)
        there = gone >= 0
        held = np.take_along_axis(rows, np.maximum(gone, 0), 1) >= own
        above[part] = (rows >= own).sum(1) - (held & there).sum(1)
        top = top_positions(rows, min(_NEAREST, rows.shape[1]))
        values = np.take_along_axis(rows, top, 1)
        taken = (top[:, :, None] == gone[:, None]).any(2)
        left = np.where(taken, -np.inf, values).max(1)
        best[part] = np.where(np.isfinite(left), left, values[:, -1])
    return above, best


def _spread(table: Scores) -> Float[np.ndarray, " queries"]:
    """Standard deviation of every row; not defined, and 0 here, for a single candidate."""
    return (
        table.std(1, ddof=1, dtype=np.float64) if table.shape[1] > 1 else np.zeros(len(table))
    )


def _beside_siblings(
    scores: Float[np.ndarray, "images texts"],
    pairs: Pairs,
    usual: Float[np.ndarray, " texts"],
    tau: float,
) -> dict[str, Float[np.ndarray, " pairs"]]:
    """Whether the image suits its other captions, and whether they like what this one likes."""
    there = pairs.siblings >= 0
    count = np.maximum(there.sum(1), 1)
    place = np.maximum(pairs.siblings, 0)
    share = scores[pairs.image[:, None], place].astype(np.float64) / tau - usual[place]
    rows = np.ascontiguousarray(scores.T)  # sums along memory round less
    centred = rows - rows.mean(1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    taste = centred / np.maximum(norms, np.float32(_SMALL))
    alike = np.empty(place.shape, np.float32)
    for start in range(0, len(pairs), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        others = taste[place[part]]
        alike[part] = (others @ taste[pairs.text[part], :, None])[..., 0]
    return {
        "share of siblings": (share * there).sum(1) / count,
        "like its siblings": (alike * there).sum(1, dtype=np.float64) / count,
    }


def _evidence(table: Scores, tau: float) -> Float[np.ndarray, " queries"]:
    """The summed evidence of every query, exact enough that rivals can be taken away."""
    out = np.empty(len(table))
    for start in range(0, len(table), _AT_ONCE):
        block = table[start : start + _AT_ONCE].astype(np.float64)
        out[start : start + _AT_ONCE] = np.exp(block / tau).sum(1)
    return out


def _at(
    table: Scores,
    query: Places,
    places: Int[np.ndarray, "pairs some"],
    tau: float,
) -> Float[np.ndarray, "pairs some"]:
    """Log-evidence at some places; minus infinity where there is nobody."""
    values = table[query[:, None], np.maximum(places, 0)].astype(np.float64) / tau
    return np.where(places < 0, -np.inf, values)


def _families(image_of: Int[np.ndarray, " texts"]) -> Int[np.ndarray, "images most"]:
    """The captions of every image, padded."""
    counts = np.bincount(image_of)
    out = np.full((len(counts), int(counts.max())), NOBODY, np.int64)
    order = np.argsort(image_of, kind="stable")
    owner = np.asarray(image_of)[order]
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    out[owner, np.arange(len(order)) - first[owner]] = order
    return out


def _without(
    families: Int[np.ndarray, "pairs most"], text: Places
) -> Int[np.ndarray, "pairs most"]:
    return np.where(families == text[:, None], NOBODY, families)


def _nobody(count: int) -> Int[np.ndarray, "pairs 1"]:
    return np.full((count, 1), NOBODY)
