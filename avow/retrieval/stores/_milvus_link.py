"""The way to Milvus: a server, or Milvus Lite in a file of this process.

Milvus Lite lets one process in, and its threads one at a time: readers would otherwise see a
write while it is made. The file is let go of when the last handle of the process is closed.
"""

import logging
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from avow.core.errors import BadQuery, MissingExtra, Unavailable, WrongIndex
from avow.core.places import avow_home
from avow.retrieval.where import Where

T = TypeVar("T")
PATIENCE: dict[str, Any] = {"retry_times": 2}
"""Of one request: a lost connection is tried again at once, then the store counts as away."""
_CONNECT = 3.0
"""Seconds to wait for a server."""
_OPENINGS = 3
"""Times that the file of Milvus Lite is opened: its connection can break on a busy machine."""
_QUIET = {"grpc.keepalive_time_ms": 2**31 - 1, "grpc.keepalive_permit_without_calls": 0}
"""Milvus Lite is in this process and needs no pings; it ends connections that send many."""
_UNFLUSHED = 1000
"""Rows that Milvus Lite may keep as they came; such rows are slow to search."""
_NO_COLLECTION, _NOT_LOADED = 100, 101
_GUARD = threading.RLock()


@dataclass
class _File:
    """A file of Milvus Lite that this process has open."""

    path: str
    users: int = 0
    lock: Any = field(default_factory=threading.RLock)
    unflushed: dict[str, int] = field(default_factory=dict)


_FILES: dict[str, _File] = {}


class Link:
    """A connection that threads may share, made when it is first needed."""

    def __init__(self, uri: str = "", token: str = ""):
        try:
            import pymilvus  # noqa: F401
        except ImportError as error:
            raise MissingExtra(
                "A store in Milvus", "pymilvus, milvus-lite", "milvus"
            ) from error
        uri = uri or os.environ.get("AVOW_MILVUS_URI") or str(avow_home() / "milvus.db")
        self.is_lite = "://" not in uri
        if self.is_lite and not uri.endswith(".db"):
            raise WrongIndex(
                f"AVOW_MILVUS_URI is {uri!r}. Expected the address of a server, such as "
                "http://host:19530, or a file of Milvus Lite whose name ends in .db."
            )
        self._uri = str(Path(uri).expanduser().absolute()) if self.is_lite else uri
        self._token = token or os.environ.get("AVOW_MILVUS_TOKEN", "")
        self._client: Any = None
        self._end: Callable[[], object] = lambda: None
        self._loaded: set[str] = set()
        self._version = ""
        for name in ("pymilvus", "milvus_lite", "grpc._server"):
            # they would repeat on stderr what the sentence of the error says
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    @property
    def is_there(self) -> bool:
        """Whether there can be anything: a file is made by the first who writes."""
        return not self.is_lite or Path(self._uri).exists()

    @property
    def is_old(self) -> bool:
        """Whether it is a server before 2.4: patterns only by beginning, vectors in 32 bits."""
        told = re.match(r"v?(\d+)\.(\d+)", self.version)
        return told is not None and (int(told[1]), int(told[2])) < (2, 4)

    @property
    def version(self) -> str:
        """As it is told: "v2.3.5-lite" is a server of the package `milvus`."""
        if not self._version:
            self._version = str(self.use(lambda client: client.get_server_version()))
        return self._version

    def use(self, work: Callable[[Any], T], where: Where | None = None) -> T:
        """Do something with a client; where: the filter in it. All of it may be repeated."""
        from pymilvus.exceptions import MilvusException

        with self._sentences(where):
            client = self._opened()
            with _FILES[self._uri].lock if self.is_lite else nullcontext():
                try:
                    return work(client)
                except MilvusException as error:
                    if not _is_not_loaded(error):
                        raise
                    for collection in self._loaded:  # the server was started anew
                        if client.has_collection(collection, **PATIENCE):
                            client.load_collection(collection, **PATIENCE)
                    return work(client)

    def load(self, client: Any, collection: str) -> None:
        """Make a collection ready to be read; it stays so."""
        self._loaded.add(collection)
        client.load_collection(collection, **PATIENCE)

    def wrote(self, client: Any, collection: str, rows: int) -> None:
        """Milvus Lite searches rows quickly once they are in a file of their own."""
        if self.is_lite:
            waiting = _FILES[self._uri].unflushed
            waiting[collection] = waiting.get(collection, 0) + rows
            if waiting[collection] >= _UNFLUSHED:
                client.flush(collection)
                waiting[collection] = 0

    def close(self) -> None:
        self._end()
        self._client = None

    def _opened(self) -> Any:
        with _GUARD:
            if self._client is None:
                self._client = self._lite() if self.is_lite else self._server()
                about = (self._client, self._uri if self.is_lite else "", os.getpid())
                self._end = weakref.finalize(self, _close, *about)
            return self._client

    def _server(self) -> Any:
        from pymilvus import MilvusClient

        return MilvusClient(self._uri, token=self._token, timeout=_CONNECT)

    def _lite(self) -> Any:
        Path(self._uri).parent.mkdir(parents=True, exist_ok=True)
        client = self._connected()
        _FILES.setdefault(self._uri, _File(self._uri)).users += 1
        return client

    def _connected(self, openings: int = _OPENINGS) -> Any:
        from pymilvus import MilvusClient

        with _reasons() as reasons:
            try:
                return MilvusClient(self._uri, grpc_options=_QUIET)
            except Exception as error:
                if reasons or openings == 1:
                    raise self._not_opened(error, reasons) from error
        return self._connected(openings - 1)

    def _not_opened(self, error: Exception, reasons: list[str]) -> WrongIndex:
        if "DataDirLockedError" in reasons:
            return Unavailable(
                f"The file of Milvus Lite {self._uri!r} is open in another process. "
                "Expected to be the only one: Milvus Lite lets one process in. End the other "
                "one, such as `avow serve`, or name a Milvus server in AVOW_MILVUS_URI."
            )
        told = " ".join([*reasons, _message(error)])[:200]
        return WrongIndex(
            f"The file of Milvus Lite {self._uri!r} cannot be opened ({told}). Expected one "
            "that milvus-lite 3 made, and that package; name another one in AVOW_MILVUS_URI."
        )

    @contextmanager
    def _sentences(self, where: Where | None) -> Iterator[None]:
        """What Milvus refuses, or that it went away, as a sentence."""
        import grpc
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, grpc.RpcError, ConnectionError, ValueError) as error:
            if isinstance(error, ValueError) and "closed channel" not in str(error):
                raise
            code = getattr(error, "code", None)
            if code == _NO_COLLECTION:
                raise Unavailable(
                    "The rows of this store were replaced in Milvus at this moment. Expected "
                    "them to stay; ask again."
                ) from error
            message = _message(error)
            lost = not isinstance(error, MilvusException) or _is_away(error)
            if where is not None and not lost:
                raise BadQuery(
                    f"The filter {where.text[:200]!r} cannot be compared by Milvus "
                    f"({message}). Expected a simpler one; use '=' in place of '~', and "
                    "ordinary letters."
                ) from error
            raise (Unavailable if lost else WrongIndex)(
                f"Milvus cannot be used ({message}). Expected a running server; check "
                "AVOW_MILVUS_URI, AVOW_MILVUS_TOKEN and the server's log."
            ) from error


