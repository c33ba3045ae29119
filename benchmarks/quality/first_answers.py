"""Does trust tell good first answers from bad ones better than any single measure?

    python -m benchmarks.quality.first_answers [--cache DIR]

The shipped model over Flickr8k test and the first thousand photographs of COCO test; captions
ask. The first hit as a search shows it is good where it fits, as the agreement with a
picture's own captions says (`avow.study.relevance_labels`: every label is drawn with its
probability), or where it is the annotated photograph. Prints the AUROC of P(relevant) as the
shipped policy states it, of P fitted for either event to the first hits of the dev captions of
both datasets, of every feature of the first hit that P is made of, and of u = K / S, with the
standard error over redrawn queries, and the ratio of the fitted P to the best single measure.
`docs/notes/trust.md` has the other ways that were tried.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.core.datasets import Split
from avow.core.evidence import log_evidence, uncertainty
from avow.core.places import avow_home
from avow.data.judgements import FILE, read_judgements
from avow.data.opening import dataset_file, open_dataset
from avow.metrics.rejection import auroc
from avow.study import relevance_labels as fitting
from avow.study.human_agreement import STRICT
from avow.trust.policy import Policy
from avow.trust.probability import (
    Probability,
    fit_probability,
    names_with_words,
    with_words,
)
from avow.trust.top_k import describe
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality.people import Asked, first

DATASETS = ("flickr8k", "coco")
PHOTOGRAPHS, DRAWS, SEED = 1000, 200, 0
TRUST, UNCERTAINTY = "P(relevant)", "u = K / S"
FITTED = {"relevant": "P(relevant), fitted on dev", "right": "P(right), fitted on dev"}
"""For each event, what is fitted on dev captions for it alone."""
OURS = (TRUST, *FITTED.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policy = Policy.load(lab.encoder.home / "trust-text.json")
    curve = expert_curve(lab)
    found = {
        (name, part): Found.of(lab, policy, curve, name, part)
        for name in DATASETS
        for part in ("dev", "test")
    }
    fitted = {event: fit(event, [found[name, "dev"] for name in DATASETS]) for event in FITTED}
    rows = {name: dataset(lab, found[name, "test"], fitted) for name in DATASETS}
    for name, row in rows.items():
        for event, measures in row["auroc"].items():
            ours = measures[FITTED[event]]
            best = max((key for key in measures if key not in OURS), key=lambda k: measures[k])
            print(
                f"{name:<9} {event:<9} {TRUST} {measures[TRUST][0]:.3f}; {FITTED[event]} "
                f"{ours[0]:.3f} ± {ours[1]:.3f}; best single measure {best!r} "
                f"{measures[best][0]:.3f} (x{ours[0] / measures[best][0]:.2f})"
            )
    print(f"-> {keep('first_answers', {'seed': SEED, 'rows': rows})}")


def sentences(lab: Lab, captions: list[str], kind: str = "") -> np.ndarray:
    key = f"sentences-{kind}{len(captions)}"
    return lab.kept(key, lambda: fitting.sentence_vectors(captions))


def expert_curve(lab: Lab, at_least: int = STRICT) -> fitting.FitCurve:
    """Agreement to P(a person says it fits), from half of the experts' images.

    at_least: the score that experts gave what fits; LENIENT: with minor errors.
    """
    split = open_dataset("flickr8k").splits["test"]
    images = len(split.image_ids)
    said = sentences(lab, list(split.captions))
    agreed = fitting.agreement(said, said, split.image_of, images)
    pairs = read_judgements(dataset_file("flickr8k", FILE))
    judged = pairs.within(split.image_ids, split.image_of)
    return fitting.expert_curve(judged, agreed, fitting.expert_half(images), at_least)


@dataclass(frozen=True)
class Found:
    """The first hit of every caption of a split, as a search shows it."""

    asked: Asked
    photographs: int
    trust: Float[np.ndarray, " captions"]
    features: Float[np.ndarray, "captions features"]
    good: dict[str, Bool[np.ndarray, " captions"]]
    image_of: Int[np.ndarray, " captions"]

    @classmethod
    def of(
        cls, lab: Lab, policy: Policy, curve: fitting.FitCurve, name: str, part: str
    ) -> "Found":
        split = first(name, PHOTOGRAPHS, part)
        asked = answered(lab, curve, name, part, split)
        judged, rows = asked.judged(policy), np.arange(len(asked.texts))
        shown = judged.order[:, 0]
        best = asked.order[rows, shown]
        good = {"relevant": asked.match[rows, best], "right": best == split.image_of}
        features = describe(asked.summary)[rows, shown]
        photographs = len(split.image_ids)
        return cls(asked, photographs, judged.trust, features, good, np.array(split.image_of))

    @property
    def named(self) -> tuple[str, ...]:
        return names_with_words(self.asked.summary.names)

    @property
    def seen(self) -> Float[np.ndarray, "captions more"]:
        """The features, the length of the query and their products with it."""
        return with_words(self.features[:, None], self.asked.words)[:, 0]


def fit(event: str, parts: Sequence[Found]) -> Probability:
    """P that the first hit is good, from captions whose first hits are known."""
    starts = np.cumsum([0, *(one.photographs for one in parts)])
    return fit_probability(
        event,
        parts[0].named,
        np.concatenate([one.seen for one in parts]),
        np.concatenate([one.good[event] for one in parts]),
        np.concatenate([np.full(len(one.seen), one.photographs) for one in parts]),
        np.concatenate(
            [one.image_of + start for one, start in zip(parts, starts, strict=False)]
        ),
    )


def dataset(lab: Lab, found: Found, fitted: dict[str, Probability]) -> dict[str, Any]:
    asked = found.asked
    evidence = log_evidence(asked.scored.averaged, lab.encoder.tau, "exp")
    measures = {TRUST: found.trust, UNCERTAINTY: -uncertainty(evidence)}
    measures |= dict(zip(asked.summary.names, found.features.T, strict=True))
    for event, label in FITTED.items():
        measures[label] = fitted[event](found.seen, found.photographs)
    return {
        "photographs": found.photographs,
        "queries": len(found.trust),
        "good": {event: float(good.mean()) for event, good in found.good.items()},
        "auroc": {
            event: {
                key: told_apart(values, good)
                for key, values in measures.items()
                if key not in FITTED.values() or key == FITTED[event]
            }
            for event, good in found.good.items()
        },
    }


def answered(lab: Lab, curve: fitting.FitCurve, name: str, part: str, split: Split) -> Asked:
    """The captions of a split, asked of its photographs; a match is what fits."""
    fits = relevant(lab, split, curve, "" if part == "test" else f"{name}-{part}-")
    items = lab.photographs(name, list(split.files or ()), part)
    return Asked(lab, list(split.captions), items, fits)


def relevant(
    lab: Lab, split: Split, curve: fitting.FitCurve, kind: str = ""
) -> Bool[np.ndarray, "captions photographs"]:
    """Whether a person would say that a photograph fits a caption, drawn by chance."""
    said = sentences(lab, list(split.captions), kind)
    agreed = fitting.agreement(said, said, split.image_of, len(split.image_ids))
    return fitting.drawn(fitting.labels(agreed, curve, split.image_of), SEED)


def told_apart(measure: np.ndarray, good: np.ndarray) -> tuple[float, float]:
    """AUROC, and its standard error over redrawn queries; small values may be the good ones."""
    value = auroc(measure[good], measure[~good])
    if value < 0.5:
        measure, value = -measure, 1 - value
    rng, drawn = np.random.default_rng(SEED), []
    for _ in range(DRAWS):
        rows = rng.integers(0, len(good), len(good))
        own = good[rows]
        drawn.append(auroc(measure[rows][own], measure[rows][~own]))
    return float(value), float(np.std(drawn))


if __name__ == "__main__":
    main()
