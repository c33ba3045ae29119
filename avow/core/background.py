"""What is usual for a candidate: how strongly reference queries point at it.

Some candidates are hubs: they score well with every query, and a high score of theirs
means little. A bank of reference queries (training captions, say) shows it. Its scores
are summed up per candidate, so that a gallery of any size keeps a few numbers for each
item and needs no bank at search time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Background:
    """Per view and candidate, a summary of its scores over a bank of reference queries."""

    queries: int
    """How many reference queries there were."""
    tau: float
    log_mean: Float[Tensor, "views candidates"]
    """Logarithm of the mean of exp(s / tau): how much evidence it usually gets."""
    mean: Float[Tensor, "views candidates"]
    spread: Float[Tensor, "views candidates"]
    """Standard deviation."""
    top: Float[Tensor, "views candidates kept"]
    """The largest scores, descending."""

    @classmethod
    def from_scores(
        cls,
        blocks: Iterable[Float[Tensor, "views _ candidates"]],
        tau: float,
        kept: int = 32,
    ) -> "Background":
        """Sum up scores that come in blocks of reference queries."""
        count, total, squares, log_sum, top = 0, 0.0, 0.0, None, None
        for block in blocks:
            count += block.shape[1]
            total = total + block.sum(1).double()
            squares = squares + block.square().sum(1).double()
            gathered = (block / tau).logsumexp(1).double()
            log_sum = gathered if log_sum is None else torch.logaddexp(log_sum, gathered)
            seen = block.topk(min(kept, block.shape[1]), dim=1).values.transpose(1, 2)
            seen = seen if top is None else torch.cat([top, seen], -1)
            top = seen.topk(min(kept, seen.shape[-1])).values
        if top is None or log_sum is None:
            raise ValueError("a background needs at least one block of reference queries")
        mean = torch.as_tensor(total) / count
        variance = (torch.as_tensor(squares) / count - mean.square()).clamp(min=0)
        log_mean = log_sum - torch.log(torch.tensor(float(count)))
        return cls(count, tau, log_mean.float(), mean.float(), variance.sqrt().float(), top)

    def of(self, candidates: Tensor) -> "Background":
        """The same for a choice of candidates (positions or a mask)."""
        return Background(
            self.queries,
            self.tau,
            self.log_mean[:, candidates],
            self.mean[:, candidates],
            self.spread[:, candidates],
            self.top[:, candidates],
        )
