"""Engines beside each other at 10^5, 10^6 and 10^7 vectors: build, bytes, latency, recall.

    python -m benchmarks.speed.scale [--index INDEX] [--sizes 100000 1000000] [--engines ...]

Vectors: the photographs of INDEX (of the default model, as `avow index` makes it), or those of
Flickr8k test, in the 512 directions that `--vectors int8x256` keeps, and beyond them vectors
drawn around real ones; captions of Flickr8k test ask. They are made once and kept in --place:
every size is the beginning of the largest one. Engines: `exact` (float32), `int8`
(bytes), `faiss` (flat), `postgres` (pgvector's HNSW on the server of AVOW_PG_DSN), `milvus`
(HNSW on the server of AVOW_MILVUS_URI, whose files are in AVOW_SCALE_MILVUS) and `milvus-lite`
(flat, in a file). Every cell is a process of its own, whose memory is measured, and is kept
when it is done: run it again to go on. A cell that takes longer than --limit seconds is
stopped, and one whose tenth shows that it cannot be done here is not begun: it says why.

Recall at 10 is held against a plain product of all vectors; the filter leaves one item in ten.
An engine that is slow is asked less often, twice at least, and not by many clients at once:
`searches` says how often.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.places import avow_home
from avow.core.vector_forms import CutBytes
from avow.data.opening import open_dataset
from avow.retrieval.encoders import projections
from avow.retrieval.forms import one_form
from avow.retrieval.library import Library
from benchmarks._lab import Lab
from benchmarks._report import RESULTS, commit, keep, machine
from benchmarks.quality.shards import drawn_around
from benchmarks.speed import scale_engines

NAME = "scale"
QUERIES, K, SEARCHES, FEWEST, CLIENTS = 60, 10, 30, 2, 16
ASKING = 20.0
"""Seconds that one kind of question may take; a slow engine is asked less often."""
TENTH = 10
MADE_AT_ONCE = 50_000
WIDTH = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--index", type=Path, help="whose photographs are taken")
    parser.add_argument("--sizes", type=int, nargs="*", default=[10**5, 10**6, 10**7])
    parser.add_argument("--engines", nargs="*", default=list(scale_engines.ENGINES))
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument(
        "--place", type=Path, default=Path(tempfile.gettempdir()) / "avow-scale"
    )
    parser.add_argument("--limit", type=int, default=900, help="seconds that a cell may take")
    parser.add_argument("--again", action="store_true", help="measure cells again")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.cell:
        print(json.dumps(measured(chosen.place, int(chosen.cell[0]), chosen.cell[1])))
        return
    prepare(chosen.cache, chosen.index, chosen.place, sorted(chosen.sizes))
    for size in chosen.sizes:
        for engine in chosen.engines:
            key = f"{size} {engine}"
            if chosen.again or key not in earlier():
                tenth = earlier().get(f"{size // TENTH} {engine}", {})
                cell = run(chosen.place, size, engine, chosen.limit, tenth)
                print(key, cell, flush=True)
                about = {"dim": WIDTH, "queries": QUERIES, "k": K}
                cell |= {"commit": commit(), "date": machine()["date"]}
                cells = earlier() | {key: cell}  # others may have measured meanwhile
                keep(NAME, about | {"limit_s": chosen.limit, "cells": cells})


def earlier() -> dict[str, Any]:
    """The cells that were measured before."""
    path = RESULTS / f"{NAME}.json"
    return json.loads(path.read_text())["cells"] if path.exists() else {}


def prepare(cache: Path, index: Path | None, place: Path, sizes: list[int]) -> None:
    """Vectors of the largest size, queries and the right answers of every size, made once."""
    if all((place / f"right-{size}.npz").exists() for size in sizes):
        return
    place.mkdir(parents=True, exist_ok=True)
    real, queries = photographs(cache, index)
    rng = np.random.default_rng(0)
    best: list[tuple[np.ndarray, np.ndarray]] = []
    few: list[tuple[np.ndarray, np.ndarray]] = []
    starts = sorted({*range(0, sizes[-1], MADE_AT_ONCE), *sizes})
    with (place / "vectors").open("wb") as stream:
        for start, end in pairwise(starts):
            block = drawn_around(real, len(real) + end - start, rng)[start - end :]
            block[: len(real[start:end])] = real[start:end]
            block /= np.linalg.norm(block, axis=1, keepdims=True)
            stream.write(block.tobytes())
            ids, scores = np.arange(start, end), queries @ block.T
            tenth = ids % TENTH == 0
            best.append(top(ids, scores))
            few.append(top(ids[tenth], scores[:, tenth]))
            if end in sizes:
                right, chosen = merged(best), merged(few)
                home = place / f"right-{end}.npz"
                about = {"queries": queries, "photographs": min(end, len(real))}
                np.savez(home, plain=right, filtered=chosen, **about)


def photographs(cache: Path, index: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of real photographs in an order by chance, and of captions that ask."""
    opened, rng = Lab(cache), np.random.default_rng(1)
    split = open_dataset("flickr8k").splits["test"]
    form = CutBytes(projections.fitted(opened.encoder))
    chosen = rng.choice(len(split.captions), QUERIES, False)
    texts = opened.texts([one_form(split.captions[place]) for place in chosen])
    if index is None:
        real = form.turn(opened.photographs("flickr8k", list(split.files or ())))
    else:
        with Library.open(index, opened.encoder) as library:
            ids = library.find()
            starts = range(0, len(ids), MADE_AT_ONCE)
            parts = [library.vectors(ids[start : start + MADE_AT_ONCE]) for start in starts]
            real = rng.permutation(np.concatenate([form.turn(part) for part in parts]))
    queries = form.turn(texts)
    real /= np.linalg.norm(real, axis=1, keepdims=True)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    return real, queries


