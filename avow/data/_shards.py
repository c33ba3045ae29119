"""Shards of features on the disk: whole or absent, and checked when they are read.

A file gets its name only when all of it is on the disk, so that a shard that exists is
whole, whatever happened to the process that wrote it. Damage that comes later shows
when a file's length is not the one its header promises.
"""

import errno
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Float

from avow.core.errors import BadFeatures, NoRoom
from avow.core.files import write_text

DTYPE = np.dtype(np.float16)
AGAIN = "Delete that file and run the same `avow features` again."

_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Header:
    shape: tuple[int, ...]
    dtype: np.dtype


def read_header(file: Path) -> Header:
    """Shape and type of a `.npy` file, after checking that all of it is there."""
    if not file.is_file():
        raise BadFeatures(f"The file {str(file)!r} is missing. {AGAIN}")
    try:
        with file.open("rb") as stream:
            version = np.lib.format.read_magic(stream)
            short = version == (1, 0)
            read = np.lib.format
            header = read.read_array_header_1_0 if short else read.read_array_header_2_0
            shape, _, dtype = header(stream)
            expected = stream.tell() + math.prod(shape) * dtype.itemsize
    except ValueError as error:
        raise BadFeatures(
            f"The file {str(file)!r} is not an array of numbers. Expected numpy's "
            f"'.npy' format. {AGAIN}"
        ) from error
    if dtype.hasobject:
        raise BadFeatures(
            f"The file {str(file)!r} holds Python objects, which are never read. "
            "Expected one array of numbers. Save it again as such."
        )
    found = file.stat().st_size
    if found != expected:
        raise BadFeatures(
            f"The file {str(file)!r} is damaged: it has {found} bytes. Expected "
            f"{expected}. {AGAIN}"
        )
    return Header(shape, dtype)


def read_json(file: Path) -> Any:
    """A file of the folder, which was written in one step and so is whole or absent."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFeatures(f"The file {str(file)!r} is missing or damaged. {AGAIN}") from error


class ShardWriter:
    """Writes whole shards only, and says so when the disk cannot take one."""

    def __init__(self, folder: Path, remaining: int = 0):
        """remaining: bytes that are still to come, for the advice on a full disk."""
        self.folder = folder
        self.remaining = remaining

    def has(self, split: str, number: int) -> bool:
        return self.file(split, number).is_file()

    def file(self, split: str, number: int) -> Path:
        return self.folder / f"{split}-{number:05d}.npy"

    def about(self, split: str, number: int) -> dict[str, Any]:
        """The `ids` stored in a finished shard, and what was `skipped`."""
        return read_json(self.file(split, number).with_suffix(".json"))

    def write(
        self,
        split: str,
        number: int,
        features: Float[np.ndarray, "images parts dim"],
        ids: Sequence[str],
        skipped: Sequence[Mapping[str, str]],
    ) -> None:
        """One shard; its list comes first, so that a shard that exists is complete."""
        file = self.file(split, number)
        about = {"ids": list(ids), "skipped": [dict(one) for one in skipped]}
        write_text(file.with_suffix(".json"), json.dumps(about))
        self.save(file, features.astype(DTYPE, copy=False))
        self.remaining = max(0, self.remaining - features.size * DTYPE.itemsize)

    def remove(self, split: str, number: int) -> None:
        file = self.file(split, number)
        file.unlink(missing_ok=True)
        file.with_suffix(".json").unlink(missing_ok=True)

    def save(self, file: Path, array: np.ndarray) -> None:
        """Replace `file` with `array` in one step."""
        fresh = file.with_name(file.name + ".partial")
        try:
            with fresh.open("wb") as stream:
                _write_npy(stream, array)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(fresh, file)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise self._no_room(file, array.nbytes) from error

    def _no_room(self, file: Path, size: int) -> NoRoom:
        free = shutil.disk_usage(self.folder).free
        missing = max(self.remaining, size) - free
        return NoRoom(
            f"The disk is full while writing {str(file)!r}. Everything written before "
            f"is kept. Free {max(1, math.ceil(missing / _MEGABYTE))} MB and run the "
            "same command again to continue."
        )


def _write_npy(stream: BinaryIO, array: np.ndarray) -> None:
    """numpy's own `save` hides why a write failed, so the bytes are written here."""
    array = np.ascontiguousarray(array)
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(stream, header)
    stream.write(array.data)


def blocks_of(count: int, size: int) -> Iterator[range]:
    """The ranges of `size` that cover `count` images, the last one shorter."""
    return (range(at, min(at + size, count)) for at in range(0, count, size))
