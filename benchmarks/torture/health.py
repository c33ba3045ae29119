"""Ask a server for its health while clients, writers and filters load it all at once."""

import multiprocessing
import shutil
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from avow.core.priority import SCAN, step_back
from avow.retrieval.indexing import index_folders
from benchmarks.speed import server_health
from benchmarks.torture._batch import Batch

PROMISE = "Health is told and there is no 5xx but 503, whatever runs; how soon is measured."
PROOF = (
    "A server with pictures and a table of texts is asked for `/api/health` over new "
    "connections, while fifty others search and fetch thumbnails, filter at the limit of the "
    "cost, send opinions, leave three hundred connections half open, and a writer indexes the "
    "folder again and again. The clients stand for other machines, so their processes have the "
    "lowest priority; the writer has that of `avow watch`. No answer, or a 5xx other than 503, "
    "is a loss. How many took longer than 100 ms is reported and decides nothing: that depends "
    "on the machine."
)
WANTED, BATCH = 5000, 250
PICTURES, TEXTS = 20, 20_000
SEARCHERS = 40  # with those who filter and have opinions, fifty clients
LIMITS_MS = (5, 10, 25, 50, 100, 250, 1000)
_OTHERS = 19  # levels of priority that clients step back: those of other machines take no time
_SPAWN = multiprocessing.get_context("spawn")
_FORK = multiprocessing.get_context("fork")  # clients, whose own memory is not measured


def prepare(place: Path) -> None:
    server_health.fill(place, PICTURES, TEXTS)


def batch(place: Path, first: int, count: int, only: Sequence[str] = ()) -> Batch:
    """only: of LOADS; default: all at once."""
    seen = Batch(tries=count)
    ready, end = _SPAWN.Queue(), _SPAWN.Event()
    server = _SPAWN.Process(target=server_health.serve, args=[place, ready], daemon=True)
    server.start()
    port = ready.get(timeout=300)
    server_health.asked(port, "/api/health")
    loads = {
        name: _FORK.Process(
            target=_in_the_background,
            args=[name, place, port, _SPAWN.Queue(), end],
            daemon=True,
        )
        for name in LOADS
        if not only or name in only
    }
    for load in loads.values():
        load.start()
    time.sleep(1.0)
    for number in range(first, first + count):
        began = time.perf_counter()
        status = server_health.asked(port, "/api/health", timeout=60.0)[0]
        took = 1000 * (time.perf_counter() - began)
        if status not in (200, 503):
            seen.losses.append(f"{number} health was answered with {status}")
        limit = next((str(one) for one in LIMITS_MS if took <= one), "more")
        seen.counts[f"health within {limit:>4} ms"] += 1
        seen.peak("slowest health, ms", round(took, 1))
        time.sleep(server_health.PAUSE)
    status, body = server_health.asked(port, "/api/metrics")
    if status != 200:
        seen.losses.append(f"{first} the server's own counts were answered with {status}")
    seen.counts["5xx other than 503, by the server's own count"] += wrong_answers(body)
    if wrong_answers(body):
        seen.losses.append(f"{first} the server counts answers with 5xx other than 503")
    seen.peak("memory of the server, MB", _memory(server.pid or 0))
    end.set()
    for process in (*loads.values(), server):
        process.terminate()
        process.join()
    return seen


def _in_the_background(name: str, *given: Any) -> None:
    """A load of its own process, with the priority of a writer or of another machine."""
    step_back(SCAN if name == "rescan" else _OTHERS)
    LOADS[name](*given)


def wrong_answers(metrics: bytes) -> int:
    """How many requests the server says it answered with 5xx other than 503."""
    total = 0.0
    for line in metrics.decode().splitlines():
        if "requests_total{" in line and 'status="5' in line and 'status="503"' not in line:
            total += float(line.rpartition(" ")[2])
    return round(total)


def _memory(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return round(int(line.split()[1]) / 1024)
    return 0.0


def _rescan(place: Path, port: int, ready: Any, end: Any) -> None:
    """Index the folder again and again, with a picture that comes and goes."""
    files = sorted((place / "files").glob("*.jpg"))
    extra = place / "files" / "extra.jpg"
    while not end.is_set():
        if extra.exists():
            extra.unlink()
        else:
            shutil.copy(files[0], extra)
            with extra.open("ab") as stream:
                stream.write(bytes(1))
        index_folders(
            [place / "files"], index=place / "index", encoder=server_health.Hashed(), workers=1
        )


def _opinions(place: Path, port: int, ready: Any, end: Any) -> None:
    told = {"query": {"text": "a beach"}, "item_id": 1, "good": True}

    def go_on() -> None:
        while not end.is_set():
            server_health.asked(port, "/api/feedback", told)

    threads = [threading.Thread(target=go_on, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


LOADS: dict[str, Any] = {
    "searches": partial(server_health.searches, clients=SEARCHERS),
    "filter": server_health.costly_filter,
    "half_open": server_health.half_open,
    "opinions": _opinions,
    "rescan": _rescan,
}
