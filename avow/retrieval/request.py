"""A search on its way: the request, and the best items that were found for it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64

from avow.retrieval.commonness import commonness
from avow.retrieval.gallery import Gallery
from avow.retrieval.question import Style
from avow.retrieval.understanding import Understanding
from avow.retrieval.where import Where


@dataclass(frozen=True)
class Request:
    """A search from here on: its query is a vector, and its filter is parsed."""

    query: dict[str, Any]
    """As the result repeats it."""
    style: Style
    vector: Float32[np.ndarray, " dim"]
    kind: str
    k: int
    risk: float | None = None
    where: Where | None = None
    but: int | None = None
    """An item that is no answer, because the others are compared with it."""
    asked: str = ""
    """The text as the model read it: a name in one form, whatever form was typed."""
    understanding: Understanding | None = None
    """What was understood of a text, where the model reads English alone."""
    leaving: "Request | None" = None
    """What the hits must not show, as a search of its own."""

    @property
    def words(self) -> Int64[np.ndarray, " 1"]:
        return np.array([len(self.asked.split())])

    @property
    def common(self) -> Float64[np.ndarray, " 1"] | None:
        return commonness([self.asked]) if self.asked else None


@dataclass(frozen=True)
class Candidates:
    """The best items of a gallery with their scores."""

    gallery: Gallery
    ids: Int64[np.ndarray, " found"]
    scores: Float32[np.ndarray, " found"]
    sampled: Float32[np.ndarray, " sample"] | None = None
    """Scores of the gallery's sample, where they came with the search."""
