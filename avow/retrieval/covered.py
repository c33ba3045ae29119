"""Which folders an index covers: what a new scan looks at, and where its files may lie."""

import json
from collections.abc import Iterable
from pathlib import Path

from avow.core.files import write_text

FILE = "folders.json"


def covered(index: Path) -> list[str]:
    """The folders that were indexed, in order; none where that was never noted."""
    try:
        noted = json.loads((index / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return [one for one in noted if isinstance(one, str)] if isinstance(noted, list) else []


def cover(index: Path, folders: Iterable[str]) -> None:
    """Note folders; one inside another that is noted adds nothing."""
    every = sorted({*covered(index), *folders})
    kept = [one for one in every if not any(_inside(one, other) for other in every)]
    if kept != covered(index):
        write_text(index / FILE, json.dumps(kept, ensure_ascii=False, indent=1))


def _inside(path: str, folder: str) -> bool:
    return path != folder and Path(path).is_relative_to(folder)
