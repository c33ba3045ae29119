"""Folders to a shared store: the readers and encoders of `indexing`, rows by stable ids.

    walk -> compare with the store's files -> [read in threads] -> encode -> store.put

Several machines may index into one store at once. A run that is killed goes on where it was:
a file counts as there when all its rows are, and a row put twice is one row.
"""

import json
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from avow.core.errors import BadData
from avow.core.formats import is_video
from avow.core.searching import Encoder
from avow.retrieval.shared_library import FOLDERS, SKIPPED
from avow.retrieval.shared_preparing import How, open_for_writing
from avow.retrieval.store.changes import Survey, may_work_now
from avow.retrieval.store.indexed_folders import FPS
from avow.retrieval.store.ingest import encoded
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.reading import Fresh, Loaded, Unreadable, load
from avow.retrieval.store.report import Absent, Progress, Report
from avow.retrieval.store.video_reading import Stopped, Watch, read_segments
from avow.retrieval.store.walk import FileStat, Walk, under, walk
from avow.retrieval.store_contract import Present, Row, SharedStore, item_id
from avow.retrieval.store_documents import skip_of

SETTINGS = "setting"
"""The subject of notes on how folders are read."""
Told = tuple[Callable[[Progress], None], Callable[[], bool]]
"""Progress, and whether to stop."""


def index_shared(
    store: SharedStore,
    folders: Sequence[str | Path],
    encoder: Encoder,
    how: How,
    progress: Callable[[Progress], None],
    stop: Callable[[], bool],
) -> Report:
    """Bring a shared store up to date with some folders, or sources of another kind."""
    if how.in_units:
        from avow.retrieval.shared_sources import index_sources  # most indexes do without

        return index_sources(store, [str(f) for f in folders], encoder, how, (progress, stop))
    listing = walk(folders)
    if not (listing.files or listing.skipped or _holds(store, listing.roots)):
        raise BadData(
            f"There is nothing to index in {', '.join(repr(str(f)) for f in folders)}. "
            "Expected photographs, videos or texts; check the folder."
        )
    return fill(
        *(store, encoder, how, lambda filler, _: SharedRun(filler, listing, how)),
        *(listing.roots, (progress, stop)),
    )


def _holds(store: SharedStore, roots: Sequence[str]) -> bool:
    """Whether one of these folders was indexed before; it may be empty now."""
    return store.current() is not None and not store.notes(FOLDERS).keys().isdisjoint(roots)


def fill(
    store: SharedStore,
    encoder: Encoder,
    how: How,
    prepare: Callable[["Filler", Path], "SharedRun"],
    covered: Sequence[str],
    told: Told,
) -> Report:
    """Make ready the rows of a model, run over what must be read, and show the rows.

    prepare: given an empty folder that lasts as long as the run. covered: what is noted as
    indexed.
    """
    started = time.monotonic()
    current = open_for_writing(store, encoder, how)
    with tempfile.TemporaryDirectory(prefix="avow-") as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of image decoders do not concern the user
        (bank := Path(place) / "bank").mkdir()
        (work := Path(place) / "work").mkdir()
        report = prepare(Filler(store, encoder, bank), work).go(*told)
    store.note(FOLDERS, dict.fromkeys(covered, ""))
    if not report.stopped and (current is None or current.generation != store.generation):
        store.publish()
    report.seconds = time.monotonic() - started
    return report


class Filler:
    """Puts items into a store with what is usual for them."""

    def __init__(self, store: SharedStore, encoder: Encoder, place: Path):
        """place: an empty folder, for the encoded bank of the model."""
        self.store, self.encoder = store, encoder
        self._space = Space(place, encoder.fingerprint)
        self._space.make(encoder)
        self._about = self._space.manifest()

    def put(
        self, items: Sequence[Fresh], rows: Sequence[Row], gone: Sequence[int] = ()
    ) -> None:
        """Encode items that have no vector yet, and store them; gone: rows to delete."""
        vectors = encoded(self.encoder, items)
        usual = np.empty((len(items), 0), np.float32)
        if self._about["bank"] and len(items):
            usual = self._space.usual_rows(vectors, self._about)
            usual[[row.kind == "text" for row in rows]] = np.nan
        self.store.put(rows, vectors, usual, gone)


