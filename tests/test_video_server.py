"""Videos over HTTP and on the page: key frames, ranges, nothing from outside, a real player."""

import io
import re
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import serving
from encoders import ColourEncoder, picture
from moving import HOLIDAY, write_video
from starlette.testclient import TestClient

from avow.api import create_app
from avow.api.clips import container_of
from avow.api.limits import Limits
from avow.retrieval import clips
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever

pytest.importorskip("av")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "files"
    folder.mkdir()
    # every Chromium plays VP8, some builds no H.264
    write_video(folder / "holiday.webm", HOLIDAY, size=(160, 120))
    write_video(folder / "second.mp4", [("black", 4)])
    picture("yellow").save(folder / "yellow.png")
    (folder / "note.txt").write_text("a text")
    return folder


@pytest.fixture(scope="module")
def retriever(place: Path) -> Retriever:
    return opened(place)


def opened(folder: Path) -> Retriever:
    encoder = ColourEncoder()
    index_folders([folder], index=folder.parent / "index", encoder=encoder)
    return serving.judged(Retriever(Library.open(folder.parent / "index", encoder), encoder))


@pytest.fixture(scope="module")
def client(retriever: Retriever):
    with TestClient(create_app(retriever), base_url="http://127.0.0.1") as client:
        yield client


def first(client: TestClient, text: str, **more) -> dict:
    answer = client.get("/api/search", params={"text": text, "k": 5, **more}).json()
    return (answer["hits"] or answer["near_misses"])[0]


def test_a_hit_carries_its_times(client: TestClient):
    hit = first(client, "green")
    assert hit["kind"] == "video" and hit["path"].endswith("holiday.webm")
    assert hit["start"] == pytest.approx(4, abs=0.5) and hit["end"] == pytest.approx(9, abs=0.5)
    assert hit["start"] <= hit["key_frame"] <= hit["end"]
    assert hit["duration"] == pytest.approx(13, abs=0.2)
    item = client.get(f"/api/items/{hit['id']}").json()
    assert (item["kind"], item["key_frame"]) == ("video", hit["key_frame"])


def test_openapi_knows_the_fields_and_routes(client: TestClient):
    told = client.get("/api/openapi.json").json()
    parts = told["components"]["schemas"]
    for name in ("Hit", "ItemAnswer"):
        assert {"kind", "start", "end", "key_frame", "duration"} <= parts[name][
            "properties"
        ].keys()
    assert {"/api/items/{item_id}/media", "/api/items/{item_id}/neighbours"} <= told[
        "paths"
    ].keys()
    index = client.get("/api/index").json()
    assert (index["videos"], index["images"] - index["moments"]) == (2, 1)


@pytest.mark.parametrize("colour, channel", [("red", 0), ("green", 1), ("blue", 2)])
def test_the_thumbnail_is_the_key_frame(client: TestClient, colour: str, channel: int):
    import io

    import numpy as np
    from PIL import Image

    hit = first(client, colour, where="kind=video")
    answer = client.get(f"/api/items/{hit['id']}/thumbnail", params={"size": 128})
    assert answer.headers["content-type"] == "image/jpeg"
    pixels = np.asarray(Image.open(io.BytesIO(answer.content))).mean((0, 1))
    assert int(pixels.argmax()) == channel
    mark = answer.headers["etag"]
    again = client.get(
        f"/api/items/{hit['id']}/thumbnail",
        params={"size": 128},
        headers={"If-None-Match": mark},
    )
    assert again.status_code == 304


def test_thumbnails_of_one_video_are_kept_apart_and_bounded(retriever: Retriever, place: Path):
    from avow.api.pictures import Thumbnails

    thumbnails = Thumbnails(most=20_000, pixels=10**6)
    made = {
        thumbnails.make(place / "holiday.webm", "same", 128, time) for time in (1.0, 6.0, 11.0)
    }
    assert len(made) == 3 and 0 < thumbnails.held <= 20_000


