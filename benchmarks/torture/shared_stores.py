"""Write to and read from a store that many share, while what lies between them fails."""

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving._cluster import Database
from benchmarks.serving._links import Loopback, free_port
from benchmarks.torture import _replica, _shared_clients
from benchmarks.torture._batch import Batch
from benchmarks.torture._history import History

PROMISE = "In a shared store every acknowledged write is seen by every later read."
PROOF = (
    "Two writers bring pictures, texts and videos of PostgreSQL or Milvus Lite from version to "
    "version, readers search and send opinions, and their process is killed at random moments. "
    "Between them and PostgreSQL links are cut, slow, silent or lose the answers, the server "
    "is killed and restarted, a replica falls behind, and clocks jump by hours. What was done "
    "is held against a sequential model: a read that misses an acknowledged write, sees part "
    "of a file or what nobody wrote is a loss, unless the answer says that it is partial. A "
    "store that is away must say so."
)
WANTED, BATCH = 4000, 200
PROGRAMS = "AVOW_PG_PROGRAMS"
"""Names the folder of `initdb` and `postgres`; default: where Debian has them."""
STORES = ("postgres", "milvus")
_PROCESSES = multiprocessing.get_context("forkserver")


Faults = dict[str, Callable[[], Callable[[], None]]]
"""Each is made, and gives its mending."""


@dataclass(frozen=True)
class Reached:
    """A store: where clients reach it, and what can be done to it."""

    servers: list[str]
    faults: Faults
    database: Database | None = None


def prepare(place: Path) -> None:
    _shared_clients.make_clips(place / "clips")


def batch(place: Path, first: int, count: int, only: Sequence[str] = ()) -> Batch:
    """only: of STORES; default: one after the other, PostgreSQL where its programs are."""
    _PROCESSES.set_forkserver_preload([_shared_clients.__name__])
    stores = [one for one in only or STORES if one != "postgres" or programs() is not None]
    seen = Batch()
    kinds = stores if only else [stores[first // BATCH % len(stores)]]
    for kind in kinds:
        log = place / "log"
        for old in (log, *place.glob("writer-*"), place / "store"):
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
        draw = random.Random(f"{kind} {first}")
        with _store(kind, place / "store", draw) as store:
            _disturbed(place, kind, store, (count // len(kinds), draw), seen)
            if store.database is not None and not only:
                _replicated(place, store.database, seen)
        history = History.of(log.read_text().splitlines())
        seen.tries += len(history.reads)
        seen.losses += [f"{first} {kind}: {told}" for told in history.losses()]
        seen.tracebacks += [f"{first} {kind}: {told}" for told in history.tracebacks]
        for what, times in history.counts.items():
            seen.counts[f"{kind}: {what}"] += times
        seen.counts[f"{kind}: reads"] += len(history.reads)
        seen.counts[f"{kind}: partial"] += sum(read["partial"] for read in history.reads)
    return seen


def _disturbed(
    place: Path, kind: str, store: Reached, asked: tuple[int, random.Random], seen: Batch
) -> None:
    """Let clients work, and disturb them, until so many reads are logged."""
    (count, draw), servers, faults = asked, store.servers, store.faults
    _settled(seen, place, kind, servers)
    turn = 0
    while (left := count - _reads(place / "log")) > 0:
        turn += 1
        words = [
            place,
            f"{kind}:history",
            servers,
            max(left, 2),
            f"{kind} {turn} {draw.random()}",
        ]
        clients = _PROCESSES.Process(target=_shared_clients.work, args=words)
        clients.start()
        moments = draw.choice((2, 4, 6))
        while moments and clients.is_alive():
            moments -= 1
            clients.join(0.3 + draw.random())
            if faults and clients.is_alive():
                name = draw.choice(sorted(faults))
                mend = faults[name]()
                seen.counts[f"{kind}: {name}"] += 1
                clients.join(0.2 + 1.5 * draw.random())
                mend()
        if clients.is_alive() and draw.random() < 0.7:
            clients.kill()
            seen.counts[f"{kind}: clients killed"] += 1
        clients.join()
    _settled(seen, place, kind, servers)


def _settled(seen: Batch, place: Path, kind: str, servers: list[str]) -> None:
    _in_a_process(
        seen, f"{kind}: settling", _shared_clients.settle, place, f"{kind}:history", servers
    )


def _replicated(place: Path, database: Database, seen: Batch) -> None:
    """A replica that follows and falls behind; the server at its own port, past the links."""
    port = free_port()
    standby = database.standby(database.place.parent / "standby", port)
    try:
        address = "postgresql://postgres@127.0.0.1:{}/postgres".format
        primary, replica = address(database.network.bind("db")[1]), address(port)
        _in_a_process(seen, "replica", _replica.follow, place, primary, replica)
        seen.counts["postgres: replica held back"] += 3
    finally:
        standby.send_signal(signal.SIGINT)
        standby.wait()


def _in_a_process(seen: Batch, told: str, work: Callable[..., None], *words: object) -> None:
    process = _PROCESSES.Process(target=work, args=words)
    process.start()
    process.join()
    if process.exitcode:
        seen.tracebacks.append(f"{told} ended with {process.exitcode}")


def _reads(log: Path) -> int:
    return log.read_text().count('"what": "read"') if log.exists() else 0


# --- stores, and what can happen to them ----------------------------------------------------


@contextmanager
def _store(kind: str, place: Path, draw: random.Random) -> Iterator[Reached]:
    """An empty one."""
    place.mkdir()
    if kind == "milvus":
        yield Reached([str(place / "lite.db")], {})
        return
    found = programs()
    assert found is not None
    if os.geteuid() == 0:  # the server runs as nobody
        for above in (place, *place.parents):
            if above.stat().st_uid == 0 and above != Path("/"):
                above.chmod(above.stat().st_mode | 0o011)
    net = Loopback()
    database = Database(net, place / "pg", found)
    try:
        database.start()
        database.wait_ready()
        servers = [database.dsn("one"), database.dsn("two")]
        yield Reached(servers, _faults(net, database, draw), database)
    finally:
        database.stop()
        net.close()


def _faults(net: Loopback, database: Database, draw: random.Random) -> Faults:
    def link() -> str:
        return draw.choice(("one-db", "two-db"))

    def after(how: Callable[[str], object]) -> Callable[[], Callable[[], None]]:
        def make() -> Callable[[], None]:
            name = link()
            how(name)
            return lambda: net.mend(name)

        return make

    def restart() -> Callable[[], None]:
        database.kill()

        def mend() -> None:
            time.sleep(0.5)  # its processes end by themselves
            database.start()
            database.wait_ready()

        return mend

    return {
        "link silent": after(net.cut),
        "link slow": after(net.slow),
        "link broken": after(net.sever),
        "answers lost": after(net.swallow),
        "server killed": restart,
    }


def programs() -> Path | None:
    """Those of PostgreSQL with pgvector, where there are any."""
    if named := os.environ.get(PROGRAMS):
        return Path(named)
    asked = shutil.which("pg_config")
    if asked is not None:
        told = subprocess.run([asked, "--bindir"], capture_output=True, text=True)
        if (Path(told.stdout.strip()) / "initdb").exists():
            return Path(told.stdout.strip())
    listed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return listed[-1].parent if listed else None
