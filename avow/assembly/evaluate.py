"""From scores to the rows of a table: recall both ways, per view and for their average."""

import datetime
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

import avow
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks, batches, compare, encode
from avow.core.contracts import Encoded, Method, Tokens
from avow.core.errors import BadData
from avow.data.captions import TokenTable
from avow.metrics.recall import (
    Join,
    Ranks,
    Recall,
    average,
    bootstrap,
    folds,
    mean_score,
    ranks,
    summarise,
)

VIEWS = ("image view", "text view")


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    recall: Recall
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **self.recall.to_dict(),
            "intervals": {key: list(ends) for key, ends in self.intervals.items()},
        }


@dataclass(frozen=True)
class Evaluation:
    """The rows, and what they are rows of."""

    rows: tuple[Row, ...]
    about: dict[str, Any]

    @property
    def best(self) -> Row:
        """The row a paper would print: the average of the views where there are two."""
        return self.rows[-1]

    def to_dict(self) -> dict[str, Any]:
        return {"about": self.about, "rows": [row.to_dict() for row in self.rows]}


def score_views(
    views: Sequence[Method],
    split: FeaturedSplit,
    table: TokenTable,
    device: torch.device | str,
    blocks: Blocks | None = None,
    progress: bool = False,
) -> list[Float[np.ndarray, "images texts"]]:
    """The similarity matrix of every view over a whole split."""
    blocks = blocks or Blocks()
    matrices = []
    for view in views:
        view.eval()
        visual = encode(
            view.encode_visual,
            (split.regions(part) for part in batches(len(split.rows), blocks.encode)),
            device,
        )
        text = encode_captions(view, table, device, blocks.encode)
        matrices.append(compare(view, visual, text, device, blocks, len(views), progress))
    return matrices


def encode_captions(
    view: Method, table: TokenTable, device: torch.device | str, block: int
) -> Encoded:
    """All captions of a table, as a view encodes them."""
    return encode_table(view.encode_text, table, device, block)


def encode_table(
    encoder: Callable[[Tokens], Encoded],
    table: TokenTable,
    device: torch.device | str,
    block: int,
) -> Encoded:
    """Short captions together, so that little padding is encoded; in the table's order."""
    order = table.lengths.argsort(stable=True)
    encoded = encode(
        encoder,
        (table.tokens(order[part]) for part in batches(len(order), block)),
        device,
    )
    return encoded.rows(order.argsort())


def evaluate(
    scores: Sequence[Float[np.ndarray, "images texts"]],
    image_of: Int[np.ndarray, " texts"],
    *,
    fold: int = 0,
    draws: int = 1000,
    about: dict[str, Any] | None = None,
    names: Sequence[str] = (),
    together: str = "both views",
    join: Join = mean_score,
) -> Evaluation:
    """Recall of each view and of their average; `fold` images at a time where given.

    draws: bootstrap draws for the 95 % intervals, 0 for none. names: what the matrices are
    called where they are not those of views. together: what their average is called. join:
    how it is made.
    """
    _check(scores, image_of, fold)
    if not names:
        names = VIEWS if len(scores) == 2 else [f"view {n + 1}" for n in range(len(scores))]
    groups = [(name, [score]) for name, score in zip(names, scores, strict=True)]
    groups.append((together if len(scores) > 1 else "model", list(scores)))
    if len(scores) == 1:
        groups = groups[1:]
    rows = [Row(name, *_measure(group, image_of, fold, draws, join)) for name, group in groups]
    return Evaluation(tuple(rows), facts(scores[0].shape, fold) | (about or {}))


def facts(shape: Sequence[int], fold: int = 0) -> dict[str, Any]:
    """What was ranked, by what, and when."""
    return {
        "images": int(shape[0]),
        "texts": int(shape[1]),
        "protocol": f"mean of folds of {fold} images" if fold else "whole split",
        "avow": avow.__version__,
        "torch": torch.__version__,
        "machine": platform.machine(),
        "date": datetime.date.today().isoformat(),
    }


def _measure(
    group: Sequence[np.ndarray], image_of: np.ndarray, fold: int, draws: int, join: Join
) -> tuple[Recall, dict[str, tuple[float, float]]]:
    if fold:
        parts = folds(image_of, group[0].shape[0], fold)
        fold_ranks = [
            ranks(
                [score[images][:, texts] for score in group], image_of[texts] % fold, join=join
            )
            for images, texts in parts
        ]
        return average([summarise(one) for one in fold_ranks]), {}
    whole_ranks: Ranks = ranks(group, image_of, join=join)
    intervals = bootstrap(whole_ranks, image_of, draws) if draws else {}
    return summarise(whole_ranks), intervals


def _check(scores: Sequence[np.ndarray], image_of: np.ndarray, fold: int) -> None:
    images = scores[0].shape[0]
    if fold > images:
        raise BadData(
            f"A fold of {fold} images was asked for and the split has {images}. Expected "
            "a fold no larger than the split; leave --fold out for the whole split."
        )
    counts = np.bincount(image_of, minlength=images)
    if (counts == 0).any():
        raise BadData(
            f"Image number {int(np.argmin(counts))} has no caption. Expected at least one "
            "per image; leave it out of the split."
        )
    for score in scores:
        if not all(np.isfinite(row).all() for row in np.array_split(score, 64)):
            raise BadData(
                "Some similarities are not finite. Expected numbers; check the features "
                "for NaN with `avow features --verify` and the run for a diverged loss, which "
                "a lower train.lr, train.precision=tf32 or train.kernels=false may mend."
            )
