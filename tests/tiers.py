"""Cases of parametrised tests that only `make test-long` runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def long(*values: Any) -> Any:
    """A case of another value on the way that a case without this mark goes too."""
    return pytest.param(*values, marks=pytest.mark.long)


def long_but(short: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """All cases, of which only those in `short` are part of every run."""
    chosen = list(short)
    return [case if case in chosen else long(case) for case in cases]
