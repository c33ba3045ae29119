"""Would another curve from agreement to "a person says it fits" be better than a logistic one?

    python -m benchmarks.quality.label_curves [--cache DIR]

The labels that trust is fitted with come from a logistic curve (`avow.study.relevance_labels`)
over pairs that experts judged, on half of the judged images. Here other monotone curves of the
same pairs: beta calibration, a quadratic and a cubic spline inside the logistic, isotonic
regression, and the mean of that with the logistic. Last, a logistic one that reads the shipped
model's relative evidence of the pair beside the agreement. Printed: the log loss of each on
images that it was not fitted on (ten folds, ten times dealt anew), its ratio to the logistic
one, and P stated beside the share that experts call fitting. Only the half of the images is
read that may be fitted on.

Papers: Kull, Silva Filho, Flach, "Beta calibration", AISTATS 2017; Zadrozny, Elkan,
"Transforming classifier scores into accurate multiclass probability estimates", KDD 2002
(isotonic regression).
"""

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from avow.core.places import avow_home
from avow.data.judgements import FILE, read_judgements
from avow.data.opening import dataset_file, open_dataset
from avow.retrieval.forms import one_form
from avow.study.human_agreement import STRICT
from avow.study.relevance_labels import agreement, expert_half
from avow.trust.top_k import relative_evidence
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality.first_answers import sentences
from benchmarks.quality.labels import BINS

FOLDS, TIMES, LEAST = 10, 10, 1e-4
Curve = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Agreement and truth of fitted pairs, agreement of others: P of the others."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    chosen = parser.parse_args()
    agreed, evidence, fits, image = judged_pairs(Lab(chosen.cache))
    rows = {name: measured(curve, agreed, fits, image) for name, curve in CURVES.items()}
    both = np.stack([agreed, evidence], 1)
    rows["logistic, and the model's evidence"] = measured(two_columns, both, fits, image)
    plain = rows["logistic"]["loss"]
    for name, row in rows.items():
        print(
            f"{name:<30} log loss {row['loss']:.1f} (x{row['loss'] / plain:.3f}) {row['bins']}"
        )
    counts = {"pairs": len(fits), "fitting": int(fits.sum())}
    print(f"-> {keep('label_curves', {**counts, 'rows': rows})}")


def judged_pairs(lab: Lab) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Agreement, evidence, the experts' word and the image of each pair to be fitted on."""
    split = open_dataset("flickr8k").splits["test"]
    images = len(split.image_ids)
    said = sentences(lab, list(split.captions))
    agreed = agreement(said, said, split.image_of, images)
    pairs = read_judgements(dataset_file("flickr8k", FILE))
    judged = pairs.within(split.image_ids, split.image_of)
    rows = expert_half(images)[judged.image] & ~judged.own
    text, image = judged.text[rows], judged.image[rows]
    photographs = lab.photographs("flickr8k", list(split.files or ()))
    texts = lab.texts([one_form(caption) for caption in split.captions])
    similarity = lab.similarity(texts, photographs)
    evidence = relative_evidence(similarity, lab.usual(photographs), lab.encoder.tau)
    value = agreed[text, image].astype(np.float64)
    return value, evidence[text, image], judged.called(STRICT)[rows], image


def logistic(agreed: np.ndarray, fits: np.ndarray, others: np.ndarray) -> np.ndarray:
    model = LogisticRegression(C=1e6).fit(agreed[:, None], fits)
    return model.predict_proba(others[:, None])[:, 1]


def two_columns(both: np.ndarray, fits: np.ndarray, others: np.ndarray) -> np.ndarray:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1e6)).fit(both, fits)
    return model.predict_proba(others)[:, 1]


def beta(agreed: np.ndarray, fits: np.ndarray, others: np.ndarray) -> np.ndarray:
    def columns(values: np.ndarray) -> np.ndarray:
        inside = np.clip(values, 1e-3, 1 - 1e-3)
        return np.stack([np.log(inside), -np.log1p(-inside)], 1)

    model = LogisticRegression(C=1e6).fit(columns(agreed), fits)
    return model.predict_proba(columns(others))[:, 1]


def quadratic(agreed: np.ndarray, fits: np.ndarray, others: np.ndarray) -> np.ndarray:
    one, other = (np.stack([values, values**2], 1) for values in (agreed, others))
    return LogisticRegression(C=1e6, max_iter=1000).fit(one, fits).predict_proba(other)[:, 1]


def spline(agreed: np.ndarray, fits: np.ndarray, others: np.ndarray) -> np.ndarray:
    knots = SplineTransformer(n_knots=4, degree=3, extrapolation="linear")
    model = make_pipeline(knots, LogisticRegression(C=10)).fit(agreed[:, None], fits)
    return model.predict_proba(others[:, None])[:, 1]


def isotonic(agreed: np.ndarray, fits: np.ndarray, others: np.ndarray) -> np.ndarray:
    return IsotonicRegression(out_of_bounds="clip").fit(agreed, fits).predict(others)


def half_isotonic(agreed: np.ndarray, fits: np.ndarray, others: np.ndarray) -> np.ndarray:
    return (logistic(agreed, fits, others) + isotonic(agreed, fits, others)) / 2


CURVES: dict[str, Curve] = {
    "logistic": logistic,
    "beta calibration": beta,
    "quadratic": quadratic,
    "cubic spline": spline,
    "isotonic": isotonic,
    "mean of isotonic and logistic": half_isotonic,
}


def measured(
    curve: Curve, agreed: np.ndarray, fits: np.ndarray, image: np.ndarray
) -> dict[str, Any]:
    """Log loss over held-out pairs, its spread over dealings, and bins of the mean P."""
    losses, stated = [], np.zeros(len(fits))
    for seed in range(TIMES):
        dealt = np.random.default_rng(seed).permutation(image.max() + 1)[image]
        held = np.zeros(len(fits))
        for one, other in GroupKFold(FOLDS).split(agreed, fits, dealt):
            held[other] = curve(agreed[one], fits[one], agreed[other])
        held = np.clip(held, LEAST, 1 - LEAST)
        losses.append(-np.log(np.where(fits, held, 1 - held)).sum())
        stated += held / TIMES
    bins = [
        [int(some.sum()), float(stated[some].mean()), float(fits[some].mean())]
        for low, high in itertools.pairwise(BINS)
        for some in [(stated >= low) & (stated < high)]
        if some.any()
    ]
    return {"loss": float(np.mean(losses)), "spread": float(np.std(losses)), "bins": bins}


if __name__ == "__main__":
    main()
