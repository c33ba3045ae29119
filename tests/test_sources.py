"""Sources of an index beside folders: tars, Parquet, URLs; and runs that are cut off."""

import http.server
import os
import shutil
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from encoders import ColourEncoder
from moving import write_video
from shard_samples import s3_server

from avow.cli import app
from avow.core import storage, web
from avow.core.errors import BadData, BadQuery, MissingExtra, Unavailable
from avow.retrieval.indexing import index_folders
from avow.retrieval.item_pictures import bytes_elsewhere, open_item
from avow.retrieval.library import Library
from avow.retrieval.sharding import plan
from avow.retrieval.sharding.cluster import Cluster
from avow.retrieval.sharding.here import Here, Parts
from avow.retrieval.sharding.opening import kind_of, only_folders
from avow.retrieval.sharding.part import packed
from avow.retrieval.sharding.single import picture_bytes
from avow.retrieval.store.reading import too_large
from benchmarks.quality._equal_indexes import contents, png, write_folder, write_tar


def counts(report) -> tuple[int, int, int, int]:
    return report.new, report.changed, report.deleted, report.unchanged


@pytest.fixture
def index(tmp_path):
    return partial(index_folders, index=tmp_path / "index", encoder=ColourEncoder())


def test_names_lead_to_kinds():
    assert kind_of("photos") == ("folder", "photos")
    assert kind_of("s3://bucket/photos") == ("url", "s3://bucket/photos")
    assert kind_of("s3://bucket/*.tar") == ("webdataset", "s3://bucket/*.tar")
    assert kind_of("data/0.PARQUET") == ("parquet", "data/0.PARQUET")
    assert kind_of("webdataset:s3://bucket/x") == ("webdataset", "s3://bucket/x")
    assert only_folders(["photos", Path("a.b"), "c.csv"])
    assert not only_folders(["photos", "folder:photos"])


