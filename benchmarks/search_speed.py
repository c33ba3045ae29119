"""Time of a search over an index, split into encoding, ranking and trust.

    python benchmarks/search_speed.py INDEX

Texts are those of the packaged sample; every one is asked once after a few to warm up.
"""

import argparse
import json
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _report import keep

from avow.retrieval.search import Retriever

PARTS = ("encode", "rank", "trust", "whole")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("index", type=Path)
    parser.add_argument("--model", default=None)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--where", default=None, help="a filter, for every search")
    parser.add_argument("--threads", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    started = time.perf_counter()
    retriever = Retriever.open(chosen.index, chosen.model)
    opened = time.perf_counter() - started
    first = timed(retriever, "a dog", chosen.where)["whole"]
    taken = measure(retriever, chosen.queries, chosen.where)
    figures = {
        "items": len(retriever.library),
        "dim": retriever.library.manifest["dim"],
        "judged": retriever.search("a dog").verdict != "unjudged",
        "filter": chosen.where,
        "threads": torch.get_num_threads(),
        "open_ms": round(1000 * opened, 1),
        "first_search_ms": round(1000 * first, 1),
        **{part: spread_of(taken[part]) for part in PARTS},
    }
    path = keep("search_speed", figures)
    for part in PARTS:
        middle, late = figures[part].values()
        print(f"{part:8} p50 {middle:7.2f} ms   p95 {late:7.2f} ms")
    print(f"{figures['items']} items; opened in {figures['open_ms']} ms -> {path}")


def measure(retriever: Retriever, count: int, where: str | None) -> dict[str, list[float]]:
    texts = sentences()
    for text in texts[:5]:
        timed(retriever, text, where)
    found = [timed(retriever, texts[n % len(texts)], where) for n in range(count)]
    return {part: [one[part] for one in found] for part in PARTS}


def timed(retriever: Retriever, text: str, where: str | None) -> dict[str, float]:
    started = time.perf_counter()
    found = retriever.search(text, where=where)
    return {**found.seconds, "whole": time.perf_counter() - started}


def sentences() -> list[str]:
    """The captions of the packaged sample."""
    content: Any = json.loads((files("avow") / "data" / "sample_captions.json").read_text())
    rows = content.values() if isinstance(content, dict) else content
    return [text for row in rows for text in row]


def spread_of(seconds: list[float]) -> dict[str, float]:
    middle, late = np.percentile(seconds, [50, 95])
    return {"p50_ms": round(1000 * middle, 2), "p95_ms": round(1000 * late, 2)}


if __name__ == "__main__":
    main()
