"""One test over many small cases: as sharp as a test each, and it is collected once.

A test of its own costs each process of pytest-xdist more than most of these cases do.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def every(cases: Iterable[Any], check: Callable[[Any], object]) -> None:
    """Call `check` with every case, and fail with all that failed, not with the first alone."""
    failed, tried = [], 0
    for case in cases:
        tried += 1
        try:
            check(case)
        except (Exception, SystemExit, pytest.fail.Exception) as error:
            failed.append(f"{case}: {type(error).__name__}: {error}")
    assert tried, "there is no case"
    assert not failed, "\n\n".join([f"{len(failed)} of {tried} cases failed", *failed])
