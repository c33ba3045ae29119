"""A shortlist by one vector per item, looked through by a method that compares parts.

    pooled vectors, every pair  -->  the k best of every query  -->  scored part by part

Only the pairs of the shortlists are scored. What is not on a query's shortlist stays behind
it in the order of the vectors, so every query has a rank, and what the shortlists lose can
be measured by ranking every pair as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from avow.assembly.scores import Blocks, Precision, from_vectors, in_kind, multiplying
from avow.core.contracts import Encoded, Method
from avow.metrics.recall import Ranks, match_ranks, ranks

_BLOCK = {"cpu": 64 * 2**20}
_BLOCK_ELSEWHERE = 2**30
_COPIES = 4  # of the parts of a pair that are alive at once


@dataclass(frozen=True)
class Items:
    """A split as one view encodes it."""

    view: Method
    visual: Encoded
    text: Encoded


@dataclass(frozen=True)
class Reranked:
    """Ranks after both stages, and how many pairs the second one scored."""

    ranks: Ranks
    pairs: int


@torch.no_grad()
def pooled_scores(every: Sequence[Items], blocks: Blocks) -> Float[np.ndarray, "images texts"]:
    """The mean over views of the product of pooled vectors."""
    images = torch.cat([items.view.pooled(items.visual).float() for items in every], 1)
    texts = torch.cat([items.view.pooled(items.text).float() for items in every], 1)
    share = len(every) ** -0.5
    return from_vectors((images * share).numpy(), (texts * share).numpy(), blocks)


def rerank(
    every: Sequence[Items],
    near: Float[np.ndarray, "images texts"],
    image_of: Int[np.ndarray, " texts"],
    k: int,
    device: torch.device | str,
    precision: Precision = "fp32",
) -> Reranked:
    """Look through the `k` best of every query by `near`, both ways."""
    images, texts = near.shape
    for_image, for_text = _best(near, k), _best(near.T, k)
    rows = np.concatenate([np.repeat(np.arange(images), for_image.shape[1]), for_text.ravel()])
    columns = np.concatenate(
        [for_image.ravel(), np.repeat(np.arange(texts), for_text.shape[1])]
    )
    pairs, place = np.unique(rows * texts + columns, return_inverse=True)
    scores = np.mean(
        [
            pair_scores(items, pairs // texts, pairs % texts, device, precision)
            for items in every
        ],
        axis=0,
    )[place]
    cut = for_image.size
    before = ranks([near], image_of)
    own = image_of[for_image] == np.arange(images)[:, None]
    to_text = _ranks(scores[:cut].reshape(for_image.shape), own, before.image_to_text)
    own = for_text == image_of[:, None]
    to_image = _ranks(scores[cut:].reshape(for_text.shape), own, before.text_to_image)
    return Reranked(Ranks(to_text, to_image), len(pairs))


@torch.no_grad()
def pair_scores(
    items: Items,
    rows: Int[np.ndarray, " pairs"],
    columns: Int[np.ndarray, " pairs"],
    device: torch.device | str,
    precision: Precision = "fp32",
) -> Float[np.ndarray, " pairs"]:
    """The similarity of each chosen image and text; no other pair is compared."""
    view = items.view.eval()
    visual, text = items.visual.to(device), items.text.to(device)
    if precision == "bf16" and view.takes_bf16:
        visual, text = (in_kind(side, torch.bfloat16) for side in (visual, text))
    place = torch.arange(1, text.present.shape[1] + 1, device=text.present.device)
    lengths = (text.present * place).amax(1).cpu().numpy()
    order = lengths[columns].argsort(kind="stable")
    all_scores = np.empty(len(rows), np.float32)
    start = 0
    with multiplying(precision):
        while start < len(order):
            chosen = order[start : start + _at_once(visual, text)]
            # sorted by length: the last is the longest
            longest = int(lengths[columns[chosen[-1]]])
            one = visual.rows(torch.from_numpy(rows[chosen]).to(visual.parts.device))
            other = text.rows(torch.from_numpy(columns[chosen]).to(text.parts.device))
            scores = view.pair_similarity(one, other.resized(longest))
            all_scores[chosen] = scores.float().cpu().numpy()
            start += len(chosen)
    return all_scores


def _at_once(visual: Encoded, text: Encoded) -> int:
    """How many pairs are compared together."""
    most = _BLOCK.get(visual.parts.device.type, _BLOCK_ELSEWHERE)
    each = visual.parts[0].numel() + text.parts[0].numel()
    return max(1, most // (_COPIES * each * visual.parts.element_size()))


def _best(near: Float[np.ndarray, "queries items"], k: int) -> Int[np.ndarray, "queries k"]:
    """The k items with the highest scores, in no order."""
    k = min(k, near.shape[1])
    blocks = np.array_split(near, max(1, near.size // 2**24))
    return np.concatenate([np.argpartition(-part, k - 1, axis=1)[:, :k] for part in blocks])


def _ranks(
    scores: Float[np.ndarray, "queries k"],
    own: Bool[np.ndarray, "queries k"],
    before: Int[np.ndarray, " queries"],
) -> Int[np.ndarray, " queries"]:
    """Among the shortlist where a match is on it, otherwise where the vectors had it."""
    return np.where(own.any(1), match_ranks(scores, own), before)
