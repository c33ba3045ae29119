"""Folders to an index: files are read in threads while the encoder works on the last batch.

    walk -> survey -> [read and prepare in threads] -> encode -> rows -> catalogue

Run again, it does only what is new, changed, moved or deleted. Stopped or killed at any
moment, it goes on where it was.
"""

import os
import sqlite3
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from avow import indexes
from avow.core import folder
from avow.core.errors import BadData, WrongIndex
from avow.core.places import avow_home
from avow.core.searching import Encoder
from avow.retrieval.alike import group_alike
from avow.retrieval.catalogue import open_catalogue, sentences
from avow.retrieval.covered import cover
from avow.retrieval.deferred import Deferred, unchanged
from avow.retrieval.engines import bring_up_to_date, forget_engines
from avow.retrieval.generations import begin, begin_again, compact, go_on, use
from avow.retrieval.library import other_model
from avow.retrieval.lock import only_writer
from avow.retrieval.report import Progress, Report
from avow.retrieval.run import Run
from avow.retrieval.spaces import Space
from avow.retrieval.survey import survey
from avow.retrieval.writer import Writer

BATCH = 64
_FEW = 1000
"""Dead rows that are never worth writing the others anew."""


def index_folders(
    folders: Sequence[str | Path],
    *,
    index: Path | None = None,
    encoder: Encoder | Deferred,
    rebuild: bool = False,
    dedupe: bool = False,
    engine: str | None = None,
    half: bool | None = None,
    batch: int = BATCH,
    workers: int = 0,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Report:
    """Bring an index up to date with some folders.

    rebuild: encode everything anew, or for a model that the index does not know; readers
    see the old state until all is done. dedupe: group near-duplicates. engine, half: how
    vectors are searched and kept; as they are, where not given. stop: asked after every
    file; what was done before is kept.
    """
    started = time.monotonic()
    index = index or avow_home() / "index"
    _check(batch, engine)
    plain = not (rebuild or dedupe) and engine is None and half is None
    if isinstance(encoder, Deferred) and plain:
        nothing = unchanged(folders, index, encoder)
        if nothing is not None:
            return nothing
    _make_folder(index)
    with only_writer(index), sentences(index), warnings.catch_warnings():
        # said once for all threads: what decoders grumble about is no matter for the user
        warnings.simplefilter("ignore")
        link = open_catalogue(index, make=True)
        try:
            opened = encoder.open() if isinstance(encoder, Deferred) else encoder
            writer = _writer(link, index, opened, engine, half, rebuild)
            if isinstance(encoder, Deferred):
                encoder.remember(link, opened.fingerprint)
            writer.purge()
            found = survey(link, folders, index, writer.model, writer.generation)
            cover(index, found.walk.roots)
            run = Run(writer, opened, found, batch, workers or _workers())
            report = run.go(progress or (lambda _: None), stop or (lambda: False))
            if not report.stopped:
                _finish(writer, report, dedupe, rebuild)
        finally:
            link.close()
    report.seconds = time.monotonic() - started
    return report


def _finish(writer: Writer, report: Report, dedupe: bool, anew: bool) -> None:
    """Show readers what was made, and put in order what hangs on it."""
    use(writer)
    ids, _ = writer.live()
    if len(ids) - np.count_nonzero(ids >= 0) > max(_FEW, len(ids) // 2):
        writer = compact(writer)
    link = writer.link
    grouped = link.execute("SELECT 1 FROM items WHERE same_as IS NOT NULL LIMIT 1").fetchone()
    if dedupe or (grouped and (report.new or report.changed or report.deleted)):
        group_alike(writer)
    count = "SELECT count(*) FROM items WHERE same_as IS NOT NULL AND gone = 0"
    report.alike = link.execute(count).fetchone()[0]
    place = writer.space.engine(writer.engine)
    bring_up_to_date(place, writer.engine, *writer.live(), anew=anew)
    if anew:
        forget_engines(writer.space.engines, kept=writer.engine)


def _writer(
    link: sqlite3.Connection,
    index: Path,
    encoder: Encoder,
    engine: str | None,
    half: bool | None,
    rebuild: bool,
) -> Writer:
    rows = link.execute("SELECT fingerprint FROM models ORDER BY used DESC").fetchall()
    models = [row[0] for row in rows]
    if encoder.fingerprint not in models:
        if models and not rebuild:
            raise other_model(index, models, encoder.name)
        return begin(link, index, encoder, engine or "exact", bool(half))
    space = Space(index, encoder.fingerprint)
    if rebuild:
        return begin_again(link, space, engine or "exact", bool(half))
    writer = go_on(link, space, engine)
    if half is not None and half != writer.half:
        kept = "half" if writer.half else "full"
        raise WrongIndex(
            f"The index {str(index)!r} keeps its vectors in {kept} precision. Expected to "
            "go on like that; to change it, encode everything anew with --rebuild."
        )
    return writer


def _check(batch: int, engine: str | None) -> None:
    if batch < 1:
        raise BadData(f"The batch is {batch!r}. Expected at least one item at once.")
    if engine is not None:
        folder.find(indexes, engine)


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
