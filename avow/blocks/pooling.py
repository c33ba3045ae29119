"""Many parts to one vector: mean, max, last, and the learnt pooling of VSE-infinity.

Padding never changes what comes out.

Paper: Chen et al., "Learning the Best Pooling Strategy for Visual Semantic Embedding",
CVPR 2021 (generalised pooling operator, GPO).
"""

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from avow.blocks.rank_pooling import weighed_by_rank
from avow.blocks.recurrent import TwoWayGru, last_state

PoolKind = Literal["mean", "max", "last", "learnt"]
Parts = Float[Tensor, "items parts dim"]
Present = Bool[Tensor, "items parts"]
Pooled = Float[Tensor, "items dim"]


class Pool(nn.Module, ABC):
    """Parts and which of them are present, to one vector per item."""

    @abstractmethod
    def forward(self, parts: Parts, present: Present) -> Pooled: ...


class MeanPool(Pool):
    """The mean of the parts that are present."""

    def forward(self, parts: Parts, present: Present) -> Pooled:
        weight = present[..., None].to(parts.dtype)
        return (parts * weight).sum(1) / weight.sum(1)


class MaxPool(Pool):
    """Per channel, the largest of the parts that are present."""

    def forward(self, parts: Parts, present: Present) -> Pooled:
        return parts.masked_fill(~present[..., None], -torch.inf).amax(1)


class LastPool(Pool):
    """The last of the parts that are present."""

    def forward(self, parts: Parts, present: Present) -> Pooled:
        return last_state(parts, present)


class LearntPool(Pool):
    """Per channel, a weighted sum of the *sorted* parts; a small GRU learns the weights.

    The weights depend on how many parts there are and on nothing else, so they are made
    once for every possible count and then looked up, instead of once per item.
    """

    def __init__(self, position_dim: int = 32, hidden: int = 32, temperature: float = 0.1):
        super().__init__()
        self.position_dim = position_dim
        self.temperature = temperature
        self.gru = TwoWayGru(position_dim, hidden)
        self.weigh = nn.Linear(hidden, 1, bias=False)
        self.made_ahead: Tensor | None = None
        """The weights of items of any length up to some number, where made together."""

    def forward(self, parts: Parts, present: Present) -> Pooled:
        table = self.weights(parts.shape[1], parts.device)
        weight = table[present.sum(1) - 1]
        return weighed_by_rank(parts, present, weight)

    def weights(self, longest: int, device: torch.device) -> Float[Tensor, "longest longest"]:
        """Row n-1: the weight of each sorted position of an item with n parts."""
        if self.made_ahead is not None and longest <= len(self.made_ahead):
            return self.made_ahead[:longest, :longest]
        position, inside = self.positions(longest, device)
        return self.shares(self.gru(position, inside), inside)

    def positions(
        self, longest: int, device: torch.device
    ) -> tuple[Float[Tensor, "items parts dim"], Bool[Tensor, "items parts"]]:
        """What the GRU reads: the places of an item with one part, with two, and so on."""
        position = _sines(longest, self.position_dim, device).expand(longest, -1, -1)
        return position, torch.ones(longest, longest, dtype=torch.bool, device=device).tril()

    def shares(
        self, states: Float[Tensor, "items parts hidden"], inside: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items parts"]:
        """The weights that the states of the GRU stand for."""
        score = self.weigh(states).squeeze(-1).float()
        return (score / self.temperature).masked_fill(~inside, -torch.inf).softmax(-1)


def _sines(length: int, dim: int, device: torch.device) -> Float[Tensor, "length dim"]:
    """Sinusoidal positions: even channels sine, odd channels cosine."""
    place = torch.arange(length, dtype=torch.float32, device=device)[:, None]
    rate = torch.exp(torch.arange(0, dim, 2, device=device) * -(math.log(10000.0) / dim))
    waves = torch.stack([torch.sin(place * rate), torch.cos(place * rate)], dim=-1)
    return waves.flatten(1)


def build_pool(kind: PoolKind) -> Pool:
    """The pool called `kind`."""
    kinds = {"mean": MeanPool, "max": MaxPool, "last": LastPool, "learnt": LearntPool}
    return kinds[kind]()
