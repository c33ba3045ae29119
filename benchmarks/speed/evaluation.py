"""Time and memory of `avow evaluate` on 5,000 images x 25,000 texts of 1,024 numbers.

    python -m benchmarks.speed.evaluation

Beside it, in the same run, the loop that published systems use: one sort per query.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._report import keep


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--texts", type=int, default=5, help="per image")
    parser.add_argument("--dim", type=int, default=1024)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_problem(folder, chosen.images, chosen.texts, chosen.dim)
        ours, peak = run_ours(folder)
        plain = run_plain(folder)
    above = peak - size
    figures = {
        "images": chosen.images,
        "texts": chosen.images * chosen.texts,
        "dim": chosen.dim,
        "seconds": round(ours, 1),
        "peak_mb": round(peak / 1e6),
        "embeddings_mb": round(size / 1e6),
        "above_embeddings_mb": round(above / 1e6),
        "sorting_loop_seconds": round(plain, 1),
        "ratio": round(plain / ours, 2),
    }
    path = keep("evaluation", figures)
    print(f"ours {ours:.1f} s, {above / 1e9:.2f} GB above the embeddings")
    print(f"one sort per query {plain:.1f} s, ratio {plain / ours:.2f} -> {path}")


def write_problem(folder: Path, images: int, each: int, dim: int) -> int:
    """Images are random directions, texts noisy copies of them; returns the bytes."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((images, dim), dtype=np.float32)
    owners = np.repeat(np.arange(images), each)
    texts = vectors[owners] + 6 * rng.standard_normal((len(owners), dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    np.save(folder / "images.npy", vectors)
    np.save(folder / "texts.npy", texts)
    np.save(folder / "image_of.npy", owners)
    return vectors.nbytes + texts.nbytes


def run_ours(folder: Path) -> tuple[float, int]:
    """Seconds and peak resident bytes of the whole command, Python's start included."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "avow", "evaluate", "--vectors", str(folder)], check=True
    )
    took = time.perf_counter() - started
    return took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def run_plain(folder: Path) -> float:
    images, texts = np.load(folder / "images.npy"), np.load(folder / "texts.npy")
    owners = np.load(folder / "image_of.npy")
    started = time.perf_counter()
    scores = images @ texts.T
    for image, row in enumerate(scores):
        order = np.argsort(row)[::-1]
        np.flatnonzero(owners[order] == image).min()
    for owner, row in zip(owners, scores.T, strict=True):
        order = np.argsort(row)[::-1]
        np.flatnonzero(order == owner)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
