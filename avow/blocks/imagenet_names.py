"""Which of ImageNet's thousand names fit a photograph, as one vector of meaning.

    cells --mean--> classifier --softmax--> shares of names --> sum of the names' vectors

The backbone was trained to tell a thousand kinds of things apart, and a text network knows
what their names mean. A sum of the names' vectors, each as large as its share, lies near the
words for what is seen, even where no caption ever spoke of it.

Paper: Norouzi et al., "Zero-Shot Learning by Convex Combination of Semantic Embeddings",
ICLR 2014 (ConSE). Here the vector is learnt on, together with the rest of the photograph.
"""

from functools import cache
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from avow.blocks.lora_text import AdaptedTransformer
from avow.blocks.pretrained import lite_weights, text_files
from avow.core.errors import BadRecipe

_LIST = Path(__file__).with_name("imagenet_names.txt")


def imagenet_names() -> list[str]:
    """The thousand names in the classifier's order, general words added to rare ones."""
    return _LIST.read_text(encoding="utf-8").splitlines()


class Names(nn.Module):
    """From grid cells of an EfficientNet-Lite to a vector in the common space."""

    def __init__(self, backbone: str, visual_dim: int, dim: int, pretrained: bool):
        """pretrained: whether the names' vectors are made here, or will be loaded."""
        super().__init__()
        state = lite_weights(backbone)
        weight, bias = state["_fc.weight"].float(), state["_fc.bias"].float()
        if weight.shape[1] != visual_dim:
            raise BadRecipe(
                f"The classifier of {backbone!r} reads {weight.shape[1]} numbers per cell and "
                f"the features have {visual_dim}. Expected the features of that backbone; set "
                'method.names = "" or change the features.'
            )
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("bias", bias, persistent=False)
        vectors = name_vectors() if pretrained else torch.zeros(len(weight), 384)
        self.register_buffer("vectors", vectors.half())
        self.sharpness = nn.Parameter(torch.ones(()))
        self.project = nn.Linear(vectors.shape[1], dim, bias=False)

    def shares(
        self, cells: Float[Tensor, "items parts inside"], present: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items names"]:
        """How far each name fits; each row sums to one."""
        there = present[..., None].to(cells.dtype)
        mean = (cells * there).sum(1) / there.sum(1).clamp(min=1)
        scores = mean.float() @ self.get_buffer("weight").T + self.get_buffer("bias")
        return (scores * self.sharpness).softmax(-1)

    def forward(
        self, cells: Float[Tensor, "items parts inside"], present: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items outside"]:
        shares = self.shares(cells, present)
        return self.project(shares @ self.get_buffer("vectors").float())


@cache  # every view of a model asks for the same ones
@torch.no_grad()
def name_vectors() -> Float[Tensor, "names dim"]:
    """One unit vector per name: the mean of its token states."""
    from tokenizers import Tokenizer

    tokeniser = Tokenizer.from_file(str(text_files("minilm") / "tokenizer.json"))
    tokeniser.no_truncation()
    tokeniser.enable_padding()
    read = tokeniser.encode_batch([f"a photo of a {name}" for name in imagenet_names()])
    ids = torch.tensor([one.ids for one in read])
    present = torch.tensor([one.attention_mask for one in read]).bool()
    lengths = present.sum(1)
    means = torch.zeros(len(ids), 384)
    transformer = AdaptedTransformer("minilm", 1).eval()
    for length in lengths.unique():  # without padding
        rows = lengths == length
        means[rows] = transformer(ids[rows, :length], present[rows, :length]).mean(1)
    return nn.functional.normalize(means, dim=-1)
