"""Your own pairs: a CSV or JSONL file with one image path and one caption per row.

    image,caption                  {"image": "cat.jpg", "caption": "A cat sleeps."}
    cat.jpg,A cat sleeps.

Rows of the same image are its captions. Image paths are relative to the file. Where no
column says the split, each image falls into one by a hash of its path: the same split
on every machine, and the images already there keep theirs when others are added.

An image in two splits is refused: what is learnt from must not be tested on. Where that is
meant, as in the built-in sample, the rows of the image say so: `"shared": true`.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from avow.core.captions import check_caption
from avow.core.datasets import PairedDataset
from avow.core.errors import BadData, BadRecipe
from avow.data.gather import SPLITS, Photograph, paired, read_text, split_called

SUFFIXES = (".csv", ".jsonl")

_TOO_MANY = "\0"  # the name of fields beyond the last column


@dataclass(frozen=True)
class Row:
    """One line of the file: its number, and what stands in each column."""

    line: int
    values: dict[str, object]

    def text(self, column: str, setting: str, path: Path) -> str:
        """What stands in `column`, the name chosen by `setting`."""
        value = self.values.get(column)
        if isinstance(value, str) and value.strip():
            check_caption(value, f"The column {column!r} at line {self.line} of '{path}'")
            return value.strip()
        if column not in self.values:
            raise BadData(
                f"There is no column {column!r} at line {self.line} of '{path}'. It "
                f"has: {', '.join(self.values) or 'none'}. Rename it, or set {setting}."
            )
        raise BadData(
            f"The column {column!r} is {value!r} at line {self.line} of '{path}'. "
            "Expected some text. Fill it in or remove the row."
        )


def recognises(root: Path) -> bool:
    return root.is_file() and root.suffix.lower() in SUFFIXES


def build(
    *,
    root: str,
    image_column: str = "image",
    caption_column: str = "caption",
    split_column: str = "split",
    train: float = 0.8,
    dev: float = 0.1,
    test: float = 0.1,
) -> PairedDataset:
    """train, dev, test: shares of the images where there is no `split_column`."""
    path = Path(root)
    shares = {"train": train, "dev": dev, "test": test}
    _check(shares)
    captions: dict[tuple[str, str], list[str]] = {}
    splits: dict[str, str] = {}
    shared: set[str] = set()
    own_splits = False
    for row in _rows(path):
        image = row.text(image_column, "image_column", path)
        caption = row.text(caption_column, "caption_column", path)
        if split_column in row.values:
            named = row.text(split_column, "split_column", path)
            split = split_called(named, SPLITS, image, path)
            own_splits = True
        else:
            split = share_of(image, shares)
        if row.values.get("shared") in (True, "true"):  # "true" in CSV
            shared.add(image)
        else:
            _check_same_split(splits.setdefault(image, split), split, image, path)
        captions.setdefault((split, image), []).append(caption)
    photographs = (
        Photograph(image, split, tuple(texts), path.parent / image, image in shared)
        for (split, image), texts in captions.items()
    )
    found = paired(path.stem, path, photographs, splits=shares)
    return replace(found, own_splits=own_splits)


def _check(shares: dict[str, float]) -> None:
    if min(shares.values()) < 0 or abs(sum(shares.values()) - 1) > 1e-6:
        listed = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        raise BadRecipe(
            f"The shares of the splits are '{listed}'. Expected none below 0 and a sum "
            "of 1. Change train, dev or test."
        )


def _check_same_split(first: str, split: str, image: str, path: Path) -> None:
    if first != split:
        raise BadData(
            f"The image {image!r} in '{path}' is in the splits {first!r} and {split!r}. "
            "Expected every image in one split. Give all its rows the same split."
        )


def share_of(image: str, shares: dict[str, float]) -> str:
    """The split that an image falls into by its name."""
    digest = hashlib.sha256(image.encode("utf-8", "surrogatepass")).digest()
    left = int.from_bytes(digest[:8], "big") / 2**64
    for name, share in shares.items():
        left -= share
        if left < 0:
            return name
    return max(shares, key=lambda name: shares[name])  # only rounding can end here


def _rows(path: Path) -> Iterator[Row]:
    text = read_text(path)
    return _json_rows(text, path) if path.suffix.lower() == ".jsonl" else _csv_rows(text, path)


def _csv_rows(text: str, path: Path) -> Iterator[Row]:
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey=_TOO_MANY, strict=True)
    try:
        for values in reader:
            if _TOO_MANY in values:
                raise csv.Error("more fields than columns")
            yield Row(reader.line_num, {**values})
    except csv.Error as error:
        raise BadData(
            f"The file '{path}' is not CSV at line {reader.reader.line_num} ({error}). "
            "Expected a field per column, and quotes around a text with commas in it: "
            '"so, and so". Correct that line.'
        ) from None


def _json_rows(text: str, path: Path) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadData(
                f"The file '{path}' is not JSON at line {number}, column {error.colno} "
                f"({error.msg}). Expected one JSON object per line. Correct that line."
            ) from None
        if not isinstance(values, dict):
            raise BadData(
                f"The file '{path}' holds {line.strip()!r} at line {number}. Expected "
                "one JSON object per line. Correct that line."
            )
        yield Row(number, values)
