"""Work through the runs that the pages of the papers lack, several side by side on one GPU.

    python -m benchmarks.quality.paper_queue --list         what is left, and how long it takes
    python -m benchmarks.quality.paper_queue --features DIR --jobs 10 --until 480 --out OUT
    python -m benchmarks.quality.paper_queue --merge OUT    into benchmarks/results, on return

`benchmarks/published/queue.json` orders the runs: most verdicts for the least time first. A run
is one process from training to its last figure, and leaves OUT/NAME.json as soon as it is
tested. A run that the results or OUT have is not run again, unless --older asks for those whose
code has changed since. No run starts after --until seconds; at --stop those under way are
ended, and a later call goes on from their last epoch.
"""

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._code_age import code_of
from benchmarks._report import RESULTS, command, machine
from benchmarks._runs import Row, Task, joined, parser_of, train_and_test

QUEUE = RESULTS.with_name("published") / "queue.json"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""Many processes share the cores; each has little to do beside its GPU."""
POLL = 0.5


@dataclass(frozen=True)
class Wanted:
    """One run of the queue, or the average of runs that are done (`together`)."""

    file: str
    task: Task
    then: tuple[str, ...] = ()
    """Steps of `_afterwards` once it is tested."""
    together: tuple[str, ...] = ()
    average: str = "similarity"
    seconds: float = 0
    """Of the whole GPU; a run that shares it takes longer."""
    fold: int = 0
    """Images of a fold that it is tested in, too; 0: in the whole split alone."""
    precision: str = ""
    """Of products when it is tested, where not that of the call."""

    def result(self, out: Path) -> Path:
        """Short, of letters, digits and hyphens alone: not every transfer takes others."""
        named = f"{self.file}-{self.task.recipe.rpartition('/')[2]}"
        number = hashlib.sha256(f"{self.file} {self.task.recipe}".encode()).hexdigest()[:8]
        short = re.sub(r"[^A-Za-z0-9]+", "-", named)[:70]
        return out / f"{short}-{number}-seed{self.task.seed}.json"

    def parts(self) -> list[Task]:
        return [Task(recipe, self.task.seed) for recipe in self.together]


def read_queue(path: Path = QUEUE) -> list[Wanted]:
    return [
        Wanted(
            entry["file"],
            Task(entry["recipe"], seed),
            tuple(entry.get("then", ())),
            tuple(entry.get("together", ())),
            entry.get("average", "similarity"),
            entry.get("seconds", 0),
            entry.get("fold", 0),
            entry.get("precision", ""),
        )
        for entry in json.loads(path.read_text("utf-8"))["runs"]
        for seed in entry["seeds"]
    ]


def main() -> None:
    parser = parser_of(__doc__, "runs")
    parser.add_argument("--queue", type=Path, default=QUEUE)
    parser.add_argument("--out", type=Path, default=Path("runs/papers-out"))
    parser.add_argument("--until", type=float, default=1e9, help="seconds for new runs")
    parser.add_argument("--stop", type=float, default=1e9, help="seconds until all are ended")
    parser.add_argument("--models", type=int, default=100, help="drawn by dropout")
    parser.add_argument("--only", default="", help="part of a recipe's name")
    parser.add_argument("--one", type=int, help="only the run of this number, here")
    parser.add_argument("--list", action="store_true")
    parser.add_argument(
        "--older", action="store_true", help="runs of older code count as left, too"
    )
    parser.add_argument("--merge", type=Path, help="a folder of results that came back")
    chosen = parser.parse_args()
    queue = read_queue(chosen.queue)
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.merge:
        merge(chosen.merge)
    elif chosen.one is not None:
        make(queue[chosen.one], chosen)
    elif chosen.list:
        show(queue, chosen)
    else:
        work(queue, chosen)


# --- the queue -----------------------------------------------------------------------------


def left(queue: Sequence[Wanted], chosen: argparse.Namespace) -> list[int]:
    """Numbers of what is not in the results and not finished in the folder of this call.

    Parts of an average that is left are run again where their weights are not here.
    """
    missing = [
        wanted
        for wanted in queue
        if chosen.only in wanted.task.recipe
        and not in_results(wanted, chosen.older)
        and not is_finished(wanted.result(chosen.out))
    ]
    parts = {
        (part.recipe, part.seed)
        for wanted in missing
        for part in wanted.parts()
        if not (chosen.runs / part.folder / "tested").is_file()
    }
    return [
        number
        for number, wanted in enumerate(queue)
        if wanted in missing or (wanted.task.recipe, wanted.task.seed) in parts
    ]


def in_results(wanted: Wanted, of_this_code: bool = False) -> bool:
    path = RESULTS / f"{wanted.file}.json"
    runs = json.loads(path.read_text())["runs"] if path.is_file() else []
    for run in runs:
        if (run["recipe"], run["seed"]) == (wanted.task.recipe, wanted.task.seed):
            is_current = not of_this_code or run.get("code") == code_of(wanted.task.recipe)
            return is_current and set(wanted.then) <= set(run.get("afterwards", {}))
    return False


def is_finished(path: Path) -> bool:
    return path.is_file() and not json.loads(path.read_text())["left"]


def work(queue: Sequence[Wanted], chosen: argparse.Namespace) -> None:
    """Start what is left in its order, as long as there is time; end what is under way."""
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    pending, running = left(queue, chosen), {}
    print(f"{len(pending)} of {len(queue)} runs are left", flush=True)
    try:
        while pending or running:
            over = time.monotonic() - began
            for number in [
                one for one, process in running.items() if process.poll() is not None
            ]:
                _tell(queue[number], running.pop(number), chosen, time.monotonic() - began)
            if over > chosen.stop or (over > chosen.until and not running):
                break
            while over < chosen.until and len(running) < chosen.jobs:
                number = _next(queue, pending, running, chosen)
                if number is None:
                    break
                pending.remove(number)
                running[number] = _start(number, queue[number], chosen)
            if pending and not running and _next(queue, pending, running, chosen) is None:
                break  # averages of runs that failed
            time.sleep(POLL)
    finally:
        _end(list(running.values()))
    unfinished = len(left(queue, chosen))
    print(f"{unfinished} runs are left after {time.monotonic() - began:.0f} s", flush=True)


def _next(
    queue: Sequence[Wanted],
    pending: Sequence[int],
    running: dict[int, Any],
    chosen: argparse.Namespace,
) -> int | None:
    """The first run that waits for nothing; an average waits for its parts."""
    for number in pending:
        parts = queue[number].parts()
        if all((chosen.runs / part.folder / "tested").is_file() for part in parts):
            return number
    return None


def _start(number: int, wanted: Wanted, chosen: argparse.Namespace) -> subprocess.Popen[bytes]:
    chosen.runs.mkdir(parents=True, exist_ok=True)
    words = [
        *(sys.executable, "-m", "benchmarks.quality.paper_queue"),
        *("--one", str(number), "--queue", str(chosen.queue)),
        *("--out", str(chosen.out), "--runs", str(chosen.runs)),
        *("--features", str(chosen.features), "--device", chosen.device),
        *("--jobs", str(chosen.jobs), "--models", str(chosen.models)),
        *("--data", chosen.data, "--precision", chosen.precision),
        *[word for change in chosen.changes for word in ("--set", change)],
    ]
    with (chosen.runs / f"{wanted.task.folder}.log").open("ab") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, env={**ONE_THREAD, **os.environ})


def _tell(
    wanted: Wanted,
    process: subprocess.Popen[bytes],
    chosen: argparse.Namespace,
    seconds: float,
) -> None:
    where = wanted.result(chosen.out)
    if process.returncode:
        log = (chosen.runs / f"{wanted.task.folder}.log").read_text(errors="replace")
        why = log.strip().splitlines()[-1:] or ["nothing said"]
        print(f"{seconds:5.0f} s  {wanted.task.folder} FAILED: {why[0]}", flush=True)
        return
    result = json.loads(where.read_text())
    rsum = result["rows"][-1]["rsum"]
    print(f"{seconds:5.0f} s  {wanted.task.folder}: rSum {rsum:.1f}", flush=True)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask all to end, and wait: what they wrote is whole, since files are moved in place."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def show(queue: Sequence[Wanted], chosen: argparse.Namespace) -> None:
    total = 0.0
    for number in left(queue, chosen):
        wanted = queue[number]
        total += wanted.seconds
        print(
            f"{total:6.0f} s  {wanted.file:<20} {wanted.task.recipe}, seed {wanted.task.seed}"
        )


# --- one run -------------------------------------------------------------------------------


def make(wanted: Wanted, chosen: argparse.Namespace) -> None:
    """One run to its last figure; the result is written after every step."""
    from benchmarks.quality import _afterwards

    chosen.here, chosen.fold = True, wanted.fold  # this process is the run's own
    chosen.precision = wanted.precision or chosen.precision
    path = wanted.result(chosen.out)
    run = chosen.runs / wanted.task.folder
    result: dict[str, Any]
    if path.is_file():
        result = json.loads(path.read_text())
    elif wanted.together:
        result = {**average(wanted, chosen), "afterwards": {}, "left": []}
    else:
        tested = train_and_test(wanted.task, chosen)
        result = {**tested, "afterwards": {}, "left": list(wanted.then)}
        (run / "tested").touch()
    result |= {"file": wanted.file, "changes": chosen.changes, "machine": machine()}
    write(path, result)
    for step in list(result["left"]):
        began = time.monotonic()
        found = _afterwards.STEPS[step](run, chosen, path)
        result["afterwards"][step] = {**found, "seconds": round(time.monotonic() - began, 1)}
        result["left"].remove(step)
        write(path, result)


def average(wanted: Wanted, chosen: argparse.Namespace) -> Row:
    """Runs that are done, averaged: SGRAF is one of SAF and one of SGR."""
    folders = [chosen.runs / part.folder for part in wanted.parts()]
    words = ["--features", str(chosen.features)] if chosen.features else []
    words += ["--device", chosen.device] if chosen.device else []
    how = ["--average", wanted.average, "--precision", chosen.precision, "--json"]
    tested = command(["evaluate", *map(str, folders), *how, *words], chosen.here)
    results = chosen.out.glob("*.json")
    parts = [json.loads(one.read_text()) for one in results]
    known = {(part["recipe"], part["seed"]): part for part in parts}
    first = known[wanted.together[0], wanted.task.seed]
    same = ("precision", "side_by_side", "gpu", "commit", "code", "date")
    return {
        "recipe": wanted.task.recipe,
        "seed": wanted.task.seed,
        "together": list(wanted.together),
        "average": wanted.average,
        "rows": [{**tested["rows"][-1], "name": "model"}],
        **{key: first[key] for key in same},
    }


def write(path: Path, result: Row) -> None:
    """Whole or not at all, so that a call that is cut off leaves no half file."""
    half = path.with_suffix(".half")
    half.write_text(json.dumps(result))
    half.replace(path)


# --- back home -----------------------------------------------------------------------------


def merge(folder: Path) -> None:
    """Add the results of a folder to the files of results that they name."""
    from benchmarks.quality.recipes import write_results

    files: dict[str, list[Row]] = {}
    machines: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        changes = result.pop("changes", [])
        if changes:
            raise SystemExit(f"{path.name} was trained with {changes}: it is no result.")
        name = result.pop("file")
        machines[name] = result.pop("machine")
        files.setdefault(name, []).append(result)
    for name, runs in files.items():
        path = write_results(name, joined(runs, name), machine=machines[name])
        print(f"{len(runs)} runs -> {path}")


if __name__ == "__main__":
    main()
