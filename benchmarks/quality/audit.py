"""How well wrong pairs are found, beside cleanlab's score and raw similarity.

    python -m benchmarks.quality.audit --run RUN [RUN ...] --split test --features DIR
    python -m benchmarks.quality.audit --folds 5 --seeds 0 1 2 --features DIR
    python -m benchmarks.quality.audit --time --run RUN --features DIR

With a run, wrong pairs are put into a split that it never saw. With folds, they are put into
the training split and fold models learn from them, as `avow audit` without a run does; a fold
that is trained is kept, so the command can be stopped and repeated. All three scores read the
same similarities: cleanlab is given, for each caption, the softmax over the images at the
model's temperature. Average precision, and precision at the true number of wrong pairs.
With --time nothing is made wrong: the whole command is timed on the training split, with the
runs named or, without any, with fold models.
"""

import argparse
import os
import resource
import tempfile
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.rank import get_label_quality_scores
from scipy.special import softmax
from sklearn.metrics import average_precision_score

from avow.assembly.evaluate import score_views
from avow.assembly.evaluate_runs import open_splits
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.recipe import Noisy
from avow.audit.judge import looked_at
from avow.audit.pair_features import PairFeatures
from avow.audit.trained_part import TrainedPart, parted
from avow.audit.wrong_pairs import suspect
from avow.core.contracts import PairedDataset
from avow.core.device import best_device
from avow.data.captions import TokenTable
from avow.data.noise import Noise, draw_noise, with_noise
from avow.data.opening import open_dataset
from avow.training.folds import train_folds
from avow.training.setup import fold_recipe, open_features
from benchmarks._report import command, keep

CLEANLAB = ("self_confidence", "normalized_margin")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", nargs="+", type=Path, default=[])
    parser.add_argument("--split", default="test")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--first", type=int, help="judge so many folds only; default: all")
    parser.add_argument("--recipe", default="", help="of the fold models; default: usual")
    parser.add_argument("--data", default="flickr8k")
    parser.add_argument("--features", type=Path, default=None)
    parser.add_argument("--noise", nargs="+", type=float, default=[0.05, 0.2, 0.4])
    parser.add_argument("--by", nargs="+", default=["image", "caption"])
    parser.add_argument("--runs", type=Path, default=Path("runs/audit"))
    parser.add_argument("--set", dest="changes", action="append", default=[])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--device", default="")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--name", default="audit")
    chosen = parser.parse_args()
    device = chosen.device or best_device()
    about: dict[str, Any] = {"data": chosen.data, "device": device, "seeds": chosen.seeds}
    if chosen.time:
        print(f"-> {keep(chosen.name, {'about': about, 'rows': timed(chosen)})}")
        return
    judges: list[HeldOut | Folded] = [
        *(HeldOut(chosen, run, seed, device) for run in chosen.run for seed in chosen.seeds),
        *(Folded(chosen, seed, device) for seed in chosen.seeds if not chosen.run),
    ]
    rows = []
    for by in chosen.by:
        for ratio in chosen.noise:
            for judge in judges:
                told = {"by": by, "noise": ratio, **judge.told, **judge.measure(by, ratio)}
                rows.append(told)
                print(line(rows[-1]), flush=True)
                keep(chosen.name, {"about": about, "means": means(rows), "rows": rows})
    for row in means(rows):
        print(line(row))


