"""Small folders of pictures, texts and videos, and everything that an index keeps of them."""

import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np  # noqa: E402
from encoders import COLOURS, ColourEncoder, picture  # noqa: E402
from moving import write_video  # noqa: E402

from avow.core.errors import AvowError  # noqa: E402
from avow.retrieval.indexing import index_folders  # noqa: E402
from avow.retrieval.library import Library  # noqa: E402
from avow.retrieval.store.inspection import inspect_index  # noqa: E402

__all__ = ["COLOURS", "picture", "write_video"]  # others use them too
BANK = ("red", "green", "blue", "black and white")
VIEWS: dict[str, dict[str, Any]] = {
    "first": {
        "a.png": "red",
        "b.png": "green",
        "c.png": "blue",
        "d.png": "yellow",
        "notes.csv": "text,tags\na red boat,boat;sea\nblue sky,sky\n",
        "clip.mp4": [("red", 2), ("green", 2)],
    },
    # a is changed, b deleted, c moved, d stays, e is new, as are a text and a video
    "second": {
        "a.png": "white",
        "moved/c.png": "blue",
        "d.png": "yellow",
        "e.png": "black",
        "notes.csv": "text,tags\na red boat,boat;sea\ngreen grass,grass\n",
        "clip.mp4": [("red", 2), ("green", 2)],
        "more.mp4": [("blue", 2)],
    },
    # most is deleted
    "third": {"d.png": "yellow", "e.png": "black", "f.png": "green"},
}
"""The folder as it is at one time after another."""


def encoder(name: str = "colours") -> ColourEncoder:
    return ColourEncoder(name, bank=BANK)


def make_views(place: Path) -> None:
    """Write every view once, so that it can be copied."""
    made: dict[str, Path] = {}
    for view, files in VIEWS.items():
        for name, content in files.items():
            path = place / "views" / view / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if str(content) in made:
                shutil.copy2(made[str(content)], path)
            elif name.endswith(".mp4"):
                write_video(path, content)
            elif name.endswith(".png"):
                picture(content).save(path)
            else:
                path.write_text(content)
            made[str(content)] = path


def show(place: Path, view: str, photos: Path) -> None:
    """Make the folder `photos` look as in a view."""
    shutil.rmtree(photos, ignore_errors=True)
    shutil.copytree(place / "views" / view, photos)


def index(photos: Path, home: Path, name: str = "colours", rebuild: bool = False) -> None:
    index_folders(
        [photos],
        index=home,
        encoder=encoder(name),
        rebuild=rebuild,
        prune=True,
        batch=2,
        workers=1,
    )


def contents(home: Path) -> dict[str, Any]:
    """Items with their vectors, and opinions; numbers of items are left out."""
    with Library.open(home) as library:
        ids = np.concatenate([library.find(), library.find(None, "text")])
        items = library.items(ids)
        paths = {item.id: item.path for item in items}
        rows = zip(items, library.vectors(ids), strict=True)
        feedback = [
            (str(one.query), Path(paths.get(one.item_id) or "").name, one.good)
            for one in library.feedback()
        ]
        return {
            "items": sorted(
                (Path(item.path or "").name, str(item.part), item.text or "", vector.tobytes())
                for item, vector in rows
            ),
            "feedback": sorted(set(feedback)),  # work that is done again says it again
            "folders": library.folders(),
        }


def trouble(home: Path) -> str:
    """Why an index cannot be opened or is damaged; nothing where all is well."""
    try:
        contents(home)
        damage = inspect_index(home)
    except AvowError as error:
        return str(error)
    return "; ".join(one.what for one in damage)
