"""Regions against words, pair by pair: what SCAN, IMRAM and ACMNet share.

    regions --project--> dropout --> unit vectors --.
                                                    +-- Pairing --> a score per pair
    tokens  --encode---> dropout --> unit vectors --'

The methods differ in how a pair of items is compared, which is their `Pairing`. It is given
tiles of items, so that what it makes in between stays below a size that is a setting.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from avow.blocks.encoders import EncoderSettings
from avow.blocks.normalise import unit
from avow.blocks.squash import Squash, squashed
from avow.blocks.tiles import MB, in_tiles, usual
from avow.core.contracts import Encoded, Method, Regions, Tokens

NormKind = Literal["both", "image", "text", "none"]
Side = Literal["image", "text"]


@dataclass(frozen=True, kw_only=True)
class PartwiseSettings(EncoderSettings):
    """norm: which sides have their parts made unit vectors.

    tile_mb: the most that one intermediate tensor may take; 0 chooses for the device.
    recompute: forget them, and compute them again for the gradient.
    """

    norm: NormKind = "both"
    squash: Squash = "auto"
    tile_mb: int = 0
    recompute: bool = False


class Pairing(nn.Module, ABC):
    """How the parts of images are compared with the parts of texts."""

    largest: float | None
    """The largest score there can be; None where there is no such number."""
    tile_mb = 8
    """What a tile may take on a processor, where nobody says otherwise."""

    @abstractmethod
    def forward(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]: ...

    def prepare(self, tile: Encoded, side: Side) -> Encoded:
        """What is made once of a tile, and shared by all tiles it is compared with."""
        return tile

    @abstractmethod
    def numbers(self, regions: int, words: int) -> int:
        """How many numbers the largest intermediate holds for one image and one text."""


class Partwise(Method):
    """Encode the parts of every item, then compare all pairs of items in tiles."""

    takes_bf16 = True

    def __init__(self, pairing: Pairing, settings: PartwiseSettings, whole: Side | None = None):
        """whole: on which side the first part of every item is the item as a whole."""
        super().__init__()
        text = settings.text_encoder()
        self.visual, self.text, self.pairing = settings.linear_projection(), text, pairing
        self.norm, self.whole = settings.norm, whole
        self.squash: Squash = settings.squash
        self.drop = nn.Dropout(settings.dropout_head)
        self.tile_mb, self.recompute = settings.tile_mb, settings.recompute

    def encode_visual(self, visual: Regions) -> Encoded:
        parts = self._finish(self.visual(visual.features), "image", visual.present)
        if self.whole != "image":
            return Encoded(parts, visual.present)
        mean = parts.sum(1) / visual.present.sum(1, keepdim=True)
        return _led_by(mean, parts, visual.present)

    def encode_text(self, text: Tokens) -> Encoded:
        if self.whole != "text":
            return Encoded(self._finish(self.text(text), "text", text.present), text.present)
        states, whole = self.text.with_whole(text)
        parts = self._finish(states, "text", text.present)
        lead = self._finish(whole[:, None], "text", text.present[:, :1])
        return _led_by(lead[:, 0], parts, text.present)

    def score(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        numbers = self.pairing.numbers(visual.parts.shape[1], text.parts.shape[1])
        size = 4 * numbers  # what lies between is float32, whatever the parts are
        most = self.tile_mb * MB or usual(visual.parts.device, self.pairing.tile_mb)
        first, second = (partial(self.pairing.prepare, side=side) for side in get_args(Side))
        return in_tiles(self.pairing, visual, text, size, most, self.recompute, (first, second))

    def similarity(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        return squashed(self.score(visual, text), self.squash, self.pairing.largest)

    def _finish(
        self,
        states: Float[Tensor, "items parts dim"],
        side: Side,
        present: Bool[Tensor, "items parts"],
    ) -> Float[Tensor, "items parts dim"]:
        """Unit vectors where they are asked for, and nothing on padding."""
        # comparing keeps full precision even where the encoders run in bfloat16
        states = self.drop(states).float()
        if self.norm in ("both", side):
            states = unit(states)
        return states.masked_fill(~present[..., None], 0)


def _led_by(
    whole: Float[Tensor, "items dim"],
    parts: Float[Tensor, "items parts dim"],
    present: Bool[Tensor, "items parts"],
) -> Encoded:
    """The items with one more part in front: what they are as a whole."""
    return Encoded(
        torch.cat([whole[:, None], parts], 1),
        torch.cat([torch.ones_like(present[:, :1]), present], 1),
    )
