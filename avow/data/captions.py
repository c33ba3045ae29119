"""All captions of a split as numbers, made once, from which batches are cut."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from avow.core.captions import check_caption as check_caption
from avow.core.contracts import Tokens
from avow.core.tokeniser import LONGEST, Tokeniser, shortened


@dataclass(frozen=True)
class TokenTable:
    """Padded captions in host memory, narrow types; never written to after."""

    ids: Int[Tensor, "captions parts"]
    word: Int[Tensor, "captions parts"]
    """Which word of its caption each part belongs to; -1 on padding."""
    lengths: Int[Tensor, " captions"]
    fixed_ends: bool
    mask: int
    size: int

    @classmethod
    def from_captions(
        cls, tokeniser: Tokeniser, captions: Iterable[str], longest: int = LONGEST
    ) -> "TokenTable":
        """Captions of more than `longest` parts lose the words before their last.

        One of more than `LONGEST_TEXT` characters is refused.
        """
        texts = []
        for number, caption in enumerate(captions, 1):
            check_caption(caption, f"Text {number}")
            texts.append(shortened(tokeniser.words(caption), longest))
        lengths = torch.tensor([sum(map(len, words)) for words in texts], dtype=torch.long)
        shape = (len(texts), int(lengths.max()) if texts else 0)
        ids = torch.zeros(shape, dtype=torch.int32)
        word = torch.full(shape, -1, dtype=torch.int16)
        present = _present(lengths, shape[1])
        # a boolean mask is filled row by row, which is the order of the flat lists
        flat = [piece for words in texts for pieces in words for piece in pieces]
        places = [
            place for words in texts for place, pieces in enumerate(words) for _ in pieces
        ]
        ids[present] = torch.tensor(flat, dtype=torch.int32)
        word[present] = torch.tensor(places, dtype=torch.int16)
        return cls(ids, word, lengths, tokeniser.fixed_ends, tokeniser.mask, tokeniser.size)

    def tokens(self, rows: Int[Tensor, " rows"]) -> Tokens:
        """The captions `rows`, no wider than the longest of them."""
        lengths = self.lengths[rows]
        width = int(lengths.max()) if len(rows) else 0
        ids = self.ids[rows, :width].long()
        return Tokens(ids, _present(lengths, width))


def _present(lengths: Int[Tensor, " captions"], width: int) -> Tensor:
    return torch.arange(width) < lengths[:, None]
