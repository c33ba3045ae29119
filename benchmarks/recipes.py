"""Train recipes with several seeds, evaluate each on its test split, and compare.

    python benchmarks/recipes.py flickr8k flickr8k/vse_infty_hinge flickr8k/vse_infty_tcl \
        --features DIR --seeds 0 1 2

The first argument names the results file. Prints mean and spread of rSum, per view and for
their average, and each recipe's ratio to the first one. A seed that is done is not run
again, so the command can be stopped and repeated.
"""

import argparse
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _report import command as avow
from _report import keep

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--features", default="")
    parser.add_argument("--data", default="", help="another place of the dataset")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--fold", type=int, default=0, help="also in folds of N images")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--set", dest="changes", action="append", default=[])
    parser.add_argument("--keep-going", type=float, default=1e9, help="seconds for new runs")
    chosen = parser.parse_args()
    deadline = time.monotonic() + chosen.keep_going
    tasks = [(recipe, seed) for seed in chosen.seeds for recipe in chosen.recipes]
    with ThreadPoolExecutor(chosen.jobs) as pool:
        found = list(pool.map(lambda task: one(chosen, task[0], task[1], deadline), tasks))
    done = [result for result in found if result is not None]
    summary = {
        recipe: summarise([run for run in done if run["recipe"] == recipe])
        for recipe in chosen.recipes
        if any(run["recipe"] == recipe for run in done)
    }
    path = keep(chosen.name, {"summary": summary, "changes": chosen.changes, "runs": done})
    show(summary)
    print(f"{len(done)} of {len(tasks)} runs -> {path}")


def one(chosen: argparse.Namespace, recipe: str, seed: int, deadline: float) -> Row | None:
    """One trained and evaluated run, from its own folder where it is done already."""
    run = chosen.runs / f"{recipe.replace('/', '-')}-seed{seed}"
    report = run / "benchmark.json"
    if report.is_file():
        return json.loads(report.read_text())
    if time.monotonic() > deadline:
        return None
    features = ["--features", chosen.features] if chosen.features else []
    data = ["--set", f"data.name={chosen.data}"] if chosen.data else []
    changes = [word for change in chosen.changes for word in ("--set", change)]
    words = [
        "train",
        recipe,
        "--seed",
        str(seed),
        "--out",
        str(run),
        "--resume",
        "--json",
    ]
    started = time.monotonic()
    trained = avow([*words, *features, *data, *changes])
    took = time.monotonic() - started
    tested = avow(["evaluate", str(run), "--json", *features])
    folded = None
    if chosen.fold:
        fold = ["--fold", str(chosen.fold)]
        folded = avow(["evaluate", str(run), "--json", *fold, *features])["rows"]
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    result = {
        "recipe": recipe,
        "seed": seed,
        "seconds": round(took, 1),
        # the last epoch is the longest: all steps of agreement, everything recorded
        "seconds_per_epoch": lines[-1]["seconds"],
        "milliseconds_per_batch": round(
            1000 * lines[-1]["seconds"] / max(lines[-1]["batches"], 1), 2
        ),
        "most_memory": lines[-1].get("most_memory"),
        "dev_rsum": trained["dev_rsum"],
        "best_epoch": trained["best_epoch"],
        "rows": tested["rows"],
        "folded": folded,
        "side_by_side": chosen.jobs,
    }
    report.write_text(json.dumps(result))
    print(f"{recipe} seed {seed}: rSum {tested['rows'][-1]['rsum']:.1f} in {took:.0f} s")
    return result


def summarise(runs: list[Row]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, per row of the table."""
    out: dict[str, Any] = {"seeds": [run["seed"] for run in runs]}
    for fact in ("seconds", "seconds_per_epoch", "most_memory"):
        known = [run[fact] for run in runs if run.get(fact) is not None]
        out[fact] = round(statistics.mean(known), 1) if known else None
    for place, row in enumerate(runs[0]["rows"]):
        values = [run["rows"][place]["rsum"] for run in runs]
        out[row["name"]] = {
            "rsum": round(statistics.mean(values), 2),
            "spread": round(statistics.stdev(values), 2) if len(values) > 1 else None,
            "values": [round(value, 2) for value in values],
        }
    return out


def show(summary: dict[str, dict[str, Any]]) -> None:
    first: float | None = None
    for recipe, found in summary.items():
        for name, row in found.items():
            if not isinstance(row, dict):
                continue
            spread = "" if row["spread"] is None else f" ± {row['spread']:.2f}"
            print(f"{recipe:<28} {name:<12} rSum {row['rsum']:.1f}{spread}")
        seconds, memory = found["seconds_per_epoch"], found["most_memory"]
        if seconds is not None and memory is not None:
            print(f"{recipe:<28} {seconds:.1f} s an epoch, at most {memory / 2**30:.2f} GiB")
        best = list(found.values())[-1]["rsum"]
        first = best if first is None else first
        print(f"{recipe:<28} ratio to the first recipe: {best / first:.3f}")


if __name__ == "__main__":
    main()
