"""An average of the weights over the batches: judged and kept in place of the last ones.

    average = share * average + (1 - share) * trained weights, after every batch

Paper: Polyak & Juditsky, "Acceleration of Stochastic Approximation by Averaging", SIAM
Journal on Control and Optimization 1992; here with exponential weights.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch

from avow.core.contracts import Method

_EARLY = 50
"""A young average follows faster: after n batches it keeps at most (n + 1) / (n + 50)."""


def share_kept(most: float, batches_done: int) -> float:
    """How much of itself the average keeps after one more batch; `most`: in the long run."""
    return min(most, (batches_done + 1) / (batches_done + _EARLY))


class AveragedViews:
    """A copy of the views that follows them; without an average, the views themselves."""

    def __init__(self, views: Sequence[Method], averaged: bool):
        self._trained = list(views)
        self.views = copy.deepcopy(self._trained) if averaged else self._trained
        self.averaged = averaged

    @torch.no_grad()
    def follow(self, keep: float) -> None:
        """Move the averaged weights towards the trained ones; keep: the share that stays."""
        if not self.averaged:
            return
        for slow, quick in zip(self.views, self._trained, strict=True):
            pairs = (list(slow.parameters()), list(quick.parameters()))
            torch._foreach_lerp_(*pairs, 1 - keep)  # type: ignore[attr-defined]
            for old, new in zip(slow.buffers(), quick.buffers(), strict=True):
                # statistics of batches are copied; what is half precision never changes
                if old is not new and old.shape == new.shape and old.dtype != torch.half:
                    old.copy_(new)

    def state_dict(self) -> dict[str, Any]:
        return {str(number): view.state_dict() for number, view in enumerate(self.views)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for number, view in enumerate(self.views):
            view.load_state_dict(state[str(number)])
