"""One pass over the files that must be read: threads read ahead, the encoder never waits.

jobs -> [load in threads, a bounded number ahead] -> entries -> encode -> Writer.file

A video is decoded when its turn comes, beside the encoder, as its segments depend on vectors.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Float32

from avow.core.errors import BadFeatures
from avow.core.formats import is_video
from avow.core.searching import LONGEST_TEXT, Encoder
from avow.core.written_text import ReadText
from avow.retrieval.store.changes import Job, Survey, skipped_files
from avow.retrieval.store.indexed_folders import FPS
from avow.retrieval.store.reading import Fresh, Loaded, Unreadable, load
from avow.retrieval.store.report import Absent, Progress, Report
from avow.retrieval.store.video_reading import Stopped, Watch, read_segments
from avow.retrieval.store.writer import Entry, Filing, Writer


class Run:
    """Brings one model's rows up to date with the changes of a survey."""

    def __init__(
        self,
        writer: Writer,
        encoder: Encoder,
        changes: Survey,
        batch: int,
        workers: int,
        prune: bool = False,
        fps: float = FPS,
        read_text: ReadText | None = None,
    ):
        """prune: forget missing files even where they are most of a folder.

        fps: frames a second that are looked at in videos. read_text: recognises what is
        written in pictures.
        """
        self.prune, self.fps, self.read_text = prune, fps, read_text
        self.writer, self.encoder, self.changes = writer, encoder, changes
        self.batch, self.workers, self.link = batch, workers, writer.link
        self.report = Report(unchanged=changes.unchanged)
        self.refused = 0
        self.waiting: list[Entry] = []
        self.missing = dict(changes.missing)
        self.homeless: dict[str, list[int]] = {}
        """Missing files by content, to be recognised elsewhere."""
        for number, (_, content) in changes.missing.items():
            self.homeless.setdefault(content, []).append(number)
        known = _CONTENTS + ("" if read_text is None else " AND text IS NOT NULL")
        self.stored_contents = {row[0] for row in self.link.execute(known, self._space())}
        self.stored_videos = self._stored_videos()

    def go(self, progress: Callable[[Progress], None], stop: Callable[[], bool]) -> Report:
        total = len(self.changes.jobs)
        self.writer.list_skipped(self.changes.walk.skipped, self.changes.skips_gone)
        progress(Progress(0, total, 0))
        pool = ThreadPoolExecutor(self.workers, "avow-read")
        try:
            for done, (job, future) in enumerate(self._ahead(pool), 1):
                try:
                    self._take(job, future, self._watch(job, done - 1, progress, stop))
                except Stopped:
                    self.report.stopped = True
                    break
                if len(self.waiting) >= self.batch:
                    self._flush()
                progress(Progress(done, total, self.refused))
                if stop():
                    self.report.stopped = done < total
                    break
        finally:
            pool.shutdown(cancel_futures=True)
        self._flush()
        if not self.report.stopped:
            self._forget_missing()
        self.report.skipped = skipped_files(self.link)
        return self.report

    def _forget_missing(self) -> None:
        """Forget what is gone, but not most of a folder at once."""
        absent = {} if self.prune else self.changes.absent(self.missing)
        keep = {number for numbers in absent.values() for number in numbers}
        gone = [number for number in self.missing if number not in keep]
        self.writer.forget(gone)
        self.report.deleted = len(gone)
        self.report.absent = [
            Absent(root, len(numbers), self.changes.indexed_before[root])
            for root, numbers in absent.items()
        ]

    def _ahead(self, pool: ThreadPoolExecutor) -> Iterator[tuple[Job, Future[Loaded]]]:
        """Files in order, a bounded number of them being read meanwhile."""
        waiting: deque[tuple[Job, Future[Loaded]]] = deque()
        stored = self.stored_contents | self.stored_videos.keys()
        for job in self.changes.jobs:
            how = (self.encoder.prepare, stored, self.read_text)
            waiting.append((job, pool.submit(load, job.stat, *how)))
            if len(waiting) > 2 * self.batch + self.workers:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()

    def _watch(
        self,
        job: Job,
        done: int,
        progress: Callable[[Progress], None],
        stop: Callable[[], bool],
    ) -> Watch:
        """What a video says of itself while it is read; done: files before it."""
        name, total = os.path.basename(job.stat.path), len(self.changes.jobs)

        def watch(share: float | None) -> bool:
            progress(Progress(done, total, self.refused, name, share))
            return stop()

        return watch

    def _take(self, job: Job, future: Future[Loaded], watch: Watch) -> None:
        try:
            loaded = future.result()
            if is_video(job.stat.suffix) and not loaded.is_stored:
                loaded.items.extend(self._segments(loaded, watch))
        except Unreadable as error:
            self._refuse(job, error)
            return
        moved = self._moved(loaded) if job.file is None else None
        number = job.file if moved is None else moved
        before = self._content(number)
        to_encode = self._plan(loaded, number)
        if moved is not None:
            self.report.moved += 1
        elif not before:
            self.report.new += 1
        elif before != loaded.content:
            self.report.changed += 1
        elif to_encode:  # unchanged, but this model has no vector of it yet
            self.report.new += 1
        else:
            self.report.unchanged += 1

    def _segments(self, loaded: Loaded, watch: Watch) -> list[Fresh]:
        return read_segments(loaded.stat, loaded.content, self.encoder, self.fps, watch)

    def _refuse(self, job: Job, error: Unreadable) -> None:
        """List a file as skipped; forget its items, unless it may be readable later."""
        self.writer.skip(job.stat, str(error), error.again)
        self.refused += 1
        if job.file is not None and not error.again:
            self.writer.forget([job.file])

    def _moved(self, loaded: Loaded) -> int | None:
        """The number of a missing file with the same content, which has been moved here."""
        numbers = self.homeless.get(loaded.content)
        if not numbers:
            return None
        number = numbers.pop()
        del self.missing[number]
        self.writer.move(number, loaded.stat)
        return number

    def _content(self, number: int | None) -> str:
        """Of the file as it was; empty where there was none, or not all of it."""
        question = "SELECT content FROM files WHERE id = ?"
        row = self.link.execute(question, [number]).fetchone()
        return row[0] if row else ""

    def _plan(self, loaded: Loaded, number: int | None) -> bool:
        """Decide for each item whether it stays, needs a vector, or is new."""
        filing = Filing(loaded.stat, loaded.content, number, set())
        rows = self.link.execute(_ITEMS, [*self._space(), number])
        stored = {part: rest for part, *rest in rows}
        wanted = []
        for fresh in self._twins(loaded.content) if loaded.is_stored else loaded.items:
            item, content, row = stored.get(fresh.part, (None, None, None))
            same = content == fresh.content
            if same and item is not None:
                filing.keep.add(item)
                if fresh.kind == "image" and fresh.text is not None:
                    filing.written[item] = fresh.text
            if not same or row is None:
                wanted.append((fresh, item if same else None))
        if not wanted:
            self.writer.settle_file(filing)
        for place, (fresh, item) in enumerate(wanted, 1):
            self.waiting.append(Entry(filing, fresh, item, place == len(wanted)))
            if len(self.waiting) >= self.batch and place < len(wanted):
                self._flush()
        return bool(wanted)

    def _twins(self, content: str) -> list[Fresh]:
        """The items of a content that is in the index already, as they were read then."""
        if content in self.stored_videos:
            number = self.stored_videos[content]
            rows = self.link.execute(_SEGMENTS, [*self._space(), content, number]).fetchall()
        else:
            rows = [self.link.execute(_TWIN, [*self._space(), content]).fetchone()]
        return [self._twin(content, *row) for row in rows]

    def _twin(
        self, content: str, number: int, row: int, part: str, kind: str, *about: Any
    ) -> Fresh:
        tags = self.link.execute("SELECT tag FROM tags WHERE item = ?", [number]).fetchall()
        return Fresh(
            *(part, kind, content, *about),
            tags=tuple(tag for (tag,) in tags),
            vector=self.writer.vector(row),
        )

    def _stored_videos(self) -> dict[str, int]:
        """Contents of videos of which every segment has a row, each with its file's number."""
        if not any(is_video(job.stat.suffix) for job in self.changes.jobs):
            return {}
        return dict(self.link.execute(_VIDEOS, self._space()))

    def _flush(self) -> None:
        if self.waiting:
            entries, self.waiting = self.waiting, []
            vectors = encoded(self.encoder, [entry.fresh for entry in entries])
            self.writer.file(entries, vectors)

    def _space(self) -> tuple[str, int]:
        return self.writer.model, self.writer.generation


