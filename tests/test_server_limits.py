"""What strangers send to a server: half requests, floods, dear filters, broken text.

Every deadline here is set by the test. Nothing is measured against the clock: a state is
waited for, and bounds only end a test that would hang.
"""

import asyncio
import json
import signal
import socket
import threading
import urllib.request
from contextlib import ExitStack, closing

import numpy as np
import pytest
import serving
from encoders import ColourEncoder, picture
from fastapi.testclient import TestClient
from PIL import Image
from serving import wait_until

from avow.api import Limits, connections, create_app
from avow.api.clients import Address, address_of
from avow.core.decoding_child import send
from avow.core.errors import BadQuery, Unavailable, WrongIndex
from avow.retrieval.indexing import index_folders
from avow.retrieval.labelled_queries import read_known
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.retrieval.store import feedback, filter_process, filtering
from avow.retrieval.store.catalogue import changing, open_catalogue
from avow.retrieval.store.items import TAGS_SHOWN
from avow.retrieval.store.row_checksums import seal_tags
from avow.retrieval.where import Where

HERE, LONG = "http://127.0.0.1", 600.0
COLOURS = ("red", "green", "blue", "yellow")
HALF = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-More: "
HEALTH = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def retriever(tmp_path):
    (tmp_path / "photos").mkdir()
    for colour in COLOURS:
        picture(colour).save(tmp_path / "photos" / f"{colour}.png")
    encoder = ColourEncoder()
    index_folders([tmp_path / "photos"], index=tmp_path / "index", encoder=encoder)
    with Library.open(tmp_path / "index", encoder) as library:
        yield Retriever(library, encoder)


def limited(retriever, **limits):
    return create_app(retriever, limits=Limits(**{"seconds": LONG, **limits}))


@pytest.fixture
def client(retriever):
    with TestClient(limited(retriever), base_url=HERE) as opened:
        yield opened


def error_of(answer, status):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


def get(address, path):
    with urllib.request.urlopen(f"{address}{path}", timeout=LONG) as answer:
        return answer.status, json.loads(answer.read())


# --- nothing waits on the event loop ------------------------------------------------------


def on_the_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_no_route_reads_the_index_on_the_event_loop(client, retriever, monkeypatch):
    asked = []
    for name in ("items", "folders", "find", "refresh", "skipped", "feedback", "search"):
        asked_before = getattr(Library, name)

        def note(self, *given, name=name, plain=asked_before, **named):
            asked.append((name, on_the_loop()))
            return plain(self, *given, **named)

        monkeypatch.setattr(Library, name, note)
    number = int(retriever.library.find()[0])
    told = {"query": {"text": "red"}, "item_id": number, "good": True}
    for path in (
        "/api/index",
        "/api/jobs",
        "/api/metrics",
        "/api/calibration",
        "/api/search?text=red&where=width>1",
        "/api/items?where=width>1",
        f"/api/items/{number}",
        f"/api/items/{number}/thumbnail",
        f"/api/items/{number}/picture",
        f"/api/items/{number}/similar",
    ):
        assert client.get(path).status_code == 200, path
    assert client.post("/api/feedback", json=told).status_code == 200
    assert client.post("/api/jobs", json={}).status_code == 202
    wait_until(lambda: client.get("/api/jobs/1").json()["state"] != "running")
    assert {name for name, _ in asked} >= {"items", "folders", "find", "refresh", "skipped"}
    assert {name for name, loop in asked if loop} == set()


