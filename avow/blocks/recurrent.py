"""A GRU read in one or both directions, without packing.

Packing asks the device how long each sequence is and then copies step by step. Here the
second direction reads every sequence turned around within its own length, so padding is
never read before a real step and nothing waits for the device.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


def in_float32(gru: Callable[..., Any], *given: Tensor) -> Any:
    """What a GRU says of what it is given; on CUDA never in less than float32.

    cuDNN's gradients of a GRU in bfloat16 are not finite (seen with torch 2.11 on an H200).
    """
    if not given[0].is_cuda:
        return gru(*given)
    with torch.autocast("cuda", enabled=False):
        return gru(*(one.float() for one in given))


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
        forwards, backwards = self.directions(steps, present)
        return (forwards + backwards) / 2 * present[..., None]

    def directions(
        self,
        steps: Float[Tensor, "items steps inside"],
        present: Bool[Tensor, "items steps"],
    ) -> tuple[Float[Tensor, "items steps hidden"], Float[Tensor, "items steps hidden"]]:
        """The states of each direction, both in the order of `steps`."""
        turned = _turned(present)
        forwards, _ = in_float32(self.ahead, steps)
        backwards, _ = in_float32(self.back, _reorder(steps, turned))
        return forwards, _reorder(backwards, turned)


class AheadGru(nn.Module):
    """A GRU read forwards, so that padding comes after all it reads; 0 on padding."""

    def __init__(self, inside: int, hidden: int):
        super().__init__()
        self.ahead = nn.GRU(inside, hidden, batch_first=True)

    def forward(
        self,
        steps: Float[Tensor, "items steps inside"],
        present: Bool[Tensor, "items steps"],
    ) -> Float[Tensor, "items steps hidden"]:
        forwards, _ = in_float32(self.ahead, steps)
        return forwards * present[..., None]


def _turned(present: Bool[Tensor, "items steps"]) -> Tensor:
    """Each item's own steps last to first, its padding where it was: its own inverse."""
    place = torch.arange(present.shape[1], device=present.device)[None]
    return torch.where(present, present.sum(1, keepdim=True) - 1 - place, place)


def _reorder(
    steps: Float[Tensor, "items steps dim"], order: Tensor
) -> Float[Tensor, "items steps dim"]:
    return steps.gather(1, order[..., None].expand(-1, -1, steps.shape[-1]))


def ends(
    gru: TwoWayGru,
    steps: Float[Tensor, "items steps inside"],
    present: Bool[Tensor, "items steps"],
) -> Float[Tensor, "items hidden"]:
    """Where each direction ends, forwards at the last step and backwards at the first: mean."""
    last = present.sum(1)[:, None, None] - 1
    forwards, _ = gru.ahead(steps)
    backwards, _ = gru.back(_reorder(steps, _turned(present)))
    return (forwards + backwards).take_along_dim(last, 1)[:, 0] / 2
