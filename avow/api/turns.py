"""Requests begin one after the other, so that a health check never waits for a crowd of them.

An event loop runs whatever is ready before it looks again who has connected or sent something.
With fifty requests ready at once that is a tenth of a second, for everybody. Here one of them
begins each time the loop has looked.
"""

import asyncio
from collections import deque
from weakref import WeakKeyDictionary


class Turns:
    """A queue of requests for every event loop that asks; usually there is one loop."""

    def __init__(self) -> None:
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()

    async def wait(self) -> None:
        """Return when it is this request's turn: at once where no other has just begun."""
        loop = asyncio.get_running_loop()
        queue = self._queues.setdefault(loop, _Queue())
        if queue.taken:
            turn = loop.create_future()
            queue.waiting.append(turn)
            await turn
        else:
            queue.taken = True
            loop.call_soon(queue.pass_on)


class _Queue:
    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.taken = False

    def pass_on(self) -> None:
        """The next one begins; those that have gone meanwhile are left out."""
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                turn.get_loop().call_soon(self.pass_on)
                return
        self.taken = False
