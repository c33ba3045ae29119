"""Evidence of a large gallery from its best matches and a sample: coverage, width, time.

    python -m benchmarks.speed.tail                    200,000 vectors of 512 numbers
    python -m benchmarks.speed.tail --rows 1000000     made and forgotten block by block

The vectors are made to look like trained ones: their variance falls off along the axes,
they lie in clusters, and a query is a noisy copy of one of them. Beside the bound that is
used stand the others, on the same queries: the truth is summed over the whole gallery.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from avow.core.evidence_sum import Bound, EvidenceSum, Moments, Reference, evidence_sum
from benchmarks._report import keep, sizes_parser

BLOCK = 20_000
DECAY = 0.8
TAU = 0.05
RESAMPLED = 300


def main() -> None:
    parser = sizes_parser(__doc__, rows=200_000, dim=512, queries=200, top=1000, sample=16_384)
    parser.add_argument("--draws", type=int, default=3, help="samples of the gallery")
    chosen = parser.parse_args()

    queries = make_queries(chosen.rows, chosen.dim, chosen.queries)
    references = [
        Reference.draw(chosen.rows, chosen.sample, seed) for seed in range(chosen.draws)
    ]
    truth = look_at_all(queries, chosen.rows, chosen.dim, chosen.top, references)
    bounds = {name: judge(name, queries, truth, references) for name in BOUNDS}
    tail, busy, whole = time_one_by_one(queries, truth, references[0], chosen.rows)
    spread = truth.samples[0] @ queries.T
    figures = {
        **vars(chosen),
        "tau": TAU,
        "similarity_spread": round(float(spread.std()), 3),
        "uncertainty_median": round(float(np.median(truth.uncertainty)), 4),
        "bounds": bounds,
        "tail_ms": round(tail, 2),
        "tail_processor_ms": round(busy, 2),
        "whole_gallery_ms": round(whole, 1),
    }
    path = keep("tail", figures)
    print(
        f"similarities spread by {spread.std():.3f}, median u {figures['uncertainty_median']}"
    )
    for name, found in bounds.items():
        print(
            f"{name:<24} holds for {found['holds']:.1%} of queries, "
            f"median width {found['width']:.1%} of u, 90 % below {found['width_90']:.1%}"
        )
    print(
        f"tail {tail:.2f} ms a query ({busy:.2f} ms of processor time), "
        f"the whole gallery {whole:.1f} ms -> {path}"
    )


@dataclass(frozen=True)
class Truth:
    """What a search and a sum over the whole gallery give."""

    top: np.ndarray
    found: np.ndarray
    uncertainty: np.ndarray
    moments: Moments
    samples: list[np.ndarray]


# --- vectors ----------------------------------------------------------------------------


def blocks(rows: int, dim: int) -> Iterator[tuple[int, np.ndarray]]:
    """Unit vectors in clusters; the same ones every time."""
    scale = np.arange(1, dim + 1, dtype=np.float32) ** (-DECAY / 2)
    centres = np.random.default_rng(0).standard_normal((2000, dim), dtype=np.float32)
    for start in range(0, rows, BLOCK):
        rng = np.random.default_rng(1 + start)
        count = min(BLOCK, rows - start)
        part = rng.standard_normal((count, dim), dtype=np.float32)
        part = (part + 0.7 * centres[rng.integers(0, len(centres), count)]) * scale
        yield start, part / np.linalg.norm(part, axis=1, keepdims=True)


def make_queries(rows: int, dim: int, count: int) -> np.ndarray:
    """Noisy copies of vectors of the first block; their cosine is about 0.6."""
    rng = np.random.default_rng(0)
    _, first = next(blocks(rows, dim))
    picked = first[rng.permutation(len(first))[:count]]
    scale = np.arange(1, dim + 1, dtype=np.float32) ** (-DECAY / 2)
    noise = rng.standard_normal(picked.shape, dtype=np.float32) * scale
    queries = picked + 1.3 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return queries / np.linalg.norm(queries, axis=1, keepdims=True)


def look_at_all(
    queries: np.ndarray, rows: int, dim: int, kept: int, references: list[Reference]
) -> Truth:
    top = np.empty((len(queries), 0), np.float32)
    found = np.empty((len(queries), 0), np.int64)
    total, mean, second = np.zeros(len(queries)), np.zeros(dim), np.zeros((dim, dim))
    samples = [np.empty((len(each.ids), dim), np.float32) for each in references]
    for start, part in blocks(rows, dim):
        scores = queries @ part.T
        total += np.exp(scores.astype(np.float64) / TAU).sum(1)
        here = Moments.of(part)
        mean += here.mean * len(part) / rows
        second += here.second * len(part) / rows
        for reference, sample in zip(references, samples, strict=True):
            inside = (reference.ids >= start) & (reference.ids < start + len(part))
            sample[inside] = part[reference.ids[inside] - start]
        places = np.broadcast_to(np.arange(start, start + len(part)), scores.shape)
        top, found = np.hstack([top, scores]), np.hstack([found, places])
        best = np.argpartition(-top, min(kept, top.shape[1]) - 1, 1)[:, :kept]
        top, found = np.take_along_axis(top, best, 1), np.take_along_axis(found, best, 1)
    return Truth(top, found, rows / (rows + total), Moments(mean, second), samples)


# --- bounds -----------------------------------------------------------------------------


def with_bound(
    truth: Truth,
    queries: np.ndarray,
    draw: int,
    reference: Reference,
    bound: Bound,
    known: bool,
) -> EvidenceSum:
    return evidence_sum(
        truth.top,
        queries @ truth.samples[draw].T,
        reference.without(truth.found),
        reference.gallery,
        TAU,
        known=truth.moments.similarity(queries) if known else None,
        bound=bound,
    )


def bootstrap_t(
    truth: Truth, queries: np.ndarray, draw: int, reference: Reference
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of u by the studentised bootstrap, resampling what is left of the sample."""
    scores = (queries @ truth.samples[draw].T).astype(np.float64)
    left = reference.without(truth.found)
    rest = reference.gallery - truth.top.shape[1]
    share = 1 - left.sum(1) / rest
    evidence = np.where(left, np.exp(scores / TAU), 0)
    count = left.sum(1)
    mean = evidence.sum(1) / count
    error = np.sqrt(((evidence**2).sum(1) / count - mean**2) * share / count)
    weights = np.random.default_rng(draw).poisson(1, (evidence.shape[1], RESAMPLED))
    drawn = left @ weights
    means = evidence @ weights / drawn
    errors = np.sqrt(((evidence**2) @ weights / drawn - means**2) / drawn)
    low, high = np.quantile((means - mean[:, None]) / errors, (0.025, 0.975), axis=1)
    exact = np.exp(truth.top.astype(np.float64) / TAU).sum(1)
    sums = [exact + rest * np.maximum(mean - t * error, 0) for t in (low, high)]
    low_u, high_u = (reference.gallery / (reference.gallery + total) for total in sums)
    return low_u, high_u


