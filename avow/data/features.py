"""Stored features: memory-mapped shards, read by row without ever loading a split.

FOLDER/plan.json          what is being made; written first
       SPLIT-00000.json   which images of the split's first range are stored
       SPLIT-00000.npy    their features [images, parts, dim], float16
       SPLIT-ids.json     the image of every row of the split
       boxes.npy          where each part lies [parts, 4], x1 y1 x2 y2 in 0..1
       manifest.json      written last: the folder is complete
"""

import io
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32, Int, Shaped

from avow.core.datasets import PairedDataset, Split
from avow.core.errors import BadFeatures, UnknownName
from avow.core.fingerprint import of_text
from avow.data.shards import AGAIN, Verified, read_header, read_json, read_listed

FORMAT = 1
PLAN = "plan.json"
MANIFEST = "manifest.json"
BOXES = "boxes.npy"

_ROWS_AT_ONCE = 256


@runtime_checkable
class Rows(Protocol):
    """The features of one split, row by row."""

    @property
    def ids(self) -> tuple[str, ...]: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def __len__(self) -> int: ...

    def rows(
        self, index: Int[np.ndarray, " items"]
    ) -> Shaped[np.ndarray, "items parts dim"]: ...

    def rows_of(self, image_ids: Sequence[str]) -> Int[np.ndarray, " images"]: ...


class FeatureRows:
    """The features of one split, row by row, from its shards."""

    def __init__(
        self,
        ids: Sequence[str],
        files: Sequence[Path],
        crc32: Mapping[str, Sequence[str]] | None = None,
    ):
        """crc32: the checksums of shards by the names of their files, where there are any."""
        self.ids = tuple(ids)
        self.files = tuple(files)
        self._crc32 = dict(crc32 or {})
        headers = [read_header(file) for file in files]
        for file, header in zip(files, headers, strict=True):
            if len(header.shape) != 3 or header.shape[1:] != headers[0].shape[1:]:
                raise BadFeatures(
                    f"The shard {str(file)!r} holds features of shape "
                    f"{header.shape}, and the first shard {headers[0].shape}. Expected "
                    f"shards of one width. {AGAIN}"
                )
        counts = [header.shape[0] for header in headers]
        self.ends = np.cumsum(counts, dtype=np.int64)
        self.shape = (sum(counts), *headers[0].shape[1:])
        self.dtype = headers[0].dtype
        if len(self.ids) != self.shape[0]:
            raise BadFeatures(
                f"The shards in {str(self.files[0].parent)!r} hold {self.shape[0]} "
                f"images where {len(self.ids)} are listed. Expected one row per image. "
                "Delete that folder and run `avow features` again."
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the names of the files, not their content."""
        return {key: value for key, value in vars(self).items() if key != "_maps"}

    def rows(self, index: Int[np.ndarray, " items"]) -> Shaped[np.ndarray, "items parts dim"]:
        """Any rows in any order, copied from the shards they lie in."""
        _check_index(index, len(self))
        shards = np.searchsorted(self.ends, index, side="right")
        gathered = np.empty((len(index), *self.shape[1:]), self.dtype)
        for shard in np.unique(shards).tolist():
            here = np.flatnonzero(shards == shard)
            start = self.ends[shard - 1] if shard else 0
            gathered[here] = self._maps[shard].rows(index[here] - start)
        return gathered

    def rows_of(self, image_ids: Sequence[str]) -> Int[np.ndarray, " images"]:
        """The row of each image, -1 for one that could not be read."""
        return np.array([self._places.get(name, -1) for name in image_ids], np.int64)

    @cached_property
    def _maps(self) -> list[Verified]:
        return [Verified(file, self._crc32.get(file.name)) for file in self.files]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.ids)}


class NpyRows:
    """The features a dataset comes with, row by row, from its one `.npy` file."""

    def __init__(self, split: Split):
        if split.features is None:
            raise BadFeatures(
                "The split comes without features. Expected a dataset that brings a "
                "'.npy' file; make features with `avow features` instead."
            )
        self.ids = split.image_ids
        self.file = split.features
        header = read_header(self.file)
        if len(header.shape) != 3:
            raise BadFeatures(
                f"The features {str(self.file)!r} have {len(header.shape)} dimensions, "
                f"{header.shape}. Expected 3: images, regions, numbers per region. "
                "Save them again as such an array."
            )
        rows = split.feature_rows
        self.stored = np.arange(len(self.ids)) if rows is None else rows
        if len(self.stored) and not 0 <= self.stored.max() < header.shape[0]:
            raise BadFeatures(
                f"The features {str(self.file)!r} have {header.shape[0]} rows, and the "
                f"dataset asks for row {self.stored.max()}. Expected features of the "
                "same dataset and split. Check that the files belong together."
            )
        self.shape = (len(self.ids), *header.shape[1:])
        self.dtype = header.dtype
        self.box_file = split.boxes
        wanted = (*header.shape[:2], 4)
        if self.box_file is not None and read_header(self.box_file).shape != wanted:
            raise BadFeatures(
                f"The boxes {str(self.box_file)!r} have the shape "
                f"{read_header(self.box_file).shape}. Expected {wanted}: four numbers for "
                "every region of the features. Save them again as such an array."
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the name of the file, not its content."""
        return {
            key: value for key, value in vars(self).items() if key not in ("_map", "_boxes")
        }

    def rows(self, index: Int[np.ndarray, " items"]) -> Shaped[np.ndarray, "items parts dim"]:
        """Any rows in any order, copied from the file."""
        _check_index(index, len(self))
        return self._map[self.stored[index]]

    def boxes(
        self, index: Int[np.ndarray, " items"]
    ) -> Float32[np.ndarray, "items parts 4"] | None:
        """Where the regions of these rows lie, where the dataset says so."""
        if self.box_file is None:
            return None
        _check_index(index, len(self))
        boxes = self._boxes[self.stored[index]].astype(np.float32)
        if boxes.size and not 0 <= boxes.min() <= boxes.max() <= 1:
            raise BadFeatures(
                f"The boxes {str(self.box_file)!r} hold numbers from {boxes.min():g} to "
                f"{boxes.max():g}. Expected 0 to 1, the width and the height of the image. "
                "Divide pixels by them."
            )
        return boxes

    def rows_of(self, image_ids: Sequence[str]) -> Int[np.ndarray, " images"]:
        """The row of each image, -1 for one the dataset does not know."""
        return np.array([self._places.get(name, -1) for name in image_ids], np.int64)

    @cached_property
    def _map(self) -> np.ndarray:
        return np.asarray(np.load(self.file, mmap_mode="r"))

    @cached_property
    def _boxes(self) -> np.ndarray:
        assert self.box_file is not None
        return np.asarray(np.load(self.box_file, mmap_mode="r"))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.ids)}


