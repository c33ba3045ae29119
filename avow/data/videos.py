"""Features of videos by their ids: any number of frames each, from several experts.

    FOLDER/feature.bin, shape.txt, id.txt   BigFile: float32 rows, whose names are VIDEO_FRAME
    FOLDER/VIDEO.npy                        one file per video, [frames, dim] or [dim]; VIDEO
                                            may carry the ending of a video file
    FILE.npy and FILE.txt                   [videos, dim] or [videos, parts, dim], and their
                                            ids, one per line

A batch has as many parts as the longest video; parts that are all zeros are padding. A video
that an expert does not know, or whose numbers are all NaN there, has zeros in its place.

BigFile is the format of Dual Encoding (danieljf24/dual_encoding).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from avow.core.datasets import VideoFeatures
from avow.core.errors import BadFeatures
from avow.data.gather import read_lines, read_text
from avow.data.shards import read_header

ENDINGS = frozenset(
    f".{ending}"
    for ending in " 3g2 3gp avi flv m2ts m4v mkv mov mp4 mpg mts webm wmv".split(" ")
)
"""Of files of videos; one of the published lists has names that end with the dot."""


class Source(ABC):
    """The features of one expert."""

    width: int

    @abstractmethod
    def count(self, video: str) -> int:
        """How many frames a video has; 0 if the source does not have it."""

    @abstractmethod
    def frames(self, video: str) -> Float[np.ndarray, "frames width"]:
        """The frames of a video that the source has."""


class VideoRows:
    """The videos of a split that at least one expert knows, padded to the longest of them."""

    def __init__(self, ids: Sequence[str], where: VideoFeatures):
        self.where = where
        sources = {name: open_source(path) for name, path in where.experts.items()}
        self.sources = sources
        counts = {video: max(one.count(video) for one in sources.values()) for video in ids}
        self.ids = tuple(video for video in ids if counts[video])
        longest = max(counts.values(), default=0)
        parts = min(longest, where.frames) if where.frames else longest
        self.widths = {name: source.width for name, source in sources.items()}
        self.shape = (len(self.ids), parts, sum(self.widths.values()))
        self.dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, index: Int[np.ndarray, " items"]) -> Float[np.ndarray, "items parts dim"]:
        """Any videos in any order, all experts side by side."""
        out = np.zeros((len(index), *self.shape[1:]), np.float32)
        for place, row in enumerate(index.tolist()):
            start = 0
            for source in self.sources.values():
                if source.count(self.ids[row]):
                    frames = self._chosen(source.frames(self.ids[row]))
                    out[place, : len(frames), start : start + source.width] = frames
                start += source.width
        return out

    def rows_of(self, image_ids: Sequence[str]) -> Int[np.ndarray, " images"]:
        """The row of each video, -1 for one that no expert knows."""
        return np.array([self._places.get(name, -1) for name in image_ids], np.int64)

    def _chosen(
        self, frames: Float[np.ndarray, "frames width"]
    ) -> Float[np.ndarray, "chosen width"]:
        """As many frames as there is room for; a part of NaN alone becomes padding."""
        room = self.shape[1]
        if len(frames) > room:
            frames = frames[np.linspace(0, len(frames) - 1, room).round().astype(np.int64)]
        missing = np.isnan(frames).all(1, keepdims=True)
        return np.where(missing, np.float32(0), frames.astype(np.float32))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.ids)}


def open_source(path: Path) -> Source:
    """The features at a path, whatever of the three formats they have."""
    if (path / "feature.bin").is_file():
        return BigFile(path)
    if path.is_dir():
        return NpyFolder(path)
    if path.suffix == ".npy" and path.is_file():
        return NpyTable(path)
    raise BadFeatures(
        f"There are no features of videos at '{path}'. Expected a folder with feature.bin, a "
        "folder with one .npy per video, or an .npy with its ids in a .txt beside it. Check "
        "data.features."
    )


class BigFile(Source):
    """Rows of float32 in one file; the end of a row's name is the number of the frame."""

    def __init__(self, folder: Path):
        self.file = folder / "feature.bin"
        shape = read_text(folder / "shape.txt").split()
        names = read_text(folder / "id.txt").split()
        if len(shape) != 2 or not all(size.isdecimal() for size in shape):
            raise BadFeatures(
                f"The file '{folder / 'shape.txt'}' holds {' '.join(shape)!r}. Expected two "
                "numbers: how many rows feature.bin has, and how wide they are."
            )
        rows, self.width = int(shape[0]), int(shape[1])
        size = self.file.stat().st_size
        if len(names) != rows or size != 4 * rows * self.width:
            raise BadFeatures(
                f"The folder '{folder}' has {len(names)} names and {size} bytes of features. "
                f"Expected {rows} names and {4 * rows * self.width} bytes, as shape.txt says. "
                "Copy the folder again."
            )
        self.of_name = {name: row for row, name in enumerate(names)}
        self.of_video: dict[str, list[tuple[int, int]]] = {}
        for name, row in self.of_name.items():
            video, _, frame = name.rpartition("_")
            if frame.isdecimal():
                self.of_video.setdefault(video, []).append((int(frame), row))

    def count(self, video: str) -> int:
        return len(self._rows(video))

    def frames(self, video: str) -> Float[np.ndarray, "frames width"]:
        return self._map[self._rows(video)]

    def _rows(self, video: str) -> list[int]:
        """A name of its own goes first: an id such as `clip_5_15` may end in a number."""
        if video in self.of_name:
            return [self.of_name[video]]
        return [row for _, row in sorted(self.of_video.get(video, []))]

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the name of the file, not its content."""
        return {key: value for key, value in vars(self).items() if key != "_map"}

    @cached_property
    def _map(self) -> np.ndarray:
        return np.memmap(self.file, "<f4", "r", shape=(len(self.of_name), self.width))


class NpyFolder(Source):
    """One file per video."""

    def __init__(self, folder: Path):
        self.files = {}
        for path in sorted(folder.glob("*.npy")):
            name = path.name.removesuffix(".npy")
            self.files[name] = path
            self.files.setdefault(without_ending(name), path)
        if not self.files:
            raise BadFeatures(
                f"The folder '{folder}' holds no .npy file. Expected one per video, named "
                "after it. Check data.features."
            )
        self.width = self._shape(next(iter(self.files)))[-1]
        self.counts: dict[str, int] = {}

    def count(self, video: str) -> int:
        if video not in self.counts:
            name = self._named(video)
            shape = self._shape(name) if name is not None else (0, 0)
            self.counts[video] = shape[0] if len(shape) == 2 else 1
        return self.counts[video]

    def frames(self, video: str) -> Float[np.ndarray, "frames width"]:
        name = self._named(video)
        assert name is not None
        frames = np.load(self.files[name], allow_pickle=False)
        if frames.ndim not in (1, 2) or frames.shape[-1] != self.width:
            raise BadFeatures(
                f"The features '{self.files[name]}' have the shape {frames.shape}. Expected "
                f"frames of {self.width} numbers, like the first file of the folder."
            )
        return frames.reshape(-1, self.width)

    def _named(self, video: str) -> str | None:
        return next(
            (name for name in (video, without_ending(video)) if name in self.files), None
        )

    def _shape(self, name: str) -> tuple[int, ...]:
        return read_header(self.files[name]).shape


class NpyTable(Source):
    """All videos in one file, with their ids in another."""

    def __init__(self, file: Path):
        self.file = file
        shape = read_header(file).shape
        ids = [name for name in read_lines(file.with_suffix(".txt")) if name]
        if len(shape) not in (2, 3) or shape[0] != len(ids):
            raise BadFeatures(
                f"The features '{file}' have the shape {shape}, and "
                f"'{file.with_suffix('.txt')}' {len(ids)} ids. Expected videos, parts where "
                "there are several, and numbers; and an id for every video."
            )
        self.width, self.parts = shape[-1], shape[1] if len(shape) == 3 else 1
        self.places = {name: row for row, name in enumerate(ids)}

    def count(self, video: str) -> int:
        return self.parts if video in self.places else 0

    def frames(self, video: str) -> Float[np.ndarray, "frames width"]:
        return self._map[self.places[video]].reshape(-1, self.width)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the name of the file, not its content."""
        return {key: value for key, value in vars(self).items() if key != "_map"}

    @cached_property
    def _map(self) -> np.ndarray:
        return np.load(self.file, mmap_mode="r", allow_pickle=False)


def without_ending(name: str) -> str:
    """A video's name without the ending of its file."""
    stem, dot, ending = name.rpartition(".")
    return stem if f"{dot}{ending}".lower() in ENDINGS else name
