"""Between epochs: every training pair looked at once, and a trust settled for each.

    pairs in batches --views--> scores --glance--> notes --settle--> trust of the lessons

What to note and how to settle is the loss's own; here it is asked at the right time, with
the networks in evaluation mode and nothing augmented. What was settled is saved with the
state of the training, so a run stopped inside an epoch goes on with the same trust.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Bool, Float
from torch import Tensor

from avow.core.contracts import Method, SiftingLoss
from avow.training.batches import Batches
from avow.training.compare import Comparison


@dataclass(frozen=True)
class Sifted:
    """What the views believe of every pair of the training split."""

    epoch: int
    """For which epoch it was settled."""
    trust: Float[Tensor, "views captions"] | None = None
    """None while the loss does not sift yet: every pair is believed."""
    kept: Float[Tensor, "views captions"] | None = None
    """What the loss wants to see again the next time."""

    def told(self, wrong: Bool[np.ndarray, " captions"] | None) -> dict[str, float]:
        """How much is believed and, where the truth is known, how rightly."""
        if self.trust is None:
            return {"believed": 1.0}
        trust = self.trust.mean(0).numpy()
        told = {"believed": float(trust.mean())}
        if wrong is not None:
            told["believed_right"] = float(trust[~wrong].mean()) if (~wrong).any() else 1.0
            told["believed_wrong"] = float(trust[wrong].mean()) if wrong.any() else 0.0
        return {name: round(value, 4) for name, value in told.items()}


def sift(
    loss: SiftingLoss,
    views: Sequence[Method],
    batches: Batches,
    epoch: int,
    before: Sifted | None,
    bf16: bool = False,
) -> Sifted:
    """The trust for `epoch`; the one `before`, where that very epoch has it already.

    A loss that sifts no longer keeps the trust it had.
    """
    if before is not None and before.epoch == epoch:
        return before
    if not loss.sifts(epoch):
        return Sifted(epoch) if before is None else replace(before, epoch=epoch)
    seen = _looked_at(loss, Comparison(views, bf16=bf16), batches, epoch)
    trust, kept = loss.settle(seen, None if before is None else before.kept, epoch)
    if batches.processes > 1:
        # rounding may differ between devices; all must believe the same
        both = torch.stack([trust, kept]).to(batches.device)
        dist.broadcast(both, 0)
        trust, kept = both.cpu()
    return Sifted(epoch, trust, kept)


@torch.no_grad()
def _looked_at(
    loss: SiftingLoss, comparison: Comparison, batches: Batches, epoch: int
) -> Float[Tensor, "views captions"]:
    comparison.eval()
    seen = torch.zeros(len(comparison.views), len(batches.split.captions))
    for batch in batches.unchanged(epoch):
        scores, _ = comparison(batch.visual, batch.text)
        match = batch.lesson.match.to(batches.device)
        seen[:, batch.lesson.pairs] = loss.glance(scores, match).float().cpu()
    return seen
