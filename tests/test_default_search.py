"""Searches with the shipped model over the sample: verdicts hold for every form and every k."""

import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import avow
from avow.data.readers import sample
from avow.retrieval.answer import SearchResult, percent
from avow.retrieval.request import Page
from avow.retrieval.search import Retriever
from avow.trust.coherence import log_odds


@pytest.fixture(scope="module")
def retriever(tmp_path_factory) -> Retriever:
    home = tmp_path_factory.mktemp("sample")
    (home / "photos").mkdir()
    files = sample.build().splits["test"].files
    assert files is not None
    for file in files:
        shutil.copy(file, home / "photos")
    avow.index([home / "photos"], home / "index")
    return avow.open(home / "index")


def numbers(found: SearchResult) -> tuple:
    """All that is stated, without what was typed."""
    shown = [(hit.id, hit.p_relevant) for hit in (*found.hits, *found.near_misses)]
    assert found.how_many is not None
    return found.verdict, found.trust, found.why, shown, asdict(found.how_many)


@pytest.mark.parametrize(
    "forms",
    [
        ("a cat", "cat", "cats", "the cat", "Cats", "photo of a cat", "pictures of cats"),
        ("a rocket", "rockets", "a picture of the rocket"),
        ("an elephant", "elephants", "photos of elephants"),
    ],
)
def test_forms_of_one_name_get_the_same(retriever, forms):
    first, *others = (numbers(retriever.search(form)) for form in forms)
    assert all(other == first for other in others)


@pytest.mark.parametrize("typed", ["an elephnat", "ein Hund am Strand", "12345", "qwzxj vbnrt"])
def test_what_is_not_understood_is_said(retriever, typed):
    found = retriever.search(typed)
    assert found.verdict == "not_understood" and found.hits == ()
    assert found.understanding is not None and not found.understanding.understood
    assert found.why == found.understanding.message


@pytest.mark.parametrize("typed", ["a cat", "a submarine under the ice", "a man on a horse"])
def test_how_many_are_shown_changes_no_verdict(retriever, typed):
    ten = retriever.search(typed, k=10)
    assert ten.understanding is not None and ten.understanding.understood
    stated = [hit.p_relevant for hit in ten.hits or ten.near_misses]
    assert stated == sorted(stated, reverse=True)
    trust = []
    for k in (1, 3, 10):
        found = retriever.search(typed, k=k)
        assert (found.verdict, found.how_many) == (ten.verdict, ten.how_many)
        shown = [hit.p_relevant for hit in found.hits or found.near_misses]
        assert shown == stated[:k]
        trust.append(found.trust)
    assert trust == sorted(trust)
    if ten.hits:
        assert trust[0] == pytest.approx(stated[0])  # one hit is trusted as far as it fits


def test_a_thing_that_is_there_is_answered_and_one_that_is_not_is_not(retriever):
    cat, submarine = (retriever.search(text) for text in ("cats", "a submarine under the ice"))
    assert cat.hits[0].path.endswith("chelsea.png")
    assert cat.verdict == "answer" and submarine.verdict != "answer"
    assert cat.how_many.expected > 1 > submarine.how_many.expected


def test_pictures_that_ask_for_pictures_are_judged(retriever):
    """By a photograph, or by one of the index; never by the policy of texts."""
    cat = retriever.search("a cat", k=1).hits[0]
    near, shown = retriever.similar(cat.id, k=5), retriever.search(image=cat.path, k=5)
    for found in (near, shown):
        hits = found.hits or found.near_misses
        stated = [hit.p_relevant for hit in hits]
        assert found.verdict != "unjudged" and None not in stated
        assert stated == sorted(stated, reverse=True)
    best = (shown.hits or shown.near_misses)[0]
    assert best.id == cat.id and best.p_relevant is not None and best.p_relevant > 0.5
    assert cat.id not in [hit.id for hit in (*near.hits, *near.near_misses)]


def test_a_picture_of_the_index_is_first_and_the_others_are_judged_as_similar(retriever):
    cat = retriever.search("a cat", k=1).hits[0]
    near, shown = retriever.similar(cat.id, k=5), retriever.search(image=cat.path, k=6)
    first, *others = (*shown.hits, *shown.near_misses)
    assert (first.id, first.rank, first.p_relevant) == (cat.id, 1, 0.999)
    assert first.similarity == pytest.approx(1, abs=1e-4)
    wanted = near.hits or near.near_misses
    assert [hit.id for hit in others] == [hit.id for hit in wanted]
    stated = [hit.p_relevant for hit in wanted]
    assert [hit.p_relevant for hit in others] == pytest.approx(stated, abs=1e-5)
    assert [hit.rank for hit in others] == [2, 3, 4, 5, 6]
    assert (shown.verdict, shown.trust) == ("answer", 0.999)
    with_it = {key: number + 1 for key, number in asdict(near.how_many).items()}
    assert asdict(shown.how_many) == pytest.approx(with_it, abs=1e-5)
    every = len(retriever.library.find())
    assert (shown.searched, near.searched) == (every, every - 1)  # all were looked at
    assert shown.uncertainty.K == every - 1  # u is of the others, and means K of them
    said = "The first is the same picture, or looks just like it."
    assert shown.why == f"{said} Of the others: {near.why}"
    pages = [retriever.search(image=cat.path, k=Page(2, start)) for start in (0, 2, 4)]
    seen = [hit for page in pages for hit in (*page.hits, *page.near_misses)]
    assert [hit.id for hit in seen] == [cat.id, *(hit.id for hit in others)]
    assert not retriever.search(image=cat.path, where="p>=1").hits
    turned = Image.open(cat.path).rotate(180)  # another picture, however like it
    assert "same picture" not in retriever.search(image=turned).why


