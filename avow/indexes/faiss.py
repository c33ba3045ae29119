"""Search with Faiss: `flat` compares everything, `hnsw` walks a graph and may miss some.

A graph cannot lose a vertex, so an index of that kind is built anew after a deletion, when
it is next searched or saved.
"""

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32, Int64

from avow.core import checksums
from avow.core.documents import read_object
from avow.core.errors import MissingExtra, WrongIndex
from avow.core.files import new_folder, recover
from avow.core.searching import Ids, Index, Nearest, Queries
from avow.indexes._vectors import best_of, checked, last_of_each

Kind = Literal["flat", "hnsw"]
_INSIDE = {"flat": b"IxFI", "hnsw": b"IHNf"}
"""How Faiss marks an index in a file; ours stands inside an `IndexIDMap2`, marked `IxM2`."""
_START = 4 + 33 + 4  # mark, header of the outer index, mark of the inner one


class Faiss(Index):
    """An `IndexIDMap2` over inner products."""

    def __init__(self, dim: int, kind: Kind = "flat", links: int = 32, effort: int = 128):
        self._faiss = _library()
        self.dim, self.kind, self.links, self.effort = dim, kind, links, effort
        self.exact = kind == "flat"
        self._index = self._empty()
        self._dead: set[int] = set()

    def add(
        self, ids: Int64[np.ndarray, " items"], vectors: Float32[np.ndarray, "items dim"]
    ) -> None:
        vectors = checked(vectors, self.dim)
        last = last_of_each(ids)
        self.delete(ids)
        self._settle()
        if len(last):
            self._index.add_with_ids(vectors[last], ids[last])

    def delete(self, ids: Int64[np.ndarray, " items"]) -> None:
        there = np.intersect1d(ids, self._all_ids())
        if not len(there):
            return
        if self.kind == "hnsw":
            self._dead.update(there.tolist())
        else:
            self._index.remove_ids(self._faiss.IDSelectorBatch(there))

    def search(self, queries: Queries, k: int, among: Ids | None = None) -> Nearest:
        queries = checked(queries, self.dim)
        self._settle()
        total, chosen = self._index.ntotal, None
        if among is not None:
            chosen = np.intersect1d(among, self._all_ids())
            total = len(chosen)
        count = max(0, min(k, total))
        ids = np.empty((len(queries), count), np.int64)
        scores = np.empty((len(queries), count), np.float32)
        if count:
            for number in range(len(queries)):
                ids[number], scores[number] = self._search_one(
                    queries[number : number + 1], count, total, chosen
                )
        return ids, scores

    def ids(self) -> Int64[np.ndarray, " items"]:
        return np.setdiff1d(self._all_ids(), np.array(sorted(self._dead), np.int64))

    def vectors(self, ids: Int64[np.ndarray, " items"]) -> Float32[np.ndarray, "items dim"]:
        all_ids = self._all_ids()
        order = np.argsort(all_ids)
        places = np.searchsorted(all_ids, ids, sorter=order)
        inside = places < len(all_ids)
        places, ids = order[places[inside]], ids[inside]
        places = places[all_ids[places] == ids]
        if not len(places):
            return np.empty((0, self.dim), np.float32)
        return self._index.index.reconstruct_batch(places)

    def save(self, folder: Path) -> None:
        self._settle()
        with new_folder(folder) as home:
            self._faiss.write_index(self._index, str(home / "vectors.faiss"))
            about = {"engine": "faiss", "dim": self.dim, "kind": self.kind}
            about |= {"links": self.links, "effort": self.effort}
            about |= {"vectors": checksums.of_file(home / "vectors.faiss")}
            (home / "faiss.json").write_text(json.dumps(checksums.sealed(about)))

    @classmethod
    def open(cls, folder: Path, dim: int) -> "Faiss":
        recover(folder)
        try:
            about = _about(folder)
            settings = [about[key] for key in ("kind", "links", "effort")]
            if settings[0] not in _INSIDE or not all(
                type(number) is int for number in settings[1:]
            ):
                raise ValueError("its settings are not those of such an index")
            _check_kind(folder / "vectors.faiss", settings[0])
            index = _library().read_index(str(folder / "vectors.faiss"))
        except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
            message = " ".join(str(error).split())[:200]
            raise WrongIndex(
                f"There is no Faiss index in {str(folder)!r} ({message}). Expected a folder "
                "that an index was saved to; run `avow index FOLDER` to make it again."
            ) from error
        if index.d != dim:
            raise WrongIndex(
                f"The index in {str(folder)!r} has vectors of {index.d} numbers. Expected "
                f"{dim}; open it with the model that made it."
            )
        engine = cls(dim, *settings)
        engine._index = index
        return engine

    def _search_one(
        self,
        query: Float32[np.ndarray, "1 dim"],
        k: int,
        total: int,
        among: Int64[np.ndarray, " chosen"] | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """One query; more is asked for until nothing outside ties with the last answer."""
        asked = min(total, k + 8)
        while True:
            scores, ids = self._index.search(query, asked, params=self._choice(among, asked))
            scores, ids = scores[0][ids[0] >= 0], ids[0][ids[0] >= 0]
            if len(ids) < k:  # a graph may not reach all of them: compare these one by one
                left = self.ids() if among is None else among
                scores = (self.vectors(left) @ query[0]).astype(np.float32)
                return best_of(left, scores, k)
            if asked == total or scores[-1] < scores[k - 1]:
                return best_of(ids, scores, k)
            asked = min(total, 2 * asked)

    def _choice(self, among: Int64[np.ndarray, " chosen"] | None, asked: int) -> Any:
        chosen = {} if among is None else {"sel": self._faiss.IDSelectorBatch(among)}
        if self.kind == "hnsw":
            effort = max(self.effort, 2 * asked)
            return self._faiss.SearchParametersHNSW(efSearch=effort, **chosen)
        return self._faiss.SearchParameters(**chosen)

    def _settle(self) -> None:
        """Build a graph anew without the vectors that were deleted."""
        if self._dead:
            ids = self.ids()
            vectors = self.vectors(ids)
            self._index, self._dead = self._empty(), set()
            if len(ids):
                self._index.add_with_ids(vectors, ids)

    def _empty(self) -> Any:
        if self.kind == "hnsw":
            metric = self._faiss.METRIC_INNER_PRODUCT
            inner = self._faiss.IndexHNSWFlat(self.dim, self.links, metric)
        else:
            inner = self._faiss.IndexFlatIP(self.dim)
        return self._faiss.IndexIDMap2(inner)

    def _all_ids(self) -> Int64[np.ndarray, " items"]:
        return self._faiss.vector_to_array(self._index.id_map).astype(np.int64)


def _check_kind(file: Path, kind: str) -> None:
    """Refuse other kinds than the two made here: some of them name files of their own."""
    if not file.is_file():
        raise ValueError("there is no 'vectors.faiss'")
    with file.open("rb") as stream:
        start = stream.read(_START)
    if start[:4] != b"IxM2" or start[-4:] != _INSIDE[kind]:
        raise ValueError("'vectors.faiss' is another kind of index")


def _about(folder: Path) -> dict[str, Any]:
    """What was saved beside the vectors, and that both are as they were saved."""
    about = read_object(folder / "faiss.json")
    fits = checksums.intact(about)
    if fits is None and "vectors" not in about:  # saved before there were checksums
        return about
    if not fits or about["vectors"] != checksums.of_file(folder / "vectors.faiss"):
        raise ValueError("damaged: a checksum does not fit")
    return about


def _library() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtra("The engine 'faiss'", "faiss-cpu", "ann") from error
    return faiss


def build(*, dim: int, kind: Kind = "flat", links: int = 32, effort: int = 128) -> Faiss:
    """links: neighbours of a vertex. effort: candidates kept while walking the graph."""
    return Faiss(dim, kind, links, effort)
