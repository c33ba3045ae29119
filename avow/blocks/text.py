"""Text encoders: captions as numbers in, one state per word out.

gru      word vectors learnt from scratch, and a GRU that reads both ways or ahead
glove    the same, started from GloVe vectors
bert     a transformer (local folder or hub name), fine-tuned
minilm   the transformer inside the MiniLM wheel, fine-tuned
adapted  the same, frozen, with low-rank changes that are learnt and saved alone
kept     the same, frozen, which reads every caption once; a small head learns
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from avow.blocks.cached_text import caption_reader
from avow.blocks.lora_text import AdaptedTransformer, refuse_others
from avow.blocks.pretrained import text_model
from avow.blocks.projection import Bend, spread
from avow.blocks.recurrent import (
    Gru,
    OneWayGru,
    TwoWayGru,
    Ways,
    end_of_ways,
    mean_of_ways,
)
from avow.core.contracts import TextPart, Tokens
from avow.core.errors import BadRecipe

TextKind = Literal["gru", "glove", "bert", "minilm", "adapted", "kept"]
Way = Literal["both", "ahead"]
RANK = 32
"""Of the changes to a frozen transformer."""


class TextEncoder(TextPart, ABC):
    """Tokens to a state per token."""

    @abstractmethod
    def forward(self, text: Tokens) -> Float[Tensor, "items parts dim"]: ...

    def with_whole(
        self, text: Tokens
    ) -> tuple[Float[Tensor, "items parts dim"], Float[Tensor, "items dim"]]:
        """A state per token, and one for the whole caption: where a GRU ends.

        Without one, it is that of the mark which begins every caption.
        """
        states = self(text)
        return states, states[:, 0]


class WordGru(TextEncoder):
    """Word vectors and a GRU; where it reads both ways, the two are averaged."""

    def __init__(
        self, vocabulary: int, word_dim: int, dim: int, dropout: float, way: Way = "both"
    ):
        super().__init__()
        self.words = nn.Embedding(vocabulary, word_dim)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)
        self.drop = nn.Dropout(dropout)
        gru = TwoWayGru if way == "both" else OneWayGru
        self.gru: Gru = gru(word_dim, dim)
        self.read_ahead: tuple[Tokens, Ways] | None = None
        """Captions that were read together with other networks, and their states."""

    def vectors(self, text: Tokens) -> Float[Tensor, "items parts word_dim"]:
        return self.drop(self.words(text.ids))

    def forward(self, text: Tokens) -> Float[Tensor, "items parts dim"]:
        if self.read_ahead is not None and self.read_ahead[0] is text:
            return mean_of_ways(self.read_ahead[1], text.present)
        return self.gru(self.vectors(text), text.present)

    def with_whole(
        self, text: Tokens
    ) -> tuple[Float[Tensor, "items parts dim"], Float[Tensor, "items dim"]]:
        if self.read_ahead is not None and self.read_ahead[0] is text:
            ways = self.read_ahead[1]
            return mean_of_ways(ways, text.present), end_of_ways(ways, text.present)
        return self.gru.with_end(self.vectors(text), text.present)

    def use_word_vectors(
        self,
        listed: list[str],
        words: list[str],
        vectors: Float[np.ndarray, "words dim"],
    ) -> int:
        if vectors.shape[1] != self.words.embedding_dim:
            raise BadRecipe(
                f"The word vectors have {vectors.shape[1]} numbers each and the recipe's "
                f"word_dim is {self.words.embedding_dim}. Expected the same number: set "
                f"method.word_dim = {vectors.shape[1]}."
            )
        place = {word: row for row, word in enumerate(words)}
        rows = [place.get(word, -1) for word in listed]
        with_vector = [row for row, source in enumerate(rows) if source >= 0]
        chosen = torch.from_numpy(vectors[[rows[row] for row in with_vector]])
        with torch.no_grad():
            self.words.weight[with_vector] = chosen.to(self.words.weight)
        return len(with_vector)


class TransformerText(TextEncoder):
    """A pretrained transformer and one linear map into the common space."""

    def __init__(self, source: str, pretrained: bool, dim: int, dropout: float):
        super().__init__()
        self.transformer = text_model(source, pretrained)
        self.drop = nn.Dropout(dropout)
        self.config: Any = self.transformer.config
        # pyrefly: ignore [missing-attribute]  (torch: a module or a tensor)
        self.project = spread(nn.Linear(self.config.hidden_size, dim))

    def forward(self, text: Tokens) -> Float[Tensor, "items parts dim"]:
        states = self.transformer(
            input_ids=text.ids, attention_mask=text.present.long()
        ).last_hidden_state
        return self.project(self.drop(states))

    def pretrained_parameters(self) -> list[nn.Parameter]:
        return list(self.transformer.parameters())

    def save_parts(self, folder: Path) -> None:
        self.config.save_pretrained(folder)


class AdaptedText(TextEncoder):
    """A frozen transformer with low-rank changes, and one linear map; all of it is small."""

    def __init__(self, source: str, rank: int, dim: int, dropout: float):
        super().__init__()
        self.transformer = AdaptedTransformer(source, rank)
        self.drop = nn.Dropout(dropout)
        self.project = spread(nn.Linear(self.transformer.dim, dim))

    def forward(self, text: Tokens) -> Float[Tensor, "items parts dim"]:
        return self.project(self.drop(self.transformer(text.ids, text.present)))


class KeptText(TextEncoder):
    """A frozen transformer that reads every caption once, and a small head that learns.

    Every token gets the state of its whole caption, so that any pool gives that back.
    """

    def __init__(self, source: str, dim: int, dropout: float):
        super().__init__()
        self.reader = caption_reader(source)
        # the head means nothing beside another network, so which it was is saved with it
        self.register_buffer("beside", self.reader.number)
        self.register_load_state_dict_pre_hook(refuse_others)
        self.drop = nn.Dropout(dropout)
        self.straight = spread(nn.Linear(self.reader.dim, dim))
        self.bend = Bend(self.reader.dim, dim // 2, dim)

    def forward(self, text: Tokens) -> Float[Tensor, "items parts dim"]:
        whole = self.drop(self.reader.read(text))[:, None]
        states = self.straight(whole) + self.bend(whole)
        return states.expand(-1, text.ids.shape[1], -1)


def build_text(
    kind: TextKind,
    *,
    dim: int,
    vocabulary: int,
    word_dim: int,
    source: str,
    pretrained: bool,
    dropout: float,
    way: Way = "both",
) -> TextEncoder:
    """The text encoder called `kind`; see the table at the top of this file."""
    if kind in ("gru", "glove"):
        return WordGru(vocabulary, word_dim, dim, dropout, way)
    if kind == "adapted":
        return AdaptedText(source or "minilm", RANK, dim, dropout)
    if kind == "kept":
        return KeptText(source or "minilm", dim, dropout)
    usual = {"bert": "bert-base-uncased", "minilm": "minilm"}[kind]
    return TransformerText(source or usual, pretrained, dim, dropout)
