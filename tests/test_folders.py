"""What a folder may do to its index: links, mounts, deep greys, endless texts and tags."""

import io
import json
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from encoders import ColourEncoder, picture
from PIL import Image
from typer.testing import CliRunner

from avow.api.pictures import Thumbnails, media_type, uploaded
from avow.api.refusals import Refusal
from avow.assembly.features import Extraction, extract
from avow.assembly.photographs import open_photograph
from avow.cli import app
from avow.core import formats, large_photographs, photographs
from avow.core.formats import Format
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.store.catalogue import changing, open_catalogue
from avow.retrieval.store.reading import (
    LARGEST_TEXT,
    LONGEST_TEXT,
    MOST_TAGS,
    Unreadable,
    load,
)
from avow.retrieval.store.walk import look


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    return tmp_path / "photos"


@pytest.fixture
def index(tmp_path):
    return tmp_path / "index"


def run(folders, index, **more):
    folders = folders if isinstance(folders, list) else [folders]
    return index_folders(folders, index=index, encoder=ColourEncoder(), **more)


def texts(index):
    with Library.open(index) as library:
        return {Path(i.path).name: i.text for i in library.items(library.find(kind="text"))}


def names(index):
    with Library.open(index) as library:
        return sorted(Path(item.path).name for item in library.items(library.find()))


def why(report):
    return {Path(path).name: reason for path, reason in report.skipped}


