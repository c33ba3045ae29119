"""Pictures that are no files of their own on the page: in tars, in Parquet, at URLs."""

import io
import zipfile
from contextlib import contextmanager

import pyarrow
import pyarrow.parquet
import pytest
from encoders import ColourEncoder
from fastapi.testclient import TestClient
from PIL import Image
from shard_samples import s3_server
from test_sources import index, web_folder

from avow.api import create_app
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.retrieval.sharding.single import lies_inside
from benchmarks.quality._equal_indexes import png, write_tar

__all__ = ["index", "web_folder"]  # the fixtures
PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch):
    for name in (*PROXIES, "AVOW_FETCH_PICTURES", "AVOW_PRIVATE_ADDRESSES"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def client(place):
    encoder = ColourEncoder()
    retriever = Retriever(Library.open(place / "index", encoder), encoder)
    with TestClient(create_app(retriever), base_url="http://127.0.0.1") as opened:
        yield opened


def ids(asked) -> dict[str, int]:
    items = asked.get("/api/items", params={"limit": 200}).json()["items"]
    return {item["path"].rpartition("/")[2]: item["id"] for item in items}


def colour(data: bytes) -> tuple[int, ...]:
    """The mean over a picture."""
    with Image.open(io.BytesIO(data)) as picture:
        small = picture.convert("RGB").resize((1, 1), Image.Resampling.BOX)
        return tuple(small.tobytes())


def check_shown(asked, number: int, content: bytes) -> None:
    thumbnail = asked.get(f"/api/items/{number}/thumbnail", params={"size": 128})
    assert thumbnail.status_code == 200, thumbnail.text
    assert thumbnail.headers["content-type"] == "image/jpeg"
    near = zip(colour(thumbnail.content), colour(content), strict=True)
    assert all(abs(one - other) < 12 for one, other in near)
    whole = asked.get(f"/api/items/{number}/picture")
    assert whole.content == content and whole.headers["content-type"] == "image/png"


def test_pictures_of_tars_and_tables_are_shown(tmp_path, index):
    members = {f"{number}.png": png(number) for number in range(5)}
    write_tar(tmp_path / "tars" / "0.tar", members | {"a.txt": b"no picture"})
    pictures = [png(number) for number in range(10, 50)]
    keys = [f"k{number}" for number in range(39)] + ["k0"]  # a name twice is its row
    table = pyarrow.table({"key": keys, "jpg": pictures})
    pyarrow.parquet.write_table(table, tmp_path / "0.parquet", row_group_size=16)
    bare = pyarrow.table({"jpg": pictures[:3]})
    pyarrow.parquet.write_table(bare, tmp_path / "bare.parquet")
    index([f"{tmp_path}/tars/*.tar", f"{tmp_path}/0.parquet", f"{tmp_path}/bare.parquet"])
    with client(tmp_path) as asked:
        numbers = ids(asked)
        check_shown(asked, numbers["3.png"], members["3.png"])
        for name, at in (("k0", 0), ("k17", 17), ("k38", 38), ("000000039", 39)):
            check_shown(asked, numbers[f"{name}.png"], pictures[at])
        check_shown(asked, numbers["000000002.png"], pictures[2])


def test_a_shard_that_is_gone_or_leads_elsewhere_is_told(tmp_path, index):
    tar = tmp_path / "tars" / "0.tar"
    write_tar(tar, {"0.png": png(1), "1.png": png(2)})
    index([f"webdataset:{tar.parent}"])
    with client(tmp_path) as asked:
        numbers = ids(asked)
        write_tar(tar, {"1.png": png(2)})
        told = asked.get(f"/api/items/{numbers['0.png']}/thumbnail")
        assert told.status_code == 404 and "run `avow index` again" in told.json()["error"]
        tar.rename(tmp_path / "secret.tar")
        tar.symlink_to(tmp_path / "secret.tar")  # out of what was indexed
        told = asked.get(f"/api/items/{numbers['1.png']}/thumbnail")
        assert told.status_code == 404
        assert "is not where it was indexed" in told.json()["error"]


def test_urls_are_asked_for_pictures_only_where_that_is_allowed(
    tmp_path, index, web_folder, monkeypatch
):
    monkeypatch.setenv("AVOW_PRIVATE_ADDRESSES", "1")
    table = pyarrow.table({"url": [f"{web_folder}/00000.png"]})
    pyarrow.parquet.write_table(table, tmp_path / "0.parquet")
    index([f"{tmp_path}/0.parquet", f"{web_folder}/00001.png"])
    with client(tmp_path) as asked:
        numbers = ids(asked)
        for number in numbers.values():
            told = asked.get(f"/api/items/{number}/thumbnail")
            assert told.status_code == 404
            assert "(it is a URL)" in told.text or "AVOW_FETCH_PICTURES=1 to" in told.text
        monkeypatch.setenv("AVOW_FETCH_PICTURES", "1")
        check_shown(asked, numbers["000000000.jpg"], png(0))
        check_shown(asked, numbers["00001.png"], png(1))
    monkeypatch.delenv("AVOW_PRIVATE_ADDRESSES")
    with client(tmp_path) as asked:  # nothing is remembered of what was shown
        for number in numbers.values():
            told = asked.get(f"/api/items/{number}/thumbnail")
            assert told.status_code == 404 and "which is not public" in told.json()["error"]


def archive_of(asked, numbers) -> tuple[dict, dict[str, bytes]]:
    """What was told of an archive, and its files by name."""
    told = asked.post("/api/export", json={"ids": numbers}).json()
    sent = asked.get(f"/api/export/{told['name']}").content
    with zipfile.ZipFile(io.BytesIO(sent)) as archive:
        assert archive.testzip() is None
        return told, {name: archive.read(name) for name in archive.namelist()}


def test_an_archive_holds_pictures_of_shards_and_says_which_it_lacks(
    tmp_path, index, web_folder, monkeypatch
):
    monkeypatch.setenv("AVOW_PRIVATE_ADDRESSES", "1")
    members = {f"{number}.png": png(number) for number in range(4)}
    write_tar(tmp_path / "0.tar", members)
    pictures = [png(10), png(11)]
    table = pyarrow.table({"key": ["0", "b"], "png": pictures})
    pyarrow.parquet.write_table(table, tmp_path / "0.parquet")
    remote = pyarrow.table({"key": ["far"], "url": [f"{web_folder}/00000.png"]})
    pyarrow.parquet.write_table(remote, tmp_path / "far.parquet")
    index([*(f"{tmp_path}/{name}" for name in ("0.tar", "0.parquet", "far.parquet"))])
    index([f"{web_folder}/00001.png"])
    with client(tmp_path) as asked:
        items = asked.get("/api/items", params={"limit": 200}).json()["items"]
        numbers = [item["id"] for item in items]
        told, files = archive_of(asked, numbers)
        left = files.pop("left out.txt").decode().splitlines()
        assert sorted(files.values()) == sorted([*members.values(), *pictures])
        assert sorted(files) == ["0 (2).png", "0.png", "1.png", "2.png", "3.png", "b.png"]
        assert told["files"] == 7  # the row with a URL is found out when it is read
        assert len(told["left_out"]) == 1 and told["left_out"][0] == left[0]
        assert "00001.png'. Expected a file of this machine" in left[0]
        assert left[1].startswith("far.jpg: The picture") and "(it is a URL)" in left[1]
        monkeypatch.setenv("AVOW_FETCH_PICTURES", "1")
        told, files = archive_of(asked, numbers)
        assert (told["left_out"], len(files)) == ([], 8)
        assert (files["far.jpg"], files["00001.png"]) == (png(0), png(1))


def test_what_is_no_picture_leaves_no_shard(tmp_path, index):
    """Whatever was put there after it was indexed."""
    write_tar(tmp_path / "0.tar", {"0.png": png(1), "1.png": png(2)})
    index([f"{tmp_path}/0.tar"])
    write_tar(tmp_path / "0.tar", {"0.png": b"a secret", "1.png": png(2)})
    with client(tmp_path) as asked:
        _, files = archive_of(asked, [*ids(asked).values()])
        assert sorted(files) == ["1.png", "left out.txt"]
        assert b"0.png: The file of this item is no picture" in files["left out.txt"]


def test_pictures_of_shards_in_a_bucket_are_shown_where_that_is_allowed(
    tmp_path, index, monkeypatch
):
    """Over real HTTP: moto's server."""
    import s3fs

    members = {f"{number}.png": png(number) for number in range(5)}
    write_tar(tmp_path / "0.tar", members)
    pyarrow.parquet.write_table(pyarrow.table({"png": [png(20)]}), tmp_path / "0.parquet")
    with s3_server(monkeypatch) as address:
        s3fs.S3FileSystem.clear_instance_cache()
        disk = s3fs.S3FileSystem(endpoint_url=address)
        disk.mkdir("shown")
        for name in ("0.tar", "0.parquet"):
            disk.put(str(tmp_path / name), f"shown/{name}")
        index(["s3://shown/*.tar", "s3://shown/0.parquet"])
        with client(tmp_path) as asked:
            numbers = ids(asked)
            told = asked.get(f"/api/items/{numbers['3.png']}/thumbnail")
            assert told.status_code == 404 and "AVOW_FETCH_PICTURES=1 to" in told.text
            monkeypatch.setenv("AVOW_FETCH_PICTURES", "1")
            for name in ("4.png", "0.png"):
                check_shown(asked, numbers[name], members[name])
            check_shown(asked, numbers["000000000.png"], png(20))
            told, files = archive_of(asked, [*numbers.values()])
            assert (len(files), files["2.png"]) == (6, members["2.png"])
            write_tar(tmp_path / "1.tar", {"2.png": png(30)})
            disk.put(str(tmp_path / "1.tar"), "shown/0.tar")  # remembered places are old
            check_shown(asked, numbers["2.png"], png(30))
            told = asked.get(f"/api/items/{numbers['1.png']}/thumbnail")
            assert told.status_code == 404 and "run `avow index` again" in told.json()["error"]
            monkeypatch.setattr("avow.retrieval.sharding.single.LARGEST_SHARD", 100)
            told = asked.get(f"/api/items/{numbers['1.png']}/thumbnail")
            assert told.status_code == 404 and "100 at most" in told.json()["error"]
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_shard_in_a_bucket_that_was_not_indexed_is_not_opened():
    noted = ["webdataset:s3://photos/tars/*.tar", "parquet:s3://photos/one.parquet"]
    for path, known in (
        ("s3://photos/tars/0.tar!/1.png", True),
        ("s3://photos/one.parquet!/1.png", True),
        ("s3://photos/tars2/0.tar!/1.png", False),
        ("s3://other/0.tar!/1.png", False),
        ("s3://photos/one.parquet.tar!/1.png", False),
    ):
        assert lies_inside(path, noted) is known, path
