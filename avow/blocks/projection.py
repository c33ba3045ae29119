"""From backbone features into the common space: one linear map, and a bent one beside it.

Paper: Chen et al., "Learning the Best Pooling Strategy for Visual Semantic Embedding",
CVPR 2021 (the image encoder of VSE-infinity).
"""

import math

from jaxtyping import Float
from torch import Tensor, nn


def spread(layer: nn.Linear) -> nn.Linear:
    """Start a layer as the SCAN family does: uniform by fan-in and fan-out, no bias."""
    reach = math.sqrt(6.0 / (layer.in_features + layer.out_features))
    nn.init.uniform_(layer.weight, -reach, reach)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class Bend(nn.Module):
    """Two layers with batch normalisation between them, over all parts of all items."""

    def __init__(self, inside: int, hidden: int, outside: int):
        super().__init__()
        self.narrow = nn.Linear(inside, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.widen = nn.Linear(hidden, outside)

    def forward(
        self, parts: Float[Tensor, "items parts inside"]
    ) -> Float[Tensor, "items parts outside"]:
        rows = self.norm(self.narrow(parts.flatten(0, 1))).relu()
        return self.widen(rows).unflatten(0, parts.shape[:2])


class VisualProjection(nn.Module):
    """fc(x) + bend(x) for every part; without the bend it is plain VSE++."""

    def __init__(self, visual_dim: int, dim: int, bend: bool, dropout: float):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.straight = spread(nn.Linear(visual_dim, dim))
        self.bend = Bend(visual_dim, dim // 2, dim) if bend else None

    def forward(
        self, parts: Float[Tensor, "items parts inside"]
    ) -> Float[Tensor, "items parts outside"]:
        parts = self.drop(parts)
        out = self.straight(parts)
        return out if self.bend is None else out + self.bend(parts)
