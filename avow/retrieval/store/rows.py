"""Rows of numbers in files that only grow: a model's vectors, and what is usual for them.

    models/<fingerprint>/vectors.<generation>    one row per item, in order of arrival
    models/<fingerprint>/usual.<generation>      the same rows, where the model has a bank

A row counts once the catalogue names it. Whatever lies behind the last such row is what
a killed process left, and is cut off before anything is appended.
"""

import os
from pathlib import Path

import numpy as np

from avow.core.errors import WrongIndex
from avow.core.files import room_needed
from avow.core.shapes import Num


class Rows:
    """One file of rows of the same width."""

    def __init__(self, path: Path, width: int, dtype: str = "float32"):
        self.path, self.width, self.dtype = path, width, np.dtype(dtype)

    @property
    def row_bytes(self) -> int:
        return self.width * self.dtype.itemsize

    def beside(self, generation: int) -> "Rows":
        """Another generation of the same rows."""
        path = self.path.with_name(f"{self.path.stem}.{generation}")
        return Rows(path, self.width, self.dtype.name)

    def settle(self, rows: int) -> None:
        """Make the file exactly `rows` long; a shorter one has lost something."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < rows * self.row_bytes:
            raise self._short(rows, size)
        is_new = not self.path.exists()
        with room_needed(self.path):
            with self.path.open("ab") as stream:
                if size > rows * self.row_bytes:
                    stream.truncate(rows * self.row_bytes)
                    os.fsync(stream.fileno())
            if is_new and os.name != "nt":
                folder = os.open(self.path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)  # its name must last, too
                finally:
                    os.close(folder)

    def write(self, start: int, rows: Num[np.ndarray, "items width"]) -> bytes:
        """Put rows at `start`, and return their bytes when they are on the disk."""
        data = np.ascontiguousarray(rows, self.dtype).tobytes()
        with room_needed(self.path), self.path.open("r+b", buffering=0) as stream:
            stream.seek(start * self.row_bytes)
            left = memoryview(data)
            while left:
                left = left[stream.write(left) :]
            os.fsync(stream.fileno())
        return data

    def read(self, rows: int) -> Num[np.ndarray, "rows width"]:
        """The first `rows` rows, mapped rather than read."""
        if not rows:
            return np.empty((0, self.width), self.dtype)
        try:
            size = self.path.stat().st_size if self.path.is_file() else 0
            if size < rows * self.row_bytes:
                raise self._short(rows, size)
            return np.memmap(self.path, self.dtype, "r", shape=(rows, self.width))
        except OSError as error:
            raise self._short(rows, 0) from error

    def _short(self, rows: int, size: int) -> WrongIndex:
        return WrongIndex(
            f"The file {str(self.path)!r} has {size} bytes. Expected at least "
            f"{rows * self.row_bytes}; it was damaged. Make the index anew with "
            "`avow index --rebuild`."
        )
