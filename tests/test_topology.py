"""Two servers over one store behind a proxy: what a fault may cost, and what it may not."""

from pathlib import Path

import pytest
from search_samples import save_pictures

import avow
from benchmarks.serving import topology


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("topology")
    save_pictures(home / "pictures", 6)
    avow.index([home / "pictures"], home / "index")
    return home


def faults(place, monkeypatch, only):
    monkeypatch.setattr(topology, "CALM", 0.5)
    monkeypatch.setattr(topology, "HELD", 2.0)
    made = topology.run("loopback", place / "pictures", str(place / "index"), only)
    for row in made["rows"]:
        assert row["wrong_answers"] == 0 and row["ticks_lost"] == 0, row
        assert set(row["statuses"]) <= {"200", "503"}, row
        assert row["statuses"]["200"] > 0 and row["ticks_acknowledged"] > 0, row
    return {row["fault"]: row for row in made["rows"]}


@pytest.mark.long
def test_a_server_is_killed_and_the_other_goes_on(place, monkeypatch):
    """How many 503 there are depends on how soon the proxy notices, so they are not counted."""
    assert list(faults(place, monkeypatch, "is killed")) == ["a server is killed"]


@pytest.mark.long
def test_every_fault_of_servers_over_a_folder(place, monkeypatch):
    rows = faults(place, monkeypatch, "")
    assert len(rows) == 4
    assert "503" not in rows["a server is told to end"]["statuses"]
