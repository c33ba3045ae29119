"""Ask a server for its health while others do their worst: how long does the answer take?

    python -m benchmarks.speed.server_health [--probes 150] [--texts 100000] [--only filter]

The server, those who load it and the one who asks run in processes of their own. The index
has pictures, for thumbnails and searches, and a table of many texts, for filters. Asked for
is `/api/health` over a new connection, a few times a second:

    idle       nothing else happens
    filter     a filter at the limit of its work, again and again
    feedback   20 clients send feedback while another process holds the writer lock
    half_open  300 connections with half of a request, opened again when closed
    searches   20 clients search and fetch thumbnails
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import socket
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from avow.api import Limits, create_app
from avow.cli.serve import listen, run
from avow.core.searching import Encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.retrieval.store.catalogue import open_catalogue
from benchmarks._report import keep

CLIENTS, HALF_OPEN = 20, 300
PAUSE = 0.05  # seconds between two probes
_SPAWN = multiprocessing.get_context("spawn")


class Hashed(Encoder):
    """Vectors from hashes: a server is measured here, not a model."""

    name, fingerprint, dim, views, tau, kind = "hashed", "0" * 16, 64, 1, 0.05, "exp"

    def prepare(self, photograph: Image.Image) -> np.ndarray:
        return np.asarray(photograph.convert("RGB").resize((8, 8)))

    def encode_prepared(self, pixels: np.ndarray) -> np.ndarray:
        return self._drawn([one.tobytes() for one in pixels])

    def encode_texts(self, texts: Any) -> np.ndarray:
        return self._drawn([text.encode() for text in texts])

    def _drawn(self, contents: list[bytes]) -> np.ndarray:
        seeds = [int.from_bytes(hashlib.sha256(one).digest()[:8], "big") for one in contents]
        rows = np.stack([np.random.default_rng(seed).normal(size=self.dim) for seed in seeds])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--probes", type=int, default=150)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--only", choices=LOADS, action="append")
    parser.add_argument("--name", default="server_health", help="Of the file of results.")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        fill(place, chosen.pictures, chosen.texts)
        figures = {load: measured(place, load, chosen.probes) for load in chosen.only or LOADS}
    figures = {"load_average": os.getloadavg()[0], "items": chosen.texts, **figures}
    print("->", keep(chosen.name, figures))


def fill(place: Path, pictures: int, texts: int) -> None:
    (place / "files").mkdir()
    rng = np.random.default_rng(0)
    for number in range(pictures):
        colours = rng.integers(0, 255, (12, 16, 3), np.uint8)
        large = Image.fromarray(colours).resize((1600, 1200))
        large.save(place / "files" / f"{number}.jpg")
    lines = [f"text {number} about something on a beach" for number in range(texts)]
    (place / "files" / "captions.csv").write_text("\n".join(["caption", *lines]))
    index_folders([place / "files"], index=place / "index", encoder=Hashed())


def measured(place: Path, load: str, probes: int) -> dict[str, Any]:
    ready, end = _SPAWN.Queue(), _SPAWN.Event()
    server = _SPAWN.Process(target=serve, args=[place, ready], daemon=True)
    server.start()
    port = ready.get(timeout=300)
    asked(port, "/api/health")  # returns when the server has started
    loader = _SPAWN.Process(target=LOADS[load], args=[place, port, ready, end], daemon=True)
    loader.start()
    ready.get(timeout=300)
    seconds, failed = [], Counter()
    for _ in range(probes):
        began = time.perf_counter()
        status = asked(port, "/api/health", timeout=60.0)[0]
        seconds.append(time.perf_counter() - began)
        if status != 200:
            failed[str(status)] += 1
        time.sleep(PAUSE)
    end.set()
    done = ready.get(timeout=300)
    for process in (loader, server):
        process.terminate()
        process.join()
    figures = {
        "probes": probes,
        "not_answered": dict(failed),
        **{
            name: round(1000 * float(np.quantile(seconds, share)), 2)
            for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0))
        },
        "load": done,
    }
    print(f"{load:10}", json.dumps(figures), flush=True)
    return figures


def asked(port: int, path: str, body: Any = None, timeout: float = 120.0) -> tuple[int, bytes]:
    """Status and content; 0 where the server did not answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def serve(place: Path, ready: Any) -> None:
    encoder = Hashed()
    retriever = Retriever(Library.open(place / "index", encoder), encoder)
    with listen("127.0.0.1", 0) as listening:
        app = create_app(retriever, limits=Limits())
        ready.put(listening.getsockname()[1])
        run(app, listening)


