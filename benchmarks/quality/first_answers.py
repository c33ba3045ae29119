"""Does trust tell good first answers from bad ones better than any single measure?

    python -m benchmarks.quality.first_answers [--cache DIR]

The shipped model over Flickr8k test and the first thousand photographs of COCO test; captions
ask. The first hit as a search shows it is good where it fits, as the agreement with a
picture's own captions says (`avow.study.relevance_labels`: every label is drawn with its
probability), or where it is the annotated photograph. Prints the AUROC of P(relevant) as the
shipped policy states it, of P fitted for either event on dev captions of the same dataset, of
every feature of the first hit that P is made of, and of u = K / S, with the standard error over
redrawn queries, and the ratio of the fitted P to the best single measure.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from avow.core.datasets import Split
from avow.core.evidence import log_evidence, uncertainty
from avow.core.places import avow_home
from avow.data.judgements import FILE, read_judgements
from avow.data.opening import dataset_file, open_dataset
from avow.metrics.rejection import auroc
from avow.study import relevance_labels as fitting
from avow.trust.gallery_sampling import Hits, fit_hits, predict
from avow.trust.policy import Policy
from avow.trust.top_k import describe
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality.people import Asked, first

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
    rows = {name: dataset(lab, policy, curve, name) for name in ("flickr8k", "coco")}
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


def expert_curve(lab: Lab) -> fitting.FitCurve:
    """Agreement to P(a person says it fits), from half of the experts' images."""
    split = open_dataset("flickr8k").splits["test"]
    images = len(split.image_ids)
    said = sentences(lab, list(split.captions))
    agreed = fitting.agreement(said, said, split.image_of, images)
    pairs = read_judgements(dataset_file("flickr8k", FILE))
    judged = pairs.within(split.image_ids, split.image_of)
    return fitting.expert_curve(judged, agreed, fitting.expert_half(images))


def dataset(lab: Lab, policy: Policy, curve: fitting.FitCurve, name: str) -> dict[str, Any]:
    splits = {part: first(name, PHOTOGRAPHS, part) for part in ("dev", "test")}
    both = {part: answered(lab, curve, name, part, split) for part, split in splits.items()}
    asked, split = both["test"], splits["test"]
    judged = asked.judged(policy)
    rows, shown = np.arange(len(asked.texts)), judged.order[:, 0]
    best = asked.order[rows, shown]
    features = describe(asked.summary)[rows, shown]
    evidence = log_evidence(asked.scored.averaged, lab.encoder.tau, "exp")
    measures = {TRUST: judged.trust, UNCERTAINTY: -uncertainty(evidence)}
    measures |= dict(zip(asked.summary.names, features.T, strict=True))
    events = {"relevant": asked.match[rows, best], "right": best == split.image_of}
    for event, label in FITTED.items():
        learnt, test = (described(both[part], event, splits[part]) for part in ("dev", "test"))
        stated = predict(fit_hits(event, learnt), test.features, test.gallery)
        measures[label] = stated[rows, shown]
    return {
        "photographs": len(split.image_ids),
        "queries": len(rows),
        "good": {event: float(good.mean()) for event, good in events.items()},
        "auroc": {
            event: {
                key: told_apart(values, good)
                for key, values in measures.items()
                if key not in FITTED.values() or key == FITTED[event]
            }
            for event, good in events.items()
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


def described(asked: Asked, event: str, split: Split) -> Hits:
    """The best hits of every caption as features, and whether each is good."""
    features, order = describe(asked.summary), asked.order
    good = (
        np.take_along_axis(asked.match, order, 1)
        if event == "relevant"
        else order == split.image_of[:, None]
    )
    rows = np.arange(len(order))
    size = np.full(len(order), len(split.image_ids))
    return Hits(asked.summary.names, features, good, size, split.image_of, rows)


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
