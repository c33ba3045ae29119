"""Pictures that are no files of their own on the page: in tars, in Parquet, at URLs."""

import io
from contextlib import contextmanager

import pyarrow
import pyarrow.parquet
import pytest
from encoders import ColourEncoder
from fastapi.testclient import TestClient
from PIL import Image
from test_sources import index, web_folder

from avow.api import create_app
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
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
