"""What a server meets seldom: many archives, huge folders, slow readers, failing processes."""

import asyncio
import json
import os
import signal
import socket
import threading
from contextlib import ExitStack

import pytest
import serving
from fastapi import Request
from fastapi.testclient import TestClient
from PIL import Image
from process_work import cannot_serve, will_not_end
from serving import LONG, PATIENT, wait_until
from test_server_limits import COLOURS, HALF, HEALTH, HERE, opened, retriever

from avow.api import Limits, connections, create_app, export, folders, processes
from avow.api.clients import Address
from avow.api.pictures import Thumbnails
from avow.api.processes import Processes
from avow.retrieval.indexing import index_folders
from avow.retrieval.where import Where

__all__ = ["retriever"]  # the fixture


@pytest.fixture
def photos(tmp_path):
    """The folder that the index of `retriever` is of."""
    return tmp_path / "photos"


@pytest.fixture
def client(retriever, photos):
    app = create_app(retriever, roots=[photos], limits=PATIENT)
    with TestClient(app, base_url=HERE) as opened:
        yield opened


# --- archives, folders, jobs, thumbnails ----------------------------------------------------


def test_the_oldest_of_many_long_archives_is_forgotten(client, retriever, monkeypatch):
    """Names that would be too long are remembered, a few of them."""
    monkeypatch.setattr(export, "LONGEST_NAME", 10)
    monkeypatch.setattr(export, "_KEPT", 2)
    ids = [int(one) for one in retriever.library.find()]
    names = [client.post("/api/export", json={"ids": ids}).json()["name"] for _ in range(3)]
    assert len(set(names)) == 3 and not any(name.endswith("-n.zip") for name in names)
    answers = [client.get(f"/api/export/{name}") for name in names]
    assert [answer.status_code for answer in answers] == [404, 200, 200]
    assert answers[0].json()["error"].endswith("Choose its items again.")


def test_an_archive_that_breaks_off_is_logged_and_not_mended(
    client, retriever, monkeypatch, caplog
):
    """After its first bytes an answer can become no other; nothing is put behind them."""

    def broken(*_):
        yield b"PK first"
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(export, "zipped", broken)
    ids = [int(one) for one in retriever.library.find()]
    name = client.post("/api/export", json={"ids": ids}).json()["name"]
    answer = client.get(f"/api/export/{name}")
    assert (answer.status_code, answer.content) == (200, b"PK first")
    assert f"GET /api/export/{name} failed" in caplog.text


def test_a_huge_folder_is_looked_at_in_part(client, photos, monkeypatch):
    monkeypatch.setattr(folders, "_LOOKED_AT", 3)
    listed = client.get("/api/folders", params={"path": str(photos)}).json()
    assert listed["files"] == 3 < len(COLOURS)


def test_jobs_of_before_can_be_asked_for(client):
    for number in (1, 2):
        assert client.post("/api/jobs", json={}).json()["id"] == number
        wait_until(lambda at=number: client.get(f"/api/jobs/{at}").json()["state"] == "done")
    assert client.get("/api/jobs/1").json()["id"] == 1
    assert [job["id"] for job in client.get("/api/jobs").json()["jobs"]] == [2, 1]


def test_a_thumbnail_beyond_the_memory_for_them_is_made_again(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "one.png")
    small = Thumbnails(10, 10**6)
    made = [small.make(tmp_path / "one.png", "one", 64) for _ in range(2)]
    assert made[0] == made[1] and made[0][:2] == b"\xff\xd8"
    assert small.held == 0


# --- connections ----------------------------------------------------------------------------


def held_by(server) -> list:
    return list(server.server.server_state.connections)


@pytest.fixture
def large(retriever, photos):
    """A request for a picture that no buffer of a connection holds."""
    Image.new("RGB", (3000, 2000)).save(photos / "large.bmp")
    index_folders([photos], index=photos.parent / "index", encoder=retriever.encoder)
    retriever.library.refresh()
    number = int(retriever.library.find(Where.parse("name=large.bmp"))[0])
    return f"GET /api/items/{number}/picture HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def test_a_slow_reader_gets_everything_and_goes_on(retriever, photos, large):
    server = serving.Server(create_app(retriever, limits=PATIENT))
    with server, opened(server) as link:
        link.sendall(large)
        wait_until(lambda: any(one.flow.write_paused for one in held_by(server)))
        [held] = held_by(server)
        assert held._write_timer is not None
        stream = link.makefile("rb")
        while stream.readline() != b"\r\n":
            pass
        size = (photos / "large.bmp").stat().st_size
        assert stream.read(size) == (photos / "large.bmp").read_bytes()
        wait_until(lambda: held._write_timer is None)  # nobody waits for it any more
        link.sendall(HEALTH)
        assert stream.readline().startswith(b"HTTP/1.1 200")


