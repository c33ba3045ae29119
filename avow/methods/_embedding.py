"""One vector per image, one per text: what VSE++, TcVSE and VSE-infinity share.

    regions --project--> parts --pool--> dropout --> unit vector
    tokens  --encode---> parts --pool--> dropout --> unit vector

The three differ in how they pool, and in nothing else.
"""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from avow.blocks.names import Names
from avow.blocks.normalise import unit
from avow.blocks.pooling import Pool, PoolKind, build_pool
from avow.blocks.projection import BendFrom, VisualProjection
from avow.blocks.text import TextEncoder, TextKind, Way, build_text
from avow.core.contracts import Encoded, PooledMethod, Regions, Tokens


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

    def pretrained_parameters(self) -> list[nn.Parameter]:
        return self.text.pretrained_parameters()

    def use_word_vectors(
        self, listed: list[str], words: list[str], vectors: Float[np.ndarray, "words dim"]
    ) -> int:
        return self.text.use_word_vectors(listed, words, vectors)

    def save_parts(self, folder: Path) -> None:
        self.text.save_parts(folder)


def joint_embedding(
    *,
    pool: PoolKind,
    text_pool: Literal["same", "mean", "max", "last", "learnt"] = "same",
    visual_dim: int = 2048,
    vocabulary: int = 10_000,
    dim: int = 1024,
    word_dim: int = 300,
    text: TextKind = "gru",
    text_source: str = "",
    text_way: Way = "both",
    pretrained: bool = True,
    bend: bool = True,
    bend_from: BendFrom = "features",
    dropout_word: float = 0.0,
    dropout_image: float = 0.0,
    dropout_head: float = 0.0,
    names: Literal["", "efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"] = "",
) -> JointEmbedding:
    """text_source: folder or hub name of a transformer, or file of word vectors.

    bend: whether a two-layer branch stands beside the linear map of the image features.
    bend_from: what that branch reads; RVSE++ has it read the projection.
    text_pool: how words are pooled, where not as regions are ("same").
    text_way: in which directions a GRU reads.
    names: the backbone whose classifier tells which of ImageNet's names fit, where wanted.
    """
    encoder = build_text(
        text,
        dim=dim,
        vocabulary=vocabulary,
        word_dim=word_dim,
        source=text_source,
        pretrained=pretrained,
        dropout=dropout_word,
        way=text_way,
    )
    visual = VisualProjection(visual_dim, dim, bend, dropout_image, bend_from)
    words = build_pool(pool if text_pool == "same" else text_pool)
    known = Names(names, visual_dim, dim, pretrained) if names else None
    return JointEmbedding(visual, build_pool(pool), encoder, words, dropout_head, known)
