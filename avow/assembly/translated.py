"""What a translator gives back: a published model in our words."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Translated:
    """The parts of a recipe, and the weights that belong to them."""

    method: dict[str, Any]
    """Name and settings; `visual_dim` and `vocabulary` may be among them."""
    loss: dict[str, Any]
    """Name and settings of what it was trained with; its `tau` forms the opinions."""
    views: list[dict[str, Tensor]]
    """One state per trained network, under our names."""
