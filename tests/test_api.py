"""The server: every route, what it refuses, and with which sentence and status."""

import copy
import io
import json
import re
import threading
import time
from pathlib import Path

import pytest
import serving
from fastapi.testclient import TestClient
from PIL import Image
from serving import CAT, ELEPHANT, ROCKET, name_of

from avow.api import Limits, create_app
from avow.api.pictures import Thumbnails, heat
from avow.api.refusals import Refusal
from avow.api.workers import Workers
from avow.retrieval.calibrate import calibrate
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.trust.held_out import RISKS

HERE = "http://127.0.0.1"
LINE = re.compile(r"[a-z_]+(\{.+\})? [\d.e+-]+")
LONG = 600.0  # seconds: it only ends a test that would hang
SMALL = Limits(upload_bytes=200_000, pixels=1_000_000, seconds=LONG)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return serving.index_once(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def retriever(index):
    return serving.judged(serving.opened(index))


@pytest.fixture(scope="module")
def client(retriever):
    with TestClient(create_app(retriever, limits=SMALL), base_url=HERE) as opened:
        yield opened


@pytest.fixture(scope="module")
def copied(index, tmp_path_factory):
    """A server whose index and pictures may be changed, and where the pictures are."""
    place = tmp_path_factory.mktemp("copy")
    app = create_app(serving.copy_of(index, place), limits=Limits(seconds=LONG))
    with TestClient(app, base_url=HERE) as opened:
        yield opened, place / "pictures"


def error_of(answer, status):
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error", "request_id"]
    return answer.json()["error"]


def item_called(client, name):
    found = client.get("/api/items", params={"where": f'name~"{name}"'}).json()["items"]
    assert len(found) == 1
    return found[0]


def as_file(picture: Image.Image, kind: str = "JPEG", **more) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **more)
    return stream.getvalue()


# --- searching --------------------------------------------------------------------------


def test_a_text_finds_its_picture(client):
    found = client.get("/api/search", params={"text": CAT, "k": 3}).json()
    assert (found["verdict"], name_of(found["hits"][0])) == ("answer", "chelsea")
    assert found["trust"] == found["hits"][0]["p_relevant"] > 0.9
    assert len(found["hits"]) == 3 and found["near_misses"] == []


def test_the_answer_is_the_one_dictionary(client, retriever):
    found = client.get("/api/search", params={"text": ROCKET, "k": 4}).json()
    assert found == json.loads(json.dumps(retriever.search(ROCKET, k=4).to_dict()))


@pytest.mark.parametrize("method", ["get", "post"])
def test_the_parts_of_a_search_are_timed(client, method):
    given = {"params" if method == "get" else "data": {"text": CAT}}
    answer = getattr(client, method)("/api/search", **given)
    told = dict(part.split(";dur=") for part in answer.headers["server-timing"].split(", "))
    assert set(told) == {"encode", "rank", "trust"}
    assert all(0 < float(taken) < 1000 * SMALL.seconds for taken in told.values())


def test_nothing_is_found_and_said(client):
    found = client.get("/api/search", params={"text": ELEPHANT, "k": 3}).json()
    assert (found["verdict"], found["hits"]) == ("nothing_found", [])
    assert len(found["near_misses"]) == 3
    assert found["why"].startswith("Probably no picture here fits")


@pytest.fixture(scope="module")
def english(index):
    """A server whose model says that it reads English alone."""
    retriever = serving.english(index)
    with TestClient(create_app(retriever, limits=SMALL), base_url=HERE) as opened:
        yield opened


@pytest.mark.parametrize(
    "text, problem, corrected",
    [
        ("a cat with long whiskrs", "unknown_word", CAT),
        ("eine Katze mit langen Haaren", "other_language", None),
    ],
)
def test_what_is_not_understood_is_said(english, text, problem, corrected):
    found = english.get("/api/search", params={"text": text, "k": 3}).json()
    assert (found["verdict"], found["hits"]) == ("not_understood", [])
    assert len(found["near_misses"]) == 3
    told = found["understanding"]
    assert (told["problem"], told["corrected"]) == (problem, corrected)
    assert found["why"] == told["message"]
    assert 'verdict="not_understood"' in english.get("/api/metrics").text


