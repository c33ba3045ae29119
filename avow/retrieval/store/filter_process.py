"""Filters in a process of their own, so that a server keeps its interpreter to itself.

`~` calls Python for every item. In a thread of a server each of these calls takes the
interpreter from the event loop, thousands of times a second, and everybody waits.

    request    8 bytes, a JSON object of that length: the folder, the filter, its kind
    answer     8 bytes, a JSON object of that length, then `size` bytes: numbers of items
               or the name and the sentence of an error

The process starts with the first filter, with the priority of the thread that asks, and ends
when its input does: however the server ends, it goes, too.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from avow.core import errors
from avow.core.decoding_child import LENGTH, send
from avow.core.errors import AvowError, Unavailable
from avow.core.shapes import Int64
from avow.retrieval.store.filtering import choose
from avow.retrieval.store.items import ItemCheck
from avow.retrieval.where import Where

_TRIES = 2
"""A process that was killed while it was idle is replaced without a word."""


class Filters:
    """The filters of one index: here, or in a process of their own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.checked = ItemCheck(folder)
        self._apart = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def go_apart(self) -> None:
        """From now on each filter runs in the other process."""
        self._apart = True

    def choose(self, where: Where, kind: str, items: int) -> Int64[np.ndarray, " n"]:
        """The numbers of the items that pass, of so many to compare."""
        if not self._apart:
            return choose(self.folder, where, kind, items, self.checked)
        asked = {
            "folder": str(self.folder.absolute()),
            "where": where.text,
            "kind": kind,
            "items": items,
        }
        with self._lock:
            for _ in range(_TRIES):
                try:
                    answer, numbers = self._ask(asked)
                    break
                except (OSError, EOFError):
                    self._end()
            else:
                raise Unavailable(
                    f"The process that runs the filter {where.text[:200]!r} ended before it "
                    "had an answer. Expected one; try again in a moment."
                )
        if "error" in answer:
            raise _error(answer)
        return np.frombuffer(numbers, np.int64)

    def close(self) -> None:
        with self._lock:
            self._end()

    def _ask(self, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        if self._process is None:
            # -P: or a file of the folder the server was started in would be imported
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        assert self._process.stdin and self._process.stdout
        send(self._process.stdin, asked)
        return received(self._process.stdout)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError), process:  # closes the pipes, as far as they are whole
                pass


def received(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """A message and its bytes; `EOFError` where the other end is gone."""
    about = json.loads(_read(stream, int.from_bytes(_read(stream, LENGTH))))
    return about, _read(stream, about["size"])


def _read(stream: IO[bytes], count: int) -> bytes:
    content = stream.read(count)
    if len(content) < count:
        raise EOFError
    return content


def _error(answer: dict[str, Any]) -> Exception:
    kind = getattr(errors, answer["error"], None)
    if isinstance(kind, type) and issubclass(kind, AvowError):
        return kind(answer["why"])
    return RuntimeError(f"{answer['error']}: {answer['why']}")


def main() -> None:
    """Answer until the server ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    checks: dict[str, ItemCheck] = {}
    try:
        while True:
            asked, _ = received(sys.stdin.buffer)
            check = checks.setdefault(asked["folder"], ItemCheck(Path(asked["folder"])))
            send(sys.stdout.buffer, *_answer(asked, check))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # nobody reads what may be left in a buffer


def _answer(asked: dict[str, Any], check: ItemCheck) -> tuple[dict[str, Any], bytes]:
    try:
        where = Where.parse(asked["where"])
        numbers = choose(check.index, where, asked["kind"], asked["items"], check)
    except Exception as error:  # whatever it is, it is the asker's
        return {"error": type(error).__name__, "why": str(error)}, b""
    return {}, numbers.tobytes()


if __name__ == "__main__":
    main()
