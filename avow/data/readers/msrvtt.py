"""MSR-VTT: ten thousand clips with twenty captions each, and its usual splits.

    train_val_videodatainfo.json, test_videodatainfo.json, or all in MSRVTT_data.json
        {"videos": [{"video_id", "split", "start time", "end time"}],
         "sentences": [{"video_id", "caption", "sen_id"}]}
    MSRVTT_train.7k.csv, MSRVTT_train.9k.csv   video_id, one per line
    MSRVTT_JSFUSION_test.csv                   key,vid_key,video_id,sentence: the 1k-A test

full   6,513 train, 497 dev and 2,990 test videos with all captions, as published
7k     the videos of the 7k list, tested on 1k-A: 1,000 videos with one caption each
9k     the videos of the 9k list, tested on 1k-A

The 7k and 9k lists come without a dev split. Published systems choose their epoch on the test
split; `dev = "test"` does that. By default the official validation videos are held out.

Papers: Xu et al., "MSR-VTT: A Large Video Description Dataset", CVPR 2016; Yu et al., "A Joint
Sequence Fusion Model for Video Question Answering and Retrieval", ECCV 2018 (1k-A); Miech et
al., "Learning a Text-Video Embedding from Incomplete and Heterogeneous Data", 2018 (7k).
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.data.clips import Clip, located_features, paired_clips
from avow.data.gather import entry_of, read_json, read_text, split_called

PARTS = ("train_val_videodatainfo.json", "test_videodatainfo.json")
WHOLE = "MSRVTT_data.json"
LISTS = {"7k": "MSRVTT_train.7k.csv", "9k": "MSRVTT_train.9k.csv"}
TEST = "MSRVTT_JSFUSION_test.csv"
SPLITS = {"train": "train", "validate": "dev", "val": "dev", "test": "test"}


@dataclass(frozen=True)
class Video:
    """What the official files say of one."""

    split: str
    seconds: float
    captions: tuple[str, ...]


def recognises(root: Path) -> bool:
    return any((root / name).is_file() for name in (WHOLE, *PARTS))


def build(
    *,
    root: str,
    protocol: Literal["full", "7k", "9k"] = "full",
    dev: Literal["held out", "test"] = "held out",
    features: str = "",
    frames: int = 64,
) -> PairedDataset:
    """protocol: which lists. dev: of the 7k and 9k lists.

    features: where they lie; several as "name=PATH, name=PATH". frames: the most that are
    taken of a video, evenly spaced; 0 for all.
    """
    place = Path(root)
    videos = _videos(place)
    clips = _official(videos) if protocol == "full" else _listed(place, videos, protocol, dev)
    name = "msrvtt" if protocol == "full" else f"msrvtt-{protocol}"
    return paired_clips(name, place, clips, located_features(features, place, frames))


def _videos(root: Path) -> dict[str, Video]:
    """All videos of the official files that are there."""
    paths = [root / WHOLE] if (root / WHOLE).is_file() else [root / part for part in PARTS]
    paths = [path for path in paths if path.is_file()]
    if not paths:
        raise BadData(
            f"There is no '{WHOLE}' and no '{PARTS[0]}' in '{root}'. Expected the official "
            "annotations. Download them there."
        )
    out = {}
    for path in paths:
        content = read_json(path)
        captions: dict[str, list[tuple[int, str]]] = {}
        for position, entry in enumerate(entry_of(content, "sentences", list, path)):
            place = f"sentences[{position}]"
            order = entry_of(entry, "sen_id", int, path, place)
            text = entry_of(entry, "caption", str, path, place).strip()
            video = entry_of(entry, "video_id", str, path, place)
            captions.setdefault(video, []).append((order, text))
        for position, entry in enumerate(entry_of(content, "videos", list, path)):
            place = f"videos[{position}]"
            video = entry_of(entry, "video_id", str, path, place)
            split = split_called(
                entry_of(entry, "split", str, path, place), SPLITS, video, path
            )
            seconds = float(entry.get("end time", 0)) - float(entry.get("start time", 0))
            texts = tuple(text for _, text in sorted(captions.get(video, [])))
            out[video] = Video(split, seconds, texts)
    return out


def _official(videos: dict[str, Video]) -> Iterator[Clip]:
    for name, video in videos.items():
        yield Clip(name, video.split, video.captions, video.seconds)


def _listed(root: Path, videos: dict[str, Video], protocol: str, dev: str) -> Iterator[Clip]:
    path = root / LISTS[protocol]
    for row in _rows(path, ("video_id",)):
        video = _known(row["video_id"], videos, path)
        held_out = dev == "held out" and video.split == "dev"
        split = "dev" if held_out else "train"
        yield Clip(row["video_id"], split, video.captions, video.seconds)
    path = root / TEST
    for row in _rows(path, ("video_id", "sentence")):
        video = _known(row["video_id"], videos, path)
        for split in ("test",) if dev == "held out" else ("dev", "test"):
            caption = (row["sentence"].strip(),)
            yield Clip(row["video_id"], split, caption, video.seconds, shared=dev == "test")


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    if not set(columns) <= set(reader.fieldnames or ()):
        raise BadData(
            f"The file '{path}' has the columns {', '.join(reader.fieldnames or ())!r}. "
            f"Expected {' and '.join(columns)}. Check that it is the right file."
        )
    for row in reader:
        if None in row.values():
            raise BadData(
                f"Line {reader.line_num} of '{path}' is cut short. Expected a field per "
                "column. Download the file again."
            )
        yield row


def _known(name: str, videos: dict[str, Video], path: Path) -> Video:
    if name not in videos:
        raise BadData(
            f"The video {name!r} of '{path}' is in none of the official annotations beside it. "
            f"Expected all of them, in {' and '.join(PARTS)} or in {WHOLE}."
        )
    return videos[name]
