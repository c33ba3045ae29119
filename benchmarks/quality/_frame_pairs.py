"""Frames of MSR-VTT as a public repository has them: two of one video side by side.

    all_concat/NAME_videoN-shotS_K/concat_imgA_imgB.jpg   320 x 240 each, A before B

The repository is BennoKrojer/imagecode-msrvtt-pairs; a clone is enough, with or without its
work tree. It has 13,086 pairs of 4,827 videos, so any number of frames of a video from two up.
"""

import io
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

PAIR = re.compile(r"all_concat/.*_(video\d+)-shot(\d+)_\d+/concat_img(\d+)_img(\d+)\.jpg")


@dataclass(frozen=True, order=True)
class Frame:
    """One half of a pair; frames are in the order of time."""

    shot: int
    number: int
    """In the shot."""
    pair: str
    """The file that it is in."""
    right: bool


def listed_frames(clone: Path) -> dict[str, list[Frame]]:
    """The distinct frames of every video, in the order of time."""
    listing = subprocess.run(
        ["git", "-C", str(clone), "ls-tree", "-r", "-z", "--name-only", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    )
    frames: dict[str, dict[tuple[int, int], Frame]] = {}
    for name in listing.stdout.split("\0"):
        if match := PAIR.fullmatch(name):
            video, shot = match[1], int(match[2])
            for right, number in enumerate(map(int, match.group(3, 4))):
                frame = Frame(shot, number, name, bool(right))
                frames.setdefault(video, {}).setdefault((shot, number), frame)
    if not frames:
        raise SystemExit(
            f"There are no pairs of frames in '{clone}'. Expected a clone of "
            "BennoKrojer/imagecode-msrvtt-pairs."
        )
    return {video: sorted(of_video.values()) for video, of_video in frames.items()}


def spread_out(frames: Sequence[Frame], count: int) -> list[Frame]:
    """`count` frames evenly spaced in their list; of a short list some come twice."""
    places = np.linspace(0, len(frames) - 1, count).round().astype(int)
    return [frames[place] for place in places.tolist()]


def opened(clone: Path, frames: Sequence[Frame]) -> Iterator[Image.Image]:
    """The photographs of these frames, in their order."""
    files = list(dict.fromkeys(frame.pair for frame in frames))
    content = dict(zip(files, _contents(clone, files), strict=True))
    for frame in frames:
        both = Image.open(io.BytesIO(content[frame.pair])).convert("RGB")
        middle = both.width // 2
        box = (
            (middle, 0, both.width, both.height) if frame.right else (0, 0, middle, both.height)
        )
        yield both.crop(box)


def _contents(clone: Path, files: Sequence[str]) -> Iterator[bytes]:
    asked = "".join(f"HEAD:{file}\n" for file in files)
    answer = io.BytesIO(
        subprocess.run(
            ["git", "-C", str(clone), "cat-file", "--batch"],
            input=asked.encode(),
            check=True,
            capture_output=True,
        ).stdout
    )
    for file in files:
        head = answer.readline().split()
        if len(head) != 3:
            raise SystemExit(f"The clone '{clone}' lacks '{file}'. Fetch it again.")
        yield answer.read(int(head[2]))
        answer.read(1)  # a line break follows every object