def timed(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """The seconds of the whole command, from a cold start to the page."""
    rows = []
    for run in chosen.run or [None]:
        with tempfile.TemporaryDirectory() as home:
            arguments = ["audit", chosen.data, "--out", f"{home}/audit", "--json"]
            arguments += ["--run", str(run)] if run else ["--folds", str(chosen.folds)]
            arguments += ["--recipe", chosen.recipe] if chosen.recipe else []
            arguments += ["--features", str(chosen.features)] if chosen.features else []
            arguments += ["--device", chosen.device] if chosen.device else []
            started, busy = time.monotonic(), _busy()
            done = command(arguments)
        named = {"run": run.name} if run else {"folds": chosen.folds}
        facts = ("split", "pairs", "images", "share", "issues", "in_sample", "judged_by")
        rows.append(named | {key: done[key] for key in facts})
        rows[-1]["seconds"] = round(time.monotonic() - started, 1)
        rows[-1]["processor_seconds"] = round(_busy() - busy, 1)
        rows[-1]["load"] = round(os.getloadavg()[1], 1)
        print(rows[-1], flush=True)
    return rows


def _busy() -> float:
    """Processor time of finished commands: tells the work where others share the machine."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


class HeldOut:
    """A trained run judges pairs of a split it never saw; its scores are made once."""

    def __init__(self, chosen: argparse.Namespace, run: Path, seed: int, device: str):
        model = Model.from_pretrained(run, device)
        self.told = {"run": run.name, "split": chosen.split, "seed": seed}
        self.dataset, splits = open_splits(model, chosen.data, chosen.features, [chosen.split])
        self.split, self.seed = splits[chosen.split], seed
        self.clean = self.dataset.splits[chosen.split]
        part = parted(self.split, self.split.image_ids, model)
        self.scores, self.tau = scored(part, device)

    def measure(self, by: Any, ratio: float) -> dict[str, Any]:
        noise = draw_noise(self.clean, ratio, by, "derangement", self.seed)
        wrong = noise.wrong(self.clean)[self.split.kept]
        image_of = _moved(self.split, self.clean, noise)
        found = [Looked(self.scores, self.tau, image_of, self.seed)]
        return compared(found, wrong, image_of, self.seed)


class Folded:
    """Fold models learn from the noisy split and judge what they never saw."""

    def __init__(self, chosen: argparse.Namespace, seed: int, device: str):
        self.chosen, self.seed, self.device = chosen, seed, device
        self.dataset = open_dataset(chosen.data)
        self.recipe = fold_recipe(
            chosen.recipe, chosen.data, self.dataset, chosen.changes, seed, device
        )
        self.store = open_features(self.recipe, self.dataset, chosen.features)
        told = {"recipe": self.recipe.name, "folds": chosen.folds, "seed": seed}
        self.told = told | {"judged_folds": chosen.first or chosen.folds}

    def measure(self, by: Any, ratio: float) -> dict[str, Any]:
        chosen, clean, store = self.chosen, self.dataset.splits["train"], self.store
        noise = draw_noise(clean, ratio, by, "derangement", self.seed)
        noisy: PairedDataset = with_noise(self.dataset, noise)
        # the noise is in the data already; this only tells the runs of two rates apart
        told = Noisy(0.0, by, "derangement", self.seed)
        home = chosen.runs / f"{by}-{round(100 * ratio):02d}-seed{self.seed}"
        folds = train_folds(
            replace(self.recipe, noise=told),
            noisy,
            store,
            home,
            chosen.folds,
            progress=False,
            device=chosen.device or None,
        )
        whole = FeaturedSplit.join(noisy, "train", store)
        wrong = noise.wrong(clean)[whole.kept]
        looked, order = [], []
        for fold in islice(folds, chosen.first):
            part = parted(whole, fold.images, Model.from_pretrained(fold.run, self.device))
            scores, tau = scored(part, self.device)
            looked.append(Looked(scores, tau, part.split.image_of, self.seed))
            order.append(part.captions)
        place = np.concatenate(order)
        return compared(looked, wrong[place], whole.image_of[place], self.seed)


class Looked:
    """One gallery: how its pairs stand, and what cleanlab makes of them."""

    def __init__(self, scores: list[np.ndarray], tau: float, image_of: np.ndarray, seed: int):
        self.standings = looked_at(scores, image_of, tau, seed)
        chances = softmax(np.mean(scores, 0).T.astype(np.float64) / tau, axis=1)
        self.cleanlab = {
            method: get_label_quality_scores(image_of, chances, method=method)
            for method in CLEANLAB
        }


def scored(part: TrainedPart, device: str) -> tuple[list[np.ndarray], float]:
    table = TokenTable.from_captions(part.model.tokeniser, part.split.captions)
    scores = score_views(part.model.views, part.split, table, device)
    return scores, float(part.model.evidence_settings["tau"])


def _moved(split: FeaturedSplit, clean: Any, noise: Noise) -> np.ndarray:
    """The noisy image of every caption that has features, among the images that have."""
    place = {name: number for number, name in enumerate(split.image_ids)}
    assert split.kept is not None
    said = noise.image_of(clean)[split.kept]
    found = [place.get(clean.image_ids[image], -1) for image in said]
    if min(found) < 0:
        raise SystemExit("some images have no features; use a split whose images all have")
    return np.array(found)


def compared(
    looked: list[Looked], wrong: np.ndarray, image_of: np.ndarray, seed: int
) -> dict[str, Any]:
    """Ours, cleanlab's and the raw similarity over all galleries together."""
    kinds = zip(*(one.standings for one in looked), strict=True)
    given, *wrongly = (_joined(list(kind)) for kind in kinds)
    found = suspect(given, wrongly, image_of, seed)
    scores = {"avow": found.order, "similarity": -given.measures["similarity"]}
    for method in CLEANLAB:
        joined = np.concatenate([one.cleanlab[method] for one in looked])
        scores[f"cleanlab {method}"] = -joined
    out: dict[str, Any] = {"pairs": len(wrong), "wrong": int(wrong.sum())}
    for name, score in scores.items():
        first = np.argsort(-score, kind="stable")[: int(wrong.sum())]
        out[name] = {
            "average_precision": round(float(average_precision_score(wrong, score)), 4),
            "precision_at_count": round(float(wrong[first].mean()), 4),
        }
    brier = float(np.square(found.probability - wrong).mean())
    out["probability"] = {"share": round(found.share, 4), "brier": round(brier, 4)}
    return out


def _joined(parts: list[PairFeatures]) -> PairFeatures:
    names = parts[0].measures
    return PairFeatures(
        {name: np.concatenate([one.measures[name] for one in parts]) for name in names}
    )


def means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every rate of noise over all seeds and runs: mean, and the deviation of one."""
    out = []
    for by, ratio in dict.fromkeys((row["by"], row["noise"]) for row in rows):
        group = [row for row in rows if (row["by"], row["noise"]) == (by, ratio)]
        told: dict[str, Any] = {"by": by, "noise": ratio, "measurements": len(group)}
        for name, first in group[0].items():
            if isinstance(first, dict):
                found = {key: [row[name][key] for row in group] for key in first}
                told[name] = {key: round(float(np.mean(v)), 4) for key, v in found.items()}
                told[name] |= {f"{key}_sd": _spread(v) for key, v in found.items()}
        out.append(told)
    return out


def _spread(values: list[float]) -> float | None:
    return round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else None


def line(row: dict[str, Any]) -> str:
    told = [
        f"{name} AP {found['average_precision']:.3f} P@n {found['precision_at_count']:.3f}"
        for name, found in row.items()
        if isinstance(found, dict) and "average_precision" in found
    ]
    share = row["probability"]["share"]
    return f"by {row['by']} {row['noise']:.0%} (said {share:.1%}): " + "; ".join(told)


if __name__ == "__main__":
    main()
