"""Answers in notebooks and programs: shown with pictures, as tables, many at once, awaited."""

import asyncio
import html
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from search_samples import index_with_a_cat, save_pictures

import avow
from avow.core.errors import MissingExtra
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.request import Page
from avow.retrieval.search import Retriever
from avow.retrieval.tables import COLUMNS
from avow.trust.policy import Policy

ABSENT = "a submarine under the ice"


@pytest.fixture(scope="module")
def retriever(tmp_path_factory) -> Retriever:
    home = tmp_path_factory.mktemp("notebook")
    return avow.open(index_with_a_cat(home, "cat <b> & co.jpg"))


def test_a_notebook_shows_pictures_verdict_and_p(retriever):
    result = retriever.search("a cat", k=3)
    shown = result._repr_html_()
    assert html.escape(result.why) in shown and shown.count("<img ") == len(result.hits)
    assert f"{100 * result.hits[0].p_relevant:.0f}" in re.sub("<[^>]+>", " ", shown)
    assert "cat &lt;b&gt; &amp; co.jpg" in shown and "<b> &" not in shown
    absent = retriever.search(ABSENT)._repr_html_()
    assert "Nothing found." in absent and "What came nearest:" in absent


def test_a_picture_that_is_gone_leaves_its_name(retriever, tmp_path):
    save_pictures(tmp_path / "pictures", 3)
    index_folders([tmp_path / "pictures"], index=tmp_path / "index", encoder=open_encoder())
    result = avow.open(tmp_path / "index").search("a red wall")
    for hit in (*result.hits, *result.near_misses):
        Path(hit.path).unlink()
    shown = result._repr_html_()
    assert "<img" not in shown and "red-000.png" in shown


def test_the_repr_is_short(retriever):
    result = retriever.search("a cat", k=3)
    assert "\n" not in repr(result) and len(repr(result)) < 400
    assert repr(result).startswith(f"<SearchResult {result.verdict!r}, P 0.")
    assert "cat <b> & co.jpg" in repr(result.hits[0])
    assert repr(retriever.search(ABSENT)).startswith("<SearchResult 'nothing_found', P 0.")


def test_results_to_pandas_and_arrow(retriever):
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    result = retriever.search("a cat", k=3)
    frame, table = result.to_pandas(), result.to_arrow()
    assert tuple(frame.columns) == tuple(table.column_names) == COLUMNS
    assert frame["path"].tolist() == table["path"].to_pylist() == [h.path for h in result.hits]
    assert frame["p_relevant"].tolist() == [hit.p_relevant for hit in result.hits]
    assert set(frame["verdict"]) == {result.verdict}
    absent = retriever.search(ABSENT)
    assert len(absent.to_pandas()) == absent.to_arrow().num_rows == 0
    assert absent.to_pandas().attrs["verdict"] == "nothing_found"
    assert absent.to_arrow().schema.metadata[b"verdict"] == b"nothing_found"


@pytest.mark.parametrize(
    ("package", "method"), [("pandas", "to_pandas"), ("pyarrow", "to_arrow")]
)
def test_a_missing_package_is_named(retriever, monkeypatch, package, method):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"'{package}'.*avow\[tables\]"):
        getattr(retriever.search("a cat"), method)()


TEXTS = ["a cat", "a cup of coffee", ABSENT, "a red wall with no door", "cats", "a bycicle"]


def test_search_many_gives_what_single_searches_give(retriever, monkeypatch):
    one_by_one = [retriever.search(text, k=3) for text in TEXTS]
    calls = []
    encode = retriever.encoder.encode_texts

    def counted(texts):
        calls.append(list(texts))
        return encode(texts)

    monkeypatch.setattr(retriever.encoder, "encode_texts", counted)
    together = retriever.search_many(TEXTS, k=3)
    assert len(calls) == 1 and len(calls[0]) > len(set(TEXTS)) - 1  # one batch, and no other
    for one, many in zip(one_by_one, together, strict=True):
        assert (one.query, one.verdict, one.why) == (many.query, many.verdict, many.why)
        ours, theirs = (found.hits or found.near_misses for found in (one, many))
        assert [hit.path for hit in ours] == [hit.path for hit in theirs]
        numbers = np.array(
            [
                [[hit.similarity, hit.p_relevant] for hit in found] + [[about.trust] * 2]
                for found, about in ((ours, one), (theirs, many))
            ]
        )
        assert np.allclose(*numbers, atol=1e-3)
        assert one.uncertainty.u == pytest.approx(many.uncertainty.u, abs=1e-4)


