"""Folders to an index: files are read in threads while the encoder works on the last batch.

    walk -> survey -> [read and prepare in threads] -> encode -> rows -> catalogue

Run again, it does only what is new, changed, moved or deleted. Stopped or killed at any
moment, it goes on where it was.
"""

import sqlite3
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from avow import indexes
from avow.core import folder
from avow.core.errors import BadData, WrongIndex, training_half
from avow.core.files import make_folder
from avow.core.folder import AllowCode
from avow.core.places import DEFAULT, avow_home
from avow.core.searching import Encoder
from avow.core.vector_forms import check_form
from avow.core.written_text import ReadText, open_reader
from avow.retrieval.encoders.lazy import Deferred, unchanged
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.index_runs import RunSettings, prepare_run
from avow.retrieval.library import other_model
from avow.retrieval.opening import open_shared
from avow.retrieval.sharding.cluster import Cluster
from avow.retrieval.sharding.opening import only_folders
from avow.retrieval.shared_indexing import How, index_shared
from avow.retrieval.store.catalogue import current_models, sentences
from avow.retrieval.store.engines import bring_up_to_date, forget_engines
from avow.retrieval.store.generations import (
    begin,
    begin_again,
    compact,
    go_on,
    remembered,
    use,
)
from avow.retrieval.store.indexed_folders import (
    FPS,
    cover,
    frame_rate,
    note_frame_rate,
    note_reading,
    reads_text,
)
from avow.retrieval.store.lock import only_writer
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.near_duplicates import group_alike
from avow.retrieval.store.repair import open_for_writing
from avow.retrieval.store.report import Progress, Report
from avow.retrieval.store.walk import roots_of
from avow.retrieval.store.writer import Writer
from avow.retrieval.store_contract import SharedStore
from avow.retrieval.transfer import trust_after_indexing

BATCH = 64
LEAST_FPS, MOST_FPS = 0.01, 30
_FEW = 1000
"""Dead rows that are never worth writing the others anew."""


class IndexOptions(TypedDict, total=False):
    """Options of `index_folders` that are seldom changed."""

    engine: str | None
    """How vectors are searched; None: as they are, else "exact"."""
    vectors: str | None
    """How vectors are kept: "float32", "float16", "int8" or "int8x256"; None: as they are,
    else "float32"."""
    half: bool | None
    """An earlier name: True for "float16", False for "float32"."""
    batch: int
    """Items encoded at once."""
    workers: int
    """Threads that read; 0: one a core."""
    fps: float | None
    """Frames a second that are looked at in videos; None: as it is, else 1. Where it is another
    one than before, all videos are read again."""
    ocr: bool | None
    """Whether text in pictures is recognised and kept, to be searched too; None: as before."""
    in_units: bool
    """Whether the work is cut into units (`retrieval/sharding`) also where all sources are
    folders of this machine and no cluster is given."""
    cluster: Cluster | None
    """Who encodes the units; None: this process."""
    allow_code: bool
    """Go on with an engine outside Avow that the index names; a given one needs no leave."""


@dataclass(frozen=True)
class _Indexing:
    """The options with their defaults; a name that is none of them is a TypeError."""

    engine: str | None = None
    vectors: str | None = None
    half: bool | None = None
    batch: int = BATCH
    workers: int = 0
    fps: float | None = None
    ocr: bool | None = None
    in_units: bool = False
    cluster: Cluster | None = None
    allow_code: bool = False

    def for_a_run(self, prune: bool, fps: float, read_text: ReadText | None) -> RunSettings:
        return RunSettings(self.batch, self.workers, prune, fps, read_text, self.cluster)

    @property
    def kept_as(self) -> str | None:
        """How vectors are to be kept; None: as they are."""
        if self.vectors is not None or self.half is None:
            return self.vectors
        return "float16" if self.half else "float32"


