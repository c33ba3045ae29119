"""One writer at a time: a lock that the system takes back when its holder dies."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from avow.core.errors import Unavailable

if os.name == "nt":
    import msvcrt

    def _take(stream: IO[str]) -> None:
        # the byte lies far behind the text, so that others can still read who it is
        stream.seek(1 << 20)
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        stream.seek(0)
else:
    import fcntl

    def _take(stream: IO[str]) -> None:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the index in `folder` for writing; another writer's lock is refused."""
    path = folder / "writer.lock"
    with path.open("a+") as stream:
        try:
            _take(stream)
        except OSError as error:
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            raise Unavailable(
                f"The index {str(folder)!r} is being written by another process (number "
                f"{holder}). Expected one writer at a time; wait until it has finished. "
                "Searching meanwhile is fine."
            ) from error
        stream.seek(0)
        stream.truncate()
        stream.write(str(os.getpid()))
        stream.flush()
        yield
