"""Vectors in bytes: what recall and calibration lose, and how fast all of them are compared.

    python -m benchmarks.speed.compact_vectors [--rows 10000000] [--width 512] [--cache DIR]

Quality: the default model on Flickr8k test, R@1 as a search shows its hits, and the calibration
error (ECE) of P of the first ten, for every `--vectors`. P states whether a picture fits, so
the error is held against that: labels of `avow.study.relevance_labels`, each drawn with its
probability. Held against the caption's own photograph alone it is larger, as others fit too; it
is told as well. Speed: one query over rows of bytes, in turn with a
plain pass over the same memory (the largest of its 64-bit words) in the same number of threads.
Time is that of the processor, which other programs change little, and that of the clock.
--only speed, or quality, keeps the other figures as they were measured before.
"""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from avow.core import byte_products
from avow.core.background import Background
from avow.core.places import avow_home
from avow.core.queries import QueryBatch
from avow.core.vector_forms import CutBytes, Plain, TurnedBytes, VectorForm
from avow.data.opening import open_dataset
from avow.metrics.calibration import expected_calibration_error
from avow.retrieval.commonness import commonness
from avow.retrieval.encoders import projections
from avow.retrieval.forms import count_words, one_form
from avow.retrieval.store.int8_rows import Int8Rows
from avow.retrieval.store.model_folder import TOP
from avow.trust.policy import Policy
from avow.trust.top_k import summarise
from benchmarks._lab import Lab
from benchmarks._report import commit, keep, read, sizes_parser
from benchmarks.quality.default_model import AT_ONCE, Queries
from benchmarks.quality.first_answers import expert_curve, relevant

NAME = "compact_vectors"
SHOWN, BINS = 10, 15
AIM = 0.8
"""Of the speed of a plain pass."""
ASKED = {"captions": 5000, "photographs": 1000}
"""Of Flickr8k test."""
MADE_AT_ONCE = 2**17


def main() -> None:
    parser = sizes_parser(__doc__, rows=10_000_000, width=512, k=10, rounds=9)
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument("--only", choices=["quality", "speed"], help="keep the other half")
    chosen = parser.parse_args()
    forms = read(NAME)["forms"] if chosen.only == "speed" else quality(Lab(chosen.cache))
    for name, row in forms.items():
        print(name, row, flush=True)
    if chosen.only == "quality":
        found = read(NAME)["speed"]
    else:
        found = speed(chosen.rows, chosen.width, chosen.k, chosen.rounds)
    for name, value in found.items():
        print(f"{name}: {value}")
    about = {"commit": commit(), "aim": AIM, **ASKED} | noted(chosen.only)
    print("->", keep(NAME, about | {"forms": forms, "speed": found}))


def noted(only: str | None) -> dict[str, str]:
    """Where the half comes from that was kept."""
    if only is None:
        return {}
    earlier, half = read(NAME), "speed" if only == "quality" else "quality"
    told = f"the figures of {half} were measured before, on "
    if earlier.get("note", "").startswith(told):
        return {"note": earlier["note"]}
    machine = earlier["machine"]
    where = f"{machine['cores']} cores ({machine['architecture']}), {machine['date']}."
    return {"note": told + where}


def quality(lab: Lab) -> dict[str, Any]:
    """A row per form, with what it differs by from float32."""
    split = open_dataset("flickr8k").splits["test"]
    images = lab.photographs("flickr8k", list(split.files or ()))
    asked = [one_form(caption) for caption in split.captions]
    queries = Queries(asked, lab.texts(asked), split.image_of)
    policy, usual = Policy.load(lab.encoder.home / "trust-text.json"), lab.usual(images)
    fits = relevant(lab, split, expert_curve(lab))
    dim, views = lab.encoder.dim, lab.encoder.views
    forms: list[VectorForm] = [
        Plain(dim),
        Plain(dim, half=True),
        TurnedBytes(dim),
        CutBytes(projections.fitted(lab.encoder)),
    ]
    rows: dict[str, Any] = {}
    verdicts: dict[str, np.ndarray] = {}
    for form in forms:
        kept = form.decode(form.encode(images))
        row, verdicts[form.name] = judged(lab, policy, kept, usual, queries, fits)
        vector_bytes = form.width * np.dtype(form.dtype).itemsize
        row |= {"vector_bytes": vector_bytes, "bytes": vector_bytes + 4 * views * (3 + TOP)}
        first = rows.get("float32", row)
        row["r1_lost"] = round(first["r1"] - row["r1"], 2)
        for error in ("ece", "ece_own"):
            row[f"{error}_moved"] = round(abs(row[error] - first[error]), 4)
        same = verdicts[form.name] == verdicts["float32"]
        rows[form.name] = row | {"same_verdict": round(float(same.mean()), 4)}
    return rows


