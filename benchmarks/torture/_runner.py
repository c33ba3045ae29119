"""Run promises batch by batch, each batch in a process of its own, and keep what was found.

    scripts/torture                          every promise, until each has all its tries
    scripts/torture damage --tries 2000      one promise, so many more tries
    scripts/torture --minutes 30             all of them, in turns, for half an hour
    scripts/torture --list                   the promises, and how far each has come

Stopped at any moment it goes on where it was: benchmarks/results/torture.json is written after
every batch. `--again` begins a promise anew, as after a change of the code it is about.
"""

import argparse
import contextlib
import fcntl
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import benchmarks.torture
from avow.core import folder
from avow.core.files import write_text
from benchmarks.torture._batch import Batch, added

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "torture.json"
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""A disk in memory, where the system has one: for promises that do not depend on the disk."""
LONGEST = 3600.0
"""Seconds after which a batch is taken to hang; it only ends what would wait without end."""


def main(arguments: list[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    console = Console()
    names = chosen.promises or folder.names(benchmarks.torture)
    for name in names:
        folder.find(benchmarks.torture, name)
    if chosen.json:
        print(json.dumps(kept()))
        return 0
    if not chosen.list:
        try:
            run(names, chosen, console)
        except KeyboardInterrupt:
            console.print("Stopped; the same command goes on from here.")
    console.print(table(names))
    figures = kept()["promises"]
    return int(any(failed(figures.get(name, {})) for name in names))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="scripts/torture",
        description=(__doc__ or "").partition("\n\n")[0],
        epilog=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("promises", nargs="*", help="names of promises; default: all")
    made.add_argument("--list", action="store_true", help="the promises, and what was seen")
    made.add_argument("--json", action="store_true", help="print what was seen, run nothing")
    made.add_argument("--minutes", type=float, help="stop after so long")
    made.add_argument("--tries", type=int, help="so many more of each, whatever was done")
    made.add_argument("--only", type=int, help="one try again by its number; nothing is kept")
    made.add_argument("--again", action="store_true", help="begin these promises anew")
    return made


def run(names: list[str], chosen: argparse.Namespace, console: Console) -> None:
    end = time.monotonic() + 60 * chosen.minutes if chosen.minutes else float("inf")
    modules = {name: folder.find(benchmarks.torture, name) for name in names}
    with places(names) as place, shown(console) as bars:
        if chosen.only is not None:
            for name in names:
                batch = in_a_process(name, place[name], chosen.only, 1)
                console.print(name, batch.losses, batch.tracebacks, dict(batch.counts))
            return
        if chosen.again:
            with results() as content:
                for name in names:
                    content["promises"].pop(name, None)
        before = kept()["promises"]
        done = {name: before.get(name, {}).get("next", 0) for name in names}
        goals = {
            name: done[name] + chosen.tries if chosen.tries else module.WANTED
            for name, module in modules.items()
        }
        lines = {name: bars.add_task(name, total=goals[name]) for name in names}
        while time.monotonic() < end and (left := [n for n in names if done[n] < goals[n]]):
            # in turns, so that a run that is stopped has tried every promise
            for name in left:
                count = min(modules[name].BATCH, goals[name] - done[name])
                bars.update(lines[name], completed=done[name])
                one_batch(name, place[name], done[name], count)
                done[name] += count
                bars.update(lines[name], completed=done[name])
                if time.monotonic() > end:
                    break


@contextlib.contextmanager
def places(names: list[str]) -> Iterator[dict[str, Path]]:
    """Where each promise makes what it needs, gone at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="torture-") as disk,
        tempfile.TemporaryDirectory(prefix="torture-", dir=MEMORY) as memory,
    ):
        modules = {name: folder.find(benchmarks.torture, name) for name in names}
        yield {
            name: Path(memory if getattr(module, "IN_MEMORY", False) else disk)
            for name, module in modules.items()
        }


def one_batch(name: str, place: Path, first: int, count: int) -> None:
    """Make some tries and keep what they showed."""
    started = time.monotonic()
    batch = in_a_process(name, place, first, count)
    hours = (time.monotonic() - started) / 3600
    with results() as content:
        before = content["promises"].get(name)
        after = added(before, batch)
        after["next"] = first + count
        after["hours"] = round((before or {}).get("hours", 0.0) + hours, 5)
        after["commits"] = _commits(before)
        after["machines"] = _machines(before)
        content["promises"][name] = after


def in_a_process(name: str, place: Path, first: int, count: int, *only: str) -> Batch:
    """The batch of a fresh process; what ends that process is itself a loss."""
    home = place / name
    home.mkdir(exist_ok=True)
    words = ["-m", "benchmarks.torture._child", name, home, first, count, *only]
    surroundings = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    with (place / f"{name}.log").open("w+") as log:
        try:
            done = subprocess.run(
                [sys.executable, *map(str, words)],
                env=surroundings,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                timeout=LONGEST,
            )
            status: object = done.returncode
            answer = done.stdout.splitlines()[-1:]
        except subprocess.TimeoutExpired:
            status, answer = f"nothing for {LONGEST:.0f} seconds", []
        log.seek(0)
        said = log.read()[-3000:]
    if status != 0 or not answer:
        print(said, file=sys.stderr)
        ended = f"{first}: the process of the tries ended with {status}: {said[-300:]}"
        return Batch(tries=0, losses=[" ".join(ended.split())])
    content: dict[str, Any] = json.loads(answer[0])
    content["counts"] = Counter(content["counts"])
    return Batch(**content)


# --- what is kept ------------------------------------------------------------------------


def kept() -> dict[str, Any]:
    try:
        return json.loads(RESULTS.read_text("utf-8"))
    except FileNotFoundError:
        return {"promises": {}}


@contextlib.contextmanager
def results() -> Iterator[dict[str, Any]]:
    """The file of results, to change; another runner waits meanwhile."""
    with (Path(tempfile.gettempdir()) / "avow-torture.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        content = kept()
        yield content
        content["promises"] = dict(sorted(content["promises"].items()))
        write_text(RESULTS, json.dumps(content, indent=1) + "\n")


def _machines(before: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Of all batches of a promise; of each machine the last day."""
    from benchmarks import _report  # with torch, which takes seconds to import

    now = _report.machine()
    others = [one for one in (before or {}).get("machines", []) if _same(one) != _same(now)]
    return [*others, now]


def _same(machine: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in machine.items() if key != "date"}


def _commits(before: dict[str, Any] | None) -> list[str]:
    from benchmarks._report import commit

    return list(dict.fromkeys([*(before or {}).get("commits", []), commit()]))


def failed(figures: dict[str, Any]) -> bool:
    return bool(figures.get("losses") or figures.get("tracebacks"))


# --- what is shown -----------------------------------------------------------------------


def shown(console: Console) -> Progress:
    columns = (TextColumn("{task.description:18}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=console)


def table(names: list[str]) -> Table:
    made = Table(title="Promises")
    for head in ("name", "promise", "tries", "wanted", "losses", "tracebacks", "hours"):
        made.add_column(head, justify="left" if head in ("name", "promise") else "right")
    figures = kept()["promises"]
    for name in names:
        module: ModuleType = importlib.import_module(f"benchmarks.torture.{name}")
        seen = figures.get(name, {})
        counts = [seen.get(key, 0) for key in ("losses", "tracebacks")]
        made.add_row(
            name,
            module.PROMISE,
            f"{seen.get('tries', 0):,}",
            f"{module.WANTED:,}",
            *map(str, counts),
            f"{seen.get('hours', 0.0):.2f}",
            style="red" if any(counts) else "",
        )
    return made
