"""What every engine in `indexes/` must do, against plain numpy."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from encoders import ColourEncoder, picture
from hypothesis import given, settings
from hypothesis import strategies as st

from avow import indexes
from avow.core import folder
from avow.core.errors import BadFeatures, MissingExtra, Unavailable, WrongIndex
from avow.core.vector_forms import Plain
from avow.indexes import exact
from avow.indexes.exact import DEAD, Exact, _merged
from avow.indexes.pgvector import PgVector
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.store import engines

DIM = 24
WAYS = [
    ("exact", {}),
    ("exact", {"half": True}),
    ("exact", {"block": 7}),
    ("faiss", {}),
    ("faiss", {"kind": "hnsw"}),
    ("pgvector", {}),
    ("pgvector", {"kind": "hnsw"}),
]


@pytest.fixture(params=WAYS, ids=lambda way: "-".join([way[0], *map(str, way[1].values())]))
def make(request, monkeypatch):
    name, settings = request.param
    made = []
    if name == "faiss":
        pytest.importorskip("faiss")
    if name == "pgvector":
        monkeypatch.setenv("AVOW_PG_DSN", request.getfixturevalue("server"))

    def build(**more):
        index = folder.build(indexes, name, **{"dim": DIM, **settings, **more})
        made.append(index)
        return index

    yield build
    for index in made:
        getattr(index, "close", lambda: None)()


def some(count, seed=0, dim=DIM):
    vectors = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    # numbers that half precision holds exactly, so that every engine keeps them all
    return vectors.astype(np.float16).astype(np.float32)


def plain(ids, vectors, queries, k):
    """Best first, ties by the smaller id, by sorting everything."""
    out_ids, out_scores = [], []
    for query in queries:
        scores = vectors.astype(np.float64) @ query
        order = sorted(range(len(ids)), key=lambda n: (-scores[n], ids[n]))[:k]
        out_ids.append([ids[n] for n in order])
        out_scores.append([scores[n] for n in order])
    return np.array(out_ids).reshape(len(queries), -1), np.array(out_scores)


def numbers(*values):
    return np.array(values, np.int64)


def test_it_finds_what_numpy_finds(make):
    index, vectors = make(), some(300)
    ids = np.random.default_rng(1).permutation(10_000)[:300].astype(np.int64)
    index.add(ids, vectors)
    queries = some(5, 2)
    found, scores = index.search(queries, 10)
    wanted, values = plain(ids, vectors, queries, 10)
    assert found.dtype == np.int64 and scores.dtype == np.float32
    if index.exact:
        assert found.tolist() == wanted.tolist()
        np.testing.assert_allclose(scores, values, rtol=1e-5, atol=1e-5)
    hits = [len(set(a) & set(b)) for a, b in zip(found.tolist(), wanted.tolist(), strict=True)]
    assert sum(hits) >= 0.95 * 50
    assert (np.diff(scores) <= 0).all()


def test_an_id_given_again_is_replaced(make):
    index, vectors = make(), some(20)
    index.add(np.arange(20), vectors)
    index.add(numbers(3, 4, 3), np.stack([vectors[0], vectors[1], 9 * vectors[5]]))
    assert len(index) == 20
    assert index.search(vectors[5:6], 1)[0].tolist() == [[3]]
    np.testing.assert_array_equal(index.vectors(numbers(4, 3))[0], vectors[1])


def test_what_is_deleted_is_never_found(make):
    index, vectors = make(), some(50)
    index.add(np.arange(50), vectors)
    index.delete(numbers(0, 7, 7, 49, 1234))
    assert len(index) == 47
    found, _ = index.search(vectors[7:8], 47)
    assert sorted(found[0]) == [n for n in range(50) if n not in (0, 7, 49)]
    index.add(numbers(7), vectors[7:8])
    assert index.search(10 * vectors[7:8], 1)[0].tolist() == [[7]]
    index.delete(index.ids())
    assert len(index) == 0 and index.search(vectors[:2], 3)[0].shape == (2, 0)


@pytest.mark.parametrize("chosen", [3, 40, 90, 100])
def test_a_search_among_some_finds_the_best_of_them(make, chosen):
    index, vectors = make(), some(100)
    index.add(np.arange(100), vectors)
    among = np.random.default_rng(chosen).permutation(100)[:chosen].astype(np.int64)
    unknown = numbers(5000, among[0], -4)
    found, scores = index.search(some(3, 9), 12, np.concatenate([among, unknown]))
    wanted, values = plain(among, vectors[among], some(3, 9), 12)
    assert found.shape == (3, min(12, chosen))
    assert set(found.ravel()) <= set(among)
    if index.exact:
        assert found.tolist() == wanted.tolist()
        np.testing.assert_allclose(scores, values, rtol=1e-5, atol=1e-5)


def test_nothing_to_search_among_gives_nothing(make):
    index = make()
    index.add(np.arange(4), some(4))
    assert index.search(some(2), 3, numbers())[0].shape == (2, 0)
    assert index.search(some(2), 0)[0].shape == (2, 0)


def test_an_empty_index_answers_nothing(make, tmp_path):
    index = make()
    assert len(index) == 0
    assert index.search(some(2), 5)[0].shape == (2, 0)
    index.delete(numbers(3))
    index.add(numbers(), some(0))
    assert len(index) == 0
    index.save(tmp_path / "kept")
    opened = index.open(tmp_path / "kept", DIM)
    assert len(opened) == 0
    getattr(opened, "close", lambda: None)()


def test_added_one_by_one_is_as_added_at_once(make):
    index, vectors = make(), some(9)
    for number in range(9):
        index.add(numbers(number), vectors[number : number + 1])
    ids, _ = index.search(some(2), 9)
    assert ids.tolist() == plain(numbers(*range(9)), vectors, some(2), 9)[0].tolist()


def test_equal_scores_come_in_order_of_their_ids(make):
    index = make()
    if not index.exact:
        pytest.skip("a graph may miss one of several equals")
    ids = np.random.default_rng(0).permutation(60).astype(np.int64)
    index.add(ids, np.repeat(some(1), 60, 0))
    found, _ = index.search(some(1), 25)
    assert found[0].tolist() == list(range(25))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 12), st.integers(0, 999))
def test_blocks_merged_for_all_queries_equal_a_loop(rows, queries, k, seed):
    """Few different scores, so that most of them tie, and some rows that are dead."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 2, (queries, rows)).astype(np.float32)
    ids = rng.permutation(1000)[:rows].astype(np.int64)
    ids[rng.random(rows) < 0.3] = -1
    scores[:, ids == -1] = -np.inf
    cuts = sorted(rng.integers(0, rows + 1, 3).tolist())
    best = np.empty((queries, 0), np.int64), np.empty((queries, 0), np.float32)
    for start, end in pairwise([0, *cuts, rows]):
        if end > start:
            best = _merged(best, ids[start:end], scores[:, start:end], k)
    live = np.flatnonzero(ids != -1)
    for query in range(queries):
        order = sorted(live, key=lambda n: (-scores[query, n], ids[n]))[:k]
        assert best[0][query].tolist() == ids[order].tolist()
        assert best[1][query].tolist() == scores[query, order].tolist()


