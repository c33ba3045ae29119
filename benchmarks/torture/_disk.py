"""What a disk may hold after the power has failed, given what was written, renamed and synced.

The file system promises no more than POSIX does: the data of a file lasts once the file was
synced, and a name lasts once its folder was. Whatever else was done before the failure may have
reached the disk or not. Data does so write by write and in parts; names of one folder do so in
order, as every journal keeps them.
"""

import os
import random
from collections.abc import Sequence
from pathlib import Path

from benchmarks.torture._steps import Change

SECTOR = 512
WAYS = ("nothing", "names", "data", "everything", "some", "some")
"""What of the changes that were not synced reached the disk."""
_PASSING = ("-shm",)
"""Shared memory of SQLite, which nobody reads after a failure."""


class Disk:
    """Files and folders by their names."""

    def __init__(self, home: Path):
        self.home = os.path.realpath(home)
        self.names: dict[str, int | None] = {self.home: None}  # a number of a file, or a folder
        self.data: dict[int, bytearray] = {}

    def apply(self, change: Change, number: int) -> None:
        """number: of the file that the change is about."""
        kind, paths = change.kind, change.paths
        if kind in ("create", "mkdir") and os.path.dirname(paths[0]) in self.names:
            self.names[paths[0]] = number if kind == "create" else None
        elif kind == "remove":
            for name in self._below(paths[0]):
                del self.names[name]
        elif kind == "rename" and paths[0] in self.names:
            for name in self._below(paths[1]):
                del self.names[name]
            self._move(paths[0], paths[1])
        elif kind == "exchange":
            self._move(paths[0], f"{paths[0]}.away")
            self._move(paths[1], paths[0])
            self._move(f"{paths[0]}.away", paths[1])

    def write(self, change: Change, number: int, length: int | None = None) -> None:
        """The data of a change, or the beginning of it."""
        held = self.data.setdefault(number, bytearray())
        if change.kind == "truncate":
            del held[change.start :]
            held.extend(bytes(change.start - len(held)))
            return
        data = change.data if length is None else change.data[:length]
        held.extend(bytes(max(0, change.start - len(held))))
        held[change.start : change.start + len(data)] = data

    def materialise(self, target: Path) -> None:
        for name, number in sorted(self.names.items()):
            path = target / os.path.relpath(name, self.home)
            if name.endswith(_PASSING):
                continue
            if number is None:
                path.mkdir(exist_ok=True, parents=True)
            else:
                path.write_bytes(self.data.get(number, b""))

    def _below(self, path: str) -> list[str]:
        return [name for name in self.names if name == path or name.startswith(f"{path}/")]

    def _move(self, old: str, new: str) -> None:
        for name in self._below(old):
            self.names[new + name[len(old) :]] = self.names.pop(name)


def crashed(home: Path, changes: Sequence[Change], draw: random.Random) -> tuple[Disk, str]:
    """The disk after a failure behind the last of these changes, and in words how it failed."""
    way = draw.choice(WAYS)
    numbers = _numbers(changes)
    lasting_data, lasting_names = _lasting(changes, numbers)
    until = {"names": len(changes), "everything": len(changes), "some": None}.get(way, 0)
    disk = Disk(home)
    for place, change in enumerate(changes):
        number = numbers[place]
        if change.kind in ("write", "truncate"):
            length = None
            if place not in lasting_data:
                if way in ("nothing", "names") or (way == "some" and draw.random() < 0.5):
                    continue
                if way == "some" and draw.random() < 0.3:
                    length = SECTOR * draw.randrange(1 + len(change.data) // SECTOR)
            disk.write(change, number, length)
        elif change.kind not in ("sync", "said"):
            if until is None and place not in lasting_names:
                until = draw.randrange(place, len(changes) + 1)
            if place in lasting_names or place < (until or 0):
                disk.apply(change, number)
    return disk, f"{way} after {len(changes)} changes"


def _numbers(changes: Sequence[Change]) -> list[int]:
    """A number for the file of each change; systems give the number of a deleted file again."""
    current: dict[tuple[int, int] | None, int] = {}
    numbers = []
    for place, change in enumerate(changes):
        if change.kind == "create":
            current[change.file] = place + 1
        numbers.append(current.get(change.file, 0))
    return numbers


def _lasting(changes: Sequence[Change], numbers: Sequence[int]) -> tuple[set[int], set[int]]:
    """Which changes of data, and which of names, have reached the disk for certain."""
    data, names = set(), set()
    files: set[int] = set()
    folders: set[str] = set()
    for place in reversed(range(len(changes))):
        change = changes[place]
        if change.kind == "sync":
            files.add(numbers[place])
            folders.add(change.paths[0])
        elif change.kind in ("write", "truncate"):
            if numbers[place] in files:
                data.add(place)
        elif {os.path.dirname(path) for path in change.paths} <= folders:
            names.add(place)
    return data, names
