"""Several processes that serve one port: started, watched, replaced and ended together.

    first one ready? -> start the others -> replace whichever dies -> SIGTERM: all drain

The processes share the listening socket, so the kernel gives a connection to whichever is
free; they share nothing else but the store, the numbers for Prometheus and the table of
rates. Where the first cannot start, nothing can, and its sentence was printed.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from threading import Thread
from typing import Any

from avow.api.logs import LOG
from avow.api.metrics import mark_process_dead
from avow.core.errors import AvowError

Work = Callable[..., None]
"""Serves until it is ended; its first argument is to be called once it is ready."""
TICK = 0.2
SHORT = 5.0
"""Seconds; a process that lives shorter is replaced later and later."""
LONGEST_PAUSE = 30.0
_READY = b"ready"
_GRACE = 10.0  # seconds beyond what a process is allowed for its end


@dataclass
class Child:
    process: SpawnProcess
    pipe: Connection
    began: float = field(default_factory=time.monotonic)
    ready: bool = False

    def hear(self) -> None:
        with suppress(EOFError, OSError):
            while self.pipe.poll():
                self.ready = self.pipe.recv_bytes() == _READY or self.ready


class Processes:
    """`count` processes that each run `work(ready, *arguments)`."""

    def __init__(self, count: int, work: Work, arguments: Sequence[Any], end_seconds: float):
        """end_seconds: how long one may take for its end before it is killed."""
        self.count, self.work, self.arguments = count, work, tuple(arguments)
        self.end_seconds = end_seconds + _GRACE
        self.children: list[Child] = []
        self._signal: int | None = None
        self._pause, self._next = 0.0, 0.0

    def run(self, ready: Callable[[], None]) -> int:
        """Serve until a signal comes; the exit code. ready: called when all processes are."""
        told = False
        with self._signals():
            self._start()
            while self._signal is None:
                wait([child.process.sentinel for child in self.children], TICK)
                for child in self.children:
                    child.hear()
                if not told and not self._replace(first=True):
                    return self._end(signal.SIGTERM) or 1
                if told:
                    self._replace(first=False)
                elif all(child.ready for child in self.children):
                    if len(self.children) < self.count:
                        self._fill()
                    else:
                        told = True
                        ready()
            return self._end(self._signal)

    def _replace(self, *, first: bool) -> bool:
        """Take out the dead, and start others where that is due; False: they cannot start."""
        for child in [one for one in self.children if not one.process.is_alive()]:
            child.hear()
            self.children.remove(child)
            self._bury(child)
            if first and not child.ready:
                return False
            LOG.warning(
                "process %s ended with exit code %s and is replaced",
                child.process.pid,
                child.process.exitcode,
            )
            short = time.monotonic() - child.began < SHORT
            self._pause = min(max(1.0, 2 * self._pause), LONGEST_PAUSE) if short else 0.0
            self._next = time.monotonic() + self._pause
        if not first and len(self.children) < self.count and time.monotonic() >= self._next:
            self._fill()
        return True

    def _fill(self) -> None:
        while len(self.children) < self.count:
            self._start()

    def _start(self) -> None:
        # a new interpreter would import files of the folder that the server was started in
        os.environ.setdefault("PYTHONSAFEPATH", "1")
        context = get_context("spawn")  # a fork would copy threads' locks, not the threads
        ours, theirs = context.Pipe()
        process = context.Process(target=_begin, args=(theirs, self.work, self.arguments))
        process.start()
        theirs.close()
        self.children.append(Child(process, ours))

    def _bury(self, child: Child) -> None:
        child.pipe.close()
        child.process.join()
        mark_process_dead(child.process.pid)

    def _end(self, how: int) -> int:
        """End all of them; 0 where each went by itself."""
        for child in self.children:
            with suppress(ProcessLookupError):
                os.kill(child.process.pid or 0, how)
        end, code = time.monotonic() + self.end_seconds, 0
        for child in self.children:
            child.process.join(max(0.0, end - time.monotonic()))
            if child.process.is_alive():
                LOG.error("process %s did not end and is killed", child.process.pid)
                child.process.kill()
                code = 1
            self._bury(child)
        self.children.clear()
        return code

    @contextmanager
    def _signals(self):  # type: ignore[no-untyped-def]
        def note(number: int, _: object) -> None:
            self._signal = number

        before = {one: signal.signal(one, note) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def _begin(pipe: Connection, work: Work, arguments: Sequence[Any]) -> None:
    """The life of one process."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C reaches the parent alone, which passes it on once
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with_parent, args=[pipe], daemon=True).start()
    try:
        work(lambda: pipe.send_bytes(_READY), *arguments)
    except AvowError as error:
        if os.environ.get("AVOW_DEBUG"):
            raise
        sys.exit(f"avow: {error}")


def _end_with_parent(pipe: Connection) -> None:
    """A parent that was killed cannot pass a signal on."""
    with suppress(EOFError, OSError):
        pipe.recv_bytes()
    os.kill(os.getpid(), signal.SIGTERM)
