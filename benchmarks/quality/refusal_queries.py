"""Draw the queries that have no match in a gallery, before anything is fitted to them.

    python -m benchmarks.quality.refusal_queries

Names of COCO's objects and of ImageNet's classes none of whose words any caption of the
gallery has; names that mean almost the same as such a word are left out too. Half of the
hundred are near (of the third that means most nearly what is there), half far (of the
third that means it least). Writes benchmarks/quality/refusal_queries.json, with what can be
answered beside it: nouns for the sample, phrases of the captions for Flickr8k.
"""

import json
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import normalize

from avow.backbones import minilm
from avow.blocks.imagenet_names import imagenet_names
from avow.data.nouns import FUNCTION, stem
from avow.data.opening import dataset_file, open_dataset
from avow.data.words import word_tokenize
from avow.study.short_queries import absent_names, phrases, read_objects

SEED, EACH, SAME = 20261115, 50, 0.6
NOUNS = {
    "a cat": "chelsea", "a tabby cat": "chelsea", "an astronaut": "astronaut",
    "a woman in a space suit": "astronaut", "a cup of coffee": "coffee", "coffee": "coffee",
    "a rocket launch": "rocket", "a rocket": "rocket", "a motorcycle": "motorcycle_left",
    "a motorbike in a garage": "motorcycle_left", "stars and galaxies": "hubble_deep_field",
    "deep space": "hubble_deep_field", "a Chinese temple": "china", "a pagoda": "china",
    "a yellow flower": "flower", "a flower": "flower", "coins": "coins",
    "old coins": "coins", "the moon": "moon", "moon craters": "moon", "grass": "grass",
    "gravel": "gravel", "small stones": "gravel", "bricks": "brick",
    "a brick wall": "brick", "a man with a camera": "camera", "a photographer": "camera",
    "a retina": "retina", "the inside of an eye": "retina", "a page of a book": "page",
    "printed text": "page", "handwriting": "text", "formulas on paper": "text",
    "cells under a microscope": "ihc",
}  # fmt: skip
OTHERS = "horse clock colour wheel chess board cell logo phantom brain retina animation film"
"""What the photographs of the sample's packages show that have no captions of ours."""


def main() -> None:
    galleries, flickr = captions_of(), open_dataset("flickr8k")
    said = phrases(flickr.splits["test"], at_least=3, most=200)
    answerable: dict[str, dict[str, list[str] | str]] = {
        "sample": {**NOUNS},
        "flickr8k": {
            query: [flickr.splits["test"].image_ids[place] for place in np.flatnonzero(row)]
            for query, row in zip(said.queries, said.match, strict=True)
        },
    }
    answerable["mixed"] = {**NOUNS, **answerable["flickr8k"]}
    out = {
        name: {"absent": absent(captions), "answerable": answerable[name]}
        for name, captions in galleries.items()
    }
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(out, indent=1))
    for name, lists in out.items():
        print(f"{name}: {len(lists['answerable'])} with an answer; without, for example:")
        print("  near", lists["absent"]["near"][:5], "far", lists["absent"]["far"][:5])


def captions_of() -> dict[str, list[str]]:
    """What is said of the photographs of each gallery."""
    sample, flickr = open_dataset("sample"), open_dataset("flickr8k")
    own = [*sample.splits["train"].captions, *sample.splits["test"].captions, OTHERS]
    others = list(flickr.splits["test"].captions)
    return {"sample": own, "flickr8k": others, "mixed": own + others}


def absent(captions: list[str]) -> dict[str, list[str]]:
    """Fifty near and fifty far names that no caption speaks of."""
    names = away(captions)
    third, rng = len(names) // 3, np.random.default_rng(SEED)
    return {
        kind: sorted(part[place] for place in rng.permutation(len(part))[:EACH])
        for kind, part in (("near", names[:third]), ("far", names[-third:]))
    }


def away(captions: list[str]) -> list[str]:
    """All names that no caption speaks of, first those nearest to what they do speak of."""
    objects = read_objects(dataset_file("coco", "objects_dev.json"))
    names = sorted({*(name for held in objects.values() for name in held), *imagenet_names()})
    there = {stem(w) for text in captions for w in word_tokenize(text.lower())} - FUNCTION
    free = absent_names(names, captions)
    words = sorted(word for word in there if word.isalpha())
    near = (vectors(free) @ vectors(words).T).amax(1).numpy()
    order = np.argsort(-near)
    return [_spoken(free[place]) for place in order if near[place] < SAME]


def vectors(texts: list[str]) -> torch.Tensor:
    states, present = minilm.build().states(texts)
    return normalize((states * present[..., None]).sum(1) / present.sum(1, keepdim=True), dim=1)


def _spoken(name: str) -> str:
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


if __name__ == "__main__":
    main()
