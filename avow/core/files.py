"""Write so that a kill or a full disk leaves either the old content or the new one."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from avow.core.errors import NoRoom


@contextmanager
def room_needed(path: Path) -> Iterator[None]:
    """Turn "no space left" into a sentence; everything else passes through."""
    try:
        yield
    except Exception as error:
        if not _is_full(error):
            raise
        raise NoRoom(
            f"The disk is full while writing {str(path)!r}. Everything written before is "
            "kept. Free some space and run the same command again to continue."
        ) from error


def write_text(path: Path, text: str) -> None:
    """Replace the content of `path` in one step."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    with room_needed(path):
        try:
            with fresh.open("w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it gets its name only when all of it is there."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    with room_needed(path):
        try:
            fresh.mkdir(parents=True)
            yield fresh
            if path.exists():
                shutil.rmtree(path)
            os.replace(fresh, path)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _is_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    # torch and safetensors report a full disk in words of their own
    told = str(error)
    return "No space left on device" in told or "inline_container" in told
