"""A made-up study for pages that show one: invented queries, figures really computed.

Every query has an ease; easy ones are answered right more often, and every measure of doubt
sees the ease through noise of its own. The figures are those of `avow.metrics`, so they fit
each other as those of a real study do.
"""

from typing import Any

import numpy as np

from avow.metrics import calibration as calibrating
from avow.metrics import rejection

U, SOFTMAX = "evidential: u", "scores: probability"
POSTERIOR = "mc_dropout: posterior uncertainty"
NOISE = {
    "calibrated trust": 0.0,
    U: 2.4,
    SOFTMAX: 1.1,
    "scores: entropy": 1.2,
    "scores: lead": 1.4,
    "scores: largest": 1.9,
    "two_way: back": 0.9,
    "evidential: disagreement": 2.8,
    POSTERIOR: 1.3,
    "mc_dropout: feature uncertainty": 6.0,
}
BINS = 12
CAPTIONS = (
    "a brown dog leaps over a log in the snow",
    "two children play with a red ball on the beach",
    "a man in a yellow jacket climbs a steep wall of rock",
    "people sit at tables outside a small café, <reading> & talking",
    "a girl on a swing",
    "several cyclists ride past a crowd on a wet street in the early evening",
)


def made_up_study(seed: int = 0, texts: int = 2000, images: int = 400) -> dict[str, Any]:
    """One seed of a recipe on a test split that never was."""
    return {
        "about": {
            "run": f"runs/flickr8k-vse_infty_tcl-{seed}",
            "recipe": "flickr8k/vse_infty_tcl",
            "seed": seed,
            "dataset": "Flickr8k",
            "split": "test",
            "fitted_on": "dev",
            "bank": {"texts": 30000, "images": 6000},
            "views": 2,
            "tau": 0.05,
            "evidence": "exp",
            "images": images,
            "texts": texts,
            "date": "2026-11-15",
            "avow": "0.1.0",
            "seconds": 212.4,
        },
        "directions": {
            "text": direction(seed, texts, images, "text", base=-0.9),
            "image": direction(seed + 100, images, texts, "image", base=-0.4),
        },
        "human": human(seed),
    }


