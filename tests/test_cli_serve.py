"""`avow serve`: where it listens, whom it lets in, and its sentence when it cannot."""

import os
import re
import signal
import socket
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
from search_samples import save_pictures
from serving import started
from threadpoolctl import threadpool_info, threadpool_limits

import avow
import avow.cli
from avow.cli import serve as face
from avow.cli._threads import limit_threads
from avow.core.errors import CannotServe
from avow.retrieval.store.catalogue import open_catalogue

ROOT = Path(__file__).parent.parent
LONG = 600.0  # seconds: it only ends a test that would hang


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `avow serve …` to its sentence; give exit code and stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["avow", "serve", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            avow.cli.main()
        return stop.value.code, capsys.readouterr().err

    return run


def test_a_port_that_is_taken_is_told(command, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, said = command("--port", port, "--index", tmp_path)
    assert code == 1 and said == (
        f"avow: Port {port} is taken by another program. Expected a free one; name another "
        f"with --port {port + 1}, or take any with --port 0.\n"
    )


def test_an_index_that_is_not_there_is_told(command, tmp_path):
    code, said = command("--port", 0, "--index", tmp_path / "none")
    assert code == 1 and said.startswith(f"avow: There is no index in '{tmp_path}/none'.")


def test_an_index_that_is_empty_is_told(command, tmp_path):
    open_catalogue(tmp_path, make=True).close()
    code, said = command("--port", 0, "--index", tmp_path)
    assert code == 1 and "is empty" in said and "avow index" in said


def test_an_address_of_another_machine_is_told(command, tmp_path):
    code, said = command("--port", 0, "--index", tmp_path, "--host", "192.0.2.7")
    assert code == 1 and "cannot listen on '192.0.2.7'" in said


def test_a_missing_package_is_told(command, monkeypatch):
    monkeypatch.setattr(face, "PACKAGES", {"avow_has_no_such": "fastapi"})
    code, said = command()
    assert code == 1 and "pip install 'avow[server]'" in said


def test_a_port_that_is_none_is_a_misspelt_command(command):
    assert command("--port", 70_000)[0] == 2


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
def test_this_machine_needs_no_token(host, capsys):
    assert face._token(host, None, False) is None
    assert face._token(host, "mine", False) == "mine"
    assert capsys.readouterr().err == ""


def test_other_machines_need_one(capsys):
    made = {face._token("0.0.0.0", None, False) for _ in range(3)}
    assert len(made) == 3 and all(len(one) > 16 for one in made)
    assert "whoever has the token" in capsys.readouterr().err
    assert face._token("0.0.0.0", "mine", False) == "mine"
    assert face._token("0.0.0.0", None, True) is None
    assert "anybody who reaches it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "host, before, after",
    [("127.0.0.1", None, None), ("0.0.0.0", None, "pictures"), ("0.0.0.0", "0", "0")],
)
def test_pictures_of_other_machines_are_decoded_elsewhere(monkeypatch, host, before, after):
    monkeypatch.setenv("AVOW_UNTRUSTED", before or "")
    if before is None:
        monkeypatch.delenv("AVOW_UNTRUSTED")
    face._guard_decoders(host)
    assert os.environ.get("AVOW_UNTRUSTED") == after


@pytest.mark.parametrize("token", ["", "  ", "schlüssel"])
def test_a_token_that_cannot_be_typed_is_refused(token):
    with pytest.raises(CannotServe):
        face._token("127.0.0.1", token, False)


def test_the_address_can_be_opened():
    assert face._address("127.0.0.1", 80, None) == "http://127.0.0.1:80/"
    assert face._address("::1", 80, None) == "http://[::1]:80/"
    assert face._address("0.0.0.0", 80, "a b") == (
        f"http://{socket.gethostname()}:80/?token=a%20b"
    )


@dataclass
class Sized:
    """As much of a library as decides about threads."""

    rows: int
    dim: int = 512

    def __len__(self) -> int:
        return self.rows


def test_products_over_a_small_index_take_one_thread():
    """Idle threads of a product would take longer than the search."""
    with threadpool_limits(2, user_api="blas"):
        for rows, threads in ((1_000_000, 2), (1_000, 1)):
            limit_threads(Sized(rows))
            pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
            assert {pool["num_threads"] for pool in pools} == {threads}


@pytest.mark.slow
def test_it_serves_until_it_is_ended(tmp_path):
    index = tmp_path / "index"
    save_pictures(tmp_path / "pictures", 2)
    avow.index([tmp_path / "pictures"], index)
    with started(index, AVOW_TOKEN="sesame") as (told, process):
        found = re.fullmatch(r"Avow is at (http://127\.0\.0\.1:\d+/)\?token=sesame\n", told)
        assert found, told
        with urllib.request.urlopen(found[1] + "api/health", timeout=LONG) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(found[1] + "api/index", timeout=LONG)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LONG)
    assert (process.returncode, err) == (0, "")
    assert out.endswith("The server has ended.\n") and "Traceback" not in out