# --- pictures that were lost ------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_grey_of_sixteen_bits_is_indexed_and_shown(photos, index, suffix):
    """Two halves: the model sees which of them is bright, at any size."""
    for side in (40, 300):
        tones = np.zeros((side, side), np.uint16)
        tones[:, side // 2 :] = 50_000
        Image.fromarray(tones).save(photos / f"{side}.{suffix}")
        plain = Image.fromarray((tones // 257).astype(np.uint8))
        plain.save(photos / f"{side}-plain.png")
    report = run(photos, index)
    assert (report.new, report.skipped) == (4, [])
    with Library.open(index) as library:
        vectors = library.vectors(library.find())
    np.testing.assert_allclose(vectors @ vectors.T, np.ones((4, 4)), atol=1e-3)
    made = Thumbnails(10**6, 10**6).make(photos / f"300.{suffix}", "a", 128)
    shown = Image.open(io.BytesIO(made)).convert("L")
    assert shown.getpixel((20, 60)) < 10 and 180 < shown.getpixel((110, 60)) < 210


def test_heic_is_shown_and_searched_with_where_it_is_indexed(photos, index, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    path = photos / "phone.heic"
    heif.from_pillow(picture((250, 10, 20), (64, 48))).save(path)
    assert run(photos, index).new == 1
    made = Thumbnails(10**6, 10**6).make(path, "a", 64)
    assert Image.open(io.BytesIO(made)).size == (64, 48)
    assert uploaded(path.read_bytes(), 10**6).size == (64, 48)
    assert media_type(path) == "image/heif"
    assert open_photograph(path).size == (64, 48)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    for call in (
        lambda: Thumbnails(10**6, 10**6).make(path, "b", 64),
        lambda: uploaded(path.read_bytes(), 10**6),
        lambda: media_type(path),
    ):
        with pytest.raises(Refusal) as caught:
            call()
        assert caught.value.status_code == 415
        assert "HEIC needs the package pillow-heif (pip install 'avow[heic]')" in str(
            caught.value
        )


def test_what_is_indexed_has_a_thumbnail_whatever_its_size(photos, index, monkeypatch):
    """The limit is lowered; the way is that of pictures above 89 million pixels."""
    monkeypatch.setattr(photographs, "LARGEST", 20_000)
    monkeypatch.setattr(large_photographs, "EDGE", 100)
    for name in ("a.png", "b.jpg", "c.tif"):
        picture("red", (300, 200)).save(photos / name)
    picture("red", (300, 200)).save(photos / "d.webp")
    report = run(photos, index)
    assert report.new == 3
    assert why(report) == {
        "d.webp": "a WebP of 60000 pixels; this format cannot be read in part; 20000 at most"
    }
    with Library.open(index) as library:
        assert {(i.width, i.height) for i in library.items(library.find())} == {(300, 200)}
    shown = Thumbnails(10**6, 20_000)
    for name in ("a.png", "b.jpg", "c.tif"):
        small = Image.open(io.BytesIO(shown.make(photos / name, name, 64)))
        assert small.width == 75 and small.getpixel((5, 5))[0] > 240
    with pytest.raises(Refusal, match="cannot be read in part") as caught:
        shown.make(photos / "d.webp", "d", 64)
    assert caught.value.status_code == 413


def test_the_server_decodes_as_large_pictures_as_indexing():
    from avow.api.limits import Limits

    assert Limits().pixels == photographs.LARGEST


def test_another_format_is_one_row(photos, index, tmp_path, monkeypatch):
    """Scan, reading, thumbnails, files, uploads and features all follow the one table."""
    from test_features import Colours, dataset_of

    path = photos / "old.ppm"
    picture("green", (64, 48)).save(path)
    picture("red").save(photos / "red.png")
    assert run(photos, index).new == 1
    row = Format("PPM", "PPM", (".ppm",), "PIL.PpmImagePlugin")
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, row))
    assert run(photos, index).new == 1 and names(index) == ["old.ppm", "red.png"]
    made = Thumbnails(10**6, 10**6).make(path, "a", 64)
    assert Image.open(io.BytesIO(made)).size == (64, 48)
    assert media_type(path) == "image/x-portable-anymap"
    assert uploaded(path.read_bytes(), 10**6).size == (64, 48)
    assert open_photograph(path).size == (64, 48)
    store = extract(
        dataset_of([path]), Colours(), tmp_path / "out", Extraction(2), progress=False
    )
    assert len(store.split("train")) == 1 and store.skipped == []
    with pytest.raises(Refusal, match="BMP, HEIC or PPM file"):
        uploaded(b"nothing", 10**6)


# --- links ------------------------------------------------------------------------------


@pytest.fixture
def linked(photos, tmp_path):
    """Links of every kind that lead out of the folder, and one that stays in it."""
    away = tmp_path / "away"
    away.mkdir()
    (away / "secret.txt").write_text("the secret word")
    (away / "secret.csv").write_text("id,text\n1,the secret row\n")
    picture("blue").save(away / "secret.png")
    (photos / "notes.txt").symlink_to(away / "secret.txt")
    (photos / "rows.csv").symlink_to(away / "secret.csv")
    (photos / "view.png").symlink_to(away / "secret.png")
    (photos / "folder").symlink_to(away)
    (photos / "program").symlink_to(sys.executable)
    (photos / ".kept").mkdir()
    picture("green").save(photos / ".kept" / "green.png")
    (photos / "inner.png").symlink_to(photos / ".kept" / "green.png")
    (photos / "own.txt").write_text("a red house")
    return photos


def test_nothing_behind_a_link_out_of_the_folder_is_indexed(linked, index, tmp_path):
    report = run(linked, index)
    out = "a link that leads out of the indexed folders; index what it leads to itself"
    assert why(report) == dict.fromkeys(["notes.txt", "rows.csv", "view.png", "folder"], out)
    assert texts(index) == {"own.txt": "a red house"} and names(index) == ["inner.png"]
    report = run([linked, tmp_path / "away"], index)
    assert "the secret word" in texts(index).values(), "what is chosen itself is indexed"


def test_a_link_to_a_hidden_folder_shows_what_is_in_it(linked, index):
    (linked / "album").symlink_to(linked / ".kept")
    (linked / "inner.png").unlink()
    run(linked, index)
    with Library.open(index) as library:
        [item] = library.items(library.find())
    assert item.path == str(linked / "album" / "green.png")


def test_a_file_that_becomes_a_link_out_is_forgotten(linked, index, tmp_path):
    run(linked, index)
    (tmp_path / "away" / "new.txt").write_text("another secret")
    (linked / "own.txt").unlink()
    (linked / "own.txt").symlink_to(tmp_path / "away" / "new.txt")
    assert texts(index) == {"own.txt": None}, "not even what was there before is shown"
    assert run(linked, index).deleted == 1
    assert texts(index) == {}


def test_a_text_behind_a_link_is_not_shown_by_an_older_index(linked, index):
    """As such links were followed once, their texts may be in an index."""
    run(linked, index)
    with closing(open_catalogue(index)) as link, changing(link):
        link.execute("UPDATE files SET path = replace(path, 'own.txt', 'notes.txt')")
    assert texts(index) == {"notes.txt": None}
    run(linked, index)
    assert texts(index) == {"own.txt": "a red house"}


# --- texts and tags ----------------------------------------------------------------------


def test_texts_and_tags_of_one_item_are_bounded(photos, index):
    (photos / "long.txt").write_text("red " * 100_000)
    row = {
        "text": "blue " * 4_000_000,
        "id": "x" * 5000,
        "tags": [f"t{n}" for n in range(10**5)],
    }
    (photos / "rows.jsonl").write_text(
        json.dumps(row) + "\n" + json.dumps({"text": "sea", "tags": ["y" * 201, "z" * 200]})
    )
    exif = Image.Exif()
    exif[0x9C9E] = ";".join(f"tag {n}" for n in range(10**5)).encode("utf-16-le")
    picture("green").save(photos / "tagged.webp", exif=exif)
    assert run(photos, index).skipped == []
    with Library.open(index) as library:
        one, *rows = sorted(library.items(library.find(kind="text")), key=lambda i: i.path)
        [tagged] = library.items(library.find())
    assert len(one.text) == LONGEST_TEXT - 1 and one.text.endswith("red")
    assert [len(item.text) for item in rows] == [LONGEST_TEXT - 1, 3]
    assert [item.part for item in rows] == ["1", "2"]
    assert [item.tags_total for item in rows] == [MOST_TAGS, 1]
    assert rows[1].tags == ("z" * 200,)
    assert tagged.tags_total == MOST_TAGS and "tag 0" in tagged.tags


def test_texts_that_are_none_are_skipped(photos, index):
    (photos / "large.txt").write_text("x" * (LARGEST_TEXT + 1))
    (photos / "blank.txt").write_text(" \n\t\n")
    (photos / "rows.jsonl").write_text('[1]\n"red"\n{"text": "a red boat"}\n')
    assert why(run(photos, index)) == {
        "large.txt": f"a text of {LARGEST_TEXT + 1} bytes; {LARGEST_TEXT} at most",
        "blank.txt": "holds no text",
    }
    assert texts(index) == {"rows.jsonl": "a red boat"}


def test_a_file_that_was_replaced_since_it_was_listed_is_read_next_time(photos):
    picture("red").save(photos / "red.png")
    listed = look(str(photos / "red.png"))
    assert listed is not None
    picture("blue").save(photos / "blue.png")
    (photos / "blue.png").replace(photos / "red.png")
    with pytest.raises(Unreadable, match="replaced while it was being read") as caught:
        load(listed, ColourEncoder().prepare, ())
    assert caught.value.again


# --- a folder that is not mounted -------------------------------------------------------


@pytest.fixture
def many(photos):
    for number in range(24):
        picture((10 * number, 99, 7)).save(photos / f"{number:02}.png")
    return photos


def test_an_empty_mount_point_deletes_nothing(many, index, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    picture("red").save(other / "red.png")
    run([many, other], index)
    many.rename(tmp_path / "unplugged")
    many.mkdir()
    picture("blue").save(many / "new.png")
    (other / "red.png").unlink()
    report = run([many, other], index)
    assert (report.new, report.deleted) == (1, 1), "new files and small losses as ever"
    [absent] = report.absent
    assert (absent.folder, absent.files, absent.known) == (str(many), 24, 24)
    assert str(absent) == (
        f"Nothing was deleted of {str(many)!r}: 24 of 24 files are not there. Mount its disk; "
        "or, if they are meant to go, run `avow index --prune` with this folder."
    )
    assert report.to_dict()["absent"] == [{"folder": str(many), "files": 24, "known": 24}]
    assert len(names(index)) == 25
    (many / "new.png").unlink()
    many.rmdir()
    (tmp_path / "unplugged").rename(many)
    report = run([many, other], index)
    assert (report.unchanged, report.new, report.deleted, report.absent) == (24, 0, 1, [])


def test_pruning_is_asked_for(many, index):
    run(many, index)
    for path in sorted(many.iterdir())[:13]:
        path.unlink()
    assert run(many, index).deleted == 0 and len(names(index)) == 24
    report = run(many, index, prune=True)
    assert (report.deleted, report.absent) == (13, []) and len(names(index)) == 11


def test_half_of_a_folder_or_a_handful_may_go(many, index):
    run(many, index)
    for path in sorted(many.iterdir())[:12]:
        path.unlink()
    assert run(many, index).deleted == 12
    for path in sorted(many.iterdir())[:10]:
        path.unlink()
    assert run(many, index).deleted == 10


def test_files_that_moved_are_not_missing(many, index):
    run(many, index)
    (many / "sub").mkdir()
    for path in many.glob("*.png"):
        path.rename(many / "sub" / path.name)
    report = run(many, index)
    assert (report.moved, report.deleted, report.absent) == (24, 0, [])


def test_the_command_says_that_it_deleted_nothing(many, index, monkeypatch):
    from avow.retrieval.encoders import lazy

    monkeypatch.setattr(lazy, "outside", lambda _: ColourEncoder())
    words = ["index", str(many), "--index", str(index), "--model", "some.colours"]
    assert CliRunner().invoke(app, words).exit_code == 0
    for path in many.iterdir():
        path.unlink()
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3 and "Nothing was deleted of" in done.stderr
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 3 and json.loads(done.stdout)["absent"][0]["files"] == 24
    done = CliRunner().invoke(app, [*words, "--prune"])
    assert done.exit_code == 0 and done.stdout.startswith("24 deleted")


def test_the_command_says_that_nothing_could_be_read(tmp_path, index, monkeypatch):
    """A script can tell it, now and again; one good picture is enough to go on."""
    from avow.retrieval.encoders import lazy

    monkeypatch.setattr(lazy, "outside", lambda _: ColourEncoder())
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in ("one.jpg", "two.png"):
        (photos / name).write_bytes(b"no picture")
    words = ["index", str(photos), "--index", str(index), "--model", "some.colours"]
    for options in ([], ["--json"]):
        done = CliRunner().invoke(app, [*words, *options])
        assert done.exit_code == 1
        assert done.stderr.splitlines()[-1] == (
            "avow: Nothing was indexed: none of the files can be read. Expected at least one "
            "picture, video or text that is whole; see above why each was skipped."
        )
    assert len(json.loads(done.stdout)["skipped"]) == 2
    picture((200, 0, 0)).save(photos / "good.png")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and done.stdout.startswith("1 new, 2 skipped")
    assert CliRunner().invoke(app, words).exit_code == 0
