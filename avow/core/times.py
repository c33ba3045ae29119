"""When visual items begin and end in their videos. Needs no torch."""

from dataclasses import dataclass

import numpy as np

from avow.core.errors import BadData
from avow.core.shapes import Bool, Float, Int


@dataclass(frozen=True)
class Times:
    """Start and end of every item, in seconds of its file; a photograph has neither.

    An item may be a whole video or a moment of it. Times are those of the decoded frames,
    which are not multiples of 1 / rate where the frame rate varies.
    """

    start: Float[np.ndarray, " items"]
    end: Float[np.ndarray, " items"]
    rate: Float[np.ndarray, " _"] | None = None
    """Frames per second of the features that were extracted; None: unknown."""

    def __post_init__(self) -> None:
        lengths = {len(self.start), len(self.end)}
        lengths |= set() if self.rate is None else {len(self.rate)}
        if len(lengths) > 1:
            raise BadData(
                f"The times are of {' and '.join(map(str, sorted(lengths)))} items. Expected "
                "one start, end and frame rate for every item."
            )
        wrong = ~((self.start >= 0) & (self.end > self.start) & np.isfinite(self.end))
        if self.rate is not None:
            wrong |= ~((self.rate > 0) & np.isfinite(self.rate))
        if wrong.any():
            item = int(np.flatnonzero(wrong)[0])
            rate = "" if self.rate is None else f" at {self.rate[item]} frames per second"
            raise BadData(
                f"Item {item} lasts from '{self.start[item]}' to '{self.end[item]}' seconds"
                f"{rate}. Expected 0 <= start < end and a positive frame rate; correct the "
                "times of the dataset."
            )

    def __len__(self) -> int:
        return len(self.start)

    @property
    def seconds(self) -> Float[np.ndarray, " items"]:
        """How long every item lasts."""
        return self.end - self.start

    def rows(self, chosen: Int[np.ndarray, " chosen"] | Bool[np.ndarray, " items"]) -> "Times":
        """The times of some items."""
        rate = None if self.rate is None else self.rate[chosen]
        return Times(self.start[chosen], self.end[chosen], rate)
