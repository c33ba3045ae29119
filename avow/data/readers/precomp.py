"""Precomputed region features, as SCAN and NCR publish them (`f30k_precomp` ...).

    train_ims.npy     features [rows, regions, dim]; also dev, test, testall
    train_caps.txt    one caption per line, those of an image together
    train_caps.tsv    or image id <TAB> caption (cc152k)
    train_ids.txt     image ids, one per line (optional)
    train_boxes.npy   where each region lies [rows, regions, 4], x1 y1 x2 y2 in 0..1 of the
                      image (optional; what GSMN publishes is in pixels, beside a pickle)

Some dumps store every image's features once, some once per caption. With as many rows
as captions the first and last five rows decide: where they repeat, five captions share
an image, else each has its own. Features are never read here beyond those rows.

Papers: Lee et al., "Stacked Cross Attention", ECCV 2018; Huang et al., "Learning with
Noisy Correspondence", NeurIPS 2021.
"""

import ast
import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from avow.core.captions import check_caption
from avow.core.datasets import PairedDataset, Split
from avow.core.errors import BadData
from avow.data.gather import read_lines, read_text

SPLITS = ("train", "dev", "test", "testall")
REPEATS = 5
DEV_CAPTIONS = 5000
DEV_CAPTIONS_ALONE = 1000  # in cc152k: a table, and one caption per image

_BYTES = re.compile(r"""b(['"]).*\1""", re.DOTALL)


@dataclass(frozen=True)
class Listed:
    """The captions of one split, and the ids that stand beside them, if any."""

    path: Path
    captions: list[str]
    ids: list[str] | None = None


def recognises(root: Path) -> bool:
    return any((root / f"{split}_ims.npy").is_file() for split in SPLITS)


def build(*, root: str, truncate_dev: bool = True) -> PairedDataset:
    """truncate_dev: keep the first 5000 dev captions (1000 of cc152k), as published."""
    place = Path(root)
    present = [name for name in SPLITS if (place / f"{name}_ims.npy").is_file()]
    if not present:
        raise BadData(
            f"There are no features in '{place}'. Expected files such as "
            "train_ims.npy. Download them there, or name another folder."
        )
    splits = {name: _split(place, name) for name in present}
    if truncate_dev and "dev" in splits:
        from_table = not (place / "dev_caps.txt").is_file()
        splits["dev"] = _truncated(splits["dev"], from_table)
    return PairedDataset(place.resolve().name, splits)


def _split(root: Path, name: str) -> Split:
    features = root / f"{name}_ims.npy"
    rows = _opened(features)
    listed = _listed(root, name)
    total = len(listed.captions)
    repeats = _repeats(rows, alone=total != len(rows) or listed.ids is not None)
    images = len(rows) // repeats
    if not total or not images or total % images:
        raise BadData(
            f"There is a caption count that does not fit: {total} captions in "
            f"'{listed.path}' for {images} images in '{features}'. Expected the same "
            "number of captions for every image. Download both files again."
        )
    per_image = total // images
    boxes = root / f"{name}_boxes.npy"
    return Split(
        image_ids=_image_ids(root, name, listed, images, per_image),
        captions=tuple(listed.captions),
        image_of=np.arange(total, dtype=np.int64) // per_image,
        features=features,
        feature_rows=np.arange(images, dtype=np.int64) * repeats,
        boxes=boxes if boxes.is_file() else None,
    )


def _opened(path: Path) -> np.ndarray:
    """The features where they lie on disk."""
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise BadData(
            f"The file '{path}' cannot be read ({error}). Expected a complete .npy "
            "file of numbers. Download it again."
        ) from None
    if rows.ndim != 3:
        raise BadData(
            f"The features in '{path}' have the shape {rows.shape}. Expected images, "
            "regions and dimensions. Check that it is the right file."
        )
    return rows


def _repeats(rows: np.ndarray, alone: bool) -> int:
    """How many rows in turn are the same image."""
    if alone or not len(rows) or len(rows) % REPEATS:
        return 1
    ends = (rows[:REPEATS], rows[-REPEATS:])
    return REPEATS if all((end == end[:1]).all() for end in ends) else 1


def _listed(root: Path, name: str) -> Listed:
    lines, table = root / f"{name}_caps.txt", root / f"{name}_caps.tsv"
    if lines.is_file():
        return _checked(Listed(lines, [_as_text(line) for line in read_lines(lines)]))
    if table.is_file():
        return _listed_in_table(table)
    raise BadData(
        f"There are features but no captions of the split {name!r} in '{root}'. "
        f"Expected {lines.name} or {table.name}. Download it there."
    )


def _listed_in_table(path: Path) -> Listed:
    ids, captions = [], []
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter="\t")
    for row in reader:
        if len(row) < 2:
            raise BadData(
                f"Line {reader.line_num} of '{path}' is {row!r}. Expected an image id, "
                "a tab and a caption. Correct the line."
            )
        ids.append(row[0].strip())
        captions.append(_as_text(row[1].strip()))
    return _checked(Listed(path, captions, ids))


def _checked(listed: Listed) -> Listed:
    for number, caption in enumerate(listed.captions, 1):
        check_caption(caption, f"Caption {number} of '{listed.path}'")
    return listed


def _as_text(line: str) -> str:
    """The caption itself, where a broken export wrote Python's `b'...'` around it."""
    if not _BYTES.fullmatch(line):
        return line
    try:
        return ast.literal_eval(line).decode("utf-8").strip()
    except (SyntaxError, ValueError):
        return line


def _image_ids(
    root: Path, name: str, listed: Listed, images: int, per_image: int
) -> tuple[str, ...]:
    path = root / f"{name}_ids.txt"
    if not path.is_file():
        if listed.ids is not None:
            return tuple(listed.ids[::per_image])
        return tuple(f"{name}/{place}" for place in range(images))
    ids = read_lines(path)
    if len(ids) not in (images, images * per_image, images * REPEATS):
        raise BadData(
            f"There are {len(ids)} image ids in '{path}' for {images} images. Expected "
            "one per image or one per caption. Download the file again, or remove it."
        )
    return tuple(ids[:: len(ids) // images])


def _truncated(split: Split, from_table: bool) -> Split:
    """The first captions of the split, and the images they belong to."""
    alone = len(split.captions) == len(split.image_ids)
    count = DEV_CAPTIONS_ALONE if alone and from_table else DEV_CAPTIONS
    image_of = split.image_of[:count]
    images = int(image_of[-1]) + 1
    rows = None if split.feature_rows is None else split.feature_rows[:images]
    return Split(
        image_ids=split.image_ids[:images],
        captions=split.captions[:count],
        image_of=image_of,
        features=split.features,
        feature_rows=rows,
        boxes=split.boxes,
    )