def top(ids: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argpartition(-scores, K, axis=1)[:, :K]
    return ids[order], np.take_along_axis(scores, order, 1)


def merged(parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    ids = np.concatenate([ids for ids, _ in parts], 1)
    scores = np.concatenate([scores for _, scores in parts], 1)
    return np.take_along_axis(ids, np.argsort(-scores, axis=1, kind="stable")[:, :K], 1)


def run(
    place: Path, size: int, engine: str, limit: int, tenth: dict[str, Any]
) -> dict[str, Any]:
    """One cell in a process of its own. tenth: the cell of a tenth of the size."""
    asked = [sys.executable, "-m", "benchmarks.speed.scale", "--place", str(place)]
    asked += ["--cell", str(size), engine]
    lacking = scale_engines.lacking(engine, size, WIDTH) or scale_engines.too_large(
        engine, tenth, size, limit, shutil.disk_usage(place).free
    )
    if lacking:
        return {"not_run": lacking}
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"not_run": f"stopped after {limit} s"}
    finally:
        shutil.rmtree(place / f"{engine}-{size}", ignore_errors=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"not_run": "it ended early: " + last[:160]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def measured(place: Path, size: int, name: str) -> dict[str, Any]:
    """Build an engine over the vectors, and ask it; runs in the child."""
    shape = (size, WIDTH)
    vectors = np.memmap(place / "vectors", np.float32, "r", shape=shape)
    with np.load(place / f"right-{size}.npz") as right:
        queries, plain, filtered = (right[key] for key in ("queries", "plain", "filtered"))
        real = int(right["photographs"])
    home = place / f"{name}-{size}"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    load, started = os.getloadavg()[0], time.perf_counter()
    engine = scale_engines.ENGINES[name](vectors, home)
    built = time.perf_counter() - started
    found, times = asked(engine, queries, None)
    recall = share(np.stack(found), plain)
    found, _ = asked(engine, queries[:20], np.arange(0, size, TENTH))
    few = share(np.stack(found), filtered)
    slow = sum(times) > 1000 * ASKING
    if not slow:  # else what is in memory by then makes no difference
        _, times = asked(engine, queries[:SEARCHES], None)
    size_of = engine.bytes()
    figures: dict[str, Any] = {
        "photographs": real,
        "build_s": round(built, 1),
        "bytes_a_vector": None if size_of is None else round(size_of / size),
        "p50_ms": round(float(np.percentile(times, 50)), 2),
        "p99_ms": round(float(np.percentile(times, 99)), 2),
        "searches": len(times),
        "recall": round(recall, 4),
        "recall_filtered": round(few, 4),
    }
    figures["a_second_1"] = round(throughput(engine, queries, 1, 1 if slow else SEARCHES), 2)
    each = max(1, len(times) // CLIENTS)
    figures["a_second_16"] = (
        None if slow else round(throughput(engine, queries, CLIENTS, each), 2)
    )
    figures |= {"memory_mb": round(peak_memory()), "load_before": round(load, 1)}
    engine.close()
    return figures


def asked(
    engine: scale_engines.Engine, queries: np.ndarray, among: np.ndarray | None
) -> tuple[list[np.ndarray], list[float]]:
    """Answers and milliseconds of the queries, fewer where an answer takes long."""
    found, times, first = [], [], time.perf_counter()
    for place, query in enumerate(queries):
        started = time.perf_counter()
        if place >= FEWEST and started - first > ASKING:
            break
        found.append(engine.search(query, K, among))
        times.append(1000 * (time.perf_counter() - started))
    return found, times


def peak_memory() -> float:
    """Megabytes of this process alone; what `resource` tells counts those of its parent."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass  # another system than Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def share(found: np.ndarray, right: np.ndarray) -> float:
    """Of the right answers, the part that was found."""
    pairs = zip(found.tolist(), right.tolist(), strict=False)
    return float(np.mean([len(set(one) & set(other)) / K for one, other in pairs]))


def throughput(
    engine: scale_engines.Engine, queries: np.ndarray, clients: int, each: int
) -> float:
    """Searches a second of so many clients at once."""

    def ask() -> None:
        for place in range(each):
            engine.search(queries[place % len(queries)], K, None)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients * each / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
