"""What commands share when they speak to a person at a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 10_000  # what is piped into a file is not folded
_CELLS = 10


def console() -> "Console":
    """Where results go; colours and folding only where a person reads."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else _WIDE, highlight=False, soft_wrap=not terminal)


@contextmanager
def busy(doing: str, quiet: bool = False) -> Iterator[None]:
    """A spinner on stderr while something takes its time; nothing where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{doing} …"):
        yield


def bar(share: float, screen: "Console", cells: int = _CELLS) -> str:
    """A share between 0 and 1, drawn and in numbers."""
    from avow.retrieval.answer import percent  # loaded by every search

    drawn = screen.encoding.lower().startswith("utf")
    full, empty = ("█", "░") if drawn else ("#", ".")
    count = round(cells * min(max(share, 0), 1))
    return f"{full * count}{empty * (cells - count)} {percent(share):>6}"


def printable(text: str) -> str:
    """A name or text of somebody's, without what would command the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
