"""What `weights.json` may say: which files there are, and which tensors lie in them.

It is read from a folder that anybody may have made, so it names files of that folder alone,
and no piece of a tensor twice: a few letters must not stand for gigabytes.
"""

import re
from pathlib import Path
from typing import Any

from avow.core.errors import WrongCheckpoint

_FILE = re.compile(r"weights-[0-9]{5}\.safetensors")


def check_index(index: dict[str, Any], path: Path) -> None:
    """Refuse an index that `save_weights` would not have written."""
    files, tensors = index.get("files"), index.get("tensors")
    if not isinstance(files, dict) or not all(map(_FILE.fullmatch, files)):
        raise _wrong(path, "does not list files of its own folder")
    if not isinstance(tensors, dict):
        raise _wrong(path, "does not list tensors")
    used: set[str] = set()
    for labels in tensors.values():
        if not isinstance(labels, list) or not labels:
            raise _wrong(path, "has a tensor without pieces")
        for label in labels:
            if not isinstance(label, str) or label in used:
                raise _wrong(path, "names a piece of a tensor that is none, or one twice")
            used.add(label)


def check_pieces(index: dict[str, Any], pieces: dict[str, Any], path: Path) -> None:
    """Refuse an index of pieces that the files do not hold."""
    for labels in index["tensors"].values():
        for label in labels:
            if label not in pieces:
                raise _wrong(path, f"names the piece {label[:80]!r}, which no file holds")


def _wrong(path: Path, what: str) -> WrongCheckpoint:
    return WrongCheckpoint(
        f"The list of weights {str(path)!r} {what}. Expected the one that was saved with the "
        "run; copy the run again or train it anew."
    )