def test_a_model_that_may_read_other_languages_is_not_judged_by_english(index):
    encoder = copy.copy(serving.encoder_of(index))
    encoder.english = False
    retriever = Retriever(Library.open(index, encoder), encoder)
    with TestClient(create_app(retriever), base_url=HERE) as client:
        found = client.get("/api/search", params={"text": "eine Katze"}).json()
    assert found["understanding"] is None and found["verdict"] != "not_understood"


def test_a_run_whose_pieces_are_of_english_is_judged_by_english(client):
    found = client.get("/api/search", params={"text": "eine Katze"}).json()
    assert found["verdict"] == "not_understood"
    assert found["understanding"]["language"] == "de"


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_negation_is_left_out_unless_it_is_to_stay(english, method):
    def search(**asked):
        given = {"params" if method == "get" else "data": asked}
        found = getattr(english, method)("/api/search", **given).json()
        return found["query"], found["understanding"]

    typed = "a cat with no collar"
    query, told = search(text=typed)
    assert (query["text"], query["without"]) == ("a cat", "collar")
    assert (told["text"], told["without"]) == ("a cat", "collar")
    query, told = search(text=typed, rewrite="false")
    assert (query["text"], query["without"]) == (typed, None)
    assert (told["text"], told["without"]) == (typed, None)
    query, told = search(text=typed, without="a sofa")  # somebody said it already
    assert (query["text"], query["without"], told["without"]) == (typed, "a sofa", None)


def test_a_lower_risk_answers_less(client):
    asked = {"text": CAT, "k": 1}
    verdict = client.get("/api/search", params={**asked, "risk": 0.3}).json()["verdict"]
    assert verdict == "answer"
    verdict = client.get("/api/search", params={**asked, "risk": 0.001}).json()["verdict"]
    assert verdict == "check"


def test_a_picture_finds_itself(client, index):
    content = (index.parent / "pictures" / "coffee.jpg").read_bytes()
    found = client.post("/api/search", files={"image": ("c.jpg", content)}, data={"k": "2"})
    first = found.json()["hits"][0]
    assert name_of(first) == "coffee" and first["similarity"] > 0.99
    assert found.json()["verdict"] == "unjudged"


def test_a_picture_and_words_together(client, index):
    content = (index.parent / "pictures" / "coffee.jpg").read_bytes()
    asked = {"text": "a rocket", "without": "a cat", "where": "width>10", "kind": "image"}
    found = client.post("/api/search", files={"image": ("c.jpg", content)}, data=asked).json()
    assert found["query"]["text"] == "a rocket" and found["query"]["without"] == "a cat"
    assert {name_of(hit) for hit in found["hits"][:2]} == {"coffee", "rocket"}


def test_a_form_without_a_picture_is_a_text_search(client):
    found = client.post("/api/search", data={"text": CAT, "k": "1"}).json()
    assert name_of(found["hits"][0]) == "chelsea"


def test_texts_are_found_too(client):
    found = client.get("/api/search", params={"text": "coffee", "kind": "text"}).json()
    assert [hit["text"] for hit in found["hits"]] == ["a coffee cup on a saucer"]


def test_a_filter_chooses(client):
    asked = {"text": CAT, "where": 'name="rocket.jpg"'}
    found = client.get("/api/search", params=asked).json()
    assert found["uncertainty"]["K"] == 1
    assert name_of([*found["hits"], *found["near_misses"]][0]) == "rocket"


@pytest.mark.parametrize(
    "asked, words",
    [
        ({}, "nothing to search for"),
        ({"text": "?!"}, "has no words"),
        ({"text": CAT, "where": "taken >> 3"}, "not understood"),
        (
            {"text": CAT, "k": 0},
            "'k' is not usable: it is '0'. Expected a number of at least 1;",
        ),
        ({"text": CAT, "k": "x"}, "it is 'x'. Expected a whole number; correct it"),
        ({"text": CAT, "k": 10_000}, "Expected a number of at most 200; correct it"),
        ({"text": CAT, "risk": 1.5}, "'risk' is not usable: it is '1.5'. Expected a number"),
        ({"text": CAT, "risk": "nan"}, "'risk' is not usable: it is 'nan'. Expected a number"),
        ({"text": CAT, "risk": "x"}, "it is 'x'. Expected a number; correct it"),
        ({"text": CAT, "rewrite": "x"}, "it is 'x'. Expected true or false; correct it"),
        ({"text": CAT, "kind": "video"}, "it is 'video'. Expected 'image' or 'text'; correct"),
        ({"text": "a" * 1001}, "'text' is not usable. Expected a text with at most 1000 char"),
        ({"text": CAT, "without": CAT}, "Nothing is left"),
    ],
)
def test_a_mistake_is_a_sentence(client, asked, words):
    assert words in error_of(client.get("/api/search", params=asked), 422)


