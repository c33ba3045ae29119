"""Which moment of which video: the shipped model over segments of videos that are known.

    python benchmarks/quality/video_moments.py [--cache DIR] [--split dev]

Videos are made of photographs (`_made_videos`), of Flickr8k and COCO, eight to a video, in eight
styles. Every caption asks for the time when its photograph is shown. Thresholds and pooling are
chosen with `--split dev`; the test split is measured with what `avow.core.shots` has then.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]
from _lab import Lab  # noqa: E402
from _made_videos import STYLES, Plan, make, plan  # noqa: E402

from avow.core import videos  # noqa: E402
from avow.core.places import avow_home  # noqa: E402
from avow.core.shots import FrameLog  # noqa: E402
from avow.data.opening import open_dataset  # noqa: E402

SHOTS, SEED, AT_ONCE = 8, 21, 8
VIDEOS = {"dev": 8, "test": 24}
"""Of every dataset."""
DATASETS = ("flickr8k", "coco")


@dataclass(frozen=True)
class Seen:
    """One video as it was decoded and encoded."""

    plan: Plan
    log: FrameLog
    vectors: np.ndarray
    keyframes: list[float]
    captions: list[list[str]]
    """Of every shot."""
    damaged: int


def all_videos(lab: Lab, split_name: str, cache: Path) -> list[Seen]:
    seen = list[Seen]()
    for name in DATASETS:
        split = open_dataset(name).splits[split_name]
        files = list(split.files or ())
        rng = np.random.default_rng([SEED, len(files)])
        drawn = rng.permutation(len(files))[: SHOTS * VIDEOS[split_name]].reshape(-1, SHOTS)
        for number, photographs in enumerate(tqdm(drawn, desc=name)):
            planned = plan(1000 * len(files) + number, STYLES[number % len(STYLES)], photographs)
            captions = [
                [split.captions[row] for row in np.flatnonzero(split.image_of == one)]
                for one in photographs
            ]
            seen.append(look(lab, planned, files, captions, cache))
    return seen


def look(
    lab: Lab, planned: Plan, files: Sequence[Path], captions: list[list[str]], cache: Path
) -> Seen:
    """Make a video, decode it and encode its frames; or read what was kept of that."""
    folder = cache / lab.encoder.fingerprint
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{planned.key()}.npz"
    if not kept.exists():
        video = cache / f"{planned.key()}{planned.style.suffix}"
        if not video.exists():
            partial = video.with_name(f"partial-{video.name}")
            make(planned, files, partial)
            partial.rename(video)
        keyframes = videos.keyframe_times(video)
        log, vectors, damaged = encoded(lab, video, keyframes)
        told = json.dumps({"log": vars(log), "keyframes": keyframes, "damaged": damaged})
        np.savez(kept, vectors=vectors, told=np.array(told))
    with np.load(kept) as stored:
        told = json.loads(str(stored["told"]))
        vectors = stored["vectors"]
    log = FrameLog(**told["log"])
    return Seen(planned, log, vectors, told["keyframes"], captions, told["damaged"])


def encoded(
    lab: Lab, video: Path, keyframes: list[float]
) -> tuple[FrameLog, np.ndarray, int]:
    log, waiting, vectors = FrameLog(), list[np.ndarray](), list[np.ndarray]()
    with videos.frames(video, keyframes=keyframes) as frames:
        for frame in frames:
            log.add(frame)
            waiting.append(lab.encoder.prepare(Image.fromarray(frame.image)))
            if len(waiting) == AT_ONCE:
                vectors.append(lab.encoder.encode_prepared(np.stack(waiting)))
                waiting.clear()
    if waiting:
        vectors.append(lab.encoder.encode_prepared(np.stack(waiting)))
    return log, np.concatenate(vectors), frames.damaged


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "videos")
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    chosen = parser.parse_args()
    seen = all_videos(Lab(chosen.cache), chosen.split, chosen.cache)
    print(len(seen))


if __name__ == "__main__":
    main()
