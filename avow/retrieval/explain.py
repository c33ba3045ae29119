"""Which words and which parts of the picture carried a match.

    weight of a word = its share of what the similarity falls by without it and one other word,
                       over all the others
    weight of a cell = what the similarity falls by without a square of two by two cells,
                       per cell, over all squares that it is in

Nothing is looked up inside the network: parts are hidden, and the similarity is measured again.
Hiding one part alone says little, as others tell the same: "a cup of coffee" without "cup" is
still a drink, and what one cell shows reaches into the next. So several go at once. The weights
of words are those whose sums fit what falls without two of them, by least squares. A model of
ours hides grid cells from its views, after the pixel network has run; any other model is shown
the picture with blocks of pixels greyed out. Words that only hold others in the sentence ("of")
stay where they are, and have no weight.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from avow.core.errors import BadData
from avow.core.photographs import upright_rgb
from avow.core.searching import Encoder
from avow.core.shapes import Bool, Float
from avow.retrieval.function_words import FUNCTION_WORDS

BLOCKS = 7
"""Blocks per side that a picture is cut into where a model shows no cells of its own."""
MOST_IN_PAIRS = 16
"""Words of a text that are hidden two at a time; in a longer text each is hidden alone."""
SQUARE = 2
"""Cells per side of what is hidden of a picture at once."""
_NOTHING = "a picture"  # a text without any of its words
_GREY = 127
_SHINE = 0.6  # how much of the strongest cell's colour hides the picture
_WARM = np.array([255, 70, 0], np.float32)

Present = Bool[np.ndarray, "ways parts"]
Hidden = Bool[np.ndarray, "ways parts"]
Word = tuple[str, float | None]
"""A word and its weight; None where it only holds others together."""


@dataclass(frozen=True)
class Explanation:
    """How much each part adds to the similarity; below 0 it speaks against the match."""

    words: list[Word]
    cells: Float[np.ndarray, "rows columns"]
    similarity: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "similarity": self.similarity,
            "words": [{"word": word, "weight": weight} for word, weight in self.words],
            "cells": self.cells.tolist(),
        }


def explain(encoder: Encoder, text: str, photograph: Image.Image) -> Explanation:
    """What of `text` and of `photograph` makes them similar."""
    query = encoder.encode_texts([text])[0]
    whole, cells = cell_weights(encoder, photograph, query)
    return Explanation(word_weights(encoder, text, whole), cells, float(whole @ query))


def word_weights(encoder: Encoder, text: str, image: Float[np.ndarray, " dim"]) -> list[Word]:
    """How much each word that means something adds to the similarity with an image."""
    words = text.split()
    content = content_places(words)
    hidden = ways_to_hide(len(content))

    def kept(gone: Bool[np.ndarray, " words"]) -> str:
        if gone.all():
            return _NOTHING
        left_out = set(itertools.compress(content, gone))
        return " ".join(word for place, word in enumerate(words) if place not in left_out)

    similarity = encoder.encode_texts([text, *map(kept, hidden)]) @ image
    weights = shares(similarity[0] - similarity[1:], hidden).tolist()
    weight_of = dict(zip(content, weights, strict=True))
    return [(word, weight_of.get(place)) for place, word in enumerate(words)]


def content_places(words: list[str]) -> list[int]:
    """Where the words are that mean something; all of them where none does."""
    places = [place for place, word in enumerate(words) if not _is_function_word(word)]
    return places or list(range(len(words)))


def ways_to_hide(parts: int) -> Hidden:
    """Two parts at a time, in every way there is; each alone where they are few or many."""
    alone = np.eye(parts, dtype=bool)
    if parts > MOST_IN_PAIRS:
        return alone
    first, second = np.triu_indices(parts, 1)
    pairs = alone[first] | alone[second]
    return pairs if parts > 2 else np.concatenate([alone, pairs])


def shares(falls: Float[np.ndarray, " ways"], hidden: Hidden) -> Float[np.ndarray, " parts"]:
    """What each part adds, so that sums over what was hidden fit the falls best."""
    return np.linalg.lstsq(hidden.astype(np.float64), falls.astype(np.float64), rcond=None)[0]


def squares(side: int) -> Present:
    """Which cells are there, each time without a square of them; edges cut some off."""
    edge = SQUARE if side > SQUARE + 1 else 1
    ways = []
    for row, column in itertools.product(range(1 - edge, side), repeat=2):
        present = np.ones((side, side), bool)
        present[max(row, 0) : row + edge, max(column, 0) : column + edge] = False
        ways.append(present.ravel())
    return np.array(ways)


def cell_weights(
    encoder: Encoder, photograph: Image.Image, query: Float[np.ndarray, " dim"]
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "rows columns"]]:
    """The picture's vector, and how much each part of it adds to the similarity."""
    pixels = encoder.prepare(photograph)
    side = encoder.grid or BLOCKS
    present = np.concatenate([np.ones((1, side**2), bool), squares(side)])
    if encoder.grid:
        vectors = encoder.encode_cells(pixels, present)
    else:
        vectors = encoder.encode_prepared(with_blocks(pixels, present))
    similarity = vectors @ query
    hidden = ~present[1:]
    per_cell = hidden / hidden.sum(1, keepdims=True)
    weights = (similarity[0] - similarity[1:]) @ per_cell / per_cell.sum(0)
    return vectors[0], weights.reshape(side, side)


def heat_map(photograph: Image.Image, cells: Float[np.ndarray, "rows columns"]) -> Image.Image:
    """The photograph with what speaks for the match in a warm colour."""
    upright = upright_rgb(photograph)
    warm = np.maximum(cells, 0)
    if not np.isfinite(warm).all():
        raise BadData(
            "The weights of the cells are not finite. Expected numbers; check the model."
        )
    warm = warm / max(float(warm.max()), 1e-12)
    small = Image.fromarray((255 * warm).astype(np.uint8))
    smooth = small.resize(upright.size, Image.Resampling.BICUBIC)
    share = _SHINE * np.asarray(smooth, np.float32)[..., None] / 255
    mixed = np.asarray(upright, np.float32) * (1 - share) + _WARM * share
    return Image.fromarray(mixed.astype(np.uint8))


def with_blocks(pixels: np.ndarray, present: Present) -> np.ndarray:
    """The picture in several ways, with the blocks that are not there in grey."""
    edges = np.linspace(0, len(pixels), BLOCKS + 1).round().astype(int)
    rows = np.repeat(np.arange(BLOCKS), np.diff(edges))
    shown = present.reshape(-1, BLOCKS, BLOCKS)[:, rows][:, :, rows]
    return np.where(shown[..., None], pixels, np.asarray(_GREY, pixels.dtype))


def _is_function_word(word: str) -> bool:
    letters = "".join(letter for letter in word.lower() if letter.isalnum())
    return not letters or letters in FUNCTION_WORDS
