"""MSVD: two thousand short clips, up to 81 captions each.

    captions_msvd.json                          {id: [caption, ...]}
    train_list.txt  val_list.txt  test_list.txt one id per line

An id is that of a film, with the second where the clip begins and the one where it ends. The
features are elsewhere: see `data/videos.py` for the formats that `features` may have.

Paper: Chen, Dolan, "Collecting Highly Parallel Data for Paraphrase Evaluation", ACL 2011.
"""

from collections.abc import Iterator
from pathlib import Path

from avow.core.datasets import PairedDataset
from avow.data.clips import Clip, open_clips
from avow.data.gather import read_json, read_lines, strings_of

CAPTIONS = "captions_msvd.json"
LISTS = {"train": "train_list.txt", "dev": "val_list.txt", "test": "test_list.txt"}


def recognises(root: Path) -> bool:
    return (root / CAPTIONS).is_file()


def build(*, root: str, features: str = "", frames: int = 64) -> PairedDataset:
    """features: where they lie; several as "name=PATH, name=PATH".

    frames: the most that are taken of a video, evenly spaced; 0 for all.
    """
    return open_clips("msvd", root, _clips, features, frames)


def _clips(root: Path) -> Iterator[Clip]:
    path = root / CAPTIONS
    captions = read_json(path)
    for split, name in LISTS.items():
        for video in filter(None, read_lines(root / name)):
            yield Clip(video, split, strings_of(captions, video, path))
