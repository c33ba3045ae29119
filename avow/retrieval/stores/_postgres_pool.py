"""Connections to PostgreSQL, shared by threads; a lost one is made again."""

import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from avow.core.errors import MissingExtra, WrongIndex
from avow.indexes.pgvector import Version, make_ready, sentences

T = TypeVar("T")
_CONNECTIONS = 16
"""Of one process at most; more threads wait for one another."""
_PATIENCE = 3.0
"""Seconds to wait for a connection, before the store counts as away."""
_TRIES = 3
_LOST_SOON = {
    "tcp_user_timeout": round(1000 * _PATIENCE),
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
}
"""A cut link is noticed after seconds; TCP by itself waits for a quarter of an hour."""


class Pool:
    """Work on a connection, with what is needed to send vectors over it."""

    def __init__(self, dsn: str):
        try:
            import psycopg_pool
            from pgvector import HalfVector, Vector
            from pgvector.psycopg import register_vector
        except ImportError as error:
            packages = "psycopg, psycopg_pool, pgvector"
            raise MissingExtra("A store in PostgreSQL", packages, "pg") from error
        if not dsn:
            raise WrongIndex(
                "The store in PostgreSQL does not know its server. Expected its address in "
                "AVOW_PG_DSN, such as postgresql://user@host/database."
            )
        self._dsn, self._ready, self._lock = dsn, False, threading.Lock()
        self._kinds = {False: Vector, True: HalfVector}
        self.version: Version = ()
        """Of the extension; empty until the first connection."""
        # it would repeat on stderr what the sentence of the error says
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
        self._pool: Any = psycopg_pool.ConnectionPool(
            dsn,
            kwargs={
                "autocommit": True,
                "connect_timeout": max(2, round(_PATIENCE)),
                **_LOST_SOON,
            },
            min_size=0,
            max_size=_CONNECTIONS,
            timeout=_PATIENCE,
            # given up soon and begun anew by the next question: by itself the pool waits longer
            # and longer, and would go on waiting when the server is back
            reconnect_timeout=_PATIENCE,
            configure=register_vector,
            open=False,
        )
        self._end = weakref.finalize(self, _close, self._pool, os.getpid())

    def vector(self, numbers: np.ndarray, half: bool) -> Any:
        return self._kinds[half](np.asarray(numbers, np.float32))

    @staticmethod
    def numbers(vector: Any) -> Any:
        return vector.to_numpy() if hasattr(vector, "to_numpy") else vector

    def use(self, work: Callable[[Any], T]) -> T:
        """Do something on a connection, and again where it was lost or two writers met.

        All that is done here may be repeated: rows and notes are replaced by their keys.
        """
        import psycopg

        with sentences():
            self._open()
            left = _TRIES
            while True:
                left -= 1
                try:
                    with self._pool.connection() as link:
                        return work(link)
                except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                    if not left:
                        raise
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    if not left or not _lost(error):
                        raise
                    self._pool.check()  # others of the pool may be dead as well

    def close(self) -> None:
        self._end()

    def _open(self) -> None:
        with self._lock:
            if not self._ready:
                self.version = make_ready(self._dsn)
                self._pool.open()
                self._ready = True


def _lost(error: Exception) -> bool:
    """Whether a connection broke, rather than that none can be made or a query was ended."""
    import psycopg
    import psycopg_pool

    never = (psycopg_pool.PoolTimeout, psycopg.errors.QueryCanceled)
    return not isinstance(error, never)


def _close(pool: Any, process: int) -> None:
    if os.getpid() == process:  # a forked child has none of its threads
        pool.close(timeout=1)