class ArrayRows:
    """Features in memory, row by row."""

    def __init__(self, ids: Sequence[str], features: Shaped[np.ndarray, "images parts dim"]):
        self.ids = tuple(ids)
        self.features = features
        self.shape, self.dtype = features.shape, features.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, index: Int[np.ndarray, " items"]) -> Shaped[np.ndarray, "items parts dim"]:
        """Any rows in any order, copied."""
        _check_index(index, len(self))
        return self.features[index]

    def rows_of(self, image_ids: Sequence[str]) -> Int[np.ndarray, " images"]:
        """The row of each image, -1 for one that is not there."""
        places = {name: row for row, name in enumerate(self.ids)}
        return np.array([places.get(name, -1) for name in image_ids], np.int64)


class FeatureStore:
    """A complete folder of features, and what it was made from."""

    def __init__(
        self,
        folder: Path,
        manifest: dict[str, Any],
        boxes: Float[np.ndarray, "parts 4"],
        splits: Mapping[str, Rows],
    ):
        self.folder = folder
        self.manifest = manifest
        self.boxes = boxes
        self._splits = splits

    @classmethod
    def open(cls, folder: Path | str) -> "FeatureStore":
        """Read the manifest and check every shard's header and length."""
        folder = Path(folder)
        manifest = _manifest(folder)
        written = manifest.pop("checksums", {})  # no part of what the features are
        crc32 = written.get("files", {})
        read_header(folder / BOXES)
        boxes = io.BytesIO(read_listed(folder / BOXES, crc32.get(BOXES)))
        splits = {
            name: FeatureRows(
                _ids(folder / f"{name}-ids.json", crc32.get(f"{name}-ids.json")),
                [folder / file for file in about["shards"]],
                written.get("shards"),
            )
            for name, about in manifest["splits"].items()
        }
        wide = (manifest["parts"], manifest["dim"])
        for name, rows in splits.items():
            if rows.shape[1:] != wide:
                raise BadFeatures(
                    f"The features of split {name!r} in {str(folder)!r} are "
                    f"{rows.shape[1]} parts of {rows.shape[2]} numbers. Expected "
                    f"{wide[0]} of {wide[1]}, as its manifest says. Delete that folder "
                    "and run `avow features` again."
                )
        return cls(folder, manifest, np.load(boxes, allow_pickle=False), splits)

    @property
    def fingerprint(self) -> str:
        """Changes with the dataset, the backbone, the grid or what could be read."""
        return of_text([json.dumps(self.manifest, sort_keys=True)])

    @property
    def names(self) -> list[str]:
        return list(self._splits)

    @property
    def skipped(self) -> list[dict[str, str]]:
        """The images that could not be read: their `id`, `split` and `reason`."""
        return self.manifest["skipped"]

    def split(self, name: str) -> Rows:
        if name not in self._splits:
            raise UnknownName(f"the features of {str(self.folder)!r}", name, self.names)
        return self._splits[name]

    def check(
        self,
        dataset: PairedDataset | None = None,
        identity: Mapping[str, Any] | None = None,
        grid: int | None = None,
    ) -> None:
        """Refuse features of another backbone, another dataset or another grid."""
        wanted = None if identity is None else json.loads(json.dumps(dict(identity)))
        if wanted is not None and wanted != self.manifest["backbone"]:
            theirs, ours = _difference(self.manifest["backbone"], wanted)
            raise BadFeatures(
                f"The features in {str(self.folder)!r} were made by another backbone "
                f"than the recipe's: {theirs}. Expected {ours}. Make them again with "
                "`avow features` (with --run where the model brings its own backbone), or "
                "change the recipe."
            )
        if dataset is not None and dataset.fingerprint != self.manifest["fingerprint"]:
            raise BadFeatures(
                f"The features in {str(self.folder)!r} were made from another dataset: "
                f"{self.manifest['dataset']!r} ({self.manifest['fingerprint']}). "
                f"Expected {dataset.name!r} ({dataset.fingerprint}). Make them again "
                "with `avow features`."
            )
        if grid is not None and grid != self.manifest["grid"]:
            raise BadFeatures(
                f"The features in {str(self.folder)!r} have a grid of "
                f"{self.manifest['grid']}. Expected {grid}. Make them again with "
                f"`avow features --grid {grid}`."
            )

    def check_finite(self, sample: int | None = None) -> None:
        """Refuse values that are no numbers, in every row or in `sample` of a split."""
        for name, rows in self._splits.items():
            wanted = np.arange(len(rows))
            if sample is not None and sample < len(rows):
                wanted = np.linspace(0, len(rows) - 1, sample).astype(np.int64)
            for start in range(0, len(wanted), _ROWS_AT_ONCE):
                block = wanted[start : start + _ROWS_AT_ONCE]
                good = np.isfinite(rows.rows(block)).all(axis=(1, 2))
                if not good.all():
                    image = rows.ids[block[np.flatnonzero(~good)[0]]]
                    raise BadFeatures(
                        f"The features of image {image!r} (split {name!r}) in "
                        f"{str(self.folder)!r} hold values that are not finite. "
                        "Expected numbers. Delete that folder and run `avow features` "
                        "again."
                    )


