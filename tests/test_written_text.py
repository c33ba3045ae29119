"""Text in pictures: recognised when they are indexed, found beside what they show."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import serving
from encoders import ColourEncoder, picture
from test_cli import command

from avow.api import create_app
from avow.core import written_text
from avow.core.errors import MissingExtra
from avow.core.written_text import WrittenTexts, place_in, words_of
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever

__all__ = ["command"]  # the fixture


@pytest.fixture(scope="module")
def read():
    """The real engine with the networks that it brings, loaded once."""
    pytest.importorskip("rapidocr")
    return written_text.open_reader()


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    origin = Path(find_spec("skimage").submodule_search_locations[0]) / "data" / "page.png"
    shutil.copy(origin, tmp_path / "photos" / "page.png")
    picture("red").save(tmp_path / "photos" / "red.png")
    return tmp_path / "photos"


def run(photos, **how):
    how = {"index": photos.parent / "index", "encoder": ColourEncoder(), "workers": 1} | how
    return index_folders([photos], **how)


def opened(photos):
    encoder = ColourEncoder()
    return Retriever(Library.open(photos.parent / "index", encoder), encoder)


def names(hits):
    return [Path(hit.path).name for hit in hits]


def test_what_is_written_is_found_and_told_apart(read, photos, monkeypatch):
    """A photographed page; indexed without its text at first, and read once more for it."""
    monkeypatch.setattr("avow.retrieval.indexing.open_reader", lambda **_: read)
    assert run(photos).new == 2
    assert opened(photos).search("Region-based segmentation").written == ()
    report = run(photos, ocr=True)
    assert (report.new, report.changed, report.unchanged) == (0, 0, 2)
    retriever = opened(photos)
    found = retriever.search("Region-based segmentation")
    assert names(found.written) == ["page.png"]
    [hit] = found.written
    assert (hit.by, hit.p_relevant, hit.kind) == ("text", None, "image")
    assert "determine markers of the coins" in hit.text
    assert {one.by for one in (*found.hits, *found.near_misses)} == {"picture"}
    assert found.to_dict()["written"][0]["by"] == "text"
    assert names(retriever.search("coins MARKERS").written) == ["page.png"]
    assert retriever.search("red").written == ()
    assert retriever.search("coins", where="name=red.png").written == ()
    assert run(photos, ocr=True).unchanged == 2  # nothing is read a third time
    shutil.copy(photos / "page.png", photos / "copy.png")
    assert run(photos).new == 1  # the same content was read already
    assert len(opened(photos).search("coins").written) == 2


def test_the_index_remembers_that_text_is_read_until_it_is_told_not_to(
    photos, command, monkeypatch
):
    """By the commands; `asked` notes who loads the engine: whoever typed it, or the index."""
    asked = []
    monkeypatch.setattr(
        "avow.retrieval.indexing.open_reader",
        lambda remembered=False: asked.append(remembered) or (lambda _: "exit"),
    )
    index, seen = photos.parent / "index", []
    (photos / "page.png").unlink()
    steps = [("green", "--ocr"), ("blue",), (), ("white", "--no-ocr"), ("black",)]
    for colour, *options in (step or (None,) for step in steps):
        if colour is not None:
            picture(colour).save(photos / f"{colour}.png")
        code, _, err = command("index", photos, "--index", index, *options)
        assert code == 0, err
        with Library.open(index) as library:
            seen.append((len(library), len(library.written("exit"))))
    assert seen == [(2, 2), (3, 3), (3, 3), (4, 3), (5, 3)]
    assert asked == [False, True]  # where nothing is new, nothing is loaded
    assert "ocr" in json.loads((index / "folders.json").read_text())


def only_the_page_has_words(photograph):
    """What is read, given here."""
    return "markers of the coins" if photograph.mode == "L" else ""


def test_words_are_found_among_what_passes_the_filter(photos, monkeypatch):
    monkeypatch.setattr(
        "avow.retrieval.indexing.open_reader", lambda **_: only_the_page_has_words
    )
    run(photos, ocr=True)
    retriever = opened(photos)
    [hit] = retriever.search("coins").written
    assert (Path(hit.path).name, hit.by, hit.text) == (
        "page.png",
        "text",
        "markers of the coins",
    )
    assert retriever.search("coins", where="name=red.png").written == ()
    assert retriever.search("red").written == ()


@pytest.mark.browser
def test_the_page_lists_what_is_written_apart_from_what_is_shown(photos, monkeypatch, visit):
    monkeypatch.setattr(
        "avow.retrieval.indexing.open_reader", lambda **_: only_the_page_has_words
    )
    run(photos, ocr=True)
    with serving.Server(create_app(opened(photos), limits=serving.PATIENT)) as address:
        page = visit(f"{address}/?q=coins").page
        page.wait_for_selector("#shown h2:has-text('With these words written in them')")
        written = page.locator("#shown h2 + .grid")
        assert written.locator(".card").count() == 1
        assert "page.png" in written.inner_html()


def test_a_missing_engine_is_told(monkeypatch, photos):
    monkeypatch.setattr(written_text.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as caught:
        run(photos, ocr=True)
    assert str(caught.value) == (
        "Reading text in pictures needs the package 'rapidocr', which is not installed. "
        "Install it with: pip install 'avow[ocr]'."
    )
    assert not (photos.parent / "index").exists()
    with pytest.raises(MissingExtra) as caught:
        written_text.open_reader(remembered=True)
    assert str(caught.value) == (
        "Reading text in pictures, as this index does until --no-ocr is given, needs the "
        "package 'rapidocr', which is not installed. Install it with: pip install 'avow[ocr]'."
    )


@pytest.mark.parametrize(
    ("wanted", "written", "place"),
    [
        ("Invoice 2031", "INVOICE\n2031 paid", 0),
        ("2031 invoice", "invoice: 2031", 1),
        ("invoice", "invoices", None),
        ("", "anything", None),
        ("Straße", "STRASSE 7", 0),
    ],
)
def test_words_are_compared_as_people_read_them(wanted, written, place):
    assert place_in(words_of(wanted), written) == place


def test_texts_are_found_as_reading_every_one_finds_them():
    rng = np.random.default_rng(0)
    words = ["exit", "no", "parking", "Straße", "24", "h"]
    rows = [(n, " ".join(rng.choice(words, rng.integers(0, 7)))) for n in range(300)]
    texts = WrittenTexts(rows)
    for wanted in ("no parking", "24 h", "STRASSE", "exit exit", "taxi", "", "?!"):
        every = [(place_in(words_of(wanted), text), len(text), n) for n, text in rows]
        holding = sorted(one for one in every if one[0] is not None)
        assert texts.find(wanted) == [number for _, _, number in holding]
