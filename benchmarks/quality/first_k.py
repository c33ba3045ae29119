"""Does "one of the first k fits" come true for every k, and by which rule of dependence?

    python -m benchmarks.quality.first_k [--cache DIR]

Every hit has a probability, the first ten have one together, and a rule says what lies between
(`avow.trust.coherence`). Three rules beside each other: by rho, as shipped; by the place
between the largest probability and min(1, sum), as an earlier version did; and multiplying, as
if hits were independent. The rule was chosen on the answers that the shipped policies keep from
dev photographs ("held out"); captions over test photographs of Flickr8k and COCO are measured
once.
Prints for every k what is stated beside what is found, the log loss, and its ratio to that of
the shipped rule.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.places import avow_home
from avow.trust.coherence import agree, one_of_first
from avow.trust.policy import Policy
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality.first_answers import PHOTOGRAPHS, answered, expert_curve
from benchmarks.quality.people import first

POLICIES = {"text": "trust-text.json", "picture": "trust-picture.json"}
DEPTHS = (1, 2, 3, 5, 10)
OURS = "by rho"


def rules(hits: np.ndarray, anything: np.ndarray) -> dict[str, np.ndarray]:
    """P_1 … P_10 of every query by each rule. hits: most probable first."""
    hits, anything, rho = agree(hits, anything)
    least = np.maximum.accumulate(hits, axis=1)
    most = np.minimum(np.cumsum(hits, axis=1), 1)
    place = (anything - least[:, -1]) / np.maximum(most[:, -1] - least[:, -1], 1e-6)
    return {
        OURS: one_of_first(hits, rho),
        "between the largest and the sum": least
        + np.clip(place, 0, 1)[:, None] * (most - least),
        "as if independent": 1 - np.cumprod(1 - hits, axis=1),
    }


def measured(stated: np.ndarray, anything: np.ndarray, fits: np.ndarray) -> dict[str, Any]:
    """For every k and rule: mean stated, share found, log loss."""
    order = np.argsort(-stated, axis=1, kind="stable")[:, :10]
    hits, fits = (np.take_along_axis(one, order, 1) for one in (stated, fits))
    each = rules(hits, anything)
    rows: dict[str, dict[str, Any]] = {}
    for k in DEPTHS:
        found = fits[:, :k].any(1)
        rows[str(k)] = {"found": float(found.mean())}
        for name, values in each.items():
            p = np.clip(values[:, k - 1], 1e-4, 1 - 1e-4)
            loss = -np.log(np.where(found, p, 1 - p)).mean()
            rows[str(k)][name] = {"stated": float(p.mean()), "log_loss": float(loss)}
    return {"queries": len(hits), "depths": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policies = {kind: Policy.load(lab.encoder.home / file) for kind, file in POLICIES.items()}
    figures = {}
    for kind, policy in policies.items():
        held = policy.held
        assert held is not None and held.anything is not None
        figures[f"held out, by {kind}"] = measured(
            held.probability, held.anything, held.correct
        )
    curve = expert_curve(lab)
    for name in ("flickr8k", "coco"):
        asked = answered(lab, curve, name, "test", first(name, PHOTOGRAPHS, "test"))
        judged = asked.judged(policies["text"])
        figures[f"{name} test"] = measured(
            judged.probability, judged.present, asked.fits(judged)
        )
    for name, one in figures.items():
        for k, row in one["depths"].items():
            line = " | ".join(
                f"{rule} {row[rule]['stated']:.3f} (log loss {row[rule]['log_loss']:.4f}, "
                f"x{row[rule]['log_loss'] / row[OURS]['log_loss']:.3f})"
                for rule in row
                if rule != "found"
            )
            print(f"{name:<20} k {k:>2} found {row['found']:.3f} | {line}")
    print(f"-> {keep('first_k', {'rows': figures})}")


if __name__ == "__main__":
    main()
