"""GloVe: one fixed vector per word, whatever stands around it.

Paper: Pennington et al., "GloVe: Global Vectors for Word Representation", EMNLP 2014.
"""

import re
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from avow.backbones._text import TextBackbone
from avow.blocks.pretrained import of_weights, word_vectors
from avow.core.fingerprint import of_text

_WORD = re.compile(r"\w+|[^\w\s]")


class Glove(TextBackbone):
    """Lower-case words and punctuation marks, looked up; an unknown word is zero."""

    vectors: Tensor

    def __init__(self, source: str):
        super().__init__()
        words, vectors = word_vectors(source)
        self.dim = vectors.shape[1]
        self.rows = {word: row for row, word in enumerate(words)}
        self.unknown = len(words)
        table = np.vstack([vectors, np.zeros((1, self.dim), np.float32)])
        self.register_buffer("vectors", torch.from_numpy(table))
        self.identity = {
            "backbone": "glove",
            "weights": of_text([of_weights(self), *words]),
        }

    @torch.no_grad()
    def states(
        self, captions: Sequence[str]
    ) -> tuple[Float[Tensor, "items parts dim"], Bool[Tensor, "items parts"]]:
        word_rows = [self._look_up(caption) for caption in captions]
        width = max(map(len, word_rows), default=0)
        rows = torch.full((len(word_rows), width), self.unknown)
        present = torch.zeros(len(word_rows), width, dtype=torch.bool)
        for item, numbers in enumerate(word_rows):
            rows[item, : len(numbers)] = torch.tensor(numbers, dtype=torch.long)
            present[item, : len(numbers)] = True
        device = self.vectors.device
        return self.vectors[rows.to(device)], present.to(device)

    def _look_up(self, caption: str) -> list[int]:
        return [self.rows.get(w, self.unknown) for w in _WORD.findall(caption.lower())]


def build(source: str = "glove") -> Glove:
    """source: "glove" for the installed vectors, or a file in GloVe's text format."""
    return Glove(source)
