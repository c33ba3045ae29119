"""Shards of features on the disk: whole or absent, and checked when they are read.

A file gets its name only when all of it is on the disk, so that a shard that exists is
whole, whatever happened to the process that wrote it. Damage that comes later shows in the
checksums of its header and of every block of rows, or, where an earlier version wrote it
without them, when its length is not the one its header promises.
"""

import io
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from avow.core import checksums
from avow.core.errors import BadFeatures, NoRoom
from avow.core.files import save_array
from avow.core.seals import read_document, write_document

DTYPE = np.dtype(np.float16)
AGAIN = "Delete that file and run the same `avow features` again."

BLOCK = 64
"""Rows that share one checksum."""

_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Header:
    shape: tuple[int, ...]
    dtype: np.dtype
    length: int
    """Bytes before the first number."""


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
            length = stream.tell()
            expected = length + math.prod(shape) * dtype.itemsize
    except Exception as error:  # numpy parses the header as Python, which fails in many ways
        raise BadFeatures(
            f"The file {str(file)!r} is not an array of numbers. Expected numpy's "
            f"'.npy' format. {AGAIN}"
        ) from error
    if dtype.hasobject:
        raise BadFeatures(
            f"The file {str(file)!r} holds Python objects, which are never read. "
            "Expected one array of numbers. Save it again as such."
        )
    size = file.stat().st_size
    if size != expected:
        raise BadFeatures(
            f"The file {str(file)!r} is damaged: it has {size} bytes. Expected "
            f"{expected}. {AGAIN}"
        )
    return Header(shape, dtype, length)


def read_json(file: Path) -> dict[str, Any]:
    """A document of the folder, which was written in one step and so is whole or absent."""
    try:
        return read_document(file)
    except (OSError, ValueError) as error:
        raise BadFeatures(f"The file {str(file)!r} is missing or damaged. {AGAIN}") from error


def read_listed(file: Path, crc32: str | None) -> bytes:
    """A file of the folder whose checksum the manifest has; None in older ones."""
    try:
        data = file.read_bytes()
    except OSError:
        data = None
    if data is None or crc32 not in (None, checksums.of_bytes(data)):
        raise BadFeatures(f"The file {str(file)!r} is missing or damaged. {AGAIN}")
    return data


class Verified:
    """The rows of a shard, each block of them verified when it is first read."""

    def __init__(self, file: Path, crc32: Sequence[str] | None):
        """crc32: of the header and of every block; None for a shard without checksums."""
        self.file = file
        header = read_header(file)
        self._crc32 = [] if crc32 is None else list(crc32)
        self._map: np.ndarray = np.asarray(np.load(file, mmap_mode="r"))
        self._good = np.full(math.ceil(len(self._map) / BLOCK), crc32 is None)
        if crc32 is None:
            return
        with file.open("rb") as stream:
            start = stream.read(header.length)
        if len(crc32) != 1 + len(self._good) or checksums.of_bytes(start) != crc32[0]:
            raise self._damaged()

    def rows(self, index: Int[np.ndarray, " items"]) -> Shaped[np.ndarray, "items parts dim"]:
        for block in np.unique(index // BLOCK).tolist():
            if not self._good[block]:
                self._check(block, self._crc32[1 + block])
        return self._map[index]

    def _check(self, block: int, crc32: str) -> None:
        if _crc32_of_rows(self._map[block * BLOCK : (block + 1) * BLOCK]) != crc32:
            raise self._damaged()
        self._good[block] = True

    def _damaged(self) -> BadFeatures:
        return BadFeatures(
            f"The file {str(self.file)!r} is damaged: its checksums are not those it was "
            f"written with. {AGAIN}"
        )


def checksums_of(array: np.ndarray) -> list[str]:
    """The checksums of an array's file: of its header, then of every block of rows."""
    header = io.BytesIO()
    format = np.lib.format
    format.write_array_header_1_0(header, format.header_data_from_array_1_0(array))
    blocks = (array[at : at + BLOCK] for at in range(0, len(array), BLOCK))
    return [checksums.of_bytes(header.getvalue()), *map(_crc32_of_rows, blocks)]


def _crc32_of_rows(rows: np.ndarray) -> str:
    return checksums.of_bytes(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)


class ShardWriter:
    """Writes whole shards only, and says so when the disk cannot take one."""

    def __init__(self, folder: Path, remaining: int = 0):
        """remaining: bytes that are still to come, for the advice on a full disk."""
        self.folder = folder
        self.remaining = remaining

    def has(self, split: str, number: int) -> bool:
        file = self.file(split, number)
        return file.is_file() and file.with_suffix(".json").is_file()

    def file(self, split: str, number: int) -> Path:
        return self.folder / f"{split}-{number:05d}.npy"

    def about(self, split: str, number: int) -> dict[str, Any]:
        """The `ids` stored in a finished shard, what was `skipped`, and its checksums."""
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
        array = np.asarray(features, DTYPE, order="C")
        about = {
            "ids": list(ids),
            "skipped": [dict(one) for one in skipped],
            "crc32": checksums_of(array),
        }
        file.unlink(missing_ok=True)
        file.with_name(f"{file.name}.partial").unlink(missing_ok=True)  # of earlier versions
        write_document(file.with_suffix(".json"), about)
        self.save(file, array)
        self.remaining = max(0, self.remaining - array.nbytes)

    def remove(self, split: str, number: int) -> None:
        file = self.file(split, number)
        file.unlink(missing_ok=True)
        file.with_suffix(".json").unlink(missing_ok=True)

    def save(self, file: Path, array: np.ndarray) -> None:
        """Replace `file` with `array` in one step."""
        try:
            save_array(file, array)
        except NoRoom as error:
            raise self._no_room(file, array.nbytes) from error

    def _no_room(self, file: Path, size: int) -> NoRoom:
        free = shutil.disk_usage(self.folder).free
        missing = max(self.remaining, size) - free
        return NoRoom(
            f"The disk is full while writing {str(file)!r}. Everything written before "
            f"is kept. Free {max(1, math.ceil(missing / _MEGABYTE))} MB and run the "
            "same command again to continue."
        )


def blocks_of(count: int, size: int) -> Iterator[range]:
    """The ranges of `size` that cover `count` images, the last one shorter."""
    return (range(at, min(at + size, count)) for at in range(0, count, size))
