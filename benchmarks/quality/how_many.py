"""How far off is "about N pictures fit" for nouns, over photographs that nothing was fitted on?

    python -m benchmarks.quality.how_many [--cache DIR] [--before trust-text.json]

900 test photographs of Flickr8k, as many of COCO, and both together: sizes that the policy was
fitted for, as what is larger is counted in parts (`benchmarks.quality.large_galleries`).
Asked: up to 400 nouns that the captions of five photographs or more say ("a dog"), and names of
ImageNet's classes that no caption has. The true number is that of photographs whose captions
say the noun, so what captions leave out counts as an error. Some of the nouns were asked over
dev photographs when the policy was fitted. Beside the shipped policy the one of `--before`.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from avow.blocks.imagenet_names import imagenet_names
from avow.core.places import avow_home
from avow.study.short_queries import absent_names, noun_names, with_article
from avow.trust.counting import behind
from avow.trust.policy import Policy
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality.people import Asked, first, together

NAME = "how_many"
NOUNS, PHOTOGRAPHS = 400, 900
ENCODED = 1000
"""Photographs of `people`, whose vectors are kept."""
GALLERIES = (("flickr8k",), ("coco",), ("flickr8k", "coco"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument("--before", type=Path, help="a policy to show beside the shipped one")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policies = {"shipped": Policy.load(lab.encoder.home / "trust-text.json")}
    if chosen.before:
        policies["before"] = Policy.load(chosen.before)
    rows: dict[str, Any] = {}
    for names in GALLERIES:
        split = together([first(name, PHOTOGRAPHS) for name in names])
        encoded = [lab.photographs(n, list(first(n, ENCODED).files or ())) for n in names]
        images = np.concatenate([some[:PHOTOGRAPHS] for some in encoded])
        said = noun_names(split, at_least=5, most=NOUNS)
        away = [with_article(one) for one in absent_names(imagenet_names(), split.captions)]
        there = Asked(lab, list(said.queries), images, said.match)
        gone = Asked(lab, away, images, np.zeros((len(away), len(images)), bool))
        key = "+".join(names)
        rows[key] = {
            name: {"nouns": of_nouns(policy, there), "absent": of_absent(policy, gone)}
            for name, policy in policies.items()
        }
        print(key, rows[key], sep="\n  ", flush=True)
    print("->", keep(NAME, {"galleries": rows}))


def of_nouns(policy: Policy, asked: Asked) -> dict[str, float]:
    """The factor that the stated number is off by, and how often its interval holds."""
    expected, low, high = counted(policy, asked)
    true = asked.match.sum(1)
    off = np.log2((expected + 0.5) / (true + 0.5))
    return {
        "asked": len(true),
        "median": float(2 ** np.median(abs(off))),
        "nine_in_ten": float(2 ** np.quantile(abs(off), 0.9)),
        "too_many": float(2 ** off.mean()),
        "inside": float(((low <= true) & (true <= high)).mean()),
    }


def of_absent(policy: Policy, asked: Asked) -> dict[str, float]:
    expected, _, _ = counted(policy, asked)
    return {
        "asked": len(expected),
        "median": float(np.median(expected)),
        "nine_in_ten": float(np.quantile(expected, 0.9)),
    }


def counted(policy: Policy, asked: Asked) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    reading = policy.read(asked.summary, asked.words, asked.common, asked.vectors)
    number = policy.number(reading, behind(asked.scored, asked.order))
    assert number is not None
    return number.expected, number.low, number.high


if __name__ == "__main__":
    main()
