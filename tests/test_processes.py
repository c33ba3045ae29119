"""Several processes that serve one port, and how often one client may ask them."""

import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from search_samples import ColourEncoder, save_pictures
from serving import started, wait_until

import avow
import avow.cli
from avow.api import Limits, create_app
from avow.api.clients import Proxies, Rates
from avow.core.errors import CannotServe
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever

ROOT = Path(__file__).parent.parent
HERE, LONG = "http://127.0.0.1", 600.0


@pytest.fixture(scope="module")
def retriever(tmp_path_factory):
    home = tmp_path_factory.mktemp("many")
    save_pictures(home / "pictures", 4)
    encoder = ColourEncoder()
    index_folders([home / "pictures"], index=home / "index", encoder=encoder)
    with Library.open(home / "index", encoder) as library:
        yield Retriever(library, encoder)


# --- rates ----------------------------------------------------------------------------------


def test_a_bucket_holds_a_burst_and_fills_at_its_rate():
    """Against a bucket counted the plain way, at drawn times."""
    rates = Rates(per_second=2.0, burst=3)
    tokens, before = 3.0, 1000.0
    for step in (0, 0, 0, 0, 0.1, 0.3, 0.2, 0.01, 0.6, 0, 5, 0, 0, 0, 0, 0.45, 0.06):
        now = before + step
        tokens, before = min(3.0, tokens + 2.0 * step), now
        wait = rates.wait("192.0.2.1", now)
        assert wait == pytest.approx(max(0.0, (1 - tokens) / 2.0), abs=1e-6)
        tokens -= 1.0 if wait == 0 else 0.0
    assert rates.wait("192.0.2.2", before) == 0


def test_processes_share_their_buckets(tmp_path):
    Rates.make(tmp_path / "rates")
    one, other = (Rates(1.0, 2, tmp_path / "rates") for _ in range(2))
    assert [one.wait("a", 5.0), other.wait("a", 5.0), one.wait("a", 5.0)] == [0, 0, 1]
    assert other.wait("b", 5.0) == 0


def test_too_many_requests_are_refused_for_a_while(retriever):
    limits = Limits(seconds=LONG, rate=0.001, burst=2)
    with TestClient(create_app(retriever, limits=limits), base_url=HERE) as client:
        assert [client.get("/api/index").status_code for _ in range(3)] == [200, 200, 429]
        answer = client.get("/", headers={"X-Forwarded-For": "192.0.2.9"})  # not believed
        assert answer.status_code == 429 and 900 < int(answer.headers["retry-after"]) <= 1000
        assert answer.json()["error"].startswith("More requests came from your address than")
        for path in ("/api/health", "/api/ready"):
            assert client.get(path).status_code == 200


def test_a_trusted_proxy_names_the_client(retriever):
    limits = Limits(seconds=LONG, rate=0.001, burst=1)
    app = create_app(retriever, limits=limits, proxies=["10.0.0.0/24"])
    with TestClient(app, base_url=HERE, client=("10.0.0.7", 1)) as client:
        for address, status in (("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.1", 429)):
            answer = client.get("/api/index", headers={"X-Forwarded-For": address})
            assert answer.status_code == status


NAMED = {
    "": "10.0.0.1",
    "192.0.2.1": "192.0.2.1",
    "192.0.2.1:4711": "192.0.2.1",
    "[2001:db8::1]:4711": "2001:db8::1",
    "203.0.113.5, 192.0.2.1, 10.0.0.2": "192.0.2.1",
    "192.0.2.1, nonsense": "10.0.0.1",
    "192.0.2.1, nonsense, 10.0.0.2": "10.0.0.2",
}
"""Whom a proxy at 10.0.0.1 names, and who is taken for the client."""


def client_of(peer: str, named: str) -> str:
    headers = [(b"x-forwarded-for", part.encode()) for part in named.split(",") if part]
    scope = {"type": "http", "client": (peer, 1), "headers": headers}
    return Proxies(["10.0.0.0/24"]).client(scope)


@pytest.mark.parametrize("named", NAMED)
def test_a_proxy_is_believed(named):
    assert client_of("10.0.0.1", named) == NAMED[named]


def test_only_a_proxy_is_believed():
    assert client_of("::ffff:10.0.0.1", "192.0.2.1") == "192.0.2.1"
    for stranger in ("198.51.100.1", "testclient"):
        assert client_of(stranger, "192.0.2.1") == stranger


def test_a_network_that_is_none_is_told():
    with pytest.raises(CannotServe) as told:
        Proxies(["10.0.0.0/33"])
    assert str(told.value) == (
        "'10.0.0.0/33' is no network. Expected an address or a network of proxies, such as "
        "10.0.0.5 or 10.0.0.0/24; correct --trust-proxy."
    )


# --- what one process may not keep ------------------------------------------------------------


