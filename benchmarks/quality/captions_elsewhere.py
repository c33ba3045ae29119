"""Captions whose own photograph is not among the pictures: do the numbers come true?

    python -m benchmarks.quality.captions_elsewhere [--split dev] [--before POLICY]

People do not always describe a picture of the gallery that they search. Captions of the test
split ask here over photographs of the same dataset, and of both together, without the one that
they were written for, and once more with it; each caption has galleries of its own. What fits
is told by the agreement with a picture's own captions (`avow.study.relevance_labels`): every
label is drawn with its probability. Printed: how often the shipped policy answers, how often
none of the first ten fits then, how often it refuses, what is stated of the first ten, together
and one by one, and what is true, and the AUROC of "one of them fits". `--before`: the same by
another policy. `dev` has no place in the results: a policy is fitted with it and chosen by it.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.contracts import Split
from avow.core.places import avow_home
from avow.data.opening import open_dataset
from avow.metrics.rejection import auroc
from avow.study import relevance_labels as fitting
from avow.trust.policy import Policy
from benchmarks._lab import Lab
from benchmarks._report import commit, keep
from benchmarks.quality.common_absent import BEFORE, POLICY, Asked
from benchmarks.quality.first_answers import expert_curve, sentences
from benchmarks.quality.people import together

NAME = "captions_elsewhere"
GALLERIES = {
    "flickr8k": ("flickr8k",),
    "coco": ("coco",),
    "both": ("flickr8k", "coco"),
}
SIZES, CAPTIONS, SEEDS, TEN = (100, 300, 800, 1800), 1500, (0, 1, 2), 10
WITHOUT, WITH = "without", "with"
"""The photograph that a caption was written for."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument("--split", choices=("test", "dev"), default="test")
    parser.add_argument("--before", type=Path, help="a policy to compare with")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policies = {POLICY: Policy.load(lab.encoder.home / "trust-text.json")}
    if chosen.before:
        policies[BEFORE] = Policy.load(chosen.before)
    curve, rows = expert_curve(lab), []
    for name, parts in GALLERIES.items():
        for row in over(lab, curve, policies, parts, chosen.split):
            rows.append({"photographs": name, **row})
            print(rows[-1], flush=True)
    if chosen.split == "test":
        print(f"-> {keep(NAME, {'commit': commit(), 'seeds': list(SEEDS), 'rows': rows})}")


def over(
    lab: Lab,
    curve: fitting.FitCurve,
    policies: dict[str, Policy],
    parts: tuple[str, ...],
    split: str,
) -> list[dict[str, Any]]:
    """A row for each size that leaves some photographs out."""
    splits = [open_dataset(name).splits[split] for name in parts]
    images = np.concatenate([
        lab.photographs(name, list(one.files or ()), split)
        for name, one in zip(parts, splits, strict=True)
    ])  # fmt: skip
    every = together(splits)
    chosen = np.sort(np.random.default_rng(0).permutation(len(every.captions))[:CAPTIONS])
    said = sentences(lab, list(every.captions), f"elsewhere-{split}-")
    fits, own = labels(said, curve, every, chosen), every.image_of[chosen]
    asked = Asked(lab, images, [every.captions[row] for row in chosen])
    is_own = own[:, None] == np.arange(len(images))[None]
    found = []
    for size in (size for size in SIZES if size < len(images)):
        cells: dict[str, list[dict[str, Any]]] = {name: [] for name in policies}
        for seed in SEEDS:
            inside = some_others(own, len(images), size, seed)
            match = fitting.drawn(fits, seed)
            for name, policy in policies.items():
                cells[name].append({
                    WITHOUT: told(asked, policy, inside, match),
                    WITH: told(asked, policy, inside | is_own, match),
                })  # fmt: skip
        found.append({"size": size, **{name: over_seeds(row) for name, row in cells.items()}})
    return found


def labels(
    said: np.ndarray, curve: fitting.FitCurve, split: Split, chosen: np.ndarray
) -> np.ndarray:
    """P that people say a photograph fits, for some captions and all photographs."""
    agreed = fitting.agreement(said[chosen], said, split.image_of, len(split.image_ids))
    return fitting.labels(agreed, curve, split.image_of[chosen])


def some_others(own: np.ndarray, images: int, size: int, seed: int) -> np.ndarray:
    """For each caption a gallery without its own photograph."""
    # labels are drawn with the same seed: what is drawn there must not say what is drawn here
    luck = np.random.default_rng([seed, size]).random((len(own), images))
    luck[np.arange(len(own)), own] = 2.0
    return np.argsort(np.argsort(luck, 1), 1) < size


def told(
    asked: Asked, policy: Policy, inside: np.ndarray, match: np.ndarray
) -> dict[str, float]:
    judged, _, best = asked.judged(policy, np.arange(len(inside)), inside)
    shown = np.take_along_axis(best, judged.order, 1)[:, :TEN]
    fits = np.take_along_axis(match, shown, 1)
    verdicts, right = np.array(judged.verdicts), np.asarray(fits.any(1))
    answered, refused = verdicts == "answer", verdicts == "nothing found"
    return {
        "answered": float(answered.mean()),
        "wrong": float(1 - right[answered].mean()),
        "refused": float(refused.mean()),
        "refused_of_fitting": float(refused[right].mean()),
        "stated_of_ten": float(judged.present.mean()),
        "true_of_ten": float(right.mean()),
        "stated": float(judged.probability[:, :TEN].mean()),
        "true": float(fits.mean()),
        "auroc": auroc(judged.present[right], judged.present[~right]),
    }


def over_seeds(cells: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The means."""
    return {
        kind: {
            key: round(float(np.mean([cell[kind][key] for cell in cells])), 4)
            for key in cells[0][kind]
        }
        for kind in cells[0]
    }


if __name__ == "__main__":
    main()
