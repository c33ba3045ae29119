"""Which moment of which video: the shipped model over segments of videos that are known.

    python -m benchmarks.quality.video_moments --split dev [--cache DIR]
    python -m benchmarks.quality.video_moments [--cache DIR]

Videos are made of photographs of Flickr8k and COCO, eight to a video, in eight styles
(`_made_videos`). Every caption asks for the time when its photograph is shown, in all videos.
With `--split dev` prices of a border, ways of pooling and the settings of the plainer ways are
compared; the test split is measured with the settings that `avow.core.shots` has, and with the
best of the plainer ways on dev.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

from avow.core import videos
from avow.core.places import avow_home
from avow.core.shots import FrameLog, Segment, ShotSettings, pooled, segments
from avow.data.opening import open_dataset
from benchmarks._lab import Lab
from benchmarks._report import RESULTS, keep, read
from benchmarks.quality._made_videos import STYLES, Plan, make, plan
from benchmarks.quality._moments import Moment, Span, borders, grown, recalls, window

SHOTS, AT_ONCE = 8, 8
SEEDS = {"dev": 21, "test": 22}
FIRST = {"dev": 0, "test": 500}
"""Numbers of the first videos: no two are drawn alike."""
VIDEOS = {"dev": 8, "test": 8}
"""Of every dataset."""
VIEWS = 2
NAME = "video_moments"
BORDERS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0)
JUMP_DISCOUNTS, KEYFRAME_DISCOUNTS = (0.4, 1.0), (0.8, 1.0)
WINDOWS = (3.0, 4.0, 5.0, 6.0, 7.0)
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
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
        rng = np.random.default_rng([SEEDS[split_name], len(files)])
        drawn = rng.permutation(len(files))[: SHOTS * VIDEOS[split_name]].reshape(-1, SHOTS)
        for number, photographs in enumerate(tqdm(drawn, desc=name)):
            style = STYLES[number % len(STYLES)]
            seed = 1000 * len(files) + FIRST[split_name] + number
            planned = plan(f"{name} {split_name}", seed, style, photographs.tolist())
            captions = [
                [split.captions[row] for row in np.flatnonzero(split.image_of == one)]
                for one in photographs
            ]
            seen.append(look(lab, planned, files, captions, cache))
    return seen


def made(planned: Plan, files: Sequence[Path], cache: Path) -> Path:
    """The file of a planned video, which is kept."""
    video = cache / f"{planned.key()}{planned.style.suffix}"
    if not video.exists():
        partial = video.with_name(f"partial-{video.name}")
        make(planned, files, partial)
        partial.rename(video)
    return video


def look(
    lab: Lab, planned: Plan, files: Sequence[Path], captions: list[list[str]], cache: Path
) -> Seen:
    """Make a video, decode it and encode its frames; or read what was kept of that."""
    folder = cache / lab.encoder.fingerprint
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{planned.key()}.npz"
    if not kept.exists():
        video = made(planned, files, cache)
        keyframes = videos.keyframe_times(video)
        log, vectors, damaged = encoded(lab, video, keyframes)
        told = json.dumps({"log": vars(log), "keyframes": keyframes, "damaged": damaged})
        np.savez(kept, vectors=vectors, told=np.array(told))
    with np.load(kept) as stored:
        told = json.loads(str(stored["told"]))
        vectors = stored["vectors"]
    log = FrameLog(**told["log"])
    return Seen(planned, log, vectors, told["keyframes"], captions, told["damaged"])


def encoded(lab: Lab, video: Path, keyframes: list[float]) -> tuple[FrameLog, np.ndarray, int]:
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


Pool = Callable[[Seen, list[Segment]], np.ndarray]


def mean_direction(one: Seen, parts: list[Segment]) -> np.ndarray:
    return pooled(one.vectors, parts, one.log, VIEWS)


def key_frame(one: Seen, parts: list[Segment]) -> np.ndarray:
    return np.stack([one.vectors[one.log.times.index(part.key)] for part in parts])


def largest_numbers(one: Seen, parts: list[Segment]) -> np.ndarray:
    """The largest of every number over the frames, at the length of a vector."""
    largest = np.stack([one.vectors[part.first : part.stop].max(0) for part in parts])
    halves = largest.reshape(len(parts), VIEWS, -1)
    lengths = np.linalg.norm(halves, axis=2, keepdims=True) * VIEWS**0.5
    return (halves / lengths).reshape(len(parts), -1)


POOLING: dict[str, Pool] = {
    "mean direction": mean_direction,
    "key frame": key_frame,
    "largest numbers": largest_numbers,
}


def truths_of(seen: Sequence[Seen]) -> tuple[list[str], list[Moment]]:
    """Every caption, and when its photograph is shown."""
    captions, truths = list[str](), list[Moment]()
    for number, one in enumerate(seen):
        for shot, said in zip(one.plan.shots, one.captions, strict=True):
            captions += said
            truths += [Moment(number, (shot.start, shot.end))] * len(said)
    return captions, truths


@dataclass(frozen=True)
class Asked:
    """Captions against every frame."""

    seen: list[Seen]
    queries: np.ndarray
    truths: list[Moment]

    def by_segments(
        self, settings: ShotSettings, pool: Pool = mean_direction
    ) -> tuple[list[Moment], list[list[Segment]]]:
        """The first answer is the segment whose vector is nearest."""
        parts = [segments(one.log, one.vectors, one.keyframes, settings) for one in self.seen]
        vectors = np.concatenate(
            [pool(one, some) for one, some in zip(self.seen, parts, strict=True)]
        )
        moments = [
            Moment(number, (part.start, part.end))
            for number, some in enumerate(parts)
            for part in some
        ]
        return [moments[row] for row in (self.queries @ vectors.T).argmax(1)], parts

    def by_frames(self, span: Callable[[Seen, np.ndarray, int], Span]) -> list[Moment]:
        """The first answer is made around the frame that is nearest."""
        vectors = np.concatenate([one.vectors for one in self.seen])
        owner = np.repeat(np.arange(len(self.seen)), [len(one.log) for one in self.seen])
        first = np.searchsorted(owner, np.arange(len(self.seen)))
        answers = list[Moment]()
        for scores in self.queries @ vectors.T:
            best = int(scores.argmax())
            video = int(owner[best])
            own = scores[owner == video]
            answers.append(Moment(video, span(self.seen[video], own, best - int(first[video]))))
        return answers


def frame_alone(one: Seen, scores: np.ndarray, best: int) -> Span:
    return one.log.times[best], one.log.ends[best]


def frame_window(length: float) -> Callable[[Seen, np.ndarray, int], Span]:
    return lambda one, _, best: window(
        np.array(one.log.times), np.array(one.log.ends), best, length
    )


def frame_grown(share: float) -> Callable[[Seen, np.ndarray, int], Span]:
    return lambda one, scores, best: grown(
        np.array(one.log.times), np.array(one.log.ends), scores, best, share
    )


def asked(lab: Lab, seen: list[Seen]) -> Asked:
    captions, truths = truths_of(seen)
    return Asked(seen, lab.texts(captions), truths)


def on_dev(ask: Asked) -> dict[str, Any]:
    """What was compared, and the best settings of the plainer ways."""
    plans = [one.plan for one in ask.seen]
    prices = list[dict[str, Any]]()
    for border, jump, key in product(BORDERS, JUMP_DISCOUNTS, KEYFRAME_DISCOUNTS):
        settings = replace(
            ShotSettings(), border=border, jump_discount=jump, keyframe_discount=key
        )
        answers, parts = ask.by_segments(settings)
        prices.append(
            {"border": border, "jump_discount": jump, "keyframe_discount": key}
            | recalls(answers, ask.truths)
            | {"borders": borders(plans, parts)}
        )
    windows = {w: recalls(ask.by_frames(frame_window(w)), ask.truths) for w in WINDOWS}
    shares = {s: recalls(ask.by_frames(frame_grown(s)), ask.truths) for s in SHARES}
    return {
        "prices": prices,
        "pooling": {
            name: recalls(ask.by_segments(ShotSettings(), way)[0], ask.truths)
            for name, way in POOLING.items()
        },
        "windows": windows,
        "shares": shares,
        "window": max(WINDOWS, key=lambda one: windows[one]["iou_0.5"]),
        "share": max(SHARES, key=lambda one: shares[one]["iou_0.5"]),
    }


def on_test(ask: Asked, dev: dict[str, Any]) -> dict[str, Any]:
    answers, parts = ask.by_segments(ShotSettings())
    ways = {
        "segments": answers,
        "frame": ask.by_frames(frame_alone),
        "window": ask.by_frames(frame_window(dev["window"])),
        "grown": ask.by_frames(frame_grown(dev["share"])),
    }
    measured = {name: recalls(found, ask.truths) for name, found in ways.items()}
    return {
        "settings": asdict(ShotSettings()),
        "window_seconds": dev["window"],
        "grown_share": dev["share"],
        "ways": measured,
        "datasets": {
            name: part_of(ask, answers, lambda one, name=name: one.plan.source.startswith(name))
            for name in DATASETS
        },
        "ratio_window": measured["segments"]["iou_0.5"] / measured["window"]["iou_0.5"],
        "ratio_grown": measured["segments"]["iou_0.5"] / measured["grown"]["iou_0.5"],
        "borders": borders([one.plan for one in ask.seen], parts),
        "styles": {style.name: of_style(ask, answers, parts, style.name) for style in STYLES},
        "segments": sum(map(len, parts)),
    }


def part_of(
    ask: Asked, answers: list[Moment], chosen: Callable[[Seen], bool]
) -> dict[str, float]:
    rows = [n for n, truth in enumerate(ask.truths) if chosen(ask.seen[truth.video])]
    return recalls([answers[n] for n in rows], [ask.truths[n] for n in rows])


def of_style(
    ask: Asked, answers: list[Moment], parts: list[list[Segment]], name: str
) -> dict[str, Any]:
    own = [n for n, one in enumerate(ask.seen) if one.plan.style.name == name]
    return {
        **part_of(ask, answers, lambda one: one.plan.style.name == name),
        "borders": borders([ask.seen[n].plan for n in own], [parts[n] for n in own]),
        "damaged": sum(ask.seen[n].damaged for n in own),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "videos")
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    seen = all_videos(lab, chosen.split, chosen.cache)
    kept = read(NAME) if (RESULTS / f"{NAME}.json").exists() else {}
    kept.pop("machine", None)
    ask = asked(lab, seen)
    about = {
        "videos": len(seen),
        "seconds": sum(one.plan.end - one.plan.first for one in seen),
        "frames": sum(len(one.log) for one in seen),
        "shots": sum(len(one.plan.shots) for one in seen),
    }
    measured = on_dev(ask) if chosen.split == "dev" else on_test(ask, kept["dev"])
    kept[chosen.split] = about | measured
    print(json.dumps(kept[chosen.split], indent=1))
    print(f"-> {keep(NAME, kept)}")


if __name__ == "__main__":
    main()
