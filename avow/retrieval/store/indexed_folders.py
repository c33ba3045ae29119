"""Which folders an index covers: what a new scan looks at, and where its files may lie.

Nothing outside these folders is indexed or served, whatever kind it is: every link is
followed before a path is compared with them. The same file notes how many frames a second are
looked at in their videos, and whether text in their pictures is read.
"""

import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from avow.core import checksums
from avow.core.documents import read_file
from avow.core.errors import WrongIndex
from avow.core.files import write_text
from avow.core.storage import is_url

FILE = "folders.json"
_KEY, _RATE, _TEXT = "folders", "fps", "ocr"
FPS = 1.0
"""Frames a second that are looked at in videos, unless an index has noted another rate."""


def covered(index: Path, needed: bool = False) -> list[str]:
    """The folders that were indexed, in order; none where that was never noted.

    needed: an index whose items have checksums has noted them.
    """
    return _noted(index, needed)[_KEY]


def frame_rate(index: Path) -> float:
    """Frames a second that are looked at in the videos of an index."""
    return float(_noted(index).get(_RATE, FPS))


def note_frame_rate(index: Path, fps: float) -> None:
    """Remember how many frames a second are looked at, for the runs to come."""
    if fps != frame_rate(index):
        _write(index, {**_noted(index), _RATE: fps})


def reads_text(index: Path) -> bool:
    """Whether text in the pictures of an index is read."""
    return _noted(index).get(_TEXT, False)


def note_reading(index: Path, reads: bool) -> None:
    """Remember whether text in pictures is read, for the runs to come."""
    if reads != reads_text(index):
        _write(index, {**_noted(index), _TEXT: reads})


def _noted(index: Path, needed: bool = False) -> dict[str, Any]:
    """What the file says, verified."""
    path = index / FILE
    try:
        noted = json.loads(read_file(path))
        if isinstance(noted, list):  # written before there were checksums
            noted = checksums.sealed({_KEY: noted})
        folders, rate = noted[_KEY], noted.get(_RATE, FPS)
        if not checksums.intact(noted):
            raise ValueError("its checksum does not fit")
        if not isinstance(folders, list) or not all(
            isinstance(folder, str) for folder in folders
        ):
            raise ValueError("it does not list folders")
        if not isinstance(rate, int | float) or not math.isfinite(rate) or rate <= 0:
            raise ValueError("its frames a second are no number")
        if not isinstance(noted.get(_TEXT, False), bool):
            raise ValueError("it does not say whether text is read")
        return noted
    except FileNotFoundError as error:
        if needed:
            raise _damaged(path, error) from error
        return {_KEY: []}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        raise _damaged(path, error) from error


def _write(index: Path, noted: dict[str, Any]) -> None:
    content = {key: noted[key] for key in (_KEY, _RATE, _TEXT) if key in noted}
    sealed = checksums.sealed(content)
    write_text(index / FILE, json.dumps(sealed, ensure_ascii=False, indent=1))


def cover(index: Path, folders: Iterable[str], anew: bool = False) -> None:
    """Note folders; one inside another that is noted adds nothing.

    anew: a list that is damaged is replaced, rather than refused.
    """
    try:
        noted, fresh = _noted(index), False
    except WrongIndex:
        if not anew:
            raise
        noted, fresh = {_KEY: []}, True
    before = noted[_KEY]
    every = sorted({*before, *folders})
    outermost = [
        folder for folder in every if not any(_inside(folder, other) for other in every)
    ]
    if fresh or outermost != before or not _is_sealed(index / FILE):
        _write(index, {**noted, _KEY: outermost})


def _is_sealed(path: Path) -> bool:
    return path.is_file() and isinstance(json.loads(path.read_text("utf-8")), dict)


def _damaged(path: Path, error: Exception) -> WrongIndex:
    return WrongIndex(
        f"The list of indexed folders {str(path)!r} cannot be read ({error}). Expected what "
        "`avow index` wrote; name all folders again with `avow index --rebuild FOLDERS`."
    )


def inside(path: str, folders: Sequence[str]) -> Path | None:
    """The real file behind `path`, if there is one and it lies in one of `folders`."""
    try:
        real = Path(path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # ValueError: a zero byte in the path
        return None
    return real if real.is_file() and not leads_out(path, folders) else None


def leads_out(path: str, folders: Sequence[str]) -> bool:
    """Whether `path`, with every link followed, lies in none of `folders`."""
    real = Path(os.path.realpath(path))
    return not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)


def outside(index: Path, paths: set[str]) -> set[str]:
    """Indexed paths that are links out of the folders of an index, whose text is not shown."""
    folders = covered(index) if paths else []
    return {path for path in paths if folders and not is_url(path) and leads_out(path, folders)}


def _inside(path: str, folder: str) -> bool:
    return path != folder and Path(path).is_relative_to(folder)