# --- uploads ----------------------------------------------------------------------------


def test_an_upload_that_is_too_large_is_refused(client):
    files = {"image": ("big.jpg", b"x" * 300_000)}
    assert "larger than 0.2 MB" in error_of(client.post("/api/search", files=files), 413)


def test_an_upload_of_unknown_length_is_cut_off(client):
    read = []

    def endless():
        head = b'--b\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
        yield head
        for number in range(1000):
            read.append(number)
            yield b"x" * 10_000

    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    error_of(client.post("/api/search", content=endless(), headers=kind), 413)


def test_a_picture_that_unpacks_to_too_much_is_refused(client):
    content = as_file(Image.new("L", (2000, 2000)), "PNG")
    assert len(content) < 10_000
    said = error_of(client.post("/api/search", files={"image": ("b.png", content)}), 413)
    assert said.startswith("The picture has 2000 x 2000 pixels. At most 1 million are read")


@pytest.mark.parametrize("content", [b"GIF89a", b"<svg/>", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_an_upload_that_is_no_picture_is_refused(client, content):
    said = error_of(client.post("/api/search", files={"image": ("a.png", content)}), 415)
    assert said.startswith("The upload is no picture that can be read.")


def test_a_broken_form_is_refused(client):
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = client.post("/api/search", content=b"--b\r\nnonsense", headers=kind)
    assert answer.status_code in (400, 422) and "error" in answer.json()


# --- items ------------------------------------------------------------------------------


def test_items_come_in_pages(client):
    first = client.get("/api/items", params={"limit": 10}).json()
    rest = client.get("/api/items", params={"limit": 10, "offset": 10}).json()
    assert first["total"] == rest["total"] == 18
    ids = [item["id"] for item in first["items"] + rest["items"]]
    assert len(set(ids)) == 18 and ids == sorted(ids, reverse=True)
    assert client.get("/api/items", params={"offset": 99}).json()["items"] == []


def test_an_item_tells_its_facts(client):
    item = item_called(client, "rocket")
    assert item == client.get(f"/api/items/{item['id']}").json()
    assert (item["kind"], item["width"], item["height"]) == ("image", 320, 214)


def test_items_pass_a_filter(client):
    assert client.get("/api/items", params={"where": 'name~"c*"'}).json()["total"] == 5
    assert client.get("/api/items", params={"kind": "text"}).json()["total"] == 1
    error_of(client.get("/api/items", params={"where": "("}), 422)


@pytest.mark.parametrize("rest", ["", "/thumbnail", "/picture", "/similar", "/explain?text=a"])
def test_an_unknown_item_is_not_found(client, rest):
    assert "no item 4711" in error_of(client.get(f"/api/items/4711{rest}"), 404)


def test_a_number_beyond_all_items_is_refused(client):
    error_of(client.get(f"/api/items/{2**70}"), 422)


@pytest.mark.parametrize("size, edge", [(16, 128), (128, 128), (200, 256)])
def test_a_thumbnail_has_its_size(client, size, edge):
    number = item_called(client, "rocket")["id"]
    answer = client.get(f"/api/items/{number}/thumbnail", params={"size": size})
    assert answer.headers["content-type"] == "image/jpeg"
    assert max(Image.open(io.BytesIO(answer.content)).size) == edge


def test_a_thumbnail_is_not_sent_twice(client):
    address = f"/api/items/{item_called(client, 'rocket')['id']}/thumbnail?size=128"
    mark = client.get(address).headers["etag"]
    again = client.get(address, headers={"If-None-Match": mark})
    assert (again.status_code, again.content) == (304, b"")


def test_a_text_has_no_picture(client):
    number = client.get("/api/items", params={"kind": "text"}).json()["items"][0]["id"]
    for rest in ("thumbnail", "picture", "explain?text=a"):
        assert "is a text" in error_of(client.get(f"/api/items/{number}/{rest}"), 404)


def test_a_picture_is_the_file(client, index):
    number = item_called(client, "rocket")["id"]
    answer = client.get(f"/api/items/{number}/picture")
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.content == (index.parent / "pictures" / "rocket.jpg").read_bytes()


def test_similar_pictures_leave_out_the_picture(client):
    number = item_called(client, "gravel")["id"]
    found = client.get(f"/api/items/{number}/similar", params={"k": 3}).json()
    ids = [hit["id"] for hit in found["hits"]]
    assert len(ids) == 3 and number not in ids


# --- why --------------------------------------------------------------------------------


def test_an_explanation_weighs_words_and_cells(client):
    number = item_called(client, "chelsea")["id"]
    told = client.get(f"/api/items/{number}/explain", params={"text": CAT}).json()
    weight = {one["word"]: one["weight"] for one in told["words"]}
    assert list(weight) == CAT.split()
    scored = {word: number for word, number in weight.items() if number is not None}
    assert list(scored) == ["cat", "long", "whiskers"]
    assert max(scored, key=scored.__getitem__) == "cat"
    assert [len(row) for row in told["cells"]] == [serving.GRID] * serving.GRID


def test_a_heat_map_is_a_transparent_picture(client):
    number = item_called(client, "chelsea")["id"]
    asked = {"text": CAT}
    answer = client.get(f"/api/items/{number}/explain/heat", params=asked)
    assert answer.headers["content-type"] == "image/png"
    drawn = Image.open(io.BytesIO(answer.content))
    low, high = drawn.getchannel("A").getextrema()
    cells = client.get(f"/api/items/{number}/explain", params=asked).json()["cells"]
    assert drawn.mode == "RGBA" and low == 0
    assert (high > 120) == (max(map(max, cells)) > 0), "warm only where something speaks for it"


def test_heat_is_strongest_where_the_weight_is():
    import numpy as np

    cells = np.array([[0.0, 0.0], [0.0, 0.4]], np.float32)
    alpha = Image.open(io.BytesIO(heat(cells))).getchannel("A")
    edge = alpha.width - 1
    assert alpha.getpixel((edge, edge)) > 150 > 20 > alpha.getpixel((0, 0))


def test_heat_of_nothing_is_empty():
    import numpy as np

    drawn = Image.open(io.BytesIO(heat(np.full((2, 2), np.nan, np.float32))))
    assert drawn.getchannel("A").getextrema() == (0, 0)


# --- only what was indexed ----------------------------------------------------------------


def refused_picture(client, number):
    for rest in ("thumbnail", "picture", "explain?text=a"):
        said = error_of(client.get(f"/api/items/{number}/{rest}"), 404)
        assert "not where it was indexed" in said


def test_a_link_out_of_the_folder_is_not_followed(copied, tmp_path):
    client, pictures = copied
    number = item_called(client, "moon")["id"]
    assert client.get(f"/api/items/{number}/thumbnail?size=300").status_code == 200
    secret = tmp_path / "secret.jpg"
    (pictures / "moon.jpg").rename(secret)
    (pictures / "moon.jpg").symlink_to(secret)
    refused_picture(client, number)


def test_a_folder_that_became_a_link_is_not_followed(copied, tmp_path):
    client, pictures = copied
    inside = pictures / "inside"
    inside.mkdir(exist_ok=True)
    Image.new("RGB", (64, 64), "teal").save(inside / "teal.png")
    wait_for(client, client.post("/api/jobs", json={}).json()["id"])
    number = item_called(client, "teal")["id"]
    assert client.get(f"/api/items/{number}/picture").status_code == 200
    inside.rename(tmp_path / "outside")
    inside.symlink_to(tmp_path / "outside")
    refused_picture(client, number)


def test_a_file_that_is_gone_is_told(copied):
    client, pictures = copied
    number = item_called(client, "coins")["id"]
    (pictures / "coins.jpg").unlink()
    refused_picture(client, number)


def test_a_file_that_is_no_picture_any_more_is_told(copied):
    client, pictures = copied
    number = item_called(client, "page")["id"]
    (pictures / "page.jpg").write_text("<script>")
    for rest in ("thumbnail", "picture"):
        error_of(client.get(f"/api/items/{number}/{rest}"), 415)


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/..%2f..%2fpyproject.toml",
        "/%2e%2e/api/app.py",
        "/....//app.py",
        "//etc/passwd",
        "/api/items/..%2f..%2fetc%2fpasswd/picture",
        "/%00",
    ],
)
def test_no_path_leads_out_of_the_page(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 405, 422), answer.text
    assert "root:" not in answer.text and "[project]" not in answer.text


