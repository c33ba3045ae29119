"""Which words and which parts of the picture carried a match.

    similarity of the whole - similarity without the part = weight of the part

Nothing is looked up inside the network: a part is hidden, and the similarity is measured
again. A model of ours hides grid cells from its views, after the pixel network has run; any
other model is shown the picture with a block of pixels greyed out. All hidden variants of
one side are encoded together.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from avow.core.errors import BadData
from avow.core.photographs import upright_rgb
from avow.core.searching import Encoder
from avow.core.shapes import Float

BLOCKS = 7
"""Blocks per side that a picture is cut into where a model shows no cells of its own."""
_GREY = 127
_SHINE = 0.6  # how much of the strongest cell's colour hides the picture
_WARM = np.array([255, 70, 0], np.float32)


@dataclass(frozen=True)
class Explanation:
    """How much the similarity falls when a part is hidden; below 0 it rises."""

    words: list[tuple[str, float]]
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


def word_weights(
    encoder: Encoder, text: str, image: Float[np.ndarray, " dim"]
) -> list[tuple[str, float]]:
    """How much the similarity with an image falls without each word."""
    words = text.split()
    left = [" ".join(words[:place] + words[place + 1 :]) for place in range(len(words))]
    similarity = encoder.encode_texts([text, *left]) @ image
    return list(zip(words, (similarity[0] - similarity[1:]).tolist(), strict=True))


def cell_weights(
    encoder: Encoder, photograph: Image.Image, query: Float[np.ndarray, " dim"]
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "rows columns"]]:
    """The picture's vector, and how much the similarity falls without each part of it."""
    pixels = encoder.prepare(photograph)
    vectors = encoder.encode_without_cells(pixels)
    if vectors is None:
        vectors = encoder.encode_prepared(_without_blocks(pixels))
    side = math.isqrt(len(vectors) - 1)
    similarity = vectors @ query
    return vectors[0], (similarity[0] - similarity[1:]).reshape(side, side)


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


def _without_blocks(pixels: np.ndarray) -> np.ndarray:
    """The whole picture, then each time one block of it in grey."""
    edges = np.linspace(0, len(pixels), BLOCKS + 1).round().astype(int)
    variants = np.repeat(pixels[None], BLOCKS**2 + 1, axis=0)
    for number in range(BLOCKS**2):
        row, column = divmod(number, BLOCKS)
        across = slice(edges[column], edges[column + 1])
        variants[number + 1, edges[row] : edges[row + 1], across] = _GREY
    return variants
