"""A shared store made ready for writing: which rows are filled, and what a rebuild mends."""

import time
from dataclasses import dataclass

from avow.core.errors import WrongIndex
from avow.core.searching import Encoder
from avow.retrieval import store_documents as documents
from avow.retrieval.sharding.cluster import Cluster
from avow.retrieval.shared_library import FEEDBACK, refuse_other_model
from avow.retrieval.store.model_folder import describe
from avow.retrieval.store_contract import Current, SharedStore

_ENGINES = ("exact", "hnsw")


@dataclass(frozen=True)
class How:
    """How folders are read, and how a new store keeps their vectors."""

    engine: str | None = None
    half: bool | None = None
    batch: int = 64
    workers: int = 4
    fps: float | None = None
    rebuild: bool = False
    prune: bool = False
    in_units: bool = False
    """Over sources of any kind; otherwise over folders of this machine, file by file."""
    cluster: Cluster | None = None
    """Who encodes units; None: this process."""


def open_for_writing(store: SharedStore, encoder: Encoder, how: How) -> Current | None:
    """Make ready the rows of a model; what readers saw before.

    A store without anything to show shows the new rows at once, as they come.
    """
    if how.engine is not None and how.engine not in _ENGINES:
        raise WrongIndex(
            f"The engine of a shared store cannot be {how.engine!r}. Expected 'exact', or "
            "'hnsw' for a search graph; choose one of them."
        )
    current = _published(store, how.rebuild)
    if current is not None and not how.rebuild:
        refuse_other_model(store, current, encoder)
        for name, asked in (("engine", how.engine), ("half", how.half)):
            if asked is not None and asked != current.manifest[name]:
                there = current.manifest["vectors" if name == "half" else name]
                raise WrongIndex(
                    f"The store {store.address!r} has {'vectors' if name == 'half' else name} "
                    f"{there!r}. Expected to go on like that; to change it, encode everything "
                    "anew with --rebuild."
                )
    kept = {"engine": "exact", "half": False} if current is None else current.manifest
    engine, half = how.engine or kept["engine"], kept["half"] if how.half is None else how.half
    manifest = describe(encoder) | {
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "engine": engine,
        "half": half,
        "vectors": "float16" if half else "float32",
        "exact": engine == "exact",
    }
    store.prepare(manifest, how.rebuild)
    if how.rebuild:
        _forget_damaged_opinions(store)
    if current is None:
        store.publish()
        current = store.current()
    return current


def _published(store: SharedStore, rebuild: bool) -> Current | None:
    """What readers see before a run; nothing where a rebuild makes a damaged store anew."""
    try:
        return store.current()
    except documents.DamagedStore:
        if not rebuild:
            raise
        return None


def _forget_damaged_opinions(store: SharedStore) -> None:
    """Opinions that cannot be read would refuse every question about opinions."""
    noted = store.notes(FEEDBACK).items()
    store.erase(
        FEEDBACK, [key for key, note in noted if not documents.whole(note, documents.OPINION)]
    )
