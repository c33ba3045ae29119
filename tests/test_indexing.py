"""Folders to an index: what is new, changed, moved or gone, and what must never happen."""

import errno
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import forked_commands
import numpy as np
import pytest
from encoders import COLOURS, ColourEncoder, picture
from PIL import ExifTags, Image
from serving import wait_until

from avow.core.errors import (
    AvowError,
    BadData,
    BadFeatures,
    BadQuery,
    NoRoom,
    UnknownName,
    WrongIndex,
)
from avow.retrieval.encoders.lazy import Deferred, files_of, unchanged
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.store.catalogue import changing, open_catalogue, sentences
from avow.retrieval.store.inspection import inspect_index
from avow.retrieval.store.lock import only_writer
from avow.retrieval.store.rows import Rows
from avow.retrieval.where import Where
from benchmarks.quality import index_kills

ROOT = Path(__file__).parent.parent


@pytest.fixture
def photos(tmp_path):
    place = tmp_path / "photos"
    place.mkdir()
    for number, name in enumerate(COLOURS):
        picture(name).save(
            place / f"{name}.{('png', 'jpg', 'webp', 'bmp', 'gif', 'tiff')[number]}"
        )
    return place


@pytest.fixture
def index(tmp_path):
    return tmp_path / "index"


def run(place, index, encoder=None, **more):
    folders = place if isinstance(place, list) else [place]
    return index_folders(folders, index=index, encoder=encoder or ColourEncoder(), **more)


def names(library, kind="image", where=None):
    chosen = Where.parse(where) if where else None
    return sorted(Path(item.path).name for item in library.items(library.find(chosen, kind)))


def first(library, text, encoder=None):
    queries = (encoder or ColourEncoder()).encode_texts([text])
    return library.items(library.search(queries, 1, library.find())[0][0])[0]


def skipped(library):
    return {Path(one.path).name: one.why for one in library.skipped()}


def check_whole(index):
    """Every live item has exactly one row of its own, and the rows are all there."""
    with Library.open(index) as library:
        state = library._state
        assert len(state.live_ids) == len(set(state.live_ids.tolist()))
        places = [(item.path, item.part) for item in library.items(state.live_ids)]
        assert len(places) == len(set(places))
        assert np.isfinite(library.vectors(state.live_ids)).all()
    assert inspect_index(index) == [], "all checksums fit"
    return set(places)


# --- what a run finds ---------------------------------------------------------------


def test_every_format_is_found_by_its_colour(photos, index):
    report = run(photos, index)
    assert (report.new, report.skipped, report.deleted) == (6, [], 0)
    with Library.open(index, ColourEncoder()) as library:
        assert len(library) == 6
        for name in COLOURS:
            assert Path(first(library, name).path).stem == name


def test_only_what_changed_is_encoded_again(photos, index):
    encoder = ColourEncoder()
    run(photos, index, encoder)
    assert encoder.photographs == 6
    report = run(photos, index, encoder)
    assert (report.unchanged, report.new, encoder.photographs) == (6, 0, 6)
    with Library.open(index) as library:
        before = {Path(item.path).stem: item.id for item in library.items(library.find())}
    (photos / "sub").mkdir()
    (photos / "green.jpg").rename(photos / "sub" / "meadow.jpg")
    (photos / "blue.webp").unlink()
    picture("red").save(photos / "yellow.bmp")
    picture((9, 9, 200)).save(photos / "sea.png")
    os.utime(photos / "white.gif", (1e9, 1e9))
    report = run(photos, index, encoder)
    told = (report.new, report.changed, report.moved, report.deleted, report.unchanged)
    assert told == (1, 1, 1, 1, 3)
    assert encoder.photographs == 8
    with Library.open(index) as library:
        after = {Path(item.path).stem: item.id for item in library.items(library.find())}
        assert sorted(after) == ["black", "meadow", "red", "sea", "white", "yellow"]
        assert after["meadow"] == before["green"], "a file that moves keeps its number"
        assert after["yellow"] != before["yellow"], "another content is another item"
        assert first(library, "green").path.endswith("sub/meadow.jpg")
        assert {item.same_as for item in library.items(library.find())} == {None}


def test_files_that_change_places_keep_their_vectors(photos, index):
    encoder = ColourEncoder()
    run(photos, index, encoder)
    for old, new in [("red.png", "x"), ("black.tiff", "red.png"), ("x", "black.tiff")]:
        (photos / old).rename(photos / new)
    run(photos, index, encoder, batch=1)
    assert encoder.photographs == 6, "both contents were known"
    with Library.open(index) as library:
        assert first(library, "red").path.endswith("black.tiff")
        assert first(library, "black").path.endswith("red.png")


def test_a_copy_is_an_item_of_its_own_and_not_encoded(photos, index):
    encoder = ColourEncoder()
    run(photos, index, encoder)
    (photos / "again.png").write_bytes((photos / "red.png").read_bytes())
    assert run(photos, index, encoder).new == 1
    assert encoder.photographs == 6
    with Library.open(index) as library:
        pair = library.find(Where.parse("name=red.png or name=again.png"))
        one, other = library.vectors(pair)
        np.testing.assert_array_equal(one, other)
        assert library.items(pair)[0].width == library.items(pair)[1].width == 40


