"""Time of a search over an index, split into encoding, ranking and trust.

    python -m benchmarks.speed.search_speed INDEX [--server]

Texts are those of the packaged sample, each asked once after a few others to warm up. With
--server they are asked again over HTTP, of `avow serve` as users start it, one after the
other: "rest" is then all that is neither encoding, ranking nor trust.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import torch

from avow.data.readers.sample import CAPTIONS
from avow.retrieval.search import Retriever
from benchmarks._report import keep

PARTS = ("encode", "rank", "trust", "rest", "whole")
Ask = Callable[[str], dict[str, float]]
"""A text to the seconds that each part of a search for it took."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("index", type=Path)
    parser.add_argument("--model", default=None)
    parser.add_argument("--queries", type=int, default=80)
    parser.add_argument("--where", default=None, help="a filter, for every search")
    parser.add_argument("--threads", type=int, default=1, help="of torch; the server has one")
    parser.add_argument("--quick", action="store_true", help="encode as the server does")
    parser.add_argument("--server", action="store_true", help="measure over HTTP too")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    figures = inside(chosen)
    if chosen.server:
        figures["server"] = served(chosen)
    path = keep("search_speed", figures)
    for where, found in (("", figures), ("over HTTP", figures.get("server", {}))):
        for part in PARTS:
            if part in found:
                middle, late, _ = found[part].values()
                print(f"{part:8} p50 {middle:7.2f} ms   p95 {late:7.2f} ms   {where}")
    print(f"{figures['items']} items; opened in {figures['open_ms']} ms -> {path}")


def inside(chosen: argparse.Namespace) -> dict[str, Any]:
    """In this process."""
    started = time.perf_counter()
    retriever = Retriever.open(chosen.index, chosen.model)
    opened = time.perf_counter() - started
    if chosen.quick:
        retriever.encoder.quicken()

    def ask(text: str) -> dict[str, float]:
        started = time.perf_counter()
        found = retriever.search(text, where=chosen.where)
        return found.seconds | {"whole": time.perf_counter() - started}

    first = ask("a dog")["whole"]
    return {
        "items": len(retriever.library),
        "dim": retriever.library.manifest["dim"],
        "judged": retriever.search("a dog").verdict != "unjudged",
        "filter": chosen.where,
        "load_before": round(os.getloadavg()[0], 1),
        "threads": torch.get_num_threads(),
        "quick": chosen.quick,
        "open_ms": round(1000 * opened, 1),
        "first_search_ms": round(1000 * first, 1),
        **measure(ask, chosen.queries),
    }


def served(chosen: argparse.Namespace) -> dict[str, Any]:
    """The same over HTTP, of a server of its own."""
    options = [] if chosen.model is None else ["--model", chosen.model]
    command = [sys.executable, "-m", "avow", "serve", "--index", str(chosen.index)]
    process = subprocess.Popen(
        [*command, "--port", "0", *options], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        place = urlsplit(process.stdout.readline().split()[-1])
        assert place.hostname is not None, "the server did not start"
        link = HTTPConnection(place.hostname, place.port, timeout=60)
        return measure(lambda text: over(link, text, chosen.where), chosen.queries)
    finally:
        process.terminate()
        process.wait()


def over(link: HTTPConnection, text: str, where: str | None) -> dict[str, float]:
    """One search; the server says in a header what its parts took."""
    started = time.perf_counter()
    link.request("GET", "/api/search?" + urlencode({"text": text, "where": where or ""}))
    answer = link.getresponse()
    body = answer.read()
    whole = time.perf_counter() - started
    assert answer.status == 200 and json.loads(body)["hits"] is not None, body
    told = re.findall(r"(\w+);dur=([\d.]+)", answer.headers["Server-Timing"])
    return {part: float(taken) / 1000 for part, taken in told} | {"whole": whole}


def measure(ask: Ask, count: int) -> dict[str, dict[str, float]]:
    texts = sentences()
    warm, texts = texts[:5], texts[5:]
    assert count <= len(texts), f"there are {len(texts)} texts, and each is asked only once"
    for text in warm:
        ask(text)
    found = [ask(text) for text in texts[:count]]
    for one in found:
        one["rest"] = one["whole"] - one["encode"] - one["rank"] - one["trust"]
    return {part: spread_of([one[part] for one in found]) for part in PARTS}


def sentences() -> list[str]:
    """The captions of the packaged sample."""
    content: Any = json.loads(CAPTIONS.read_text())
    rows = content.values() if isinstance(content, dict) else content
    return [text for row in rows for text in row]


def spread_of(seconds: list[float]) -> dict[str, float]:
    least, middle, late = (round(1000 * x, 2) for x in np.percentile(seconds, [0, 50, 95]))
    return {"p50_ms": middle, "p95_ms": late, "fastest_ms": least}


if __name__ == "__main__":
    main()