def index_folders(
    folders: Sequence[str | Path],
    *,
    index: Path | None = None,
    encoder: Encoder | Deferred,
    rebuild: bool = False,
    dedupe: bool = False,
    prune: bool = False,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
    **options: Unpack[IndexOptions],
) -> Report:
    """Bring an index up to date with some folders, or sources of another kind.

    rebuild: encode everything anew, or for a model that the index does not know; readers
    see the old state until all is done. dedupe: group near-duplicates. prune: forget
    missing files even where they are more than half of a folder, which is otherwise taken
    for a disk that is not mounted and reported as `absent`. stop: asked after every file;
    what was done before is kept. The other options are in `IndexOptions`.
    """
    how = _Indexing(**options)
    engine, kept_as, started = how.engine, how.kept_as, time.monotonic()
    if (store := open_shared(index)) is not None:
        asked, told = (rebuild, dedupe, prune), (progress, stop)
        return _index_shared(store, folders, encoder, how, asked, *told)
    index = index or avow_home() / "index"
    _check(how.batch, engine, how.fps, kept_as)
    in_units = how.in_units or how.cluster is not None or not only_folders(folders)
    plain = (engine, kept_as, how.ocr) == (None,) * 3 and not (rebuild or dedupe or in_units)
    if isinstance(encoder, Deferred) and plain:
        if (nothing := unchanged(folders, index, encoder, how.fps)) is not None:
            return nothing
    read_text = _text_reader(index, how.ocr, rebuild)  # says at once what is missing
    if not in_units:
        roots_of(folders)  # a folder that is not there leaves no index behind
    _make_folder(index)
    with only_writer(index), sentences(index), warnings.catch_warnings():
        # set once for all threads: warnings of image decoders do not concern the user
        warnings.simplefilter("ignore")
        link, repaired = open_for_writing(index, rebuild)
        try:
            opened = encoder.open() if isinstance(encoder, Deferred) else encoder
            writer = _writer(link, index, opened, engine, kept_as, rebuild)
            if isinstance(encoder, Deferred):
                encoder.remember(link, opened.fingerprint)
            writer.purge()
            fps, told = _frame_rate(writer, index, how.fps, rebuild)
            settings = how.for_a_run(prune, fps, read_text)
            run, covered = prepare_run(writer, opened, folders, index, settings, in_units)
            cover(index, covered, anew=rebuild)
            note_frame_rate(index, fps)
            note_reading(index, read_text is not None)
            report = run.go(progress or (lambda _: None), stop or (lambda: False))
            if not report.stopped:
                _finish(writer, report, dedupe, rebuild, how.allow_code or [engine or ""])
        finally:
            link.close()
    report.seconds = time.monotonic() - started
    report.repaired, report.frame_rate = repaired, told
    return report


def index(
    folders: Sequence[str | Path],
    index: str | Path | None = None,
    *,
    model: str = DEFAULT,
    rebuild: bool = False,
    dedupe: bool = False,
    engine: str | None = None,
    device: str = "",
    allow_code: bool = False,
) -> Report:
    """Index the photographs, videos and texts below some folders, or bring an index up to date.

    index: the index folder; default: the one under AVOW_HOME. model: "default", a run's
    folder, or a name of the model hub. rebuild: encode everything anew. dedupe: group
    near-duplicates. engine: "exact", "faiss" or "pgvector". device: default: the best one,
    and the processor for the default model. Run it again after changes: only new, changed,
    moved and deleted files are read. Searches with a model that has no trust of its own are
    judged by what is transferred from the default model (`Report.trust` says so).

        >>> report = avow.index(["photos"], "my-index")
        >>> report.unchanged, report.skipped
        (18, [])
    """

    def open_model(name: str) -> Encoder:
        if name == DEFAULT and not device:
            return open_encoder(name)
        with training_half("Another model, or a device,"):
            from avow.core.device import chosen_device
        return open_encoder(name, chosen_device(device), allow_code=allow_code)

    chosen = Deferred.named(model, cache(open_model))
    place = None if index is None else Path(index)
    report = index_folders(
        folders,
        index=place,
        encoder=chosen,
        rebuild=rebuild,
        dedupe=dedupe,
        engine=engine,
        allow_code=allow_code,
    )
    report.trust = trust_after_indexing(place, chosen, allow_code=allow_code)
    return report


def _index_shared(
    store: SharedStore,
    folders: Sequence[str | Path],
    encoder: Encoder | Deferred,
    how: _Indexing,
    asked: tuple[bool, bool, bool],
    progress: Callable[[Progress], None] | None,
    stop: Callable[[], bool] | None,
) -> Report:
    """asked: rebuild, dedupe and prune."""
    rebuild, dedupe, prune = asked
    if dedupe:
        raise _not_shared(store.address, "--dedupe")
    _check(how.batch, None, how.fps, how.kept_as)
    if how.ocr:
        raise _not_shared(store.address, "--ocr")
    if how.kept_as not in (None, "float32", "float16"):
        raise _not_shared(store.address, f"--vectors {how.kept_as}")
    half = None if how.kept_as is None else how.kept_as == "float16"
    workers = how.for_a_run(prune, FPS, None).threads
    units = (how.in_units or bool(how.cluster) or not only_folders(folders), how.cluster)
    shared = How(how.engine, half, how.batch, workers, how.fps, rebuild, prune, *units)
    opened = encoder.open() if isinstance(encoder, Deferred) else encoder
    with closing(store):
        told = (progress or (lambda _: None), stop or (lambda: False))
        return index_shared(store, folders, opened, shared, *told)


def _not_shared(address: str, option: str) -> BadData:
    return BadData(
        f"{option} is not possible with the store {address!r}. Expected an index folder for "
        "it; leave it out, or index to a folder."
    )