def test_a_saved_index_is_the_same_when_opened(make, tmp_path):
    index, vectors = make(), some(80)
    index.add(np.arange(80), vectors)
    index.delete(numbers(5))
    index.save(tmp_path / "kept")
    index.save(tmp_path / "kept")
    opened = index.open(tmp_path / "kept", DIM)
    assert opened.fingerprint() == index.fingerprint()
    assert opened.exact == index.exact
    first, second = index.search(some(3, 4), 6), opened.search(some(3, 4), 6)
    np.testing.assert_array_equal(first[0], second[0])
    opened.add(numbers(5), vectors[5:6])
    assert len(opened) == 80
    getattr(opened, "close", lambda: None)()


def test_another_width_is_refused_on_opening(make, tmp_path):
    index = make()
    index.add(np.arange(4), some(4))
    index.save(tmp_path / "kept")
    with pytest.raises(WrongIndex, match=f"has vectors of {DIM} numbers"):
        index.open(tmp_path / "kept", DIM + 1)
    with pytest.raises(WrongIndex, match="There is no"):
        index.open(tmp_path / "elsewhere", DIM)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda about: about | {"links": "32"}, "its settings are not those of such an index"),
        (lambda about: about | {"kind": "ivf"}, "its settings are not those of such an index"),
        (None, "there is no 'vectors.faiss'"),
    ],
)
def test_a_faiss_index_of_other_settings_or_without_vectors_is_told(tmp_path, change, why):
    pytest.importorskip("faiss")
    index = folder.build(indexes, "faiss", dim=DIM)
    index.add(numbers(*range(9)), some(9))
    index.save(tmp_path / "ix")
    about = tmp_path / "ix" / "faiss.json"
    known = json.loads(about.read_text())
    old = {key: known[key] for key in ("kind", "links", "effort")}  # without checksums
    about.write_text(json.dumps(old))
    assert len(type(index).open(tmp_path / "ix", DIM)) == 9
    if change is None:
        (tmp_path / "ix" / "vectors.faiss").unlink()
    else:
        about.write_text(json.dumps(change(old)))
    with pytest.raises(WrongIndex, match=why):
        type(index).open(tmp_path / "ix", DIM)