def test_a_photograph_is_shown_upright(tmp_path):
    lying = Image.new("RGB", (80, 40), "navy")
    exif = lying.getexif()
    exif[0x0112] = 6  # turn a quarter
    exif[0x010F] = "A camera"
    lying.save(tmp_path / "lying.jpg", exif=exif)
    made = Image.open(
        io.BytesIO(Thumbnails(10**6, 10**6).make(tmp_path / "lying.jpg", "a", 64))
    )
    assert made.size == (40, 80) and not dict(made.getexif())


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "I", "F"])
def test_every_kind_of_picture_has_a_thumbnail(tmp_path, mode):
    kind = "tif" if mode in ("CMYK", "I", "F") else "png"
    path = tmp_path / f"one.{kind}"
    Image.new(mode, (30, 20)).save(path)
    made = Thumbnails(10**6, 10**6).make(path, mode, 64)
    assert Image.open(io.BytesIO(made)).size == (30, 20)


def test_thumbnails_use_no_more_memory_than_they_may(tmp_path):
    kept = Thumbnails(2500, 10**6)
    for number in range(6):
        path = tmp_path / f"{number}.png"
        Image.effect_noise((60, 60), 40 + number).save(path)
        made = kept.make(path, str(number), 64)
        assert len(made) < 2500 and kept.held <= 2500
    assert kept.held > 0


