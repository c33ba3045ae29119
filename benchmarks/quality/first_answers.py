"""Does trust tell good first answers from bad ones better than any single measure?

    python -m benchmarks.quality.first_answers [--cache DIR]

The shipped model over Flickr8k test and the first thousand photographs of COCO test; captions
ask. The first hit as a search shows it is good where it fits, as the agreement with a
picture's own captions says (`avow.study.relevance_labels`: every label is drawn with its
probability), or where it is the annotated photograph. Prints the AUROC of P(relevant), of every
feature of the first hit that P is made of, and of u = K / S, with the standard error over
redrawn queries, and the ratio of P to the best single measure.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.evidence import log_evidence, uncertainty
from avow.core.places import avow_home
from avow.data.judgements import FILE, read_judgements
from avow.data.opening import dataset_file, open_dataset
from avow.metrics.rejection import auroc
from avow.study import relevance_labels as fitting
from avow.trust.policy import Policy
from avow.trust.top_k import describe
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality.people import Asked, first

PHOTOGRAPHS, DRAWS, SEED = 1000, 200, 0
TRUST, UNCERTAINTY = "P(relevant)", "u = K / S"


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
            ours = measures[TRUST][0]
            best = max((key for key in measures if key != TRUST), key=lambda k: measures[k][0])
            print(
                f"{name:<9} {event:<9} {TRUST} {ours:.3f} ± {measures[TRUST][1]:.3f}; best "
                f"single measure {best!r} {measures[best][0]:.3f} "
                f"(x{ours / measures[best][0]:.2f})"
            )
    print(f"-> {keep('first_answers', {'seed': SEED, 'rows': rows})}")


def sentences(lab: Lab, captions: list[str]) -> np.ndarray:
    key = f"sentences-{len(captions)}"
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
    split = first(name, PHOTOGRAPHS)
    captions, images = list(split.captions), len(split.image_ids)
    said = sentences(lab, captions)
    agreed = fitting.agreement(said, said, split.image_of, images)
    fits = fitting.drawn(fitting.labels(agreed, curve, split.image_of), SEED)
    items = lab.photographs(name, list(split.files or ()))
    asked = Asked(lab, captions, items, fits)
    judged = asked.judged(policy)
    rows = np.arange(len(captions))
    best = asked.order[rows, judged.order[:, 0]]
    features = describe(asked.summary)[rows, judged.order[:, 0]]
    evidence = log_evidence(asked.scored.averaged, lab.encoder.tau, "exp")
    measures = {TRUST: judged.trust, UNCERTAINTY: -uncertainty(evidence)}
    measures |= dict(zip(asked.summary.names, features.T, strict=True))
    events = {"relevant": fits[rows, best], "right": best == split.image_of}
    return {
        "photographs": images,
        "queries": len(captions),
        "good": {event: float(good.mean()) for event, good in events.items()},
        "auroc": {
            event: {key: told_apart(values, good) for key, values in measures.items()}
            for event, good in events.items()
        },
    }


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