def test_what_a_graph_does_not_reach_is_compared_one_by_one():
    """Equal vectors are linked with each other alone: the graph falls apart."""
    pytest.importorskip("faiss")
    index = folder.build(indexes, "faiss", dim=DIM, kind="hnsw", links=2, effort=1)
    rows = np.repeat(some(3), 200, axis=0)
    index.add(np.arange(600), rows)
    ids, scores = index.search(rows[:1], 600)
    assert sorted(ids[0].tolist()) == list(range(600))
    np.testing.assert_allclose(scores, plain(range(600), rows, rows[:1], 600)[1], rtol=1e-5)


def test_the_fingerprint_tells_content_and_not_order(make):
    first, second, third = make(), make(), make()
    vectors = some(40)
    first.add(np.arange(40), vectors)
    second.add(np.arange(40)[::-1].copy(), vectors[::-1].copy())
    third.add(np.arange(39), vectors[:39])
    assert first.fingerprint() == second.fingerprint() != third.fingerprint()
    third.add(numbers(39), vectors[:1])
    assert third.fingerprint() != first.fingerprint()
    third.add(numbers(39), vectors[39:])
    assert third.fingerprint() == first.fingerprint()


def test_wrong_vectors_are_refused_and_change_nothing(make):
    index = make()
    index.add(np.arange(4), some(4))
    before = index.fingerprint()
    broken = some(1)
    broken[0, 3] = np.nan
    with pytest.raises(BadFeatures, match=rf"Expected \[items, {DIM}\]"):
        index.add(numbers(9), some(1, dim=DIM + 1))
    with pytest.raises(BadFeatures, match="NaN"):
        index.add(numbers(9), broken)
    with pytest.raises(BadFeatures, match="NaN"):
        index.search(broken, 1)
    with pytest.raises(BadFeatures, match="shape"):
        index.search(some(1, dim=3), 1)
    assert index.fingerprint() == before


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"pip install 'avow\[ann\]'"):
        folder.build(indexes, "faiss", dim=3)
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'avow\[pg\]'"):
        folder.build(indexes, "pgvector", dim=3)


def test_a_server_that_is_not_there_is_a_sentence(monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.delenv("AVOW_PG_DSN", raising=False)
    with pytest.raises(WrongIndex, match="AVOW_PG_DSN"):
        folder.build(indexes, "pgvector", dim=3)
    with pytest.raises(WrongIndex, match="cannot be used") as caught:
        dsn = "postgresql://me:hunter2@127.0.0.1:1/nowhere"
        folder.build(indexes, "pgvector", dim=3, dsn=dsn)
    assert "hunter2" not in str(caught.value)


def test_a_server_that_went_away_is_a_sentence(server):
    index = PgVector(DIM, server)
    index.add(numbers(1), some(1))
    index.close()
    for asked in (
        index.ids,
        lambda: index.search(some(1), 1),
        lambda: index.add(numbers(2), some(1)),
    ):
        with pytest.raises(WrongIndex, match="cannot be used"):
            asked()


def test_a_server_that_restarts_is_found_again(server, away):
    index = PgVector(DIM, server)
    index.add(numbers(1, 2), some(2))
    wanted = index.search(some(1), 2)[0].tolist()
    for asked in (
        lambda: index.search(some(1), 2)[0].tolist() == wanted,
        lambda: index.ids().tolist() == [1, 2],
        lambda: index.add(numbers(2), some(2)[1:]) is None,
    ):
        away.stop()
        with pytest.raises(Unavailable, match="PostgreSQL cannot be used"):
            asked()
        with pytest.raises(Unavailable, match="PostgreSQL cannot be used"):
            asked()
        away.ensure_postgres_running()
        assert asked()
    index.close()


class Meeting(np.ndarray):
    """Rows whose product waits for another one, and says whether it came."""

    together: ClassVar = threading.Barrier(2)
    patience: ClassVar = 0.0
    met: ClassVar[list[bool]] = []

    def __matmul__(self, other):
        try:
            self.together.wait(self.patience)
            self.met.append(True)
        except threading.BrokenBarrierError:
            self.met.append(False)
            self.together.reset()
        return np.asarray(self) @ other


@pytest.mark.parametrize("large", [True, False])
def test_large_products_take_turns(monkeypatch, large):
    """Each takes all cores; two at once are slower than one after the other."""
    monkeypatch.setattr(exact, "_OF_ALL_CORES", 7 if large else 8)
    monkeypatch.setattr(Meeting, "met", [])
    monkeypatch.setattr(Meeting, "patience", 0.2 if large else 60)
    monkeypatch.setattr(Meeting, "together", threading.Barrier(2))
    index = Exact.over(np.arange(4), np.eye(4, 2, dtype=np.float32).view(Meeting))
    query = np.eye(1, 2, dtype=np.float32)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: index.search(query, 1)[0].item(), range(2)))
    assert found == [0, 0] and Meeting.met == [not large] * 2


