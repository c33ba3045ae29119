"""`avow index --ray` on a real cluster of two nodes, while parts of it are killed."""

import errno
import os
import random
import socket
import warnings

import pytest

from avow.core import photographs
from avow.core.errors import MissingExtra, Unavailable
from avow.retrieval.library import Library
from avow.retrieval.sharding import on_ray
from avow.retrieval.sharding.cluster import Cluster
from avow.retrieval.sharding.part import unpacked
from avow.retrieval.sharding.plan import Plan, Unit
from avow.retrieval.sharding.work import Work
from avow.retrieval.store.walk import FileStat
from benchmarks._ray_nodes import nodes
from benchmarks.quality import ray_kills

LONG = bool(os.environ.get("AVOW_LONG_TESTS"))


@pytest.mark.long
def test_a_killed_worker_costs_nothing(tmp_path):
    """A cluster takes most of a minute to start. Workers, nodes and the command are killed."""
    kills = 15 if LONG else 1
    data = ray_kills.write_data(tmp_path, shards=20 if LONG else 6, pictures=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Ray itself
        with nodes(2) as cluster:
            figures = ray_kills.killed(tmp_path, data, cluster, kills, random.Random(0))
    assert figures["kills"] >= kills and figures["equal_rounds"] == figures["rounds"]
    with Library.open(tmp_path / "round0") as library:
        assert len(library.find()) == figures["items"] == (20 if LONG else 6) * 4 + 16
    assert figures["unreadable"] == (20 if LONG else 6)


def test_a_cluster_that_is_away_is_a_sentence(tmp_path):
    """At once: Ray itself tries for a quarter of an hour."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(Unavailable) as told:
        on_ray.OnRay(Plan(tmp_path, []), _work(), Cluster(address, "default"))
    assert str(told.value) == (
        f"The Ray cluster {address!r} cannot be reached ([Errno {errno.ECONNREFUSED}] "
        "Connection refused). Expected the address of a head that runs, such as host:6379; "
        "start it with `ray start --head`, with RAY_AUTH_MODE as it is here, and run the same "
        "command again: it goes on where it was."
    )


def test_a_cluster_of_this_machine_leaves_no_token_behind(monkeypatch):
    """Ray would write one below the home folder, and every later cluster would ask for it."""
    for name in on_ray._AUTH:
        monkeypatch.delenv(name, raising=False)
    with on_ray._own_token("local"):
        assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
    assert "RAY_AUTH_TOKEN" not in os.environ
    for address, given in (("auto", ""), ("local", "disabled")):
        monkeypatch.setenv("RAY_AUTH_MODE", given)
        with on_ray._own_token(address):
            assert "RAY_AUTH_TOKEN" not in os.environ


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'avow\[ray\]'"):
        on_ray.OnRay(Plan(tmp_path, []), _work(), Cluster("auto", "default"))


def test_a_unit_that_ends_its_workers_is_listed(tmp_path, monkeypatch):
    """After so many of them its files are skipped with a reason, and the run goes on."""
    units = [Unit(0, (FileStat("a.png", 1, 2, 3), FileStat("b.png", 1, 2, 4)))]
    parts = object.__new__(on_ray.OnRay)
    parts.plan, parts.work, parts.deaths = Plan(tmp_path, units), _work(), {}
    for _ in range(on_ray.TRIES):
        assert not (tmp_path / "000000.part").exists()
        parts._died(0)
    outcomes = list(unpacked((tmp_path / "000000.part").read_bytes(), "model"))
    assert [one.stat.path for one in outcomes] == ["a.png", "b.png"]
    assert (
        str(outcomes[0].error).startswith("10 workers ended while") and outcomes[0].error.again
    )


def test_a_worker_with_another_model_is_refused():
    part, sentence = on_ray._encode((_work(), Cluster("auto", "plugged.colours")), Unit(0, ()))
    assert part == b"" and "is another one here" in sentence


def test_a_worker_is_told_whose_pictures_they_are(monkeypatch):
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    work = _work()
    monkeypatch.setenv("AVOW_UNTRUSTED", "")
    assert not photographs.untrusted()
    on_ray._encode((work, Cluster("auto", "plugged.colours")), Unit(0, ()))
    assert photographs.untrusted()


def _work() -> Work:
    return Work((), "model", batch=4, threads=1, fps=1.0, ocr=False)
