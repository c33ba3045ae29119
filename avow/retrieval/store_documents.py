"""JSON that a shared store holds: what is damaged is told in a sentence.

current    which rows readers see, and of which model: without it nothing can be searched
opinions   each is one note; a rebuild forgets those that cannot be read
skipped    each is one note by its path; the file is read again when it is met
"""

from collections.abc import Mapping
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