# --- the index, jobs, feedback ----------------------------------------------------------


def test_the_index_tells_what_it_holds(client, index):
    told = client.get("/api/index").json()
    assert (told["images"], told["texts"], told["exact"]) == (18, 1, True)
    assert told["folders"] == [str(index.parent / "pictures")]
    assert told["model"] == str(index.parent / "model")
    assert [Path(one["path"]).name for one in told["skipped"]] == ["broken.jpg"]
    limits = {"upload_bytes": 200_000, "pixels": 1_000_000, "clip_seconds": 60.0}
    assert told["limits"] == limits


def wait_for(client, number):
    serving.wait_until(
        lambda: client.get(f"/api/jobs/{number}").json()["state"] != "running", LONG
    )
    return client.get(f"/api/jobs/{number}").json()


def test_a_job_finds_what_is_new(copied):
    client, pictures = copied
    before = client.get("/api/index").json()
    Image.new("RGB", (64, 64), "crimson").save(pictures / "crimson.png")
    started = client.post("/api/jobs", json={"folder": before["folders"][0]})
    assert started.status_code == 202
    job = wait_for(client, started.json()["id"])
    assert job["state"] == "done" and job["done"] == job["total"] > 0
    assert job["says"].startswith("1 new"), job["says"]
    assert client.get("/api/jobs").json()["jobs"][0] == job
    assert item_called(client, "crimson")["width"] == 64
    assert client.get("/api/index").json()["fingerprint"] != before["fingerprint"]


def test_only_indexed_folders_are_scanned(client, tmp_path):
    said = error_of(client.post("/api/jobs", json={"folder": str(tmp_path)}), 404)
    assert "is not part of this index" in said
    error_of(client.post("/api/jobs", json={"folders": ["/"]}), 422)


def test_an_unknown_job_is_told(client):
    assert "no job 77" in error_of(client.get("/api/jobs/77"), 404)
    error_of(client.post("/api/jobs/77/cancel"), 404)


