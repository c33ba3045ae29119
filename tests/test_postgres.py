"""What is true of PostgreSQL alone: how often it is asked, and what is done when it fails."""

import os
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from databases import Relay, empty_store
from encoders import ColourEncoder, picture
from fastapi.testclient import TestClient

from avow.api import create_app
from avow.core.errors import BadQuery, Unavailable, WrongIndex
from avow.data.readers import sample
from avow.indexes.pgvector import PgVector
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.opening import open_library, open_shared
from avow.retrieval.search import Retriever
from avow.retrieval.stores import postgres
from avow.retrieval.stores._postgres_filters import condition_of
from avow.retrieval.stores._postgres_pool import Pool
from avow.retrieval.where import Where

DIM = 12
HERE = "http://127.0.0.1:8000"
FIXTURES = Path(__file__).parent / "fixtures"


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


def test_threads_of_one_index_take_turns(server):
    vectors = np.random.default_rng(6).normal(size=(50, DIM)).astype(np.float32)
    index, errors = PgVector(DIM, server), []
    index.add(np.arange(50), vectors)

    def ask(place):
        try:
            for _ in range(20):
                assert index.search(9 * vectors[place : place + 1], 50)[0].shape == (1, 50)
                index.add(np.array([place]), vectors[place : place + 1])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=[place]) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    index._ask(f"DROP TABLE {index.table}")
    index.close()
    assert errors == []


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


# --- formats --------------------------------------------------------------------------------


@pytest.fixture
def old(server, monkeypatch):
    """A database of its own with a store as format 1 wrote it, named by AVOW_PG_DSN."""
    psycopg = pytest.importorskip("psycopg")
    name = f"avow_test_{uuid.uuid4().hex[:12]}"
    dsn = psycopg.conninfo.make_conninfo(server, dbname=name)
    with psycopg.connect(server, autocommit=True) as link:
        link.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute("CREATE EXTENSION vector")
        link.execute((FIXTURES / "postgres_format_1.sql").read_text())
    monkeypatch.setenv("AVOW_PG_DSN", dsn)
    yield dsn
    with psycopg.connect(server, autocommit=True) as link:
        link.execute(f"DROP DATABASE {name} WITH (FORCE)")
        link.execute(f"DROP ROLE IF EXISTS {name}")


def told(dsn, question):
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as link:
        return link.execute(question).fetchall()


def definitions(dsn, table):
    """Columns and indexes of a table, without its own name."""
    columns = told(
        dsn,
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
        f"WHERE table_name = '{table}' ORDER BY 1",
    )
    indexes = told(dsn, f"SELECT indexdef FROM pg_indexes WHERE tablename = '{table}'")
    return columns, sorted(row[0].replace(table, "TABLE") for row in indexes)


