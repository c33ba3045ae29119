"""Documents of a shared store that are damaged: told in a sentence, and mended by a rebuild."""

import re

import pytest
from databases import milvus_servers, store_on
from encoders import ColourEncoder, picture

from avow.core.errors import WrongIndex
from avow.retrieval.indexing import index_folders
from avow.retrieval.opening import open_library, open_shared
from avow.retrieval.store_documents import OPINION, skip_of, whole


@pytest.fixture(params=("postgres", *milvus_servers()))
def place(request, monkeypatch, tmp_path):
    """The address of a store with two pictures, one of which cannot be read."""
    picture("red").save(tmp_path / "red.png")
    (tmp_path / "broken.png").write_bytes(b"no picture")
    with store_on(request.param, request, monkeypatch) as address:
        index_folders([tmp_path], index=address, encoder=ColourEncoder())
        yield address


def told(place, what):
    return re.escape(
        f"The store '{place}' is damaged: {what} cannot be read. Expected what `avow index` "
        f"wrote; make it anew with `avow index FOLDER --index {place} --rebuild`."
    )


def damage(store, content):
    """Write over the note of what readers see."""
    if store.kind == "milvus":
        store.note("state", {"published": content})
    else:
        question = "UPDATE avow_generations SET manifest = %s::jsonb WHERE store = %s"
        valid = content if content.startswith("[") else '{"model": 3}'
        store._pool.use(lambda link: link.execute(question, [valid, store.name]))


@pytest.mark.parametrize("content", ['{"format": 1, "gen', "[1, 2]", '{"format": 1}'])
def test_what_readers_see_of_a_store_is_damaged(place, tmp_path, content):
    store, encoder = open_shared(place), ColourEncoder()
    with open_library(place) as library:
        damage(store, content)
        what = "the note 'published'" if store.kind == "milvus" else "the manifest"
        with pytest.raises(WrongIndex, match=told(place, what)):
            library.refresh()
    store.close()
    with pytest.raises(WrongIndex, match=told(place, what)):
        open_library(place)
    with pytest.raises(WrongIndex, match=told(place, what)):
        index_folders([tmp_path], index=place, encoder=encoder)
    assert index_folders([tmp_path], index=place, encoder=encoder, rebuild=True).new == 1
    with open_library(place) as library:
        assert len(library) == 1


def test_a_generation_that_is_damaged_is_not_gone_on_with(place, tmp_path):
    """As it is left by a rebuild that was cut off."""
    encoder = ColourEncoder()
    with open_library(place) as library:
        store = library._store
        if store.kind == "milvus":
            store.note("generation", {"1": "{", "2": '{"fingerprint": 3}'})
        else:
            made = "INSERT INTO avow_generations (store, number, model, manifest) VALUES "
            values = [store.name, encoder.fingerprint]
            last = "UPDATE avow_stores SET last = 2 WHERE name = %s"
            store._pool.use(lambda link: link.execute(f"{made} (%s, 2, %s, '[]')", values))
            store._pool.use(lambda link: link.execute(last, values[:1]))
    index_folders([tmp_path], index=place, encoder=encoder, rebuild=True)
    with open_library(place) as library:
        assert len(library) == 1 and library._store.generation == 3


def test_a_row_is_damaged(place, tmp_path):
    encoder = ColourEncoder()
    with open_library(place) as library:
        store, number = library._store, int(library.find()[0])
        if store.kind == "milvus":
            fields = {"output_fields": ["*"]}
            (row,) = store._link.use(lambda link: link.get(store._rows(), [number], **fields))
            store._link.use(lambda link: link.upsert(store._rows(), [row | {"about": "{"}]))
        else:
            change = f"UPDATE {store._table()} SET usual = '\\x0102' WHERE id = %s"
            store._pool.use(lambda link: link.execute(change, [number]))
        with pytest.raises(WrongIndex, match=told(place, "a row")):
            library.items([number])
        if store.kind == "milvus":  # the other has a column for each
            with pytest.raises(WrongIndex, match=told(place, "a row")):
                index_folders([tmp_path], index=place, encoder=encoder)
    index_folders([tmp_path], index=place, encoder=encoder, rebuild=True)
    with open_library(place) as library:
        assert len(library.items([number])) == 1


def test_an_opinion_is_damaged(place, tmp_path):
    encoder = ColourEncoder()
    with open_library(place) as library:
        (number,) = library.find()
        library.set_feedback({"text": "red"}, int(number), True)
        library._store.note("feedback", {"a key": '{"query": "red"}'})
        with pytest.raises(WrongIndex, match=told(place, "the opinion 'a key'")):
            library.feedback()
    index_folders([tmp_path], index=place, encoder=encoder, rebuild=True)
    with open_library(place) as library:
        assert [one.item_id for one in library.feedback()] == [number]


def test_a_note_on_a_skipped_file_is_damaged(place, tmp_path):
    path = str(tmp_path / "broken.png")
    with open_library(place) as library:
        (before,) = library.skipped()
        library._store.note("skipped", {path: "{", "/elsewhere.png": "[]"})
        lost = "why it was skipped cannot be read any more"
        assert {one.path: one.why for one in library.skipped()} == {
            path: lost,
            "/elsewhere.png": lost,
        }
    report = index_folders([tmp_path], index=place, encoder=ColourEncoder())
    assert dict(report.skipped) == {path: before.why, "/elsewhere.png": lost}


def test_an_object_without_what_it_must_have_is_not_whole():
    good = '{"query": {"text": "red"}, "item": 3, "good": true, "when": 1.5}'
    assert whole(good, OPINION) == {
        "query": {"text": "red"},
        "item": 3,
        "good": True,
        "when": 1.5,
    }
    for wrong in ("", "3", "null", "[]", good[:-1], good.replace("3", '"3"'), "[" * 100_000):
        assert whole(wrong, OPINION) is None
    assert skip_of(good) == skip_of("") and skip_of("")["again"]
