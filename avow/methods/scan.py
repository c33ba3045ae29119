"""SCAN: every word against the regions it looks at, or every region against its words.

Paper: Lee et al., "Stacked Cross Attention for Image-Text Matching", ECCV 2018.
`direction = "t2i"` lets words look at regions, `"i2t"` regions at words. The published runs
sharpen the attention by 9 (t2i) or 4 (i2t); with `aggregate = "lse"` they scale by 6 (t2i)
or 5 (i2t; 20 on MS-COCO). A LogSumExp grows with the number of parts and has no largest
value, so its similarity passes tanh unless `squash` says otherwise.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from avow.blocks.attention import Focus, FocusNorm, mean_of_present
from avow.blocks.attention_inference import as_context, as_query, is_worthwhile, look
from avow.core.contracts import Encoded
from avow.core.keywords import with_keywords
from avow.methods._partwise import Pairing, Partwise, PartwiseSettings, Side

Direction = Literal["t2i", "i2t"]
Aggregate = Literal["mean", "lse"]


class CrossAttention(Pairing):
    """One cosine per query part, gathered into one score per pair."""

    def __init__(
        self, direction: Direction, aggregate: Aggregate, lse_scale: float, how: Focus
    ):
        super().__init__()
        self.direction, self.aggregate = direction, aggregate
        self.lse_scale, self.how = lse_scale, how
        self.largest = 1.0 if aggregate == "mean" else None

    def forward(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        if self.direction == "t2i":
            return self._gather(look(text, visual, self.how), text.present)
        return self._gather(look(visual, text, self.how), visual.present).T

    def prepare(self, tile: Encoded, side: Side) -> Encoded:
        if not is_worthwhile(tile.parts):
            return tile
        asks = (side == "text") == (self.direction == "t2i")
        return as_query(tile) if asks else as_context(tile)

    def numbers(self, regions: int, words: int) -> int:
        return regions * words

    def _gather(
        self,
        cosine: Float[Tensor, "contexts queries parts"],
        present: Bool[Tensor, "queries parts"],
    ) -> Float[Tensor, "contexts queries"]:
        """The mean or the LogSumExp of the parts that are present."""
        if self.aggregate == "mean":
            return mean_of_present(cosine, present)
        scaled = (self.lse_scale * cosine).masked_fill(~present, -torch.inf)
        return scaled.logsumexp(-1) / self.lse_scale


@dataclass(frozen=True, kw_only=True)
class Settings(PartwiseSettings):
    """smooth: how sharply attention chooses. lse_scale: how much the best part outweighs.

    raw_feature_norm: how products become comparable across query parts before that.
    """

    direction: Direction = "t2i"
    aggregate: Aggregate = "mean"
    lse_scale: float = 6.0
    smooth: float = 9.0
    raw_feature_norm: FocusNorm = "clipped_l2norm"


def _build(chosen: Settings) -> Partwise:
    how = Focus(chosen.smooth, chosen.raw_feature_norm)
    pairing = CrossAttention(chosen.direction, chosen.aggregate, chosen.lse_scale, how)
    return Partwise(pairing, chosen)


build = with_keywords(Settings, _build)
