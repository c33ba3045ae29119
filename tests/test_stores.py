"""What every store must do: the hits, probabilities and verdicts of a folder on one machine."""

import dataclasses
import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from databases import milvus_servers, store_on
from encoders import ColourEncoder, picture
from PIL import Image

import avow
from avow.core.errors import BadData, BadQuery, Unavailable, WrongIndex
from avow.data.readers import sample
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.gallery import Gallery
from avow.retrieval.indexing import index_folders
from avow.retrieval.opening import open_library
from avow.retrieval.ranking import rank, score
from avow.retrieval.request import Page, Request
from avow.retrieval.search import Retriever
from avow.retrieval.store_contract import item_id
from avow.retrieval.where import Where
from benchmarks.torture import _shared_clients
from benchmarks.torture._history import History

SHARED = ("postgres", *milvus_servers())
FILTERS = (
    *("name~pic1", "name~'PIC1*'", "name~'p?c1_*'", "path~'STRASSE'", "folder~'*/odd %_ ÄÖ'"),
    *("tag=dog", "tag~DO", "not tag=dog", "tag!=dog", "tag~'d*g'", "name='pic3.png'"),
    *("taken>=2021", "taken=2020-05", "taken=unknown", "taken<2021-01-01", "width>40"),
    *("modified>=2000", "modified<2000", "modified=2001-09", "size<1KB or height>=30"),
    *("modified<=2001-09", "modified>2001-09", "modified<=9999-12-31", "width=40.5"),
    *("latitude=unknown", "kind=picture", "kind=video", "duration>3", "p>=0.1 and name~pic1"),
    *("name~'100%'", "name~'back\\\\slash'", "(name~pic1 or tag=cat) and not width<20"),
)
NAMES = ["pic1.png", "pic1_b.png", "pic2.png", "pic3.png", "100%.png", "odd_name.png"]


@pytest.fixture(params=SHARED)
def place(request, monkeypatch):
    """The address of an empty store of each kind."""
    with store_on(request.param, request, monkeypatch) as address:
        yield address


