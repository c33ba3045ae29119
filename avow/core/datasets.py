"""Captioned images: what every dataset reader returns. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from avow.core.fingerprint import of_text
from avow.core.shapes import Int
from avow.core.times import Times


@dataclass(frozen=True)
class VideoFeatures:
    """Where the features of videos lie, which have any number of frames."""

    experts: Mapping[str, Path]
    """By the name of what computed them; several are put side by side, in this order. Each
    is a file or a folder that `data/videos.py` reads."""
    frames: int = 64
    """Of a longer video so many frames are taken, evenly spaced; 0: all."""


@dataclass(frozen=True)
class Split:
    """Images and their captions: any number of captions per image, in any order."""

    image_ids: tuple[str, ...]
    captions: tuple[str, ...]
    image_of: Int[np.ndarray, " captions"]
    """For each caption, the position of its image in `image_ids`."""
    files: tuple[Path, ...] | None = None
    """One photograph per image, where the dataset has photographs."""
    features: Path | None = None
    """A `.npy` of features [rows, regions, dim], where it comes with them instead."""
    feature_rows: Int[np.ndarray, " images"] | None = None
    """For each image, its row in `features`."""
    boxes: Path | None = None
    """A `.npy` of where each of these regions lies [rows, regions, 4], in 0..1."""
    videos: VideoFeatures | None = None
    """Features of videos by their ids, where it comes with those."""
    times: Times | None = None
    """When each item begins and ends in its file, where the items are videos or moments."""


@dataclass(frozen=True)
class PairedDataset:
    """What every reader in `data/` returns."""

    name: str
    splits: dict[str, Split]
    own_splits: bool = True
    """Whether its files say who is in which split; False: the reader dealt the images out."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever an image, its times, a caption or a split changes."""
        parts = [self.name]
        for name, split in sorted(self.splits.items()):
            parts += [name, *split.image_ids, *split.captions]
            parts += [str(place) for place in split.image_of.tolist()]
            if split.times is not None:
                parts += [str(seconds) for seconds in split.times.start.tolist()]
                parts += [str(seconds) for seconds in split.times.end.tolist()]
        return of_text(parts)
