"""What a policy was fitted for, and what is different in a search.

Conditions(model="abc", ...).differences(gallery_size, model="xyz")  ->  [Difference, ...]
"""

from dataclasses import dataclass
from typing import Any

_SIZE_FACTOR = 4.0  # galleries this many times larger than any fitted one are a doubt


@dataclass(frozen=True)
class Difference:
    """One condition that is not as when the policy was fitted."""

    what: str
    """"model", "gallery", "style", "exact" or "size"."""
    fitted: Any
    now: Any

    def __str__(self) -> str:
        if self.what == "size":
            smallest, largest = self.fitted
            return f"fitted on galleries of {smallest} to {largest}, used on one of {self.now}"
        return f"fitted for {self.what} {self.fitted!r}, used for {self.now!r}"


@dataclass(frozen=True)
class Conditions:
    """What a policy was fitted for; its probabilities hold for nothing else."""

    model: str = ""
    """Fingerprint of the model whose similarities it reads."""
    gallery: str = ""
    """Fingerprint of the gallery, if it was fitted on one in particular."""
    style: str = "caption"
    """Kind of queries: captions, object names, photographs."""
    smallest: int = 0
    largest: int = 0
    exact: bool = True
    """Whether whole rows of similarities were given, or only the top k and a sample."""

    def differences(self, gallery_size: int, **now: Any) -> list[Difference]:
        """What is different now; `now` has any of model, gallery, style and exact."""
        found = [
            Difference(key, getattr(self, key), value)
            for key, value in now.items()
            if value is not None and getattr(self, key) not in ("", value)
        ]
        too_large = gallery_size > _SIZE_FACTOR * self.largest
        if too_large or gallery_size * _SIZE_FACTOR < self.smallest:
            found.append(Difference("size", (self.smallest, self.largest), gallery_size))
        return found

    def doubts(self, gallery_size: int, **now: Any) -> list[str]:
        """The differences as sentences; empty if there are none."""
        return [str(one) for one in self.differences(gallery_size, **now)]
