"""Train and test what the tables of video retrieval need, several runs side by side on one GPU.

    python -m benchmarks.quality.video_tables --list
    python -m benchmarks.quality.video_tables --jobs 12 --until 480 --stop 560 --out OUT
    python -m benchmarks.quality.video_tables --merge OUT/video_tables.jsonl

Dual Encoding with the hinge, with two hinge networks and with TCL on MSVD and on MSR-VTT
frames; CE and TT-CE with substitute experts on MSVD. OUT/video_tables.jsonl gets a line as soon
as a run is tested; what it has is not done again, and a run that was stopped goes on from its
last epoch. On one GPU start CUDA MPS first, so that runs share it well.
`--merge` writes benchmarks/results/papers/videos.json, and needs no GPU.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from benchmarks.quality._video_queue import PILOT_EPOCHS, Entry, Row, chosen_changes, queue

NAME, FILE = "video_tables", "papers/videos"


def main() -> None:
    chosen = arguments()
    if chosen.merge:
        merge([json.loads(line) for line in chosen.merge.read_text().splitlines()], chosen.note)
        return
    entries = queue(chosen.only)
    if chosen.list:
        print("\n".join(entry.name for entry in entries), f"\n{len(entries)} entries")
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    chosen.out.mkdir(parents=True, exist_ok=True)
    Queue(entries, chosen).work()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name all entries, do nothing")
    parser.add_argument("--merge", type=Path, help="a file of lines, into the results")
    parser.add_argument("--note", default="", help="with --merge: what to record beside it")
    parser.add_argument("--only", nargs="+", default=[], help="parts of names")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--runs", type=Path, default=Path("runs/video_tables"))
    parser.add_argument("--out", type=Path, default=Path("runs/video_tables"))
    parser.add_argument("--words", default="", help="file of word vectors, not the package's")
    parser.add_argument("--until", type=float, default=1e9, help="seconds for new runs")
    parser.add_argument("--stop", type=float, default=1e9, help="seconds for all runs")
    parser.add_argument("--device", default="")
    parser.add_argument("--set", dest="changes", action="append", default=[])
    return parser.parse_args()


class Queue:
    """Entries are begun in their order, each as soon as what it needs is done."""

    def __init__(self, entries: Sequence[Entry], chosen: argparse.Namespace):
        self.chosen, self.left = chosen, list(entries)
        self.started = time.monotonic()
        self.lines = chosen.out / f"{NAME}.jsonl"
        text = self.lines.read_text() if self.lines.is_file() else ""
        rows = [json.loads(line) for line in text.splitlines()]
        self.done: dict[str, Row] = {row["name"]: row for row in rows}
        self.left = [entry for entry in self.left if entry.name not in self.done]
        self.failed: set[str] = set()
        self.again: set[str] = set()
        """What was under way when a process died."""
        self.running: dict[Future[Row], Entry] = {}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def work(self) -> None:
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self.chosen.jobs, context)
        while True:
            self.begin(pool)
            if not self.running or self.seconds > self.chosen.stop:
                break
            finished, _ = wait(self.running, 1.0, FIRST_COMPLETED)
            lost = {self.running[future] for future in finished}
            try:
                for future in finished:
                    self.keep(self.running.pop(future), future)
            except BrokenProcessPool:
                # a process that died takes the pool with it; what was under way goes on once
                pool = ProcessPoolExecutor(self.chosen.jobs, context)
                self.try_again(lost | {*self.running.values()})
                self.running.clear()
        for process in multiprocessing.active_children():
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)
        print(f"{len(self.done)} done, {len(self.failed)} failed, {len(self.left)} not begun, "
              f"{len(self.running)} stopped, {self.seconds:.0f} s", flush=True)  # fmt: skip

    def begin(self, pool: ProcessPoolExecutor) -> None:
        """Fill the free places; pilots that failed or were not asked for are not waited for."""
        for entry in list(self.left):
            if len(self.running) >= self.chosen.jobs or self.seconds > self.chosen.until:
                return
            pilots = {name for name in entry.needs if name.startswith("pilot")}
            ahead = {other.name for other in [*self.left, *self.running.values()]}
            missing = {*entry.needs} - pilots - {*self.done}
            if pilots & ahead or missing & ahead:
                continue
            self.left.remove(entry)
            if missing:
                self.failed.add(entry.name)
                continue
            changes = (*entry.changes, *chosen_changes(entry, self.done))
            if entry.kind == "together":
                changes = tuple(self.done[entry.parts[0]]["changes"])
            self.running[pool.submit(do, entry, changes, self.chosen)] = entry

    def try_again(self, entries: set[Entry]) -> None:
        lost = [entry for entry in entries if entry.name not in {*self.done, *self.failed}]
        self.failed |= {entry.name for entry in lost if entry.name in self.again}
        self.left[:0] = [entry for entry in lost if entry.name not in self.again]
        self.again |= {entry.name for entry in lost}

    def keep(self, entry: Entry, future: Future[Row]) -> None:
        row = future.result()
        if "error" in row:
            self.failed.add(entry.name)
            print(f"{self.seconds:5.0f} s  {entry.name} failed:\n{row['error']}", flush=True)
            return
        self.done[entry.name] = row
        with self.lines.open("a") as file:
            file.write(json.dumps(row) + "\n")
        figures = {key: side["rsum"] for key, side in row.get("test", {}).items()}
        told = " ".join(f"{key} {value:.1f}" for key, value in figures.items())
        dev = f"dev {row['dev_rsum']:.1f}" if "dev_rsum" in row else ""
        print(
            f"{self.seconds:5.0f} s  {entry.name} {dev} {told} ({row['seconds']:.0f} s)",
            flush=True,
        )


# --- in a process of its own ---------------------------------------------------------------


def do(entry: Entry, changes: tuple[str, ...], chosen: argparse.Namespace) -> Row:
    """One entry; an error is told, and the process takes the next one."""
    from benchmarks._report import commit, machine

    started = time.monotonic()
    try:
        if entry.kind == "teacher":
            figures = teach(entry, chosen)
        elif entry.kind == "together":
            figures = {"test": tested([chosen.runs / part for part in entry.parts], chosen)}
        else:
            figures = trained(entry, changes, chosen)
    except (Exception, SystemExit):
        return {"error": traceback.format_exc()[-1500:]}
    return {
        "name": entry.name,
        "kind": entry.kind,
        "recipe": entry.recipe,
        "changes": list(changes),
        "seed": entry.seed,
        "parts": list(entry.parts),
        **figures,
        "seconds": round(time.monotonic() - started, 1),
        "side_by_side": chosen.jobs,
        "machine": machine(),
        "commit": commit(),
    }


def trained(entry: Entry, changes: tuple[str, ...], chosen: argparse.Namespace) -> Row:
    from benchmarks._report import command

    run = chosen.runs / entry.name
    settings = [*changes, *([PILOT_EPOCHS] if entry.kind == "pilot" else []), *chosen.changes]
    if "method.text=glove" in changes and chosen.words:
        settings.append(f"method.text_source={chosen.words}")
    if entry.parts:
        files = [str((chosen.runs / part).with_suffix(".npz")) for part in entry.parts]
        settings.append(f"loss.teachers={json.dumps(files)}")
    words = ["train", entry.recipe, "--seed", str(entry.seed), "--out", str(run), "--resume"]
    words += ["--device", chosen.device] if chosen.device else []
    for setting in settings:
        words += ["--set", setting]
    summary = command([*words, "--json"], here=True)
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    figures = {
        "dev_rsum": summary["dev_rsum"],
        "best_epoch": summary["best_epoch"],
        "epochs": len(log),
        "batches": log[-1]["batches"],
        "seconds_per_epoch": log[-1]["seconds"],
    }
    return figures if entry.kind == "pilot" else {**figures, "test": tested([run], chosen)}


def tested(runs: Sequence[Path], chosen: argparse.Namespace) -> dict[str, Any]:
    """Recall on the test split of every view, and of the average of all views of all runs."""
    import numpy as np

    from avow.assembly.evaluate import score_views
    from avow.assembly.model import Model
    from avow.data.captions import TokenTable
    from avow.metrics.video import video_recall

    matrices, video_of = [], np.empty(0, np.int64)
    for run in runs:
        model = Model.from_pretrained(run).to(device(chosen))
        split = joined_split(model, "test")
        table = TokenTable.from_captions(model.tokeniser, split.captions)
        matrices += score_views(model.views, split, table, model.device)
        video_of = split.image_of
    if len(matrices) == 1:
        return {"model": video_recall(matrices[0], video_of).to_dict()}
    names = ["image view", "text view"] if len(runs) == 1 else []
    pairs = zip(names, matrices[: len(names)], strict=True)
    sides = {name: video_recall(scores, video_of).to_dict() for name, scores in pairs}
    together = video_recall(np.mean(matrices, 0), video_of).to_dict()
    return {**sides, ("both views" if names else "together"): together}


def teach(entry: Entry, chosen: argparse.Namespace) -> Row:
    from avow.assembly.model import Model
    from avow.training.teachers import write_teacher

    model = Model.from_pretrained(chosen.runs / entry.parts[0]).to(device(chosen))
    file = (chosen.runs / entry.name).with_suffix(".npz")
    write_teacher(model, joined_split(model, "train"), file)
    return {"bytes": file.stat().st_size}


def joined_split(model: Any, name: str) -> Any:
    from avow.assembly.pairs import FeaturedSplit
    from avow.training.setup import open_data

    return FeaturedSplit.join(open_data(model.recipe), name, None)


def device(chosen: argparse.Namespace) -> str:
    from avow.core.device import chosen_device

    return str(chosen_device(chosen.device))


# --- afterwards ----------------------------------------------------------------------------


def merge(rows: list[Row], note: str) -> None:
    """Every run, and the mean and spread of rSum over the seeds of each recipe."""
    from benchmarks._report import RESULTS

    path = RESULTS / f"{FILE}.json"
    older = json.loads(path.read_text()) if path.is_file() else {"runs": []}
    known = {row["name"]: row for row in [*older["runs"], *rows] if row["kind"] != "teacher"}
    runs = [known[name] for name in sorted(known)]
    summary: dict[str, dict[str, Any]] = {}
    for row in runs:
        for view, side in row.get("test", {}).items():
            entry = summary.setdefault(row["recipe"], {}).setdefault(view, {"values": []})
            # of six hinge networks the first three are the row of one network
            if row["seed"] < 3:
                entry["values"].append(round(side["rsum"], 2))
    for entry in summary.values():
        for side in entry.values():
            several = len(side["values"]) > 1
            side["rsum"] = round(statistics.mean(side["values"]), 2)
            side["spread"] = round(statistics.stdev(side["values"]), 2) if several else None
    content = {
        "machine": runs[0]["machine"],
        "note": note,  # an earlier one tells of other runs
        "summary": summary,
        "runs": runs,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
