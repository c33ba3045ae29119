"""Archives of chosen items, folders to choose from, and answers a page at a time."""

import io
import zipfile

import pytest
from encoders import COLOURS, ColourEncoder, picture
from fastapi.testclient import TestClient

from avow.api import create_app
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever

HERE = "http://127.0.0.1"


@pytest.fixture
def place(tmp_path):
    for folder in ("one", "two", ".hidden"):
        (tmp_path / "photos" / folder).mkdir(parents=True)
    for number, colour in enumerate(COLOURS):
        picture(colour).save(tmp_path / "photos" / "one" / f"{number}.png")
    picture((1, 2, 3)).save(tmp_path / "photos" / "two" / "0.png")
    (tmp_path / "photos" / "two" / "note.txt").write_text("a red house")
    return tmp_path


@pytest.fixture
def client(place):
    encoder = ColourEncoder()
    index_folders([place / "photos"], index=place / "index", encoder=encoder)
    retriever = Retriever(Library.open(place / "index", encoder), encoder)
    with TestClient(create_app(retriever, roots=[place / "photos"]), base_url=HERE) as opened:
        yield opened


def ids(client, kind="image"):
    found = client.get("/api/items", params={"kind": kind, "limit": 200}).json()["items"]
    return {item["path"]: item["id"] for item in found}


def test_an_archive_holds_the_files_and_says_what_it_lacks(client, place):
    numbers = ids(client)
    [text] = ids(client, "text").values()
    gone = place / "photos" / "one" / "5.png"
    gone.unlink()
    told = client.post("/api/export", json={"ids": [*numbers.values(), text, 10**6]}).json()
    assert told["files"] == 6 and len(told["left_out"]) == 3
    sent = client.get(f"/api/export/{told['name']}")
    assert sent.headers["content-disposition"] == 'attachment; filename="avow.zip"'
    with zipfile.ZipFile(io.BytesIO(sent.content)) as archive:
        assert archive.testzip() is None
        assert {"0.png", "0 (2).png", "left out.txt"} < set(archive.namelist())
        assert len(archive.namelist()) == 7
        both = {archive.read("0.png"), archive.read("0 (2).png")}
        files = (place / "photos" / folder / "0.png" for folder in ("one", "two"))
        assert both == {file.read_bytes() for file in files}
        assert f"item {text}: a text has no picture" in archive.read("left out.txt").decode()


def test_archives_that_cannot_be_are_refused(client):
    [text] = ids(client, "text").values()
    answer = client.post("/api/export", json={"ids": [text]})
    assert answer.status_code == 404 and "None of these files" in answer.json()["error"]
    assert client.post("/api/export", json={"ids": []}).status_code == 422
    answer = client.get("/api/export/none.zip")
    assert answer.status_code == 404 and "Choose its items again" in answer.json()["error"]


def test_folders_are_listed_below_the_roots_alone(client, place):
    [root] = client.get("/api/folders").json()["folders"]
    assert root["path"] == str(place / "photos")
    listed = client.get("/api/folders", params={"path": root["path"]}).json()
    assert [one["name"] for one in listed["folders"]] == ["one", "two"]
    assert listed["parent"] is None and listed["files"] == 0
    below = client.get("/api/folders", params={"path": f"{root['path']}/one"}).json()
    assert (below["files"], below["parent"]) == (6, root["path"])
    (place / "photos" / "out").symlink_to(place)
    for path in (
        place,
        "/etc",
        f"{root['path']}/..",
        f"{root['path']}/out",
        f"{root['path']}/.hidden",
        "a\0b",
    ):
        answer = client.get("/api/folders", params={"path": str(path)})
        assert answer.status_code == 404 and "cannot be indexed" in answer.json()["error"]
        assert client.post("/api/jobs", json={"folder": str(path)}).status_code == 404


def test_answers_come_a_page_at_a_time(client):
    """The pages together are the whole list, whatever their length."""
    everything = client.get("/api/search", params={"text": "red", "k": 7}).json()["hits"]
    pages = [
        client.get("/api/search", params={"text": "red", "k": 3, "offset": offset}).json()[
            "hits"
        ]
        for offset in (0, 3, 6, 9)
    ]
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert [hit for page in pages for hit in page] == everything
    number = everything[0]["id"]
    near = client.get(f"/api/items/{number}/similar", params={"k": 6}).json()["hits"]
    rest = client.get(f"/api/items/{number}/similar", params={"k": 4, "offset": 4}).json()[
        "hits"
    ]
    assert rest == near[4:]
