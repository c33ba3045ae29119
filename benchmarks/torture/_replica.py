"""A replica of PostgreSQL that is behind: what it gives is told to be partial."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from avow.retrieval.opening import open_library
from benchmarks.serving._cluster import wait_until
from benchmarks.torture import _gallery, _shared_clients
from benchmarks.torture._history import Log

STORE = "postgres:history"


def follow(place: Path, primary: str, replica: str) -> None:
    """Read a replica that follows, one that is held back, and one that follows again."""
    import psycopg

    def is_ready() -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(replica):
            return True
        return False

    log = Log(place / "log")
    wait_until(is_ready, "the replica")
    with psycopg.connect(replica, autocommit=True) as asked:
        _wait(asked, "NOT {behind}")
        os.environ["AVOW_PG_DSN"] = replica
        with open_library(STORE) as library:
            if _partial(library):
                _lost(log, "a replica that follows was told to be behind")
            for _ in range(3):
                asked.execute("SELECT pg_wal_replay_pause()")
                _shared_clients.settle(place, STORE, [primary])  # what it reads counts
                _wait(asked, "{behind}")
                if not _partial(library):
                    _lost(log, "a replica that is behind did not say so")
                asked.execute("SELECT pg_wal_replay_resume()")
                _wait(asked, "NOT {behind}")
                _shared_clients.read(library, "the replica", log)


def _partial(library: Any) -> bool:
    library.refresh()
    query = _gallery.encoder().encode_texts(["red"])
    return bool(library.nearest(query, 10, library.choose(None, "image", 100)).missing)


def _wait(asked: Any, state: str) -> None:
    behind = "(pg_last_wal_receive_lsn() IS DISTINCT FROM pg_last_wal_replay_lsn())"
    question = f"SELECT {state.format(behind=behind)}"
    wait_until(lambda: asked.execute(question).fetchone()[0], "the replica")
    time.sleep(0.2)  # what the primary sends at this moment


def _lost(log: Log, told: str) -> None:
    now = time.monotonic_ns()
    about = {"files": {}, "partial": False, "wrong": [told]}
    log.say(what="read", who="the replica", start=now, **about)
