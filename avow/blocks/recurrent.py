"""A GRU read in both directions, without packing.

Packing asks the device how long each sequence is and then copies step by step. Here the
second direction reads every sequence turned around within its own length, so padding is
never read before a real step and nothing waits for the device.
"""

from contextlib import nullcontext

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class TwoWayGru(nn.Module):
    """The mean of a GRU read forwards and one read backwards; 0 on padding."""

    def __init__(self, inside: int, hidden: int):
        super().__init__()
        self.ahead = nn.GRU(inside, hidden, batch_first=True)
        self.back = nn.GRU(inside, hidden, batch_first=True)

    def forward(
        self,
        steps: Float[Tensor, "items steps inside"],
        present: Bool[Tensor, "items steps"],
    ) -> Float[Tensor, "items steps hidden"]:
        # cuDNN's gradients of a GRU in bfloat16 are not finite (seen with torch 2.11 on an
        # H200), so on CUDA it never runs in less than float32
        safe = steps.is_cuda
        with torch.autocast(steps.device.type, enabled=False) if safe else nullcontext():
            steps = steps.float() if safe else steps
            turned = _turned(present)
            forwards, _ = self.ahead(steps)
            backwards, _ = self.back(_reorder(steps, turned))
            mean = (forwards + _reorder(backwards, turned)) / 2
        return mean * present[..., None]


def _turned(present: Bool[Tensor, "items steps"]) -> Tensor:
    """Each item's own steps last to first, its padding where it was: its own inverse."""
    place = torch.arange(present.shape[1], device=present.device)[None]
    return torch.where(present, present.sum(1, keepdim=True) - 1 - place, place)


def _reorder(
    steps: Float[Tensor, "items steps dim"], order: Tensor
) -> Float[Tensor, "items steps dim"]:
    return steps.gather(1, order[..., None].expand(-1, -1, steps.shape[-1]))
