"""Do explanations hold: does a match fall when what they call important is taken away?

    python -m benchmarks.quality.explain [--split dev --pairs 60] [--workers 3]
    python -m benchmarks.quality.explain --words

For pairs of Flickr8k that belong together, the default model explains the match. The cells or
the words with the largest weights are then taken away: cells by blurring their pixels, which no
way of explaining does itself, and words by leaving them out of the caption. Prints by how much
the similarity falls, beside hiding one part at a time (as Avow did before) and beside parts
drawn at random, and the ratios of the falls.
"""

import argparse
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np
from PIL import Image, ImageFilter
from tqdm import tqdm

from avow.core.searching import Encoder
from avow.data.opening import open_dataset
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.explain import cell_weights, word_weights
from benchmarks._report import commit, keep

CELLS = {"few_cells": 4, "many_cells": 9}
"""Cells, of thirty-six, that are taken away at once."""
WORDS = {"two_words": 2, "three_words": 3}
"""Words, of a caption. Avow hides two at a time itself, and no way hides three."""
BLUR = 24
WAYS = ("avow", "one_by_one", "random")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--split", default="test")
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--words", action="store_true", help="take words away, not cells")
    chosen = parser.parse_args()
    count = len(open_dataset("flickr8k").splits[chosen.split].captions)
    drawn = np.random.default_rng(0).permutation(count)[: chosen.pairs].tolist()
    jobs = [(chosen.split, number, chosen.words) for number in drawn]
    with get_context("spawn").Pool(chosen.workers) as pool:
        rows = list(tqdm(pool.imap(row_of, jobs), total=len(jobs)))
    command = "python -m benchmarks.quality.explain"
    away = WORDS if chosen.words else CELLS
    figures: dict[str, Any] = {
        "commit": commit(),
        "command": f"{command} --words" if chosen.words else command,
        "split": chosen.split,
        "pairs": len(rows),
        "away": away,
        **{name: compared(rows, name) for name in away},
    }
    for name in away:
        told = figures[name]
        print(
            f"{name}: falls by {told['avow']:.4f}; one by one {told['one_by_one']:.4f} "
            f"(x{told['ratio_one_by_one']:.2f}), random {told['random']:.4f} "
            f"(x{told['ratio_random']:.2f}); more than one by one in {told['wins']:.0%}"
        )
    if chosen.split == "test":
        print(f"-> {keep('explain_words' if chosen.words else 'explain', figures)}")


@cache
def opened(split: str) -> tuple[Encoder, Any]:
    return open_encoder(), open_dataset("flickr8k").splits[split]


def row_of(job: tuple[str, int, bool]) -> dict[str, list[float]]:
    """How far the similarity of a pair falls; its number is the seed."""
    name, number, words = job
    encoder, split = opened(name)
    fallen = words_fallen if words else cells_fallen
    with Image.open(split.files[int(split.image_of[number])]) as photograph:
        rng = np.random.default_rng(number)
        return fallen(encoder, split.captions[number], photograph, rng)


def cells_fallen(
    encoder: Encoder, caption: str, photograph: Image.Image, rng: np.random.Generator
) -> dict[str, list[float]]:
    """Without the cells that each way calls important."""
    query = encoder.encode_texts([caption])[0]
    pixels = encoder.prepare(photograph)
    whole, cells = cell_weights(encoder, photograph, query)
    count = encoder.grid**2
    single = np.concatenate([np.ones((1, count)), 1 - np.eye(count)]).astype(bool)
    hidden = encoder.encode_cells(pixels, single) @ query
    orders = [-cells.ravel(), hidden[1:] - hidden[0], rng.random(count)]
    blurred = np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(BLUR)))
    first = [np.argsort(order)[:away] for away in CELLS.values() for order in orders]
    variants = np.stack([without(pixels, blurred, chosen, encoder.grid) for chosen in first])
    falls = whole @ query - encoder.encode_prepared(variants) @ query
    return by_key(CELLS, falls)


def by_key(keys: dict[str, int], falls: np.ndarray) -> dict[str, list[float]]:
    return dict(zip(keys, falls.reshape(len(keys), -1).tolist(), strict=True))


def without(
    pixels: np.ndarray, blurred: np.ndarray, cells: np.ndarray, grid: int
) -> np.ndarray:
    edges = np.linspace(0, len(pixels), grid + 1).round().astype(int)
    shown = pixels.copy()
    for cell in cells.tolist():
        row, column = divmod(cell, grid)
        place = slice(edges[row], edges[row + 1]), slice(edges[column], edges[column + 1])
        shown[place] = blurred[place]
    return shown


def words_fallen(
    encoder: Encoder, caption: str, photograph: Image.Image, rng: np.random.Generator
) -> dict[str, list[float]]:
    """Without the first words of each way; one by one may choose any."""
    image = encoder.encode_images([photograph])[0]
    words = caption.split()
    weights = [weight for _, weight in word_weights(encoder, caption, image)]
    ours = [-np.inf if weight is None else weight for weight in weights]
    left = [" ".join(words[:place] + words[place + 1 :]) for place in range(len(words))]
    alone = encoder.encode_texts([caption, *left]) @ image
    drawn = rng.permutation(
        [place for place, weight in enumerate(weights) if weight is not None]
    )
    orders = (np.argsort(ours)[::-1], np.argsort(alone[1:]), drawn)
    texts = [
        " ".join(word for place, word in enumerate(words) if place not in order[:away])
        for away in WORDS.values()
        for order in orders
    ]
    falls = alone[0] - encoder.encode_texts([text or "a" for text in texts]) @ image
    return by_key(WORDS, falls)


def compared(rows: list[dict[str, list[float]]], key: str) -> dict[str, Any]:
    falls = np.array([row[key] for row in rows])
    means = dict(zip(WAYS, falls.mean(0).tolist(), strict=True))
    error = float((falls[:, 0] - falls[:, 1]).std(ddof=1) / len(falls) ** 0.5)
    return means | {
        "pairs": len(falls),
        "ratio_one_by_one": means["avow"] / max(means["one_by_one"], 1e-9),
        "ratio_random": means["avow"] / max(means["random"], 1e-9),
        "wins": float((falls[:, 0] > falls[:, 1]).mean()),
        "difference_error": error,
    }


if __name__ == "__main__":
    main()