def test_one_job_runs_at_a_time_and_can_be_cancelled():
    from avow.api.jobs import JobList

    begun, ended = threading.Event(), []

    def scan(folders, progress, stop):
        begun.set()
        while not stop():
            time.sleep(0.01)
        return "stopped early"

    jobs = JobList(scan, lambda: ended.append(True))
    job = jobs.start(["a"])
    assert begun.wait(LONG) and job.answer().state == "running"
    with pytest.raises(Refusal, match="Job 1 is still running"):
        jobs.start(["a"])
    jobs.cancel(1)
    jobs.close(LONG)
    assert (job.state, job.says, ended) == ("cancelled", "stopped early", [True])
    assert jobs.start(["b"]).id == 2
    jobs.close()


def test_feedback_is_kept_and_taken_back(copied):
    client, _ = copied
    number = item_called(client, "rocket")["id"]
    told = {"query": {"text": ROCKET}, "item_id": number, "good": True}
    assert client.post("/api/feedback", json=told).json() == {"kept": 1}
    assert client.post("/api/feedback", json={**told, "good": False}).json() == {"kept": 1}
    other = {**told, "query": {"text": CAT}}
    assert client.post("/api/feedback", json=other).json() == {"kept": 2}
    assert client.post("/api/feedback", json={**told, "good": None}).json() == {"kept": 1}
    service = client.app.state.service
    (left,) = service.retriever.library.feedback()
    assert (left.query, left.item_id, left.good) == ({"text": CAT}, number, True)


def test_feedback_of_nothing_is_refused(client):
    told = {"query": {}, "item_id": 4711, "good": True}
    error_of(client.post("/api/feedback", json=told), 404)
    as_json = {"Content-Type": "application/json"}
    for sent, words in (
        ({"json": {"query": {}}}, "'item_id' is missing. Expected it in the request; add it"),
        (
            {"content": b"{", "headers": as_json},
            "The request is no JSON. Expected an object as JSON; correct it",
        ),
        ({"json": [1]}, "Expected an object with names and values; correct it"),
        ({"json": {**told, "query": 5}}, "'query' is not usable: it is 5. Expected an object"),
    ):
        assert words in error_of(client.post("/api/feedback", **sent), 422)
    long = {"query": {"text": "a" * 30_000}, "item_id": 1, "good": True}
    assert "more than 20000 letters" in error_of(client.post("/api/feedback", json=long), 422)


# --- trust ------------------------------------------------------------------------------


def test_calibration_offers_risks_and_their_cost(client):
    told = client.get("/api/calibration").json()
    assert told["fitted"] and told["doubts"] == []
    assert [one["risk"] for one in told["risks"]] == [None, *RISKS]
    offered = {one["risk"]: one["kinds"] for one in told["risks"]}
    assert offered[None] == offered[0.1] and len(offered[0.1]) == 1
    (hardly,), (one,), (more,) = offered[0.01], offered[0.1], offered[0.3]
    assert not hardly["promised"] and hardly["reason"] == "too few queries"
    assert "cannot be promised" in hardly["says"]
    assert one["promised"] and one["coverage"] == 0.4 and more["coverage"] > 0.4
    assert one["says"] == (
        "At most 10 % wrong: answers 40 % of questions; the others say “check”."
    )
    assert one["wrong"] is None  # its policy does not know the sizes of galleries


def test_an_index_without_calibration_says_so(copied):
    client, _ = copied
    told = client.get("/api/calibration").json()
    assert (told["fitted"], told["risks"]) == (False, [])
    assert "`avow calibrate`" in told["why"]


def test_a_calibration_of_this_index_is_used(index, tmp_path):
    retriever = serving.copy_of(index, tmp_path)  # others change the pictures of `copied`
    pairs = serving.write_pairs(tmp_path / "pictures", tmp_path / "pairs.jsonl")
    calibrate(retriever, pairs)
    app = create_app(retriever, limits=Limits(seconds=LONG))
    with TestClient(app, base_url=HERE) as client:
        _is_calibrated(client)


def _is_calibrated(client):
    told = client.get("/api/calibration").json()
    assert told["fitted"] and told["risks"][0]["risk"] is None
    coverage = [kind["coverage"] for one in told["risks"] for kind in one["kinds"]]
    assert 0 < max(coverage) <= 1
    found = client.get("/api/search", params={"text": CAT, "k": 3}).json()
    assert found["verdict"] != "unjudged" and 0 <= found["trust"] <= 1
    first, second = [*found["hits"], *found["near_misses"]][:2]
    assert first["p_relevant"] > second["p_relevant"]


