"""Servers that others rely on: request ids, logs, readiness, and an end that loses nothing."""

import json
import logging
import threading
import urllib.error
import urllib.request

import pytest
import serving
from fastapi.testclient import TestClient
from serving import wait_until
from test_server_limits import (
    HALF,
    HERE,
    LONG,
    client,
    everything,
    limited,
    opened,
    retriever,
)

from avow.api import Limits, create_app, logs
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever

__all__ = ["client", "retriever"]  # the fixtures


class Waiting(Retriever):
    """Its searches wait until they are let go."""

    def __init__(self, retriever: Retriever):
        super().__init__(retriever.library, retriever.encoder)
        self.go = threading.Event()

    def search(self, *given, **named):
        self.go.wait(LONG)
        return super().search(*given, **named)


# --- request ids ----------------------------------------------------------------------------


def test_an_id_that_is_well_formed_is_taken(client):
    for given in ("a", "7f3c.9-b_1", "x" * 128):
        answer = client.get("/api/health", headers={"X-Request-ID": given})
        assert answer.headers["x-request-id"] == given


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 129, '"}', "-a", "é"])
def test_any_other_is_replaced(client, given):
    headers = [] if given is None else [(b"X-Request-ID", given.encode())]
    made = {client.get("/api/health", headers=headers).headers["x-request-id"] for _ in "12"}
    assert len(made) == 2 and given not in made
    assert all(len(one) == 32 and one.isalnum() for one in made)


@pytest.mark.parametrize(
    "path, status",
    [("/api/none", 404), ("/api/items/99", 404), ("/api/search", 422), ("/api/jobs/x", 422)],
)
def test_errors_carry_the_id(client, path, status):
    answer = client.get(path, headers={"X-Request-ID": "mine"})
    assert answer.status_code == status and answer.headers["x-request-id"] == "mine"
    assert answer.json()["request_id"] == "mine"


