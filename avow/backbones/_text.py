"""Frozen text networks: captions in, one state per token out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from tokenizers import Tokenizer
from torch import Tensor, nn

from avow.blocks.pretrained import of_weights, text_files, text_model

_CAPTIONS_AT_ONCE = 64


class TextBackbone(nn.Module, ABC):
    """What every text file in `backbones/` builds."""

    dim: int
    identity: dict[str, Any]
    """Everything that changes the states: weights hash, tokenisation."""

    @abstractmethod
    def states(
        self, captions: Sequence[str]
    ) -> tuple[Float[Tensor, "items parts dim"], Bool[Tensor, "items parts"]]:
        """The states of every token, padded with 0, and which of them are present."""


class Transformer(TextBackbone):
    """The last layer of a BERT-like network, start and end marks included."""

    def __init__(self, name: str, source: str):
        super().__init__()
        self.network: Any = text_model(source).eval().requires_grad_(False)
        config: Any = self.network.config
        self.dim, longest = config.hidden_size, config.max_position_embeddings
        self.tokeniser = Tokenizer.from_file(str(text_files(source) / "tokenizer.json"))
        self.tokeniser.enable_truncation(longest)
        self.tokeniser.enable_padding()
        self.identity = {
            "backbone": name,
            "weights": of_weights(self.network),
            "longest": longest,
        }

    @torch.no_grad()
    def states(
        self, captions: Sequence[str]
    ) -> tuple[Float[Tensor, "items parts dim"], Bool[Tensor, "items parts"]]:
        device = next(self.network.parameters()).device
        encodings = self.tokeniser.encode_batch(list(captions))
        width = len(encodings[0].ids) if encodings else 0
        ids = torch.tensor([e.ids for e in encodings], dtype=torch.long, device=device)
        mask = torch.tensor([e.attention_mask for e in encodings], device=device)
        present = mask.reshape(len(captions), width).bool()
        states = torch.zeros(len(captions), width, self.dim, device=device)
        for start in range(0, len(captions), _CAPTIONS_AT_ONCE):
            block = slice(start, start + _CAPTIONS_AT_ONCE)
            result = self.network(ids[block], attention_mask=mask[block])
            states[block] = result.last_hidden_state
        return states.masked_fill(~present[..., None], 0), present
