"""How far the answers of trained runs can be trusted: every measure, side by side.

    python -m benchmarks.quality.trust flickr8k_tcl RUN RUN RUN --features DIR --scored DIR

Scores every run on its dev and test split once (kept in --scored, so that a machine with a
GPU can do that part alone with --only-score), fits trust on dev, judges it on test, and
writes mean and spread over the runs, which are seeds of one recipe. Prints the table and
the ratio of the AUROC of trust to that of each single measure.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from avow.assembly.evaluate_runs import open_splits
from avow.assembly.model import Model
from avow.assembly.scored_split import encode_split, score
from avow.assembly.scores import Blocks
from avow.core.background import Background
from avow.core.device import best_device
from avow.study.direction import OURS, Direction, serving_of, study_direction, study_sets
from avow.trust.gallery_sampling import Query, ScoredQueries
from benchmarks._report import keep, read
from benchmarks._runs import scored_parser

QUERIES: tuple[Query, ...] = ("text", "image")


def main() -> None:
    parser = scored_parser(__doc__)
    parser.add_argument("--only-score", action="store_true")
    parser.add_argument(
        "--only-sets",
        action="store_true",
        help="measure sets of image queries anew, keep the rest",
    )
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--draws", type=int, default=300)
    chosen = parser.parse_args()
    chosen.scored.mkdir(parents=True, exist_ok=True)
    for run in chosen.runs:
        score_run(run, chosen.features, chosen.scored)
    if chosen.only_score:
        return
    studies = (
        sets_anew(chosen) if chosen.only_sets else [study(run, chosen) for run in chosen.runs]
    )
    summary: dict[str, Any] = {
        query: summarise([one[query] for one in studies]) for query in QUERIES
    }
    path = keep(
        f"trust_{chosen.name}",
        {"runs": [run.name for run in chosen.runs], "summary": summary, "studies": studies},
    )
    show(summary)
    print(f"{len(studies)} runs -> {path}")


def score_run(run: Path, features: Path | None, where: Path) -> None:
    """Similarities and backgrounds of a run, unless they are there."""
    names = [split for split in ("dev", "test") if not place(where, run, split).is_file()]
    if not names:
        return
    model, blocks = Model.from_pretrained(run, best_device()), Blocks()
    _, splits = open_splits(model, "", features, ["train", *names])
    bank = encode_split(model, splits["train"], blocks, progress=True)
    for name in names:
        corpus = encode_split(model, splits[name], blocks, progress=True)
        found = score(model, corpus, bank, blocks, progress=True)
        save_scored(found, corpus.image_of, place(where, run, name))


def save_scored(found: dict[Query, ScoredQueries], image_of: np.ndarray, where: Path) -> None:
    """Both directions in one file, similarities in half precision."""
    parts = {"similarity": found["image"].similarity.astype(np.float16), "image_of": image_of}
    sides: dict[str, Query] = {"images": "text", "texts": "image"}
    for side, query in sides.items():
        usual = found[query].background
        assert usual is not None
        for key in ("log_mean", "mean", "spread", "top"):
            parts[f"{side}_{key}"] = getattr(usual, key)
        parts[f"{side}_queries"] = np.array(usual.queries)
    np.savez(where, allow_pickle=False, **parts)


def place(where: Path, run: Path, split: str) -> Path:
    return where / f"{run.name}_{split}.npz"


def load(path: Path) -> dict[Query, ScoredQueries]:
    content = np.load(path)

    def usual(side: str) -> Background:
        arrays = [
            content[f"{side}_{key}"].astype(np.float32)
            for key in ("log_mean", "mean", "spread", "top")
        ]
        return Background(int(content[f"{side}_queries"]), 0.05, *arrays)

    similarity = content["similarity"].astype(np.float32)
    return ScoredQueries.both(
        similarity, content["image_of"], images=usual("images"), texts=usual("texts")
    )


def study(run: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Both directions of a run; the other runs are its ensemble."""
    before, test = (load(place(chosen.scored, run, split)) for split in ("dev", "test"))
    found: dict[str, Any] = {}
    for query in QUERIES:
        extra = extra_measures(run, query, test[query], chosen)
        found[query], _ = study_direction(
            Direction(before[query], test[query]),
            extra=extra,
            splits=chosen.splits,
            draws=chosen.draws,
        )
        found[query].pop("curves")
    ours = {query: found[query]["measures"][OURS]["auroc"] for query in QUERIES}
    print(f"{run.name}: AUROC {ours['text']:.3f} text, {ours['image']:.3f} image", flush=True)
    return found


