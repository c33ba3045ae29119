"""Train recipes with several seeds, evaluate each on its test split, and compare.

    python -m benchmarks.quality.recipes flickr8k \
        flickr8k/vse_infty_hinge flickr8k/vse_infty_tcl --features DIR --seeds 0 1 2

The first argument names the results file, to which runs are added. Prints mean and spread of
rSum, per view and for their average, and each recipe's ratio to the first one. What is done
is not run again, so the command can be stopped and repeated, with more recipes if wanted.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._report import RESULTS, keep, read
from benchmarks._runs import Row, Task, joined, parser_of, spread, train_all


def main() -> None:
    parser = parser_of(__doc__, "runs")
    parser.add_argument("name")
    parser.add_argument("recipes", nargs="+")
    chosen = parser.parse_args()
    run(chosen.name, chosen.recipes, chosen)


def run(name: str, wanted: Sequence[str], chosen: argparse.Namespace) -> None:
    """Train and test every recipe with every seed; add them to the file of results."""
    tasks = [Task(recipe, seed) for seed in chosen.seeds for recipe in wanted]
    done = joined(train_all(tasks, chosen), name)
    path = write_results(name, done, wanted, chosen.changes)
    show(read(name)["summary"])
    print(f"{len(done)} runs -> {path}")


def write_results(
    name: str,
    done: Sequence[Row],
    wanted: Sequence[str] = (),
    changes: Sequence[str] = (),
    machine: dict[str, Any] | None = None,
) -> Path:
    """The file of results: every run, and mean and spread of each recipe, `wanted` first.

    machine: where the runs were made, if not here. A note that the file has is kept.
    """
    by_recipe: dict[str, list[Row]] = {recipe: [] for recipe in wanted}
    for run in done:
        by_recipe.setdefault(run["recipe"], []).append(run)
    summary = {recipe: summarise(runs) for recipe, runs in by_recipe.items() if runs}
    figures = {"summary": summary, "changes": list(changes), "runs": list(done)}
    if (RESULTS / f"{name}.json").is_file() and (note := read(name).get("note")):
        figures = {"note": note, **figures}
    return keep(name, figures if machine is None else {"machine": machine, **figures})


def summarise(runs: list[Row]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, per row of the table."""
    out: dict[str, Any] = {"seeds": [run["seed"] for run in runs]}
    for fact in ("seconds", "seconds_per_epoch", "most_memory"):
        known = [run[fact] for run in runs if run.get(fact) is not None]
        out[fact] = round(statistics.mean(known), 1) if known else None
    for place, row in enumerate(runs[0]["rows"]):
        out[row["name"]] = spread([run["rows"][place]["rsum"] for run in runs])
    return out


def show(summary: dict[str, dict[str, Any]]) -> None:
    first: float | None = None
    for recipe, found in summary.items():
        for name, row in found.items():
            if not isinstance(row, dict):
                continue
            around = "" if row["spread"] is None else f" ± {row['spread']:.2f}"
            print(f"{recipe:<28} {name:<12} rSum {row['rsum']:.1f}{around}")
        seconds, memory = found["seconds_per_epoch"], found["most_memory"]
        if seconds is not None and memory is not None:
            print(f"{recipe:<28} {seconds:.1f} s an epoch, at most {memory / 2**30:.2f} GiB")
        best = list(found.values())[-1]["rsum"]
        first = best if first is None else first
        print(f"{recipe:<28} ratio to the first recipe: {best / first:.3f}")


if __name__ == "__main__":
    main()