def test_nothing_that_one_process_keeps_is_needed_by_another(retriever, tmp_path):
    Rates.make(tmp_path / "rates")
    ids = [int(one) for one in retriever.library.find()]
    apps = [create_app(retriever, shared=tmp_path) for _ in range(2)]
    with TestClient(apps[0], base_url=HERE) as one, TestClient(apps[1], base_url=HERE) as other:
        named = one.post("/api/export", json={"ids": ids}).json()["name"]
        archive = other.get(f"/api/export/{named}")
        assert archive.status_code == 200 and archive.content[:2] == b"PK"
        refused = one.post("/api/jobs", json={})
        assert refused.status_code == 409 and "`avow index`" in refused.json()["error"]
        many = [*ids, *(2**52 - 7919 * step**2 for step in range(4000))]
        refused = one.post("/api/export", json={"ids": many})
        assert refused.status_code == 413 and "Choose fewer" in refused.json()["error"]
        for made_up in ("x-n.zip", "-n.zip", "eJw-n.zip", "eJwDAAAAAAE-n.zip"):
            assert other.get(f"/api/export/{made_up}").status_code == 404


def test_several_processes_choose_no_folders(monkeypatch, capsys, tmp_path):
    line = ["avow", "serve", "--port", "0", "--processes", "2", "--root", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", line)
    with pytest.raises(SystemExit):
        avow.cli.main()
    assert capsys.readouterr().err == (
        "avow: Several processes index nothing, so --root has no meaning for them. Expected "
        "one of --root and --processes; leave one out, and index with `avow index`.\n"
    )


# --- processes ------------------------------------------------------------------------------


@contextmanager
def served(index, *more):
    """`avow serve --processes 2`, its address and its own process."""
    options = ("--processes", "2", "--log-format", "json", *more)
    with started(index, *options) as (told, process):
        found = re.fullmatch(r"Avow is at (http://127\.0\.0\.1:\d+/)\n", told)
        assert found, told + (process.communicate()[1] if not told else "")
        yield found[1], process


def asked(address, path, body=None):
    headers = {} if body is None else {"Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}{path}", content, headers)
    with urllib.request.urlopen(request, timeout=LONG) as answer:
        return answer.read().decode()


def counted(address) -> dict[str, float]:
    """Requests by route, of all processes."""
    families = text_string_to_metric_families(asked(address, "api/metrics"))
    samples = next(one.samples for one in families if one.name == "avow_requests")
    return {one.labels["route"]: one.value for one in samples}


def children_of(pid: int) -> list[int]:
    """Those that serve; multiprocessing has one more, for what is left behind."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    serving = []
    for one in map(int, listed):
        with suppress(OSError):  # it ended since it was listed
            if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes():
                serving.append(one)
    return serving


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are read in /proc")
def test_one_of_two_is_killed_and_nothing_is_lost(tmp_path):
    index = tmp_path / "index"
    save_pictures(tmp_path / "pictures", 4)
    avow.index([tmp_path / "pictures"], index)
    with served(index) as (address, process):
        hits = json.loads(asked(address, "api/search?text=red"))
        item = (hits["hits"] or hits["near_misses"])[0]["id"]
        for number in range(6):
            body = {"query": {"text": f"q{number}"}, "item_id": item, "good": True}
            assert json.loads(asked(address, "api/feedback", body)) == {"kept": number + 1}
        # an answer is sent before it is counted, and what is dead counts no more
        wait_until(lambda: counted(address).get("/api/feedback") == 6)
        first, _ = before = children_of(process.pid)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: first not in children_of(process.pid))
        for number in range(6, 12):
            body = {"query": {"text": f"q{number}"}, "item_id": item, "good": True}
            assert json.loads(asked(address, "api/feedback", body)) == {"kept": number + 1}
        assert json.loads(asked(address, "api/search?text=red"))["hits"] == hits["hits"]
        wait_until(lambda: len(children_of(process.pid)) == 2)
        assert set(children_of(process.pid)) != set(before)
        # six of them by the dead, or fewer
        wait_until(lambda: counted(address).get("/api/feedback", 0) >= 12)
        assert counted(address)["/api/feedback"] == 12
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LONG)
    assert process.returncode == 0 and out.endswith("The server has ended.\n")
    lines = [json.loads(line) for line in err.splitlines()]
    trouble = [one["message"] for one in lines if one["level"] != "info"]
    assert trouble == [f"process {first} ended with exit code -9 and is replaced"]


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are read in /proc")
def test_processes_end_with_their_parent(tmp_path):
    save_pictures(tmp_path / "pictures", 4)
    avow.index([tmp_path / "pictures"], tmp_path / "index")
    with served(tmp_path / "index") as (address, process):
        children = children_of(process.pid)
        assert asked(address, "api/health")
        process.kill()
        wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in children))
        with pytest.raises(OSError):
            asked(address, "api/health")
