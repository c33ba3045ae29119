"""What every probe begins with: the first answer, its nearest rivals, and what it needs."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from avow.core.errors import BadData

Measures = dict[str, Float[Tensor, " queries"]]
_AT_ONCE = 2**23  # scores; beyond it a probe looks at some queries after the others

T = TypeVar("T")


def first(similarity: Float[Tensor, "queries candidates"]) -> Int[Tensor, " queries"]:
    """The best candidate of every query."""
    return similarity.argmax(-1)


def nearest(
    similarity: Float[Tensor, "queries candidates"], most: int
) -> Int[Tensor, "queries near"]:
    """The `most` best candidates of every query, best first; all where there are fewer."""
    return similarity.topk(min(most, similarity.shape[-1])).indices


def tensor(values: Float[np.ndarray, "*shape"]) -> Float[Tensor, "*shape"]:
    """An array as a tensor, without a copy where its memory layout allows."""
    return torch.from_numpy(np.ascontiguousarray(values))


def in_blocks(
    similarity: Float[np.ndarray, "views queries candidates"],
    look: Callable[[Float[Tensor, "views some candidates"]], Measures],
) -> Measures:
    """The measures of all queries, taken from so many at once that memory stays small."""
    rows = max(1, _AT_ONCE // (similarity.shape[0] * similarity.shape[2]))
    parts = [look(block) for block in tensor(similarity).split(rows, dim=1)]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def needed(part: T | None, name: str, what: str) -> T:
    """`part` itself; a probe cannot look at what was not given."""
    if part is None:
        raise BadData(
            f"There is no {name!r} to look at. Expected {what}; give it to `QueryBatch`, or "
            "leave this probe out."
        )
    return part