def test_one_folder_after_the_other(photos, index, tmp_path):
    second = tmp_path / "second"
    second.mkdir()
    picture((1, 2, 3)).save(second / "night.png")
    run(photos, index)
    assert run(second, index).deleted == 0
    assert len(check_whole(index)) == 7
    report = run([photos, photos / "..", photos], index)
    assert (report.unchanged, report.new) == (7, 0), "folders inside others count once"


def test_upright_size_and_date_come_from_the_camera(index, tmp_path):
    place = tmp_path / "photos"
    place.mkdir()
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2021:07:04 10:11:12"
    exif[0x9C9E] = "sea; Beach;sea".encode("utf-16-le")
    sideways = Image.new("RGB", (40, 20), "red")
    sideways.paste("blue", (20, 0, 40, 20))
    sideways.save(place / "turned.jpg", exif=exif, quality=95)
    upright = sideways.transpose(Image.Transpose.ROTATE_270)
    upright.save(place / "upright.png")
    run(place, index)
    with Library.open(index) as library:
        turned, plain = library.items(library.find())
        assert (turned.width, turned.height) == (plain.width, plain.height) == (20, 40)
        assert turned.taken == "2021-07-04T10:11:12" and plain.taken is None
        assert turned.tags == ("Beach", "sea")
        one, other = library.vectors([turned.id, plain.id])
        assert one @ other > 0.99
        assert names(library, where="taken=2021 and tag=sea") == ["turned.jpg"]


def test_date_and_place_are_the_camera_s_or_unknown(index, tmp_path):
    """When software saved a picture, when its file changed, and zeros are neither."""
    place = tmp_path / "photos"
    place.mkdir()
    at = ExifTags.GPS
    for name, degrees, sides in (
        ("sydney", (33.0, 52.0, 7.68), "SE"),
        ("zeros", (0.0, 0.0, 0.0), "NE"),
        ("nowhere", None, ""),
    ):
        exif = Image.Exif()
        exif[ExifTags.Base.DateTime] = "2020:01:02 03:04:05"
        if degrees is not None:
            gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
            gps |= {at.GPSLatitude: degrees, at.GPSLatitudeRef: sides[0]}
            gps |= {at.GPSLongitude: degrees, at.GPSLongitudeRef: sides[1]}
        picture((len(name), 20, 30), (32, 32)).save(place / f"{name}.jpg", exif=exif)
    os.utime(place / "sydney.jpg", (1e9, 1e9))
    run(place, index)
    with Library.open(index) as library:
        known = {Path(item.path).stem: item for item in library.items(library.find())}
        assert [known["sydney"].latitude, known["sydney"].longitude] == [-33.8688, 33.8688]
        assert known["zeros"].latitude is None and known["nowhere"].longitude is None
        assert known["sydney"].tags == () and known["sydney"].tags_total == 0
        assert names(library, where="latitude<-30 and longitude>30") == ["sydney.jpg"]
        assert names(library, where="modified=2001-09") == ["sydney.jpg"]
        assert len(names(library, where="taken=unknown")) == 3
        assert names(library, where="taken>=1900 or taken<1900") == []
        assert names(library, where="latitude=unknown and name~zeros") == ["zeros.jpg"]


# --- texts ---------------------------------------------------------------------------


def test_heic_is_read_where_its_package_is_installed(photos, index, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    heif.from_pillow(picture((250, 10, 20), (64, 64))).save(photos / "phone.HEIC")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pillow_heif", None)
        for _ in range(2):
            [(path, why)] = run(photos, index).skipped
            assert path.endswith("phone.HEIC") and "pip install 'avow[heic]'" in why
    report = run(photos, index)
    assert (report.new, report.unchanged, report.skipped) == (1, 6, [])
    with Library.open(index) as library:
        item = library.items(library.find(Where.parse("name=phone.HEIC")))[0]
        assert (item.width, item.height) == (64, 64)


def test_texts_and_tables_make_a_gallery_of_texts(index, tmp_path):
    place = tmp_path / "texts"
    place.mkdir()
    (place / "one.txt").write_text("\ufeffa red house\n", "utf-8")
    (place / "many.csv").write_text(
        'id,Caption,tags\na,"blue, deep sea",water;wide\nb,green grass,\nb,yellow sun,\n,,\n'
    )
    (place / "lines.jsonl").write_text(
        '{"text": "white snow", "tags": ["cold"]}\n\n{"caption": "black night", "id": 7}\n'
    )
    (place / "empty.csv").write_text("a,b\n1,2\n")
    (place / "broken.jsonl").write_text('{"text": ')
    (place / "half.jsonl").write_text('{"text": "half a \\ud83d character"}')
    (place / "part.jsonl").write_text('{"text": "a", "id": "\\ud83d"}')
    (place / "deep.jsonl").write_text('{"text": ' + "[" * 100_000)
    (place / "photo.txt").write_bytes(b"\xff\xd8\xff\xe0 not a text")
    report = run(place, index)
    assert report.new == 3
    with Library.open(index) as library:
        texts = {
            (Path(i.path).name, i.part): i for i in library.items(library.find(kind="text"))
        }
        assert {key: item.text for key, item in texts.items()} == {
            ("one.txt", ""): "a red house",
            ("many.csv", "a"): "blue, deep sea",
            ("many.csv", "b"): "green grass",
            ("many.csv", "b#3"): "yellow sun",
            ("lines.jsonl", "1"): "white snow",
            ("lines.jsonl", "7"): "black night",
        }
        assert texts["many.csv", "a"].tags == ("water", "wide")
        assert sorted(skipped(library)) == [
            *("broken.jsonl", "deep.jsonl", "empty.csv"),
            *("half.jsonl", "part.jsonl", "photo.txt"),
        ]
        assert not len(library.find()) and library.usual(library.find(kind="text")) is None


def test_a_table_keeps_the_items_that_did_not_change(index, tmp_path):
    table = tmp_path / "captions.csv"
    rows = [f"{number},red thing {number}" for number in range(300)]
    table.write_text("\n".join(["id,text", *rows]))
    run(table, index, batch=16)
    with Library.open(index) as library:
        before = {i.part: i.id for i in library.items(library.find(kind="text"))}
    rows[5] = "5,blue thing"
    table.write_text("\n".join(["id,text", *rows[:250]]))
    report = run(table, index, batch=16)
    assert (report.changed, report.new) == (1, 0)
    with Library.open(index) as library:
        after = {i.part: i.id for i in library.items(library.find(kind="text"))}
    assert len(after) == 250
    assert [part for part in after if after[part] != before[part]] == ["5"]


# --- files that mean harm ---------------------------------------------------------------


def bomb(path, side=60_000):
    """A small PNG that claims to be enormous."""
    import struct
    import zlib

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 1000)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", data)
        + chunk(b"IEND", b"")
    )


