"""Photographs of an index as galleries of tens of thousands, with what is known of them.

The index holds all of COCO's train2017 and Flickr8k, encoded by the default model. Objects are
listed for each photograph of COCO's train split, and captions are known of a part. Photographs
that help to fit a policy and those that check it are apart: by their names, and the test
splits check alone.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from avow.audit.parts import Pairs
from avow.blocks.imagenet_names import imagenet_names
from avow.core.background import Background
from avow.core.contracts import Split
from avow.data.opening import dataset_file, open_dataset
from avow.retrieval.encoders.onnx import OnnxEncoder
from avow.retrieval.gallery import SAMPLE, Gallery, QueryScores
from avow.retrieval.library import Library
from avow.retrieval.open_index import Choice
from avow.study.short_queries import absent_names, read_objects, with_article
from avow.trust.top_k import SHOWN, TopKSummary
from benchmarks.quality.people import together

CAPTIONS = 4
"""Of a photograph, at least: of one with fewer, much is not said that it shows."""
AT_ONCE = 20_000
"""Photographs read from the index, or compared with queries, at once."""


@dataclass(frozen=True)
class Photographs:
    """Vectors of some photographs, and what is usual for them."""

    vectors: np.ndarray
    usual: Background

    def only(self, rows: np.ndarray) -> "Photographs":
        return Photographs(self.vectors[rows], self.usual.of(rows))


class Known:
    """The photographs of an index by their names."""

    def __init__(self, index: Path, encoder: OnnxEncoder):
        self.index, self.encoder = index, encoder

    @cached_property
    def _all(self) -> tuple[dict[str, int], Photographs]:
        with Library.open(self.index, self.encoder) as library:
            ids = library.find()
            row = {Path(item.path).name: n for n, item in enumerate(library.items(ids))}
            parts = [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]
            vectors = np.concatenate([library.vectors(part) for part in parts])
            usual = [one for part in parts if (one := library.usual(part)) is not None]
        fields = ("log_mean", "mean", "spread", "top")
        joined = (np.concatenate([getattr(one, key) for one in usual], 1) for key in fields)
        return row, Photographs(vectors, Background(usual[0].queries, usual[0].tau, *joined))

    def of(self, names: Sequence[str]) -> Photographs:
        row, every = self._all
        return every.only(np.array([row[Path(name).name] for name in names]))


@dataclass(frozen=True)
class Side:
    """Photographs with captions, and photographs with lists of objects."""

    captioned: Split
    objects: Mapping[str, tuple[str, ...]]

    @classmethod
    def to_fit(cls) -> "Side":
        listed = read_objects(dataset_file("coco", "objects_dev.json"))
        return cls.of("dev", 0, listed)

    @classmethod
    def to_check(cls) -> "Side":
        return cls.of("test", 1, {})

    @classmethod
    def of(cls, part: str, side: int, listed: Mapping[str, tuple[str, ...]]) -> "Side":
        coco, flickr = open_dataset("coco").splits, open_dataset("flickr8k").splits
        train = coco["train"]
        enough = np.bincount(train.image_of, minlength=len(train.image_ids)) >= CAPTIONS
        here = np.array([side_of(name) == side for name in train.image_ids])
        captioned = together([flickr[part], coco[part], some_of(train, enough & here)])
        every = read_objects(dataset_file("coco", "objects.json"))
        own = {name: held for name, held in every.items() if side_of(name) == side}
        return cls(captioned, own | dict(listed))

    @staticmethod
    def few(side: int, count: int) -> dict[str, tuple[str, ...]]:
        """Objects of as many of COCO's train photographs, the same whatever an index holds."""
        every = read_objects(dataset_file("coco", "objects.json"))
        own = sorted((name for name in every if side_of(name) == side), key=_number)
        return {name: every[name] for name in own[:count]}

    @staticmethod
    def test_photographs() -> set[str]:
        """Names of the photographs that trained nothing and fitted nothing."""
        names = (open_dataset(name).splits["test"].image_ids for name in ("coco", "flickr8k"))
        return {name for some in names for name in some}


def absent_larger() -> list[str]:
    """Names of ImageNet's classes that no training caption of COCO has a word of."""
    captions = open_dataset("coco").splits["train"].captions
    return absent_names([with_article(name) for name in imagenet_names()], captions)


def side_of(name: str) -> int:
    """0: to fit, 1: to check."""
    return _number(name) % 2


def _number(name: str) -> int:
    return zlib.crc32(Path(name).name.encode())


def some_of(split: Split, kept: np.ndarray) -> Split:
    """The photographs of a split that a mask keeps, with their captions."""
    pairs = Pairs.of(split, np.flatnonzero(kept))
    return Split(pairs.image_ids, pairs.captions, pairs.image_of)


@dataclass(frozen=True)
class Answers:
    """What a search over a gallery sees of some queries."""

    ids: np.ndarray
    scores: QueryScores
    summary: TopKSummary
    gallery: Gallery


def ask(
    photographs: Photographs, queries: np.ndarray, encoder: OnnxEncoder, seed: int = 0
) -> Answers:
    """As a search does it: the best by their mean over views, and a sample of the gallery."""
    vectors, usual = photographs.vectors, photographs.usual
    count = len(vectors)
    sample = np.sort(np.random.default_rng(seed).permutation(count)[:SAMPLE])
    choice = Choice(count, True, sample, None, "image", np.arange(count))
    gallery = Gallery(choice, np.ascontiguousarray(vectors[sample]), usual.of(sample))
    ids = nearest(vectors, queries)
    scores = QueryScores.of(gallery, queries, vectors[ids], ids, encoder.views)
    summary = scores.summary(encoder.tau, usual.of(ids.ravel()), gallery.usual)
    return Answers(ids, scores, summary, gallery)


def nearest(vectors: np.ndarray, queries: np.ndarray) -> np.ndarray:
    best = np.empty((len(queries), 0), np.int64)
    scores = np.empty((len(queries), 0), np.float32)
    for start in range(0, len(vectors), AT_ONCE):
        block = queries @ vectors[start : start + AT_ONCE].T
        ids = np.broadcast_to(np.arange(start, start + block.shape[1]), block.shape)
        best, scores = np.concatenate([best, ids], 1), np.concatenate([scores, block], 1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :SHOWN]
        best = np.take_along_axis(best, order, 1)
        scores = np.take_along_axis(scores, order, 1)
    return best
