"""Rankings and hinges of a matrix of scores, as the recorded runs have them."""

from collections.abc import Iterator

import numpy as np
import torch
from parity_systems._claims import Bounds, Claim, When
from parity_systems._oracle import Oracle
from torch import Tensor

from avow import losses
from avow.core import folder
from avow.core.contracts import Lesson
from avow.metrics.recall import Direction, ranks, summarise


def of_ranks(
    oracle: Oracle, scores: Tensor, recorded: str, name: str, when: When
) -> Iterator[Claim]:
    """Recall of our scores, up to scores that may swap, and of the recorded ones.

    name: of the recorded metrics, with the direction left open.
    """
    limit = (oracle.tolerance or {}).get(when) or 0.0
    slack = 2 * limit * float(scores.abs().max())
    image_of = oracle.problem.image_of
    theirs = torch.from_numpy(oracle.arrays[recorded])
    both = recalls(scores, image_of, slack), recalls(theirs, image_of)
    for place, side in enumerate(("i2t", "t2i")):
        array = name.format(side)
        yield Claim(array, both[0][place], when)
        yield Claim(array, both[1][place], when, note=f"of {recorded}")


def recalls(scores: Tensor, image_of: np.ndarray, slack: float = 0.0) -> tuple[Bounds, Bounds]:
    """R@1, R@5, R@10, median and mean rank of image and of text queries.

    slack: how far apart two scores may be and still come in either order.
    """
    table = scores.double().numpy()
    own = image_of[None] == np.arange(len(table))[:, None]
    worst = summarise(ranks([np.where(own, table, table + slack)], image_of))
    luckiest = np.where(own, np.nextafter(table + slack, np.inf), table)
    best = summarise(ranks([luckiest], image_of))
    return (
        _between(best.image_to_text, worst.image_to_text),
        _between(best.text_to_image, worst.text_to_image),
    )


def _between(best: Direction, worst: Direction) -> Bounds:
    ends = np.array(
        [[*side.recalls, side.median_rank, side.mean_rank] for side in (best, worst)]
    )
    return Bounds(ends.min(0), ends.max(0))


def hinges(scores: Tensor, margin: float = 0.2) -> dict[str, Tensor]:
    """The hinge over the hardest negative, and over all."""
    lesson = Lesson.paired(len(scores))
    found = {}
    for name, hardest in (("hinge_max", True), ("hinge_sum", False)):
        loss = folder.build(losses, "hinge", margin=margin, hardest=hardest, warm_up=0)
        found[name] = next(loss.steps(lambda: [scores], lesson))
    return found
