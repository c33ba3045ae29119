"""How a pair stands among its rivals: everything an audit looks at, from scores alone.

The caption asks which image it belongs to and the image asks for its captions. A right pair
stands out both ways, its views agree on it, and the other captions of the image like the
same images as it does. The same questions can be put to a pair that nobody made, which is
how an audit learns what wrong pairs look like.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

NOBODY = -1
_AT_ONCE = 512  # pairs whose whole row or column is looked at together
_NEAREST = 24  # candidates kept of each query: more than an image has captions
_SMALL = 1e-12


@dataclass(frozen=True)
class Pairs:
    """Captions, each with the image it is said to belong to; places in one score matrix."""

    text: Int[Tensor, " pairs"]
    image: Int[Tensor, " pairs"]
    siblings: Int[Tensor, "pairs some"]
    """The other captions said to belong to that image; no rivals. Padded with -1."""
    hidden_texts: Int[Tensor, "pairs others"]
    """Captions that are taken to be absent. Padded with -1."""
    hidden_images: Int[Tensor, "pairs few"]
    """Images that are taken to be absent. Padded with -1."""

    def __len__(self) -> int:
        return len(self.text)


def given_pairs(image_of: Int[np.ndarray, " texts"]) -> Pairs:
    """The pairs as the dataset has them."""
    families = _families(image_of)
    text = torch.arange(len(image_of))
    image = torch.from_numpy(np.asarray(image_of, np.int64))
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
    text = torch.arange(len(image_of))
    own = torch.from_numpy(np.asarray(image_of, np.int64))
    shift = rng.integers(1, len(families), len(text))
    image = (own + torch.from_numpy(shift)) % len(families)
    absent = torch.from_numpy(rng.random(len(text)) < 0.5)
    moved, stayed = _without(families[own], text), families[image]
    siblings = moved if together else stayed
    hides = absent[:, None] & together
    hidden = torch.where(hides, stayed, torch.full_like(stayed, NOBODY))
    images = torch.where(absent, own, torch.full_like(own, NOBODY))
    return Pairs(text, image, siblings, hidden, images[:, None])


@dataclass(frozen=True)
class Standing:
    """One number per pair and question."""

    measures: dict[str, Float[Tensor, " pairs"]]

    def table(self) -> Float[np.ndarray, "pairs measures"]:
        return torch.stack(list(self.measures.values()), 1).float().numpy()

    def some(self, pairs: Bool[np.ndarray, " pairs"]) -> "Standing":
        chosen = torch.from_numpy(pairs)
        return Standing({name: value[chosen] for name, value in self.measures.items()})


FALLING = frozenset(
    "similarity,share of image,share of text,lead of image,lead of text,"
    "unusual for image,unusual for text,weaker view".split(",")
)
"""The more of these, the less suspect, whatever else is known."""
RISING = frozenset({"rank of image", "rank of text"})


def standing(
    views: Sequence[Float[np.ndarray, "images texts"]], pairs: Pairs, tau: float
) -> Standing:
    """Every question about every pair, by the views together; and whether they agree."""
    together = torch.from_numpy(np.mean(views, 0, dtype=np.float32))
    found = _stand(together, pairs, tau)
    found |= _beside_siblings(together, pairs, found.pop("usual evidence"), tau)
    if len(views) > 1:
        both = torch.stack([_both_ways(torch.from_numpy(v), pairs, tau) for v in views])
        found["weaker view"] = both.amin(0)
        found["views apart"] = both.amax(0) - both.amin(0)
    return Standing(found)


def _both_ways(
    scores: Float[Tensor, "images texts"], pairs: Pairs, tau: float
) -> Float[Tensor, " pairs"]:
    found = _shares(scores, pairs, tau)
    return found["share of image"] + found["share of text"]


def _shares(
    scores: Float[Tensor, "images texts"], pairs: Pairs, tau: float
) -> dict[str, Float[Tensor, " pairs"]]:
    """Logarithm of the pair's part of the evidence, among the rivals of either side."""
    own = scores[pairs.image, pairs.text].double() / tau
    of_text = _evidence(scores.T, tau)
    of_image = _evidence(scores, tau)
    absent = _at(scores.T, pairs.text, pairs.hidden_images, tau)
    among_images = of_text[pairs.text] - absent.exp().sum(1)
    excluded = torch.cat([pairs.siblings, pairs.hidden_texts], 1)
    others = _at(scores, pairs.image, excluded, tau).exp().sum(1)
    among_texts = of_image[pairs.image] - others
    return {
        "share of image": (own - among_images.clamp(min=_SMALL).log()).clamp(max=0),
        "share of text": (own - among_texts.clamp(min=_SMALL).log()).clamp(max=0),
        "usual evidence": of_text.log(),
    }


