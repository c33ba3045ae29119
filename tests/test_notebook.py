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
from avow.retrieval.search import Retriever
from avow.retrieval.tables import COLUMNS

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
        assert [hit.path for hit in one.hits] == [hit.path for hit in many.hits]
        ours, theirs = ([hit.similarity for hit in found.hits] for found in (one, many))
        assert np.allclose(ours, theirs, atol=1e-4)


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
