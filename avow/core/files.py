"""Write so that a kill, a power cut or a full disk leaves the old content or the new one.

    write_text, write_bytes, save_array     replace one file
    new_file                                the same for whatever writes to a path itself
    new_folder                              replace a folder, whole
    make_folder                             make a folder whose name lasts
    recover                                 finish what a killed `new_folder` left undone

New content is written under a temporary name `.NAME.TOKEN.new`, brought to the disk, and
only then gets its name. Whoever writes holds a lock on the temporary name, so what a killed
process left behind is recognised and removed by the next writer of the same name.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from avow.core.errors import NoRoom
from avow.core.exchange import exchange

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_BEING_MADE = ".new"
_KEPT = ".kept"


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


# --- one file -----------------------------------------------------------------------------


def write_text(path: Path, text: str) -> None:
    """Replace the content of `path` in one step."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Replace the content of `path` in one step."""
    with new_file(path) as fresh, fresh.open("r+b") as stream:
        stream.write(data)


def save_array(path: Path, array: Any) -> None:
    """Replace `path` with a numpy array in the `.npy` format, in one step."""
    import numpy as np  # slow to import, and most commands write only text

    content = np.asarray(array, order="C")
    if content.dtype.hasobject:
        raise ValueError("arrays of Python objects are pickles, which are never written")
    with new_file(path) as fresh, fresh.open("r+b") as stream:
        # numpy's own `save` hides why a write failed, so the bytes are written here
        header = np.lib.format.header_data_from_array_1_0(content)
        np.lib.format.write_array_header_1_0(stream, header)
        stream.write(content.reshape(-1).view(np.uint8).data)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """An empty file to write to; it replaces `path` when all of it is on the disk."""
    with room_needed(path), _temporary(path, folder=False) as fresh:
        yield fresh
        _sync(fresh)
        os.replace(fresh, path)
        _sync(path.parent)


# --- a folder -----------------------------------------------------------------------------


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """An empty folder to fill; it replaces `path` when all of it is on the disk."""
    path = Path(os.path.realpath(path))  # a link stays a link, its target is replaced
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", str(path))
    with room_needed(path):
        make_folder(path.parent)
        recover(path)
        with _temporary(path, folder=True) as fresh:
            yield fresh
            _sync_all(fresh)
            if not path.exists():
                os.rename(fresh, path)
            elif not exchange(fresh, path):
                _replace_by_moving(path, fresh)
            _sync(path.parent)  # the old folder goes only when the new one has its name


def recover(path: Path) -> None:
    """Bring back the folder `path` if its replacement was interrupted half way.

    Everyone who opens a folder that `new_folder` writes calls this first. It only ever has
    something to do where two folders cannot be exchanged in one step.
    """
    path = Path(os.path.realpath(path))
    backup = _backup_path(path)
    if not backup.is_dir():
        return
    with suppress(OSError), locked(backup):
        if backup.is_dir():  # otherwise its writer has finished in the meantime
            _discard(path)
            os.rename(backup, path)
            _sync(path.parent)


def _replace_by_moving(path: Path, fresh: Path) -> None:
    """Replace `path` where no exchange is possible; `recover` undoes it until it is done.

    While `.NAME.kept` exists it is the folder that counts.
    """
    backup = _backup_path(path)
    with locked(path):
        try:
            os.rename(path, backup)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        else:
            _put(fresh, path, backup)
            return
    # a folder that came with a container image cannot be moved, but it can be copied
    with _temporary(path, folder=True) as copied:
        shutil.copytree(path, copied, dirs_exist_ok=True)
        _sync_all(copied)
        os.rename(copied, backup)
        _put(fresh, path, backup)


def _put(fresh: Path, path: Path, backup: Path) -> None:
    _sync(path.parent)
    shutil.rmtree(path, ignore_errors=True)
    os.rename(fresh, path)
    _sync(path.parent)
    os.rename(backup, fresh)  # done: what is left is removed with the temporary name


def _backup_path(path: Path) -> Path:
    return path.with_name(f".{path.name}{_KEPT}")


def _discard(path: Path) -> None:
    """Remove the folder `path`; first its name, so that nobody sees half of it."""
    if not path.exists():
        return
    away = _temporary_name(path)
    try:
        os.rename(path, away)
    except OSError:
        away = path
    shutil.rmtree(away)


# --- temporary names ----------------------------------------------------------------------


@contextmanager
def _temporary(path: Path, folder: bool) -> Iterator[Path]:
    """A new empty file or folder beside `path`, gone afterwards if it still has its name."""
    _remove_left_behind(path)
    fresh, handle = _claim(path, folder)
    try:
        yield fresh
    finally:
        _remove(fresh)
        if handle is not None:
            os.close(handle)


def _claim(path: Path, folder: bool) -> tuple[Path, int | None]:
    """Make a temporary name and lock it; another writer may remove it in between."""
    while True:
        fresh = _temporary_name(path)
        if folder:
            fresh.mkdir()
        else:
            os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        if fcntl is None:
            return fresh, None
        try:
            handle = os.open(fresh, os.O_RDONLY)
        except FileNotFoundError:
            continue
        _lock(handle)
        if fresh.exists():
            return fresh, handle
        os.close(handle)


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}{_BEING_MADE}")


def _remove_left_behind(path: Path) -> None:
    """Remove temporary names of `path` that no running process holds a lock on."""
    if fcntl is None:  # nobody can tell which are in use
        return
    with os.scandir(path.parent) as entries:
        left = [entry.path for entry in entries if _is_temporary(entry.name, path.name)]
    for name in left:
        with suppress(OSError):
            handle = os.open(name, os.O_RDONLY)
            try:
                if _lock(handle, wait=False):
                    _remove(Path(name))
            finally:
                os.close(handle)


def _is_temporary(name: str, of: str) -> bool:
    start, end = f".{of}.", _BEING_MADE
    if not (name.startswith(start) and name.endswith(end)):
        return False
    # without the check, ".a.b.1234.new" of "a.b" would be taken for one of "a"
    return name[len(start) : -len(end)].isalnum()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for a lock on a folder; it ends with the process, however that ends."""
    if fcntl is None:
        yield
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, wait: bool = True) -> bool:
    """Lock an open file or folder; False where another holds it or locks do not exist."""
    assert fcntl is not None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # some file systems have no locks; what is left behind stays there
        return False
    return True


# --- onto the disk ------------------------------------------------------------------------


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each of them lasting."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with room_needed(folder):
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _sync_all(folder: Path) -> None:
    """Bring a folder and everything in it to the disk."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(Path(place) / name)
        _sync(Path(place))


def _sync(path: Path) -> None:
    """Bring a file, or the list of names of a folder, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows opens no folders
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # some network file systems do not sync folders
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(handle)


def _is_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    # torch and safetensors report a full disk in words of their own
    message = str(error)
    return "No space left on device" in message or "inline_container" in message
