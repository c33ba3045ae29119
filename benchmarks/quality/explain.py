"""Do explanations hold: does a match fall when what they call important is taken away?

    python -m benchmarks.quality.explain [--split dev --pairs 60] [--workers 3]

For pairs of Flickr8k that belong together, the default model explains the match. The cells and
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

FEW, MANY = 4, 9
"""Cells, of thirty-six, that are taken away at once."""
AWAY = {"two_words": 2, "three_words": 3}
"""Words, of a caption. Avow hides two at a time itself, and no way hides three."""
BLUR = 24
WAYS = ("avow", "one_by_one", "random")
KEYS = ("few_cells", "many_cells", *AWAY)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--split", default="test")
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    count = len(open_dataset("flickr8k").splits[chosen.split].captions)
    drawn = np.random.default_rng(0).permutation(count)[: chosen.pairs].tolist()
    jobs = [(chosen.split, number) for number in drawn]
    with get_context("spawn").Pool(chosen.workers) as pool:
        rows = list(tqdm(pool.imap(row_of, jobs), total=len(jobs)))
    figures = {
        "commit": commit(),
        "command": "python -m benchmarks.quality.explain",
        "split": chosen.split,
        "pairs": len(rows),
        "few": FEW,
        "many": MANY,
        "words_away": AWAY,
        **{name: compared(rows, name) for name in KEYS},
    }
    for name in KEYS:
        told = figures[name]
        print(
            f"{name}: falls by {told['avow']:.4f}; one by one {told['one_by_one']:.4f} "
            f"(x{told['ratio_one_by_one']:.2f}), random {told['random']:.4f} "
            f"(x{told['ratio_random']:.2f}); more than one by one in {told['wins']:.0%}"
        )
    if chosen.split == "test":
        print(f"-> {keep('explain', figures)}")


@cache
def opened(split: str) -> tuple[Encoder, Any]:
    return open_encoder(), open_dataset("flickr8k").splits[split]


def row_of(job: tuple[str, int]) -> dict[str, list[float]]:
    """One pair, with its number as seed."""
    name, number = job
    encoder, split = opened(name)
    with Image.open(split.files[int(split.image_of[number])]) as photograph:
        return judged(encoder, split.captions[number], photograph, number)


def judged(
    encoder: Encoder, caption: str, photograph: Image.Image, seed: int
) -> dict[str, list[float]]:
    """How far the similarity falls without the parts that each way calls important."""
    query = encoder.encode_texts([caption])[0]
    pixels = encoder.prepare(photograph)
    whole, cells = cell_weights(encoder, photograph, query)
    count = encoder.grid**2
    single = np.concatenate([np.ones((1, count)), 1 - np.eye(count)]).astype(bool)
    hidden = encoder.encode_cells(pixels, single) @ query
    rng = np.random.default_rng(seed)
    orders = [-cells.ravel(), hidden[1:] - hidden[0], rng.random(count)]
    blurred = np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(BLUR)))
    first = [np.argsort(order)[:away] for away in (FEW, MANY) for order in orders]
    variants = np.stack([without(pixels, blurred, chosen, encoder.grid) for chosen in first])
    fallen = (whole @ query - encoder.encode_prepared(variants) @ query).tolist()
    row = {"few_cells": fallen[: len(WAYS)], "many_cells": fallen[len(WAYS) :]}
    return row | words_fallen(encoder, caption, whole, rng)


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
    encoder: Encoder, caption: str, image: np.ndarray, rng: np.random.Generator
) -> dict[str, list[float]]:
    """The same with the first words of each way left out; one by one may choose any."""
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
        for away in AWAY.values()
        for order in orders
    ]
    falls = alone[0] - encoder.encode_texts([text or "a" for text in texts]) @ image
    return dict(zip(AWAY, falls.reshape(len(AWAY), -1).tolist(), strict=True))


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
