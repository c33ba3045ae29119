"""Compact videos: one `captions.json` and one array with as many frames of every video.

    captions.json    {"dataset": ..., "videos": [{"id", "split", "captions"}]}
    frames_NAME.npy  features [videos, frames, dim], in the order of `videos`

A video has any number of captions.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.data.clips import Clip, paired_clips
from avow.data.gather import SPLITS, entry_of, read_json, split_called, strings_of

CAPTIONS = "captions.json"
FRAMES = "frames_*.npy"


def recognises(root: Path) -> bool:
    return (root / CAPTIONS).is_file() and any(root.glob(FRAMES))


def build(*, root: str, features: str = "") -> PairedDataset:
    """features: the name of the array, where there are several."""
    place = Path(root)
    arrays = [place / features] if features else sorted(place.glob(FRAMES))
    if len(arrays) != 1 or not arrays[0].is_file():
        listed = ", ".join(path.name for path in arrays) or "none"
        raise BadData(
            f"The features of '{place}' are not clear: {listed}. Expected one file called "
            "frames_NAME.npy, or its name in data.features."
        )
    clips = list(listed_clips(place / CAPTIONS))
    dataset = paired_clips(named(place / CAPTIONS), place / CAPTIONS, clips, None)
    rows = {clip.video: row for row, clip in enumerate(clips)}
    return PairedDataset(
        dataset.name,
        {
            name: replace(
                split,
                features=arrays[0],
                feature_rows=np.array([rows[video] for video in split.image_ids], np.int64),
            )
            for name, split in dataset.splits.items()
        },
    )


def named(path: Path) -> str:
    """What the dataset calls itself."""
    return entry_of(read_json(path), "dataset", str, path)


def listed_clips(path: Path) -> Iterator[Clip]:
    """The videos of a captions file, in their order."""
    listed = entry_of(read_json(path), "videos", list, path)
    for position, entry in enumerate(listed):
        place = f"videos[{position}]"
        video = entry_of(entry, "id", str, path, place)
        split = entry_of(entry, "split", str, path, place)
        yield Clip(
            video,
            split_called(split, SPLITS, video, path),
            strings_of(entry, "captions", path, place),
        )