def test_mapped_rows_are_searched_where_they_lie(tmp_path):
    vectors = some(100)
    np.save(tmp_path / "rows.npy", vectors)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    ids = np.where(np.arange(100) % 3 == 0, -1, np.arange(100))
    index = Exact.over(ids, rows, block=16)
    live = np.flatnonzero(ids >= 0)
    wanted, _ = plain(live, vectors[live], some(4, 3), 9)
    assert index.search(some(4, 3), 9)[0].tolist() == wanted.tolist()
    assert np.shares_memory(index._rows, rows)
    index.add(numbers(500), vectors[:1])  # copies them; the file stays as it is
    assert index.search(9 * vectors[:1], 1)[0].tolist() == [[500]]
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), vectors)
    assert os.listdir(tmp_path) == ["rows.npy"]


# --- what a rebuild leaves behind -----------------------------------------------------------


def tables(server: str) -> set[str]:
    import psycopg

    with psycopg.connect(server) as link:
        rows = link.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'avow%'")
        return {row[0] for row in rows}


@pytest.fixture
def rebuilt(server, tmp_path, monkeypatch):
    """A function that makes an index of two pictures anew, with a model of a given width."""
    monkeypatch.setenv("AVOW_PG_DSN", server)
    (tmp_path / "photos").mkdir()
    for colour in ("red", "blue"):
        picture(colour).save(tmp_path / "photos" / f"{colour}.png")

    def make(dim: int, engine: str) -> Library:
        index_folders(
            [tmp_path / "photos"],
            index=tmp_path / "index",
            encoder=ColourEncoder(dim=dim),
            engine=engine,
            rebuild=True,
        )
        return Library.open(tmp_path / "index")

    return make


def test_a_changed_model_leaves_no_table_behind(rebuilt, server):
    others = tables(server)
    with rebuilt(32, "pgvector"):
        (old,) = tables(server) - others
    with rebuilt(16, "pgvector") as library:
        (new,) = tables(server) - others
        assert new != old and library.dim == 16
        queries = ColourEncoder(dim=16).encode_texts(["blue"])
        found = library.items(library.search(queries, 1)[0][0])
        assert Path(found[0].path).name == "blue.png"


def test_another_engine_leaves_no_table_behind(rebuilt, server):
    others = tables(server)
    with rebuilt(32, "pgvector"):
        assert tables(server) - others
    with rebuilt(32, "exact") as library:
        assert not tables(server) - others and len(library) == 2
        assert not (library._space.engines / "pgvector").exists()


def test_a_table_of_a_server_that_is_away_is_named(rebuilt, server, monkeypatch, caplog):
    others = tables(server)
    with rebuilt(32, "pgvector"):
        (old,) = tables(server) - others
    monkeypatch.delenv("AVOW_PG_DSN")
    with rebuilt(16, "exact") as library:
        assert len(library) == 2
    assert f"The table {old!r} stays behind in PostgreSQL" in caplog.text
    assert old in tables(server)


def test_only_tables_that_avow_named_are_dropped(server, tmp_path, monkeypatch):
    monkeypatch.setenv("AVOW_PG_DSN", server)
    index = PgVector(DIM, table="avow_of_somebody_else")
    index.save(tmp_path / "kept")
    PgVector.forget(tmp_path / "kept")
    assert "avow_of_somebody_else" in tables(server)
    index.close()


@pytest.mark.parametrize("at_once", [3, 65536])  # fewer are gathered, more are masked
@pytest.mark.parametrize("half", [False, True])
def test_an_engine_that_lags_behind_its_rows_answers_as_they_do(monkeypatch, at_once, half):
    monkeypatch.setattr(engines, "_AT_ONCE", at_once)
    vectors, ids = some(20), np.arange(100, 120)
    ids[4] = DEAD
    lagging = Exact(DIM)
    lagging.add(numbers(3, *range(100, 110)), some(11, 5))  # 3 and 104 are gone since
    lagging.add(ids[5:10], vectors[5:10])
    lagging.add(ids[:4], vectors[:4])
    form = Plain(DIM, half)
    searched = engines.Searched(ids, form.encode(vectors), form, lagging, dim=DIM)
    live = np.flatnonzero(ids != DEAD)
    found = searched.search(some(3, 2), 7)
    wanted = plain(ids[live], vectors[live], some(3, 2), 7)
    assert found[0].tolist() == wanted[0].tolist()
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)


@pytest.mark.parametrize("half", [False, True])
def test_rows_have_the_precision_that_was_asked_for(half):
    index, third = Exact(2, half=half), np.array([[1 / 3, 0]], np.float32)
    index.add(np.array([5]), third)
    ids, scores = index.search(np.array([[1, 0]], np.float32), 1)
    wanted = third[0, 0].astype(np.float16) if half else third[0, 0]
    assert ids.tolist() == [[5]] and scores[0, 0] == np.float32(wanted)
