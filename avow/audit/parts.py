"""What judges a part of the pairs: the contract between an audit and a model of any kind."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.core.datasets import PairedDataset, Split

Progress = Callable[[int], Any]
"""Called with the number of pairs that are done."""
Compare = Callable[
    [Int[np.ndarray, " images"], Int[np.ndarray, " texts"]],
    Sequence[Float[np.ndarray, "images texts"]],
]
"""Similarities of some images with some captions of the part, one matrix per view."""


@dataclass(frozen=True)
class Origins:
    """Which split each pair comes from, where all splits are judged as one."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    """Pairs of each split, one split after the other."""

    def of(self, pair: int) -> tuple[str, int]:
        """The split of a pair, and its place there."""
        for name, count in zip(self.names, self.counts, strict=True):
            if pair < count:
                return name, pair
            pair -= count
        raise IndexError(pair)


@runtime_checkable
class PairedSplit(Protocol):
    """Images and their captions; `assembly.pairs.FeaturedSplit` is one."""

    @property
    def image_ids(self) -> tuple[str, ...]: ...
    @property
    def captions(self) -> tuple[str, ...]: ...
    @property
    def image_of(self) -> Int[np.ndarray, " captions"]: ...
    @property
    def kept(self) -> Int[np.ndarray, " captions"] | None:
        """For each caption, its place in the split before some were left out."""
        ...


@dataclass(frozen=True)
class Pairs:
    """Images that can be judged, and their captions."""

    image_ids: tuple[str, ...]
    captions: tuple[str, ...]
    image_of: Int[np.ndarray, " captions"]
    kept: Int[np.ndarray, " captions"] | None = None

    @classmethod
    def of(cls, split: Split, images: Int[np.ndarray, " images"]) -> "Pairs":
        """Some images of a split in their order, with all their captions."""
        place = np.full(len(split.image_ids), -1, np.int64)
        place[images] = np.arange(len(images))
        chosen = np.flatnonzero(place[split.image_of] >= 0)
        return cls(
            tuple(split.image_ids[index] for index in images),
            tuple(split.captions[index] for index in chosen),
            place[split.image_of[chosen]],
            chosen,
        )


@dataclass(frozen=True)
class Part(ABC):
    """Images and captions of a split that one model judges."""

    captions: Int[np.ndarray, " captions"]
    """For each caption, its place in the whole split."""
    split: PairedSplit
    views: int
    tau: float

    @abstractmethod
    def identity(self) -> Iterator[str]:
        """Names of the model and of what it reads: results are kept for these alone."""

    @abstractmethod
    def encode(self, device: str, progress: Progress) -> Compare:
        """Encode every image and caption once; returns what compares them."""


@dataclass(frozen=True)
class Judges:
    """A split, and which model judges which part of it."""

    dataset: PairedDataset
    whole: PairedSplit
    parts: Sequence[Part]
    seen: Bool[np.ndarray, " captions"] | None
    """Which pairs the models have learnt from; None: none."""
    judged_by: str
    device: str = "cpu"
    split: str = "train"
    origins: Origins | None = None
    """Where each pair comes from, where all splits are judged as one."""