def test_copies_of_a_picture_are_found_with_it_and_the_others_judged_without_them(tmp_path):
    """Beside a copy all others would be called unlike, and the copy itself unsure."""
    (tmp_path / "photos").mkdir()
    files = sample.build().splits["test"].files or ()
    for file in files:
        shutil.copy(file, tmp_path / "photos")
    [cat] = (tmp_path / "photos").glob("chelsea*")
    shutil.copy(cat, cat.with_stem("again"))
    avow.index([tmp_path / "photos"], tmp_path / "index")
    found = avow.open(tmp_path / "index")
    both, others = found.search(image=cat), found.similar(found.search(image=cat).hits[0].id)
    assert {Path(hit.path).stem for hit in both.hits[:2]} == {"again", cat.stem}
    assert [hit.p_relevant for hit in both.hits[:2]] == [0.999, 0.999]
    assert both.why.startswith("The first 2 are the same picture, or look just like it. Of the")
    assert (both.searched, both.uncertainty.K) == (len(files) + 1, len(files) - 1)
    assert (others.verdict, others.trust, others.searched) == ("answer", 0.999, len(files))
    assert others.why.startswith("The first is the same picture, or looks just like it. Of the")
    rest = [hit.p_relevant for hit in (*both.hits, *both.near_misses)[2:]]
    again = [hit.p_relevant for hit in (*others.hits, *others.near_misses)[1:]]
    assert rest[:8] == pytest.approx(again[:8], abs=1e-5)


def test_few_hits_are_less_sure_than_the_verdict_which_is_for_ten(retriever):
    """Words that match the numbers: what is stated of those shown, and what is answered."""
    ten = retriever.search("a cat")
    assert str(ten.heading) == f"Answer; that one of these fits: {percent(ten.trust)}"
    assert [percent(share) for share in (0.0, 0.004, 0.5049, 0.645, 0.994, 1.0)] == [
        *("0 %", "< 1 %", "50 %", "65 %", "> 99 %", "100 %")
    ]
    for trust, shown, heading in (
        (0.65, 3, "Answer among the best ten; that one of these 3 fits: 65 %"),
        (0.97, 3, "Answer; that one of these 3 fits: 97 %"),
        (0.65, 1, "Answer among the best ten; that this one fits: 65 %"),
        (0.999, 1, "Answer; that this one fits: > 99 %"),
    ):
        assert str(replace(ten, trust=trust, hits=ten.hits[:shown]).heading) == heading
    assert str(retriever.search("a submarine under the ice").heading) == "Nothing found"


def test_what_a_least_probability_leaves_is_as_sure_as_if_no_more_was_asked_for(retriever):
    ten = retriever.search("a man")
    least = (ten.hits[2].p_relevant + ten.hits[3].p_relevant) / 2
    left = retriever.search("a man", where=f"p>={least:.6f}")
    few = retriever.search("a man", k=len(left.hits))
    assert len(left.hits) == 3 and left.trust == pytest.approx(few.trust, abs=1e-6)
    assert left.trust < ten.trust and left.heading == few.heading


def test_answers_less_likely_than_asked_for_are_left_out(retriever):
    all_of_them = retriever.search("a man")
    likely = retriever.search("a man", where="p>=45% and kind=picture")
    assert 0 < len(likely.hits) < len(all_of_them.hits)
    assert likely.hits == tuple(hit for hit in all_of_them.hits if hit.p_relevant >= 0.45)
    assert likely.verdict == all_of_them.verdict and likely.trust < all_of_them.trust
    none = retriever.search("a man", where="p>=1")
    assert none.verdict == "nothing_found" and none.hits == ()
    assert none.near_misses == all_of_them.hits
    best = percent(none.near_misses[0].p_relevant)
    assert none.why == f"No answer is at least 100 % likely to fit; the best is {best}."


def test_a_name_is_judged_by_its_level(retriever, tmp_path):
    """Where pictures of what it names usually stand out further, fewer are believed."""
    shutil.copytree(retriever.model_folder.parent.parent, tmp_path / "index")
    other, policy = avow.open(tmp_path / "index"), retriever.policy("text")
    assert policy is not None and policy.level is not None
    higher = replace(policy.level, offset=policy.level.offset + 3)
    path = other.model_folder / "trust-text.json"
    replace(policy, level=higher).save(path)
    other.library.attach(path)
    names, sentence = ["a cat", "a rocket"], "a rocket stands on its launch pad at dusk"
    for one, another in zip(
        retriever.search_many(names), other.search_many(names), strict=True
    ):
        believed, doubted = log_odds(np.array([one.trust, another.trust]))
        assert believed > doubted + 0.5
    assert numbers(retriever.search(sentence)) == numbers(other.search(sentence))