def test_the_file_comes_in_ranges(client: TestClient, place: Path):
    hit = first(client, "green")
    whole = (place / "holiday.webm").read_bytes()
    answer = client.get(f"/api/items/{hit['id']}/media")
    assert answer.status_code == 200 and answer.content == whole
    assert answer.headers["content-type"] == "video/webm"
    assert answer.headers["accept-ranges"] == "bytes"
    part = client.get(f"/api/items/{hit['id']}/media", headers={"Range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, whole[100:200])
    assert part.headers["content-range"] == f"bytes 100-199/{len(whole)}"
    last = client.get(f"/api/items/{hit['id']}/media", headers={"Range": "bytes=-10"})
    assert (last.status_code, last.content) == (206, whole[-10:])
    beyond = {"Range": f"bytes={len(whole) + 5}-"}
    assert client.get(f"/api/items/{hit['id']}/media", headers=beyond).status_code == 416


def test_pictures_and_texts_have_no_media(client: TestClient):
    still = first(client, "yellow", where="kind=picture")
    assert client.get(f"/api/items/{still['id']}/media").status_code == 404
    [text] = client.get("/api/items", params={"kind": "text"}).json()["items"]
    refused = client.get(f"/api/items/{text['id']}/media")
    assert (
        refused.status_code == 404 and "is a text and has no video" in refused.json()["error"]
    )
    moment = first(client, "green")
    refused = client.get(f"/api/items/{moment['id']}/picture")
    assert refused.status_code == 404 and "Its file is at 'media'" in refused.json()["error"]


def test_nothing_outside_the_folders_or_no_video_is_served(tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    secret = write_video(tmp_path / "secret.mp4", [("white", 2)])
    for name in ("a.mp4", "b.mp4"):
        write_video(folder / name, [("red", 2)])
    with TestClient(create_app(opened(folder)), base_url="http://127.0.0.1") as client:
        items = client.get("/api/items").json()["items"]
        ids = {Path(item["path"]).name: item["id"] for item in items}
        (folder / "a.mp4").unlink()
        (folder / "a.mp4").symlink_to(secret)
        (folder / "b.mp4").write_bytes(b"root:x:0:0:a secret text")
        for number, status in ((ids["a.mp4"], 404), (ids["b.mp4"], 415), (10**6, 404)):
            answer = client.get(f"/api/items/{number}/media")
            assert answer.status_code == status
            assert "error" in answer.json()
        for name in ids:
            assert client.get(f"/api/items/{ids[name]}/thumbnail").status_code in (404, 415)


def test_a_token_guards_the_media(retriever: Retriever):
    app = create_app(retriever, token="secret")
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.get("/api/items/1/media").status_code == 401


def test_neighbours_are_the_moments_beside_in_order(client: TestClient):
    middle = first(client, "green")
    told = client.get(f"/api/items/{middle['id']}/neighbours", params={"many": 1}).json()
    starts = [item["start"] for item in told["items"]]
    assert starts == sorted(starts) and len(starts) == 3
    assert told["items"][1]["id"] == middle["id"]
    still = first(client, "yellow", where="kind=picture")
    assert client.get(f"/api/items/{still['id']}/neighbours").json()["items"] == []


def test_a_moment_is_explained_and_ticked(client: TestClient):
    moment = first(client, "green")
    told = client.get(f"/api/items/{moment['id']}/explain", params={"text": "green"}).json()
    assert told["similarity"] > 0.5 and told["words"][0]["word"] == "green"
    heat = client.get(f"/api/items/{moment['id']}/explain/heat", params={"text": "green"})
    assert heat.headers["content-type"] == "image/png"
    query = {"text": "green", "image": None, "without": None, "kind": "image", "where": None}
    tick = {"query": query, "item_id": moment["id"], "good": True}
    assert client.post("/api/feedback", json=tick).json()["kept"] >= 1


# --- a clip as a question --------------------------------------------------------------------


def ask_with(client: TestClient, path: Path, **more) -> Any:
    with path.open("rb") as file:
        return client.post("/api/search", files={"image": (path.name, file)}, data=more)


@pytest.mark.parametrize("name", ["clip.mp4", "clip.webm", "clip.avi", "clip.mkv"])
def test_a_clip_that_is_sent_finds_its_moment(client: TestClient, tmp_path: Path, name: str):
    clip = write_video(tmp_path / name, [("green", 3)])
    answer = ask_with(client, clip, k=1).json()
    [hit] = answer["hits"] or answer["near_misses"]
    assert Path(hit["path"]).name == "holiday.webm"
    assert hit["start"] == pytest.approx(4, abs=0.5)
    assert answer["query"]["image"] == "a clip"  # not the file that the server wrote


def test_a_clip_and_words_are_one_question(client: TestClient, tmp_path: Path):
    clip = write_video(tmp_path / "clip.mp4", [("green", 2)])
    answer = ask_with(client, clip, text="green", k=1).json()
    assert answer["query"]["text"] == "green" and answer["hits"][0]["kind"] == "video"


def test_a_clip_that_is_too_long_is_refused(retriever: Retriever, tmp_path: Path):
    clip = write_video(tmp_path / "clip.webm", [("green", 8)])
    app = create_app(retriever, limits=Limits(clip_seconds=5.0))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = ask_with(client, clip)
    assert answer.status_code == 422
    assert answer.json()["error"] == (
        "The clip 'a clip' lasts 0:08. Expected at most 0:05 to search with; cut out the part "
        "that you mean."
    )


def test_a_clip_that_does_not_say_its_length_is_not_read_to_its_end(
    retriever: Retriever, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(clips, "_check_length", lambda clip, seconds: None)
    clip = write_video(tmp_path / "clip.mp4", [("green", 120)])
    app = create_app(retriever, limits=Limits(clip_seconds=5.0))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = ask_with(client, clip)
    assert answer.status_code == 422 and "lasts more than that." in answer.json()["error"]


def test_a_broken_clip_is_refused_with_a_sentence(client: TestClient, tmp_path: Path):
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(b"\0\0\0\x18ftypisom" + bytes(300))
    answer = ask_with(client, clip)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("The clip 'a clip' cannot be searched with (")
    assert str(tempfile.gettempdir()) not in answer.json()["error"]


def test_nothing_is_left_of_a_clip(client: TestClient, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    clip = write_video(tmp_path / "clip.mp4", [("green", 2)])
    assert ask_with(client, clip).status_code == 200
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_archive_holds_the_film_of_several_moments_once(client: TestClient, place: Path):
    items = client.get("/api/items", params={"limit": 50}).json()["items"]
    ids = [one["id"] for one in items if one["path"].endswith("holiday.webm")]
    told = client.post("/api/export", json={"ids": ids}).json()
    assert len(ids) > 1 and (told["files"], told["left_out"]) == (1, [])
    sent = client.get(f"/api/export/{told['name']}").content
    with zipfile.ZipFile(io.BytesIO(sent)) as archive:
        assert archive.namelist() == ["holiday.webm"]
        assert archive.read("holiday.webm") == (place / "holiday.webm").read_bytes()


def test_photographs_of_phones_are_no_clips():
    assert container_of(b"\0\0\0\x18ftypheic\0\0\0\0") is None
    assert container_of(b"\0\0\0\x18ftypavif\0\0\0\0") is None
    assert container_of(b"\0\0\0\x18ftypmp42\0\0\0\0") == ".mp4"
    assert container_of(b"RIFF\0\0\0\0WEBP") is None


# --- the page ------------------------------------------------------------------------------

PLAYER = "#why video"
SOON = 300_000


@pytest.fixture(scope="module")
def address(retriever: Retriever):
    with serving.Server(create_app(retriever, limits=serving.PATIENT)) as where:
        yield where


def complaints(seen) -> list[str]:
    """A player breaks off what it has read enough of, and a still that it replaces, too."""
    broken_off = ("/media", "/thumbnail")
    return [one for one in seen.complaints if not any(part in one for part in broken_off)]


def on_page(seen, expression: str):
    """Wait until it is true; as a function, which the rules of the page allow."""
    seen.page.wait_for_function(f"() => {expression}", timeout=serving.LONG * 1000)


@pytest.mark.browser
def test_the_page_plays_from_the_moment(visit, address):
    seen = visit(f"{address}/?q=green")
    seen.page.wait_for_selector("#shown .look[data-id]", timeout=SOON)
    card = seen.page.locator("#shown .look").first
    when = card.locator(".when").inner_text()
    assert re.fullmatch("0:0[34]\N{EN DASH}0:0[89]", when)
    assert f"holiday.webm {when}" in card.get_attribute("aria-label")
    card.click()
    on_page(seen, f"document.querySelector('{PLAYER}')?.readyState >= 2")
    time = seen.page.evaluate(f"document.querySelector('{PLAYER}').currentTime")
    assert time == pytest.approx(4, abs=0.5)
    assert "#t=" in seen.page.evaluate(f"document.querySelector('{PLAYER}').src")
    seen.page.evaluate(
        f"(() => {{ const it = document.querySelector('{PLAYER}');"
        " it.muted = true; it.play(); })()"
    )
    on_page(seen, f"document.querySelector('{PLAYER}').currentTime > {time + 0.3}")
    assert not seen.page.evaluate(f"document.querySelector('{PLAYER}').error")
    seen.page.wait_for_selector("#why .strip .look[aria-current]", timeout=SOON)
    assert seen.page.locator("#why .strip .look").count() == 3
    assert seen.page.locator("#why .heat").count() == 0
    seen.page.keyboard.press("Escape")
    on_page(seen, f"document.querySelector('{PLAYER}').paused")
    assert complaints(seen) == []
    assert [one for one in seen.asked if not one.startswith((address, "blob:"))] == []


@pytest.mark.browser
def test_the_strip_leads_to_the_moment_before(visit, address):
    seen = visit(f"{address}/?q=green")
    seen.page.wait_for_selector("#shown .look[data-id]", timeout=SOON)
    seen.page.locator("#shown .look").first.click()
    seen.page.wait_for_selector("#why .strip .look", timeout=SOON)
    seen.page.locator("#why .strip .look").first.click()
    on_page(seen, f"document.querySelector('{PLAYER}')?.src.includes('#t=0.0')")
    on_page(seen, f"document.querySelector('{PLAYER}').readyState >= 2")
    assert seen.page.evaluate(f"document.querySelector('{PLAYER}').currentTime") < 0.5


@pytest.mark.browser
def test_an_address_with_a_moment_opens_its_player(visit, address, client):
    moment = first(client, "blue")
    seen = visit(f"{address}/?item={moment['id']}")
    on_page(seen, f"document.querySelector('{PLAYER}')?.readyState >= 1")
    assert seen.page.locator("#why-name").inner_text() == "holiday.webm"
    assert complaints(seen) == []


@pytest.mark.browser
def test_the_page_searches_with_a_clip(visit, address, tmp_path: Path):
    clip = write_video(tmp_path / "mine.mp4", [("green", 3)])
    seen = visit(f"{address}/")
    seen.page.wait_for_selector(".wall .look", timeout=SOON)
    seen.page.set_input_files("#file", str(clip))
    seen.page.wait_for_selector("body[data-state=told] #shown .look[data-id]", timeout=SOON)
    first = seen.page.locator("#shown .look").first.get_attribute("aria-label")
    assert "holiday.webm 0:0" in first
    assert seen.page.locator("#chosen-clip").inner_text() == "mine.mp4"
    assert not seen.page.locator("#chosen-picture").is_visible()
    seen.page.click("#chosen-remove")
    seen.page.wait_for_selector("body[data-state=home]", timeout=SOON)
    assert not seen.page.locator("#chosen").is_visible()
    assert complaints(seen) == []


@pytest.mark.browser
def test_a_clip_that_is_too_long_is_told_on_the_page(visit, retriever, tmp_path: Path):
    clip = write_video(tmp_path / "long.mp4", [("green", 9)])
    limits = replace(serving.PATIENT, clip_seconds=5.0)
    with serving.Server(create_app(retriever, limits=limits)) as address:
        seen = visit(f"{address}/")
        seen.page.wait_for_selector(".wall .look", timeout=SOON)
        seen.page.set_input_files("#file", str(clip))
        seen.page.wait_for_selector("body[data-state=failed]", timeout=SOON)
        assert "lasts 0:09. Expected at most 0:05" in seen.page.inner_text("#shown")


@pytest.mark.browser
def test_the_page_filters_by_kind(visit, address):
    labels = "[...document.querySelectorAll('#shown .look')].map((one) => one.ariaLabel)"
    seen = visit(f"{address}/?q=yellow&kind=video")
    seen.page.wait_for_selector("#shown .look[data-id]", state="attached", timeout=SOON)
    names = seen.page.evaluate(labels)
    assert names and all("holiday.webm" in one or "second.mp4" in one for one in names)
    assert seen.page.input_value("#kind") == "video"
    seen.page.evaluate("document.getElementById('more').open = true")
    seen.page.select_option("#kind", "picture")
    seen.page.press("#text", "Enter")
    on_page(seen, f"{labels}.join().startsWith('1. yellow.png,')")
    assert len(seen.page.evaluate(labels)) == 1
    assert seen.page.locator("#index-line").inner_text() == "1 picture, 2 videos"


@pytest.mark.browser
def test_a_film_that_the_browser_cannot_play_shows_its_key_frame(visit, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    write_video(folder / "old.avi", [("green", 4)])
    with serving.Server(create_app(opened(folder), limits=serving.PATIENT)) as address:
        seen = visit(f"{address}/?q=green")
        seen.page.wait_for_selector("#shown .look[data-id]", state="attached", timeout=SOON)
        seen.page.locator("#shown .look").first.click(force=True)
        seen.page.wait_for_selector("#heated .note", timeout=SOON)
        on_page(seen, "document.querySelector('#heated img')?.naturalWidth > 0")
