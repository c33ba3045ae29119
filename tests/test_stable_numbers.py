"""The numbers by which a folder draws its sample: kept in a file, or made anew."""

import json

import numpy as np
import pytest
from encoders import ColourEncoder

from avow.core.errors import WrongIndex
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.store import stable_numbers
from avow.retrieval.store.catalogue import open_catalogue
from avow.retrieval.store.stable_numbers import FILE, StableNumbers
from avow.retrieval.store_contract import item_id


@pytest.fixture
def indexed(tmp_path):
    """2,100 texts of two files, in an index."""
    home, index = tmp_path / "texts", tmp_path / "index"
    home.mkdir()
    for name, count in (("a.jsonl", 2000), ("b.jsonl", 100)):
        lines = [json.dumps({"text": f"text {n} of {name}"}) for n in range(count)]
        (home / name).write_text("\n".join(lines))
    index_folders([home], index=index, encoder=ColourEncoder())
    return home, index


def drawn(index):
    """The sample, and the one that the items themselves tell."""
    with Library.open(index) as library:
        sampled = library.choose(None, "text", 500).sampled
        items = library.items(library.find(None, "text"))
        named = sorted((item_id(item.path, item.part, item.content), item.id) for item in items)
        return sampled.tolist(), sorted(number for _, number in named[:500])


def test_a_lost_damaged_or_old_file_draws_the_same_sample(indexed):
    home, index = indexed
    kept = (index / FILE).read_bytes()
    sampled, wanted = drawn(index)
    assert sampled == wanted
    for content in (kept[:-9], kept[:40] + b"\1" + kept[41:], b"", kept[:3200] + kept[-8:]):
        (index / FILE).write_bytes(content)
        assert drawn(index) == (sampled, wanted)
    (index / FILE).unlink()
    assert drawn(index) == (sampled, wanted)
    (home / "b.jsonl").rename(home / "c.jsonl")
    index_folders([home], index=index, encoder=ColourEncoder())
    assert (index / FILE).read_bytes() != kept
    (index / FILE).write_bytes(kept)  # as of before the move
    after, wanted = drawn(index)
    assert after == wanted and after != sampled


def test_only_what_is_new_is_named_and_all_of_it_verified(indexed, monkeypatch):
    home, index = indexed
    named = []
    monkeypatch.setattr(
        stable_numbers, "item_id", lambda *about: named.append(about) or item_id(*about)
    )
    drawn(index)
    assert named == []
    (home / "c.jsonl").write_text(json.dumps({"text": "a new one"}))
    index_folders([home], index=index, encoder=ColourEncoder())
    assert len(named) == 1
    (index / FILE).unlink()
    link = open_catalogue(index)
    link.execute("UPDATE items SET content = 'another' WHERE id = 7")
    with pytest.raises(WrongIndex, match="the description of item 7 has changed"):
        StableNumbers(index).of(link, 1, np.arange(5))
    link.close()


def test_what_is_kept_already_is_not_written_again_and_nothing_has_no_number(indexed, tmp_path):
    _, index = indexed
    link, kept = open_catalogue(index), (index / FILE).stat()
    StableNumbers(index).keep(link)
    now = (index / FILE).stat()  # reading it may change when it was read
    assert (now.st_ino, now.st_mtime_ns) == (kept.st_ino, kept.st_mtime_ns)
    link.close()
    (tmp_path / "empty").mkdir()
    link = open_catalogue(tmp_path / "empty", make=True)
    of_nothing = StableNumbers(tmp_path / "empty").of(link, 1, np.array([7]))
    assert of_nothing.tolist() == [np.iinfo(np.int64).max]  # never in a sample
    link.close()
