"""The promises a search stands on: a joint space to encode into, and an index of vectors.

    photographs, texts --Encoder--> vectors --Index--> the nearest, and how near

The dot product of two vectors is the similarity of what they stand for, so any engine that
finds large dot products can serve.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from avow.core.evidence import EvidenceKind
from avow.core.fingerprint import LENGTH
from avow.core.shapes import Bool, Float, Float32, Int64

LONGEST_TEXT = 10_000
"""Characters of a text that an encoder is given; models read far fewer."""


class Encoder(ABC):
    """A joint space that a search can stand on: photographs and texts to vectors.

    The dot product of a photograph's and a text's vector is their similarity in [-1, 1],
    averaged over views: each view's unit vector is divided by the root of their number.
    """

    name: str
    """What a user calls it: "default", a folder, a name of a hub."""
    fingerprint: str
    """Changes with any weight and any step of the preprocessing."""
    dim: int
    views: int
    tau: float
    kind: EvidenceKind
    grid: int = 0
    """Cells per side that `encode_cells` can leave out; 0: it has none."""
    english: bool = False
    """Whether English is all it reads: words of other languages mean nothing to it."""
    vocabulary: frozenset[str] | None = None
    """All words that mean something to it; None: it reads others as well, piece by piece."""
    bank: tuple[str, ...] = ()
    """Reference queries, to know what is usual for an item; may be empty."""

    @abstractmethod
    def prepare(self, photograph: Image.Image) -> np.ndarray:
        """One photograph to what `encode_prepared` takes; runs on many cores."""

    @abstractmethod
    def encode_prepared(self, pixels: np.ndarray) -> Float[np.ndarray, "items dim"]: ...

    def encode_cells(
        self, pixels: np.ndarray, present: Bool[np.ndarray, "ways cells"]
    ) -> Float[np.ndarray, "ways dim"]:
        """One prepared photograph, each time with some of its grid cells, row by row."""
        raise NotImplementedError("this model has no cells")

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> Float[np.ndarray, "items dim"]: ...

    def packed_bank(self) -> Float[np.ndarray, "queries dim"] | None:
        """The vectors of `bank`, where they come with the model; None: to be encoded."""
        return None

    def quicken(self) -> None:  # noqa: B027  # most have one way only
        """Prepare for many single questions, where that takes a while and pays later."""

    def encode_images(
        self, photographs: Sequence[Image.Image]
    ) -> Float[np.ndarray, "items dim"]:
        return self.encode_prepared(np.stack([self.prepare(one) for one in photographs]))


Queries = Float32[np.ndarray, "queries dim"]
Ids = Int64[np.ndarray, " chosen"]
Nearest = tuple[Int64[np.ndarray, "queries hits"], Float32[np.ndarray, "queries hits"]]
"""Ids of the nearest items of each query, and their scores."""


class Index(ABC):
    """Vectors by number, and the nearest of them: one file in `indexes/`."""

    dim: int
    exact: bool
    """Whether a search looks at every vector."""

    @abstractmethod
    def add(
        self, ids: Int64[np.ndarray, " items"], vectors: Float32[np.ndarray, "items dim"]
    ) -> None:
        """Put vectors in; an id that is there already is replaced."""

    @abstractmethod
    def delete(self, ids: Int64[np.ndarray, " items"]) -> None:
        """Take vectors out; ids that are not there are ignored."""

    @abstractmethod
    def search(self, queries: Queries, k: int, among: Ids | None = None) -> Nearest:
        """The k largest dot products, best first, ties by the smaller id.

        among: only these ids count. Where there are fewer than k, all are found.
        """

    @abstractmethod
    def ids(self) -> Int64[np.ndarray, " items"]:
        """Every id, ascending."""

    @abstractmethod
    def vectors(self, ids: Int64[np.ndarray, " items"]) -> Float32[np.ndarray, "items dim"]:
        """The vectors of ids that are there, as they are stored."""

    @abstractmethod
    def save(self, folder: Path) -> None: ...

    @classmethod
    @abstractmethod
    def open(cls, folder: Path, dim: int) -> "Index": ...

    @classmethod  # noqa: B027  # most keep all they have in the folder
    def forget(cls, folder: Path) -> None:
        """Remove what an index saved to `folder` keeps elsewhere, before the folder goes."""

    def close(self) -> None:  # noqa: B027  # most engines hold nothing
        """Let go of what is held outside this process."""

    def __len__(self) -> int:
        return len(self.ids())

    def fingerprint(self) -> str:
        """Changes with the content, not with the order in which it was added."""
        digest = hashlib.sha256(self.dim.to_bytes(8, "big"))
        ids = self.ids()
        for start in range(0, len(ids), 4096):
            part = ids[start : start + 4096]
            digest.update(part.tobytes())
            digest.update(np.ascontiguousarray(self.vectors(part)).tobytes())
        return digest.hexdigest()[:LENGTH]
