"""Keep an index current: index once, then again whenever something below the folders changes.

The system tells what changes (`watchfiles`); nothing is looked at while nothing happens. Every
change leads to an ordinary run of `index_folders`, which finds by itself what is new, changed,
moved or deleted, so a notice that was lost does no harm: the next one makes up for it.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from avow.core.errors import BadData, MissingExtra, Unavailable
from avow.core.places import avow_home, store_address
from avow.retrieval.encoders.lazy import Deferred
from avow.retrieval.indexing import index_folders
from avow.retrieval.store.report import Report

QUIET = 1000
"""Milliseconds without a change before the changed files are read: many are copied at once."""
_AGAIN = 2.0  # seconds until an index that another process writes is tried again


def watch_folders(
    folders: Sequence[str | Path],
    *,
    index: Path | None = None,
    encoder: Deferred,
    tell: Callable[[Report], None],
    stop: threading.Event | None = None,
    quiet: int = QUIET,
) -> None:
    """Index `folders` now and after every change, until `stop` is set.

    tell: called after every run that did something, and after the first one.
    """
    try:
        from watchfiles import watch
    except ModuleNotFoundError:
        raise MissingExtra("`avow watch`", "watchfiles", "watch") from None
    stop = stop or threading.Event()
    place = index or avow_home() / "index"
    place = place if store_address(place) else place.resolve()
    watched = [_folder(folder) for folder in folders]

    def outside_the_index(_: object, path: str) -> bool:
        return not Path(path).is_relative_to(place)

    def bring_up_to_date() -> Report | None:
        while not stop.is_set():
            try:
                return index_folders(folders, index=place, encoder=encoder, stop=stop.is_set)
            except Unavailable:  # another process writes to it
                stop.wait(_AGAIN)
        return None

    # before the first run, so that what changes during it is noticed
    notices = watch(
        *watched,
        watch_filter=outside_the_index,
        stop_event=stop,
        debounce=4 * quiet,
        step=quiet,
        yield_on_timeout=True,
        rust_timeout=quiet,
    )
    first = True
    for changes in notices:
        if not (changes or first):
            continue
        report = bring_up_to_date()
        if report is not None and (first or _did_something(report)):
            tell(report)
        first = False


def _folder(folder: str | Path) -> Path:
    place = Path(folder).expanduser().resolve()
    if not place.is_dir():
        raise BadData(
            f"There is no folder {str(folder)!r}. Expected one whose pictures are to be "
            "indexed as they change; check the path."
        )
    return place


def _did_something(report: Report) -> bool:
    counts = (report.new, report.changed, report.moved, report.deleted)
    return bool(any(counts) or report.absent or report.repaired)
