"""What all readers share: files read with errors that say where, images to splits."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from avow.core.captions import check_caption
from avow.core.datasets import PairedDataset, Split
from avow.core.documents import read_file
from avow.core.errors import BadData

Kind = TypeVar("Kind")

SPLITS = {"train": "train", "dev": "dev", "val": "dev", "test": "test"}
"""What a split may be called, and what it is called here."""

_IN_WORDS = {str: "a string", list: "a list", dict: "an object", int: "a number"}


@dataclass(frozen=True)
class Photograph:
    """One image of a dataset, wherever it was listed."""

    image_id: str
    split: str
    captions: tuple[str, ...]
    file: Path
    shared: bool = False
    """Whether it is in other splits too, and is meant to be."""


def paired(
    name: str,
    source: Path,
    photographs: Iterable[Photograph],
    splits: Iterable[str],
    item: str = "image",
) -> PairedDataset:
    """The dataset of these photographs in their order; a split without any is absent.

    `source` is the file or folder to name when something is wrong with one of them, and
    `item` what one of them is.
    """
    groups: dict[str, list[Photograph]] = {split: [] for split in splits}
    seen: set[tuple[str, str]] = set()
    for photograph in photographs:
        _check(photograph, source, seen, item)
        groups[photograph.split].append(photograph)
    if not seen:
        raise BadData(
            f"There are no {item}s in '{source}'. Expected at least one with its "
            "captions. Check that the file is complete."
        )
    return PairedDataset(
        name, {split: _split(group) for split, group in groups.items() if group}
    )


def _check(photograph: Photograph, source: Path, seen: set[tuple[str, str]], item: str) -> None:
    listed = (photograph.split if photograph.shared else "", photograph.image_id)
    if listed in seen:
        raise BadData(
            f"The {item} {photograph.image_id!r} is listed twice in '{source}'. "
            f"Expected every {item} once, in one split. Remove one of the two."
        )
    if not photograph.captions:
        raise BadData(
            f"The {item} {photograph.image_id!r} in '{source}' has no captions. "
            f"Expected at least one per {item}. Add its captions or remove the {item}."
        )
    for caption in photograph.captions:
        check_caption(caption, f"A caption of the {item} {photograph.image_id!r} in '{source}'")
    seen.add(listed)


def _split(group: list[Photograph]) -> Split:
    counts = [len(photograph.captions) for photograph in group]
    return Split(
        image_ids=tuple(photograph.image_id for photograph in group),
        captions=tuple(text for photograph in group for text in photograph.captions),
        image_of=np.repeat(np.arange(len(group), dtype=np.int64), counts),
        files=tuple(photograph.file for photograph in group),
    )


def split_called(name: str, splits: Mapping[str, str], image: str, source: Path) -> str:
    """Our name of the split that `image` says it is in."""
    if name not in splits:
        raise BadData(
            f"The image {image!r} in '{source}' is in a split called {name!r}. "
            f"Expected one of: {', '.join(splits)}. Rename the split."
        )
    return splits[name]


def read_text(path: Path) -> str:
    """A UTF-8 file as text, never as bytes."""
    try:
        return read_file(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise BadData(
            f"The file '{path}' is missing. Expected it as part of the dataset. "
            "Download or copy it there."
        ) from None
    except UnicodeDecodeError as error:
        raise BadData(
            f"The file '{path}' is not UTF-8 text (byte {error.start}). Expected "
            "UTF-8. Convert it to UTF-8 and try again."
        ) from None
    except ValueError as error:
        raise BadData(
            f"The file '{path}' cannot be read: {error}. Expected a file of text, as part of "
            "the dataset."
        ) from None


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, stripped; one that is empty stays, to keep count."""
    lines = read_text(path).split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.strip() for line in lines]


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    return _of_kind(dict, path, "one JSON object")


def read_list(path: Path) -> list[Any]:
    """The JSON list in a file."""
    return _of_kind(list, path, "a JSON list")


def _of_kind(kind: type[Kind], path: Path, wanted: str) -> Kind:
    content = _parsed(path, wanted)
    if not isinstance(content, kind):
        raise BadData(
            f"The file '{path}' holds {_kind_of(content)}. Expected {wanted}. "
            "Check that it is the right file."
        )
    return content


def _parsed(path: Path, wanted: str) -> Any:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise BadData(
            f"The file '{path}' is not JSON at line {error.lineno}, column "
            f"{error.colno} ({error.msg}). Expected {wanted}. Download or "
            "write it again."
        ) from None


def entry_of(
    holder: Any, key: str, kind: type[Kind], path: Path, place: str = "its top level"
) -> Kind:
    """`holder[key]`, which must be there and of this kind."""
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, kind):
        got = "is missing" if value is None else f"is {_kind_of(value)}"
        raise BadData(
            f"{key!r} {got} at {place} of '{path}'. Expected {_IN_WORDS[kind]}. "
            "Correct the file."
        )
    return value


def strings_of(
    holder: Any, key: str, path: Path, place: str = "its top level"
) -> tuple[str, ...]:
    """`holder[key]`, which must be a list of strings."""
    values = entry_of(holder, key, list, path, place)
    for value in values:
        if not isinstance(value, str):
            raise BadData(
                f"{key!r} holds {_kind_of(value)} at {place} of '{path}'. Expected "
                "strings only. Correct the file."
            )
    return tuple(values)


def _kind_of(value: Any) -> str:
    return _IN_WORDS.get(type(value), f"the value {value!r}")
