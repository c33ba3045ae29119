"""Histories of reads and writes of a shared store, held against a sequential model.

A writer has files of its own and gives them one version after another. A write was acknowledged
when the command that made it returned. So a read that began after that must see this version of
a file or a later one, whole, and a version that nobody had begun to write when the read ended
must not be seen. The same holds for opinions, which only come.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ABSENT = -1
"""The version of a file that is not there."""


class Log:
    """Lines that survive the death of who writes them."""

    def __init__(self, path: Path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def say(self, **what: Any) -> None:
        os.write(self._file, json.dumps({"at": time.monotonic_ns(), **what}).encode() + b"\n")


@dataclass
class Written:
    """A version of one file, or an opinion: when it was begun, and when acknowledged."""

    version: int
    begun: int
    acknowledged: int | None = None


@dataclass
class History:
    """All that was done, in order."""

    files: dict[str, list[Written]] = field(default_factory=dict)
    opinions: dict[str, Written] = field(default_factory=dict)
    reads: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    tracebacks: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, lines: Iterable[str]) -> "History":
        made = cls()
        open_writes: dict[str, list[Written]] = {}
        for line in lines:
            said = json.loads(line)
            what, who, at = said["what"], said.get("who", ""), said["at"]
            if what == "write":
                open_writes[who] = [
                    made._begun(path, version, at) for path, version in said["files"].items()
                ]
            elif what == "opinion":
                made.opinions[said["text"]] = Written(1, at)
                open_writes[who] = [made.opinions[said["text"]]]
            elif what == "acknowledged":
                for written in open_writes.pop(who):
                    written.acknowledged = at
            elif what == "read":
                made.reads.append(said)
            elif what == "traceback":
                made.tracebacks.append(f"{who}: {said['told']}")
            if what in ("write", "opinion", "refused", "acknowledged"):
                made.counts[f"{what}{'' if what == 'refused' else 's'}"] += 1
        return made

    def _begun(self, path: str, version: int, at: int) -> Written:
        before = self.files.setdefault(path, [Written(ABSENT, 0, 0)])
        before.append(Written(version, at))
        return before[-1]

    def losses(self) -> list[str]:
        """What no read of a sequential store could have seen."""
        return [told for read in self.reads if not read["partial"] for told in self._lost(read)]

    def _lost(self, read: Mapping[str, Any]) -> list[str]:
        start, end = read["start"], read["at"]
        lost = [f"{read['who']}: {told}" for told in read.get("wrong", [])]
        for path, written in self.files.items() if read["files"] or not lost else ():
            seen = read["files"].get(path, [ABSENT])
            allowed = possible(written, start, end)
            if len(seen) != 1 or seen[0] not in allowed:
                lost.append(f"{read['who']} saw {seen} of {path}, not one of {allowed}")
        lost += [f"{read['who']} saw {one}" for one in read["files"].keys() - self.files.keys()]
        if (opinions := read.get("opinions")) is not None:
            for text, written in self.opinions.items():
                times = opinions.count(text)
                known = written.acknowledged is not None and written.acknowledged <= start
                if times > 1 or (known and not times) or (times and written.begun > end):
                    lost.append(f"{read['who']} saw the opinion {text} {times} times")
        return lost


def possible(written: list[Written], start: int, end: int) -> list[int]:
    """The versions of a file that a read between two moments may see."""
    last = max(
        place
        for place, one in enumerate(written)
        if one.acknowledged is not None and one.acknowledged <= start
    )
    return [one.version for one in written[last:] if one.begun <= end]
