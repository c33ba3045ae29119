"""One query over a million vectors: one pass over the memory, our exact search, Faiss.

    python -m benchmarks.speed.exact_search [--rows 1000000] [--dim 512]

The pass is a plain product of matrix and query in numpy: what any exact search must at
least do. All are timed in turn in one run, so that they share whatever else goes on.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from avow.indexes.exact import Exact, mapped
from avow.indexes.faiss import Faiss
from benchmarks._report import keep, sizes_parser


def main() -> None:
    sizes = sizes_parser(__doc__, rows=1_000_000, dim=512, k=10, rounds=15)
    chosen = sizes.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = measured(Path(name), chosen.rows, chosen.dim, chosen.k, chosen.rounds)
    path = keep("exact_search", figures)
    for name, value in figures.items():
        print(f"{name}: {value}")
    print("->", path)


def measured(place: Path, rows: int, dim: int, k: int, rounds: int) -> dict[str, Any]:
    write_vectors(place, rows, dim)
    ids = np.arange(rows)
    full = mapped(place / "full", rows, dim, "float32")
    ours = Exact.over(ids, full)
    half = Exact.over(ids, mapped(place / "half", rows, dim, "float16"))
    rival = Faiss(dim)
    rival.add(ids, np.asarray(full))
    queries = unit(np.random.default_rng(1).standard_normal((rounds, dim), dtype=np.float32))
    ways: dict[str, Callable[[np.ndarray], Any]] = {
        "numpy_pass": lambda query: full @ query[0],
        "exact": lambda query: ours.search(query, k),
        "exact_half": lambda query: half.search(query, k),
        "faiss_flat": lambda query: rival.search(query, k),
    }
    load = os.getloadavg()[0]
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for query in queries:
        for name, way in ways.items():
            started = time.perf_counter()
            way(query[None])
            taken[name].append(1000 * (time.perf_counter() - started))
    middle = {name: statistics.median(times[1:]) for name, times in taken.items()}
    figures: dict[str, Any] = {"rows": rows, "dim": dim, "k": k, "load_before": round(load, 1)}
    figures |= {f"{name}_ms": round(value, 1) for name, value in middle.items()}
    figures |= {f"{name}_fastest_ms": round(min(times), 1) for name, times in taken.items()}
    for name in ("exact", "exact_half", "faiss_flat"):
        figures[f"{name}_to_pass"] = round(middle[name] / middle["numpy_pass"], 2)
    return figures | rank_errors(ours, half, queries, k)


def rank_errors(ours: Exact, half: Exact, queries: np.ndarray, k: int) -> dict[str, float]:
    """What half precision costs: answers lost, first answers changed, error of a score."""
    right, scores = ours.search(queries, k)
    found, rounded = half.search(queries, k)
    pairs = zip(right.tolist(), found.tolist(), strict=True)
    kept = [len(set(one) & set(other)) / k for one, other in pairs]
    return {
        "half_recall": round(float(np.mean(kept)), 4),
        "half_first_same": round(float((right[:, 0] == found[:, 0]).mean()), 4),
        "half_largest_score_error": float(np.abs(scores - rounded).max().round(7)),
    }


def write_vectors(place: Path, rows: int, dim: int) -> None:
    rng = np.random.default_rng(0)
    first = unit(rng.standard_normal((min(rows, 65536), dim), dtype=np.float32))
    with (place / "full").open("wb") as full, (place / "half").open("wb") as half:
        for start in range(0, rows, 65536):
            count = min(65536, rows - start)
            # the same numbers in another order are other directions, and quickly made
            block = np.ascontiguousarray(first[:count, rng.permutation(dim)])
            full.write(block.tobytes())
            half.write(block.astype(np.float16).tobytes())


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


if __name__ == "__main__":
    main()