def test_what_the_guard_and_the_connections_refuse_has_one_too(retriever):
    app = create_app(retriever, token="sesame", limits=Limits(body_seconds=0.1))
    with TestClient(app, base_url=HERE) as client:
        answer = client.get("/api/index", headers={"X-Request-ID": "mine"})
        assert answer.status_code == 401 and answer.json()["request_id"] == "mine"
    server = serving.Server(limited(retriever, body_seconds=0.1, header_seconds=0.1))
    with server, opened(server) as link:
        link.sendall(b"POST /api/feedback HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        link.sendall(b"X-Request-ID: mine\r\nContent-Length: 1000\r\n\r\n{")
        answer = everything(link)
        assert b"408" in answer[:12] and b"X-Request-ID: mine\r\n" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["request_id"] == "mine"
    with server_with(retriever, header_seconds=0.1) as late, opened(late) as link:
        link.sendall(HALF)
        answer = everything(link)
        made = json.loads(answer.partition(b"\r\n\r\n")[2])["request_id"]
        assert len(made) == 32 and f"X-Request-ID: {made}\r\n".encode() in answer


class server_with:
    """A server with these limits, as a context."""

    def __init__(self, retriever, **limits):
        self.server = serving.Server(limited(retriever, **limits))

    def __enter__(self):
        self.server.__enter__()
        return self.server

    def __exit__(self, *given):
        self.server.__exit__(*given)


# --- logs -----------------------------------------------------------------------------------


@pytest.fixture
def log(capsys):
    """Set up a log, and read the lines that were written to it."""
    loggers = [logging.getLogger(name) for name in ("avow", "avow.api", "uvicorn")]
    before = [(one, one.level, one.propagate, one.handlers[:]) for one in loggers]

    def lines(form):
        logs.set_up(form)
        return lambda: capsys.readouterr().err.splitlines()

    yield lines
    for one, level, propagate, handlers in before:
        one.setLevel(level)
        one.propagate, one.handlers[:] = propagate, handlers


def test_json_has_a_line_for_every_request_and_no_word_of_it(client, log):
    read = log("json")
    client.get("/api/search", params={"text": "red"}, headers={"X-Request-ID": "first"})
    client.get("/api/made-up", headers={"X-Request-ID": "second"})
    lines = [json.loads(line) for line in read()]
    facts = [(one["request_id"], one["route"], one["status"]) for one in lines]
    assert facts == [("first", "/api/search", 200), ("second", "other", 404)]
    assert all(one["level"] == "info" and one["seconds"] > 0 for one in lines)
    assert "red" not in json.dumps(lines) and "made-up" not in json.dumps(lines)


def test_text_has_lines_about_trouble_alone(client, log, retriever, monkeypatch):
    read = log("text")
    assert client.get("/api/search", params={"text": "red"}).status_code == 200
    assert read() == []
    monkeypatch.setattr(Retriever, "search", lambda *_, **__: 1 / 0)
    answer = client.get("/api/search", params={"text": "red"}, headers={"X-Request-ID": "x1"})
    assert answer.status_code == 500 and answer.json()["request_id"] == "x1"
    lines = read()
    assert lines[0] == "avow: ERROR: GET /api/search failed [request x1]"
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_a_thread_writes_for_its_request(client, log, monkeypatch):
    read = log("json")

    def tell(*_, **__):
        logging.getLogger("avow.retrieval").warning("slow disk")
        return 1 / 0

    monkeypatch.setattr(Retriever, "search", tell)
    client.get("/api/search", params={"text": "red"}, headers={"X-Request-ID": "x2"})
    told, failed, ended = (json.loads(line) for line in read())
    assert (told["message"], told["request_id"]) == ("slow disk", "x2")
    assert "ZeroDivisionError" in failed["traceback"] and failed["request_id"] == "x2"
    assert ended["status"] == 500


# --- readiness ------------------------------------------------------------------------------


def test_it_is_ready_while_its_store_answers(client, retriever, tmp_path):
    assert client.get("/api/ready").json() == {"status": "ready"}
    index = retriever.library.folder
    index.rename(tmp_path / "away")
    answer = client.get("/api/ready")
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
    assert answer.json()["error"] == "The store does not answer. Ask again in a moment."
    assert client.get("/api/health").status_code == 200
    (tmp_path / "away").rename(index)
    assert client.get("/api/ready").status_code == 200


def test_a_store_that_hangs_is_not_waited_for(retriever, monkeypatch):
    go = threading.Event()
    monkeypatch.setattr(Library, "check_reachable", lambda self: go.wait(LONG))
    with TestClient(limited(retriever, ready_seconds=0.05), base_url=HERE) as client:
        for _ in range(12):  # more than may wait
            assert client.get("/api/ready").status_code == 503
            assert client.get("/api/health").status_code == 200
        go.set()
        wait_until(lambda: client.get("/api/ready").status_code == 200)


def test_readiness_needs_no_token(retriever):
    with TestClient(create_app(retriever, token="sesame"), base_url=HERE) as client:
        assert client.get("/api/ready").status_code == 200


def status(address, path):
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=LONG) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_draining_finishes_what_runs(retriever):
    waiting = Waiting(retriever)
    server = serving.Server(limited(waiting, drain_seconds=LONG))
    answers = []
    with server as address:
        ask = threading.Thread(
            target=lambda: answers.append(status(address, "/api/search?text=red"))
        )
        ask.start()
        inside = server.server.service.searching
        wait_until(lambda: inside.inside == 1)
        assert status(address, "/api/ready") == 200
        server.server.drain()
        assert status(address, "/api/ready") == 503  # and yet it is there
        assert status(address, "/api/health") == 200
        with opened(server) as link:  # connections that would be kept are not
            link.sendall(b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"connection: close" in everything(link).lower()
        server.server._listens_until = 0.0
        wait_until(lambda: server.server.should_exit)
        wait_until(lambda: not server.listening.fileno() >= 0)
        assert answers == [] and inside.inside == 1
        waiting.go.set()
        server.thread.join()
        ask.join()
    assert answers == [200]
    with pytest.raises(OSError):
        status(address, "/api/health")