BOUNDS: dict[str, tuple[Bound, bool] | None] = {
    "skewed, with moments": ("skewed", True),
    "skewed": ("skewed", False),
    "normal, with moments": ("normal", True),
    "normal": ("normal", False),
    "bootstrap-t": None,
    "bernstein": ("bernstein", False),
}


def judge(
    name: str, queries: np.ndarray, truth: Truth, references: list[Reference]
) -> dict[str, float]:
    """How often the bound holds, and how wide it is in shares of u."""
    holds, widths = [], []
    for draw, reference in enumerate(references):
        if (settings := BOUNDS[name]) is None:
            low, high = bootstrap_t(truth, queries, draw, reference)
        else:
            found = with_bound(truth, queries, draw, reference, *settings)
            low, high = found.uncertainty_low, found.uncertainty_high
        holds.append((low <= truth.uncertainty) & (truth.uncertainty <= high))
        widths.append((high - low) / truth.uncertainty)
    return {
        "holds": round(float(np.mean(holds)), 4),
        "width": round(float(np.median(widths)), 4),
        "width_90": round(float(np.quantile(widths, 0.9)), 4),
    }


# --- time -------------------------------------------------------------------------------


def time_one_by_one(
    queries: np.ndarray, truth: Truth, reference: Reference, rows: int
) -> tuple[float, float, float]:
    """Median milliseconds of one query: the tail, its processor time, the whole gallery.

    On a busy machine the clock runs while others work; processor time, summed over threads,
    does not. The whole gallery is timed on one block and multiplied.
    """
    tail, busy, whole = [], [], []
    _, block = next(blocks(rows, queries.shape[1]))
    for place, query in enumerate(queries):
        one = slice(place, place + 1)
        started, used = time.perf_counter(), time.process_time()
        evidence_sum(
            truth.top[one],
            (truth.samples[0] @ query)[None],
            reference.without(truth.found[one]),
            reference.gallery,
            TAU,
            known=truth.moments.similarity(queries[one]),
        )
        middle = time.perf_counter()
        busy.append(time.process_time() - used)
        tail.append(middle - started)
        started = time.perf_counter()
        np.exp((block @ query) / TAU).sum()
        whole.append((time.perf_counter() - started) * rows / len(block))
    medians = [float(np.median(values)) * 1e3 for values in (tail, busy, whole)]
    return medians[0], medians[1], medians[2]


if __name__ == "__main__":
    main()
