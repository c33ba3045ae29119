"""Damaged indexes: every damage is told, and every repair that a sentence names works."""

import json
import os
import shutil
import sqlite3
import tempfile
import time
import zlib
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from encoders import COLOURS, ColourEncoder, picture
from test_cli import command

from avow.core import checksums
from avow.core.errors import WrongIndex
from avow.retrieval.encoders.lazy import Deferred, unchanged
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.store import row_blocks
from avow.retrieval.store.catalogue import changing, open_catalogue
from avow.retrieval.store.indexed_folders import cover, covered
from avow.retrieval.store.inspection import AGAIN, REBUILD, catalogue_damage, inspect_index
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.rows import Rows
from avow.retrieval.store.state import read_state
from avow.retrieval.where import Where

__all__ = ["command"]  # the fixture
ROOT = Path(__file__).parent.parent
OLD = Path(__file__).parent / "frozen" / "index-format-1"
BANK = ("red", "green", "blue", "black and white")
PLACE = Path("models") / ColourEncoder(bank=BANK).fingerprint


def encoder():
    return ColourEncoder(bank=BANK)


def run(photos, index, **more):
    return index_folders([photos], index=index, encoder=encoder(), **more)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An index of six pictures and two texts with tags, with one judgement."""
    home = tmp_path_factory.mktemp("damage")
    photos = home / "photos"
    photos.mkdir()
    for name in COLOURS:
        picture(name).save(photos / f"{name}.png")
    (photos / "notes.csv").write_text("text,tags\na red boat,boat;sea\nblue sky,sky\n")
    (photos / "broken.png").write_bytes(b"x")
    run(photos, home / "index")
    with Library.open(home / "index") as library:
        [red] = library.find(Where.parse("name=red.png"))
        library.record({"text": "red"}, int(red), True)
    return home


@pytest.fixture
def photos(made):
    return made / "photos"


@pytest.fixture
def index(made, tmp_path):
    return Path(shutil.copytree(made / "index", tmp_path / "index"))


def look_at_everything(index):
    """What a user can see: answers, items, filters, lists; ids and scores of one query."""
    with Library.open(index) as library:
        ids, scores = library.search(encoder().encode_texts(["red"]), 8)
        library.items(library.find())
        library.items(library.find(Where.parse("tag=sea"), "text"))
        library.usual(library.find())
        library.feedback()
        library.skipped()
        library.folders()
        return ids.tolist(), scores.tolist()


def told(index):
    with pytest.raises(WrongIndex) as caught:
        look_at_everything(index)
    return str(caught.value)


def overwrite(path, start, data):
    with path.open("r+b") as stream:
        stream.seek(start)
        stream.write(data)


def raw(index, *statements):
    """Change cells as damage does: without the checksums."""
    link = sqlite3.connect(index / "catalogue.sqlite", isolation_level=None)
    for statement in statements:
        link.execute(statement)
    link.close()


# --- blocks of rows -------------------------------------------------------------------------


def test_zeroed_rows_are_told_in_full(index):
    """An absent thing became an answer with P = 1.0 when these bytes were zero."""
    path = index / PLACE / "usual.0"
    overwrite(path, 0, bytes(512))
    with Library.open(index) as library, pytest.raises(WrongIndex) as caught:
        library.usual(library.find())
    last = row_blocks.BLOCK_BYTES // (2 * 11 * 4) - 1
    assert str(caught.value) == (
        f"The file {str(path)!r} is damaged in rows 0 to {last}: its checksum does not fit. "
        "Expected what `avow index` wrote; make the index anew with `avow index --rebuild`."
    )


@pytest.mark.parametrize("name", ["vectors.0", "usual.0"])
@pytest.mark.parametrize("at", [0, 200, 700])
def test_one_bit_of_a_row_is_told(index, name, at):
    data = bytearray((index / PLACE / name).read_bytes())
    data[at] ^= 4
    (index / PLACE / name).write_bytes(data)
    assert f"{name}' is damaged" in told(index)
    [found] = inspect_index(index)
    assert found.file.endswith(name) and found.run == REBUILD


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 3 * 32 * 4)  # three vectors


@pytest.mark.parametrize("batch", [1, 2, 5, 64])
def test_blocks_are_filled_batch_by_batch(photos, tmp_path, small_blocks, batch):
    index = tmp_path / "index"
    run(photos, index, batch=batch)
    assert inspect_index(index) == []
    with Library.open(index) as library:
        assert len(library) == 8
    link = open_catalogue(index)
    rows = link.execute("SELECT rows FROM blocks WHERE name = 'vectors' ORDER BY block")
    assert rows.fetchall() == [(3,), (3,), (2,)]
    link.close()


@pytest.mark.parametrize("many", [16, 2])  # from two on, threads share them
def test_only_the_blocks_that_are_read_are_verified(
    photos, tmp_path, small_blocks, monkeypatch, many
):
    monkeypatch.setattr(row_blocks, "_MANY", many)
    index = tmp_path / "index"
    run(photos, index)
    overwrite(index / PLACE / "vectors.0", 7 * 32 * 4, b"\1\2\3\4")
    with Library.open(index) as library:
        state = library._state
        first = state.ids[:6]
        library.vectors(first)
        library.search(encoder().encode_texts(["red"]), 2, first)
        for damaged in (
            lambda: library.vectors(state.ids[7:]),
            lambda: library.vectors(state.ids),  # of several blocks, of which the last is bad
            lambda: library.search(encoder().encode_texts(["red"]), 2),
            lambda: library.search_and_watch(encoder().encode_texts(["red"])[0], 2, first),
        ):
            with pytest.raises(WrongIndex, match="in rows 6 to 8"):
                damaged()


def test_a_refreshed_reader_verifies_only_what_was_added(photos, tmp_path, monkeypatch):
    index, more = tmp_path / "index", tmp_path / "more"
    run(photos, index)
    more.mkdir()
    picture((9, 9, 9)).save(more / "late.png")
    sizes, real = [], row_blocks.zlib.crc32

    class Counted:
        @staticmethod
        def crc32(data, start=0):
            sizes.append(memoryview(data).nbytes)
            return real(data, start)

    with Library.open(index) as library:
        library.search(encoder().encode_texts(["red"]), 3)
        run(more, index)
        assert library.refresh()
        monkeypatch.setattr(row_blocks, "zlib", Counted)
        library.search(encoder().encode_texts(["red"]), 3)
        library.search(encoder().encode_texts(["red"]), 3)
    assert sizes == [32 * 4], "one new row, once"


def test_rows_that_are_copied_are_verified_first(photos, index, monkeypatch):
    monkeypatch.setattr("avow.retrieval.indexing._FEW", 0)
    overwrite(index / PLACE / "vectors.0", 40, b"\1\2\3\4")
    folder = index.parent / "photos"
    shutil.copytree(photos, folder)
    with pytest.raises(WrongIndex, match=r"vectors\.0' is damaged"):
        index_folders([folder], index=index, encoder=encoder(), dedupe=True)


# --- the catalogue --------------------------------------------------------------------------

CELLS = {
    "a path": "UPDATE files SET path = replace(path, 'red', 'rad') WHERE name = 'red.png'",
    "a size": "UPDATE files SET size = size + 1 WHERE id = 3",
    "a kind": "UPDATE items SET kind = 'text' WHERE id = (SELECT max(id) FROM items)",
    "gone": "UPDATE items SET gone = 1 WHERE id = 2",
    "a mark": "UPDATE items SET mark = mark + 1 WHERE id = 2",
    "a text": "UPDATE items SET text = 'a red goat' WHERE text = 'a red boat'",
    "a width": "UPDATE items SET width = width + 1 WHERE id = 2",
    "a tag": "UPDATE tags SET tag = 'see' WHERE tag = 'sea'",
    "a lost tag": "DELETE FROM tags WHERE tag = 'sea'",
    "a lost item": "DELETE FROM items WHERE id = 2",
    "a lost file": "DELETE FROM files WHERE id = 2",
    "a row": "UPDATE stored SET row = 1 - row WHERE row < 2",
    "a lost row": "DELETE FROM stored WHERE row = 0",
    "a model": "UPDATE models SET generation = 1",
    "used": "UPDATE models SET used = -1",
    "an engine": "UPDATE generations SET engine = 'faiss'",
    "a count": "UPDATE generations SET rows = rows - 1",
    "a lost block": "DELETE FROM blocks WHERE name = 'usual'",
    "a checksum": "UPDATE blocks SET checksum = checksum + 1 WHERE name = 'vectors'",
    "a judgement": "UPDATE feedback SET good = 0",
    "a lost judgement": "DELETE FROM feedback",
    "a query": "UPDATE feedback SET query = '[1'",
    "a reason": "UPDATE skipped SET why = 'no reason'",
    "a type": "UPDATE stored SET row = 'one' WHERE row = 1",
    "bytes": "UPDATE items SET content = x'ff00' WHERE id = 2",
    "a sum": "UPDATE sums SET total = total + 1 WHERE name = 'models'",
}


@pytest.mark.parametrize("statement", CELLS.values(), ids=CELLS.keys())
def test_a_changed_cell_is_told_and_repaired(photos, index, statement):
    before = look_at_everything(index)
    raw(index, "PRAGMA foreign_keys = OFF", statement)
    assert "--rebuild" in told(index)
    assert inspect_index(index), "avow check finds it, too"
    run(photos, index, rebuild=True)
    assert inspect_index(index) == []
    assert len(look_at_everything(index)[0][0]) == len(before[0][0])
    with Library.open(index) as library:
        assert [one.query for one in library.feedback()] in ([{"text": "red"}], [])


def test_a_damaged_filter_never_answers(index):
    raw(index, "UPDATE files SET name = 'rad.png' WHERE name = 'red.png'")
    with Library.open(index) as library, pytest.raises(WrongIndex, match="has changed"):
        library.find(Where.parse("name=red.png"))


def test_items_are_verified_once_for_filters(photos, index, tmp_path):
    late = tmp_path / "late"
    late.mkdir()
    picture((1, 1, 1)).save(late / "night.png")
    with Library.open(index) as library:
        assert len(library.find(Where.parse("name~png"))) == 6
        asked = []
        library._link.set_trace_callback(asked.append)
        assert len(library.find(Where.parse("name~red"))) == 1
        index_folders([late], index=index, encoder=encoder())
        library.refresh()
        assert len(library.find(Where.parse("name~png"))) == 7
        library._link.set_trace_callback(None)
        raw(index, "UPDATE files SET name = 'x.png' WHERE name = 'night.png'")
        library._filters.checked._upto -= 1  # as if it were not seen yet
        with pytest.raises(WrongIndex, match="has changed"):
            library.find(Where.parse("name~png"))


@pytest.mark.parametrize(
    ("statement", "asked", "why"),
    [
        (
            "DELETE FROM sums WHERE name = 'items'",
            lambda library: library.find(Where.parse("name~png")),
            "rows of the table 'items' are missing",
        ),
        (
            "UPDATE models SET stamp = stamp + 1",
            lambda library: library.refresh(),
            "a row of the table 'models' has changed",
        ),
    ],
    ids=["sums", "models"],
)
def test_damage_under_an_open_reader_is_told(index, statement, asked, why):
    with Library.open(index) as library:
        raw(index, statement)
        with pytest.raises(WrongIndex, match=why):
            asked(library)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE generations SET rows = rows - 1", "a row of the table 'generations' has"),
        ("DELETE FROM blocks WHERE name = 'vectors'", r"vectors\.0' is damaged in rows 0 to"),
    ],
    ids=["generations", "blocks"],
)
def test_a_writer_does_not_go_on_from_damage(index, tmp_path, statement, why):
    raw(index, statement)
    picture((1, 1, 1)).save(tmp_path / "night.png")
    with pytest.raises(WrongIndex, match=why):
        index_folders([tmp_path / "night.png"], index=index, encoder=encoder())


def test_a_model_that_went_while_its_rows_were_asked_for_is_told(index):
    about = Space(index, PLACE.name).manifest()
    with closing(open_catalogue(index)) as link:
        with pytest.raises(WrongIndex, match="was made anew with another model"):
            read_state(link, Space(index, "0" * 16), about, None)


def test_a_changed_definition_is_told(index):
    raw(
        index,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'tag TEXT', 'tag TEYT') "
        "WHERE name = 'tags'",
    )
    assert "the definition of a table has changed" in told(index)


def test_a_definition_that_is_no_text_is_told_and_repaired(photos, index):
    """SQLite repeats it in its message, which Python then cannot read."""
    path = index / "catalogue.sqlite"
    with closing(sqlite3.connect(path)) as link:
        link.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()
    assert content.count(b"CREATE TABLE items") == 1
    path.write_bytes(content.replace(b"CREATE TABLE items", b"CREATE TAB\xc9E items"))
    with pytest.raises(WrongIndex, match="its definitions cannot be read"):
        Library.open(index, encoder())
    index_folders([photos], index=index, encoder=encoder(), rebuild=True)
    with Library.open(index, encoder()) as library:
        assert len(library)


def test_a_writer_does_not_seal_damage(photos, index):
    """The file looks changed, is read again, and its row would get a fresh checksum."""
    raw(index, "UPDATE files SET size = 1, content = 'x' WHERE name = 'red.png'")
    with pytest.raises(WrongIndex, match="damaged row in files"):
        run(photos, index)
    report = run(photos, index, rebuild=True)
    aside = index / "catalogue.damaged-1.sqlite"
    assert report.repaired == [
        f"The catalogue was damaged and is kept as {str(aside)!r}. Its intact rows were taken "
        "over: 6 files, 7 items, 1 judgements."
    ]
    assert aside.is_file() and inspect_index(index) == []


# --- repairs --------------------------------------------------------------------------------

DAMAGES = {
    "manifest: broken": ("manifest.json", b"{"),
    "manifest: empty": ("manifest.json", b""),
    "manifest: a list": ("manifest.json", b"[1]"),
    "manifest: missing": ("manifest.json", None),
    "bank: empty": ("bank.npy", b""),
    "bank: missing": ("bank.npy", None),
    "vectors: empty": ("vectors.0", b""),
    "vectors: missing": ("vectors.0", None),
    "usual: missing": ("usual.0", None),
    "folders: broken": ("../../folders.json", b"[1, "),
    "folders: missing": ("../../folders.json", None),
    "catalogue: garbage": ("../../catalogue.sqlite", b"not a database at all" * 100),
    "catalogue: empty": ("../../catalogue.sqlite", b""),
}


@pytest.mark.parametrize(("name", "content"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_rebuild_repairs_what_the_sentence_is_about(photos, index, name, content):
    path = index / PLACE / name
    path.unlink() if content is None else path.write_bytes(content)
    assert "--rebuild" in " ".join(one.what + one.run for one in inspect_index(index))
    if name != "bank.npy":  # only a writer needs it
        assert "--rebuild" in told(index)
    run(photos, index, rebuild=True)
    assert inspect_index(index) == [] and len(look_at_everything(index)[0][0]) == 8
    with Library.open(index) as library:
        kept = [(one.query, one.good) for one in library.feedback()]
    assert kept == ([] if "catalogue" in name else [({"text": "red"}, True)])


def test_a_damaged_bank_is_told_when_it_is_needed(photos, index, tmp_path):
    (index / PLACE / "bank.npy").write_bytes(b"")
    late = tmp_path / "late"
    late.mkdir()
    picture((1, 1, 1)).save(late / "night.png")
    with pytest.raises(WrongIndex, match=r"bank\.npy' cannot be read .*--rebuild"):
        index_folders([late], index=index, encoder=encoder())


def test_another_format_is_repaired_and_judgements_are_kept(photos, index):
    raw(index, "PRAGMA user_version = 99")
    assert "has format 99" in told(index)
    with pytest.raises(WrongIndex, match="has format 99"):
        run(photos, index)
    [sentence] = run(photos, index, rebuild=True).repaired
    assert "catalogue.damaged-1.sqlite" in sentence and "1 judgements" in sentence
    with Library.open(index) as library:
        [said] = library.feedback()
        assert library.items([said.item_id])[0].path.endswith("red.png"), "the same picture"
        assert covered(index) == [str(photos.resolve())]


def test_a_second_repair_keeps_the_first_copy_and_gives_no_number_twice(photos, index):
    (index / "catalogue.damaged-1.sqlite").write_bytes(b"of an earlier repair")
    with Library.open(index) as library:
        last = max(map(int, library.find()))
        library.record({"text": "last"}, last, True)
    raw(index, f"DELETE FROM items WHERE id > {last}", f"DELETE FROM tags WHERE item > {last}")
    raw(index, f"UPDATE items SET width = width + 1 WHERE id = {last}")
    [sentence] = run(photos, index, rebuild=True).repaired
    assert "catalogue.damaged-2.sqlite" in sentence and "2 judgements" in sentence
    assert (index / "catalogue.damaged-1.sqlite").read_bytes() == b"of an earlier repair"
    with Library.open(index) as library:
        assert last in [said.item_id for said in library.feedback()]
        assert last not in library.find() and last not in library.find(kind="text")


@pytest.mark.parametrize(
    ("noted", "why"),
    [
        ({"folders": ["/srv"], "checksum": "00000000"}, "its checksum does not fit"),
        ({"folders": "/srv"}, "it does not list folders"),
        ({"folders": ["/srv", 3]}, "it does not list folders"),
        ({"folders": ["/srv"], "fps": "2"}, "its frames a second are no number"),
        ({"folders": ["/srv"], "fps": float("inf")}, "its frames a second are no number"),
        ({"folders": ["/srv"], "fps": -1}, "its frames a second are no number"),
        ({"folders": ["/srv"], "ocr": "yes"}, "it does not say whether text is read"),
    ],
    ids=str,
)
def test_a_list_of_folders_that_nobody_wrote_is_told(index, noted, why):
    path = index / "folders.json"
    path.write_text(json.dumps(noted if "checksum" in noted else checksums.sealed(noted)))
    sentence = (
        f"The list of indexed folders {str(path)!r} cannot be read ({why}). Expected what "
        "`avow index` wrote; name all folders again with `avow index --rebuild FOLDERS`."
    )
    assert [one.what for one in inspect_index(index)] == [sentence]
    with pytest.raises(WrongIndex) as caught:
        cover(index, ["/new"])
    assert str(caught.value) == sentence
    cover(index, ["/new"], anew=True)
    assert covered(index) == ["/new"]


def test_what_can_be_read_of_a_torn_catalogue_is_kept(photos, index):
    path = index / "catalogue.sqlite"
    link = sqlite3.connect(path)
    page = link.execute("SELECT rootpage FROM sqlite_master WHERE name = 'files'").fetchone()[0]
    size = link.execute("PRAGMA page_size").fetchone()[0]
    link.close()
    overwrite(path, (page - 1) * size, os.urandom(size))
    assert catalogue_damage(index)
    [sentence] = run(photos, index, rebuild=True).repaired
    assert "0 files, 0 items, 1 judgements" in sentence
    assert inspect_index(index) == []
    with Library.open(index) as library:
        [said] = library.feedback()
        assert said.item_id not in library.find(), "its number is not given to another item"


def test_a_damaged_engine_is_made_again(photos, index):
    pytest.importorskip("faiss")
    run(photos, index, engine="faiss")
    saved = index / PLACE / "engines" / "faiss" / "vectors.faiss"
    overwrite(saved, saved.stat().st_size // 2, b"\1\2\3\4")
    assert "run `avow index FOLDER` to make it again" in told(index)
    assert [one.run for one in inspect_index(index)] == [AGAIN]
    run(photos, index)
    assert inspect_index(index) == [] and len(look_at_everything(index)[0][0]) == 8


@pytest.mark.parametrize(
    "change",
    [
        *({"dim": 10**9}, {"dim": "32"}, {"dim": True}, {"views": 0}, {"views": 5}),
        *({"tau": "x"}, {"tau": -1.0}, {"tau": float("nan")}, {"kind": "cosine"}),
        *({"bank": -1}, {"model": 3}, {"fingerprint": "0" * 16}, {"made": None}),
    ],
    ids=str,
)
def test_a_manifest_that_nobody_wrote_is_told(index, change):
    path = index / PLACE / "manifest.json"
    about = json.loads(path.read_text()) | change
    for content in (about, checksums.sealed(about)):
        path.write_text(json.dumps(content))
        assert "manifest.json' cannot be read" in told(index)


# --- similarities ---------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path):
    """An index that the code before checksums wrote."""
    return Path(shutil.copytree(OLD, tmp_path / "old"))


@pytest.mark.parametrize("factor", [np.nan, np.inf])
def test_numbers_that_are_none_are_told_without_checksums(old, factor):
    path = old / PLACE / "vectors.0"
    np.full(256, factor, np.float32).tofile(path)
    assert "it holds NaN or infinite numbers" in told(old)


@pytest.mark.parametrize("factor", [1.1, -3])
def test_no_similarity_outside_its_range_is_shown(old, factor):
    path = old / PLACE / "vectors.0"
    rows = np.fromfile(path, np.float32) * np.float32(factor)
    rows.tofile(path)
    query = encoder().encode_texts(["red"])
    with Library.open(old) as library:
        with pytest.raises(WrongIndex, match=r"A similarity .* Expected numbers between -1"):
            library.search(query, 8)
        with pytest.raises(WrongIndex, match=r"A similarity .* Expected numbers between -1"):
            library.search_and_watch(query[0], 8, library.find())


def test_what_rounding_adds_is_cut_off(old):
    path = old / PLACE / "vectors.0"
    (np.fromfile(path, np.float32) * np.float32(1.001)).tofile(path)
    with Library.open(old) as library:
        scores = library.search(encoder().encode_texts(["red"]), 8)[1]
        assert scores.max() == 1 and scores.min() >= -1


# --- indexes without checksums --------------------------------------------------------------


def test_an_old_index_is_searched_and_then_upgraded(old, photos):
    ids, scores = look_at_everything(old)
    assert inspect_index(old) == []
    assert ids[0][:3] == [4, 6, 8]
    np.testing.assert_allclose(scores[0][:3], [1, 1, 0.59307635], atol=1e-6)
    with Library.open(old) as library:
        library.record({"text": "blue"}, 2, True)
        assert len(library.feedback()) == 2
        run(photos, old)
        assert library.refresh() and len(library) == 16, "a reader that was open goes on"
        library.record({"text": "green"}, 3, True)
        assert len(library.find(Where.parse("path~srv"))) == 6
    assert inspect_index(old) == []
    with Library.open(old) as library:
        assert len(library.feedback()) == 3
    overwrite(old / PLACE / "vectors.0", 0, b"\1\2\3\4")
    assert "vectors.0' is damaged" in told(old)


def test_an_old_index_keeps_and_forgets_a_policy(old):
    with Library.open(old) as library:
        policy = old / PLACE / "trust-text.json"
        policy.write_text("{}")
        library.attach(policy)
        library.check_attached("trust-text.json")
        assert library.detach("trust-text.json") and not policy.exists()
        assert not library.detach("trust-text.json")


def test_an_old_index_is_never_taken_for_one_that_has_nothing_to_do(old, photos):
    """Its checksums are to be added."""
    assert unchanged([photos], old, Deferred("colours", "files", encoder)) is None


def test_an_upgraded_catalogue_is_like_a_new_one(old, photos, index):
    run(photos, old)
    question = "SELECT name, sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name"
    tables = []
    for folder in (old, index):
        link = open_catalogue(folder)
        tables.append(link.execute(question).fetchall())
        link.close()
    assert tables[0] == tables[1]


def test_cells_that_no_index_has_are_told_without_checksums(old):
    raw(old, "UPDATE generations SET half = 9")
    assert "its vectors are kept in the unknown form 9" in told(old)
    away = "'../elsewhere'"
    raw(
        old,
        "PRAGMA foreign_keys = OFF",
        f"UPDATE models SET fingerprint = {away}",
        f"UPDATE generations SET model = {away}",
        f"UPDATE stored SET model = {away}",
    )
    [found] = inspect_index(old)
    assert "names a model '../elsewhere'" in found.what and found.run == REBUILD


def test_a_bank_of_another_shape_is_told_without_checksums(old, photos):
    np.save(old / PLACE / "bank.npy", np.zeros((4, 3)))
    with pytest.raises(WrongIndex, match=r"bank\.npy' cannot be read \(it holds float64"):
        run(photos, old)


def test_an_old_index_with_damage_is_told_or_rebuilt(old, photos):
    (old / PLACE / "vectors.0").write_bytes(b"")
    assert "--rebuild" in told(old)
    run(photos, old, rebuild=True)
    assert inspect_index(old) == []


# --- clocks, rights, places -----------------------------------------------------------------


def test_a_clock_set_back_does_not_bring_back_the_old_model(photos, index, monkeypatch):
    other = ColourEncoder("others")
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    index_folders([photos], index=index, encoder=other, rebuild=True)
    with Library.open(index) as library:
        assert library.manifest["model"] == "others"


@pytest.fixture
def read_only(index):
    """The index in a folder that this process may not write to, whoever it is."""
    if os.name == "nt":
        pytest.skip("rights of folders are another matter there")
    look_at_everything(index)  # so that nothing is left to import
    with unwritable(index) as place:
        yield place


@contextmanager
def unwritable(index):
    """A copy, without what SQLite keeps in the memory that processes share."""
    home = Path(tempfile.mkdtemp())
    shutil.copytree(index, home / "index", ignore=shutil.ignore_patterns("*-shm"))
    for path in [home, *home.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may write everywhere
    yield home / "index"
    if user == 0:
        os.seteuid(0)
    for path in [home, *home.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(home)


def test_a_read_only_index_is_searched(read_only, index):
    with pytest.raises(PermissionError):
        (read_only / "x").write_text("")
    assert look_at_everything(read_only) == look_at_everything_as_written(index)
    with Library.open(read_only) as library, pytest.raises(WrongIndex, match="cannot be used"):
        library.record({"text": "red"}, 1, True)


def test_a_log_that_cannot_be_read_is_told_rather_than_left_out(index):
    """Half a copy of an open index: what its last writer said is in the log alone."""
    with closing(open_catalogue(index)) as link:
        with changing(link):
            link.execute("UPDATE skipped SET why = 'of late'")
        assert (index / "catalogue.sqlite-wal").stat().st_size
        with unwritable(index) as place:
            assert "cannot be used (unable to open database file)" in told(place)


def look_at_everything_as_written(index):
    """The same index where it may be written; only root needs to become itself again."""
    user = os.geteuid()
    if os.getuid() == 0:
        os.seteuid(0)
    try:
        return look_at_everything(index)
    finally:
        os.seteuid(user)


def test_a_home_that_cannot_be_written_stops_nothing(photos, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.write_text("a file, not a folder")
    monkeypatch.setenv("AVOW_HOME", str(home / "avow"))
    assert run(photos, tmp_path / "index").new == 7
    look_at_everything(tmp_path / "index")


def test_a_damaged_cache_of_reference_queries_is_made_again(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("AVOW_HOME", str(tmp_path / "home"))
    run(photos, tmp_path / "one")
    [cached] = (tmp_path / "home" / "banks").iterdir()
    overwrite(cached, 200, b"\1\2\3\4")
    run(photos, tmp_path / "two")
    one, two = (tmp_path / name / PLACE / "bank.npy" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


# --- the command, and many damages ----------------------------------------------------------


def test_the_command_says_what_is_damaged(command, index, tmp_path):
    assert command("check", index) == (0, f"{index} is intact\n", "")
    assert command("check", "--index", index) == (0, f"{index} is intact\n", "")
    code, _, err = command("check", index, "--index", index)
    assert code == 2 and "give one folder" in err
    overwrite(index / PLACE / "vectors.0", 4, b"\1\2\3\4")
    (index / "folders.json").write_text("{}")
    code, out, _ = command("check", index)
    lines = out.splitlines()
    assert code == 1 and len(lines) == 3
    assert "vectors.0: The file" in lines[0] and "folders.json: " in lines[1]
    assert lines[2] == f"To repair it, run: {REBUILD}"
    code, out, _ = command("check", index, "--json")
    found = json.loads(out)
    assert (code, found["intact"], len(found["damage"])) == (1, False, 2)
    assert found["damage"][0]["run"] == REBUILD
    code, out, err = command("check", tmp_path / "nowhere")
    assert (code, out) == (1, "") and "There is no index" in err


def test_rows_without_checksums_get_those_of_their_blocks(tmp_path, monkeypatch):
    """Of a file that an older version wrote; the last block is a short one."""
    data = np.arange(30, dtype=np.float32).reshape(10, 3)
    rows = Rows(tmp_path / "vectors.1", 3)
    rows.path.write_bytes(data.tobytes())
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 4 * rows.row_bytes)
    parts = {0: data[:4], 1: data[4:8], 2: data[8:]}
    wanted = {block: (len(part), zlib.crc32(part.tobytes())) for block, part in parts.items()}
    assert row_blocks.of_whole_file(rows, 10) == wanted
    row_blocks.Blocks(rows, rows.read(10), wanted)
    for wrong in ({0: wanted[0], 1: wanted[1]}, wanted | {2: (1, wanted[2][1])}):
        with pytest.raises(WrongIndex):
            row_blocks.Blocks(rows, rows.read(10), wrong)


def test_rows_that_became_fewer_are_verified_anew(tmp_path):
    """As after a backup was put back under an open reader."""
    data = np.arange(30, dtype=np.float32).reshape(10, 3)
    rows = Rows(tmp_path / "vectors.0", 3)
    rows.path.write_bytes(data.tobytes())
    noted = {count: {0: (count, zlib.crc32(data[:count].tobytes()))} for count in (4, 10)}
    before = row_blocks.Blocks(rows, rows.read(10), noted[10])
    before.check()
    row_blocks.Blocks(rows, rows.read(4), noted[4], before).check()
    overwrite(rows.path, 0, b"\1\2\3\4")
    with pytest.raises(WrongIndex, match="is damaged in rows 0 to"):
        row_blocks.Blocks(rows, rows.read(4), noted[4], before).check()


def test_rows_that_the_file_does_not_have_are_told(tmp_path):
    rows = Rows(tmp_path / "vectors.0", 3)
    rows.path.write_bytes(bytes(3 * rows.row_bytes))
    with pytest.raises(WrongIndex, match=r"has 36 bytes\. Expected at least 48; it was"):
        rows.read(4)
    assert rows.read(3).shape == (3, 3)


def test_checksums_of_generations_to_keep_stay(tmp_path):
    link = sqlite3.connect(":memory:")
    link.execute("CREATE TABLE blocks (model TEXT, generation INTEGER)")
    kept = [("one", 1), ("one", 3), ("other", 2)]
    link.executemany("INSERT INTO blocks VALUES (?, ?)", [*kept, ("one", 2)])
    row_blocks.forget(link, "one", keep=[1, 3])
    left = "SELECT model, generation FROM blocks ORDER BY model, generation"
    assert link.execute(left).fetchall() == kept
    row_blocks.forget(link, "one")
    assert link.execute(left).fetchall() == [("other", 2)]