def sets_anew(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """The studies that were kept, with the sets of queries with several matches anew."""
    kept = read(f"trust_{chosen.name}")
    if kept["runs"] != [run.name for run in chosen.runs]:
        raise SystemExit(f"The kept studies are of {kept['runs']}. Name the same runs.")
    for run, found in zip(chosen.runs, kept["studies"], strict=True):
        before, test = (
            load(place(chosen.scored, run, split))["image"] for split in ("dev", "test")
        )
        temperature = found["image"]["temperature"]
        found["image"]["sets"] = study_sets(
            test, serving_of(before), temperature, chosen.splits
        )
        sizes = [round(row["size"], 1) for row in found["image"]["sets"]]
        print(f"{run.name}, image query: sets of {sizes}", flush=True)
    return kept["studies"]


def extra_measures(
    run: Path, query: Query, test: ScoredQueries, chosen: argparse.Namespace
) -> dict[str, np.ndarray]:
    """The disagreement of all runs, and stochastic measures that were kept beside them."""
    from avow.core.contracts import QueryBatch
    from avow.uncertainty.ensemble import build

    found: dict[str, np.ndarray] = {}
    if len(chosen.runs) > 1:
        everyone = np.stack(
            [
                load(place(chosen.scored, one, "test"))[query].asked().together
                for one in chosen.runs
            ]
        )
        measured = build().measure(QueryBatch(test.similarity, test.own, runs=everyone))
        found |= {f"ensemble: {key}": value.double().numpy() for key, value in measured.items()}
    kept = chosen.scored / f"{run.name}_measures.npz"
    if kept.is_file():
        content = np.load(kept)
        found |= {
            name.partition("|")[2]: content[name].astype(np.float64)
            for name in content.files
            if name.startswith(f"{query}|")
        }
    return found


def summarise(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over runs of every number that all of them have."""
    first = parts[0]
    out: dict[str, Any] = {}
    for key, value in first.items():
        values = [part.get(key) for part in parts]
        if isinstance(value, dict) and all(isinstance(one, dict) for one in values):
            out[key] = summarise(values)  # type: ignore[arg-type]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            rows = zip(*values, strict=False)  # type: ignore[arg-type]
            out[key] = [summarise(list(row)) for row in rows]
        elif isinstance(value, list) and value and isinstance(value[0], float):
            columns = zip(*values, strict=False)  # type: ignore[arg-type]
            out[key] = [statistics.mean(column) for column in columns]
        elif isinstance(value, (int, float)) and None not in values:
            spread = statistics.stdev(values) if len(values) > 1 else None  # type: ignore[type-var]
            out[key] = {"mean": statistics.mean(values), "spread": spread}  # type: ignore[type-var]
    return out


def show(summary: dict[str, Any]) -> None:
    names = sorted(
        summary["text"]["measures"],
        key=lambda name: -summary["text"]["measures"][name]["auroc"]["mean"],
    )
    print(f"{'measure':<34} text -> image   image -> text   (AUROC of a right first answer)")
    for name in names:
        cells = []
        for query in QUERIES:
            row = summary[query]["measures"].get(name)
            if row is None:
                cells.append("      -      ")
                continue
            spread = row["auroc"]["spread"]
            shown = "" if spread is None else f" ± {spread:.3f}"
            cells.append(f"{row['auroc']['mean']:.3f}{shown}")
        ratio = (
            summary["text"]["measures"][OURS]["auroc"]["mean"]
            / (summary["text"]["measures"][name]["auroc"]["mean"])
        )
        print(f"{name:<34} {cells[0]:<15} {cells[1]:<15} x{ratio:.2f}")


if __name__ == "__main__":
    main()
