"""Verify what Avow wrote: an index, a run, a model, an audit or features."""

from pathlib import Path

from avow.core.errors import BadQuery
from avow.core.places import avow_home, store_address
from avow.retrieval.store.inspection import Damage, inspect_index

_MARKS = ("avow.json", "recipe.json", "best", "audit.json", "plan.json")
"""Files of a saved model, a run, an audit, or features; an index has none of them."""
_REPAIR = "avow train, avow features or avow audit again, or copy the folder"


def check(folder: str | Path | None = None) -> list[Damage]:
    """Verify every checksum of a folder; the list is empty if it is intact.

    folder: an index, run, model, audit or features; default: the index under AVOW_HOME.
    Every item has the `file`, `what` is wrong with it, and the command to `run`. Reads every
    file.

        >>> avow.check("my-index")
        []
        >>> avow.check("runs/animals")
        []
    """
    place = avow_home() / "index" if folder is None else Path(folder)
    if store_address(place) is not None:
        raise BadQuery(
            f"The store {str(place)!r} is a database, which verifies its own files. Expected "
            "a folder; ask the database's own tools, or see `avow status`."
        )
    if not any((place / name).is_file() for name in _MARKS):
        return inspect_index(place)
    from avow.assembly.integrity import verify  # slow to import; an index needs none of it

    return [Damage(str(place), sentence, _REPAIR) for sentence in verify(place)]
