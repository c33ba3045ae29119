"""Videos that are known and the same photographs as pictures, with queries for both.

Half of the videos show photographs in any order. In the other half every photograph is followed
by the one whose captions agree most with its own, as scenes of a film follow one another: there
several neighbouring segments may fit a query.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from avow.blocks.imagenet_names import imagenet_names
from avow.core.contracts import Split
from avow.data.opening import open_dataset
from avow.retrieval import moments as joining
from avow.retrieval.answer import Hit
from avow.retrieval.search import Retriever
from avow.study import relevance_labels as fitting
from avow.study.short_queries import absent_names, noun_names, phrases, with_article
from benchmarks._report import read
from benchmarks.quality._made_videos import STYLES, Plan, Shot, plan
from benchmarks.quality.video_moments import DATASETS, FIRST, SEEDS, SHOTS, VIDEOS, made

ALIKE_FROM = 100
"""Numbers of the videos whose neighbouring shots are alike begin here."""
ABSENT, NAMES = 300, 150


@dataclass(frozen=True)
class Shown:
    """When one photograph of the gallery is shown."""

    video: str
    shot: Shot
    picture: str
    captions: tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """Files, and what is shown when."""

    folder: Path
    shown: list[Shown]
    seconds: float

    @property
    def split(self) -> Split:
        """The photographs that are shown, with their captions."""
        captions = [text for one in self.shown for text in one.captions]
        owner = np.repeat(np.arange(len(self.shown)), [len(one.captions) for one in self.shown])
        return Split(tuple(one.picture for one in self.shown), tuple(captions), owner)

    def photographs(self, hit: Hit) -> list[int]:
        """Which photographs a hit shows: itself, or those whose shots it overlaps by half.

        Half of the shorter of both: a moment may be a part of a shot, or several shots.
        """
        name = Path(hit.path).name
        if hit.start is None or hit.end is None:
            return [n for n, one in enumerate(self.shown) if one.picture == name]
        found = list[int]()
        for number, one in enumerate(self.shown):
            common = min(one.shot.end, hit.end) - max(one.shot.start, hit.start)
            shorter = min(one.shot.end - one.shot.start, hit.end - hit.start)
            if one.video == name and common >= shorter / 2:
                found.append(number)
        return found


def gallery(split_name: str, cache: Path) -> Known:
    """Make the videos, and copy the photographs, where they are not there yet."""
    folder = cache / f"trust-{split_name}"
    for place in ("videos", "pictures"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    shown, seconds = list[Shown](), 0.0
    for planned, split in every_plan(split_name):
        files = list(split.files or ())
        video = made(planned, files, folder / "videos")
        seconds += planned.end - planned.first
        for shot in planned.shots:
            source = files[shot.photograph]
            picture = folder / "pictures" / source.name
            if not picture.exists():
                shutil.copy(source, picture)
            rows = np.flatnonzero(split.image_of == shot.photograph)
            captions = tuple(split.captions[row] for row in rows)
            shown.append(Shown(video.name, shot, picture.name, captions))
    return Known(folder, shown, seconds)


def every_plan(split_name: str) -> Iterator[tuple[Plan, Split]]:
    count = VIDEOS[split_name]
    for name in DATASETS:
        split = open_dataset(name).splits[split_name]
        rng = np.random.default_rng([SEEDS[split_name], len(split.image_ids)])
        drawn = rng.permutation(len(split.image_ids))[: 2 * SHOTS * count]
        mixed, rest = drawn[: SHOTS * count], drawn[SHOTS * count :]
        half = count // 2  # the first styles show the mixed ones, the others those in order
        for number, part in enumerate([*mixed.reshape(-1, SHOTS), *chained(split, rest)]):
            if half <= number < count + half:
                continue
            first = FIRST[split_name] + (ALIKE_FROM - count if number >= count else 0)
            seed = 1000 * len(split.image_ids) + first + number
            style = STYLES[number % len(STYLES)]
            yield plan(f"{name} {split_name}", seed, style, part.tolist()), split


def chained(split: Split, images: np.ndarray) -> np.ndarray:
    """Photographs in rows of `SHOTS`, each followed by the one most alike that is left."""
    rows = np.flatnonzero(np.isin(split.image_of, images))
    place = {image: number for number, image in enumerate(images.tolist())}
    owner = np.array([place[image] for image in split.image_of[rows].tolist()])
    vectors = fitting.sentence_vectors([split.captions[row] for row in rows])
    agreed = fitting.agreement(vectors, vectors, owner, len(images))
    alike = np.stack([agreed[owner == one].mean(0) for one in range(len(images))])
    order, left = [0], set(range(1, len(images)))
    while left:
        following = max(left, key=lambda one: alike[order[-1], one])
        order.append(following)
        left.remove(following)
    return images[order].reshape(-1, SHOTS)


@dataclass(frozen=True)
class Queries:
    """Of one kind, with the photographs that each fits."""

    kind: str
    texts: list[str]
    fits: np.ndarray
    """Queries by photographs."""
    groups: np.ndarray
    """Queries of one group succeed and fail together."""


def expert_curve() -> fitting.FitCurve:
    """From agreement to P(a person says it fits), as `labels` fitted it on experts' images."""
    kept = read("labels")
    row = kept["rows"]["sentence vectors"]
    return fitting.FitCurve(row["slope"], row["offset"], kept["pairs"])


def all_queries(known: Known) -> list[Queries]:
    """Captions, names and phrases that fit something, and names that fit nothing."""
    split = known.split
    said = fitting.sentence_vectors(split.captions)
    agreed = fitting.agreement(said, said, split.image_of, len(split.image_ids))
    fits = fitting.drawn(fitting.labels(agreed, expert_curve(), split.image_of))
    found = [Queries("captions", list(split.captions), fits, split.image_of)]
    for kind, some in (
        ("names", noun_names(split, at_least=2, most=NAMES)),
        ("phrases", phrases(split, at_least=2, most=NAMES)),
    ):
        alone = np.arange(len(some.queries))
        found.append(Queries(kind, list(some.queries), some.match, alone))
    away = absent_names(imagenet_names(), split.captions)
    drawn = np.sort(np.random.default_rng(0).permutation(len(away))[:ABSENT])
    texts = [with_article(away[place]) for place in drawn]
    nothing = np.zeros((len(texts), len(split.image_ids)), bool)
    return [*found, Queries("absent", texts, nothing, np.arange(len(texts)))]


@dataclass(frozen=True)
class Joined:
    """A moment of several segments that was shown."""

    stated: np.ndarray
    """Of its segments."""
    rho: float
    anything: float
    fits: bool


def joined_moments(retriever: Retriever, known: Known, queries: Queries) -> list[Joined]:
    """Moments of several segments among the first ten answers, with what was said of each."""
    found = list[Joined]()
    said: dict[tuple, tuple[int, np.ndarray, float, float]] = {}
    plain = joining._answer

    def noted(group: list[Hit], rho: float, anything: float) -> Hit:
        hit = plain(group, rho, anything)
        stated = np.array([one.p_relevant for one in group], np.float64)
        said[hit.path, hit.start, hit.end] = (len(group), stated, rho, anything)
        return hit

    joining._answer = noted
    try:
        for number, text in enumerate(queries.texts):
            said.clear()
            result = retriever.search(text, where="kind=video")
            for hit in result.hits or result.near_misses:
                many, stated, rho, anything = said[hit.path, hit.start, hit.end]
                if many > 1:
                    fits = bool(queries.fits[number, known.photographs(hit)].any())
                    found.append(Joined(stated, rho, anything, fits))
    finally:
        joining._answer = plain
    return found
