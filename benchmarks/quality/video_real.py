"""Moments of filmed clips: are they found, and is what is not there refused?

    python -m benchmarks.quality.video_real --clips DIR [--cache DIR]

Filmed clips of public repositories (`video_real.json` lists them; none comes with Avow) are
strung together to videos of some minutes, each clip once. What is asked and when it is shown
was written down by looking at the clips, before anything was searched; so were the names of
what no clip shows. The videos are indexed, and the search itself is asked. Beside it stand
plainer ways that read single frames, with the settings that `video_moments` chose on dev.
Nothing is fitted or chosen here. Without the clips it says what to fetch.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from avow.core import videos
from avow.core.places import avow_home
from avow.metrics.rejection import auroc
from avow.retrieval.answer import Hit, SearchResult
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.forms import one_form
from avow.retrieval.indexing import index_folders
from avow.retrieval.search import Retriever
from benchmarks._lab import Lab
from benchmarks._report import keep, read
from benchmarks.quality._moments import Moment, grown, overlap, window
from benchmarks.quality._strung_clips import Query, check, listed, queries, string_together
from benchmarks.quality.video_moments import encoded

NEAR = 2.0
"""Seconds beside a true moment that its key frame may lie."""
NAME = "video_real"
Ask = Callable[[str], Moment]


class Frames:
    """Every frame of all videos, as plainer ways search them."""

    def __init__(self, lab: Lab, paths: Sequence[Path]):
        self.lab = lab
        self.logs, vectors = list[tuple[np.ndarray, np.ndarray]](), list[np.ndarray]()
        for path in paths:
            kept = lab.cache / f"{path.stem}-{path.stat().st_size}.npz"
            if not kept.exists():
                log, found, _ = encoded(lab, path, videos.keyframe_times(path))
                np.savez(kept, vectors=found, times=log.times, ends=log.ends)
            with np.load(kept) as stored:
                vectors.append(stored["vectors"])
                self.logs.append((stored["times"], stored["ends"]))
        self.vectors = vectors

    def best(self, text: str) -> tuple[int, np.ndarray, int]:
        """The video of the nearest frame, the scores of its frames, and which one it is."""
        query = self.lab.texts([one_form(text)])[0]
        scores = [some @ query for some in self.vectors]
        video = int(np.argmax([some.max() for some in scores]))
        return video, scores[video], int(scores[video].argmax())

    def window(self, text: str, length: float) -> Moment:
        video, _, best = self.best(text)
        times, ends = self.logs[video]
        return Moment(video, window(times, ends, best, length))

    def grown(self, text: str, share: float) -> Moment:
        video, scores, best = self.best(text)
        times, ends = self.logs[video]
        return Moment(video, grown(times, ends, scores, best, share))


def moment_of(hit: Hit) -> Moment:
    assert hit.start is not None and hit.end is not None
    return Moment(int(Path(hit.path).stem.rpartition("-")[2]), (hit.start, hit.end))


def shares(asked: Sequence[Query], answers: Sequence[Moment]) -> dict[str, float]:
    """R@1 in percent: the first answer overlaps a true moment, or is near one."""
    best = np.array([
        max(
            overlap(answer.span, true.span) if answer.video == true.video else 0.0
            for true in query.moments
        )
        for query, answer in zip(asked, answers, strict=True)
    ])  # fmt: skip
    near = [is_near(query, answer) for query, answer in zip(asked, answers, strict=True)]
    return {
        "iou_0.5": 100 * float((best >= 0.5).mean()),
        "iou_0.3": 100 * float((best >= 0.3).mean()),
        "near": 100 * float(np.mean(near)),
    }


def is_near(query: Query, answer: Moment) -> bool:
    """Whether the middle of an answer lies in a true moment, or beside it by `NEAR` seconds."""
    middle = sum(answer.span) / 2
    return any(
        answer.video == true.video and true.span[0] - NEAR <= middle <= true.span[1] + NEAR
        for true in query.moments
    )


def fits(query: Query, hit: Hit) -> bool:
    """Whether a hit overlaps a true moment by half of the shorter of both."""
    answer = moment_of(hit)
    return any(
        answer.video == true.video
        and min(answer.span[1], true.span[1]) - max(answer.span[0], true.span[0])
        >= min(answer.span[1] - answer.span[0], true.span[1] - true.span[0]) / 2
        for true in query.moments
    )


def trusted(
    asked: Sequence[Query], found: Sequence[SearchResult], absent: Sequence[SearchResult]
) -> dict[str, Any]:
    """What is stated of first answers and of all hits, and what is refused."""
    shown = [one.hits or one.near_misses for one in found]
    first = np.array([hits[0].p_relevant for hits in shown], float)
    right = np.array([fits(query, hits[0]) for query, hits in zip(asked, shown, strict=True)])
    every = [
        (hit.p_relevant or 0.0, fits(query, hit))
        for query, hits in zip(asked, shown, strict=True)
        for hit in hits
    ]
    answered = np.array([one.verdict == "answer" for one in found])
    refused = np.array([one.verdict == "nothing_found" for one in found])
    similar = np.array([max(hit.similarity for hit in hits) for hits in shown])
    misses = np.array([
        max(hit.similarity for hit in (*one.hits, *one.near_misses)) for one in absent
    ])  # fmt: skip
    cut = np.quantile(similar, refused.mean())
    wrong = [one.verdict == "nothing_found" for one in absent]
    return {
        "first_stated": float(first.mean()),
        "first_true": float(right.mean()),
        "first_auroc": float(auroc(first[right], first[~right])),
        "hits": len(every),
        "hits_stated": float(np.mean([p for p, _ in every])),
        "hits_true": float(np.mean([yes for _, yes in every])),
        "present_refused": int(refused.sum()),
        "right_refused": int((refused & right).sum()),
        "absent": len(absent),
        "absent_refused": int(sum(wrong)),
        "absent_refused_by_cut": int((misses < cut).sum()),
        "answered": int(answered.sum()),
        "answered_right": int((answered & right).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clips", type=Path, required=True, help="where clones lie")
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "videos")
    chosen = parser.parse_args()
    check(chosen.clips)
    paths, placed = string_together(chosen.clips, chosen.cache / "strung")
    asked = queries(placed)
    index = chosen.cache / "strung-index"
    index_folders([chosen.cache / "strung"], index=index, encoder=open_encoder())
    retriever = Retriever.open(index)

    def search(text: str) -> SearchResult:
        return retriever.search(text, where="kind=video")

    found = [search(one.text) for one in asked]
    absent = [search(text) for text in listed()["absent"]]
    answers = [moment_of((one.hits or one.near_misses)[0]) for one in found]
    frames, dev = Frames(Lab(chosen.cache), paths), read("video_moments")["dev"]
    ways = {
        "moments": answers,
        "window": [frames.window(one.text, dev["window"]) for one in asked],
        "grown": [frames.grown(one.text, dev["share"]) for one in asked],
    }
    figures = {
        "clips": len(placed),
        "sources": len({clip["from"] for clip in listed()["clips"]}),
        "videos": len(paths),
        "seconds": sum(one.end - one.start for one in placed.values()),
        "queries": len(asked),
        "items": len(retriever.library),
        "window_seconds": dev["window"],
        "ways": {name: shares(asked, some) for name, some in ways.items()},
        "trust": trusted(asked, found, absent),
        "missed": [
            query.text for query, answer in zip(asked, answers, strict=True)
            if not is_near(query, answer)
        ],
        "absent_answered": [
            text for text, one in zip(listed()["absent"], absent, strict=True)
            if one.verdict != "nothing_found"
        ],
    }  # fmt: skip
    print(json.dumps(figures, indent=1))
    ratio = figures["ways"]["moments"]["iou_0.5"] / figures["ways"]["window"]["iou_0.5"]
    print(f"overlap of a half: {ratio:.2f} times as often as the nearest frame with a window")
    print(f"-> {keep(NAME, figures)}")


if __name__ == "__main__":
    main()
