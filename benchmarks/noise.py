"""Train recipes on data with more and more wrong pairs, and see how much each loses.

    python benchmarks/noise.py --features DIR --jobs 3
    python benchmarks/noise.py --features DIR --noise 0.4 --seeds 0 \
        --recipes flickr8k/vse_infty_tcl_decl flickr8k/vse_infty_tcl_decl+loss.round=true

A recipe may carry changes after plus signs, and is then a row of its own. Every run trains
on the same wrong pairs as the others of its rate (`--by`, `--kind`, noise seed 0); dev and
test stay as they are. A run that is done is not run again and one that was stopped goes on,
so the command can be stopped and repeated, with more rates, seeds or recipes if wanted.
Prints rSum of every view and of their average, and what is lost against no noise.
"""

import argparse
import json
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _report import RESULTS, command, keep

Row = dict[str, Any]

RECIPES = [f"flickr8k/vse_infty_{loss}" for loss in ("hinge", "ncr", "decl", "tcl", "tcl_decl")]


@dataclass(frozen=True)
class Task:
    """One run of the grid."""

    recipe: str
    noise: float
    seed: int

    @property
    def folder(self) -> str:
        name = re.sub(r"[^\w.=-]+", "-", self.recipe)
        return f"{name}-noise{round(100 * self.noise):02d}-seed{self.seed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.2, 0.4, 0.6, 0.8])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--by", default="image", choices=["image", "caption"])
    parser.add_argument("--kind", default="permutation", choices=["permutation", "derangement"])
    parser.add_argument("--features", default="")
    parser.add_argument("--data", default="", help="another place of the dataset")
    parser.add_argument("--runs", type=Path, default=Path("runs/noise"))
    parser.add_argument("--name", default="noise", help="of the results file")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--device", default="")
    parser.add_argument("--set", dest="changes", action="append", default=[])
    parser.add_argument("--keep-going", type=float, default=1e9, help="seconds for new runs")
    chosen = parser.parse_args()
    deadline = time.monotonic() + chosen.keep_going
    tasks = [
        Task(recipe, noise, seed)
        for seed in chosen.seeds
        for noise in chosen.noise
        for recipe in chosen.recipes
    ]
    with ThreadPoolExecutor(chosen.jobs) as pool:
        found = list(pool.map(lambda task: one(chosen, task, deadline), tasks))
    done = merged([run for run in found if run is not None], chosen.name)
    summary = summarise(done)
    about = {"by": chosen.by, "kind": chosen.kind, "changes": chosen.changes}
    path = keep(chosen.name, {"about": about, "summary": summary, "runs": done})
    print(table(summary))
    print(f"{len(done)} runs, {sum(run is None for run in found)} left -> {path}")


def one(chosen: argparse.Namespace, task: Task, deadline: float) -> Row | None:
    """One trained and evaluated run, from its own folder where it is done already."""
    run = chosen.runs / task.folder
    report = run / "benchmark.json"
    if report.is_file():
        return json.loads(report.read_text())
    if time.monotonic() > deadline:
        return None
    recipe, *changes = task.recipe.split("+")
    if task.noise:
        words = {"ratio": task.noise, "by": f'"{chosen.by}"', "kind": f'"{chosen.kind}"'}
        changes += [f"noise.{key}={value}" for key, value in words.items()]
    if chosen.data:
        changes.append(f"data.name={chosen.data}")
    changes += chosen.changes
    features = ["--features", chosen.features] if chosen.features else []
    device = ["--device", chosen.device] if chosen.device else []
    started = time.monotonic()
    trained = command(
        [
            *("train", recipe, "--seed", str(task.seed), "--out", str(run)),
            *("--resume", "--json", *features, *device),
            *[word for change in changes for word in ("--set", change)],
        ]
    )
    tested = command(["evaluate", str(run), "--json", *features, *device])
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    result = {
        "recipe": task.recipe,
        "noise": task.noise,
        "seed": task.seed,
        "seconds": round(time.monotonic() - started, 1),
        "dev_rsum": trained["dev_rsum"],
        "best_epoch": trained["best_epoch"],
        "last_dev_rsum": lines[-1]["dev"]["rsum"],
        "sifted": lines[-1].get("sifted"),
        "rows": tested["rows"],
        "side_by_side": chosen.jobs,
    }
    report.write_text(json.dumps(result))
    best = tested["rows"][-1]["rsum"]
    print(f"{task.folder}: rSum {best:.1f} in {result['seconds']:.0f} s", flush=True)
    return result


def merged(fresh: list[Row], name: str) -> list[Row]:
    """The runs of this call, and those that an earlier one left in the results file."""
    path = RESULTS / f"{name}.json"
    older = json.loads(path.read_text())["runs"] if path.is_file() else []
    known = {(run["recipe"], run["noise"], run["seed"]): run for run in [*older, *fresh]}
    return [known[key] for key in sorted(known, key=str)]


def summarise(runs: list[Row]) -> dict[str, dict[str, Any]]:
    """Per recipe and rate: mean and spread over seeds of every view and of their average."""
    out: dict[str, dict[str, Any]] = {}
    for recipe in dict.fromkeys(run["recipe"] for run in runs):
        own = [run for run in runs if run["recipe"] == recipe]
        rates = sorted({run["noise"] for run in own})
        cells = {f"{rate:g}": cell([r for r in own if r["noise"] == rate]) for rate in rates}
        if "0" in cells:
            clean = cells["0"]["best"]["rsum"]
            for found in cells.values():
                found["lost"] = round(clean - found["best"]["rsum"], 2)
        out[recipe] = cells
    return out


def cell(runs: list[Row]) -> dict[str, Any]:
    views = [row["name"] for row in runs[0]["rows"]]
    found = {
        name: spread([run["rows"][place]["rsum"] for run in runs])
        for place, name in enumerate(views)
    }
    seeds = [run["seed"] for run in runs]
    return {"seeds": seeds, "views": found, "best": found[views[-1]]}


def spread(values: list[float]) -> dict[str, Any]:
    return {
        "rsum": round(statistics.mean(values), 2),
        "spread": round(statistics.stdev(values), 2) if len(values) > 1 else None,
        "values": [round(value, 2) for value in values],
    }


def table(summary: dict[str, dict[str, Any]]) -> str:
    """Markdown: a row per recipe and view, a column per rate, and what the last view lost."""
    rates = sorted({rate for cells in summary.values() for rate in cells}, key=float)
    lines = ["| recipe | view | " + " | ".join(f"{float(r):.0%}" for r in rates) + " |"]
    lines.append("| --- | --- |" + " ---: |" * len(rates))
    for recipe, cells in summary.items():
        views = next(iter(cells.values()))["views"]
        for name in views:
            shown = [_shown(cells.get(rate, {}).get("views", {}).get(name)) for rate in rates]
            lines.append(f"| {recipe} | {name} | " + " | ".join(shown) + " |")
        if any("lost" in found for found in cells.values()):
            lost = [_number(cells.get(rate, {}).get("lost")) for rate in rates]
            lines.append(f"| {recipe} | lost | " + " | ".join(lost) + " |")
    return "\n".join(lines)


def _shown(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    return f"{found['rsum']:.1f}" + (f" ± {found['spread']:.1f}" if found["spread"] else "")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


if __name__ == "__main__":
    main()
