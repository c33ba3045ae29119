"""Open an index by its address: a folder, or a store that many machines share."""

from pathlib import Path

from avow.core import folder
from avow.core.folder import AllowCode
from avow.core.places import store_address
from avow.core.searching import Encoder
from avow.retrieval import stores
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.store_contract import SharedStore, Store


def open_store(place: str | Path | None = None) -> Store:
    """The store at an address such as "postgres:archive"; anything else is a folder."""
    address = store_address(place)
    kind, name = address or ("local", "" if place is None else str(place))
    return folder.build(stores, kind, name=name)


def open_shared(place: str | Path | None) -> SharedStore | None:
    """The shared store at an address; None where it is a folder's."""
    store = None if store_address(place) is None else open_store(place)
    return store if isinstance(store, SharedStore) else None


def open_library(
    place: str | Path | None = None,
    encoder: Encoder | None = None,
    *,
    allow_code: AllowCode = False,
) -> OpenIndex:
    """An index opened for reading, for a model or for the one that made it."""
    return open_store(place).library(encoder, allow_code=allow_code)