@pytest.fixture
def folder(tmp_path) -> Path:
    """Pictures and texts with all that a filter may ask for."""
    home = tmp_path / "pictures"
    for number, (sub, name) in enumerate(
        (sub, name) for sub in ("a", "odd %_ ÄÖ", "Straße") for name in NAMES
    ):
        (home / sub).mkdir(parents=True, exist_ok=True)
        colour = tuple(np.random.default_rng(number).integers(0, 256, 3).tolist())
        exif = Image.Exif()
        if number % 3:
            exif[36867] = f"202{number % 2}:05:1{number % 10} 10:00:00"
        picture(colour, (20 + 5 * number, 30)).save(home / sub / name, exif=exif)
        os.utime(home / sub / name, (10**9 + number * 10**6, 10**9 + number * 10**6))
    lines = [
        {"text": "a red thing", "tags": ["dog", "Straße"]},
        {"text": "a green thing", "tags": ["cat"]},
        {"text": "white \0 zero"[:6], "tags": []},
    ]
    (home / "words.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (home / "note.txt").write_text("blue and yellow")
    return home


def told(library, where, kind):
    """What a filter leaves, by place."""
    ids = library.find(Where.parse(where), kind)
    return sorted((item.path, item.part) for item in library.items(ids))


def hits(result):
    return [(hit.path, round(hit.similarity, 5)) for hit in result.hits]


def test_filters_leave_what_they_leave_in_a_folder(place, folder, tmp_path):
    encoder = ColourEncoder()
    for index in (tmp_path / "index", place):
        report = index_folders([folder], index=index, encoder=encoder)
        assert (report.new, report.skipped) == (len(NAMES) * 3 + 2, [])
    with open_library(tmp_path / "index") as local, open_library(place) as shared:
        for where in FILTERS:
            for kind in ("image", "text"):
                assert told(shared, where, kind) == told(local, where, kind), where
        searched = [Retriever(library, encoder) for library in (local, shared)]
        for where in (None, *FILTERS):
            for asked in ("red", "green and blue"):
                first, second = (r.search(asked, k=40, where=where) for r in searched)
                assert hits(second) == hits(first), where
                assert second.uncertainty == pytest.approx(first.uncertainty), where
        item = shared.items(shared.find(None, "text"))
        assert {one.text for one in item} >= {"a red thing", "blue and yellow"}
        assert {tag for one in item for tag in one.tags} == {"dog", "cat", "Straße"}


def test_changes_moves_and_deletions_are_followed(place, folder):
    encoder = ColourEncoder()
    index_folders([folder], index=place, encoder=encoder)
    encoded = encoder.photographs
    again = index_folders([folder], index=place, encoder=encoder)
    assert (again.new, again.unchanged) == (0, 20) and encoder.photographs == encoded
    (folder / "a" / "pic2.png").rename(folder / "a" / "moved.png")
    picture("red").save(folder / "a" / "pic3.png")
    (folder / "a" / "pic1.png").unlink()
    os.utime(folder / "a" / "100%.png")  # touched, and as it was
    (folder / "words.jsonl").write_text(json.dumps({"text": "a red thing"}))
    (folder / "broken.png").write_bytes(b"no picture")
    report = index_folders([folder], index=place, encoder=encoder)
    assert (report.new, report.changed, report.moved, report.deleted) == (0, 2, 1, 1)
    assert report.unchanged == 16 and encoder.photographs == encoded + 1
    assert [path for path, _ in report.skipped] == [str(folder / "broken.png")]
    with open_library(place) as library:
        names = [Path(item.path).name for item in library.items(library.find())]
        assert sorted(names).count("moved.png") == 1 and len(names) == 17
        assert library.count(None, "text") == 2 and len(library) == 19
        found = Retriever(library, encoder).search("red", k=1)
        assert Path(found.hits[0].path).name == "pic3.png"
        assert [skip.path for skip in library.skipped()] == [str(folder / "broken.png")]
    picture("blue").save(folder / "broken.png")
    (folder / "a" / "pic3.png").write_bytes(b"no picture any more")
    report = index_folders([folder], index=place, encoder=encoder)
    assert [path for path, _ in report.skipped] == [str(folder / "a" / "pic3.png")]
    with open_library(place) as library:
        names = [Path(item.path).name for item in library.items(library.find())]
        assert "broken.png" in names and len(names) == 17
        assert f"{folder}/a/pic3.png" not in {
            item.path for item in library.items(library.find())
        }
    (folder / "a" / "pic3.png").unlink()
    assert index_folders([folder], index=place, encoder=encoder).skipped == []
    shutil.copy(folder / "a" / "moved.png", folder / "a" / "copy.png")
    (folder / "a" / "moved.png").rename(folder / "a" / "again.png")
    report = index_folders([folder], index=place, encoder=encoder)
    assert (report.new, report.moved, report.deleted) == (1, 1, 0)


def test_most_of_a_folder_is_not_forgotten_at_once(place, folder):
    encoder = ColourEncoder()
    index_folders([folder], index=place, encoder=encoder)
    for sub in ("a", "odd %_ ÄÖ"):
        shutil.rmtree(folder / sub)
    report = index_folders([folder], index=place, encoder=encoder)
    assert (report.deleted, report.absent[0].files) == (0, 12)
    report = index_folders([folder], index=place, encoder=encoder, prune=True)
    assert (report.deleted, report.absent) == (12, [])


def test_an_emptied_folder_is_forgotten_when_that_is_asked_for(place, folder):
    encoder = ColourEncoder()
    index_folders([folder], index=place, encoder=encoder)
    for inside in folder.iterdir():
        shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
    report = index_folders([folder], index=place, encoder=encoder)
    assert report.deleted == 0 and len(report.absent) == 1
    assert index_folders([folder], index=place, encoder=encoder, prune=True).deleted > 12
    with open_library(place) as library:
        assert not len(library)


def test_another_model_replaces_the_first_when_it_is_done(place, folder):
    first, second = ColourEncoder(), ColourEncoder("other", dim=16, bank=("red", "blue"))
    index_folders([folder], index=place, encoder=first)
    with pytest.raises(WrongIndex, match="was made with the model 'colours', not with 'other'"):
        index_folders([folder], index=place, encoder=second)
    with open_library(place) as library:
        before = library.fingerprint
        stopped = index_folders(
            [folder], index=place, encoder=second, rebuild=True, stop=lambda: True
        )
        library.refresh()
        assert stopped.stopped and library.fingerprint == before and library.dim == 32
        index_folders([folder], index=place, encoder=second, rebuild=True)
        with pytest.raises(WrongIndex, match="made anew with another model"):
            library.refresh()
    with open_library(place, second) as library:
        usual = library.usual(library.find())
        assert usual is not None and usual.queries == 2 and len(library) == 22
        assert library.usual(library.find(None, "text")) is None


def test_readers_see_what_writers_commit(place, folder, monkeypatch):
    encoder = ColourEncoder()
    index_folders([folder / "a"], index=place, encoder=encoder)
    with open_library(place) as library:
        retriever, before = Retriever(library, encoder), library.fingerprint
        assert len(retriever.search("red", k=40).hits) == 6
        index_folders([folder], index=place, encoder=encoder)
        assert len(retriever.search("red", k=40).hits) == 18
        assert library.fingerprint != before and not library.refresh()
        current = library._store.current
        monkeypatch.setattr(
            library._store, "current", lambda: dataclasses.replace(current(), behind=True)
        )
        answer = retriever.search("red", k=40)
        assert answer.verdict == "unjudged" and len(answer.hits) == 18
        assert answer.why.endswith(f"'{place}' is read from a replica, which is behind.")
        gallery = Gallery.of(library, None, "image")
        request = Request({}, "text", encoder.encode_texts(["red"])[0], "image", Page(3))
        with pytest.raises(Unavailable, match="is read from a replica, which is behind"):
            score(library, [request], rank(library, gallery, [request]))
        monkeypatch.setattr(library._store, "current", lambda: None)  # emptied by somebody
        for asked in (library.refresh, library.check_reachable):
            with pytest.raises(WrongIndex, match="made anew with another model while it was"):
                asked()


def test_two_writers_at_once_leave_what_one_would(place, folder):
    errors = []

    def write(*folders):
        try:
            index_folders(folders, index=place, encoder=ColourEncoder(), batch=2)
        except Exception as error:
            errors.append(error)

    index_folders([folder / "a"], index=place, encoder=ColourEncoder())
    shared = [
        threading.Thread(target=write, args=[folder]),
        threading.Thread(target=write, args=[folder]),
        threading.Thread(target=write, args=[folder / "Straße"]),
    ]
    for thread in shared:
        thread.start()
    for thread in shared:
        thread.join()
    assert errors == []
    with open_library(place) as library:
        items = library.items(library.find())
        assert sorted(item.path for item in items) == sorted(map(str, folder.rglob("*.png")))
        assert library.count(None, "image") == 18 and library.count(None, "text") == 4
        for item in items:
            assert item.id == item_id(item.path, item.part, item.content)


def test_a_history_of_reads_and_writes_is_one_of_a_sequential_store(
    place, tmp_path, monkeypatch
):
    """The short form of a promise: `scripts/torture shared_stores` kills and cuts as well."""
    variable = _shared_clients.VARIABLES[str(place).partition(":")[0]]
    server = os.environ[variable]
    monkeypatch.setenv(variable, server)  # the clients set it too
    _shared_clients.make_clips(tmp_path / "clips")
    _shared_clients.settle(tmp_path, str(place), [server])
    _shared_clients.work(tmp_path, str(place), [server], 8, "short", jumps=False)
    _shared_clients.settle(tmp_path, str(place), [server])
    history = History.of((tmp_path / "log").read_text().splitlines())
    assert history.losses() == [] and history.tracebacks == []
    assert len(history.reads) == 10 and history.counts["writes"] > 4
    with open_library(place) as library:
        assert library.videos() == (2, 4)


def test_opinions_are_kept_and_taken_back(place, folder):
    encoder = ColourEncoder()
    index_folders([folder], index=place, encoder=encoder)
    with open_library(place) as library, open_library(place) as other:
        retriever = Retriever(library, encoder)
        first, second = (hit.id for hit in retriever.search("red", k=2).hits)
        before = library.fingerprint
        retriever.feedback("red", first, True)
        retriever.feedback("red", first, True)
        library.set_feedback({"text": "red"}, second, False)
        assert [(o.item_id, o.good) for o in other.feedback()] == [
            (first, True),
            (first, True),
            (second, False),
        ]
        library.set_feedback({"text": "red"}, second, True)
        retriever.feedback("red", first, None)
        assert [(o.item_id, o.good) for o in other.feedback()] == [(second, True)]
        library.refresh()
        assert library.fingerprint == before  # an opinion changes no gallery
        with pytest.raises(BadQuery, match=f"There is no item 5 in the index '{place}'"):
            retriever.feedback("red", 5, True)


def test_what_belongs_to_the_model_reaches_all_readers(place, folder):
    encoder = ColourEncoder()
    index_folders([folder], index=place, encoder=encoder)
    with open_library(place) as library, open_library(place) as other:
        mine, yours = (Retriever(one, encoder).model_folder for one in (library, other))
        (mine / "trust-text.json").write_text('{"of": "all"}')
        library.attach(mine / "trust-text.json")
        assert other.refresh() and (yours / "trust-text.json").read_text() == '{"of": "all"}'
        with open_library(place) as third:
            assert (Retriever(third, encoder).model_folder / "trust-text.json").is_file()
        assert library.detach("trust-text.json") and other.refresh()
        assert not (yours / "trust-text.json").exists()


def test_a_note_of_a_file_that_is_no_file_of_the_model_writes_nothing(place, folder):
    """Who may write to the store may not write elsewhere on the machines of its readers."""
    encoder = ColourEncoder()
    index_folders([folder / "a"], index=place, encoder=encoder)
    with open_library(place) as library:
        home = Retriever(library, encoder).model_folder
        subject = f"document {encoder.fingerprint}"
        for name in ("../outside.json", "lost.json"):
            library._store.note(subject, {name: "a checksum"})
        library._store.note(f"{subject} ../outside.json", {"content": "written"})
        assert library.refresh()
        assert not (home / "../outside.json").exists() and not (home / "lost.json").exists()


def test_items_that_vanish_while_they_are_searched_are_not_answered_with(
    place, folder, monkeypatch
):
    encoder = ColourEncoder()
    index_folders([folder / "a"], index=place, encoder=encoder)
    with open_library(place) as library:
        retriever = Retriever(library, encoder)
        monkeypatch.setattr("avow.retrieval.shared_library._KEPT", 4)
        assert len(retriever.search("red", k=6).hits) == 6  # more than is kept in memory
        monkeypatch.setattr("avow.retrieval.shared_library._KEPT", 4096)
        search, asked = library._store.search, []

        def deleted(*about):
            ids, scores = search(*about)
            asked.append(ids)
            return ids + 1, scores  # of rows that are not there

        monkeypatch.setattr(library._store, "search", deleted)
        with pytest.raises(Unavailable, match="changes while it is searched: items that were"):
            retriever.search("red", k=6)
        assert len(asked) == 3


def test_what_a_shared_store_cannot_do_is_said(place, folder):
    encoder = ColourEncoder()
    with pytest.raises(BadData, match="--dedupe is not possible with the store"):
        index_folders([folder], index=place, encoder=encoder, dedupe=True)
    with pytest.raises(BadData, match="--ocr is not possible with the store"):
        index_folders([folder], index=place, encoder=encoder, ocr=True)
    with pytest.raises(BadData, match="--vectors int8 is not possible with the store"):
        index_folders([folder], index=place, encoder=encoder, vectors="int8")
    with pytest.raises(WrongIndex, match="is empty"):
        open_library(place)
    (folder / "empty").mkdir()
    with pytest.raises(BadData, match="There is nothing to index in"):
        index_folders([folder / "empty"], index=place, encoder=encoder)
    with pytest.raises(WrongIndex, match="The engine of a shared store cannot be 'faiss'"):
        index_folders([folder], index=place, encoder=encoder, engine="faiss")
    with pytest.raises(BadQuery, match="is a database, which verifies its own files"):
        avow.check(place)
    index_folders([folder], index=place, encoder=encoder)
    with pytest.raises(WrongIndex, match="has vectors 'float32'"):
        index_folders([folder], index=place, encoder=encoder, half=True)


def test_addresses_that_name_no_store():
    with pytest.raises(avow.AvowError, match="There is no 'mysql' in stores"):
        open_library("mysql:archive")
    with pytest.raises(WrongIndex, match="'postgres:Archive' has no usable name"):
        open_library("postgres:Archive")


def test_half_precision_and_a_graph_find_the_same(place, folder):
    encoder, half, how = ColourEncoder(), True, {"index": place, "engine": "hnsw"}
    try:
        index_folders([folder], encoder=encoder, half=True, **how)
    except WrongIndex as error:
        assert "keeps vectors as float32. Expected a Milvus server" in str(error)
        half = False
        index_folders([folder], encoder=encoder, **how)
    with open_library(place) as library:
        assert library.manifest["half"] == half and not library.manifest["exact"]
        found = Retriever(library, encoder).search("red", k=18)
        ids = library.find()
        scores = library.vectors(ids) @ encoder.encode_texts(["red"])[0]
        wanted = ids[np.argsort(-scores)]
        assert [hit.id for hit in found.hits][:10] == wanted[:10].tolist()
    index_folders([folder], index=place, encoder=encoder, rebuild=True)
    with open_library(place) as library:  # as it was, where nothing else is asked for
        assert library.manifest["half"] == half and library.manifest["engine"] == "hnsw"


def test_the_sample_of_a_large_gallery_is_the_same(place, tmp_path, monkeypatch):
    """Above 2,048 items, or fewer here, trust looks at a sample, drawn by what they are."""
    monkeypatch.setattr("avow.retrieval.gallery.SAMPLE", 256)
    encoder, home = ColourEncoder(), tmp_path / "texts"
    home.mkdir()
    for name, count in (("a.jsonl", 170), ("b.jsonl", 100), ("c.jsonl", 30)):
        lines = [json.dumps({"text": f"text {n} of {name}"}) for n in range(count)]
        (home / name).write_text("\n".join(lines))
        index_folders([home], index=tmp_path / "index", encoder=encoder)  # counted by turns
    (home / "c.jsonl").rename(home / "moved.jsonl")
    for index in (tmp_path / "index", place):
        index_folders([home], index=index, encoder=encoder)
    with open_library(tmp_path / "index") as local, open_library(place) as shared:
        for where in (None, Where.parse("name~'*.jsonl' and not name~b")):
            drawn = [
                {(item.path, item.part) for item in library.items(chosen.sampled)}
                for library in (local, shared)
                for chosen in [library.choose(where, "text", 128)]
            ]
            assert drawn[0] == drawn[1] and len(drawn[0]) == 128
        results = [
            Retriever(library, encoder).search("red", kind="text")
            for library in (local, shared)
        ]
        assert hits(results[0]) == hits(results[1])
        assert results[0].uncertainty.K == 300
        assert results[0].uncertainty.u == pytest.approx(results[1].uncertainty.u, rel=1e-6)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """The sample, indexed to a folder with the shipped model."""
    home = tmp_path_factory.mktemp("sample")
    (home / "photos").mkdir()
    for file in sample.build().splits["test"].files or ():
        shutil.copy(file, home / "photos")
    avow.index([home / "photos"], home / "index")
    return home


def assert_same(shared, local):
    """All that is stated: the same words, and numbers within the rounding of a product."""
    shown, wanted = (result.hits or result.near_misses for result in (shared, local))
    assert (shared.verdict, shared.why) == (local.verdict, local.why)
    assert [hit.path for hit in shown] == [hit.path for hit in wanted]
    stated = [[hit.p_relevant for hit in hits] for hits in (shown, wanted)]
    assert stated[0] == pytest.approx(stated[1], abs=1e-6)
    assert shared.trust == pytest.approx(local.trust, abs=1e-6)
    assert shared.uncertainty.u == pytest.approx(local.uncertainty.u, rel=1e-4, abs=1e-12)
    assert (shared.how_many is None) == (local.how_many is None)
    if shared.how_many is not None:
        assert shared.how_many.expected == pytest.approx(local.how_many.expected, abs=1e-4)


def test_probabilities_and_verdicts_are_those_of_a_folder(place, photographs):
    encoder = open_encoder()
    index_folders([photographs / "photos"], index=place, encoder=encoder)
    local = Retriever(open_library(photographs / "index"), encoder)
    shared = Retriever(open_library(place), encoder)
    with local.library, shared.library:
        for text in ("a cat", "a rocket", "a man on a horse", "an elephnat"):
            assert_same(shared.search(text), local.search(text))
        for where in ('name~"c"', "width>400"):
            assert_same(shared.search("a cat", where=where), local.search("a cat", where=where))
        first = shared.search("a cat").hits[0]
        (there,) = [h.id for h in local.search("a cat").hits if h.path == first.path]
        assert_same(shared.similar(first.id), local.similar(there))
        other = "a dog"
        assert_same(shared.search("a cat", without=other), local.search("a cat", without=other))
