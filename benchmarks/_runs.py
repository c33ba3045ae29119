"""Trained and evaluated runs: side by side, resumed, and joined with those of earlier calls.

A recipe may carry changes after plus signs (`flickr8k/sgr_tcl+train.epochs=3`), and is then
another row. A run that is done is not run again, one that was stopped goes on, and one that
fails is named while the others go on.
"""

import argparse
import json
import re
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._code_age import code_of
from benchmarks._report import RESULTS, command, commit, machine

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One run. noise: the share of wrong pairs, where the benchmark is about them."""

    recipe: str
    seed: int
    noise: float | None = None

    @property
    def folder(self) -> str:
        name = re.sub(r"[^\w.=-]+", "-", self.recipe)
        share = "" if self.noise is None else f"-noise{round(100 * self.noise):02d}"
        return f"{name}{share}-seed{self.seed}"


def parser_of(about: str | None, runs: str) -> argparse.ArgumentParser:
    """The options that every benchmark of runs has."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--features", default="")
    parser.add_argument("--data", default="", help="another place of the dataset")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=Path(runs))
    parser.add_argument("--fold", type=int, default=0, help="also in folds of N images")
    parser.add_argument("--precision", default="fp32", help="of products when tested")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--here", action="store_true", help="no process of its own per run")
    parser.add_argument("--device", default="")
    parser.add_argument("--set", dest="changes", action="append", default=[])
    parser.add_argument("--keep-going", type=float, default=1e9, help="seconds for new runs")
    return parser


def scored_parser(about: str | None) -> argparse.ArgumentParser:
    """What every benchmark of scored runs is given."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--scored", type=Path, default=Path("scored"))
    return parser


def train_all(tasks: Sequence[Task], chosen: argparse.Namespace) -> list[Row]:
    """The runs that are done, in order; those that failed or had no time are told."""
    if chosen.here and chosen.jobs > 1:
        raise SystemExit("--here runs one after the other. Leave out --jobs, or --here.")
    deadline = time.monotonic() + chosen.keep_going
    with ThreadPoolExecutor(chosen.jobs) as pool:
        found = list(pool.map(lambda task: _tried(task, chosen, deadline), tasks))
    done = [run for run in found if run is not None]
    if len(done) < len(tasks):
        print(f"{len(tasks) - len(done)} of {len(tasks)} runs are left", flush=True)
    return done


def joined(fresh: Sequence[Row], name: str) -> list[Row]:
    """The runs of this call, and those that earlier ones left in the results file."""
    path = RESULTS / f"{name}.json"
    older = json.loads(path.read_text())["runs"] if path.is_file() else []
    known = {(run["recipe"], run.get("noise"), run["seed"]): run for run in [*older, *fresh]}
    return [known[key] for key in sorted(known, key=str)]


def spread(values: Sequence[float]) -> dict[str, Any]:
    return {
        "rsum": round(statistics.mean(values), 2),
        "spread": round(statistics.stdev(values), 2) if len(values) > 1 else None,
        "values": [round(value, 2) for value in values],
    }


def _tried(task: Task, chosen: argparse.Namespace, deadline: float) -> Row | None:
    report = chosen.runs / task.folder / "benchmark.json"
    if report.is_file():
        return json.loads(report.read_text())
    if time.monotonic() > deadline:
        return None
    try:
        result = train_and_test(task, chosen)
    except SystemExit as error:
        print(f"{task.folder} failed: {error}", flush=True)
        return None
    report.write_text(json.dumps(result))
    print(
        f"{task.folder}: rSum {result['rows'][-1]['rsum']:.1f} in {result['seconds']:.0f} s",
        flush=True,
    )
    return result


def train_and_test(task: Task, chosen: argparse.Namespace) -> Row:
    """One run from its recipe to its recall; SystemExit says why it failed."""
    run = chosen.runs / task.folder
    recipe, *changes = task.recipe.split("+")
    if task.noise is not None:
        changes = [change.replace("NOISE", f"{100 * task.noise:02.0f}") for change in changes]
    if task.noise:
        words = {"ratio": task.noise, "by": f'"{chosen.by}"', "kind": f'"{chosen.kind}"'}
        changes += [f"noise.{key}={value}" for key, value in words.items()]
    if chosen.data:
        changes.append(f"data.name={chosen.data}")
    changes += chosen.changes
    where = ["--features", chosen.features] if chosen.features else []
    where += ["--device", chosen.device] if chosen.device else []
    test = ["evaluate", str(run), "--json", "--precision", chosen.precision, *where]
    started = time.monotonic()
    trained = command([
        *("train", recipe, "--seed", str(task.seed), "--out", str(run), "--resume", "--json"),
        *where,
        *[word for change in changes for word in ("--set", change)],
    ], chosen.here)  # fmt: skip
    took = time.monotonic() - started
    tested = command(test, chosen.here)
    folded = None
    if chosen.fold:
        folded = command([*test, "--fold", str(chosen.fold)], chosen.here)["rows"]
    last = json.loads((run / "log.jsonl").read_text().splitlines()[-1])
    about: dict[str, Any] = {"recipe": task.recipe, "seed": task.seed}
    if task.noise is not None:
        about["noise"] = task.noise
    return {
        **about,
        "seconds": round(took, 1),
        # the last epoch is the longest: all steps of agreement, everything recorded
        "seconds_per_epoch": last["seconds"],
        "milliseconds_per_batch": round(1000 * last["seconds"] / max(last["batches"], 1), 2),
        "most_memory": last.get("most_memory"),
        "dev_rsum": trained["dev_rsum"],
        "best_epoch": trained["best_epoch"],
        "last_dev_rsum": last["dev"]["rsum"],
        "sifted": last.get("sifted"),
        "rows": tested["rows"],
        "folded": folded,
        "precision": chosen.precision,
        "side_by_side": chosen.jobs,
        "gpu": machine()["gpu"],
        "commit": commit(),
        "code": code_of(task.recipe),
        "date": machine()["date"],
    }
