"""A bar with rate and time left, for runs that say how far they are."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

from avow.retrieval.store.report import Progress


@contextmanager
def bar(hidden: bool = False) -> Iterator[Callable[[Progress], None]]:
    """What a run calls after every file; drawn on stderr, when somebody looks at it."""
    drawn: tqdm | None = None

    def show(progress: Progress) -> None:
        nonlocal drawn
        if drawn is None:
            quiet = hidden or not sys.stderr.isatty()
            drawn = tqdm(total=progress.total, unit=" files", disable=quiet, leave=False)
        drawn.set_postfix_str(_beside(progress), refresh=bool(progress.video))
        drawn.update(progress.done - drawn.n)

    try:
        yield show
    finally:
        if drawn is not None:
            drawn.close()


def _beside(progress: Progress) -> str:
    """What stands behind the bar: files that were skipped, and the video in hand."""
    parts = [f"skipped={progress.skipped}"] if progress.skipped else []
    return " ".join(part for part in [*parts, progress.in_words()] if part)