# --- health and counts ------------------------------------------------------------------


def test_health(client):
    assert client.get("/api/health").json()["status"] == "ok"


def test_metrics_count_routes_and_verdicts(client):
    client.get("/api/search", params={"text": CAT})
    client.get("/api/made-up-by-somebody")
    text = client.get("/api/metrics").text
    lines = {
        line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line[0] != "#"
    }
    counted = 'avow_requests_total{method="GET",route="/api/search",status="200"}'
    total = lines[counted]
    assert total > 0 and "made-up" not in text
    assert lines['avow_request_seconds_bucket{le="+Inf",route="/api/search"}'] >= total
    assert lines['avow_verdicts_total{verdict="answer"}'] > 0
    assert lines["avow_items"] == 19
    plain = [line for line in text.splitlines() if line[0] != "#"]
    assert [line for line in plain if not LINE.fullmatch(line)] == []


# --- who may ask ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(retriever):
    limits = Limits(seconds=LONG)
    app = create_app(retriever, token="open sesame", hosts=["pictures.example"], limits=limits)
    with TestClient(app, base_url=HERE) as opened:
        yield opened


def fresh(guarded):
    """The same server asked by somebody else."""
    return TestClient(guarded.app, base_url=HERE, follow_redirects=False)


def test_without_the_token_nothing_is_told(guarded):
    client = fresh(guarded)
    for path in ("/api/index", "/api/search?text=a", "/api/metrics", "/api/openapi.json"):
        answer = client.get(path)
        assert "asks for a token" in error_of(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/api/health").status_code == 200
    for path in ("/", "/app.js", "/api.js", "/style.css"):
        assert client.get(path).status_code == 200, "the page itself tells nothing"


def test_the_token_opens(guarded):
    client = fresh(guarded)
    for given in ("Bearer open sesame", "bearer open sesame"):
        answer = client.get("/api/index", headers={"Authorization": given})
        assert answer.status_code == 200
    for given in ("Bearer open", "Basic open sesame", "Bearer", "Bearer öpen"):
        headers = [(b"Authorization", given.encode())]
        assert client.get("/api/index", headers=headers).status_code == 401


def test_the_address_with_the_token_gives_a_cookie(guarded):
    client = fresh(guarded)
    answer = client.get("/", params={"token": "open sesame", "q": "a cat"})
    assert (answer.status_code, answer.headers["location"]) == (303, "./?q=a+cat")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert client.get("/api/index").status_code == 200


def test_a_wrong_token_gives_none(guarded):
    client = fresh(guarded)
    answer = client.get("/", params={"token": "close sesame"})
    assert answer.status_code == 303 and "set-cookie" not in answer.headers
    assert client.get("/api/index").status_code == 401


@pytest.mark.parametrize(
    "host, status",
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8080", 200),
        ("localhost:8080", 200),
        ("[::1]:8080", 200),
        ("192.168.0.7", 200),
        ("pictures.example", 200),
        ("PICTURES.example:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8080", 421),
        ("", 421),
    ],
)
def test_only_known_names_are_answered(guarded, host, status):
    assert fresh(guarded).get("/api/health", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
def test_another_site_cannot_ask(client, headers):
    told = {"query": {}, "item_id": 1, "good": True}
    said = error_of(client.post("/api/feedback", json=told, headers=headers), 403)
    assert said.startswith("Another site sent this")


def test_the_own_page_can_ask(client):
    headers = {"Origin": HERE, "Sec-Fetch-Site": "same-origin"}
    assert client.get("/api/index", headers=headers).status_code == 200
    from_mail = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=from_mail).status_code == 200


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/index", "/api/nothing", "/nothing"])
def test_every_answer_carries_the_headers(client, path):
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers


# --- busy, slow, wrong --------------------------------------------------------------------


def slow_client(retriever, seconds, **limits):
    """A server whose searches wait until they are let go."""
    go = threading.Event()

    class Slow(type(retriever)):
        def search(self, *given, **named):
            go.wait(LONG)
            return retriever.search(*given, **named)

    slow = Slow(retriever.library, retriever.encoder)
    app = create_app(slow, limits=Limits(seconds=seconds, **limits))
    return TestClient(app, base_url=HERE), go


