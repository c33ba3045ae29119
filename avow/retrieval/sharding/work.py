"""What a worker does: read the files of one unit, encode them, give back a part.

    records --threads--> loaded items --batches--> vectors --> part

At most a batch and what is read ahead of it is held at once.
"""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from avow.core.formats import is_video
from avow.core.photographs import UNTRUSTED
from avow.core.searching import Encoder
from avow.core.written_text import ReadText
from avow.retrieval.sharding.opening import open_source
from avow.retrieval.sharding.part import Outcome, packed
from avow.retrieval.sharding.plan import Unit
from avow.retrieval.sharding.source import Record, Source
from avow.retrieval.store.ingest import encoded
from avow.retrieval.store.reading import Fresh, Loaded, Unreadable
from avow.retrieval.store.video_reading import read_segments


@dataclass(frozen=True)
class Work:
    """What is the same for all units of a run."""

    sources: tuple[str, ...]
    fingerprint: str
    """Of the model; a worker that has another one of this name is refused."""
    batch: int
    threads: int
    fps: float
    ocr: bool
    untrusted: str = field(default_factory=lambda: os.environ.get(UNTRUSTED, ""))
    """Whether pictures are those of strangers, as the process says that plans the run."""


class Worker:
    """One process with its encoder, its sources and its reader of text."""

    def __init__(self, work: Work, encoder: Encoder, read_text: ReadText | None):
        self.work, self.encoder, self.read_text = work, encoder, read_text
        self.sources = [open_source(name) for name in work.sources]

    def encode(self, unit: Unit) -> bytes:
        """The part of one unit. The same unit gives the same part, whoever encodes it."""
        outcomes: list[Outcome] = []
        vectors: list[np.ndarray] = []
        waiting: list[Fresh] = []
        with ThreadPoolExecutor(self.work.threads, "avow-read") as pool:
            for record, future in self._ahead(self.sources[unit.source], unit, pool):
                outcome = self._outcome(record, future)
                if outcome.loaded is not None:
                    waiting += outcome.loaded.items
                    bare = [replace(item, pixels=None) for item in outcome.loaded.items]
                    outcome = replace(outcome, loaded=replace(outcome.loaded, items=bare))
                outcomes.append(outcome)
                while len(waiting) >= self.work.batch:
                    vectors.append(encoded(self.encoder, waiting[: self.work.batch]))
                    del waiting[: self.work.batch]
        vectors.append(encoded(self.encoder, waiting))
        return packed(outcomes, np.concatenate(vectors), self.work.fingerprint)

    def _ahead(
        self, source: Source, unit: Unit, pool: ThreadPoolExecutor
    ) -> Iterator[tuple[Record, Future[Loaded]]]:
        waiting: deque[tuple[Record, Future[Loaded]]] = deque()
        for stat in unit.files:
            for record in source.records(stat):
                how = (self.encoder.prepare, self.read_text)
                waiting.append((record, pool.submit(record.load, *how)))
                if len(waiting) > self.work.batch + self.work.threads:
                    yield waiting.popleft()
        while waiting:
            yield waiting.popleft()

    def _outcome(self, record: Record, future: Future[Loaded]) -> Outcome:
        try:
            loaded = future.result()
            if is_video(record.stat.suffix):
                how = (self.encoder, self.work.fps, lambda _: False)
                loaded.items.extend(read_segments(loaded.stat, loaded.content, *how))
            return Outcome(loaded.stat, loaded)
        except Unreadable as error:
            return Outcome(record.stat, error=error)
