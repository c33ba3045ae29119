"""How relevant are the first answers of trained runs, and does trust tell the good ones?

    python -m benchmarks.quality.run_answers FOLDER

FOLDER holds what `paper_queue.py` kept of runs with the step "answers": the first hits of
every Flickr8k caption on dev and test. A hit is relevant as the agreement of the caption
with a picture's own captions says (`avow.study.relevance_labels`), or right where it is the
annotated photograph. P is fitted on the hits of dev and judged on the first hits of test,
beside u = K / S and every single measure it is made of, as `first_answers.py` does for the
shipped model. Runs that are not in FOLDER keep their earlier figures.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.datasets import Split
from avow.core.places import avow_home
from avow.data.opening import open_dataset
from avow.study import relevance_labels as fitting
from avow.training.caption_agreement import OFFSET, SLOPE
from avow.trust.gallery_sampling import Hits, fit_hits, predict
from benchmarks._report import RESULTS, keep, read
from benchmarks.quality.first_answers import UNCERTAINTY, told_apart

SEED, DATA, FIRST = 0, "flickr8k", 5
EVENTS = {"relevant": "P(relevant)", "right": "P(right)"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "answers")
    parser.add_argument("--name", default="papers/answers")
    chosen = parser.parse_args()
    chosen.cache.mkdir(parents=True, exist_ok=True)
    files = sorted(chosen.folder.glob("*_answers.npz"))
    if not files:
        raise SystemExit(f"There is no *_answers.npz in {str(chosen.folder)!r}.")
    stated = probabilities(chosen.cache)
    rows = [judge(path, stated) for path in files]
    for row in rows:
        measures = row["auroc"]["relevant"]
        single = [key for key in measures if key not in EVENTS.values()]
        best = max(single, key=lambda name: measures[name][0])
        ours = measures[EVENTS["relevant"]]
        print(
            f"{row['recipe']}, seed {row['seed']}: relevance of the first answer "
            f"{row['relevance']:.3f}, right {row['right']:.3f}; AUROC of P {ours[0]:.3f} ± "
            f"{ours[1]:.3f}, of {best!r} {measures[best][0]:.3f}, of u "
            f"{measures[UNCERTAINTY][0]:.3f}"
        )
    measured = {(row["recipe"], row["seed"]) for row in rows}
    earlier = read(chosen.name)["runs"] if (RESULTS / f"{chosen.name}.json").is_file() else []
    others = [row for row in earlier if (row["recipe"], row["seed"]) not in measured]
    print(f"-> {keep(chosen.name, {'seed': SEED, 'runs': others + rows})}")


def probabilities(cache: Path) -> dict[str, np.ndarray]:
    """P(a person says it fits) of every caption and photograph of dev and test."""
    splits = open_dataset(DATA).splits
    vectors = {name: sentences(cache, name, splits[name]) for name in ("dev", "test")}
    agreed = {
        name: fitting.agreement(said, said, splits[name].image_of, len(splits[name].image_ids))
        for name, said in vectors.items()
    }
    curve = fitting.FitCurve(SLOPE, OFFSET, 0)
    return {name: fitting.labels(agreed[name], curve, splits[name].image_of) for name in agreed}


def sentences(cache: Path, name: str, split: Split) -> np.ndarray:
    path = cache / f"{DATA}-{name}-{len(split.captions)}.npy"
    if not path.is_file():
        np.save(path, fitting.sentence_vectors(list(split.captions)))
    return np.load(path)


def judge(path: Path, stated: dict[str, np.ndarray]) -> dict[str, Any]:
    """One run: relevance of its first answers, and which measure tells the good ones."""
    result = json.loads(path.with_name(re.sub("_answers$", ".json", path.stem)).read_text())
    names = tuple(result["afterwards"]["answers"]["features"])
    content = np.load(path)
    order = content["test|order"].astype(int)
    features = content["test|features"].astype(np.float64)
    relevance = np.take_along_axis(stated["test"], order, 1)
    measures = {UNCERTAINTY: -content["test|u"].astype(np.float64)}
    measures |= dict(zip(names, features[:, 0].T, strict=True))
    areas: dict[str, dict[str, tuple[float, float]]] = {}
    for event, label in EVENTS.items():
        dev, test = (
            hits(content, part, event, names, stated[part]) for part in ("dev", "test")
        )
        ours = predict(fit_hits(event, dev), test.features, test.gallery)[:, 0]
        judged = {label: ours, **measures}
        areas[event] = {
            name: told_apart(values, test.right[:, 0]) for name, values in judged.items()
        }
    return {
        "recipe": result["recipe"],
        "seed": result["seed"],
        "commit": result["commit"],
        "rsum": result["rows"][-1]["rsum"],
        "relevance": float(relevance[:, 0].mean()),
        "relevance of five": float(relevance[:, :FIRST].mean()),
        "right": float((order[:, 0] == content["test|image_of"]).mean()),
        "auroc": areas,
    }


def hits(
    content: Any, part: str, event: str, names: tuple[str, ...], stated: np.ndarray
) -> Hits:
    """The described hits of a split, and whether each is good."""
    features = content[f"{part}|features"].astype(np.float64)
    order = content[f"{part}|order"].astype(int)[:, : features.shape[1]]
    image_of = content[f"{part}|image_of"]
    if event == "relevant":
        good = np.take_along_axis(fitting.drawn(stated, SEED), order, 1)
    else:
        good = order == image_of[:, None]
    count = np.full(len(order), int(content[f"{part}|gallery"]))
    return Hits(names, features, good, count, image_of, np.arange(len(order)))


if __name__ == "__main__":
    main()