@pytest.fixture
def written(retriever):
    """Another process holds the catalogue's writer lock."""
    with closing(open_catalogue(retriever.library.folder)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def test_others_are_answered_while_feedback_waits(retriever, written, monkeypatch):
    monkeypatch.setattr(feedback, "PATIENCE", LONG)
    app = limited(retriever)
    number = int(retriever.library.find()[0])
    told = json.dumps({"query": {"text": "red"}, "item_id": number, "good": True}).encode()
    kept = []
    with serving.Server(app) as address:

        def send():
            with urllib.request.urlopen(
                urllib.request.Request(
                    f"{address}/api/feedback", told, {"Content-Type": "application/json"}
                ),
                timeout=LONG,
            ) as answer:
                kept.append(json.loads(answer.read()))

        thread = threading.Thread(target=send)
        thread.start()
        wait_until(lambda: app.state.service.writing.inside == 1)
        for path in ("/api/health", f"/api/items/{number}", "/api/index", "/api/search?text=a"):
            assert get(address, path)[0] == 200
        assert kept == [] and app.state.service.writing.inside == 1
        written.execute("COMMIT")
        thread.join()
    assert kept == [{"kept": 1}]


def test_an_index_that_is_being_written_is_told(client, retriever, written, monkeypatch):
    monkeypatch.setattr(feedback, "PATIENCE", 0.05)
    told = {"query": {"text": "red"}, "item_id": 1, "good": True}
    answer = client.post("/api/feedback", json=told)
    assert "is being written by another process" in error_of(answer, 503)
    assert answer.headers["retry-after"] == "1"
    with pytest.raises(Unavailable, match="Try again in a moment"):
        retriever.feedback("red", 1, True)
    written.execute("COMMIT")
    assert client.post("/api/feedback", json=told).json() == {"kept": 1}


# --- filters ------------------------------------------------------------------------------


def test_alternatives_of_a_field_are_one_comparison(retriever, monkeypatch):
    calls = []
    plain = filtering.matches_any
    monkeypatch.setattr(
        filtering, "matches_any", lambda *given: (calls.append(given), plain(*given))[1]
    )
    text = " or ".join(f"path~*{n}*q" for n in range(76)) + " or name~blue"
    assert len(retriever.library.find(Where.parse(text))) == 1
    assert len(calls) <= 2 * len(COLOURS)


def test_a_filter_has_a_limit_of_work(client, retriever, monkeypatch):
    where = Where.parse(" or ".join(["name~red", "name~blue", "tag=x"]))
    assert where.comparisons == 3
    monkeypatch.setattr(filtering, "MOST_WORK", 8)
    with pytest.raises(BadQuery, match=r"3 comparisons for each of 4 items.*at most 2"):
        retriever.library.find(where)
    for path in ("/api/items", "/api/search"):
        asked = {"where": where.text, **({"text": "red"} if "search" in path else {})}
        assert "use fewer alternatives" in error_of(client.get(path, params=asked), 422)


@pytest.mark.parametrize(
    ("text", "steps"), [("name~blue", 1), ("tag=x or width>1", 1), ("name~blue", 10**9)]
)
def test_a_filter_has_a_deadline(client, retriever, monkeypatch, text, steps):
    """Looked at between steps of SQLite, and in every comparison with a pattern."""
    monkeypatch.setattr(filtering, "SECONDS", -1.0)
    monkeypatch.setattr(filtering, "_STEPS", steps)
    with pytest.raises(BadQuery, match="took longer than -1 seconds and was stopped"):
        retriever.library.find(Where.parse(text))
    assert "was stopped" in error_of(client.get("/api/items", params={"where": text}), 422)


def test_another_fault_of_a_filter_is_not_told_as_its_deadline(retriever, monkeypatch):
    def broken(*_):
        raise RuntimeError

    monkeypatch.setattr(filtering, "matches_any", broken)
    with pytest.raises(WrongIndex, match="user-defined function raised exception"):
        retriever.library.find(Where.parse("name~blue"))


@pytest.fixture
def apart(retriever, monkeypatch):
    """A library whose filters run in another process, and in this one never."""

    def refuse(*_):
        raise AssertionError("a filter took the interpreter of the server")

    retriever.library.filter_apart()
    monkeypatch.setattr(filter_process, "choose", refuse)
    return retriever.library


@pytest.mark.parametrize("text", ["name~r*e*d", "name=blue.png or path~YELLOW", "tag=x"])
def test_a_filter_of_a_server_runs_in_a_process_of_its_own(apart, text):
    where = Where.parse(text)
    with Library.open(apart.folder, ColourEncoder()) as other:
        for kind in ("image", "text"):
            here = filtering.choose(apart.folder, where, kind, 4, other._filters.checked)
            assert apart.find(where, kind).tolist() == here.tolist()


def test_faults_of_a_filter_elsewhere_are_told_as_here(apart, tmp_path):
    where = Where.parse("name~red")
    with pytest.raises(BadQuery, match="1 comparisons for each of 99999999 items"):
        apart._filters.choose(where, "image", 99_999_999)
    with closing(open_catalogue(tmp_path / "index")) as link:
        link.execute("UPDATE files SET name = 'rad.png' WHERE name = 'red.png'")
    with pytest.raises(WrongIndex, match="description of item 3 has changed"):
        apart.find(where)
    with pytest.raises(RuntimeError, match="KeyError: 'x'"):
        raise filter_process._error({"error": "KeyError", "why": "'x'"})


def test_a_filter_whose_process_was_killed_gets_another(apart, monkeypatch):
    where = Where.parse("name~red")
    found = apart.find(where).tolist()
    first = apart._filters._process
    first.kill()
    assert apart.find(where).tolist() == found
    second = apart._filters._process
    assert second.pid != first.pid and first.returncode == -9
    monkeypatch.setattr(filter_process.sys, "executable", "/bin/false")
    second.kill()
    with pytest.raises(Unavailable, match="'name~red' ended before it had an answer"):
        apart.find(where)
    monkeypatch.undo()
    apart.filter_apart()
    assert apart.find(where).tolist() == found
    last = apart._filters._process
    apart.close()
    assert last.returncode == -9 and apart._filters._process is None


def test_a_file_where_the_server_was_started_is_not_run(apart, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("avow", "numpy", "signal", "PIL"):
        (tmp_path / f"{name}.py").write_text("open('was-here', 'w')")
    assert len(apart.find(Where.parse("name~red"))) == 1
    assert not (tmp_path / "was-here").exists()


def test_the_process_of_filters_ends_without_a_word_where_nobody_reads(apart, capfd):
    apart.find(Where.parse("name~red"))
    process = apart._filters._process
    process.stdout.close()
    asked = {"folder": str(apart.folder), "where": "name~r", "kind": "image", "items": 4}
    send(process.stdin, asked)
    assert process.wait(LONG) == 0
    assert capfd.readouterr().err == ""


def test_the_process_of_filters_ends_with_its_server(apart):
    apart.find(Where.parse("name~red"))
    process = apart._filters._process
    process.send_signal(signal.SIGINT)  # Ctrl-C reaches it, too, and means the server
    assert apart.find(Where.parse("name~blue")).tolist() and process.poll() is None
    process.stdin.close()
    assert process.wait(LONG) == 0


# --- half requests and floods ---------------------------------------------------------------


def opened(server, *, source="127.0.0.1") -> socket.socket:
    return socket.create_connection(server.place, LONG, source_address=(source, 0))


def everything(link: socket.socket) -> bytes:
    """What the server sends until it closes."""
    parts = []
    try:
        while part := link.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def open_connections(server) -> int:
    return len(server.server.server_state.connections)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", HALF])
def test_a_request_that_never_ends_is_given_up(retriever, sent):
    server = serving.Server(limited(retriever, header_seconds=0.1))
    with server, opened(server) as link:
        link.sendall(sent)
        assert everything(link).startswith(b"HTTP/1.1 408 ")
        wait_until(lambda: open_connections(server) == 0)


def test_a_byte_now_and_then_does_not_help(retriever):
    server = serving.Server(limited(retriever, header_seconds=0.3))
    with server, opened(server) as link:
        link.sendall(HALF)

        def drip():
            while not ended.wait(0.02):
                try:
                    link.sendall(b"x")
                except OSError:
                    return

        ended = threading.Event()
        thread = threading.Thread(target=drip)
        thread.start()
        wait_until(lambda: open_connections(server) == 0)
        ended.set()
        thread.join()


@pytest.mark.parametrize("limits", [{"body_seconds": 0.1}, {"request_seconds": 0.3}])
@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=b"])
def test_a_body_that_never_ends_is_given_up(retriever, limits, kind, caplog):
    server = serving.Server(limited(retriever, **limits))
    path = "/api/feedback" if "json" in kind else "/api/search"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
    with server, opened(server) as link:
        first = b"{" if "json" in kind else b"--b"
        link.sendall(head.encode() + b"Content-Length: 1000\r\n\r\n" + first)
        assert everything(link).startswith(b"HTTP/1.1 408 ")
        wait_until(lambda: open_connections(server) == 0)
    assert caplog.text == ""


def test_a_body_behind_a_refusal_is_given_up(retriever):
    app = create_app(retriever, token="sesame", limits=Limits(body_seconds=0.1))
    server = serving.Server(app)
    with server, opened(server) as link:
        link.sendall(b"POST /api/feedback HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        link.sendall(b"Content-Length: 1000\r\n\r\n{")
        answer = everything(link)
        assert answer.startswith(b"HTTP/1.1 401 ") and b" 408 " not in answer


def test_an_answer_that_nobody_reads_is_given_up(retriever, tmp_path):
    Image.new("RGB", (3000, 2000)).save(tmp_path / "photos" / "large.bmp")
    index_folders([tmp_path / "photos"], index=tmp_path / "index", encoder=retriever.encoder)
    retriever.library.refresh()
    number = int(retriever.library.find(Where.parse("name=large.bmp"))[0])
    server = serving.Server(limited(retriever, answer_seconds=0.1))
    with server, opened(server) as link:
        asked = f"GET /api/items/{number}/picture HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        link.sendall(asked.encode())
        assert link.recv(12) == b"HTTP/1.1 200"
        wait_until(lambda: open_connections(server) == 0)


def test_connections_between_requests_are_kept(retriever):
    """The deadline of a request begins with it, not with the connection."""
    limits = Limits(seconds=LONG, header_seconds=LONG)
    server = serving.Server(create_app(retriever, limits=limits))
    server.server.config.timeout_keep_alive = LONG
    with server, opened(server) as link:
        for _ in range(3):
            link.sendall(HEALTH)
            answer = b""
            while b"version" not in answer:
                part = link.recv(65536)
                assert part, answer
                answer += part
            # a request has arrived: only a deadline that begins after it is this short
            object.__setattr__(limits, "header_seconds", 0.1)
            threading.Event().wait(0.4)
        assert open_connections(server) == 1


def test_a_flood_of_half_requests_keeps_nobody_out(retriever):
    server = serving.Server(limited(retriever, connections=16, header_seconds=LONG))
    with server as address, ExitStack() as held:
        for _ in range(60):
            held.enter_context(opened(server)).sendall(HALF)
        for _ in range(5):
            assert get(address, "/api/health")[1]["status"] == "ok"
            assert get(address, "/api/search?text=red")[0] == 200
        assert open_connections(server) <= 17


def test_a_request_under_way_is_not_closed_for_another(retriever):
    go = threading.Event()

    class Slow(Retriever):
        def search(self, *given, **named):
            go.wait(LONG)
            return retriever.search(*given, **named)

    app = limited(Slow(retriever.library, retriever.encoder), connections=2, at_once=2)
    server = serving.Server(app)
    asked = b"GET /api/search?text=red HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with server, ExitStack() as held:
        links = [held.enter_context(opened(server)) for _ in range(2)]
        for link in links:
            link.sendall(asked)
        wait_until(lambda: app.state.service.searching.inside == 2)
        with opened(server) as more:
            assert everything(more).startswith(b"HTTP/1.1 503 ")
        go.set()
        assert [everything(link)[:12] for link in links] == [b"HTTP/1.1 200"] * 2
        wait_until(lambda: open_connections(server) == 0)
        with opened(server) as again:
            again.sendall(asked)
            assert everything(again).startswith(b"HTTP/1.1 200")


def test_one_client_has_its_share_of_connections(retriever, monkeypatch):
    """Two addresses of this machine stand for two others."""
    plain = connections.address_of
    monkeypatch.setattr(connections, "address_of", lambda host: Address(plain(host).key, False))
    limits = {"connections": 50, "connections_per_client": 4, "header_seconds": LONG}
    server = serving.Server(limited(retriever, **limits))
    try:
        with socket.create_server(("127.0.0.2", 0)):
            pass
    except OSError:
        pytest.skip("this system has one loopback address only")
    with server, ExitStack() as held:
        quiet = held.enter_context(opened(server, source="127.0.0.3"))
        quiet.sendall(HALF)
        for _ in range(20):
            held.enter_context(opened(server, source="127.0.0.2")).sendall(HALF)
        quiet.sendall(b"x\r\n\r\n")
        assert quiet.recv(12) == b"HTTP/1.1 200"
        wait_until(lambda: open_connections(server) <= 5)


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
    ],
)
def test_who_counts_as_one_client(one, other, same):
    assert (address_of(one) == address_of(other)) == same
    assert not address_of(one).is_loopback
    assert address_of("::1").is_loopback


# --- text that is none, and too much of it --------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        rb'{"query":{"text":"\ud800"},"item_id":1,"good":true}',
        rb'{"query":{"\udfff":1},"item_id":1,"good":true}',
        rb'{"query":{"a":[{"b":"x\ud800"}]},"item_id":1,"good":null}',
        rb'{"query":{},"\ud800":1,"item_id":1,"good":true}',
        b'{"query":{"text":"\xed\xa0\x80"},"item_id":1,"good":true}',
    ],
)
def test_half_a_character_is_refused(client, retriever, body):
    kind = {"Content-Type": "application/json"}
    answer = client.post("/api/feedback", content=body, headers=kind)
    assert "half of a character" in error_of(answer, 422)
    assert retriever.library.feedback() == []
    answer = client.post("/api/jobs", content=rb'{"folder": "\ud800"}', headers=kind)
    assert "half of a character" in error_of(answer, 422)


