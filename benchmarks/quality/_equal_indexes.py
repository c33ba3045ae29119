"""What two indexes must have in common to be equal, and pictures to fill them with."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from avow.retrieval.library import Library


def contents(index: Path) -> dict[str, tuple[Any, ...]]:
    """Every item by path and part: its number, what is known of it, the bytes of its vector."""
    with Library.open(index) as library:
        ids = library.find()
        vectors = library.vectors(ids)
        items = {
            f"{item.path}|{item.part}": (
                *(item.id, item.kind, item.content, item.width, item.tags),
                vector.tobytes(),
            )
            for item, vector in zip(library.items(ids), vectors, strict=True)
        }
        assert len(items) == len(ids), "an item is there twice"
        return items | {f"skipped {one.path}": (one.why,) for one in library.skipped()}


def png(number: int) -> bytes:
    """A picture of sixteen colours."""
    tones = np.random.default_rng(number).integers(0, 255, (4, 4, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(tones).resize((32, 32), Image.Resampling.NEAREST).save(out, "png")
    return out.getvalue()


def write_tar(path: Path, members: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))


def write_folder(folder: Path, count: int, first: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        (folder / f"{number:05}.png").write_bytes(png(number))
    return folder
