"""A run judged on a dataset it was not trained on: what of its trust still holds?

    python -m benchmarks.quality.shift RUN --other coco --features DIR --other-features DIR

Trust is fitted on the run's own dev split and judged on its own test split and on that of
the other dataset. Prints, beside each other, recall,
AUROC, calibration error, the risk of a promise made at home, and whether the check for
shift notices; and the ratio of the error abroad to that at home.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from avow.assembly.evaluate_runs import open_splits
from avow.assembly.model import Model
from avow.assembly.scored_split import encode_split, score
from avow.assembly.scores import Blocks
from avow.core.device import best_device
from avow.metrics.rejection import auroc
from avow.study.direction import doubts_of
from avow.study.measures import calibration
from avow.trust.drift import compare
from avow.trust.gallery_sampling import (
    Query,
    ScoredQueries,
    collect_hits,
    draw_sizes,
    fit_hits,
    predict,
)
from avow.trust.risk_control import promise
from benchmarks._report import keep
from benchmarks.quality.trust import QUERIES, load, place, save_scored, score_run

ALPHA = 0.4


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--other", default="coco")
    parser.add_argument("--features", type=Path)
    parser.add_argument("--other-features", type=Path)
    parser.add_argument("--scored", type=Path, default=Path("scored"))
    chosen = parser.parse_args()
    score_run(chosen.run, chosen.features, chosen.scored)
    abroad = place(chosen.scored, chosen.run, f"{chosen.other}-test")
    if not abroad.is_file():
        score_abroad(chosen, abroad)
    rows = {query: judge(chosen, query, abroad) for query in QUERIES}
    name = f"shift_{chosen.run.name}"
    path = keep(name, {"run": chosen.run.name, "other": chosen.other, "rows": rows})
    for query, row in rows.items():
        for where in ("home", "abroad"):
            shown = {key: round(value, 3) for key, value in row[where].items()}
            print(f"{query:<6} {where:<7} {shown}")
        print(f"{query:<6} told apart by {row['told apart']}; {row['check']}")
        ratio = row["abroad"]["ece"] / row["home"]["ece"]
        print(f"{query:<6} calibration error abroad is {ratio:.1f} x that at home")
    print(f"-> {path}")


def score_abroad(chosen: argparse.Namespace, where: Path) -> None:
    """The other dataset's test split, with the run's own training split as bank."""
    model, blocks = Model.from_pretrained(chosen.run, best_device()), Blocks()
    _, own = open_splits(model, "", chosen.features, ["train"])
    _, other = open_splits(model, chosen.other, chosen.other_features, ["test"])
    bank = encode_split(model, own["train"], blocks, progress=True)
    corpus = encode_split(model, other["test"], blocks, progress=True)
    save_scored(score(model, corpus, bank, blocks, progress=True), corpus.image_of, where)


def judge(chosen: argparse.Namespace, query: Query, abroad: Path) -> dict[str, Any]:
    before = load(place(chosen.scored, chosen.run, "dev"))[query]
    probability = fit_hits("right", draw_sizes(before))
    parts = {
        "home": load(place(chosen.scored, chosen.run, "test"))[query],
        "abroad": load(abroad)[query],
    }
    hits = {name: collect_hits(part) for name, part in parts.items()}
    stated = {
        name: predict(probability, seen.features, seen.gallery)[:, 0]
        for name, seen in hits.items()
    }
    held = collect_hits(before, keep=1)
    sure = predict(probability, held.features, held.gallery)[:, 0]
    made = promise(sure, ~held.right[:, 0], ALPHA, groups=held.groups)
    out: dict[str, Any] = {
        name: figures(parts[name], stated[name], hits[name].right[:, 0], made) for name in parts
    }
    doubts = {name: doubts_of(part.asked(), 0.05) for name, part in parts.items()}
    out["told apart"] = {
        "calibrated trust": auroc(-stated["abroad"], -stated["home"]),
        **{
            key: auroc(doubts["abroad"][key], doubts["home"][key])
            for key in ("evidential: u", "scores: largest", "scores: probability")
        },
    }
    out["check"] = str(
        compare(
            stated["home"],
            stated["abroad"],
            reference_groups=hits["home"].groups,
            recent_groups=hits["abroad"].groups,
        )
    )
    return out


def figures(
    part: ScoredQueries, stated: np.ndarray, right: np.ndarray, made: Any
) -> dict[str, float]:
    checked = calibration(stated, right, draws=200)
    doubts = doubts_of(part.asked(), 0.05)
    answered = made.answers(stated)
    return {
        "r1": 100 * float(right.mean()),
        "auroc": auroc(stated[right], stated[~right]),
        "auroc of u": auroc(-doubts["evidential: u"][right], -doubts["evidential: u"][~right]),
        "ece": checked["ece"],
        "floor": checked["floor"],
        "mean trust": float(stated.mean()),
        "mean u": float(doubts["evidential: u"].mean()),
        "answered": float(answered.mean()),
        "risk": float((~right[answered]).mean()) if answered.any() else float("nan"),
    }


if __name__ == "__main__":
    main()
