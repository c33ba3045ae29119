"""What is true of PostgreSQL alone: how often it is asked, and what is done when it fails."""

import numpy as np
import pytest
from databases import empty_store
from encoders import ColourEncoder, picture

from avow.indexes.pgvector import PgVector
from avow.retrieval.indexing import index_folders
from avow.retrieval.opening import open_library
from avow.retrieval.search import Retriever

DIM = 12


@pytest.fixture
def asked(monkeypatch):
    """What the server is asked, in order, without the frames of transactions."""
    psycopg = pytest.importorskip("psycopg")
    statements, execute = [], psycopg.Cursor.execute

    def noted(cursor, query, *values, **settings):
        if not str(query).startswith("SET "):
            statements.append(str(query))
        return execute(cursor, query, *values, **settings)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    return statements


@pytest.fixture
def address(server, monkeypatch):
    """Of an empty store."""
    monkeypatch.setenv("AVOW_PG_DSN", server)
    with empty_store("postgres") as place:
        yield place


@pytest.fixture
def pictures(tmp_path):
    """Seven of them in a folder."""
    home = tmp_path / "pictures"
    home.mkdir()
    for number in range(7):
        colour = tuple(np.random.default_rng(number).integers(0, 256, 3).tolist())
        picture(colour, (20, 30)).save(home / f"{number}.png")
    return home


@pytest.mark.parametrize("kind", ["exact", "hnsw"])
def test_many_queries_are_one_question_with_the_answers_of_one_each(server, asked, kind):
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(200, DIM)).astype(np.float32)
    queries = rng.normal(size=(9, DIM)).astype(np.float32)
    index = PgVector(DIM, server, kind=kind)
    try:
        index.add(np.arange(200), vectors)
        for among in (None, np.arange(0, 200, 3)):
            asked.clear()
            ids, scores = index.search(queries, 10, among)
            assert len(asked) == 1 and "count" not in asked[0]
            alone = [index.search(query[None], 10, among) for query in queries]
            assert ids.tolist() == [found[0][0].tolist() for found in alone]
            np.testing.assert_array_equal(scores, [found[1][0] for found in alone])
            left = np.arange(200) if among is None else among
            plain = queries @ vectors[left].T
            wanted = left[np.argsort(-plain, 1)[:, :10]]
            if kind == "exact":
                assert ids.tolist() == wanted.tolist()
            else:
                assert np.isin(ids, wanted).mean() > 0.9
    finally:
        index._ask(f"DROP TABLE {index.table}")
        index.close()


def test_a_graph_that_reaches_too_few_is_passed_by(server):
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(300, DIM)).astype(np.float32)
    index = PgVector(DIM, server, kind="hnsw")
    try:
        index.add(np.arange(300), vectors)
        index.delete(np.arange(0, 290))  # they stay in the graph until it is cleaned
        ids, _ = index.search(vectors[:2], 30)
        wanted = 290 + np.argsort(-vectors[:2] @ vectors[290:].T, 1)
        assert ids.tolist() == wanted.tolist()
    finally:
        index._ask(f"DROP TABLE {index.table}")
        index.close()


def test_a_search_counts_nothing_and_a_filter_is_a_condition(address, pictures, asked):
    encoder = ColourEncoder()
    index_folders([pictures], index=address, encoder=encoder)
    with open_library(address) as library:
        retriever = Retriever(library, encoder)
        retriever.search("red")
        retriever.search("red", where="width>10")
        asked.clear()
        assert len(library) == 7
        assert not asked
        retriever.search("blue")
        retriever.search("blue", where="width>10")
        assert not [question for question in asked if "count(" in question]
        assert len([question for question in asked if "LATERAL" in question]) == 2
        assert not [q for q in asked if "LATERAL" in q and "ANY" in q]
        (pictures / "0.png").unlink()
        index_folders([pictures], index=address, encoder=encoder)
        assert library.refresh() and len(library) == len(library.find()) == 6