def test_who_does_not_read_makes_room_at_once(retriever, large):
    limits = Limits(**{**vars(PATIENT), "connections": 1})
    server = serving.Server(create_app(retriever, limits=limits))
    with server, opened(server) as link:
        link.sendall(large)
        wait_until(lambda: any(one.flow.write_paused for one in held_by(server)))
        [held] = held_by(server)
        with opened(server) as other:
            other.sendall(HEALTH)
            assert other.recv(12) == b"HTTP/1.1 200"
            wait_until(lambda: held not in held_by(server))  # what it was sent waits for nobody


def test_the_client_with_most_connections_makes_room(retriever, monkeypatch):
    """Three addresses of this machine stand for three others."""
    try:
        with socket.create_server(("127.0.0.2", 0)):
            pass
    except OSError:
        pytest.skip("this system has one loopback address only")
    plain = connections.address_of
    monkeypatch.setattr(connections, "address_of", lambda host: Address(plain(host).key, False))
    limits = {**vars(PATIENT), "connections": 4, "connections_per_client": 3}
    server = serving.Server(create_app(retriever, limits=Limits(**limits)))
    with server, ExitStack() as held:
        quiet = held.enter_context(opened(server, source="127.0.0.3"))
        quiet.sendall(HALF)
        many = [held.enter_context(opened(server, source="127.0.0.2")) for _ in range(3)]
        wait_until(lambda: len(held_by(server)) == 4)
        new = held.enter_context(opened(server, source="127.0.0.4"))
        assert b"too many connections" in many[0].recv(4096)
        for link, rest in ((new, HEALTH), (quiet, b"x\r\n\r\n")):
            link.sendall(rest)
            assert link.recv(12) == b"HTTP/1.1 200"


def test_a_client_is_not_late_while_the_server_does_not_read(retriever):
    app, go = create_app(retriever, limits=Limits(body_seconds=0.5)), threading.Event()

    async def slow(request: Request) -> int:
        await asyncio.to_thread(go.wait, LONG)
        return len(await request.body())

    app.add_api_route("/api/slow", slow, methods=["POST"])
    app.router.routes.insert(0, app.router.routes.pop())  # before the files of the page
    server = serving.Server(app)
    with server, opened(server) as link:
        head = b"POST /api/slow HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 90000\r\n\r\n"
        link.sendall(head + bytes(80_000))
        wait_until(lambda: any(one.flow.read_paused for one in held_by(server)))
        [held] = held_by(server)
        first = held._timer
        wait_until(lambda: held._timer is not first)
        link.sendall(bytes(10_000))
        go.set()
        answer = link.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert json.loads(answer.rpartition(b"\r\n")[2] or link.recv(4096)) == 90_000


# --- processes ------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def numbers_of_processes(tmp_path, monkeypatch):
    """Where several processes keep what they count."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))


def test_where_the_first_process_cannot_start_nothing_does(capfd):
    told = []
    assert Processes(2, cannot_serve, (), 0.0).run(lambda: told.append(True)) == 1
    assert told == []
    assert capfd.readouterr().err == "avow: There is no such index. Expected one; make it.\n"


def test_no_file_where_the_server_was_started_is_run(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    for name in ("multiprocessing", "struct", "avow"):
        (tmp_path / f"{name}.py").write_text("open('was-here', 'w')")
    assert Processes(1, cannot_serve, (), 0.0).run(lambda: None) == 1
    assert capfd.readouterr().err == "avow: There is no such index. Expected one; make it.\n"
    assert not (tmp_path / "was-here").exists()


def test_a_process_that_does_not_end_is_killed(monkeypatch, caplog):
    monkeypatch.setattr(processes, "_GRACE", 0.0)
    several = Processes(1, will_not_end, (), 0.05)
    pids = []

    def ready():
        pids.extend(child.process.pid for child in several.children)
        os.kill(os.getpid(), signal.SIGTERM)

    assert several.run(ready) == 1
    assert f"process {pids[0]} did not end and is killed" in caplog.text
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