def make_empty(index: Path | None, encoder: Encoder) -> Path:
    """An index that holds nothing yet, for folders to be chosen later."""
    index = index or avow_home() / "index"
    _make_folder(index)
    with only_writer(index), sentences(index):
        link, _ = open_for_writing(index, False)
        try:
            use(_writer(link, index, encoder, None, None, False))
            cover(index, [])
        finally:
            link.close()
    return index


def _finish(
    writer: Writer, report: Report, dedupe: bool, anew: bool, allow_code: AllowCode
) -> None:
    """Show readers what was made, and put in order what hangs on it."""
    use(writer)
    ids = writer.live()
    if len(ids) - np.count_nonzero(ids >= 0) > max(_FEW, len(ids) // 2):
        writer = compact(writer)
    link = writer.link
    grouped = link.execute("SELECT 1 FROM items WHERE same_as IS NOT NULL LIMIT 1").fetchone()
    if dedupe or (grouped and (report.new or report.changed or report.deleted)):
        group_alike(writer)
    count = "SELECT count(*) FROM items WHERE same_as IS NOT NULL AND gone = 0"
    report.alike = link.execute(count).fetchone()[0]
    if writer.engine != "exact":
        place = writer.space.engine(writer.engine)
        rows = (writer.live(), writer.vectors())
        bring_up_to_date(place, writer.engine, *rows, anew=anew, allow_code=allow_code)
    if anew:
        forget_engines(writer.space.engines, keep=writer.engine)


def _writer(
    link: sqlite3.Connection,
    index: Path,
    encoder: Encoder,
    engine: str | None,
    kept_as: str | None,
    rebuild: bool,
) -> Writer:
    models = current_models(link, index)
    if encoder.fingerprint not in models:
        if models and not rebuild:
            raise other_model(index, models, encoder.name)
        return begin(link, index, encoder, engine or "exact", kept_as or "float32")
    space = Space(index, encoder.fingerprint)
    if rebuild:
        space.mend(encoder)
        before, engine_before = remembered(link, space)
        if (kept_as or before) == "int8x256":
            space.keep_projection(encoder)
        return begin_again(link, space, engine or engine_before, kept_as or before)
    writer = go_on(link, space, engine)
    if kept_as is not None and kept_as != writer.vectors_as:
        raise WrongIndex(
            f"The index {str(index)!r} keeps its vectors as {writer.vectors_as}. Expected "
            f"to go on like that, not {kept_as}; to change it, encode everything anew with "
            "--rebuild."
        )
    return writer


def _text_reader(index: Path, asked: bool | None, rebuild: bool) -> ReadText | None:
    """What reads text in pictures: where that is asked for, or the index remembers it."""
    if asked is not None:
        return open_reader() if asked else None
    if not index.is_dir():
        return None  # nothing is remembered yet
    try:
        return open_reader(remembered=True) if reads_text(index) else None
    except WrongIndex:
        if not rebuild:
            raise
        return None  # the note is lost with the folders, which are named again


def _frame_rate(
    writer: Writer, index: Path, asked: float | None, rebuild: bool
) -> tuple[float, str]:
    """The rate at which videos are read, and a sentence where it is another one than before.

    Videos are marked before the rate is noted: a run that is cut off in between reads them
    again at the old rate, and none keeps segments of the old one under the new.
    """
    try:
        before = frame_rate(index)
    except WrongIndex:
        if not rebuild:
            raise
        before = FPS
    if asked is None or asked == before:
        return before, ""
    count = writer.read_videos_again()
    if not count:
        return asked, ""
    videos = "the video is" if count == 1 else f"all {count} videos are"
    return asked, (
        f"Videos are now looked at {_times(asked)} a second instead of {_times(before)}: "
        f"{videos} read again."
    )


def _times(rate: float) -> str:
    return "once" if rate == 1 else f"{rate:g} times"


def _check(batch: int, engine: str | None, fps: float | None, kept_as: str | None) -> None:
    if batch < 1:
        raise BadData(f"The batch is {batch!r}. Expected at least one item at once.")
    if fps is not None and not LEAST_FPS <= fps <= MOST_FPS:
        raise BadData(
            f"The frames a second are {fps!r}. Expected {LEAST_FPS} to {MOST_FPS}; 1 is usual."
        )
    if kept_as is not None:
        check_form(kept_as)
    if engine is not None:
        folder.find(indexes, engine, allow_code=True)  # the caller typed it


def _make_folder(index: Path) -> None:
    try:
        make_folder(index)
    except OSError as error:
        raise BadData(
            f"The index folder {str(index)!r} cannot be made ({error.strerror}). Expected a "
            "place to write to; name another one with --index."
        ) from error
