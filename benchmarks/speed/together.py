"""Many clients of one server: searches that wait answered in one pass, and each by itself.

    python -m benchmarks.speed.together [--items 1000 100000] [--clients 1 4 16]

The index has the photographs of Flickr8k test, and behind them vectors drawn around theirs
under names of files that do not exist. Captions of the test split are asked over HTTP, by
clients in a process of their own, each of which asks again as soon as it is answered. Servers
with and without passes take turns, several rounds of each.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import tempfile
import threading
import time
import urllib.parse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import avow
from avow.api import Limits, create_app
from avow.cli.serve import listen, run
from avow.core.vector_forms import FORMS
from avow.data.opening import open_dataset
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.store.catalogue import open_catalogue
from avow.retrieval.store.generations import go_on
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.reading import Fresh
from avow.retrieval.store.walk import FileStat
from avow.retrieval.store.writer import Entry, Filing
from benchmarks._report import keep
from benchmarks.quality.shards import drawn_around
from benchmarks.speed.server_health import asked

_SPAWN = multiprocessing.get_context("spawn")
AT_ONCE = 5000
WAYS = {"together": 16, "one by one": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, nargs="*", default=[1000, 100_000])
    parser.add_argument("--vectors", nargs="*", choices=FORMS, default=["float32", "int8"])
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, default=8.0, help="of one round")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    rows = []
    for vectors in chosen.vectors:
        for items in chosen.items:
            with tempfile.TemporaryDirectory() as name:
                place = Path(name)
                fill(place, items, vectors)
                found = measured(place, chosen)
            about = {"items": items, "vectors": vectors}
            rows += [about | row for row in found]
            for row in rows[-len(found) :]:
                print(row, flush=True)
    figures = {"load_average": os.getloadavg()[0], "rounds": chosen.rounds, "rows": rows}
    print("->", keep("together", {**figures, "seconds": chosen.seconds}))


def fill(place: Path, items: int, vectors: str) -> None:
    """The photographs, and further items around them."""
    files = list(open_dataset("flickr8k").splits["test"].files or ())
    (place / "files").mkdir()
    for file in files:
        shutil.copy(file, place / "files")
    encoder = open_encoder()
    index_folders([place / "files"], index=place / "index", encoder=encoder, vectors=vectors)
    library = Library.open(place / "index", encoder)
    real = library.vectors(library.find(None, "image"))
    library.close()
    link = open_catalogue(place / "index")
    writer = go_on(link, Space(place / "index", encoder.fingerprint), None)
    rng = np.random.default_rng(0)
    for start in range(len(real), items, AT_ONCE):
        count = min(AT_ONCE, items - start)
        drawn = drawn_around(real, len(real) + count, rng)[len(real) :]
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        writer.file((_entry(start + number) for number in range(count)), drawn)
    link.close()


def _entry(number: int) -> Entry:
    stat = FileStat(f"/drawn/{number}.jpg", 1, 1, number)
    fresh = Fresh("", "image", f"{number:016x}", width=1, height=1)
    return Entry(Filing(stat, fresh.content, None, set()), fresh, None, True)


def measured(place: Path, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """A server of each kind stays up; rounds of both take turns."""
    servers = {way: Server(place / "index", most) for way, most in WAYS.items()}
    captions = list(open_dataset("flickr8k").splits["test"].captions[:500])
    rows = []
    for clients in chosen.clients:
        seen: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(chosen.rounds):
            for way, server in servers.items():
                seen[way].append(server.asked_by(clients, captions, chosen.seconds))
        for way, rounds in seen.items():
            middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
            rows.append({"clients": clients, "way": way, **middle})
    for server in servers.values():
        server.end()
    return rows


class Server:
    """A process that serves, and one that asks."""

    def __init__(self, index: Path, most: int):
        ready = _SPAWN.Queue()
        self.process = _SPAWN.Process(target=serve, args=[index, most, ready], daemon=True)
        self.process.start()
        self.port = ready.get(timeout=300)
        asked(self.port, "/api/search?text=a+dog")  # loads the model

    def asked_by(self, clients: int, texts: list[str], seconds: float) -> dict[str, float]:
        found = _SPAWN.Queue()
        arguments = [self.port, clients, texts, seconds, found]
        asking = _SPAWN.Process(target=ask, args=arguments, daemon=True)
        asking.start()
        figures = json.loads(found.get(timeout=60 + 10 * seconds))
        asking.join()
        return figures

    def end(self) -> None:
        self.process.terminate()
        self.process.join()


def serve(index: Path, most: int, ready: Any) -> None:
    limits = replace(Limits(), together=most, waiting=64)
    with listen("127.0.0.1", 0) as listening:
        app = create_app(avow.open(index), limits=limits)
        ready.put(listening.getsockname()[1])
        run(app, listening)


def ask(port: int, clients: int, texts: list[str], seconds: float, found: Any) -> None:
    taken: list[float] = []
    until = time.monotonic() + seconds

    def one_client(number: int) -> None:
        while time.monotonic() < until:
            text = urllib.parse.quote(texts[number % len(texts)])
            began = time.monotonic()
            status, _ = asked(port, f"/api/search?text={text}")
            if status != 200:
                raise RuntimeError(f"the server answered {status}")
            taken.append(time.monotonic() - began)
            number += clients

    threads = [threading.Thread(target=one_client, args=[n]) for n in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed = time.monotonic() - began
    p50, p99 = np.quantile(taken, [0.5, 0.99])
    figures = {"a_second": len(taken) / passed, "p50_ms": 1000 * p50, "p99_ms": 1000 * p99}
    found.put(json.dumps({name: round(float(value), 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
