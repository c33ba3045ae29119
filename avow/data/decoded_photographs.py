"""Photographs of several datasets, decoded once and of one size, to train from their pixels.

FOLDER/photographs.npy    [photographs, size, size, 3], uint8
       photographs.json   {"format": 2, "bad": [rows that could not be decoded],
                           "photographs": [{"set", "split", "id", "file", "texts", "labels",
                                            "times"}]}

A photograph has the texts of its dataset and may have `labels`: texts that are drawn less
often. It is shown `times` times in an epoch. `scripts/default_model prepare` writes such a
folder.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from avow.core.errors import BadData
from avow.core.files import write_text
from avow.data.gather import entry_of, read_json, strings_of
from avow.data.opening import dataset_file
from avow.data.shards import read_header

LIST, PIXELS = "photographs.json", "photographs.npy"
FORMAT = 2


@dataclass(frozen=True)
class DecodedPhotograph:
    """One photograph, and what is said of it."""

    row: int
    """Where its pixels are."""
    dataset: str
    split: str
    image_id: str
    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    times: int = 1


@dataclass(frozen=True)
class DecodedPhotographs:
    """All photographs of a folder that could be decoded."""

    folder: Path
    listed: tuple[DecodedPhotograph, ...]
    pixels: UInt8[np.ndarray, "photographs size size 3"]
    """Memory-mapped."""

    def of(self, split: str) -> dict[str, list[DecodedPhotograph]]:
        """Those of one split, by the names of their datasets."""
        groups: dict[str, list[DecodedPhotograph]] = {}
        for one in self.listed:
            if one.split == split:
                groups.setdefault(one.dataset, []).append(one)
        return groups


def write_list(folder: Path, entries: Sequence[dict[str, Any]], bad: Sequence[int]) -> None:
    """Say what the rows of the pixels are; the keys of an entry are those shown above."""
    content = {"format": FORMAT, "photographs": list(entries), "bad": list(bad)}
    write_text(folder / LIST, json.dumps(content))


def open_photographs(name: str) -> DecodedPhotographs:
    """The folder at the path `name`, or called that in the data home."""
    try:
        path = dataset_file(name, LIST)
    except BadData as error:
        raise BadData(
            f"There are no decoded photographs at {name!r}. Expected the folder that "
            "`scripts/default_model prepare` made, or its name in the data home; name it with "
            "train.photographs."
        ) from error
    folder = path.parent
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise BadData(
            f"The list '{path}' has another format than {FORMAT}. Expected a folder that this "
            "version made; make it again with `scripts/default_model prepare`."
        )
    listed = entry_of(content, "photographs", list, path)
    bad = set(entry_of(content, "bad", list, path))
    shape = read_header(folder / PIXELS).shape
    if len(shape) != 4 or shape[0] != len(listed) or shape[1] != shape[2] or shape[3] != 3:
        raise BadData(
            f"The pixels in '{folder / PIXELS}' have the shape {shape}. Expected "
            f"({len(listed)}, size, size, 3), as the list beside them says; make the folder "
            "again."
        )
    chosen = [
        _photograph(entry, row, path) for row, entry in enumerate(listed) if row not in bad
    ]
    return DecodedPhotographs(folder, tuple(chosen), np.load(folder / PIXELS, mmap_mode="r"))


def _photograph(entry: Any, row: int, path: Path) -> DecodedPhotograph:
    place = f"photographs[{row}]"
    texts = strings_of(entry, "texts", path, place)
    if not texts:
        raise BadData(f"{place} in '{path}' has no texts. Expected at least one; add it.")
    return DecodedPhotograph(
        row,
        entry_of(entry, "set", str, path, place),
        entry_of(entry, "split", str, path, place),
        entry_of(entry, "id", str, path, place),
        texts,
        strings_of(entry, "labels", path, place),
        entry_of(entry, "times", int, path, place),
    )
