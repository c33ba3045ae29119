"""A few threads for what would hold up the event loop, with an end to waiting.

    full -> 503, come back      too slow -> 504, gone on without you

A search cannot be broken off in the middle. One that took too long keeps its place until
it has ended, so that slow searches make the server busy and never many at once. Threads have a
lower priority than the event loop, which so answers whatever they do.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Lock
from typing import ParamSpec, TypeVar

from avow.api.refusals import Refusal
from avow.core.priority import WORK, step_back

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """A bounded pool; `run` waits for its turn and for the result."""

    def __init__(self, at_once: int, waiting: int, seconds: float, what: str = "searches"):
        self.seconds = seconds
        self.what = what
        self.room = at_once + waiting
        self.inside = 0
        self.changed: Callable[[int], object] = lambda inside: None
        """Told how many are inside whenever that changes."""
        self._count = Lock()
        self._at_once = at_once
        self.open()

    def open(self) -> None:
        """Begin, or begin again after `close`: an application may be started anew."""
        self._pool = ThreadPoolExecutor(
            self._at_once, "avow-search", initializer=step_back, initargs=(WORK,)
        )

    async def run(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        self._enter()
        try:
            # lines of the log that the thread writes belong to the same request
            inside = copy_context()
            future = self._pool.submit(inside.run, work, *arguments, **named)
        except RuntimeError:
            self._leave()
            raise Refusal(503, "The server is shutting down.", retry_after=5) from None
        future.add_done_callback(lambda _: self._leave())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.seconds)
        except TimeoutError:
            raise Refusal(
                504,
                f"This took longer than {self.seconds:g} seconds and was given up. Ask again; "
                "with a filter there is less to look at.",
            ) from None

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _enter(self) -> None:
        with self._count:
            if self.inside >= self.room:
                raise Refusal(
                    503,
                    f"The server is busy with {self.inside} {self.what}. Ask again in a "
                    "moment.",
                    retry_after=1,
                )
            self.inside += 1
            self.changed(self.inside)

    def _leave(self) -> None:
        with self._count:
            self.inside -= 1
            self.changed(self.inside)
