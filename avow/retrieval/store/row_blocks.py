"""Checksums of the rows in `vectors.<n>` and `usual.<n>`, one per block of about a megabyte.

    catalogue.blocks    model, generation, "vectors" or "usual", block, its rows, its CRC-32

They are written in the transaction that names the rows. A CRC-32 goes on where it stopped,
so that a block that is filled batch by batch is never read again. A reader verifies a block
when it first needs a row of it.
"""

import os
import sqlite3
import threading
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from avow.core.errors import WrongIndex
from avow.core.shapes import Int64
from avow.retrieval.store.rows import Rows

BLOCK_BYTES = 2**20
_MANY = 16
"""Blocks that are worth threads; a checksum of a megabyte takes about a millisecond."""

Noted = dict[int, tuple[int, int]]
"""Of each block: how many rows its checksum covers, and the checksum."""


def noted(link: sqlite3.Connection, model: str, generation: int, name: str) -> Noted:
    """What the catalogue holds of the blocks of one file."""
    rows = link.execute(
        "SELECT block, rows, checksum FROM blocks "
        "WHERE model = ? AND generation = ? AND name = ? ORDER BY block",
        [model, generation, name],
    )
    return {block: (count, checksum) for block, count, checksum in rows}


def note(
    link: sqlite3.Connection, model: str, generation: int, name: str, fresh: Noted
) -> None:
    """Write checksums of blocks; inside the transaction that names their rows."""
    link.executemany(
        "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?)",
        [(model, generation, name, block, *about) for block, about in fresh.items()],
    )


def continued(checksums: Noted, rows: Rows, start: int, data: bytes) -> Noted:
    """The blocks that change when the bytes of more rows are put at `start`."""
    size, fresh = block_rows(rows), {}
    left, row = memoryview(data), start
    while left:
        block, inside = divmod(row, size)
        count, checksum = checksums.get(block, (0, 0)) if inside else (0, 0)
        if count != inside:
            raise damaged(rows, block)
        taken = left[: (size - inside) * rows.row_bytes]
        left, added = left[len(taken) :], len(taken) // rows.row_bytes
        fresh[block] = (inside + added, zlib.crc32(taken, checksum))
        row += added
    return fresh


def block_rows(rows: Rows) -> int:
    return max(1, BLOCK_BYTES // rows.row_bytes)


class Blocks:
    """The rows of one file, verified block by block as they are needed."""

    def __init__(
        self,
        rows: Rows,
        data: np.ndarray,
        checksums: Noted | None,
        before: "Blocks | None" = None,
    ):
        """checksums: None where the rows were written without them; then vectors are only
        checked for NaN and infinite numbers.

        before: the same file as it was verified earlier; only what was added is verified.
        """
        self.rows, self.data, self._checksums = rows, data, checksums
        self._size = block_rows(rows)
        self._lock = threading.Lock()
        count = -(-len(data) // self._size)
        self._done = np.full(count, checksums is None and rows.path.stem != "vectors")
        self._verified: Noted = {}
        if checksums is None:
            return
        if len(checksums) != count or any(
            checksums.get(block, (0, 0))[0] != self._rows_in(block) for block in range(count)
        ):
            raise damaged(rows, None)
        if before is not None and before.rows.path == rows.path:
            with before._lock:
                self._verified = dict(before._verified)
            for block, about in self._verified.items():
                self._done[block] = checksums[block] == about

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to verify."""
        return bool(self._done.all())

    def check(self, places: Int64[np.ndarray, " some"] | None = None) -> None:
        """Verify the blocks of these rows, or all; a damaged one is refused."""
        if self.complete:
            return
        needed = np.zeros(len(self._done), bool)
        needed[slice(None) if places is None else places // self._size] = True
        with self._lock:
            lacking = np.flatnonzero(needed & ~self._done).tolist()
            wrong = self._wrong(lacking)
            for block in lacking:
                if block in wrong:
                    continue
                self._done[block] = True
                if self._checksums is not None:
                    self._verified[block] = self._checksums[block]
        if wrong and self._checksums is None:
            raise damaged(self.rows, wrong[0], "it holds NaN or infinite numbers")
        if wrong:
            raise damaged(self.rows, wrong[0])

    def damages(self) -> list[int]:
        """Which blocks are damaged, of all."""
        with self._lock:
            return self._wrong(np.flatnonzero(~self._done).tolist())

    def _wrong(self, blocks: list[int]) -> list[int]:
        if len(blocks) < _MANY:
            right = map(self._is_intact, blocks)
        else:
            with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
                right = list(pool.map(self._is_intact, blocks))
        return [block for block, fits in zip(blocks, right, strict=True) if not fits]

    def _is_intact(self, block: int) -> bool:
        start = block * self._size
        if self._checksums is None:
            return bool(np.isfinite(self.data[start : start + self._size]).all())
        verified, checksum = self._verified.get(block, (0, 0))
        if verified > self._checksums[block][0]:
            verified, checksum = 0, 0
        part = self.data[start + verified : start + self._checksums[block][0]]
        return (
            zlib.crc32(np.ascontiguousarray(part).data, checksum) == self._checksums[block][1]
        )

    def _rows_in(self, block: int) -> int:
        return min(self._size, len(self.data) - block * self._size)


def of_whole_file(rows: Rows, count: int) -> Noted:
    """The checksums of rows that were written without them."""
    data, size = rows.read(count), block_rows(rows)
    starts = range(0, count, size)
    return {
        start // size: (min(size, count - start), zlib.crc32(np.ascontiguousarray(part).data))
        for start, part in ((start, data[start : start + size]) for start in starts)
    }


def damaged(
    rows: Rows, block: int | None, why: str = "its checksum does not fit"
) -> WrongIndex:
    where = "" if block is None else f" in rows {_span(rows, block)}"
    return WrongIndex(
        f"The file {str(rows.path)!r} is damaged{where}: {why}. Expected what "
        "`avow index` wrote; make the index anew with `avow index --rebuild`."
    )


def _span(rows: Rows, block: int) -> str:
    size = block_rows(rows)
    return f"{block * size} to {(block + 1) * size - 1}"


def forget(link: sqlite3.Connection, model: str, keep: Iterable[int] = ()) -> None:
    """Remove the checksums of a model's generations except those to keep."""
    marks = list(keep)
    few = f" AND generation NOT IN ({','.join('?' * len(marks))})" if marks else ""
    link.execute(f"DELETE FROM blocks WHERE model = ?{few}", [model, *marks])