def test_a_store_of_an_earlier_format_is_brought_up_to_date_by_whoever_opens_it(old):
    opened, errors = [], []

    def read():
        try:
            with open_library("postgres:archive") as library:
                hits = Retriever(library, ColourEncoder(dim=8)).search("red").hits
                opened.append([hit.path for hit in hits])
        except Exception as error:
            errors.append(error)

    openers = [threading.Thread(target=read) for _ in range(4)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join()
    paths = [f"/pictures/{colour}.png" for colour in ("red", "blue", "green")]
    assert errors == [] and opened == [paths] * 4
    assert told(old, "SELECT version FROM avow_format") == [(2,)]
    with open_library("postgres:archive") as library:
        assert (len(library), library.videos(), library.folders()) == (4, (0, 0), ["/pictures"])
        assert [opinion.good for opinion in library.feedback()] == [True]
    new = open_shared("postgres:other")
    assert new is not None
    new.prepare({"dim": 8, "half": False, "engine": "exact", "fingerprint": "x"}, False)
    new.close()
    assert definitions(old, "avow_archive_1") == definitions(old, "avow_other_1")


def test_a_migration_that_fails_leaves_the_format_before_it(old):
    told(old, "INSERT INTO avow_generations VALUES ('archive', 9, 'x', '{}') RETURNING 1")
    with pytest.raises(WrongIndex, match="avow_archive_9"):
        open_library("postgres:archive")
    assert told(old, "SELECT version FROM avow_format") == [(1,)]
    assert not [name for name in definitions(old, "avow_archive_1")[1] if "videos" in name]


def test_a_role_that_may_only_read_searches_an_earlier_format(old, monkeypatch):
    import psycopg

    role = psycopg.conninfo.conninfo_to_dict(old)["dbname"]
    with psycopg.connect(old, autocommit=True) as link:
        link.execute(f"CREATE ROLE {role} LOGIN")
        link.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    monkeypatch.setenv("AVOW_PG_DSN", psycopg.conninfo.make_conninfo(old, user=role))
    with open_library("postgres:archive") as library:
        assert len(Retriever(library, ColourEncoder(dim=8)).search("red").hits) == 3
    assert told(old, "SELECT version FROM avow_format") == [(1,)]
    with psycopg.connect(old, autocommit=True) as link:
        link.execute(f"DROP OWNED BY {role}")


def test_an_address_that_cannot_be_read_is_not_repeated():
    """It may have a password."""
    with pytest.raises(WrongIndex, match="The address of PostgreSQL cannot be read") as told:
        postgres.build(name="archive", dsn="postgresql://user:s3cr3t%zz@127.0.0.1/db").current()
    assert "s3cr3t" not in str(told.value)
    with pytest.raises(WrongIndex, match="cannot be read"):
        PgVector(8, "postgresql://user:s3cr3t%zz@127.0.0.1/db")


def test_a_newer_format_is_refused(old):
    told(old, "UPDATE avow_format SET version = 3 RETURNING 1")
    with pytest.raises(WrongIndex) as refused:
        open_library("postgres:archive")
    assert str(refused.value) == (
        "The tables in PostgreSQL have format 3. Expected 2 or an older one; use the Avow that "
        "wrote them, or a newer one."
    )
    writer = open_shared("postgres:archive")
    assert writer is not None
    with pytest.raises(WrongIndex) as again:
        writer.prepare({"fingerprint": "f" * 16, "dim": 4, "half": False}, False)
    assert str(again.value) == str(refused.value)
    writer.close()


def test_filters_use_the_indexes_of_the_server(old):
    import psycopg

    open_library("postgres:archive").close()
    with psycopg.connect(old, autocommit=True) as link:
        link.execute("SET enable_seqscan = off")
        for where, index in (
            ("tag=dog", "avow_archive_1_tags"),
            ("taken>=2024-05-01", "avow_archive_1_taken"),
            ("kind=video", "avow_archive_1_videos"),
        ):
            condition, values = condition_of(Where.parse(where), "image")
            plan = link.execute(
                f"EXPLAIN SELECT id FROM avow_archive_1 WHERE {condition}", values
            ).fetchall()
            assert index in str(plan), where


# --- away, in part or altogether ------------------------------------------------------------


@pytest.fixture(scope="module")
def judged(server):
    """A retriever with the shipped model, a client of its server, and its link to the store."""
    encoder, relay = open_encoder(), Relay(server)
    files = sample.build().splits["test"].files or ()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AVOW_PG_DSN", server)
        with empty_store("postgres") as address:
            index_folders([Path(files[0]).parent], index=address, encoder=encoder)
            _more_rows(address, 200)
            patch.setenv("AVOW_PG_DSN", relay.dsn)
            with open_library(address) as library:
                retriever = Retriever(library, encoder)
                with TestClient(create_app(retriever), base_url=HERE) as client:
                    yield retriever, client, relay
            relay.close()
            patch.setenv("AVOW_PG_DSN", server)


def _more_rows(address, count):
    """Copies of rows with vectors a little beside theirs, so that a sample is long to read."""
    store = open_shared(address)
    store.use(store.current())
    stored, rng = store.read(store.find(None, "image").tolist()), np.random.default_rng(0)
    places = rng.integers(0, len(stored.rows), count)
    vectors = stored.vectors[places] + rng.normal(0, 0.02, (count, stored.vectors.shape[1]))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = [
        replace(stored.rows[place], id=number, path=f"/copies/{number}")
        for number, place in enumerate(places.tolist(), 1)
    ]
    store.put(rows, vectors.astype(np.float32), stored.usual[places])
    store.close()


@pytest.mark.slow
def test_without_its_sample_an_answer_says_that_it_is_partial(judged):
    retriever, client, relay = judged
    wanted = retriever.search("a cat", k=3)
    assert wanted.verdict == "answer" and wanted.trust is not None
    many = retriever.search("a cat", k=100).hits  # trust puts them in another order
    _forget(retriever)
    relay.limit = 0.8 * relay.longest  # what was longest is the sample
    partial = retriever.search("a cat", k=3)
    assert partial.verdict == "unjudged" and partial.trust is None and not partial.how_many
    assert partial.why.startswith(
        "Part of the index did not answer, so this answer is partial and not judged. "
        "PostgreSQL cannot be used"
    )
    assert partial.uncertainty.u is None
    nearest = sorted(many, key=lambda hit: -hit.similarity)[:3]  # without trust, by this
    assert [hit.path for hit in partial.hits] == [hit.path for hit in nearest]
    assert {hit.p_relevant for hit in partial.hits} == {None}
    told = client.get("/api/search", params={"text": "a cat", "k": 3}).json()
    assert (told["verdict"], told["trust"]) == ("unjudged", None)
    relay.limit = float("inf")
    again = retriever.search("a cat", k=3)
    assert (again.verdict, again.why) == (wanted.verdict, wanted.why)
    assert again.trust == pytest.approx(wanted.trust)


def _forget(retriever):
    """All that was read, as in a new process."""
    retriever.library._rows, retriever._galleries = {}, {}


@pytest.mark.slow
def test_a_server_that_dies_between_two_questions_is_a_sentence_and_a_503(judged):
    retriever, client, relay = judged
    store, asked = retriever.library._store, []
    search = store.search

    def dies(*question):
        found = search(*question)
        relay.cut = True
        relay.break_all()
        retriever.library._rows = {}  # of a larger gallery not all would be in memory
        asked.append(question)
        return found

    store.search = dies
    _forget(retriever)
    answer = client.get("/api/search", params={"text": "a cat"})
    assert asked and answer.status_code == 503 and answer.headers["retry-after"] == "1"
    assert answer.json()["error"].startswith("PostgreSQL cannot be used (")
    assert client.get("/api/ready").status_code == 503
    store.search = search
    with pytest.raises(Unavailable, match="PostgreSQL cannot be used"):
        retriever.search("a dog")
    relay.cut = False
    assert client.get("/api/search", params={"text": "a cat"}).json()["verdict"] == "answer"


def test_what_is_deleted_between_search_and_reading_is_no_answer(address, pictures):
    encoder = ColourEncoder()
    index_folders([pictures], index=address, encoder=encoder)
    other = open_shared(address)
    assert other is not None
    other.use(other.current())
    with open_library(address) as library:
        search, gone = library._store.search, []

        def overtaken(*question):
            found = search(*question)
            if not gone:
                gone.append(int(found[0][0][0]))
                other.delete(gone)
                library._rows = {}
            return found

        library._store.search = overtaken
        result = Retriever(library, encoder).search("red", k=10)
        assert len(result.hits) == 6 and gone[0] not in {hit.id for hit in result.hits}
        assert "partial" not in result.why
    other.close()


def test_an_answer_without_rows_where_there_should_be_some_is_no_empty_one(address, pictures):
    encoder = ColourEncoder()
    index_folders([pictures], index=address, encoder=encoder)
    with open_library(address) as library:
        retriever = Retriever(library, encoder)
        retriever.search("red")
        nothing = np.empty((1, 0), np.int64), np.empty((1, 0), np.float32)
        library._store.search = lambda *_: nothing
        result = retriever.search("red")
    assert (result.verdict, result.hits) == ("unjudged", ())
    assert result.why == (
        "Part of the index did not answer, so this answer is partial and not judged. "
        f"'{address}' gave 0 of 7 items."
    )


def test_a_database_without_tables_is_an_empty_store(server, monkeypatch):
    import psycopg

    name = f"avow_test_{uuid.uuid4().hex[:12]}"
    monkeypatch.setenv("AVOW_PG_DSN", psycopg.conninfo.make_conninfo(server, dbname=name))
    with psycopg.connect(server, autocommit=True) as link:
        link.execute(f"CREATE DATABASE {name}")
        try:
            with pytest.raises(WrongIndex, match="The store 'postgres:archive' is empty"):
                open_library("postgres:archive")
            store = open_shared("postgres:archive")
            assert store is not None and store.current() is None
            store.drop()  # there is nothing to remove
            store.close()
        finally:
            link.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_what_is_listed_in_parts_is_listed_whole(address, pictures, monkeypatch):
    encoder = ColourEncoder()
    index_folders([pictures], index=address, encoder=encoder)
    monkeypatch.setattr(postgres, "_AT_ONCE", 3)
    again = index_folders([pictures], index=address, encoder=encoder)
    assert (again.new, again.unchanged, again.deleted) == (0, 7, 0)
    with open_library(address) as library:
        assert len(library.items(library.find())) == 7


def test_a_graph_that_is_too_wide_or_reaches_too_few(address, pictures, tmp_path, monkeypatch):
    wide = ColourEncoder(dim=2002)
    with pytest.raises(WrongIndex, match="The vectors have 2002 numbers"):
        index_folders([pictures], index=address, encoder=wide, engine="hnsw")
    encoder, texts = ColourEncoder(dim=DIM), tmp_path / "texts"
    texts.mkdir()
    for lines in (range(300), range(290, 300)):
        rows = "\n".join(f"text {number}" for number in lines)
        (texts / "some.csv").write_text(f"text\n{rows}\n")
        index_folders([texts], index=address, encoder=encoder, engine="hnsw", prune=True)
    monkeypatch.setattr(postgres, "_FEW", 0)
    with open_library(address) as library:  # those that are gone stay in the graph
        query = encoder.encode_texts(["red"])
        found = library.nearest(query, 10, library.choose(None, "text", 100))
        assert found.ids.shape == (1, 10) and not found.missing
        # as if more had passed a moment ago: all rows are compared, and no more are there
        ids, _ = library._store.search(query, 20, None, "text", 20)
        assert sorted(ids[0]) == sorted(library.find(None, "text"))


def test_a_question_without_end_is_a_sentence(address, pictures, monkeypatch):
    encoder = ColourEncoder()
    index_folders([pictures], index=address, encoder=encoder)
    monkeypatch.setattr(postgres, "_SECONDS", 0.05)
    monkeypatch.setattr(postgres, "condition_of", lambda *_: ("pg_sleep(5) IS NULL", []))
    with open_library(address) as library:
        with pytest.raises(
            BadQuery, match="The filter 'width>1' cannot be compared by Postgre"
        ):
            library.find(Where.parse("width>1"))
        with pytest.raises(Unavailable, match="PostgreSQL cannot be used"):
            library.find()


def test_writers_that_met_try_again(server):
    import psycopg

    pool, tried = Pool(server), []

    def work(link):
        tried.append(link)
        if len(tried) < 3:
            raise psycopg.errors.DeadlockDetected
        return "done"

    assert pool.use(work) == "done" and len(tried) == 3
    with pytest.raises(WrongIndex, match="PostgreSQL cannot be used"):
        pool.use(lambda link: (_ for _ in ()).throw(psycopg.errors.SerializationFailure))
    pool.close()


def test_a_table_needs_a_plain_name():
    with pytest.raises(WrongIndex, match="The table 'a b' has no usable name"):
        PgVector(DIM, "postgresql://nowhere", table="a b")


def test_a_store_without_an_address_is_told(monkeypatch):
    monkeypatch.delenv("AVOW_PG_DSN", raising=False)
    with pytest.raises(WrongIndex) as told:
        open_library("postgres:archive")
    assert str(told.value) == (
        "The store in PostgreSQL does not know its server. Expected its address in "
        "AVOW_PG_DSN, such as postgresql://user@host/database."
    )


def test_a_forked_process_leaves_the_connections_of_its_parent_alone(server, monkeypatch):
    pool = Pool(server)
    pool.use(lambda link: None)
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        pool.close()
    assert pool.use(lambda link: link.execute("SELECT 7").fetchone()) == (7,)
    pool._pool.close()
