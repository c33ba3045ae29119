"""From backbone features into the common space: one linear map, and a bent one beside it.

The bent map reads the features themselves, or what the linear map made of them.

Papers: Chen et al., "Learning the Best Pooling Strategy for Visual Semantic Embedding",
CVPR 2021 (the image encoder of VSE-infinity); Kim et al., "Improving Cross-Modal Retrieval
with Set of Diverse Embeddings", CVPR 2023, and RVSE++ (its branch after the linear map).
"""

import math
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

BendFrom = Literal["features", "projection"]


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
    """fc(x) + bend(x), or fc(x) + bend(fc(x)), for every part; without the bend plain VSE++."""

    def __init__(
        self,
        visual_dim: int,
        dim: int,
        bend: bool,
        dropout: float,
        bend_from: BendFrom = "features",
    ):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.straight = spread(nn.Linear(visual_dim, dim))
        self.after = bend_from == "projection"
        inside = dim if self.after else visual_dim
        self.bend = Bend(inside, dim // 2, dim) if bend else None

    def forward(
        self, parts: Float[Tensor, "items parts inside"]
    ) -> Float[Tensor, "items parts outside"]:
        parts = self.drop(parts)
        out = self.straight(parts)
        if self.bend is None:
            return out
        return out + self.bend(out if self.after else parts)
