"""What readers of videos share: clips to splits, and where their features lie."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from avow.core.datasets import PairedDataset, Split, VideoFeatures
from avow.core.errors import BadRecipe
from avow.core.times import Times
from avow.data.gather import Photograph, paired

SPLITS = ("train", "dev", "test")
ALONE = "frames"  # what features are called where there is but one kind


@dataclass(frozen=True)
class Clip:
    """One video of a dataset."""

    video: str
    split: str
    captions: tuple[str, ...]
    seconds: float | None = None
    """How long it lasts, where the dataset says so."""
    shared: bool = False
    """Whether it is in other splits too, and is meant to be."""


def open_clips(
    name: str, root: str, clips: Callable[[Path], Iterable[Clip]], features: str, frames: int
) -> PairedDataset:
    """The dataset of the clips in a folder, with their features where they lie."""
    place = Path(root)
    return paired_clips(name, place, clips(place), located_features(features, place, frames))


def paired_clips(
    name: str, source: Path, clips: Iterable[Clip], features: VideoFeatures | None
) -> PairedDataset:
    """The dataset of these clips in their order; source: what to name where one is wrong."""
    listed = list(clips)
    photographs = (
        Photograph(clip.video, clip.split, clip.captions, Path(clip.video), clip.shared)
        for clip in listed
    )
    dataset = paired(name, source, photographs, SPLITS, item="video")
    lasting = {clip.video: clip.seconds for clip in listed if clip.seconds}
    splits = {
        key: replace(split, files=None, videos=features, times=_times(split, lasting))
        for key, split in dataset.splits.items()
    }
    return PairedDataset(name, splits)


def _times(split: Split, lasting: dict[str, float]) -> Times | None:
    """Whole videos, where it is known of all how long they last."""
    if not all(video in lasting for video in split.image_ids):
        return None
    ends = np.array([lasting[video] for video in split.image_ids])
    return Times(np.zeros(len(ends)), ends)


def located_features(features: str, root: Path, frames: int) -> VideoFeatures | None:
    """Features named by one path, or by several as "scene=PATH, audio=PATH".

    Paths are those inside `root`, unless they are absolute. Empty: there are none.
    """
    if not features.strip():
        return None
    experts = {}
    for one in features.split(","):
        name, equals, path = (part.strip() for part in one.rpartition("="))
        if not path or (equals and not name) or name in experts:
            raise BadRecipe(
                f"data.features is {features!r}, which cannot be read at {one.strip()!r}. "
                "Expected one path, or a different name for each: 'scene=PATH, audio=PATH'."
            )
        experts[name or ALONE] = root / path
    return VideoFeatures(experts, frames)


def held_out(videos: Sequence[str], count: int) -> set[str]:
    """So many of the videos, evenly spread over their list."""
    spread = np.linspace(0, len(videos) - 1, min(count, len(videos))).round()
    places = set(spread.astype(int).tolist())
    return {video for place, video in enumerate(videos) if place in places}
