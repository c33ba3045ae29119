"""ActivityNet Captions, as paragraphs: all sentences of a video are one text.

    train.json  val_1.json  val_2.json   {id: {"duration", "timestamps", "sentences"}}

`val_1` is `test`, as in all papers; `val_2` has other captions of the same videos, and is not
read. There is no dev split: by default some training videos are held out, with `dev = 0` it
is the test split, on which published systems choose their epoch.

Papers: Krishna et al., "Dense-Captioning Events in Videos", ICCV 2017; Zhang et al.,
"Cross-Modal and Hierarchical Modeling of Video and Text", ECCV 2018 (paragraphs).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.data.clips import Clip, held_out, located_features, paired_clips
from avow.data.gather import entry_of, read_json, strings_of

FILES = {"train": "train.json", "test": "val_1.json"}


def recognises(root: Path) -> bool:
    return (root / FILES["test"]).is_file()


def build(*, root: str, dev: int = 500, features: str = "", frames: int = 64) -> PairedDataset:
    """dev: training videos that are held out, evenly spread; 0: it is the test split.

    features: where they lie; several as "name=PATH, name=PATH". frames: the most that are
    taken of a video, evenly spaced; 0 for all.
    """
    place = Path(root)
    where = located_features(features, place, frames)
    return paired_clips("activitynet", place, _clips(place, dev), where)


def _clips(root: Path, dev: int) -> Iterator[Clip]:
    train = read_json(root / FILES["train"]) if (root / FILES["train"]).is_file() else {}
    apart = held_out(list(train), dev) if train else set()
    for video, entry in train.items():
        split = "dev" if video in apart else "train"
        yield _clip(video, entry, split, root / FILES["train"])
    path = root / FILES["test"]
    for video, entry in read_json(path).items():
        for split in ("test",) if dev else ("dev", "test"):
            yield _clip(video, entry, split, path, shared=not dev)


def _clip(video: str, entry: Any, split: str, path: Path, shared: bool = False) -> Clip:
    sentences = strings_of(entry, "sentences", path, video)
    seconds = entry.get("duration")
    if not isinstance(seconds, int | float) or not seconds > 0:
        raise BadData(
            f"'duration' of {video} in '{path}' is {seconds!r}. Expected seconds above 0. "
            "Download the file again."
        )
    entry_of(entry, "timestamps", list, path, video)
    paragraph = " ".join(sentence.strip() for sentence in sentences)
    return Clip(video, split, (paragraph,), float(seconds), shared)
