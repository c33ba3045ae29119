"""Searching an index: what is found, what is said of it, and what is refused."""

import json

import numpy as np
import pytest
import torch
from encoders import ColourEncoder as TwoViews
from PIL import Image
from search_samples import COLOURS, ColourEncoder, picture, save_pictures

from avow.core.contracts import QueryBatch
from avow.core.errors import AvowError, BadData, BadQuery, WrongIndex
from avow.core.evidence_sum import evidence_sum
from avow.core.opinion import Opinion
from avow.retrieval import gallery as galleries
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.open_index import Choice
from avow.retrieval.question import ask, check_numbers
from avow.retrieval.search import Retriever
from avow.trust.top_k import SHOWN, describe, summarise

FACTS = ["query", "verdict", "heading", "trust", "searched", "uncertainty", "why"]
FACTS += ["understanding", "how_many", "hits", "near_misses", "written"]
PICTURES = 80


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An index of 80 pictures of ten colours, and of ten texts."""
    home = tmp_path_factory.mktemp("search")
    save_pictures(home / "pictures", PICTURES)
    for colour in COLOURS:
        (home / "pictures" / f"{colour}.txt").write_text(f"the {colour} one")
    index_folders([home / "pictures"], index=home / "index", encoder=ColourEncoder())
    return home


@pytest.fixture
def retriever(place):
    return open_at(place)


def open_at(place, encoder=None):
    encoder = encoder or ColourEncoder()
    return Retriever(Library.open(place / "index", encoder), encoder)


def colours_of(hits):
    return [hit.path.rpartition("/")[2].partition("-")[0] for hit in hits]


# --- what is found ------------------------------------------------------------------------


def test_a_text_finds_its_pictures(retriever):
    found = retriever.search("a green thing", k=8)
    assert colours_of(found.hits) == ["green"] * 8
    assert [hit.rank for hit in found.hits] == [*range(1, 9)]
    scores = [hit.similarity for hit in found.hits]
    assert scores == sorted(scores, reverse=True) and -1 <= scores[-1] < scores[0] <= 1


def test_a_picture_finds_its_texts(retriever):
    found = retriever.search(image=picture(2), kind="text", k=1)
    assert [(hit.kind, hit.text) for hit in found.hits] == [("text", "the blue one")]


def test_a_picture_finds_pictures(retriever):
    found = retriever.search(image=picture(3), k=5)
    assert colours_of(found.hits) == ["yellow"] * 5
    assert found.hits[0].similarity == pytest.approx(1, abs=1e-5)
    assert found.verdict == "unjudged"


def test_a_file_is_a_picture(retriever, place):
    found = retriever.search(image=place / "pictures" / "red-000.png", k=1)
    assert found.query["image"].endswith("red-000.png")
    assert colours_of(found.hits) == ["red"]


def test_text_and_picture_are_added(retriever):
    found = retriever.search("green", image=picture(0), k=PICTURES)
    assert set(colours_of(found.hits)[:16]) == {"red", "green"}


def test_what_is_left_out_sinks(retriever):
    both = retriever.search("red green", k=PICTURES)
    less = retriever.search("red green", without="green", k=PICTURES)
    assert set(colours_of(both.hits)[:16]) == {"red", "green"}
    assert colours_of(less.hits)[:8] == ["red"] * 8
    assert colours_of(both.hits).count("green") == 8
    assert "green" not in colours_of(less.hits)[: PICTURES // 2]
    assert less.verdict == "unjudged"


def test_something_similar_is_not_the_thing_itself(retriever):
    first = retriever.search("white", k=1).hits[0]
    found = retriever.similar(first.id, k=7)
    assert first.id not in [hit.id for hit in found.hits]
    assert colours_of(found.hits) == ["white"] * 7
    assert found.uncertainty.K == PICTURES - 1 and found.query["similar_to"] == first.id


def test_a_filter_that_leaves_the_thing_itself_out_counts_all_others(retriever):
    first = retriever.search("white", k=1).hits[0]
    count = retriever.search("white", where="path~white").uncertainty.K
    assert retriever.similar(first.id, where="path~white").uncertainty.K == count - 1
    others = retriever.similar(first.id, where="not path~white").uncertainty.K
    assert others == PICTURES - count > 0


def test_a_similarity_is_the_dot_product(retriever):
    query = ColourEncoder().encode_texts(["black"])[0]
    for hit in retriever.search("black", k=5).hits:
        expected = float(retriever.library.vectors([hit.id])[0] @ query)
        assert hit.similarity == pytest.approx(expected, abs=1e-6)


def test_more_may_be_asked_for_than_there_is(retriever):
    assert len(retriever.search("red", k=1000).hits) == PICTURES


# --- the shape of the answer ----------------------------------------------------------------


def test_the_dictionary_has_exactly_these_facts(retriever):
    found = retriever.search("red", k=3).to_dict()
    assert list(found) == FACTS
    assert list(found["query"]) == ["text", "image", "without", "kind", "where"]
    assert list(found["uncertainty"]) == ["u", "K", "tau", "evidence"]
    assert set(found["hits"][0]) >= {"rank", "path", "p_relevant", "similarity", "id"}
    assert json.loads(json.dumps(found)) == found


def test_an_uncalibrated_search_states_nothing(retriever):
    found = retriever.search("red")
    assert (found.verdict, found.trust) == ("unjudged", None)
    assert found.why == "This kind of search is not calibrated yet."
    assert all(hit.p_relevant is None for hit in found.hits)


def test_u_is_the_opinion_over_the_gallery(retriever):
    query = torch.from_numpy(ColourEncoder().encode_texts(["red"])[0])
    ids = retriever.library.find(None, "image")
    every = torch.from_numpy(retriever.library.vectors(ids)) @ query
    expected = Opinion.from_similarity(every[None], 0.05).uncertainty
    found = retriever.search("red").uncertainty
    assert (found.K, found.tau, found.evidence) == (PICTURES, 0.05, "exp")
    assert found.u == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("kind", ["relu", "softplus", "exp"])
def test_u_of_other_evidence(retriever, kind):
    library, query = retriever.library, ColourEncoder().encode_texts(["red"])
    gallery = galleries.Gallery.of(library, None, "image")
    ids = library.search(query, 32, gallery.choice.ids)[0][0]
    scores = galleries.QueryScores.of(
        gallery, query, library.vectors(ids)[None], ids[None], views=1
    )
    every = torch.from_numpy(query @ library.vectors(gallery.choice.ids).T)
    expected = Opinion.from_similarity(every, 0.05, kind).uncertainty
    assert scores.uncertainty(0.05, kind)[0] == pytest.approx(float(expected), rel=1e-4)


def test_trust_sees_what_whole_rows_would_show(tmp_path):
    """Two views and a bank; the plain way has every score of every view."""
    save_pictures(tmp_path / "pictures", 60)
    encoder = TwoViews(bank=[f"{one} {other}" for one in COLOURS for other in COLOURS])
    index_folders([tmp_path / "pictures"], index=tmp_path / "index", encoder=encoder)
    library = Library.open(tmp_path / "index", encoder)
    gallery, query = galleries.Gallery.of(library, None, "image"), encoder.encode_texts(["red"])
    ids, _, watched = library.search_and_watch(query[0], SHOWN, gallery.sampled)
    best = (library.vectors(ids)[None], ids[None])
    scores = galleries.QueryScores.of(gallery, query, *best, views=2, sampled=watched[None])
    summary = scores.summary(encoder.tau, library.usual(ids), gallery.usual)
    items = library.vectors(gallery.choice.ids).reshape(60, 2, -1)
    asked = query.reshape(2, -1)
    every = 2 * np.einsum("nvd,vd->vn", items, asked)[:, None]
    usual = library.usual(gallery.choice.ids)
    plain, order = summarise(QueryBatch(every, 0, encoder.tau, background=usual))
    assert gallery.choice.ids[order[0]].tolist() == ids.tolist()
    assert usual is not None and summary.names == plain.names
    np.testing.assert_allclose(describe(summary), describe(plain), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kept", [{}, {"half": True}, {"engine": "faiss"}])
def test_scores_of_the_sample_are_the_same_from_the_search(tmp_path, monkeypatch, kept):
    """An exact search has compared everything already; the others say that they have not."""
    if "engine" in kept:
        pytest.importorskip("faiss")
    monkeypatch.setattr(galleries, "SAMPLE", 12)
    save_pictures(tmp_path / "pictures", 40)
    encoder = ColourEncoder()
    folders, index = [tmp_path / "pictures"], tmp_path / "index"
    index_folders(folders, index=index, encoder=encoder, **kept)
    (tmp_path / "pictures" / "red-000.png").unlink()
    index_folders(folders, index=index, encoder=encoder)  # leaves a dead row among the others
    retriever = open_at(tmp_path, encoder)
    gallery, query = retriever._gallery(None, "image"), encoder.encode_texts(["red"])[0]
    ids, _, watched = retriever.library.search_and_watch(query, 5, gallery.sampled)
    assert ids.tolist() == retriever.library.search(query[None], 5)[0][0].tolist()
    assert (watched is None) == bool(kept)
    if watched is not None:
        np.testing.assert_allclose(watched, gallery.vectors @ query, atol=1e-6)
    assert retriever.search("red").uncertainty.K == 39


def test_u_of_a_sample_is_near_that_of_all(place, retriever, monkeypatch):
    exact = retriever.search("red").uncertainty.u
    monkeypatch.setattr(galleries, "SAMPLE", 40)
    sampled = open_at(place).search("red").uncertainty.u
    assert sampled != exact and sampled == pytest.approx(exact, rel=0.3)


def test_u_of_a_sample_is_the_estimate_that_has_bounds(place, monkeypatch):
    monkeypatch.setattr(galleries, "SAMPLE", 40)
    retriever = open_at(place)
    found = retriever.search("red").uncertainty.u
    gallery = retriever._gallery(None, "image")
    query = ColourEncoder().encode_texts(["red"])
    ids, best = retriever.library.search(query, 32, gallery.choice.ids)
    sampled = query @ retriever.library.vectors(gallery.sampled).T
    expected = evidence_sum(best, sampled, gallery.left(ids), PICTURES, 0.05)
    assert found == pytest.approx(float(expected.uncertainty[0]), rel=1e-4)
    assert expected.uncertainty_low[0] < expected.uncertainty_high[0]


def test_the_same_question_has_the_same_answer(place, monkeypatch):
    monkeypatch.setattr(galleries, "SAMPLE", 20)
    first, second = (open_at(place).search("red").to_dict() for _ in range(2))
    assert first == second


# --- filters --------------------------------------------------------------------------------


def test_a_filter_chooses_before_ranking(retriever):
    found = retriever.search("red", where='name~"blue*"', k=20)
    assert colours_of(found.hits) == ["blue"] * 8
    assert found.uncertainty.K == 8
    assert found.query["where"] == 'name~"blue*"'


def test_trust_is_judged_on_what_a_filter_leaves(retriever):
    """u is that of the eight pictures alone."""
    found = retriever.search("red", where='name~"red*"').uncertainty
    query = torch.from_numpy(ColourEncoder().encode_texts(["red"])[0])
    ids = [hit.id for hit in retriever.search("red", k=8).hits]
    every = torch.from_numpy(retriever.library.vectors(ids)) @ query
    expected = Opinion.from_similarity(every[None], 0.05).uncertainty
    assert found.K == 8 and found.u == pytest.approx(float(expected), rel=1e-5)


def test_a_filter_that_leaves_nothing(retriever):
    found = retriever.search("red", where='name="no-such-file.png"')
    assert (found.verdict, found.why) == ("nothing_found", "No picture passes the filter.")
    assert found.hits == found.near_misses == () and found.uncertainty.K == 0
    assert found.uncertainty.u is None and found.trust is None


# --- an index that changes ------------------------------------------------------------------


def test_pictures_added_meanwhile_are_found(tmp_path):
    save_pictures(tmp_path / "pictures", 6)
    encoder = ColourEncoder()
    index_folders([tmp_path / "pictures"], index=tmp_path / "index", encoder=encoder)
    retriever = open_at(tmp_path)
    assert retriever.search("red").uncertainty.K == 6
    save_pictures(tmp_path / "pictures", 12)
    index_folders([tmp_path / "pictures"], index=tmp_path / "index", encoder=encoder)
    found = retriever.search("red", k=2)
    assert found.uncertainty.K == 12 and colours_of(found.hits) == ["red", "red"]


def test_an_index_without_pictures(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("a red thing\n")
    index_folders([tmp_path / "texts"], index=tmp_path / "index", encoder=ColourEncoder())
    found = open_at(tmp_path).search("red")
    assert found.verdict == "nothing_found"
    assert found.why == (
        "There is no picture in this index yet; `avow index FOLDER` adds some."
    )


def test_another_model_is_refused(place):
    with pytest.raises(WrongIndex, match="`avow index --rebuild`"):
        open_at(place, ColourEncoder(fingerprint="0" * 16))


def test_a_model_that_has_changed_is_refused(place, monkeypatch):
    """Opened without a model, it is the one the index names that must still be the same."""
    from avow.retrieval import search

    changed = ColourEncoder(fingerprint="f" * 16)
    monkeypatch.setattr(search, "open_recorded", lambda *_, **__: changed)
    retriever = Retriever.open(place / "index")
    with pytest.raises(WrongIndex, match="'colours' has changed since the index") as caught:
        retriever.search("red")
    assert str(caught.value).endswith("index the folders again with `avow index --rebuild`.")


def test_opening_does_not_load_the_model(place, monkeypatch):
    from avow.retrieval import search

    monkeypatch.setattr(search, "open_recorded", None)
    retriever = Retriever.open(place / "index")
    assert retriever.similar(int(retriever.library.find()[0]), k=2).hits is not None


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"text": ""}, "The query '' has no words."),
        ({"text": " ?! \n"}, "The query '?!' has no words."),
        ({"text": "red " * 600}, "The query has 2400 characters. Expected at most 2000"),
        ({"text": "red", "without": " "}, "The text to leave out '' has no words."),
        ({}, "There is nothing to search for."),
        ({"text": "red", "kind": "sound"}, "There is nothing of kind 'sound' to look for."),
        ({"text": "red", "k": 0}, "The number of answers is 0. Expected a whole number from 1"),
        ({"text": "red", "risk": 1.5}, "The risk is 1.5. Expected a share between 0 and 1"),
        ({"text": "red", "risk": float("nan")}, "The risk is nan."),
        ({"text": "red", "without": "red"}, "Nothing is left of this query"),
    ],
)
def test_a_bad_question_is_a_sentence(retriever, asked, said):
    with pytest.raises(BadQuery) as caught:
        retriever.search(**asked)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: ask(7), "The query is of type 'int'. Expected a text"),
        (lambda: ask(image=3), "The picture is of type 'int'. Expected a file name or a"),
        (lambda: check_numbers(2.5, None), "The number of answers is 2.5."),
    ],
)
def test_what_is_no_text_and_no_number(wrong, said):
    with pytest.raises(BadQuery) as caught:
        wrong()
    assert str(caught.value).startswith(said)


def test_a_picture_of_no_numbers_is_refused(retriever):
    broken = Image.fromarray(np.full((4, 4), np.nan, np.float32))
    with pytest.raises(BadQuery, match="holds NaN or infinite numbers"):
        retriever.search(image=broken)


def test_a_model_that_gives_no_numbers_is_refused(place):
    class Broken(ColourEncoder):
        def encode_texts(self, texts):
            return np.full((len(texts), self.dim), np.nan, np.float32)

    with pytest.raises(BadQuery, match="gives NaN or infinite numbers for this query"):
        open_at(place, Broken()).search("red")


def test_a_file_that_is_no_picture_is_named(retriever, tmp_path):
    (tmp_path / "a.jpg").write_text("no picture")
    with pytest.raises(BadData, match=r"a\.jpg' cannot be read"):
        retriever.search(image=tmp_path / "a.jpg")


def test_a_bad_filter_is_a_sentence(retriever):
    with pytest.raises(AvowError):
        retriever.search("red", where="taken>=")


# --- what people say ------------------------------------------------------------------------


def test_feedback_is_kept(place):
    retriever = open_at(place)
    found = retriever.search("red", k=1)
    retriever.feedback(found.query, found.hits[0].id, True)
    retriever.feedback("blue", found.hits[0].id, False)
    kept = open_at(place).library.feedback()[-2:]
    assert [(one.query["text"], one.good) for one in kept] == [("red", True), ("blue", False)]


def test_feedback_on_nothing_is_refused(retriever):
    with pytest.raises(BadQuery, match="There is no item 99999"):
        retriever.feedback("red", 99999, True)


def test_a_gallery_whose_sample_is_gone_has_nothing_behind_the_hits():
    """Between two questions to a store that others write to."""
    none = np.empty(0, np.int64)
    choice = Choice(900, True, none, None, "image")
    gallery = galleries.Gallery(choice, np.empty((0, 4), np.float32), None)
    assert gallery.left(np.array([[3, 1], [2, 5]])).shape == (2, 0)
