"""One vector per image, one per text: what VSE++, TcVSE and VSE-infinity share.

    regions --project--> parts --pool--> dropout --> unit vector
    tokens  --encode---> parts --pool--> dropout --> unit vector

The three differ in how they pool, and in nothing else.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from avow.blocks.encoders import EncoderSettings
from avow.blocks.imagenet_names import Names
from avow.blocks.normalise import unit
from avow.blocks.pooling import Pool, PoolKind, build_pool
from avow.blocks.projection import BendFrom, VisualProjection
from avow.blocks.text import TextEncoder, Way
from avow.core.contracts import Encoded, PooledMethod, Regions, Tokens
from avow.core.keywords import with_keywords


class JointEmbedding(PooledMethod):
    """Project, pool, normalise; the similarity is the cosine."""

    def __init__(
        self,
        visual: VisualProjection,
        visual_pool: Pool,
        text: TextEncoder,
        text_pool: Pool,
        dropout_head: float,
        names: Names | None = None,
    ):
        super().__init__()
        self.names = names
        self.visual, self.visual_pool = visual, visual_pool
        self.text, self.text_pool = text, text_pool
        self.drop = nn.Dropout(dropout_head)

    def pool_visual(self, visual: Regions) -> Float[Tensor, "items dim"]:
        pooled = self.visual_pool(self.visual(visual.features), visual.present)
        if self.names is None:
            return pooled
        return pooled + self.names(visual.features, visual.present)

    def pool_text(self, text: Tokens) -> Float[Tensor, "items dim"]:
        return self.text_pool(self.text(text), text.present)

    def finish(self, pooled: Float[Tensor, "items dim"]) -> Encoded:
        # the cosine keeps full precision even where the encoders run in bfloat16
        vector = unit(self.drop(pooled).float())[:, None]
        return Encoded(
            vector, torch.ones(vector.shape[:2], dtype=torch.bool, device=vector.device)
        )


@dataclass(frozen=True, kw_only=True)
class JointSettings(EncoderSettings):
    """pool: how regions are pooled. text_pool: how words are, where not alike ("same").

    text_way: in which directions a GRU reads.
    bend: whether a two-layer branch stands beside the linear map of the image features.
    bend_from: what that branch reads; RVSE++ has it read the projection.
    names: the backbone whose classifier tells which of ImageNet's names fit, where wanted.
    """

    pool: PoolKind
    text_pool: Literal["same", "mean", "max", "last", "learnt"] = "same"
    text_way: Way = "both"
    bend: bool = True
    bend_from: BendFrom = "features"
    names: Literal["", "efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"] = ""


def _joint_embedding(how: JointSettings) -> JointEmbedding:
    encoder = how.text_encoder(how.text_way)
    visual = VisualProjection(
        how.visual_dim, how.dim, how.bend, how.dropout_image, how.bend_from
    )
    words = build_pool(how.pool if how.text_pool == "same" else how.text_pool)
    names = Names(how.names, how.visual_dim, how.dim, how.pretrained) if how.names else None
    return JointEmbedding(visual, build_pool(how.pool), encoder, words, how.dropout_head, names)


joint_embedding = with_keywords(JointSettings, _joint_embedding)