def test_a_search_that_takes_too_long_is_given_up(retriever):
    client, go = slow_client(retriever, 0.2)
    with client:
        said = error_of(client.get("/api/search", params={"text": CAT}), 504)
        go.set()
    assert said.startswith("This took longer than 0.2 seconds")


def test_a_busy_server_says_so_and_recovers(retriever):
    client, go = slow_client(retriever, LONG, at_once=1, waiting=1)
    with client:
        ask = lambda: client.get("/api/search", params={"text": CAT})  # noqa: E731
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(ask())) for _ in range(2)]
        for thread in threads:
            thread.start()
        service = client.app.state.service
        serving.wait_until(lambda: service.searching.inside == 2)
        refused = ask()
        assert "busy with 2 searches" in error_of(refused, 503)
        assert refused.headers["retry-after"] == "1"
        assert client.get("/api/index").status_code == 200, "only searches are busy"
        go.set()
        for thread in threads:
            thread.join()
        assert [answer.status_code for answer in answers] == [200, 200]
        assert ask().status_code == 200


def test_a_slow_search_keeps_its_place():
    import asyncio

    go = threading.Event()
    workers = Workers(at_once=1, waiting=0, seconds=0.05)
    with pytest.raises(Refusal) as late:
        asyncio.run(workers.run(go.wait, LONG))
    assert late.value.status_code == 504
    with pytest.raises(Refusal) as full:
        asyncio.run(workers.run(go.wait, LONG))
    assert full.value.status_code == 503
    go.set()
    serving.wait_until(lambda: not workers.inside)
    workers.seconds = LONG
    assert asyncio.run(workers.run(lambda: 7)) == 7
    workers.close()


def test_a_mistake_of_ours_is_a_sentence_too(retriever):
    class Broken(type(retriever)):
        def search(self, *given, **named):
            raise ZeroDivisionError

    app = create_app(Broken(retriever.library, retriever.encoder), limits=SMALL)
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        answer = client.get("/api/search", params={"text": CAT})
    assert "mistake of its own" in error_of(answer, 500)
    assert "x-content-type-options" in answer.headers


@pytest.mark.parametrize("path", ["/api/nothing", "/api/items/1/nothing", "/nothing.html"])
def test_what_is_not_there_is_told(client, path):
    assert f"There is nothing at {path!r}" in error_of(client.get(path), 404)


def test_what_cannot_be_done_is_told(client):
    assert "DELETE is not possible" in error_of(client.delete("/api/search"), 405)


def test_many_ask_at_once(retriever):
    """Answers are the same as one after the other."""
    texts = [CAT, ROCKET, "a cup of coffee", ELEPHANT] * 3
    app = create_app(retriever, limits=Limits(at_once=4, waiting=20, seconds=LONG))
    found = {}
    with TestClient(app, base_url=HERE) as client:

        def ask(number):
            found[number] = client.get("/api/search", params={"text": texts[number]}).json()

        threads = [threading.Thread(target=ask, args=[n]) for n in range(len(texts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number, text in enumerate(texts):
        assert found[number]["query"]["text"] == text
        assert found[number]["verdict"] == retriever.search(text).verdict


def test_the_schema_tells_every_route(client):
    schema = client.get("/api/openapi.json").json()
    assert set(schema["paths"]) == {
        "/api/search",
        "/api/items",
        "/api/items/{item_id}",
        "/api/items/{item_id}/thumbnail",
        "/api/items/{item_id}/picture",
        "/api/items/{item_id}/media",
        "/api/items/{item_id}/neighbours",
        "/api/items/{item_id}/similar",
        "/api/items/{item_id}/explain",
        "/api/items/{item_id}/explain/heat",
        "/api/export",
        "/api/export/{name}",
        "/api/folders",
        "/api/index",
        "/api/jobs",
        "/api/jobs/{job_id}",
        "/api/jobs/{job_id}/cancel",
        "/api/feedback",
        "/api/ticks",
        "/api/calibration",
        "/api/health",
        "/api/ready",
        "/api/metrics",
    }
    searched = schema["paths"]["/api/search"]["get"]["responses"]["200"]
    assert searched["content"]["application/json"]["schema"]["$ref"].endswith("/Found")