def _is_away(error: Any) -> bool:
    """Whether no answer came, rather than a refusal."""
    import grpc
    from pymilvus.exceptions import ConnectError, MilvusUnavailableException

    code = error.code
    away = isinstance(error, ConnectError | MilvusUnavailableException)
    return away or isinstance(code, grpc.StatusCode) or "Fail connecting" in str(error)


def _is_not_loaded(error: Any) -> bool:
    told = str(error.message)
    return error.code == _NOT_LOADED or "not loaded" in told or "in state 'released'" in told


def _message(error: Exception) -> str:
    message = str(getattr(error, "message", "") or error)
    return " ".join(message.split(", debug=")[0].split())[:200]


@contextmanager
def _reasons() -> Iterator[list[str]]:
    """Kinds of the errors that Milvus Lite logs and does not raise."""
    reasons: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[0] is not None:
                reasons.append(record.exc_info[0].__name__)

    logger, handler = logging.getLogger("milvus_lite.server_manager"), Listening()
    before, passed_on = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield reasons
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = passed_on


def _close(client: Any, path: str, process: int) -> None:
    """Let go of a connection; of a file, when nobody here has it open any more."""
    if os.getpid() != process:  # a forked child has none of its threads
        return
    with _GUARD:
        client.close()
        if path in _FILES:
            file = _FILES[path]
            file.users -= 1
            if not file.users:
                from milvus_lite.server_manager import server_manager_instance

                with file.lock:
                    server_manager_instance.release_server(path)
                del _FILES[path]