def _stand(
    scores: Float[Tensor, "images texts"], pairs: Pairs, tau: float
) -> dict[str, Float[Tensor, " pairs"]]:
    found = {"similarity": scores[pairs.image, pairs.text].double()}
    found |= _shares(scores, pairs, tau)
    excluded = torch.cat([pairs.siblings, pairs.hidden_texts], 1)
    sides = {
        "image": (scores.T, pairs.text, pairs.image, pairs.hidden_images),
        "text": (scores, pairs.image, pairs.text, excluded),
    }
    for name, (table, query, answer, absent) in sides.items():
        own = found["similarity"]
        above, best = _rivals(table, query, answer, absent)
        found[f"rank of {name}"] = above.double().log1p()
        found[f"lead of {name}"] = own - best
        mean, spread = table.mean(1)[query], table.std(1).clamp(min=_SMALL)[query]
        found[f"unusual for {name}"] = (own - mean) / spread
    return found


def _rivals(
    table: Float[Tensor, "queries candidates"],
    query: Int[Tensor, " pairs"],
    answer: Int[Tensor, " pairs"],
    absent: Int[Tensor, "pairs some"],
) -> tuple[Int[Tensor, " pairs"], Float[Tensor, " pairs"]]:
    """How many rivals score at least as much as the answer, and the score of the best."""
    above, best = [], []
    for part in torch.arange(len(query)).split(_AT_ONCE):
        rows = table[query[part]]
        own = rows.gather(1, answer[part, None])
        gone = torch.cat([absent[part], answer[part, None]], 1)
        there = gone >= 0
        held = rows.gather(1, gone.clamp(min=0)) >= own
        above.append((rows >= own).sum(1) - (held & there).sum(1))
        top = rows.topk(min(_NEAREST, rows.shape[1]), 1)
        taken = (top.indices[:, :, None] == gone[:, None]).any(2)
        left = top.values.masked_fill(taken, -torch.inf).amax(1)
        best.append(torch.where(left.isfinite(), left, top.values[:, -1]))
    return torch.cat(above), torch.cat(best).double()


def _beside_siblings(
    scores: Float[Tensor, "images texts"],
    pairs: Pairs,
    usual: Float[Tensor, " texts"],
    tau: float,
) -> dict[str, Float[Tensor, " pairs"]]:
    """Whether the image suits its other captions, and whether they like what this one likes."""
    there = pairs.siblings >= 0
    count = there.sum(1).clamp(min=1)
    place = pairs.siblings.clamp(min=0)
    share = scores[pairs.image[:, None], place].double() / tau - usual[place]
    centred = scores.T - scores.T.mean(1, keepdim=True)
    taste = centred / centred.norm(dim=1, keepdim=True).clamp(min=_SMALL)
    alike = [
        (taste[pairs.text[part], None] * taste[place[part]]).sum(-1)
        for part in torch.arange(len(pairs)).split(_AT_ONCE)
    ]
    return {
        "share of siblings": (share * there).sum(1) / count,
        "like its siblings": (torch.cat(alike) * there).sum(1).double() / count,
    }


def _evidence(table: Float[Tensor, "queries candidates"], tau: float) -> Tensor:
    """The summed evidence of every query, exact enough that rivals can be taken away."""
    parts = [(block.double() / tau).exp().sum(1) for block in table.split(_AT_ONCE)]
    return torch.cat(parts)


def _at(
    table: Float[Tensor, "queries candidates"],
    query: Int[Tensor, " pairs"],
    places: Int[Tensor, "pairs some"],
    tau: float,
) -> Float[Tensor, "pairs some"]:
    """Log-evidence at some places; minus infinity where there is nobody."""
    found = table[query[:, None], places.clamp(min=0)].double() / tau
    return found.masked_fill(places < 0, -torch.inf)


def _families(image_of: Int[np.ndarray, " texts"]) -> Int[Tensor, "images most"]:
    """The captions of every image, padded."""
    counts = np.bincount(image_of)
    out = np.full((len(counts), int(counts.max())), NOBODY, np.int64)
    order = np.argsort(image_of, kind="stable")
    owner = np.asarray(image_of)[order]
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    out[owner, np.arange(len(order)) - first[owner]] = order
    return torch.from_numpy(out)


def _without(
    families: Int[Tensor, "pairs most"], text: Int[Tensor, " pairs"]
) -> Int[Tensor, "pairs most"]:
    return families.masked_fill(families == text[:, None], NOBODY)


def _nobody(count: int) -> Int[Tensor, "pairs 1"]:
    return torch.full((count, 1), NOBODY)