@pytest.fixture
def hostile(photos):
    """Good pictures among everything that may lie in somebody's folder."""
    whole = (photos / "green.jpg").read_bytes()
    (photos / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (photos / "zero.png").write_bytes(b"")
    (photos / "text.jpg").write_text("this is no picture")
    (photos / "page.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n")
    (photos / "random.webp").write_bytes(np.random.default_rng(0).bytes(5000))
    picture("red").save(photos / "renamed.bmp", format="PNG")
    bomb(photos / "bomb.png")
    bomb(photos / "small_bomb.png", 9_800)
    with (photos / "hole.jpg").open("wb") as stream:
        stream.truncate(3 * 2**30)
    os.mkfifo(photos / "pipe.jpg")
    (photos / "loop").symlink_to(photos)
    (photos / "self.jpg").symlink_to(photos / "self.jpg")
    (photos / "nowhere.jpg").symlink_to(photos / "not there")
    (photos / "nowhere").symlink_to(photos / "not there")
    (photos / "device.png").symlink_to("/dev/zero")
    (photos / "double.jpg").symlink_to(photos / "green.jpg")
    (photos / "folder.jpg").mkdir()
    (photos / ".hidden.jpg").write_bytes(whole)
    picture("blue").save(photos / "new\nline '\"; DROP TABLE items.png")
    picture("blue").save(photos / "ümläut 漢字 🐕.png")
    picture("blue").save(photos / ("n" * 250 + ".png"))
    with open(os.fsencode(photos) + b"/\xff\xfe.jpg", "wb") as stream:
        stream.write(whole)
    with socket.socket(socket.AF_UNIX) as plug:
        here = os.getcwd()
        os.chdir(photos)
        try:
            plug.bind("socket.jpg")
        finally:
            os.chdir(here)
    return photos


def test_hostile_files_are_listed_and_nothing_else_happens(hostile, index):
    report = run(hostile, index, workers=3)
    assert report.new == 6 + 4
    with Library.open(index) as library:
        told = skipped(library)
        assert len(report.skipped) == len(told)
        assert len(library) == 10
    broken = {"cut.jpg", "zero.png", "text.jpg", "page.png", "random.webp", "hole.jpg"}
    traps = {"bomb.png", "small_bomb.png", "pipe.jpg", "device.png", "socket.jpg"}
    links = {"loop", "self.jpg", "nowhere.jpg", "double.jpg"}
    assert set(told) == broken | traps | links | {"\\udcff\\udcfe.jpg"}
    assert told["zero.png"] == "empty: zero bytes"
    assert told["bomb.png"] == "a PNG of 3600000000 pixels; 1000000000 at most"
    assert told["small_bomb.png"] == "cannot be decoded (the file ends in row 0)"
    assert "bytes" in told["hole.jpg"]
    assert told["pipe.jpg"] == told["device.png"] == told["socket.jpg"] == "not a regular file"
    again = run(hostile, index)
    assert (again.new, again.unchanged, len(again.skipped)) == (0, 10, len(told))


def test_what_is_mended_leaves_the_list(hostile, index):
    run(hostile, index)
    picture("white").save(hostile / "cut.jpg")
    (hostile / "zero.png").unlink()
    (hostile / "loop").unlink()
    (hostile / "green.jpg").write_bytes(b"broken now")
    report = run(hostile, index)
    assert (report.new, report.deleted) == (1, 0)
    with Library.open(index) as library:
        told = skipped(library)
        assert not {"cut.jpg", "zero.png", "loop"} & set(told)
        assert "green.jpg" in told and "green.jpg" not in names(library)
        assert "cut.jpg" in names(library)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read_loses_nothing(photos, index):
    inner = photos / "inner"
    inner.mkdir()
    picture((5, 5, 5)).save(inner / "kept.png")
    run(photos, index)
    inner.chmod(0)
    try:
        report = run(photos, index)
    finally:
        inner.chmod(0o700)
    assert report.deleted == 0 and len(report.skipped) == 1
    with Library.open(index) as library:
        assert "kept.png" in names(library)


def test_a_folder_that_cannot_be_listed_loses_nothing(photos, index, monkeypatch):
    inner = photos / "inner"
    inner.mkdir()
    picture((5, 5, 5)).save(inner / "kept.png")
    run(photos, index)
    real = os.scandir

    def scandir(path):
        if str(path) == str(inner):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = run(photos, index)
    assert (report.deleted, report.unchanged, len(report.skipped)) == (0, 6, 1)
    with Library.open(index) as library:
        assert "kept.png" in names(library)


def test_nothing_there_is_a_sentence(index, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadData, match=r"There is nothing to index in .*empty"):
        run(tmp_path / "empty", index)
    for name in ("elsewhere", "else\0where"):
        with pytest.raises(BadData, match=r"There is no folder .*where"):
            run(tmp_path / name, tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(BadData, match="cannot be made"):
        run(tmp_path / "empty", tmp_path / "file" / "index")
    with pytest.raises(WrongIndex, match="There is no index"):
        Library.open(tmp_path / "none")


def test_the_index_does_not_index_itself(photos):
    (photos / "index").mkdir()
    picture("red").save(photos / "index" / "red.png")
    assert run(photos, photos / "index").new == 6


# --- models -----------------------------------------------------------------------------


def test_another_model_is_refused_until_it_is_asked_to_rebuild(photos, index):
    run(photos, index)
    other = ColourEncoder("others", dim=16)
    for refused in (lambda: run(photos, index, other), lambda: Library.open(index, other)):
        with pytest.raises(WrongIndex) as caught:
            refused()
        assert "made with the model 'colours', not with 'others'" in str(caught.value)
        assert "avow index --rebuild" in str(caught.value)
    assert run(photos, index, other, rebuild=True).new == 6
    with Library.open(index) as newest, Library.open(index, ColourEncoder()) as older:
        assert newest.manifest["model"] == "others" and newest.dim == 16
        assert older.manifest["model"] == "colours" and len(older) == len(newest) == 6
        assert first(older, "red").path == first(newest, "red", other).path
    (photos / "red.png").unlink()
    run(photos, index, ColourEncoder())
    with Library.open(index) as newest, Library.open(index, other) as older:
        assert newest.manifest["model"] == "colours", "the model last used"
        assert len(newest) == len(older) == 5, "what is gone is gone for both"


def test_a_rebuild_of_one_folder_keeps_the_others(photos, index, tmp_path):
    second, other = tmp_path / "second", ColourEncoder("others", dim=16)
    second.mkdir()
    picture((1, 2, 3)).save(second / "night.png")
    run(photos, index)
    run(second, index)
    run(second, index, rebuild=True)
    assert len(check_whole(index)) == 7
    assert run(second, index, other, rebuild=True).new == 7
    assert len(check_whole(index)) == 7


def test_other_weights_of_the_same_model_replace_the_old_ones(photos, index):
    run(photos, index)
    other = ColourEncoder("colours", dim=16)
    with pytest.raises(WrongIndex, match="'colours' with other weights"):
        run(photos, index, other)
    run(photos, index, other, rebuild=True)
    assert os.listdir(index / "models") == [other.fingerprint]
    with pytest.raises(WrongIndex):
        Library.open(index, ColourEncoder())


def test_a_file_of_the_system_among_the_models_is_no_trouble(photos, index):
    run(photos, index)
    (index / "models" / ".DS_Store").write_bytes(b"where icons lie")
    other = ColourEncoder("colours", dim=16)
    assert run(photos, index, other, rebuild=True).new == 6
    assert set(os.listdir(index / "models")) <= {other.fingerprint, ".DS_Store"}


def test_a_rebuild_is_seen_only_when_it_is_done(photos, index):
    encoder = ColourEncoder()
    run(photos, index, encoder)
    library = Library.open(index)
    seen = []

    def watch(progress):
        seen.append(progress.done)
        assert not library.refresh() or len(library) == 6
        assert library.manifest["half"] is False

    report = run(photos, index, encoder, rebuild=True, half=True, batch=2, progress=watch)
    assert report.new == 6 and encoder.photographs == 12 and seen == list(range(7))
    assert library.refresh() and library.manifest["half"] is True
    assert first(library, "yellow").path.endswith("yellow.bmp")
    files = os.listdir(index / "models" / encoder.fingerprint)
    assert sorted(files) == ["manifest.json", "vectors.1"]
    assert (index / "models" / encoder.fingerprint / "vectors.1").stat().st_size == 6 * 32 * 2
    library.close()


def test_a_rebuild_that_was_stopped_goes_on_or_is_given_up(photos, index):
    encoder = ColourEncoder()
    run(photos, index, encoder)
    stops = iter([False, False, True])
    stopped = run(photos, index, encoder, rebuild=True, batch=1, stop=lambda: next(stops))
    assert stopped.stopped and encoder.photographs == 9
    assert len(check_whole(index)) == 6
    assert not run(photos, index, encoder, rebuild=True).stopped
    assert encoder.photographs == 12, "three were done already"
    stops = iter([True])
    run(photos, index, encoder, rebuild=True, batch=1, stop=lambda: next(stops))
    assert run(photos, index, encoder).unchanged == 6
    assert len(check_whole(index)) == 6
    files = os.listdir(index / "models" / encoder.fingerprint)
    assert [name for name in files if name.startswith("vectors")] == ["vectors.1"]


def test_a_rebuild_that_was_stopped_is_begun_anew_in_another_form(photos, index):
    encoder = ColourEncoder()
    run(photos, index, encoder)
    stops = iter([False, False, True])
    run(photos, index, encoder, rebuild=True, batch=1, stop=lambda: next(stops))
    run(photos, index, encoder, rebuild=True, half=True)
    assert encoder.photographs == 6 + 3 + 6, "of three vectors none can be used"
    with Library.open(index) as library:
        assert library.manifest["vectors"] == "float16"
    assert len(check_whole(index)) == 6


def test_a_rebuild_keeps_the_engine_unless_another_is_asked_for(photos, index):
    run(photos, index, engine="faiss", half=True)
    run(photos, index, rebuild=True)
    with Library.open(index) as library:
        assert (library.manifest["engine"], library.manifest["vectors"]) == ("faiss", "float16")
    run(photos, index, rebuild=True, engine="exact")
    with Library.open(index) as library:
        assert library.manifest["engine"] == "exact"


def test_a_lost_catalogue_takes_rows_along_and_leaves_what_was_fitted(photos, index):
    run(photos, index)
    place = index / "models" / ColourEncoder().fingerprint
    (place / "trust-text.json").write_text("{}")
    (place / "engines" / "faiss").mkdir(parents=True)
    (index / "catalogue.sqlite").unlink()
    assert run(photos, index).new == 6
    assert sorted(os.listdir(place)) == ["manifest.json", "trust-text.json", "vectors.0"]


def test_a_rebuild_removes_engines_that_nobody_knows(photos, index):
    run(photos, index)
    strange = index / "models" / ColourEncoder().fingerprint / "engines" / "mine.engine"
    strange.mkdir(parents=True)
    (strange / "rows").write_bytes(b"x")
    run(photos, index, rebuild=True)
    assert not strange.exists()


def test_a_model_that_gives_no_numbers_is_told(photos, index):
    class Broken(ColourEncoder):
        def encode_prepared(self, pixels):
            return super().encode_prepared(pixels) * np.float32(np.nan)

    with pytest.raises(BadFeatures) as told:
        run(photos, index, Broken())
    assert str(told.value) == (
        "The model 'colours' gave NaN or infinite numbers. Expected finite vectors; its "
        "weights are damaged."
    )


def test_precision_changes_only_with_a_rebuild(photos, index):
    run(photos, index, half=True)
    assert run(photos, index).unchanged == 6
    with pytest.raises(WrongIndex, match=r"as float16.*--rebuild"):
        run(photos, index, half=False)


def test_an_unknown_engine_is_told_at_once(photos, index):
    with pytest.raises(UnknownName, match="Did you mean 'faiss'"):
        run(photos, index, engine="fais")
    assert not index.exists()


def test_a_batch_of_nothing_is_told_at_once(photos, index):
    with pytest.raises(BadData, match=r"The batch is 0\. Expected at least one item at once"):
        run(photos, index, batch=0)
    assert not index.exists()


@pytest.mark.parametrize("ocr", [None, False])
def test_a_damaged_note_of_the_folders_is_told_and_written_anew(photos, index, ocr):
    """Whatever is asked of it first: whether text is read, or the frame rate of videos."""
    run(photos, index)
    (index / "folders.json").write_text("{")
    with pytest.raises(WrongIndex, match=r"folders\.json"):
        run(photos, index, ocr=ocr)
    assert run(photos, index, ocr=ocr, rebuild=True).new == 6
    with Library.open(index) as library:
        assert library.folders() == [str(photos)]


def test_what_is_usual_comes_from_the_models_bank(photos, index):
    from avow.core.background import Background

    bank = [f"{one} {other}" for one in COLOURS for other in COLOURS]
    encoder = ColourEncoder(bank=bank)
    run(photos, index, encoder, batch=4)
    with Library.open(index) as library:
        ids = library.find()[::-1].copy()
        vectors = library.vectors(ids).reshape(6, 2, 16)
        asked = encoder.encode_texts(bank).reshape(36, 2, 16)
        scores = 2 * np.einsum("bvd,nvd->vbn", asked, vectors)
        wanted, found = Background.from_scores([scores], 0.05, 8), library.usual(ids)
    assert found is not None and found.queries == 36
    for name in ("log_mean", "mean", "spread", "top"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(wanted, name), rtol=1e-5, atol=1e-5
        )


# --- engines ------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["exact", "faiss"])
def test_an_engine_finds_what_the_rows_hold(photos, index, engine):
    if engine == "faiss":
        pytest.importorskip("faiss")
    run(photos, index, engine=engine)
    with Library.open(index) as library:
        assert library.manifest["engine"] == engine
        (photos / "red.png").unlink()
        picture((200, 0, 30)).save(photos / "cherry.png")
        seen = []

        def look(_):
            library.refresh()
            seen.append(Path(first(library, "red").path).name)

        run(photos, index, batch=1, progress=look)
        library.refresh()
        assert Path(first(library, "red").path).name == "cherry.png"
        queries = ColourEncoder().encode_texts(list(COLOURS))
        ids, scores = library.search(queries, 4)
        every = library.find()
        plain = library.vectors(every) @ queries.T
        wanted = every[np.argsort(-plain.T, axis=1)[:, :4]]
        assert ids.tolist() == wanted.tolist()
        np.testing.assert_allclose(scores, -np.sort(-plain.T, axis=1)[:, :4], atol=1e-6)
        among = every[:3]
        assert set(library.search(queries, 9, among)[0].ravel()) == set(among)
    check_whole(index)


def test_a_reader_whose_model_was_replaced_is_told(photos, index):
    """The same name with other weights: the vectors it was opened for are gone."""
    run(photos, index)
    with Library.open(index) as library:
        run(photos, index, encoder=ColourEncoder(dim=16), rebuild=True)
        for asked in (library.refresh, library.check_reachable):
            with pytest.raises(WrongIndex, match="made anew with another model while it was"):
                asked()


def test_a_reader_whose_rows_are_replaced_while_it_reads_asks_again(photos, index, monkeypatch):
    run(photos, index)
    read, waiting = Rows.read, [lambda: run(photos, index, rebuild=True, half=True)]

    def late(rows, count):
        while waiting:  # the reader has been told which file, and has not opened it
            waiting.pop()()
        return read(rows, count)

    monkeypatch.setattr(Rows, "read", late)
    with Library.open(index) as library:
        assert library.manifest["vectors"] == "float16" and len(library) == 6


# --- near-duplicates -----------------------------------------------------------------------


def scene(seed, size=(320, 240)):
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 255, (6, 8, 3), np.uint8))
    return small.resize(size, Image.Resampling.BICUBIC)


