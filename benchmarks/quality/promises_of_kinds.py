"""Is a promise kept for names, and for descriptions, each for itself?

    python -m benchmarks.quality.promises_of_kinds [--cache DIR]

Over test photographs, in galleries of 30 to 1,800 of them:

    names           nouns of the captions that a picture of the gallery shows; one in four is a
                    name that none does, of these nouns or of ImageNet's classes
    descriptions    captions, each in a gallery with the photograph that it was written for and
                    in one without it (`benchmarks.quality.captions_elsewhere`)

What fits is what captions say (nouns), or drawn from the agreement with a picture's own
captions (`avow.study.relevance_labels`). An answer is wrong where none of the first ten fits.
Printed for each risk: the share that is answered and the share of these that is wrong, by the
promise of the kind and, beside it, by one promise about all questions. Nothing is fitted here.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from avow.blocks.imagenet_names import imagenet_names
from avow.core.contracts import Split
from avow.core.places import avow_home
from avow.data.opening import open_dataset
from avow.study import relevance_labels as fitting
from avow.study.short_queries import absent_names, noun_names, with_article
from avow.trust.held_out import Asked as Kind
from avow.trust.policy import Judgements, Policy
from avow.trust.probability import is_name
from benchmarks._lab import Lab
from benchmarks._report import commit, keep
from benchmarks.quality.captions_elsewhere import (
    CAPTIONS,
    GALLERIES,
    SEEDS,
    TEN,
    labels,
    some_others,
)
from benchmarks.quality.common_absent import Asked
from benchmarks.quality.first_answers import expert_curve, sentences
from benchmarks.quality.people import together
from benchmarks.quality.small_galleries import FEWEST, NOUNS

NAME = "promises_of_kinds"
SIZES = (30, 100, 300, 800, 1800)
RISKS = (0.05, 0.06, 0.1, 0.15, 0.2, 0.25)
ONE_IN = 4
"""Names is one that nothing shows."""


@dataclass(frozen=True)
class Told:
    """How sure some questions were over galleries of one size, and whether the hits fit."""

    kind: Kind
    sure: np.ndarray
    right: np.ndarray

    @classmethod
    def of(
        cls,
        kind: Kind,
        judged: Judgements,
        best: np.ndarray,
        match: np.ndarray,
        rows: np.ndarray,
    ) -> "Told":
        """rows: of the questions that were asked."""
        shown = np.take_along_axis(best, judged.order, 1)[:, :TEN]
        fits = np.take_along_axis(match[rows], shown, 1)
        return cls(kind, judged.present, np.asarray(fits.any(1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    lab = Lab(parser.parse_args().cache)
    policy = Policy.load(lab.encoder.home / "trust-text.json")
    curve, rows = expert_curve(lab), []
    for name, parts in GALLERIES.items():
        for row in over(lab, curve, policy, parts):
            rows.append({"photographs": name, **row})
            print(rows[-1], flush=True)
    about = {"commit": commit(), "seeds": list(SEEDS), "usual": dict(policy.usual_risks)}
    found = {**about, "rows": rows}
    print(f"-> {keep(NAME, found)}")


def over(
    lab: Lab, curve: fitting.FitCurve, policy: Policy, parts: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """For each size and kind, what every risk answers."""
    splits = [open_dataset(name).splits["test"] for name in parts]
    images = np.concatenate([
        lab.photographs(name, list(one.files or ()))
        for name, one in zip(parts, splits, strict=True)
    ])  # fmt: skip
    split = together(splits)
    names, descriptions = Names(lab, split, images), Descriptions(lab, curve, split, images)
    for size in (size for size in SIZES if size < len(images)):
        parts_told = [
            part
            for seed in SEEDS
            for part in (names.told(policy, size, seed), *descriptions.told(policy, size, seed))
        ]
        for kind in policy.kinds:
            some = [part for part in parts_told if part.kind == kind]
            sure, right = (
                np.concatenate([getattr(part, key) for part in some])
                for key in ("sure", "right")
            )
            yield {
                "size": size,
                "kind": kind,
                "asked": len(sure),
                "with_a_hit": round(float(right.mean()), 4),
                "own": by_risk(policy, sure, right, size, kind),
                "together": by_risk(policy, sure, right, size, "questions"),
            }


def by_risk(
    policy: Policy, sure: np.ndarray, right: np.ndarray, size: int, about: Kind
) -> dict[str, list[float] | None]:
    """Per risk the share that is answered, and the wrong share of that; None: no promise."""
    shares: dict[str, list[float] | None] = {}
    for risk in RISKS:
        promised = policy.promised(risk, size=size, asked=about)
        answered = promised.answers(sure)
        wrong = float(1 - right[answered].mean()) if answered.any() else 0.0
        kept = [round(float(answered.mean()), 4), round(wrong, 4)]
        shares[f"{risk:g}"] = None if promised.threshold is None else kept
    return shares


class Names:
    """Nouns of some photographs, and rare names."""

    def __init__(self, lab: Lab, split: Split, images: np.ndarray):
        said = noun_names(split, at_least=FEWEST, most=NOUNS)
        away = [with_article(one) for one in absent_names(imagenet_names(), split.captions)]
        few = np.random.default_rng(0).permutation(len(away))[: len(said.queries)]
        away = [away[row] for row in few]
        self.match = np.concatenate([said.match, np.zeros((len(away), len(images)), bool)])
        self.asked = Asked(lab, images, [*said.queries, *away])

    def told(self, policy: Policy, size: int, seed: int) -> Told:
        rng = np.random.default_rng([seed, size])
        luck = rng.random(self.match.shape)
        inside = np.argsort(np.argsort(luck, 1), 1) < size
        there = (self.match & inside).any(1)
        away = rng.permutation(np.flatnonzero(~there))[: there.sum() // (ONE_IN - 1)]
        rows = np.sort(np.append(np.flatnonzero(there), away))
        judged, _, best = self.asked.judged(policy, rows, inside[rows])
        return Told.of("names", judged, best, self.match & inside, rows)


class Descriptions:
    """Captions of some photographs, which ask with and without their own."""

    def __init__(self, lab: Lab, curve: fitting.FitCurve, split: Split, images: np.ndarray):
        chosen = np.sort(np.random.default_rng(0).permutation(len(split.captions))[:CAPTIONS])
        said = sentences(lab, list(split.captions), "elsewhere-test-")
        self.fits, self.own = labels(said, curve, split, chosen), split.image_of[chosen]
        self.asked = Asked(lab, images, [split.captions[row] for row in chosen])

    def told(self, policy: Policy, size: int, seed: int) -> Iterator[Told]:
        count = self.fits.shape[1]
        without = some_others(self.own, count, size, seed)
        match = fitting.drawn(self.fits, seed)
        own = self.own[:, None] == np.arange(count)[None]
        # what has one or two words is a name, whoever says it
        rows = np.flatnonzero(~is_name(self.asked.words))
        for inside in (without, without | own):
            judged, _, best = self.asked.judged(policy, rows, inside[rows])
            yield Told.of("descriptions", judged, best, match & inside, rows)


if __name__ == "__main__":
    main()