# --- those who load it ------------------------------------------------------------------


def idle(place: Path, port: int, ready: Any, end: Any) -> None:
    _clients(1, port, ready, end, lambda *_: 200 + 0 * end.wait(0.1))


def costly_filter(place: Path, port: int, ready: Any, end: Any) -> None:
    """Patterns of one field are one comparison, so they alternate between two fields."""
    parts = [f"{('path', 'name')[n % 2]}~*{n}*q" for n in range(80)]
    words = [f"{one} {('and not', 'or')[n % 2]} " for n, one in enumerate(parts)]
    where = "".join(words)[:990].rpartition("q ")[0] + "q"
    path = f"/api/items?kind=text&where={urllib.parse.quote(where)}"
    _clients(2, port, ready, end, lambda *_: asked(port, path)[0])


def feedback_under_a_lock(place: Path, port: int, ready: Any, end: Any) -> None:
    link = open_catalogue(place / "index")
    number = link.execute("SELECT max(id) FROM items").fetchone()[0]
    link.execute("BEGIN IMMEDIATE")
    told = {"query": {"text": "a beach"}, "item_id": number, "good": True}
    _clients(CLIENTS, port, ready, end, lambda *_: asked(port, "/api/feedback", told)[0])
    link.execute("COMMIT")


def half_open(place: Path, port: int, ready: Any, end: Any) -> None:
    links: list[socket.socket] = []
    opened = 0
    while not end.is_set():
        for link in [one for one in links if _is_closed(one)]:
            link.close()
            links.remove(link)
        while len(links) < HALF_OPEN:
            links.append(socket.create_connection(("127.0.0.1", port)))
            links[-1].sendall(b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-More: ")
            links[-1].setblocking(False)
            opened += 1
        if opened == HALF_OPEN:
            ready.put("loaded")
            opened += 1
        end.wait(0.1)
    ready.put({"opened": opened - 1})


def _is_closed(link: socket.socket) -> bool:
    try:
        return not link.recv(65536)
    except BlockingIOError:
        return False
    except OSError:
        return True


def searches(place: Path, port: int, ready: Any, end: Any, clients: int = CLIENTS) -> None:
    listed = json.loads(asked(port, "/api/items?limit=200")[1])["items"]
    numbers = [item["id"] for item in listed]

    def ask(client: int, turn: int) -> int:
        if (client + turn) % 2:
            number = numbers[(7 * client + turn) % len(numbers)]
            return asked(port, f"/api/items/{number}/thumbnail?size={256 + turn % 3 * 256}")[0]
        return asked(port, f"/api/search?text=query+{client}+{turn}&k=50")[0]

    _clients(clients, port, ready, end, ask)


def _clients(
    count: int, port: int, ready: Any, end: Any, ask: Callable[[int, int], int]
) -> None:
    statuses: Counter[str] = Counter()

    def go_on(client: int) -> None:
        turn = 0
        while not end.is_set():
            statuses[str(ask(client, turn))] += 1
            turn += 1

    threads = [threading.Thread(target=go_on, args=[n], daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    end.wait(0.5)
    ready.put("loaded")
    for thread in threads:
        thread.join()
    ready.put({"clients": count, "answers": dict(statuses)})


LOADS = {
    "idle": idle,
    "filter": costly_filter,
    "feedback": feedback_under_a_lock,
    "half_open": half_open,
    "searches": searches,
}

if __name__ == "__main__":
    main()