def test_search_many_searches_and_judges_in_one_pass(retriever, monkeypatch):
    """How often the index is searched and the policy asked does not grow with the texts."""
    calls = []

    def count(owner, name):
        real = getattr(owner, name)

        def counted(self, *arguments, **options):
            calls.append(name)
            return real(self, *arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    for owner, names in {
        Library: ("search", "search_and_watch", "items", "vectors", "usual", "refresh"),
        Policy: ("read", "judge", "number"),
    }.items():
        for name in names:
            count(owner, name)
    texts = [f"a {colour} {thing}" for colour in ("red", "blue") for thing in ("cat", "cup")]
    retriever.search_many(texts[:2])
    of_two, calls[:] = sorted(calls), []
    retriever.search_many(texts * 5)
    assert sorted(name for name in calls if name != "items") == [
        name for name in of_two if name != "items"
    ]
    assert calls.count("judge") == calls.count("search") == 1
    calls.clear()
    monkeypatch.setattr("avow.retrieval.search.MANY", 8)  # what bounds the memory
    assert len(retriever.search_many(texts * 5)) == 20 and calls.count("search") == 3
    assert retriever.search_many([]) == []


@pytest.mark.parametrize("text", ["a cat", "a red wall with no door", ABSENT, "a wall"])
def test_every_page_says_the_same(retriever, text):
    """Verdict, probabilities and sentences do not depend on how far one has scrolled."""
    whole = retriever.search(text, k=3)
    everything = retriever.search(text, k=len(retriever.library))
    seen = []
    for offset in (0, 3, 6, 9, 12, 99):
        page = retriever.search(text, k=Page(3, offset))
        assert (page.verdict, page.why, page.trust) == (whole.verdict, whole.why, whole.trust)
        assert page.how_many == whole.how_many and page.uncertainty == whole.uncertainty
        seen += page.hits or page.near_misses
    assert tuple(seen[:13]) == (everything.hits or everything.near_misses)[:13]
    assert everything.why == whole.why and everything.verdict == whole.verdict


@pytest.mark.parametrize("text", ["a cat", "a red wall with no door", ABSENT, "a wall", "red"])
def test_single_answers_and_the_whole_agree(retriever, text):
    """The whole is as likely as its best answer at least, and as their sum at most."""
    for k in (1, 2, 5, 12):
        result = retriever.search(text, k=k)
        stated = [hit.p_relevant for hit in result.hits or result.near_misses]
        assert stated == sorted(stated, reverse=True)
        if result.verdict != "nothing_found":
            assert stated[0] - 1e-9 <= result.trust <= sum(stated[:10]) + 1e-9
        if result.how_many is not None:
            assert result.how_many.expected >= sum(stated) - 1e-6
            assert result.how_many.low <= result.how_many.expected <= result.how_many.high
            ten = retriever.search(text, k=10).trust
            assert result.how_many.low == 0 or ten >= 0.9  # some fit only where that is likely


def test_asearch_leaves_the_loop_free(retriever):
    async def both():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        beside = asyncio.create_task(tick())
        found = await asyncio.gather(*(retriever.asearch(text, k=2) for text in TEXTS[:3]))
        beside.cancel()
        return found, ticks

    found, ticks = asyncio.run(both())
    assert [one.verdict for one in found] == [
        retriever.search(t, k=2).verdict for t in TEXTS[:3]
    ]
    assert ticks > 3  # it turned while the searches ran


def test_searches_of_one_retriever_take_turns(retriever, monkeypatch):
    inside, most = 0, 0
    search = type(retriever).search

    def watched(self, text, **asked):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.01)
        inside -= 1
        return search(self, text, **asked)

    monkeypatch.setattr(type(retriever), "search", watched)

    async def several():
        await asyncio.gather(*(retriever.asearch("a cat") for _ in range(3)))

    asyncio.run(several())
    assert most == 1
