"""JSON from files that anybody may have written: every fault is a ValueError.

    read_object(Path("avow.json"))      {"format": 1, ...}

Python's own reader raises RecursionError for lists in lists in lists, and hands back deep
ones that `copy.deepcopy` and `repr` cannot take.
"""

import json
from pathlib import Path
from typing import Any

DEEPEST = 32
"""Levels of lists and objects inside each other; Avow writes fewer than ten."""
_NESTING = frozenset({dict, list})


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; OSError where it cannot be read, else ValueError."""
    return parse_object(read_file(path).decode("utf-8"))


def read_file(path: Path) -> bytes:
    """The bytes of a file; ValueError for a folder, a device or a pipe.

    A pipe would be waited for without end, and a device may have none.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file")
    return path.read_bytes()


def parse_object(text: str) -> dict[str, Any]:
    """The JSON object that `text` is."""
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError(f"it is a {type(content).__name__}, not an object")
    level: list[Any] = [content]
    for _ in range(DEEPEST):
        # one flat loop over exact types: a policy has a hundred thousand numbers, and every
        # search of the command line reads one
        level = [
            part
            for one in level
            for part in (one.values() if type(one) is dict else one)
            if type(part) in _NESTING
        ]
        if not level:
            return content
    raise ValueError("it is nested too deeply")
