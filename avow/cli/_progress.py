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
        if progress.skipped:
            drawn.set_postfix(skipped=progress.skipped, refresh=False)
        drawn.update(progress.done - drawn.n)

    try:
        yield show
    finally:
        if drawn is not None:
            drawn.close()
