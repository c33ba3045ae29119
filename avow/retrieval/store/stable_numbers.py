"""The numbers that every store gives to the same items: a folder draws its sample by them.

A folder counts its items; a shared store names them by what they are (`item_id`). The sample
of a large gallery is that of the smallest such names, so that it is one and the same wherever
the gallery lives. A name costs some microseconds, so the names are kept in a file of the index
and made for new and moved items only; an item is known by the checksums of its rows. Without
that file, or with a damaged one, they are made when they are first needed.
"""

import sqlite3
import threading
import zlib
from itertools import chain
from pathlib import Path

import numpy as np

from avow.core.documents import read_file
from avow.core.files import write_bytes
from avow.core.shapes import Int64
from avow.retrieval.store.row_checksums import damaged, intact, is_sealed
from avow.retrieval.store_contract import item_id

FILE = "numbers"
_AT_ONCE = 500
_COLUMNS = 4  # item, checksum of its row, checksum of its file's row, number
_FEW = 2000
"""Items that are named sooner than a file is read; and smaller galleries have no sample."""
_LAST = np.iinfo(np.int64).max
"""Of an item that went while it was asked for: it is not sampled."""


class StableNumbers:
    """Numbers of the items of a folder, for one state of it after another."""

    def __init__(self, index: Path):
        self.index, self._lock = index, threading.Lock()
        self._known: Int64[np.ndarray, "items 4"] | None = None
        self._stamp: int | None = None

    def of(
        self, link: sqlite3.Connection, stamp: int, ids: Int64[np.ndarray, " items"]
    ) -> Int64[np.ndarray, " items"]:
        """stamp: of the state that the items are of; nothing is read again while it stays."""
        with self._lock:
            if self._known is None or self._stamp != stamp:
                self._bring_up_to_date(link)
                self._stamp = stamp
            return self._looked_up(ids)

    def keep(self, link: sqlite3.Connection) -> None:
        """Write them down beside the catalogue, where there are many and any is new."""
        if link.execute("SELECT count(*) FROM items").fetchone()[0] <= _FEW:
            return
        with self._lock:
            if self._bring_up_to_date(link) and self._known is not None:
                data = self._known.tobytes()
                write_bytes(self.index / FILE, data + zlib.crc32(data).to_bytes(8, "little"))

    def _looked_up(self, ids: Int64[np.ndarray, " items"]) -> Int64[np.ndarray, " items"]:
        known = self._known
        if known is None or not len(known):
            return np.full(len(ids), _LAST)
        places = np.searchsorted(known[:, 0], ids).clip(max=len(known) - 1)
        return np.where(known[places, 0] == ids, known[places, 3], _LAST)

    def _bring_up_to_date(self, link: sqlite3.Connection) -> int:
        """How many items were new or had moved."""
        sealed = is_sealed(link)
        before = self._read() if self._known is None else self._known
        sums = "items.checksum, files.checksum" if sealed else "0, 0"
        rows = link.execute(
            f"SELECT items.id, {sums}, 0 FROM items JOIN files ON files.id = items.file "
            "ORDER BY items.id"
        )
        now = np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, _COLUMNS)
        self._known, same = before, np.zeros(len(now), bool)
        if len(before) and sealed:
            places = np.searchsorted(before[:, 0], now[:, 0]).clip(max=len(before) - 1)
            same = (before[places, :3] == now[:, :3]).all(1)
            now[:, 3] = before[places, 3]
        now[~same, 3] = self._made(link, now[~same, 0].tolist(), sealed)
        self._known = now
        return int((~same).sum())

    def _made(self, link: sqlite3.Connection, ids: list[int], sealed: bool) -> list[int]:
        """The numbers of these items, whose rows are verified."""
        fits = f"{intact('items')} AND {intact('files')}" if sealed else "1"
        made: dict[int, int] = {}
        for start in range(0, len(ids), _AT_ONCE):
            part = ids[start : start + _AT_ONCE]
            for number, path, inside, content, whole in link.execute(
                f"SELECT items.id, path, part, items.content, {fits} FROM items JOIN files ON "
                f"files.id = items.file WHERE items.id IN ({','.join('?' * len(part))})",
                part,
            ):
                if not whole:
                    raise damaged(self.index, f"the description of item {number} has changed")
                made[number] = item_id(path, inside, content)
        return [made.get(number, _LAST) for number in ids]

    def _read(self) -> Int64[np.ndarray, "items 4"]:
        nothing = np.empty((0, _COLUMNS), np.int64)
        try:
            data = read_file(self.index / FILE)
        except (OSError, ValueError):
            return nothing
        whole, noted = data[:-8], int.from_bytes(data[-8:], "little")
        if len(whole) % (8 * _COLUMNS) or zlib.crc32(whole) != noted:
            return nothing
        return np.frombuffer(whole, np.int64).reshape(-1, _COLUMNS)
