"""Threads that run as long as a `with` block does."""

from threading import Event, Thread
from typing import Self


class Running:
    """What works in `_threads` until `_ended` is set."""

    _threads: list[Thread]
    _ended: Event

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._let_go()
        for thread in self._threads:
            thread.join()

    def _let_go(self) -> None:
        """End what a thread waits for; most only look whether they have ended."""
