"""The level of a name: the evidence that pictures of what it names usually have.

    vector of the query --ridge regression--> mean relative evidence of pictures that fit

Pictures of a zebra stand out for "a zebra" far more than those of a cup do for "a cup", and as
much between names as within one. So the same evidence of the best hits says that no zebra is
there, and that a cup is. The level of a name that taught nothing follows in part from its
vector: names of similar things have similar levels.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from avow.core.errors import BadData
from avow.core.shapes import Float

LEVEL = "level"
"""The name of the column, where a probability reads it."""


@dataclass(frozen=True)
class Level:
    """A linear map from the vector of a query to a level."""

    weights: tuple[float, ...]
    offset: float

    def __post_init__(self) -> None:
        if not np.isfinite([*self.weights, self.offset]).all():
            raise ValueError("the weights of a level are not all finite numbers")

    def __call__(
        self, vectors: Float[np.ndarray, "queries dim"]
    ) -> Float[np.ndarray, " queries"]:
        return vectors.astype(np.float64) @ self._weights + self.offset

    def of(
        self, vectors: Float[np.ndarray, "queries dim"] | None
    ) -> Float[np.ndarray, " queries"]:
        """The same for what a search passes; BadData where that is none, or another model's."""
        if vectors is None:
            raise BadData(
                "The policy reads the vectors of queries. Expected `vectors`, one for every "
                "query; pass what the model gives."
            )
        if vectors.shape[1] != len(self.weights):
            raise BadData(
                f"The vectors have {vectors.shape[1]} numbers each. Expected "
                f"{len(self.weights)}, as of the model that the policy was fitted for; pass "
                "that model's vectors."
            )
        return self(vectors)

    @cached_property
    def _weights(self) -> Float[np.ndarray, " dim"]:
        return np.array(self.weights)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Level":
        return cls(tuple(map(float, content["weights"])), float(content["offset"]))
