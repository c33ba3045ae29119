"""JSON that a shared store holds: what is damaged is told in a sentence.

Without the note of what is shown, or with a damaged row, nothing can be searched: a rebuild
stores all anew. Opinions are one note each, and a rebuild forgets those that cannot be read.
A skipped file is one note by its path; it is read again when it is met.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import UnionType
from typing import Any

from avow.core.documents import parse_object
from avow.core.errors import WrongIndex

Shape = Mapping[str, type | UnionType]
"""What an object must have, by name."""
MANIFEST: Shape = {
    **dict.fromkeys(("model", "fingerprint", "kind", "engine"), str),
    **dict.fromkeys(("dim", "views", "bank"), int),
    **dict.fromkeys(("half", "exact"), bool),
    "tau": int | float,
}
ROW: Shape = {
    **dict.fromkeys(("id", "size", "mtime_ns", "file_items"), int),
    "file_content": str,
}
FORMATTED: Shape = {"format": int}
PUBLISHED: Shape = {**FORMATTED, "generation": int, "manifest": dict}
OPINION: Shape = {"query": dict, "item": int, "good": bool, "when": int | float}
SKIP: Shape = {"why": str, "when": int | float, "again": bool}
UNKNOWN_SKIP = {"why": "why it was skipped cannot be read any more", "when": 0.0, "again": True}
"""In place of a damaged note on a file, which is read again when it is met."""


class DamagedStore(WrongIndex):
    """A shared store holds what no Avow wrote; a rebuild makes it anew."""

    def __init__(self, address: str, what: str):
        super().__init__(
            f"The store {address!r} is damaged: {what} cannot be read. Expected what "
            f"`avow index` wrote; make it anew with `avow index FOLDER --index {address} "
            "--rebuild`."
        )


def read(address: str, what: str, content: Any, shape: Shape) -> dict[str, Any]:
    """An object of a store, from its text or as the database gives it; refused if damaged."""
    if (document := whole(content, shape)) is None:
        raise DamagedStore(address, what)
    return document


@contextmanager
def rows_of(address: str) -> Iterator[None]:
    """Tell that a row cannot be what was stored, around what makes numbers and texts of it."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedStore(address, "a row") from error


def skip_of(content: str) -> dict[str, Any]:
    """The note on a file that was skipped: the path is its key, so a damaged one tells that."""
    return whole(content, SKIP) or UNKNOWN_SKIP


def whole(content: Any, shape: Shape) -> dict[str, Any] | None:
    """What `read` reads; None where it would refuse, for those who go on without it."""
    try:
        document = parse_object(content) if isinstance(content, str) else content
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    good = all(isinstance(document.get(name), kind) for name, kind in shape.items())
    return document if good else None
