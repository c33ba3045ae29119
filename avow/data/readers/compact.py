"""Compact layout: one `captions.json` and a folder of photographs.

    captions.json   {"dataset": ..., "images": [{"filename", "split", "captions"}]}
    images/         the photographs

An image has any number of captions. Photographs are not looked for until they are
read: a split that nobody reads may be without them.
"""

from collections.abc import Iterator
from pathlib import Path

from avow.core.datasets import PairedDataset
from avow.data.gather import (
    SPLITS,
    Photograph,
    entry_of,
    paired,
    read_json,
    split_called,
    strings_of,
)

CAPTIONS = "captions.json"


def recognises(root: Path) -> bool:
    """A folder of photographs may be elsewhere; one with features of videos is none."""
    videos = any(root.glob("frames_*.npy")) or any(root.glob("experts/*.npy"))
    return (root / CAPTIONS).is_file() and not videos


def build(*, root: str, images: str = "images") -> PairedDataset:
    """images: folder of the photographs, inside `root` unless it is absolute."""
    path = Path(root) / CAPTIONS
    content = read_json(path)
    name = entry_of(content, "dataset", str, path)
    listed = entry_of(content, "images", list, path)
    photographs = _photographs(listed, path, Path(root) / images)
    return paired(name, path, photographs, splits=("train", "dev", "test"))


def _photographs(listed: list, path: Path, folder: Path) -> Iterator[Photograph]:
    for position, entry in enumerate(listed):
        place = f"images[{position}]"
        filename = entry_of(entry, "filename", str, path, place)
        named = entry_of(entry, "split", str, path, place)
        yield Photograph(
            image_id=filename,
            split=split_called(named, SPLITS, filename, path),
            captions=strings_of(entry, "captions", path, place),
            file=folder / filename,
        )
