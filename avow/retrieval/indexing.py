"""Folders to an index: files are read in threads while the encoder works on the last batch.

    walk -> survey -> [read and prepare in threads] -> encode -> rows -> catalogue

Run again, it does only what is new, changed, moved or deleted. Stopped or killed at any
moment, it goes on where it was.
"""

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from avow.core.contracts import Encoder
from avow.core.errors import BadData
from avow.core.places import avow_home
from avow.retrieval.catalogue import open_catalogue, sentences
from avow.retrieval.covered import cover
from avow.retrieval.library import other_model
from avow.retrieval.lock import only_writer
from avow.retrieval.reading import Fresh, Loaded, Unreadable, load
from avow.retrieval.spaces import Space
from avow.retrieval.survey import Job, Survey, survey
from avow.retrieval.writer import Entry, Filing, Writer

BATCH = 64


@dataclass
class Report:
    """What a run did; a file counts once."""

    new: int = 0
    changed: int = 0
    moved: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Path and reason, of this run and earlier ones."""
    seconds: float = 0.0
    stopped: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Progress:
    """How far a run is: files read of those that must be."""

    done: int
    total: int
    skipped: int


def index_folders(
    folders: Sequence[str | Path],
    *,
    index: Path | None = None,
    encoder: Encoder,
    rebuild: bool = False,
    dedupe: bool = False,
    engine: str = "exact",
    half: bool = False,
    batch: int = BATCH,
    workers: int = 0,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Report:
    """Bring an index up to date with some folders."""
    started = time.monotonic()
    index = index or avow_home() / "index"
    _make_folder(index)
    with only_writer(index), sentences(index), warnings.catch_warnings():
        # said once for all threads: what decoders grumble about is no matter for the user
        warnings.simplefilter("ignore")
        link = open_catalogue(index, make=True)
        try:
            writer = _writer(link, index, encoder, engine, half, rebuild)
            found = survey(link, folders, index, writer.model, writer.generation)
            cover(index, found.walk.roots)
            run = _Run(writer, encoder, found, batch, workers or _workers())
            report = run.go(progress or (lambda _: None), stop or (lambda: False))
        finally:
            link.close()
    report.seconds = time.monotonic() - started
    return report


class _Run:
    """One pass over the files that must be read."""

    def __init__(
        self, writer: Writer, encoder: Encoder, found: Survey, batch: int, workers: int
    ):
        self.writer, self.encoder, self.found = writer, encoder, found
        self.batch, self.workers = batch, workers
        self.link = writer.link
        self.report = Report(unchanged=found.unchanged)
        self.waiting: list[Entry] = []
        self.missing = dict(found.missing)
        self.missing_by_content: dict[str, list[int]] = {}
        for number, (_, content) in found.missing.items():
            self.missing_by_content.setdefault(content, []).append(number)
        self.known = {row[0] for row in self.link.execute(_KNOWN, self._where())}

    def go(self, progress: Callable[[Progress], None], stop: Callable[[], bool]) -> Report:
        jobs, done = self.found.jobs, 0
        self._list_skipped()
        progress(Progress(0, len(jobs), 0))
        with ThreadPoolExecutor(self.workers) as pool:
            for job, future in self._ahead(pool):
                self._take(job, future)
                if len(self.waiting) >= self.batch:
                    self._flush()
                done += 1
                progress(Progress(done, len(jobs), len(self.report.skipped)))
                if stop():
                    pool.shutdown(cancel_futures=True)
                    self.report.stopped = True
                    break
        self._flush()
        if not self.report.stopped:
            self.writer.forget(self.missing)
            self.report.deleted = len(self.missing)
            self.writer.use()
        rows = self.link.execute("SELECT path, why FROM skipped ORDER BY path")
        self.report.skipped = [(path, why) for path, why in rows]
        return self.report

    def _ahead(self, pool: ThreadPoolExecutor) -> Iterator[tuple[Job, Future[Loaded]]]:
        """Files in order, a bounded number of them being read meanwhile."""
        waiting: deque[tuple[Job, Future[Loaded]]] = deque()
        for job in self.found.jobs:
            waiting.append((job, pool.submit(load, job.seen, self.encoder.prepare, self.known)))
            if len(waiting) > 2 * self.batch + self.workers:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()

    def _take(self, job: Job, future: Future[Loaded]) -> None:
        try:
            loaded = future.result()
        except Unreadable as error:
            self._refuse(job, error)
            return
        number = job.file
        if number is None:
            number = self._moved(loaded)
        if number is None:
            self.report.new += 1
        elif job.file is not None:
            self._count_change(number, loaded)
        self._plan(loaded, number)

    def _moved(self, loaded: Loaded) -> int | None:
        """The number of a missing file with this content, now found again."""
        numbers = self.missing_by_content.get(loaded.content)
        if not numbers:
            return None
        number = numbers.pop()
        del self.missing[number]
        self.writer.move(number, loaded.seen)
        self.report.moved += 1
        return number

    def _count_change(self, number: int, loaded: Loaded) -> None:
        content = self.link.execute(
            "SELECT content FROM files WHERE id = ?", [number]
        ).fetchone()[0]
        if content == loaded.content:
            self.report.unchanged += 1
        else:
            self.report.changed += 1

    def _plan(self, loaded: Loaded, number: int | None) -> None:
        """Decide for each item whether it stays, needs a vector, or is new."""
        filing = Filing(loaded.seen, loaded.content, number, set())
        known = {row[0]: row[1:] for row in self.link.execute(_ITEMS, [*self._where(), number])}
        wanted = []
        for fresh in loaded.items if not loaded.known else [self._copy(loaded.content)]:
            item, content, row = known.get(fresh.part, (None, None, None))
            same = content == fresh.content
            if same and item is not None:
                filing.keep.add(item)
            if not same or row is None:
                wanted.append((fresh, item if same else None))
        if not wanted:
            self.writer.settle_file(filing)
            return
        for place, (fresh, item) in enumerate(wanted, 1):
            self.waiting.append(Entry(filing, fresh, item, place == len(wanted)))
            if len(self.waiting) >= self.batch and place < len(wanted):
                self._flush()

    def _copy(self, content: str) -> Fresh:
        """A picture whose content is in the index already, as it was read then."""
        row = self.link.execute(_TWIN, [*self._where(), content]).fetchone()
        tags = self.link.execute("SELECT tag FROM tags WHERE item = ?", [row[0]]).fetchall()
        return Fresh("", "image", content, None, *row[2:], tuple(tag for (tag,) in tags), None)

    def _flush(self) -> None:
        if self.waiting:
            entries, self.waiting = self.waiting, []
            self.writer.file(entries, self._encoded(entries))

    def _encoded(self, entries: list[Entry]) -> Float32[np.ndarray, "items dim"]:
        out = np.empty((len(entries), self.encoder.dim), np.float32)
        pixels = [n for n, entry in enumerate(entries) if entry.fresh.pixels is not None]
        texts = [n for n, entry in enumerate(entries) if entry.fresh.kind == "text"]
        if pixels:
            stacked = np.stack([np.asarray(entries[n].fresh.pixels) for n in pixels])
            out[pixels] = self.encoder.encode_prepared(stacked)
        if texts:
            out[texts] = self.encoder.encode_texts([entries[n].fresh.text or "" for n in texts])
        for number in set(range(len(entries))) - set(pixels) - set(texts):
            content = entries[number].fresh.content
            row = self.link.execute(_TWIN, [*self._where(), content]).fetchone()[1]
            out[number] = self.writer.vector(row)
        if not np.isfinite(out).all():
            raise BadData(
                f"The model {self.encoder.name!r} gave NaN or infinite numbers. Expected "
                "finite vectors; its weights are damaged."
            )
        return out

    def _refuse(self, job: Job, error: Unreadable) -> None:
        """List a file; what was known of it is gone, unless it may come back."""
        self.writer.skip(job.seen.path, str(error), job.seen, error.again)
        self.report.skipped.append((job.seen.path, str(error)))
        if job.file is not None and not error.again:
            self.writer.forget([job.file])

    def _list_skipped(self) -> None:
        walk = self.found.walk
        for path, why in walk.skipped.items():
            self.writer.skip(path, why)
        listed = [row[0] for row in self.link.execute("SELECT path FROM skipped")]
        gone = [
            path
            for path in listed
            if path not in walk.skipped and path not in walk.files and walk.covers(path)
        ]
        self.writer.unskip(gone)

    def _where(self) -> tuple[str, int]:
        return self.writer.model, self.writer.generation


_STORED = """
FROM items JOIN stored ON item = items.id AND model = ? AND generation = ?
WHERE gone = 0 AND kind = 'image' AND part = ''
"""
_KNOWN = "SELECT DISTINCT content " + _STORED
_TWIN = "SELECT items.id, row, width, height, taken, look " + _STORED + " AND content = ?"
_ITEMS = """
SELECT part, items.id, content, row FROM items
LEFT JOIN stored ON item = items.id AND model = ? AND generation = ?
WHERE file = ? AND gone = 0
"""


def _writer(
    link: Any, index: Path, encoder: Encoder, engine: str, half: bool, rebuild: bool
) -> Writer:
    rows = link.execute("SELECT fingerprint, generation FROM models ORDER BY used DESC")
    models = dict(rows.fetchall())
    if encoder.fingerprint not in models:
        if models and not rebuild:
            raise other_model(index, list(models), encoder.name)
        return Writer.begin(link, index, encoder, engine, half)
    space = Space(index, encoder.fingerprint)
    return Writer(link, space, space.manifest(), models[encoder.fingerprint])


def _make_folder(index: Path) -> None:
    try:
        index.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadData(
            f"The index folder {str(index)!r} cannot be made ({error.strerror}). Expected a "
            "place to write to; name another one with --index."
        ) from error


def _workers() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4