def direction(
    seed: int, queries: int, candidates: int, kind: str, base: float
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    ease = base + 1.7 * rng.standard_normal(queries)
    stated = 1 / (1 + np.exp(-ease))
    right = rng.random(queries) < stated
    ranks = np.where(right, 1, 2 + rng.geometric(np.clip(0.08 + 0.3 * stated, 0.02, 1)))
    confidence = {
        name: ease + noise * rng.standard_normal(queries) for name, noise in NOISE.items()
    }
    u = 1 / (1 + np.exp(0.6 * confidence[U] + 1))
    return {
        "queries": queries,
        "candidates": candidates,
        "recall": {
            **{f"r{cut}": 100 * float((ranks <= cut).mean()) for cut in (1, 5, 10)},
            "median_rank": float(np.median(ranks)),
        },
        "measures": {name: measure(values, ranks) for name, values in confidence.items()},
        "chance": {
            **{f"r{cut}": 100 * float((ranks <= cut).mean()) for cut in (1, 5, 10)},
            "median_rank": float(np.median(ranks)),
        },
        "curves": {name: curve(values, ranks) for name, values in confidence.items()},
        "calibration": {
            **calibration(stated, right),
            "reliability": [
                list(row) for row in calibrating.reliability(stated, right, BINS, True)
            ],
            "baselines": {
                U: calibration(stated**0.5, right),
                SOFTMAX: calibration(0.5 * stated + 0.1, right),
            },
        },
        "coverage": {name: answered(values, right) for name, values in confidence.items()},
        "guarantee": {
            "first answer": [promise(alpha, right, confidence) for alpha in (0.05, 0.1, 0.2)],
            "one of ten": [promise(a, ranks <= 10, confidence) for a in (0.05, 0.1)],
        },
        "sets": [
            {
                "alpha": alpha,
                "held": 1 - alpha + 0.004,
                "size": 3.1 / alpha + 0.1 * seed,
                "baselines": {
                    "rank": {"held": 1 - alpha, "size": 9.0 / alpha},
                    "softmax": {"held": 1 - alpha, "size": 4.4 / alpha},
                },
            }
            for alpha in (0.05, 0.1, 0.2)
        ],
        "absent": {
            "refused": {
                "probability of a match": 0.71,
                **{name: 0.66 / (1 + noise / 2) for name, noise in NOISE.items()},
            },
            "kept": 0.95,
            "auroc": {name: 0.5 + 0.4 / (1 + noise) for name, noise in NOISE.items()},
        },
        "sizes": [size(count, queries, rng) for count in (20, 100, 400, 1000, 5000)],
        "corruption": {"kinds": {name: hidden(name, kind, u, rng) for name in KINDS}},
        "shift": {
            name: {"no match": 0.8 - noise / 20, "COCO": 0.72 - noise / 20}
            for name, noise in list(NOISE.items())[:4]
        },
        "scatter": {
            "feature": (0.02 + 0.01 * rng.random(queries)).tolist(),
            "posterior": np.exp(-confidence[POSTERIOR]).tolist(),
            "right": right.tolist(),
        },
        "extremes": extremes(kind, stated, u, right, rng),
    }


def measure(confidence: np.ndarray, ranks: np.ndarray) -> dict[str, Any]:
    right = ranks == 1
    area = rejection.auroc(confidence[right], confidence[~right])
    areas = {
        f"r{cut}": 100 * rejection.rejection_curve(confidence, ranks <= cut).area
        for cut in (1, 5, 10)
    }
    return {
        "auroc": area,
        "interval": [area - 0.012, area + 0.012],
        "area": {**areas, "median_rank": rejection.median_rank_curve(confidence, ranks).area},
        "aurc": rejection.aurc(confidence, right),
        "excess_aurc": rejection.excess_aurc(confidence, right),
        "nauc": rejection.normalised_auc(confidence, right),
    }


def curve(confidence: np.ndarray, ranks: np.ndarray) -> dict[str, list[float]]:
    place = np.linspace(0, len(ranks) - 1, 50).round().astype(int)
    curves = {cut: rejection.rejection_curve(confidence, ranks <= cut) for cut in (1, 10)}
    return {
        "coverage": curves[1].coverage[place].tolist(),
        **{f"r{cut}": (100 * found.value[place]).tolist() for cut, found in curves.items()},
    }


def calibration(stated: np.ndarray, right: np.ndarray) -> dict[str, float]:
    return {
        "ece": calibrating.expected_calibration_error(stated, right, BINS, True),
        "floor": calibrating.calibration_floor(stated, BINS, True, levels=(0.95,), draws=60)[0],
        "debiased": calibrating.debiased_calibration_error(stated, right, BINS, True, draws=60),
        "brier": calibrating.brier(stated, right),
        "brier_skill": calibrating.brier_skill(stated, right),
    }


def answered(confidence: np.ndarray, right: np.ndarray) -> dict[str, float]:
    return {
        "at 5 % risk": rejection.coverage_at_risk(confidence, right, 0.05),
        "at 10 % risk": rejection.coverage_at_risk(confidence, right, 0.1),
        "risk at 80 %": rejection.risk_at_coverage(confidence, right, 0.8),
    }


def promise(
    alpha: float, right: np.ndarray, confidence: dict[str, np.ndarray]
) -> dict[str, Any]:
    shares = {
        name: {
            "exceeded": 0.06,
            "coverage": 0.9 * rejection.coverage_at_risk(values, right, alpha),
        }
        for name, values in confidence.items()
    }
    ours = shares.pop("calibrated trust")
    return {"alpha": alpha, "delta": 0.1, "allowed": 0.1, **ours, "baselines": shares}


def size(count: int, queries: int, rng: np.random.Generator) -> dict[str, Any]:
    right = 1 / (1 + (count / 150) ** 0.7)
    return {
        "candidates": count,
        "queries": queries,
        "ece": 0.012 + 0.006 * rng.random(),
        "floor": 0.019 + 0.002 * rng.random(),
        "auroc": 0.83 + 0.01 * rng.random(),
        "mean_u": count / (count + 700),
        "mean_trust": right + 0.01 * rng.standard_normal(),
        "r1": 100 * right,
        "distractors": max(0, count - 1000),
    }


KINDS = ("words", "regions", "both")


def hidden(name: str, kind: str, u: np.ndarray, rng: np.random.Generator) -> list[Any]:
    strength = {"words": 0.35, "regions": 0.22, "both": 0.5}[name]
    rows = []
    for ratio in (0, 0.3, 0.6):
        doubt = np.clip(u + strength * ratio * (1 - u) * (1 + 0.3 * rng.random(len(u))), 0, 1)
        rows.append(
            {
                "ratio": ratio,
                "u": spread(doubt),
                "trust": spread(1 - doubt),
                "r1": 28.0 * (1 - strength * ratio),
            }
        )
    return rows


def spread(values: np.ndarray) -> dict[str, Any]:
    counts, edges = np.histogram(values, bins=40)
    return {
        "quantiles": np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist(),
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "mean": float(values.mean()),
    }


def extremes(
    kind: str, trust: np.ndarray, u: np.ndarray, right: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    order = np.argsort(-trust)
    ends = {"most": order[:4], "least": order[::-1][:4]}
    return {
        end: [
            {
                "query": CAPTIONS[place % 6] if kind == "text" else f"image-{place:03d}",
                "trust": float(trust[query]),
                "u": float(u[query]),
                "right": bool(right[query]),
                "answers": [
                    {
                        "id": f"image-{rank:03d}" if kind == "text" else CAPTIONS[rank],
                        "probability": float(trust[query]) / (rank + 1) ** 2,
                        "similarity": 0.9 - 0.1 * rank,
                        "right": bool(right[query]) and rank == 0,
                    }
                    for rank in range(5)
                ],
            }
            for place, query in enumerate(some)
        ]
        for end, some in ends.items()
    }


def human(seed: int) -> dict[str, Any]:
    figures = {
        "similarity": [0.33, 0.3, 0.36],
        "belief, text query": [0.22, 0.19, 0.25],
        "calibrated trust, text query": [0.41 + 0.003 * seed, 0.38, 0.44],
    }
    return {
        "pairs": 5664,
        "queries": 950,
        "kendall_tau_c": figures,
        "auroc": {name: [v + 0.42 for v in row] for name, row in figures.items()},
        "wrong_but_fitting": {
            "trust when people call it right": 0.36,
            "when they call it wrong": 0.21,
            "auroc": [0.71, 0.66, 0.76],
            "n": [184, 517],
        },
    }