def _check_index(index: Int[np.ndarray, " items"], count: int) -> None:
    if len(index) and not (0 <= index.min() and index.max() < count):
        wrong = index.min() if index.min() < 0 else index.max()
        raise BadFeatures(
            f"There is no row {wrong} in these features. Expected 0 to {count - 1}. "
            "Leave out the images that have no features."
        )


def _manifest(folder: Path) -> dict[str, Any]:
    if not (folder / MANIFEST).is_file():
        if (folder / PLAN).is_file():
            raise BadFeatures(
                f"The features in {str(folder)!r} are unfinished. Expected a complete "
                "folder. Run the same `avow features` again to continue."
            )
        raise BadFeatures(
            f"The folder {str(folder)!r} holds no features: it has no {MANIFEST!r}. "
            "Expected a folder made by `avow features`. Check the path, or make one."
        )
    manifest = read_json(folder / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise BadFeatures(
            f"The features in {str(folder)!r} have format {manifest.get('format')!r}. "
            f"Expected {FORMAT}. Make them again with `avow features`."
        )
    return manifest


def _ids(file: Path, crc32: str | None) -> list[str]:
    try:
        ids = json.loads(read_listed(file, crc32))
    except (ValueError, RecursionError):
        ids = None
    if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
        raise BadFeatures(f"The file {str(file)!r} is missing or damaged. {AGAIN}")
    return ids


def _difference(theirs: dict[str, Any], ours: dict[str, Any]) -> tuple[str, str]:
    """Both backbones by name, and in brackets what else differs between them."""
    keys = sorted({*theirs, *ours} - {"backbone"})
    other = [key for key in keys if theirs.get(key) != ours.get(key)]

    def named(one: dict[str, Any]) -> str:
        return f"{one.get('backbone')!r}{_bracketed(one, other)}"

    return named(theirs), named(ours)


def _bracketed(one: dict[str, Any], keys: Sequence[str]) -> str:
    details = ", ".join(f"{key} {one[key]}" for key in keys if key in one)
    return f" ({details})" if details else ""