def judged(
    lab: Lab,
    policy: Policy,
    images: np.ndarray,
    usual: Background,
    queries: Queries,
    fits: np.ndarray,
) -> tuple[dict[str, Any], np.ndarray]:
    """R@1 as shown, ECE of the first ten, and the verdicts. fits: a row per caption."""
    words, common = count_words(queries.asked), commonness(queries.asked)
    stated, right, fitting, verdicts = [], [], [], []
    for start in range(0, len(queries.asked), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        similarity = lab.similarity(queries.vectors[part], images)
        summary, order = summarise(QueryBatch(similarity, 1, lab.encoder.tau, "exp", usual))
        told = policy.judge(
            summary,
            words[part],
            common=common[part],
            vectors=queries.vectors[part],
            shown=SHOWN,
            strict=False,
        )
        places = np.take_along_axis(order, told.order, 1)
        stated.append(told.probability)
        right.append(places == queries.image_of[part][:, None])
        fitting.append(np.take_along_axis(fits[part], places, 1))
        verdicts += list(told.verdicts)
    p, own = np.concatenate(stated), np.concatenate(right)
    row = {"r1": round(100 * float(own[:, 0].mean()), 2)}
    for name, good in (("ece", np.concatenate(fitting)), ("ece_own", own)):
        error = expected_calibration_error(p.ravel(), good.ravel(), BINS)
        row[name] = round(float(error), 4)
    return row | {"stated": round(float(p[:, 0].mean()), 4)}, np.array(verdicts)


def speed(rows: int, width: int, k: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of one query, ways in turn, and their ratio to a plain pass."""
    data, ids, form = made(rows, width), np.arange(rows), TurnedBytes(width)
    words, cores = data.view(np.int64), len(os.sched_getaffinity(0))
    queries = np.random.default_rng(1).standard_normal((rounds, width), dtype=np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    one = Int8Rows.over_bytes(ids, data, width, form, threads=1)
    each = Int8Rows.over_bytes(ids, data, width, form, threads=cores)
    one.search(queries[:1], k)  # makes its table of ids

    def plain(query: np.ndarray) -> Any:
        with mock.patch.object(byte_products, "_numkong", lambda: None):
            return each.search(query, k)

    with ThreadPoolExecutor(cores) as pool:
        edges = np.linspace(0, rows, cores + 1).astype(int)
        parts = [words[a:b] for a, b in pairwise(edges)]
        ways: dict[str, Callable[[np.ndarray], Any]] = {
            "pass_one_thread": lambda _: words.max(),
            "search_one_thread": lambda query: one.search(query, k),
            "pass": lambda _: list(pool.map(np.max, parts)),
            "search": lambda query: each.search(query, k),
            "search_numpy": plain,
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        spent: dict[str, list[float]] = {name: [] for name in ways}
        load = os.getloadavg()[0]
        for query in queries:
            for name, way in ways.items():
                started, used = time.perf_counter(), time.process_time()
                way(query[None])
                spent[name].append(1000 * (time.process_time() - used))
                taken[name].append(1000 * (time.perf_counter() - started))
    best = {name: min(times) for name, times in taken.items()}
    used = {name: statistics.median(times) for name, times in spent.items()}
    figures: dict[str, Any] = {"rows": rows, "width": width, "threads": cores}
    figures |= {"processor": processor(), "numkong": byte_products.is_fast()}
    figures |= {"load_before": round(load, 1)}
    figures |= {f"{name}_ms": round(value, 1) for name, value in best.items()}
    figures |= {
        f"{name}_median_ms": round(statistics.median(times), 1) for name, times in taken.items()
    }
    figures |= {f"{name}_processor_ms": round(value, 1) for name, value in used.items()}
    a_core = data.nbytes / used["search_one_thread"] / 1e6
    figures["gigabytes_a_second_a_core"] = round(a_core, 1)
    figures["of_a_pass_one_thread"] = round(
        used["pass_one_thread"] / used["search_one_thread"], 3
    )
    return figures | {"of_a_pass": round(used["pass"] / used["search"], 3)}


def processor() -> str:
    """Its name, where the system tells it."""
    told = subprocess.run(["lscpu"], capture_output=True, text=True).stdout
    named = [
        line.partition(":")[2].strip() for line in told.splitlines() if "Model name" in line
    ]
    return named[0] if named else platform.machine()


def made(rows: int, width: int) -> np.ndarray:
    """Rows of normal numbers in bytes: one block, its columns in another order each time."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((min(rows, MADE_AT_ONCE), width), dtype=np.float32)
    first = np.clip(np.rint(drawn * 21), -127, 127).astype(np.int8)
    data = np.empty((rows, width), np.int8)
    for start in range(0, rows, MADE_AT_ONCE):
        count = min(MADE_AT_ONCE, rows - start)
        np.take(first[:count], rng.permutation(width), 1, out=data[start : start + count])
    return data


if __name__ == "__main__":
    main()