def rows_of(loaded: Loaded) -> list[Row]:
    """The rows of a file that was read."""
    stat = loaded.stat
    return [
        Row(
            item_id(stat.path, fresh.part, fresh.content),
            *(fresh.kind, stat.path, fresh.part, fresh.content, loaded.content),
            *(len(loaded.items), stat.size, stat.mtime_ns, fresh.text, fresh.width),
            *(fresh.height, fresh.taken, fresh.look, fresh.tags),
        )
        for fresh in loaded.items
    ]


@dataclass
class _Waiting:
    """What is put with the next batch."""

    items: list[Fresh] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)


class SharedRun:
    """One pass over the files that must be read."""

    def __init__(self, filler: Filler, listing: Walk, how: How):
        self.filler, self.store, self.walk, self.how = filler, filler.store, listing, how
        self.report, self.waiting, self.refused = Report(), _Waiting(), 0
        self.fps, again = self._frame_rate()
        self.present = {file.path: file for file in self.store.files(self._below())}
        self.noted = {path: skip_of(note) for path, note in self.store.notes(SKIPPED).items()}
        self.jobs = [stat for stat in listing.files.values() if self._is_new(stat, again)]
        idle = listing.files.keys() - {stat.path for stat in self.jobs}
        self.report.unchanged = sum(path in self.present for path in idle)
        self.missing = {
            path: file
            for path, file in self.present.items()
            if path not in listing.files and self._covers(path)
        }
        self.twins = self._twins(again)

    def go(self, progress: Callable[[Progress], None], stop: Callable[[], bool]) -> Report:
        total = len(self.jobs)
        progress(Progress(0, total, 0))
        with ThreadPoolExecutor(self.how.workers, "avow-read") as pool:
            for done, (stat, future) in enumerate(self._ahead(pool), 1):

                def watch(share: float | None, done: int = done, stat: FileStat = stat) -> bool:
                    name = Path(stat.path).name
                    progress(Progress(done - 1, total, self.refused, name, share))
                    return stop()

                try:
                    self._take(stat, future, watch)
                except Stopped:
                    self.report.stopped = True
                progress(Progress(done, total, self.refused))
                self.report.stopped |= stop() and done < total
                if self.report.stopped:
                    pool.shutdown(wait=False, cancel_futures=True)
                    break
        self._flush()
        if not self.report.stopped:
            self._forget_missing()
            self._forget_skips()
            self.store.note(SETTINGS, {"fps": str(self.fps)})
        notes = self.store.notes(SKIPPED).items()
        self.report.skipped = [(path, skip_of(note)["why"]) for path, note in notes]
        return self.report

    def _below(self) -> list[str]:
        """Where files of the store are looked for."""
        return self.walk.roots

    def _covers(self, path: str) -> bool:
        """Whether a file of the store would have been listed if it were there."""
        return self.walk.covers(path)

    def _is_new(self, stat: FileStat, videos_again: bool) -> bool:
        file = self.present.get(stat.path)
        if file is None:
            return not self._still_skipped(stat)
        same = file.whole and (file.size, file.mtime_ns) == (stat.size, stat.mtime_ns)
        return not same or (videos_again and is_video(stat.suffix))

    def _still_skipped(self, stat: FileStat) -> bool:
        """Whether a file could not be read before, and would not be readable now."""
        note = self.noted.get(stat.path, {})
        if (note.get("size"), note.get("mtime_ns")) != (stat.size, stat.mtime_ns):
            return False
        return not (note["again"] and may_work_now(stat))

    def _twins(self, videos_again: bool) -> dict[str, Present]:
        """Files that may have moved or been touched, by content: these are not read again."""
        touched = [self.present[s.path] for s in self.jobs if s.path in self.present]
        return {
            file.content: file
            for file in (*self.missing.values(), *touched)
            if file.whole and not (videos_again and is_video(Path(file.path).suffix.lower()))
        }

    def _ahead(self, pool: ThreadPoolExecutor) -> Iterator[tuple[FileStat, "Future[Loaded]"]]:
        """Files in order, a bounded number of them being read meanwhile."""
        waiting: deque[tuple[FileStat, Future[Loaded]]] = deque()
        for stat in self.jobs:
            how = (self.filler.encoder.prepare, self.twins)
            waiting.append((stat, pool.submit(load, stat, *how)))
            if len(waiting) > 2 * self.how.batch + self.how.workers:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()

    def _take(
        self, stat: FileStat, future: "Future[Loaded]", watch: Callable[[float | None], bool]
    ) -> None:
        before = self.present.get(stat.path)
        try:
            loaded = future.result()
            if loaded.is_stored:
                loaded.items.extend(self._stored(loaded.content))
            elif is_video(stat.suffix):
                loaded.items.extend(self._segments(loaded, watch))
        except Unreadable as error:
            self._refuse(stat, error, before)
            return
        moved = before is None and loaded.is_stored and self._moved(loaded.content)
        if moved:
            self.report.moved += 1
        elif before is None or not before.whole:
            self.report.new += 1
        elif before.content != loaded.content:
            self.report.changed += 1
        else:
            self.report.unchanged += 1
        self._queue(loaded, before)

    def _segments(self, loaded: Loaded, watch: Watch) -> list[Fresh]:
        how = (self.filler.encoder, self.fps, watch)
        return read_segments(loaded.stat, loaded.content, *how)

    def _moved(self, content: str) -> bool:
        """Whether a missing file of this content is here now; its rows go with the batch."""
        path = self.twins[content].path
        file = self.missing.pop(path, None)
        if file is not None:
            self.waiting.gone.extend(file.ids)
        return file is not None

    def _stored(self, content: str) -> list[Fresh]:
        """The items of a content that the store has under another path or time."""
        stored = self.store.read(self.twins[content].ids)
        return [
            Fresh(
                *(row.part, row.kind, row.content, row.text, row.width, row.height),
                *(row.taken, row.look, row.tags),
                vector=vector,
            )
            for row, vector in zip(stored.rows, stored.vectors, strict=True)
        ]

    def _queue(self, loaded: Loaded, before: Present | None) -> None:
        rows = rows_of(loaded)
        for place, (fresh, row) in enumerate(zip(loaded.items, rows, strict=True), 1):
            self.waiting.items.append(fresh)
            self.waiting.rows.append(row)
            if place == len(rows) and before is not None:
                kept = {row.id for row in rows}
                self.waiting.gone += [number for number in before.ids if number not in kept]
            if len(self.waiting.items) >= self.how.batch:
                self._flush()
        if loaded.stat.path in self.noted:
            self.store.erase(SKIPPED, [loaded.stat.path])

    def _flush(self) -> None:
        waiting, self.waiting = self.waiting, _Waiting()
        if waiting.items or waiting.gone:
            last = {row.id: place for place, row in enumerate(waiting.rows)}
            places = sorted(last.values())
            self.filler.put(
                [waiting.items[n] for n in places],
                [waiting.rows[n] for n in places],
                [number for number in waiting.gone if number not in last],
            )

    def _refuse(self, stat: FileStat, error: Unreadable, before: Present | None) -> None:
        """List a file as skipped; forget its items, unless it may be readable later."""
        note = {"why": str(error), "when": time.time(), "again": error.again}
        note |= {"size": stat.size, "mtime_ns": stat.mtime_ns}
        self.store.note(SKIPPED, {stat.path: json.dumps(note)})
        self.refused += 1
        if before is not None and not error.again:
            self.waiting.gone.extend(before.ids)

    def _forget_missing(self) -> None:
        """Forget what is gone, but not most of a folder at once."""
        paths = list(self.missing)
        survey = Survey(self.walk)
        survey.missing = {n: (path, "") for n, path in enumerate(paths)}
        survey.indexed_before = {
            root: sum(under(path, [root]) for path in self.present) for root in self.walk.roots
        }
        absent = {} if self.how.prune else survey.absent(survey.missing)
        keep = {number for numbers in absent.values() for number in numbers}
        gone = [self.missing[path] for n, path in enumerate(paths) if n not in keep]
        for file in gone:
            self.store.delete(file.ids)
        self.report.deleted += len(gone)
        self.report.absent = [
            Absent(root, len(numbers), survey.indexed_before[root])
            for root, numbers in absent.items()
        ]

    def _forget_skips(self) -> None:
        """List what the walk could not enter, and forget what it did not meet again."""
        met = self.walk.files.keys() | self.walk.skipped.keys()
        gone = [path for path in self.noted if path not in met and self._covers(path)]
        self.store.erase(SKIPPED, gone)
        about = {"when": time.time(), "again": True}
        fresh = {
            path: json.dumps({"why": why, **about})
            for path, why in self.walk.skipped.items()
            if self.noted.get(path, {}).get("why") != why
        }
        self.store.note(SKIPPED, fresh)

    def _frame_rate(self) -> tuple[float, bool]:
        """The rate at which videos are read, and whether that is another one than before."""
        noted = self.store.notes(SETTINGS).get("fps")
        before = FPS if noted is None else float(noted)
        rate = before if self.how.fps is None else self.how.fps
        return rate, rate != before