def test_half_a_character_is_refused_in_python(retriever):
    with pytest.raises(BadQuery, match="half of a character"):
        retriever.feedback({"text": "\ud800"}, 1, True)
    with pytest.raises(BadQuery, match="more than 20000 letters"):
        retriever.feedback({"text": "a" * 30_000}, 1, True)
    assert retriever.library.feedback() == []


def test_a_form_in_another_character_set_is_refused(client):
    body = b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\n\\ud800\r\n--b--\r\n'
    for charset in ("unicode_escape", "utf-7", "punycode"):
        kind = f"multipart/form-data; boundary=b; charset={charset}"
        answer = client.post("/api/search", content=body, headers={"Content-Type": kind})
        assert "character set" in error_of(answer, 415)
    kind = "multipart/form-data; boundary=b; charset=UTF-8"
    answer = client.post("/api/search", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 200


def test_a_body_that_is_parsed_at_once_is_small(client):
    kind = {"Content-Type": "application/json"}
    large = json.dumps({"query": {"text": "a" * 200_000}, "item_id": 1, "good": True})
    answer = client.post("/api/feedback", content=large, headers=kind)
    assert "larger than 0.1 MB" in error_of(answer, 413)
    deep = b'{"query":{"a":' + b"[" * 40_000
    answer = client.post("/api/feedback", content=deep, headers=kind)
    assert answer.status_code in (400, 422) and "error" in answer.json()


def test_feedback_that_holds_no_query_is_passed_over(retriever):
    numbers = retriever.library.find().tolist()
    retriever.feedback("red", numbers[0], True)
    with closing(open_catalogue(retriever.library.folder)) as link, changing(link):
        for stored in (
            r'{"text": "\ud800"}',
            '{"text": ["red"]}',
            '{"text": "??"}',
            json.dumps({"text": "a" * 5000}),
            "[1]",
            "no JSON",
        ):
            link.execute(
                "INSERT INTO feedback (query, item, good, happened) VALUES (?, ?, 1, 0)",
                [stored, numbers[0]],
            )
    retriever.feedback({"text": None, "image": "a.jpg"}, numbers[0], True)
    known = read_known(retriever.library, None)
    assert (known.right, known.passed_over) == ({"red": {numbers[0]}}, 6)


# --- large items ----------------------------------------------------------------------------


def test_a_hit_shows_some_of_many_tags(client, retriever):
    number = int(retriever.library.find()[0])
    tags = [f"{n:05}" for n in range(2000)] + ["a" * 5000]
    with closing(open_catalogue(retriever.library.folder)) as link, changing(link):
        link.executemany("INSERT INTO tags VALUES (?, ?)", [(number, tag) for tag in tags])
        link.execute("UPDATE items SET tagged = ? WHERE id = ?", [seal_tags(tags), number])
    item = client.get(f"/api/items/{number}").json()
    assert item["tags"] == tags[:TAGS_SHOWN] and item["tags_total"] == 2001
    hits = client.get("/api/search", params={"text": "red"}).json()["hits"]
    shown = next(hit for hit in hits if hit["id"] == number)
    assert (len(shown["tags"]), shown["tags_total"]) == (TAGS_SHOWN, 2001)
    assert all(hit["tags_total"] == 0 for hit in hits if hit["id"] != number)
    assert np.array_equal(retriever.library.find(Where.parse("tag=01999")), [number])


def test_a_text_is_shown_up_to_a_length(retriever, tmp_path):
    (tmp_path / "photos" / "long.txt").write_text("red " * 30_000)
    index_folders([tmp_path / "photos"], index=tmp_path / "index", encoder=retriever.encoder)
    [hit] = retriever.search("red", kind="text").hits
    assert hit.text is not None and len(hit.text) == 9_999  # at the end of a word
