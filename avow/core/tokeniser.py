"""Captions as numbers: what a tokeniser promises, and how long captions are cut.

Free of torch, so that a search can use it; training pads with `data._captions.TokenTable`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from avow.core.shapes import Bool, Int64

LONGEST = 512
"""Numbers per caption that are kept."""


class Tokeniser(ABC):
    """Captions to numbers. A word may become several numbers (sub-words)."""

    mask: int
    """The number that stands for a hidden word."""

    @abstractmethod
    def words(self, caption: str) -> list[list[int]]:
        """The numbers of each word in order, start and end marks included."""

    @property
    @abstractmethod
    def size(self) -> int:
        """One more than the largest number `words` can give."""

    def own_words(self) -> Iterable[str]:
        """The words, and pieces of words, that have a number of their own; () if unknown."""
        return ()

    @property
    def whole_words(self) -> bool:
        """Whether a word without a number of its own means nothing to it."""
        return False

    @property
    def fixed_ends(self) -> bool:
        """Whether augmentation must leave the first and last word alone."""
        return False

    @abstractmethod
    def save(self, folder: Path) -> None: ...


def shortened(words: list[list[int]], longest: int = LONGEST) -> list[list[int]]:
    """As many first words as leave room for the last one."""
    if sum(map(len, words)) <= longest:
        return words
    first, room = [], longest - len(words[-1])
    for pieces in words[:-1]:
        if len(pieces) > room:
            break
        first.append(pieces)
        room -= len(pieces)
    return [*first, words[-1][:longest]]


def token_ids(
    tokeniser: Tokeniser, captions: Iterable[str], longest: int = LONGEST
) -> list[list[int]]:
    """The numbers of each caption, at most `longest`."""
    return [
        [piece for pieces in shortened(tokeniser.words(caption), longest) for piece in pieces]
        for caption in captions
    ]


def padded(
    rows: list[list[int]],
) -> tuple[Int64[np.ndarray, "items parts"], Bool[np.ndarray, "items parts"]]:
    """Rows of numbers, filled with 0 to the longest of them, and where there are numbers."""
    lengths = np.array([len(row) for row in rows], np.int64)
    present = np.arange(lengths.max(initial=0)) < lengths[:, None]
    ids = np.zeros(present.shape, np.int64)
    ids[present] = [piece for row in rows for piece in row]
    return ids, present