def test_near_duplicates_have_one_head(index, tmp_path):
    place = tmp_path / "photos"
    place.mkdir()
    for seed in range(12):
        scene(seed).save(place / f"{seed:02}.png")
    scene(3).save(place / "z3.jpg", quality=40)
    scene(3).resize((100, 75)).save(place / "y3.webp")
    scene(4).point(lambda tone: min(255, tone + 6)).save(place / "z4.png")
    picture("red").save(place / "flat_red.png")
    picture("blue").save(place / "flat_blue.png")
    assert run(place, index).alike == 0
    report = run(place, index, dedupe=True)
    assert report.alike == 3
    with Library.open(index) as library:
        items = {Path(item.path).name: item for item in library.items(library.find())}
        heads = {name: item.same_as for name, item in items.items() if item.same_as}
        three = items["03.png"].id
        assert heads == {"z3.jpg": three, "y3.webp": three, "z4.png": items["04.png"].id}
    (place / "03.png").unlink()
    assert run(place, index).alike == 2, "another one becomes the head"
    with Library.open(index) as library:
        live = set(library.find().tolist())
        assert {item.same_as for item in library.items(library.find())} <= live | {None}


# --- readers, writers, kills, disks -----------------------------------------------------------


def test_a_second_writer_is_told_and_a_reader_is_not(photos, index):
    run(photos, index)
    with only_writer(index):
        with pytest.raises(WrongIndex, match=rf"number {os.getpid()}\)"):
            run(photos, index)
        with Library.open(index) as library:
            assert len(library) == 6
    (index / "writer.lock").write_text("999999")  # left by one that was killed
    assert run(photos, index).unchanged == 6


