"""Videos as Dual Encoding takes them: a folder per split, with features as BigFile.

    SUBSET/TextData/*.caption.txt       video#number sentence, one caption per line
    SUBSET/FeatureData/NAME/            feature.bin, shape.txt, id.txt
    SUBSET/ImageSets/SUBSET.txt         video ids, one per line (optional; it says which)

A subset is a split by the end of its name: `msrvtt10ktrain`, `...val` and `...test`. Where a
folder has those of several datasets, `collection` says how the names of one begin.

Paper: Dong et al., "Dual Encoding for Zero-Example Video Retrieval", CVPR 2019.
"""

import glob
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from avow.core.datasets import PairedDataset, VideoFeatures
from avow.core.errors import BadData
from avow.data.clips import ALONE, Clip, paired_clips
from avow.data.gather import read_lines

ENDS = {"train": "train", "val": "dev", "dev": "dev", "test": "test"}
TEXTS, FEATURES = "TextData/*.caption.txt", "FeatureData"


def recognises(root: Path) -> bool:
    return bool(_subsets(root, ""))


def build(
    *, root: str, collection: str = "", features: str = "", frames: int = 64
) -> PairedDataset:
    """collection: how names of folders begin. features: which of FeatureData.

    frames: the most that are taken of a video, evenly spaced; 0 for all.
    """
    place = Path(root)
    by_split = _subsets(place, collection)
    for split, folders in by_split.items():
        if len(folders) > 1:
            listed = ", ".join(folder.name for folder in folders)
            raise BadData(
                f"There are {len(folders)} folders of the split {split!r} in '{place}': "
                f"{listed}. Expected one. Say how its name begins with data.collection."
            )
    subsets = {split: folders[0] for split, folders in by_split.items()}
    if not subsets:
        raise BadData(
            f"There is no '{TEXTS}' in the folders of '{place}'. Expected folders whose names "
            "end in train, val and test. Check the path."
        )
    clips = [clip for split, folder in subsets.items() for clip in _clips(split, folder)]
    dataset = paired_clips(place.resolve().name, place, clips, None)
    return PairedDataset(
        dataset.name,
        {
            name: replace(split, videos=_features(subsets[name], features, frames))
            for name, split in dataset.splits.items()
        },
    )


def _subsets(root: Path, collection: str) -> dict[str, list[Path]]:
    """The folders of each split."""
    by_split: dict[str, list[Path]] = {}
    for folder in sorted(root.glob(f"{glob.escape(collection)}*")) if root.is_dir() else []:
        split = next((ours for end, ours in ENDS.items() if folder.name.endswith(end)), None)
        if split is not None and any(folder.glob(TEXTS)):
            by_split.setdefault(split, []).append(folder)
    return by_split


def _features(folder: Path, name: str, frames: int) -> VideoFeatures:
    kinds = sorted(path.name for path in (folder / FEATURES).glob("*") if path.is_dir())
    wanted = name or (kinds[0] if len(kinds) == 1 else "")
    if wanted not in kinds:
        raise BadData(
            f"The features of '{folder}' are not clear: data.features is {name!r}. Expected "
            f"one of: {', '.join(kinds) or 'none there is'}."
        )
    return VideoFeatures({ALONE: folder / FEATURES / wanted}, frames)


def _clips(split: str, folder: Path) -> Iterator[Clip]:
    captions: dict[str, list[str]] = {}
    for path in sorted(folder.glob(TEXTS)):
        for number, line in enumerate(read_lines(path), start=1):
            label, space, caption = line.partition(" ")
            video, mark, _ = label.partition("#")
            if not (space and mark and video):
                raise BadData(
                    f"Line {number} of '{path}' is {line!r}. Expected a video, '#', a number, "
                    "a space and a sentence. Correct or remove the line."
                )
            captions.setdefault(video, []).append(caption.strip())
    listing = folder / "ImageSets" / f"{folder.name}.txt"
    videos = list(filter(None, read_lines(listing))) if listing.is_file() else list(captions)
    for video in videos:
        yield Clip(video, split, tuple(captions.get(video, ())))