def test_a_folder_in_units_gives_the_index_of_a_plain_run(tmp_path, monkeypatch):
    photos = write_folder(tmp_path / "wow!", 21)
    (photos / "broken.png").write_bytes(b"nothing")
    (photos / "words.csv").write_text("id,text\n1,a red thing\n2,blue\n")
    monkeypatch.setattr(plan, "FILES_AT_ONCE", 5)
    run = partial(index_folders, [photos], encoder=ColourEncoder(), batch=8)
    assert counts(run(index=tmp_path / "a", in_units=True)) == (22, 0, 0, 0)
    run(index=tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    (photos / "00003.png").unlink()
    (photos / "00004.png").write_bytes(png(99))
    assert counts(run(index=tmp_path / "a", in_units=True)) == (0, 1, 1, 20)
    assert counts(run(index=tmp_path / "a", in_units=True)) == (0, 0, 0, 21)
    assert counts(run(index=tmp_path / "a")) == (
        0,
        0,
        0,
        21,
    )  # both ways agree on what is there


def test_a_tar_and_its_changes(tmp_path, index):
    tars = tmp_path / "tars"
    members = {f"{number:04}.png": png(number) for number in range(6)}
    noise = {"0000.txt": b"a caption", "0000.json": b"{}", "bad.png": b"nothing"}
    write_tar(tars / "0.tar", members | noise | {"empty.png": b""})
    (tars / "folder.tar").mkdir()  # which is no shard
    write_tar(tars / "1.tar", {"a/b.png": png(77)})
    report = index([f"{tars}/*.tar"])
    bad = (f"{tars}/0.tar!/bad.png", "not a picture of a known format")
    empty = (f"{tars}/0.tar!/empty.png", "empty: zero bytes")
    assert counts(report) == (7, 0, 0, 0) and report.skipped == [bad, empty]
    assert counts(index([f"{tars}/*.tar"])) == (0, 0, 0, 7)
    with Library.open(tmp_path / "index") as library:
        assert library.folders() == [f"webdataset:{tars}/*.tar"]
        [item] = [one for one in library.items(library.find()) if one.path.endswith("a/b.png")]
        assert item.path == f"{tars}/1.tar!/a/b.png"
        assert open_item(item).size == (32, 32)
    del members["0001.png"]
    write_tar(tars / "0.tar", members | {"0002.png": png(55), "new.png": png(56)})
    report = index([f"{tars}/*.tar"])
    assert counts(report) == (1, 1, 1, 5) and report.skipped == []
    (tars / "1.tar").unlink()
    assert counts(index([f"webdataset:{tars}"])) == (0, 0, 1, 6)


def test_another_name_deletes_nothing_of_the_first(tmp_path, index):
    write_tar(tmp_path / "tars" / "0.tar", {"a.png": png(1)})
    write_tar(tmp_path / "tars" / "1.tar", {"a.png": png(2)})
    write_folder(tmp_path / "tars", 1)
    assert counts(index([f"{tmp_path}/tars/0.tar"])) == (1, 0, 0, 0)
    assert counts(index([f"{tmp_path}/tars/1.tar"])) == (1, 0, 0, 0)
    assert counts(index([f"{tmp_path}/tars"])) == (1, 0, 0, 0)  # the folder: its own pictures
    assert counts(index([f"webdataset:{tmp_path}/tars"])) == (0, 0, 0, 2)
    with Library.open(tmp_path / "index") as library:
        assert len(library.find()) == 3


def test_a_broken_tar_is_listed_and_what_came_before_is_kept(tmp_path, index):
    whole = tmp_path / "0.tar"
    write_tar(whole, {f"{number}.png": png(number) for number in range(4)})
    data = whole.read_bytes()
    whole.write_bytes(data[:1300])
    report = index([str(whole)])
    assert report.new == 1
    [(path, why)] = report.skipped
    assert path == str(whole) and why.startswith("a broken shard (")
    whole.write_bytes(data)
    report = index([str(whole)])
    assert counts(report) == (3, 0, 0, 1) and report.skipped == []


def test_parquet_with_bytes(tmp_path, index):
    path = tmp_path / "0.parquet"
    rows = {"key": ["a", "b", "b", None], "jpg": [png(1), png(2), png(3), None]}
    pyarrow.parquet.write_table(pyarrow.table(rows), path)
    report = index([str(path)])
    assert report.skipped == [(f"{path}!/000000003.jpg", "no picture in this row")]
    with Library.open(tmp_path / "index") as library:
        names = [item.path.rpartition("!/")[2] for item in library.items(library.find())]
    assert names == ["a.png", "b.png", "000000002.png"]


def test_parquet_without_pictures_is_told(tmp_path, index):
    path = tmp_path / "0.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"words": ["a"]}), path)
    [(_, why)] = index([str(path)]).skipped
    assert why == (
        "no column of pictures: expected one of jpg, jpeg, png, webp, image, bytes, url, "
        "image_url, URL"
    )


def test_parquet_with_pictures_as_the_datasets_library_keeps_them(tmp_path, index):
    path = tmp_path / "0.parquet"
    rows = {"image": [{"bytes": png(1), "path": "a.png"}, {"bytes": None, "path": "b.png"}]}
    pyarrow.parquet.write_table(pyarrow.table(rows), path)
    report = index([str(path)])
    assert report.new == 1
    assert report.skipped == [(f"{path}!/000000001.jpg", "no picture in this row")]


@pytest.mark.parametrize("kind", ["parquet", "webdataset", "url"])
def test_what_is_larger_than_anything_that_is_read_is_told(tmp_path, index, monkeypatch, kind):
    write_tar(tmp_path / "0.tar", {"a.png": png(1)})
    pyarrow.parquet.write_table(pyarrow.table({"png": [png(1)]}), tmp_path / "0.parquet")
    url = f"file://{write_folder(tmp_path / 'files', 1)}/00000.png"
    size = len(png(1))
    monkeypatch.setattr("avow.retrieval.sharding.source.LARGEST_FILE", 20)
    monkeypatch.setattr("avow.retrieval.sources.url.LARGEST_FILE", 20)
    name = {"parquet": f"{tmp_path}/0.parquet", "webdataset": f"{tmp_path}/0.tar", "url": url}
    report = index([name[kind]])
    told = {
        "parquet": (f"{tmp_path}/0.parquet!/000000000.png", too_large(size)),
        "webdataset": (f"{tmp_path}/0.tar!/a.png", too_large(size)),
        "url": (url, too_large(len(png(0)))),
    }
    assert (report.new, report.skipped) == (0, [told[kind]])


def test_a_group_of_rows_larger_than_memory_is_told(tmp_path, index, monkeypatch):
    path = tmp_path / "0.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"png": [png(1)]}), path)
    monkeypatch.setattr("avow.retrieval.sources.parquet.LARGEST_GROUP", 20)
    [(told, why)] = index([str(path)]).skipped
    assert told == str(path)
    assert why.startswith("a group of rows of ") and why.endswith(" bytes; 20 at most")


def test_names_in_a_tar_may_be_there_twice_or_unfit_to_be_shown(tmp_path, index):
    path, long = tmp_path / "0.tar", "n" * 500 + ".png"
    members = {"a.png": png(1), "./a.png": png(2), "two\nlines.png": png(3), long: png(4)}
    write_tar(path, members)
    report = index([str(path)])
    why = "its name is longer than 500 characters, or not printable"
    assert report.skipped == [(f"{path}!/2.jpg", why), (f"{path}!/3.jpg", why)]
    with Library.open(tmp_path / "index") as library:
        found = {item.path: picture_bytes(item.path) for item in library.items(library.find())}
    assert found == {f"{path}!/a.png": png(1), f"{path}!/1/a.png": png(2)}


def test_a_pattern_forgets_only_what_fits_it(tmp_path, index):
    tars = tmp_path / "tars"
    for number, name in enumerate(("a0", "a1", "a2", "b0", "b1", "b2")):
        write_tar(tars / f"{name}.tar", {"x.png": png(number)})
    index([f"{tars}/a*.tar", f"{tars}/b*.tar"])
    (tars / "a0.tar").unlink()
    (tars / "b0.tar").unlink()
    assert counts(index([f"{tars}/a*.tar"])) == (0, 0, 1, 2)
    with Library.open(tmp_path / "index") as library:
        shards = {item.path.partition("!/")[0] for item in library.items(library.find())}
    assert shards == {f"{tars}/{name}.tar" for name in ("a1", "a2", "b0", "b1", "b2")}


def test_a_tar_whose_name_is_no_text_is_told(tmp_path, index):
    write_tar(tmp_path / "tars" / "0.tar", {"a.png": png(1)})
    shutil.copy(tmp_path / "tars" / "0.tar", os.fsencode(tmp_path / "tars") + b"/\xff.tar")
    report = index([f"webdataset:{tmp_path}/tars"])
    [(_, why)] = report.skipped
    assert (report.new, why) == (1, "its name is not valid UTF-8; rename it")


def test_pictures_of_shards_that_changed_are_shown_or_told(tmp_path, index, monkeypatch):
    """Each is read again from the shard as it is now."""
    monkeypatch.setattr("avow.retrieval.sources.webdataset.MOST_KEPT", 3)
    tar, other, table = (tmp_path / name for name in ("0.tar", "1.tar", "0.parquet"))
    pictures = [png(number) for number in range(3)]
    write_tar(tar, {f"{number}.jpg": data for number, data in enumerate(pictures)})
    write_tar(other, {"0.jpg": png(7)})
    pyarrow.parquet.write_table(pyarrow.table({"key": ["a", "b"], "png": pictures[:2]}), table)
    bare = tmp_path / "bare.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"png": pictures}), bare)
    for _ in range(2):  # what was forgotten for want of room is found anew
        assert picture_bytes(f"{tar}!/2.jpg") == pictures[2]
        assert picture_bytes(f"{other}!/0.jpg") == png(7)

    tar.write_bytes(tar.read_bytes()[:1600])  # inside the second picture
    assert picture_bytes(f"{tar}!/0.jpg") == pictures[0]
    assert _why(f"{tar}!/2.jpg") == "it is not there"
    write_tar(other, {"a.txt": b"x" * 2000, "0.jpg": png(7)})
    other.write_bytes(other.read_bytes()[:1300])
    assert _why(f"{other}!/0.jpg") == "unexpected end of data"
    write_tar(tar, {"two\nlines.jpg": png(1)})
    assert _why(f"{tar}!/0.jpg").startswith("its name is longer than 500 characters")
    tar.unlink()
    assert _why(f"{tar}!/0.jpg") == "it is not there"

    pyarrow.parquet.write_table(pyarrow.table({"key": ["a"], "png": pictures[:1]}), table)
    assert _why(f"{table}!/b.png") == "it is not there"
    assert picture_bytes(f"{bare}!/000000002.png") == pictures[2]
    assert _why(f"{bare}!/000000003.png") == "it is not there"
    assert _why("s3://photos/0.tar!/0.jpg") == "it is not there"  # and no server is asked


def _why(path: str) -> str:
    with pytest.raises(BadData) as told:
        picture_bytes(path)
    begins = f"The picture {path!r} cannot be opened ("
    assert str(told.value).startswith(begins)
    return str(told.value).removeprefix(begins).partition("). Expected the shard")[0]


def test_a_tar_with_a_damaged_header_inside_is_listed(tmp_path, index):
    """What lies behind it cannot be found, and that must not pass for the end of the tar."""
    path = tmp_path / "0.tar"
    write_tar(path, {f"{number}.png": png(number) for number in range(4)})
    data = bytearray(path.read_bytes())
    second = data.index(b"1.png\0")
    data[second : second + 512] = b"\xa5" * 512
    path.write_bytes(data)
    report = index([str(path)])
    assert report.new == 1
    [(told, why)] = report.skipped
    assert told == str(path) and why.startswith("a broken shard (")


@pytest.fixture
def web_folder(tmp_path):
    """A folder served over HTTP on this machine."""
    place = write_folder(tmp_path / "web", 2)
    quiet = type(
        "Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None}
    )
    handler = partial(quiet, directory=str(place))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_parquet_with_urls(tmp_path, index, web_folder, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "0.parquet"
    urls = [f"{web_folder}/00000.png", f"{web_folder}/none.png", "file:///etc/passwd", ""]
    pyarrow.parquet.write_table(pyarrow.table({"url": urls}), path)
    report = index([str(path)])  # a table must not make us ask our own network
    assert report.new == 0 and len(report.skipped) == 4
    assert "which is not public; set AVOW_PRIVATE_ADDRESSES=1" in report.skipped[0][1]
    monkeypatch.setenv("AVOW_PRIVATE_ADDRESSES", "1")
    report = index([str(path)])  # what may come another time is tried again
    assert report.new == 1
    assert [why for _, why in report.skipped] == [
        f"the server answers 404 for '{web_folder}/none.png'",
        "a URL of kind 'file'; only http and https are fetched",
        "no URL in this row",
    ]
    report = index([str(path)])  # what was refused for good is not: the shard is done
    assert (report.new, report.unchanged, len(report.skipped)) == (0, 1, 3)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        web.fetch_public(urls[0], 10)


def test_a_url_that_leads_to_another_kind_of_server_is_refused(monkeypatch):
    monkeypatch.setenv("AVOW_PRIVATE_ADDRESSES", "1")

    class Leads(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1:1/x")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Leads) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(ValueError, match=r"leads to 'ftp://127.0.0.1:1/x'; only http and"):
            web.fetch_public(f"http://127.0.0.1:{server.server_address[1]}/a.jpg", 10)
        thread.join()


def test_a_killed_run_goes_on_as_one(tmp_path, monkeypatch):
    """Stopped in every unit, also between the index and its note; and after a broken part."""
    photos = write_folder(tmp_path / "photos", 23)
    monkeypatch.setattr(plan, "FILES_AT_ONCE", 4)
    run = partial(index_folders, [photos], encoder=ColourEncoder(), batch=3, in_units=True)
    run(index=tmp_path / "whole")
    place = tmp_path / "index"

    class Killed(BaseException):
        pass

    finished = plan.Plan.finished

    def dies(self, number):
        if number % 2:
            finished(self, number)
        elif number == 2:
            (self.folder / f"{number + 1:06}.part").write_bytes(b"torn")
        raise Killed

    monkeypatch.setattr(plan.Plan, "finished", dies)
    for _ in range(3):
        with pytest.raises(Killed):
            run(index=place)
        monkeypatch.setattr(plan.Plan, "finished", finished)
        with pytest.raises(Killed):
            run(index=place, stop=_after(2, Killed))
        monkeypatch.setattr(plan.Plan, "finished", dies)
    monkeypatch.setattr(plan.Plan, "finished", finished)
    report = run(index=place)
    assert not report.stopped and not (place / "work").exists()
    assert contents(place) == contents(tmp_path / "whole")


def _after(calls: int, error: type[BaseException]):
    left = iter(range(calls))

    def stop() -> bool:
        if next(left, None) is None:
            raise error
        return False

    return stop


def test_a_stopped_run_says_so_and_goes_on(tmp_path, index, monkeypatch):
    photos = write_folder(tmp_path / "photos", 9)
    monkeypatch.setattr(plan, "FILES_AT_ONCE", 4)
    seen = []
    stopped = index([photos], in_units=True, progress=seen.append, stop=lambda: len(seen) > 6)
    assert stopped.stopped and (seen[0].done, seen[0].total) == (0, 9)
    report = index([photos], in_units=True)
    assert not report.stopped and report.new + report.unchanged == 9


def test_a_stopped_run_over_files_that_changed_since_begins_anew(tmp_path, index, monkeypatch):
    photos = write_folder(tmp_path / "photos", 9)
    monkeypatch.setattr(plan, "FILES_AT_ONCE", 4)
    seen = []
    index([photos], in_units=True, progress=seen.append, stop=lambda: len(seen) > 6)
    write_folder(photos, 3, first=20)
    report = index([photos], in_units=True)
    assert not report.stopped and report.new + report.unchanged == 12
    with Library.open(tmp_path / "index") as library:
        assert len(library.find()) == 12


def test_few_files_at_once_and_a_video_in_units_give_the_index_of_a_plain_run(tmp_path):
    photos = write_folder(tmp_path / "photos", 7)
    write_video(photos / "film.mp4", [("red", 1), ("blue", 1)])
    run = partial(index_folders, [photos], encoder=ColourEncoder(), batch=1, workers=1)
    assert run(index=tmp_path / "a", in_units=True).new == run(index=tmp_path / "b").new == 8
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


class Given(Parts):
    """A cluster whose workers give these bytes."""

    def __init__(self, place, data: bytes):
        super().__init__(plan.Plan(place, []))
        self.data, self.asked = data, 0

    def part(self, number, stop) -> bytes:
        self.asked += 1
        return self.data


def test_parts_of_another_model_are_made_anew_and_then_told(tmp_path):
    parts = Given(tmp_path, packed([], np.empty((0, 1), np.float32), "another model"))
    with pytest.raises(BadData) as told:
        parts.outcomes(0, "model", lambda: False)
    assert parts.asked == 3 and str(told.value) == (
        f"The part {str(tmp_path / '000000.part')!r} was made 3 times and is broken each time. "
        "Expected what a worker of this version of Avow gives; install the same version on "
        "all machines."
    )


def test_a_run_that_is_stopped_while_it_waits_for_a_part_goes_on_later(
    tmp_path, index, monkeypatch
):
    photos = write_folder(tmp_path / "photos", 3)
    assert Given(tmp_path, b"").outcomes(0, "model", lambda: True) is None
    with monkeypatch.context() as waiting:
        waiting.setattr(Here, "part", lambda *_: b"")
        assert index([photos], in_units=True).stopped
    assert counts(index([photos], in_units=True)) == (3, 0, 0, 0)


def test_without_ray_the_extra_is_named(tmp_path, index, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    write_tar(tmp_path / "0.tar", {"a.png": png(1)})
    with pytest.raises(MissingExtra, match=r"pip install 'avow\[ray\]'"):
        index([f"{tmp_path}/0.tar"], cluster=Cluster("auto", "default"))


def test_pictures_and_tars_on_s3(tmp_path, monkeypatch, index):
    """Over real HTTP: moto's server."""
    import s3fs

    write_tar(tmp_path / "0.tar", {f"{number}.png": png(number) for number in range(3)})
    with s3_server(monkeypatch) as address:
        s3fs.S3FileSystem.clear_instance_cache()
        disk = s3fs.S3FileSystem(endpoint_url=address)
        disk.mkdir("photos")
        for number in range(3):
            disk.pipe(f"photos/2024/{number}.png", png(10 + number))
        disk.pipe("photos/2024/bad.jpg", b"nothing")
        disk.pipe("photos/2024/film.mp4", b"nothing")
        disk.put(str(tmp_path / "0.tar"), "photos/tars/0.tar")
        report = index(["s3://photos/2024", "s3://photos/tars/*.tar"])
        assert dict(report.skipped) == {
            "s3://photos/2024/bad.jpg": "not a picture of a known format",
            "s3://photos/2024/film.mp4": "a video at a URL; copy it to a folder and index that",
        }
        assert report.new == 6
        assert counts(index(["s3://photos/2024"])) == (0, 0, 0, 3)
        disk.pipe("photos/2024/1.png", png(40))
        disk.rm("photos/2024/2.png")
        assert counts(index(["s3://photos/2024", "s3://photos/tars"])) == (0, 1, 1, 1)
        with Library.open(tmp_path / "index") as library:
            noted = [
                "s3://photos/2024",
                "s3://photos/tars",
                "webdataset:s3://photos/tars/*.tar",
            ]
            assert library.folders() == noted
            items = library.items(library.find())
        names = {item.path for item in items}
        assert "s3://photos/tars/0.tar!/0.png" in names and len(names) == 5
        assert {item.content for item in items} >= {_content(png(40)), _content(png(0))}
        with pytest.raises(BadData, match=r"lies at 's3://photos/2024/0.png'. Expected a file"):
            open_item(next(item for item in items if item.path == "s3://photos/2024/0.png"))
        with pytest.raises(BadData, match="There is nothing at 's3://photos/2025'"):
            index(["s3://photos/2025"])
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 2)  # each waits longer than the last
    with pytest.raises(Unavailable, match="'s3://photos/2024' cannot be read"):
        index(["s3://photos/2024"])
    s3fs.S3FileSystem.clear_instance_cache()


def _content(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()[:32]


def test_names_that_cannot_be_read_are_told(index, monkeypatch, tmp_path):
    with pytest.raises(BadData) as told:
        index(["ftp://somewhere/x"])
    assert str(told.value) == (
        "The URL 'ftp://somewhere/x' begins with 'ftp'. Expected one of: s3, gs, gcs, http, "
        "https, hf, file."
    )
    with pytest.raises(BadData, match="'http://\\[' cannot be read as a URL"):
        index(["http://["])
    with pytest.raises(BadData, match="has a \\* before its last /"):
        index(["s3://a/*/b.tar"])
    with pytest.raises(BadData, match=r"There is no folder '.*none.tar'"):
        index([str(tmp_path / "none.tar")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadData, match="as in webdataset:NAME"):
        index([f"webdataset:{tmp_path / 'empty'}"])
    monkeypatch.setitem(storage.SCHEMES, "s3", ("no_such_package", "s3"))
    monkeypatch.setattr("fsspec.core.url_to_fs", _not_installed)
    with pytest.raises(MissingExtra, match="pip install 'avow\\[s3\\]'"):
        index(["s3://a/b"])


def _not_installed(url: str) -> None:
    raise ImportError("Install s3fs to access S3")


def test_pictures_elsewhere_are_fetched_where_they_were_indexed(tmp_path, index, monkeypatch):
    monkeypatch.setenv("AVOW_FETCH_PICTURES", "1")
    place = f"file://{write_folder(tmp_path / 'photos', 1)}"
    index([place])
    with Library.open(tmp_path / "index") as library:
        [item] = library.items(library.find())
        read = bytes_elsewhere(item, library.folders())
    assert read is not None and read() == png(0)
    strange = replace(item, path="s3://elsewhere/0.tar!/1.png")
    read = bytes_elsewhere(strange, [place])
    assert read is not None
    with pytest.raises(BadData) as told:
        read()
    assert str(told.value) == (
        f"Item {item.id} lies at 's3://elsewhere/0.tar!/1.png'. Expected a shard that was "
        "indexed; run `avow index` with its name."
    )


def test_a_text_is_no_picture_to_open(tmp_path, index):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "note.txt").write_text("a red thing")
    index([tmp_path / "texts"])
    with Library.open(tmp_path / "index") as library:
        [item] = library.items(library.find(None, "text"))
    with pytest.raises(BadQuery, match=r"note.txt'\) is a text. Expected a picture; choose"):
        open_item(item)


def test_the_command_reads_a_tar(tmp_path, capsys):
    write_tar(tmp_path / "0.tar", {"a.png": png(1)})
    words = ["--index", str(tmp_path / "index"), "--model", "plugged.colours"]
    app(["index", str(tmp_path / "0.tar"), *words, "--transfer", "0"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("1 new in ")
