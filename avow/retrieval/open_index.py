"""An index opened for reading, wherever it lives: what a search, its trust and the faces need.

`library.py` opens a folder of this machine, `shared_library.py` a store that many share.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.background import Background
from avow.core.searching import Queries
from avow.core.shapes import Float32, Int64
from avow.retrieval.store.feedback import Feedback
from avow.retrieval.store.items import Item
from avow.retrieval.where import Where

Numbers = Sequence[int] | Int64[np.ndarray, " items"]
"""Of items."""


@dataclass(frozen=True)
class Skipped:
    """A file that is not in the index, and why."""

    path: str
    why: str
    when: float


@dataclass(frozen=True)
class Choice:
    """What a filter leaves of an index, and a uniform sample of it."""

    count: int
    whole: bool
    """Whether that is everything, so that nothing must be chosen."""
    sampled: Int64[np.ndarray, " sample"]
    """Ascending."""
    where: Where | None
    kind: str
    ids: Int64[np.ndarray, " items"] | None = None
    """All of them, ascending, where the index is on this machine."""


@dataclass(frozen=True)
class Found:
    """The nearest items of some queries, best first."""

    ids: Int64[np.ndarray, "queries hits"]
    scores: Float32[np.ndarray, "queries hits"]
    sampled: Float32[np.ndarray, "queries sample"] | None = None
    """Scores of the sample, where they cost nothing."""
    missing: tuple[str, ...] = ()
    """Sentences on parts of the index that did not answer; then nothing is judged."""


class OpenIndex(ABC):
    """The items of an index, their vectors, and the search over them."""

    folder: Path
    """Where the files lie that belong to the index: policies, and what its manifest says."""

    @property
    @abstractmethod
    def address(self) -> str:
        """What a user calls it."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Of the model and the items: changes with every change of the index."""

    @property
    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """The model, and how its vectors are kept and searched."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def dim(self) -> int:
        return self.manifest["dim"]

    # --- items ------------------------------------------------------------------------

    @abstractmethod
    def items(self, ids: Numbers) -> list[Item]:
        """The items with these numbers, in this order."""

    @abstractmethod
    def vectors(self, ids: Numbers) -> Float32[np.ndarray, "items dim"]: ...

    @abstractmethod
    def usual(self, ids: Numbers) -> Background | None:
        """What is usual for these items, where the model has a bank of queries for them."""

    @abstractmethod
    def find(self, where: Where | None = None, kind: str = "image") -> Int64[np.ndarray, " n"]:
        """The numbers of all items of a kind that pass a filter, ascending."""

    def count(self, where: Where | None = None, kind: str = "image") -> int:
        """How many items of a kind pass a filter."""
        return len(self.find(where, kind))

    @abstractmethod
    def filter_apart(self) -> None:
        """Run filters in another process from now on, where they would run in this one."""

    @abstractmethod
    def choose(self, where: Where | None, kind: str, most: int) -> Choice:
        """What passes a filter, with a sample of at most so many."""

    @abstractmethod
    def nearest(self, queries: Queries, k: int, choice: Choice) -> Found:
        """The nearest of the chosen items to each query, best first."""

    @abstractmethod
    def written(self, text: str) -> list[int]:
        """Pictures in which the words of a text are written, those as they stand first."""

    @abstractmethod
    def segments(self, item_id: int) -> list[int]:
        """The numbers of all segments of the video that an item is of, in order of time."""

    @abstractmethod
    def videos(self) -> tuple[int, int]:
        """How many videos there are, and how many segments of them."""

    @abstractmethod
    def refresh(self) -> bool:
        """Pick up what was committed since; whether anything was."""

    @abstractmethod
    def check_reachable(self) -> None:
        """Ask the store one short question, whatever other threads wait for."""

    # --- what belongs to it -----------------------------------------------------------

    @abstractmethod
    def skipped(self) -> list[Skipped]:
        """Files that could not be indexed, by path."""

    @abstractmethod
    def folders(self) -> list[str]:
        """The folders that were indexed."""

    @abstractmethod
    def attach(self, path: Path) -> None:
        """Keep a file of the model's folder with the index, so that its loss is noticed."""

    def keep(self, path: Path) -> None:  # noqa: B027  # a folder has it already
        """Give a file of the model's folder to all who share the index."""

    @abstractmethod
    def detach(self, name: str) -> bool:
        """Remove an attached file on purpose; whether there was one."""

    @abstractmethod
    def check_attached(self, name: str) -> None:
        """Refuse to go on without a file that was attached and is no longer there."""

    @abstractmethod
    def set_feedback(self, query: dict[str, Any], item_id: int, good: bool | None) -> None:
        """Keep an opinion on an answer in place of an earlier one; None takes it back."""

    @abstractmethod
    def record(self, query: dict[str, Any], item_id: int, good: bool) -> None:
        """Add feedback on an answer, beside earlier feedback on it."""

    def retract(self, query: dict[str, Any], item_id: int) -> None:
        """Remove all feedback on an answer."""
        self.set_feedback(query, item_id, None)

    @abstractmethod
    def feedback(self) -> list[Feedback]:
        """All feedback, oldest first."""

    def feedback_count(self) -> int:
        """How many opinions the index holds."""
        return len(self.feedback())

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> "OpenIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