def test_readers_see_whole_states_while_a_writer_adds(photos, index):
    run(photos, index)
    for number in range(150):
        picture((number, 255 - number, number // 2)).save(photos / f"{number:03}.png")
    encoder, done, troubles = ColourEncoder(), threading.Event(), []
    sizes: list[int] = []

    def read():
        try:
            with Library.open(index) as library:
                while not done.is_set():
                    library.refresh()
                    ids = library.find()
                    sizes.append(len(ids))
                    found, scores = library.search(encoder.encode_texts(["red"]), 5)
                    assert found.shape == (1, 5) and (np.diff(scores[0]) <= 0).all()
                    assert Path(library.items(found[0])[0].path).name == "red.png"
                    assert library.vectors(ids).shape == (len(ids), 32)
        except BaseException as error:
            troubles.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()

    def until_read(_: object) -> None:
        """Let the readers look at least at the first few states, however slow they are."""
        if len(set(sizes)) <= 3:
            before = len(sizes)
            wait_until(lambda: len(sizes) > before + 1 or troubles)

    run(photos, index, batch=5, progress=until_read)
    for number in range(100):
        (photos / f"{number:03}.png").unlink()
    run(photos, index, prune=True)
    done.set()
    for reader in readers:
        reader.join()
    assert troubles == []
    assert len(set(sizes)) > 3, "readers saw the index grow"
    assert len(check_whole(index)) == 56


AT_ONCE = """
import sys, threading
from pathlib import Path
from avow.retrieval.library import Library

with Library.open(Path(sys.argv[1])) as library:
    ids = library.find()

    def read(what):
        for _ in range(1000):
            what()

    read_items, read_folders = lambda: library.items(ids), library.folders
    threads = [threading.Thread(target=read, args=[w]) for w in (read_items, read_folders) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done")
"""


def test_threads_that_read_items_and_folders_do_not_stop_each_other(photos, index):
    """SQLite calls Python for checksums, so one thread may hold SQLite and wait for the
    interpreter, while another inside the same connection holds that and waits for SQLite.
    """
    run(photos, index)
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, str(index)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,  # seconds: it only ends a test that would hang
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_rows_nobody_names_are_written_anew(photos, index, monkeypatch):
    monkeypatch.setattr("avow.retrieval.indexing._FEW", 3)
    for number in range(40):
        picture((number, 2 * number, 99)).save(photos / f"{number}.png")
    run(photos, index)
    reader = Library.open(index)
    kept = reader.vectors(reader.find(Where.parse("name=red.png")))
    for number in range(40):
        (photos / f"{number}.png").unlink()
    run(photos, index, prune=True)
    place = index / "models" / ColourEncoder().fingerprint
    assert (place / "vectors.1").stat().st_size == 6 * 32 * 4
    assert not (place / "vectors.0").exists()
    assert len(reader) == 46 and reader.search(kept, 3)[0].shape == (1, 3), "its old state"
    assert reader.refresh() and len(reader) == 6
    np.testing.assert_array_equal(
        reader.vectors(reader.find(Where.parse("name=red.png"))), kept
    )
    reader.close()
    check_whole(index)


def test_what_a_killed_writer_left_is_cut_off(photos, index):
    run(photos, index)
    rows = index / "models" / ColourEncoder().fingerprint / "vectors.0"
    whole = rows.read_bytes()
    rows.write_bytes(whole + b"half a row")
    picture((7, 7, 7)).save(photos / "late.png")
    run(photos, index)
    assert rows.read_bytes()[: len(whole)] == whole and rows.stat().st_size == 7 * 32 * 4
    check_whole(index)
    rows.write_bytes(whole[:-4])
    for opened in (lambda: Library.open(index), lambda: run(photos, index)):
        with pytest.raises(WrongIndex, match=r"damaged.*--rebuild"):
            opened()
    run(photos, index, rebuild=True)
    assert len(check_whole(index)) == 7


@pytest.mark.parametrize("full_after", [0, 1, 3])
def test_a_full_disk_is_a_sentence_and_loses_nothing(photos, index, monkeypatch, full_after):
    real, left = os.fsync, [full_after]

    def fsync(handle):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(NoRoom, match="The disk is full"):
        run(photos, index, batch=1)
    monkeypatch.undo()
    run(photos, index)
    assert len(check_whole(index)) == 6


def test_a_full_disk_under_the_catalogue_is_the_same_sentence(photos, index):
    run(photos, index)
    for number in range(200):
        (photos / f"{number}.txt").write_text(f"{number} " + "word " * 200)
    code = (
        "import sys, resource; sys.path.insert(0, 'tests');"
        "from encoders import ColourEncoder; from avow.retrieval.indexing import index_folders;"
        "from avow.core.errors import AvowError;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: index_folders([sys.argv[1]], index=__import__('pathlib').Path(sys.argv[2]), "
        "encoder=ColourEncoder(), batch=8)\n"
        "except AvowError as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(photos), str(index)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("NoRoom The disk is full"), done.stdout + done.stderr
    run(photos, index)
    assert len(check_whole(index)) == 206


def test_a_full_disk_takes_back_what_it_cut_off(photos, index):
    run(photos, index)
    link, catalogue = open_catalogue(index), index / "catalogue.sqlite"
    link.execute("PRAGMA max_page_count = 1")  # no more than there are
    with pytest.raises(NoRoom) as told, sentences(catalogue), changing(link):
        link.execute("UPDATE files SET content = ?", ["x" * 100_000])
    assert str(told.value) == (
        f"The disk is full while writing {str(catalogue)!r}. Everything written before is "
        "kept. Free some space and run the same command again to continue."
    )
    link.close()
    assert len(check_whole(index)) == 6


def test_a_catalogue_that_cannot_be_made_is_a_sentence(photos, index):
    (index / "catalogue.sqlite").mkdir(parents=True)
    with pytest.raises(WrongIndex, match=r"cannot be used \(unable to open database file\)"):
        run(photos, index)


def test_a_broken_catalogue_is_a_sentence(photos, index):
    run(photos, index)
    (index / "catalogue.sqlite").write_bytes(b"not a database at all" * 100)
    for ending in ("-wal", "-shm"):
        (index / f"catalogue.sqlite{ending}").unlink(missing_ok=True)
    for opened in (lambda: Library.open(index), lambda: run(photos, index)):
        with pytest.raises(WrongIndex, match="cannot be used"):
            opened()


def test_an_index_of_another_format_is_refused(photos, index):
    run(photos, index)
    with sqlite3.connect(index / "catalogue.sqlite") as link:
        link.execute("PRAGMA user_version = 99")
    link.close()
    with pytest.raises(WrongIndex, match="has format 99"):
        Library.open(index)


def test_feedback_is_kept(photos, index):
    run(photos, index)
    with Library.open(index) as library:
        library.record({"text": "red"}, 3, True)
    with Library.open(index) as library:
        [said] = library.feedback()
        assert (said.query, said.item_id, said.good) == ({"text": "red"}, 3, True)


def test_numbers_that_are_not_there_are_told(photos, index):
    run(photos, index)
    with Library.open(index) as library:
        for asked in (library.items, library.vectors):
            with pytest.raises(BadQuery, match="There is no item 12345"):
                asked([1, 12345])


def test_the_fingerprint_changes_with_the_items(photos, index):
    run(photos, index)
    with Library.open(index) as library:
        before = library.fingerprint
        run(photos, index)
        assert not library.refresh() and library.fingerprint == before
        (photos / "red.png").rename(photos / "rouge.png")
        run(photos, index)
        assert library.refresh() and library.fingerprint != before
        assert library.items(library.find())[0].path


# --- a model that is not opened ---------------------------------------------------------------


def test_a_model_is_opened_only_for_something_to_encode(photos, index, tmp_path):
    weights, opened = tmp_path / "weights", []
    weights.mkdir()
    (weights / "a").write_text("1")

    def open_encoder(name):
        opened.append(name)
        return ColourEncoder()

    def again():
        return run(photos, index, Deferred.named(str(weights), open_encoder))

    assert again().new == 6 and len(opened) == 1
    assert again().unchanged == 6 and len(opened) == 1
    picture((4, 4, 4)).save(photos / "new.png")
    assert again().new == 1 and len(opened) == 2
    (weights / "a").write_text("12")
    assert again().unchanged == 7 and len(opened) == 3, "the model may be another one now"
    assert unchanged([photos], index, Deferred("x", files_of(weights), open_encoder)) is None
    model = Deferred.named(str(weights), open_encoder)
    assert unchanged([photos], index, model).unchanged == 7
    assert unchanged([photos], index, model, fps=2.0) is None  # videos are to be read again


def test_a_model_of_the_hub_is_opened_by_its_name():
    model = Deferred.named("someone/some-model", lambda name: f"opened {name}")
    assert (model.files, model.open()) == ("", "opened someone/some-model")


COMMAND = [sys.executable, "-m", "avow", "index"]


def command(*words):
    place = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    return forked_commands.run([*COMMAND, *words], env=os.environ | place)


def test_the_command_indexes_and_tells(hostile, index):
    done = command(hostile, "--index", index, "--model", "plugged.nobody", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("avow: The model 'plugged.nobody' cannot be opened")
    done = command(hostile, "--index", index, "--model", "plugged.colours")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("10 new, 16 skipped in ")
    assert "zero.png: empty: zero bytes" in done.stderr and "Traceback" not in done.stderr
    done = command(hostile / "none", "--index", index, "--model", "plugged.colours")
    assert done.returncode == 1 and done.stderr.startswith("avow: There is no folder ")
    assert done.stderr.count("\n") == 1


@pytest.mark.long  # of videos and pictures in every run: test_video_index.py
def test_kills_at_any_moment_lose_and_double_nothing(tmp_path):
    """The real command, killed once; `benchmarks.quality.index_kills` does it fifty times."""
    kills = 2 if os.environ.get("AVOW_LONG_TESTS") else 1
    found = index_kills.killed(tmp_path, kills=kills, files=60)
    assert found == index_kills.unharmed(kills, 60)


def opened(path: str) -> Image.Image:
    with Image.open(path) as picture:
        return picture.copy()


@pytest.mark.slow
def test_a_trained_model_indexes_photographs(photos, index):
    """The model that comes with Avow, through the same door."""
    from avow.retrieval.encoders.opening import open_encoder

    pytest.importorskip("efficientnet_lite_pytorch")
    encoder = open_encoder()
    scene(1).save(photos / "scene.jpg")
    assert run(photos, index, encoder, batch=3).new == 7
    with Library.open(index, encoder) as library:
        ids = library.find()
        wanted = encoder.encode_images([opened(item.path) for item in library.items(ids)])
        np.testing.assert_allclose(library.vectors(ids), wanted, atol=2e-3)
        assert library.manifest["views"] == encoder.views


def test_nothing_to_do_needs_no_torch(photos, index, tmp_path):
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "a").write_text("1")
    run(photos, index, Deferred.named(str(weights), lambda _: ColourEncoder()))
    code = (
        "import sys; sys.argv = ['avow', 'index', *sys.argv[1:]]; import avow.cli\n"
        "try: avow.cli.main()\n"
        "finally: print({'torch', 'numpy', 'PIL'} & set(sys.modules))"
    )
    words = [str(photos), "--index", str(index), "--model", str(weights)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.startswith("6 unchanged in ") and done.stdout.endswith("set()\n"), done


def test_errors_of_this_floor_are_sentences():
    assert issubclass(WrongIndex, AvowError) and issubclass(BadQuery, AvowError)
    with pytest.raises(WrongIndex, match="There is no index"):
        open_catalogue(Path("nowhere"))
