"""Searches that wait for their turn are answered together with the one whose turn it is.

    texts that wait and are asked alike --one pass--> a result for each

A pass over a large index takes hardly longer for ten queries than for one. Nobody waits for
more to come: the one whose turn it is takes along those who wait already.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

from avow.retrieval.answer import SearchResult
from avow.retrieval.search import Retriever


@dataclass(eq=False)
class Waiting:
    """A text that somebody searches for."""

    text: str
    settings: dict[str, Any]
    """The other arguments of `Retriever.search`: those of one pass share them."""
    results: list[SearchResult] = field(default_factory=list)
    """One, as soon as it is answered."""
    alone: bool = False
    """Whether it is asked by itself: a pass with others failed, and one may be to blame."""


class Together:
    """Whoever waits, and the answers.

    most: searches of one pass. seconds: that it may take. An engine that gains nothing from
    several queries at once would let the first of them wait for all, so fewer are taken along.
    """

    def __init__(self, retriever: Retriever, most: int, seconds: float):
        self._retriever, self._most, self._seconds = retriever, most, seconds
        self._waiting: list[Waiting] = []
        self._answering: list[Waiting] = []
        self._changed = Condition()
        self._each = seconds  # of the last pass, for each of its searches; none was there yet

    def enter(self, text: str, settings: dict[str, Any]) -> Waiting:
        """Wait from now on, until `answer` or `leave`."""
        waiting = Waiting(text, settings)
        with self._changed:
            self._waiting.append(waiting)
        return waiting

    def leave(self, waiting: Waiting) -> None:
        """Nobody wants the answer any more, or it is there."""
        with self._changed:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def answer(self, waiting: Waiting) -> SearchResult:
        """The result of its turn, or of an earlier one; raises what searching alone raises."""
        while not waiting.results:
            with self._changed:
                self._changed.wait_for(lambda: waiting not in self._answering)
                taken = [] if waiting.results else self._take(waiting)
            if taken:
                self._search(taken)
        return waiting.results[0]

    def _take(self, waiting: Waiting) -> list[Waiting]:
        """This one first, then those that are asked alike."""
        count = min(self._most, self._seconds / self._each)
        others = [
            one
            for one in self._waiting
            if one is not waiting and not one.alone and one.settings == waiting.settings
        ]
        taken = [waiting, *([] if waiting.alone else others[: max(0, int(count) - 1)])]
        self._waiting = [one for one in self._waiting if one not in taken]
        self._answering += taken
        return taken

    def _search(self, taken: Sequence[Waiting]) -> None:
        started = time.perf_counter()
        first, results = taken[0], []
        try:
            if len(taken) == 1:
                results = [self._retriever.search(first.text, **first.settings)]
            else:
                texts = [one.text for one in taken]
                results = self._retriever.search_many(texts, **first.settings)
        except Exception:
            if len(taken) == 1:
                raise
        finally:
            with self._changed:
                self._each = (time.perf_counter() - started) / len(taken)
                self._answering = [one for one in self._answering if one not in taken]
                for one, result in zip(taken, results, strict=False):
                    one.results.append(result)
                for one in taken[len(results) :]:
                    one.alone = True
                self._changed.notify_all()
