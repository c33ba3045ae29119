"""GRUs read in one direction or in both, without packing.

Packing asks the device how long each sequence is and then copies step by step. Here the
second direction reads every sequence turned around within its own length, so padding is
never read before a real step and nothing waits for the device.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from avow.blocks.joint_gru import read_together

Steps = Float[Tensor, "items steps inside"]
Present = Bool[Tensor, "items steps"]
States = Float[Tensor, "items steps hidden"]
End = Float[Tensor, "items hidden"]
Ways = tuple[States, States]
"""The states of both directions of a GRU, in the order of what was read."""


def in_float32(gru: Callable[..., Any], *given: Tensor) -> Any:
    """What a GRU says of what it is given; on CUDA never in less than float32.

    cuDNN's gradients of a GRU in bfloat16 are not finite (seen with torch 2.11 on an H200).
    """
    if not given[0].is_cuda:
        return gru(*given)
    with torch.autocast("cuda", enabled=False):
        return gru(*(one.float() for one in given))


class Gru(nn.Module, ABC):
    """A state per step, 0 on padding; and the one it ends in."""

    @abstractmethod
    def forward(self, steps: Steps, present: Present) -> States: ...

    @abstractmethod
    def with_end(self, steps: Steps, present: Present) -> tuple[States, End]: ...


class TwoWayGru(Gru):
    """The mean of a GRU read forwards and one read backwards.

    It ends where each direction does: forwards at the last step, backwards at the first.
    """

    def __init__(self, inside: int, hidden: int):
        super().__init__()
        self.ahead = nn.GRU(inside, hidden, batch_first=True)
        self.back = nn.GRU(inside, hidden, batch_first=True)

    def forward(self, steps: Steps, present: Present) -> States:
        return mean_of_ways(self._ways(steps, present), present)

    def side_by_side(
        self, steps: Steps, present: Present
    ) -> Float[Tensor, "items steps twice"]:
        """The states of both directions next to each other instead of their mean."""
        return torch.cat(self._ways(steps, present), -1) * present[..., None]

    def with_end(self, steps: Steps, present: Present) -> tuple[States, End]:
        ways = self._ways(steps, present)
        return mean_of_ways(ways, present), end_of_ways(ways, present)

    def _ways(self, steps: Steps, present: Present) -> Ways:
        turned = _turned(present)
        forwards, _ = in_float32(self.ahead, steps)
        backwards, _ = in_float32(self.back, _reorder(steps, turned))
        return forwards, _reorder(backwards, turned)


def mean_of_ways(ways: Ways, present: Present) -> States:
    return (ways[0] + ways[1]) / 2 * present[..., None]


def end_of_ways(ways: Ways, present: Present) -> End:
    """Where each direction ends: forwards at the last step, backwards at the first."""
    return (last_state(ways[0], present) + ways[1][:, 0]) / 2


def ways_together(
    grus: Sequence[TwoWayGru], steps: Sequence[Steps], present: Present
) -> list[Ways]:
    """What each of `grus` makes of steps of its own, where all items are of one length."""
    turned = _turned(present)
    both = [way for own in steps for way in (own, _reorder(own, turned))]
    directions = [gru for two in grus for gru in (two.ahead, two.back)]
    states = read_together(directions, torch.stack([way.transpose(0, 1) for way in both]))
    ways = [state.transpose(0, 1) for state in states.unbind()]
    return [
        (ahead, _reorder(back, turned))
        for ahead, back in zip(ways[::2], ways[1::2], strict=True)
    ]


class OneWayGru(Gru):
    """A GRU read forwards: padding comes after all it reads."""

    def __init__(self, inside: int, hidden: int):
        super().__init__()
        self.ahead = nn.GRU(inside, hidden, batch_first=True)

    def forward(self, steps: Steps, present: Present) -> States:
        return in_float32(self.ahead, steps)[0] * present[..., None]

    def with_end(self, steps: Steps, present: Present) -> tuple[States, End]:
        states = self(steps, present)
        return states, last_state(states, present)


def last_state(
    states: Float[Tensor, "items steps dim"], present: Present
) -> Float[Tensor, "items dim"]:
    """The state at each item's last step."""
    place = torch.arange(states.shape[1], device=states.device)
    last = (place * present).amax(1)[:, None, None]
    return states.take_along_dim(last, 1).squeeze(1)


def closed_up(
    parts: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
) -> tuple[Float[Tensor, "items parts dim"], Bool[Tensor, "items parts"]]:
    """The parts that are present first, in their order: no gap is read as a step."""
    order = (~present).to(torch.uint8).argsort(dim=1, stable=True)
    return parts.take_along_dim(order[..., None], 1), present.take_along_dim(order, 1)


def _turned(present: Present) -> Tensor:
    """Each item's own steps last to first, its padding where it was: its own inverse."""
    place = torch.arange(present.shape[1], device=present.device)[None]
    return torch.where(present, present.sum(1, keepdim=True) - 1 - place, place)


def _reorder(
    steps: Float[Tensor, "items steps dim"], order: Tensor
) -> Float[Tensor, "items steps dim"]:
    return steps.gather(1, order[..., None].expand(-1, -1, steps.shape[-1]))
