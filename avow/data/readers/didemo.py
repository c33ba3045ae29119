"""DiDeMo, as paragraphs: all descriptions of moments of a video are one text.

    train_data.json  val_data.json  test_data.json
        [{"video", "description", "times", "num_segments"}], segments of five seconds

A split whose file is not there is absent. The descriptions of a video are joined in the order
of the file. Some videos are listed under several endings (`.mov`, `.mp4`, none after the dot):
a video is known here by its name without the ending, which makes 1,065 of `val` and 1,004 of
`test`, as in the papers.

Papers: Hendricks et al., "Localizing Moments in Video with Natural Language", ICCV 2017; Zhang
et al., "Cross-Modal and Hierarchical Modeling of Video and Text", ECCV 2018 (paragraphs).
"""

from collections.abc import Iterator
from pathlib import Path

from avow.core.datasets import PairedDataset
from avow.data.clips import Clip, open_clips
from avow.data.gather import entry_of, read_list
from avow.data.videos import without_ending

FILES = {"train": "train_data.json", "dev": "val_data.json", "test": "test_data.json"}
SECONDS = 5.0  # of a segment


def recognises(root: Path) -> bool:
    return (root / FILES["test"]).is_file() and (root / FILES["dev"]).is_file()


def build(*, root: str, features: str = "", frames: int = 64) -> PairedDataset:
    """features: where they lie; several as "name=PATH, name=PATH".

    frames: the most that are taken of a video, evenly spaced; 0 for all.
    """
    return open_clips("didemo", root, _clips, features, frames)


def _clips(root: Path) -> Iterator[Clip]:
    for split, name in FILES.items():
        path = root / name
        if not path.is_file():
            continue
        described: dict[str, list[str]] = {}
        segments: dict[str, int] = {}
        for position, entry in enumerate(read_list(path)):
            place = f"[{position}]"
            video = without_ending(entry_of(entry, "video", str, path, place))
            text = entry_of(entry, "description", str, path, place).strip()
            described.setdefault(video, []).append(text)
            count = entry_of(entry, "num_segments", int, path, place)
            segments[video] = max(count, segments.get(video, 0))
        for video, texts in described.items():
            yield Clip(video, split, (" ".join(texts),), SECONDS * segments[video])