def encoded(encoder: Encoder, items: Sequence[Fresh]) -> Float32[np.ndarray, "items dim"]:
    """The vectors of some items: those they bring, and of the others the encoder's."""
    out = np.empty((len(items), encoder.dim), np.float32)
    pixels, texts = [], []
    for place, fresh in enumerate(items):
        if fresh.vector is not None:
            out[place] = fresh.vector
        else:
            (texts if fresh.pixels is None else pixels).append(place)
    if pixels:
        stacked = np.stack([np.asarray(items[n].pixels) for n in pixels])
        out[pixels] = encoder.encode_prepared(stacked)
    if texts:
        written = [(items[n].text or "")[:LONGEST_TEXT] for n in texts]
        out[texts] = encoder.encode_texts(written)
    if not np.isfinite(out).all():
        raise BadFeatures(
            f"The model {encoder.name!r} gave NaN or infinite numbers. Expected "
            "finite vectors; its weights are damaged."
        )
    return out


# what was marked as gone in this run still has its row
_ROWS = "FROM items JOIN stored ON item = items.id AND model = ? AND generation = ? "
_PICTURE = _ROWS + "WHERE kind = 'image' AND part = ''"
_CONTENTS = "SELECT DISTINCT content " + _PICTURE
_ABOUT = "SELECT items.id, row, part, kind, text, width, height, taken, look "
_TWIN = _ABOUT + _PICTURE + " AND content = ?"
_SEGMENTS = _ABOUT + _ROWS + "WHERE kind = 'video' AND content = ? AND file = ?"
_VIDEOS = """
SELECT files.content, files.id FROM items JOIN files ON files.id = items.file
LEFT JOIN stored ON item = items.id AND model = ? AND generation = ?
WHERE kind = 'video' AND items.gone = 0 AND files.gone = 0 AND items.content = files.content
GROUP BY files.id HAVING count(*) = count(row)
"""
_ITEMS = """
SELECT part, items.id, content, row FROM items
LEFT JOIN stored ON item = items.id AND model = ? AND generation = ?
WHERE file = ? AND gone = 0
"""
