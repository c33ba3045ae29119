"""What a store in Milvus promises beside the suite of all stores (`test_stores.py`)."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from databases import SERVERS, milvus_servers
from encoders import ColourEncoder, picture
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from avow.api import create_app
from avow.cli.status import lines_of
from avow.core.errors import BadQuery, Unavailable, WrongIndex
from avow.retrieval.indexing import index_folders
from avow.retrieval.open_index import Choice
from avow.retrieval.opening import open_library, open_shared
from avow.retrieval.search import Retriever
from avow.retrieval.status import status_of
from avow.retrieval.store_contract import Row, item_id
from avow.retrieval.stores import _milvus_patterns, milvus
from avow.retrieval.stores import _milvus_reading as reading
from avow.retrieval.stores._milvus_link import Link, _close
from avow.retrieval.stores._milvus_rows import cells_of, stored
from avow.retrieval.where import Where

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

MANIFEST = {"model": "four", "fingerprint": "f" * 16, "kind": "opinion", "engine": "exact"}
MANIFEST |= {"dim": 4, "views": 1, "bank": 0, "tau": 0.1, "half": False, "exact": True}
HERE = "http://127.0.0.1:8000"
HOSTILE = [
    *('a" or id >= 0 or path == "b.png', "x' or shown == 1 or name == 'y.png", 'q".png'),
    *(
        "back\\slash.png",
        'end\\".png',
        "100%.png",
        "1000.png",
        "under_score.png",
        "underxscore.png",
    ),
    *("new\nline.png", "tab\there.png", ") or (id > 0.png", "\ue025.png", "{id}.png"),
]


@pytest.fixture(params=milvus_servers())
def lite(request, monkeypatch):
    """A store in the file that all tests share, and one on a server where there is one."""
    monkeypatch.setenv("AVOW_MILVUS_URI", request.getfixturevalue(SERVERS[request.param][1]))
    store = open_shared(f"milvus:test_{os.urandom(6).hex()}")
    assert store is not None
    yield store
    store.drop()
    store.close()


def batch(version: int, size: int = 6) -> tuple[list[Row], np.ndarray, np.ndarray]:
    """A file of some items in one of its versions."""
    parts = [str(part) for part in range(size)]
    rows = [
        Row(item_id("/f", part, str(version)), "image", "/f", part, "", "", size, version, 0)
        for part in parts
    ]
    vectors = np.random.default_rng(version).normal(size=(size, 4)).astype(np.float32)
    return rows, vectors, np.empty((size, 0), np.float32)


def test_a_value_of_a_filter_stays_a_value(lite, tmp_path):
    encoder, folder = ColourEncoder(), tmp_path / "pictures"
    folder.mkdir()
    named = [name for name in HOSTILE if "/" not in name]
    for name in named:
        picture("red").save(folder / name, "png")
    index_folders([folder], index=Path(lite.address), encoder=encoder)
    with open_library(lite.address) as library:
        assert len(library) == len(named)
        for name in named:
            written = name.replace("\\", "\\\\").replace('"', '\\"')
            for sign in "=~":
                where = Where.parse(f'name{sign}"{written}"')
                items = library.items(library.find(where))
                assert [Path(item.path).name for item in items] == [name], (sign, name)
            missing = f'{written} "'.replace(' "', '\\"')
            assert library.count(Where.parse(f'tag="{missing}" or tag~"{missing}"')) == 0


@given(value=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_an_expression_has_one_shape_for_all_values(value):
    """Read by the parser of Milvus Lite, which the writer of expressions does not know."""
    from milvus_lite.search.filter.tokens import TokenKind, tokenize

    from avow.retrieval.stores._milvus_filters import expression_of, liked

    written = value.replace("\\", "\\\\").replace('"', '\\"')
    for field, sign in (("path", "="), ("name", "~"), ("tag", "="), ("tag", "~")):
        shapes = []
        for one in (written, "plain"):
            expression = expression_of(
                Where.parse(f'{field}{sign}"{one}"'), "image", partial(liked, most_tags=2)
            )
            tokens = tokenize(expression)
            shapes.append([token.kind for token in tokens])
            texts = [token.value for token in tokens if token.kind is TokenKind.STRING]
        assert shapes[0] == shapes[1] and texts


def test_a_batch_is_seen_whole_or_not_at_all(lite):
    lite.prepare(MANIFEST, False)
    lite.publish()
    lite.put(*batch(0))
    seen, stop = [], threading.Event()

    def look() -> None:
        while not stop.is_set():
            ids = lite.find(None, "image")
            seen.append({(row.size, len(ids)) for row in lite.read(ids.tolist()).rows})

    reader = threading.Thread(target=look)
    reader.start()
    for version in range(1, 8):
        gone = [row.id for row in batch(version - 1)[0]]
        lite.put(*batch(version), gone)
    stop.set()
    reader.join()
    assert all(len(told) < 2 and {size for _, size in told} <= {6} for told in seen), seen
    (file,) = lite.files(["/"])
    assert (file.size, file.whole, len(file.ids)) == (7, True, 6)
    rows = lite._link.use(lambda client: client.query(lite._rows(), filter="shown == 0"))
    assert len(rows) == 0  # tombstones are removed


def test_an_answer_that_is_short_says_so_and_a_status_claims_no_size(lite, tmp_path):
    for colour in ("red", "green"):
        picture(colour).save(tmp_path / f"{colour}.png")
    encoder = ColourEncoder()
    index_folders([tmp_path], index=Path(lite.address), encoder=encoder)
    with open_library(lite.address) as library:
        choice = Choice(5, True, library.find(), None, "image")  # as if rows did not answer
        found = library.nearest(encoder.encode_texts(["red"]), 4, choice)
        assert found.missing == (f"{lite.address!r} gave 2 of 4 items.",)
        status = status_of(Retriever(library, encoder))
        told = lines_of(status)
    assert told[0] == f"Index:    {lite.address}" and "2 pictures" in told[2]  # no size


def test_equal_scores_come_in_the_order_of_ids(lite):
    lite.prepare(MANIFEST, False)
    lite.publish()
    rows, _, usual = batch(0, 80)
    lite.put(rows, np.eye(4, dtype=np.float32)[[0] * 80], usual)
    ids, scores = lite.search(np.eye(4, dtype=np.float32)[:2], 5, None, "image", 80)
    wanted = sorted(row.id for row in rows)[:5]
    assert ids.tolist() == [wanted, wanted] and scores.tolist() == [[1.0] * 5, [0.0] * 5]
    assert lite.sample(None, "image", 7).tolist() == sorted(row.id for row in rows)[:7]


CHILD = """
import sys
from avow.core.errors import AvowError
from avow.retrieval.opening import open_library
for _ in sys.stdin:
    try:
        with open_library("milvus:shop") as library:
            print(len(library), flush=True)
    except AvowError as error:
        print(error, flush=True)
"""


def test_a_file_is_open_in_one_process_and_outlives_it(tmp_path, monkeypatch):
    monkeypatch.setenv("AVOW_MILVUS_URI", str(tmp_path / "shop.db"))
    picture("red").save(tmp_path / "red.png")
    encoder = ColourEncoder()
    with pytest.raises(WrongIndex, match="is empty"):
        open_library("milvus:shop")
    assert not (tmp_path / "shop.db").exists()  # asking makes nothing
    index_folders([tmp_path], index=Path("milvus:shop"), encoder=encoder)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def asked() -> str:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write("\n")
        child.stdin.flush()
        return child.stdout.readline()

    with open_library("milvus:shop") as library:
        assert len(library) == 1
        assert "is open in another process" in asked()
    assert asked() == "1\n"
    child.communicate()
    assert child.returncode == 0
    with pytest.raises(WrongIndex, match="Expected the address of a server"):
        monkeypatch.setenv("AVOW_MILVUS_URI", "milvus.txt")
        open_library("milvus:shop")


OTHER = MANIFEST | {"fingerprint": "e" * 16}


def shown(store, manifest=MANIFEST, size=6):
    """Rows of another model in place of those before."""
    store.prepare(manifest, True)
    rows, vectors, usual = batch(0, size)
    store.put(rows, vectors, usual)
    store.publish()
    return rows


def follow(store):
    current = store.current()
    assert current is not None
    store.use(current)


def test_what_a_server_let_go_of_is_loaded_again(lite):
    """As after a new start; collections that were replaced before stay gone."""
    shown(lite)
    shown(lite, OTHER)
    for collection in (lite._rows(), lite._notes):
        lite._link.use(lambda client, name=collection: client.release_collection(name))
    assert len(lite.find(None, "image")) == 6 and lite.current() is not None


def test_a_reader_of_rows_that_were_replaced_is_told_to_ask_again(lite):
    shown(lite)
    reader = open_shared(lite.address)
    assert reader is not None
    follow(reader)
    shown(lite, OTHER)
    with pytest.raises(Unavailable) as told:
        reader.find(None, "image")
    assert str(told.value) == (
        "The rows of this store were replaced in Milvus at this moment. Expected them to stay; "
        "ask again."
    )
    follow(reader)
    assert len(reader.find(None, "image")) == 6
    reader.close()


def test_a_newer_format_is_refused(lite, monkeypatch):
    with monkeypatch.context() as newer:
        newer.setattr(milvus, "FORMAT", 99)
        shown(lite)
    with pytest.raises(WrongIndex) as told:
        open_library(lite.address)
    assert str(told.value) == (
        f"The store {lite.address!r} has format 99. Expected {milvus.FORMAT} or an older one; "
        "use the Avow that wrote it, or a newer one."
    )


def test_nothing_is_no_fault(lite, tmp_path, monkeypatch):
    lite.drop()  # where nothing was written
    assert lite.current() is None
    rows = shown(lite, MANIFEST | {"engine": "hnsw"})
    assert list(lite.files([])) == []
    ids, scores = lite.search(np.empty((0, 4), np.float32), 3, None, "image")
    assert ids.shape == scores.shape == (0, 0)
    # as if more had passed a moment ago: the search is widened, and no more are there
    ids, _ = lite.search(np.eye(4, dtype=np.float32)[:1], 9, None, "image", 9)
    assert sorted(ids[0]) == sorted(row.id for row in rows)
    monkeypatch.setenv("AVOW_MILVUS_URI", str(tmp_path / "none.db"))
    nowhere = open_shared("milvus:shop")
    assert nowhere is not None
    nowhere.drop()
    assert not (tmp_path / "none.db").exists()


def test_more_rows_than_an_answer_holds_are_read_in_parts(lite):
    wanted = sorted(row.id for row in shown(lite, size=80))

    def ask(client):
        parts = reading.each(client, lite._rows(), "shown == 1", ["id"], most=9)
        few = reading.smallest(client, lite._rows(), "shown == 1", 7, 10**6)  # counted before
        return [row["id"] for row in parts], few

    listed, few = lite._link.use(ask)
    assert sorted(listed) == wanted and few == wanted[:7]


def test_vectors_of_16_bits_come_back_from_a_server():
    """It sends them as their bytes, in a list of one; Milvus Lite has none."""
    (row,), (vector,), (usual,) = batch(0, 1)
    cells = cells_of(row, vector, usual, True)
    sent = cells | {"vector": [cells["vector"].tobytes()]}
    back = stored([sent], {"dim": 4, "half": True})
    assert back.rows == (row,)
    np.testing.assert_array_equal(back.vectors, [vector.astype(np.float16)])


@pytest.mark.parametrize(
    ("version", "old"),
    [
        *(("v2.3.5-lite", True), ("2.3-20240101-abc", True), ("v1.1.1", True)),
        *(("v2.4.0", False), ("2.6.1", False), ("v10.0", False), ("milvus_lite-3.2", False)),
    ],
)
def test_which_servers_are_old(lite, monkeypatch, version, old):
    with monkeypatch.context() as server:
        server.setattr(Link, "version", version)
        assert lite._link.is_old is old
        if old:
            with pytest.raises(WrongIndex) as told:
                lite.prepare(MANIFEST | {"half": True}, False)
            assert str(told.value) == (
                f"The Milvus server of version {version!r} keeps vectors as float32. Expected "
                "a Milvus server of version 2.4 or newer for float16; leave out '--vectors "
                "float16', or name such a server in AVOW_MILVUS_URI."
            )


def test_patterns_that_a_server_cannot_compare_are_compared_here(lite, tmp_path, monkeypatch):
    """Before 2.4 it knows LIKE with a beginning only, and no lengths of lists."""
    lines = [{"text": f"{n}", "tags": [f"Straße {n}", "dog"][: 1 + n % 2]} for n in range(9)]
    (tmp_path / "words.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for name in ("red.png", "dark red.png", "blue.png"):
        picture("red").save(tmp_path / name)
    index_folders([tmp_path], index=Path(lite.address), encoder=ColourEncoder())
    asked = [
        *("name~red", "name~'*.png' and not name~'r*'", "path~'NOT THERE'", "folder~'*'"),
        *("tag~'STRASSE*'", "tag~dog or tag~4", "not tag~dog", "tag~'*' and name~'w?rds*'"),
    ]

    def found():
        with open_library(lite.address) as library:
            return [
                library.find(Where.parse(where), kind).tolist()
                for where in asked
                for kind in ("image", "text")
            ]

    wanted = found()
    with monkeypatch.context() as server:
        server.setattr(Link, "version", "v2.3.5-lite")
        server.setattr(milvus, "liked", None)  # nothing is left to the server
        assert found() == wanted and any(wanted) and not all(wanted)
        with open_library(lite.address) as library:
            assert library.count(Where.parse("name~green"), "image") == 0
            picture("green").save(tmp_path / "green.png")
            index_folders([tmp_path], index=Path(lite.address), encoder=ColourEncoder())
            library.refresh()  # what matched before is forgotten
            assert library.count(Where.parse("name~green"), "image") == 1
            server.setattr(_milvus_patterns, "MOST", 1)
            library.refresh()
            with pytest.raises(BadQuery) as told:
                library.find(Where.parse("name~red"), "image")
    assert str(told.value) == (
        "The pattern 'red' of the filter matches 2 items. Expected 1 at most with a Milvus "
        "before 2.4, which does not compare patterns itself; write more of the name, or use "
        "a newer server."
    )


@pytest.mark.parametrize("lite", ["milvus"], indirect=True)
def test_a_server_at_an_address_serves_a_store(lite, milvus_lite, shop, monkeypatch):
    """Milvus Lite has an address, too, while it runs."""
    from milvus_lite.server_manager import server_manager_instance

    address = server_manager_instance.start_and_get_uri(milvus_lite)
    monkeypatch.setenv("AVOW_MILVUS_URI", address)
    encoder = ColourEncoder()
    index_folders([shop], index=Path(lite.address), encoder=encoder)
    with open_library(lite.address) as library:
        assert len(Retriever(library, encoder).search("red").hits) == 1
    assert lite.current() is not None  # closing that link let go of no file


def test_a_file_that_cannot_be_opened_is_told(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    place = tmp_path / "shop.db"
    monkeypatch.setenv("AVOW_MILVUS_URI", str(place))
    place.write_text("no file of Milvus Lite")
    with pytest.raises(WrongIndex, match=r"shop\.db' cannot be opened \(FileExistsError"):
        open_library("milvus:shop")
    place.unlink()
    place.mkdir()
    with (place / "LOCK").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match=r"shop\.db' is open in another process"):
            open_library("milvus:shop")


def test_a_connection_that_breaks_at_opening_is_made_again(milvus_lite, monkeypatch):
    import pymilvus
    from pymilvus.exceptions import MilvusException

    made, breaks = pymilvus.MilvusClient, iter([True, True, False])

    def busy(*where, **how):
        if next(breaks):
            raise MilvusException(code=2, message="Too many pings")
        return made(*where, **how)

    monkeypatch.setattr(pymilvus, "MilvusClient", busy)
    link = Link(milvus_lite)
    assert isinstance(link.use(lambda client: client.list_collections()), list)
    link.close()
    breaks = iter([True] * 9)
    with pytest.raises(WrongIndex, match="Too many pings"):
        Link(milvus_lite).use(lambda client: client)


def test_a_mistake_of_the_asker_is_not_told_as_one_of_milvus(lite):
    with pytest.raises(ValueError, match="invalid literal"):
        lite._link.use(lambda client: int("seven"))


def test_a_forked_process_leaves_the_link_of_its_parent_alone(milvus_lite, monkeypatch):
    link = Link(milvus_lite)
    client = link.use(lambda client: client)
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        link.close()
    assert isinstance(client.list_collections(), list)
    _close(client, milvus_lite, os.getpid())


class Running:
    """A server of the package milvus-lite, in a process of its own."""

    def __init__(self, place: Path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.place = place
        self.start()

    def start(self) -> None:
        line = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(self.place)]
        line += ["--host", "127.0.0.1", "--port", str(self.port)]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(line, stdout=quiet, stderr=quiet)
        while True:
            with socket.socket() as link:
                if link.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.poll() is None
            time.sleep(0.05)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def shop(tmp_path):
    """A folder with one picture."""
    folder = tmp_path / "shop"
    folder.mkdir()
    picture("red").save(folder / "red.png")
    return folder


def answered(client: TestClient) -> int:
    return client.get("/api/search", params={"text": "red"}).status_code


def test_a_server_that_is_away_is_a_sentence(shop, tmp_path, monkeypatch):
    from milvus_lite.server_manager import server_manager_instance

    place, encoder = str(tmp_path / "shop.db"), ColourEncoder()
    monkeypatch.setenv("AVOW_MILVUS_URI", place)
    index_folders([shop], index=Path("milvus:shop"), encoder=encoder)
    with open_library("milvus:shop") as library:
        client = TestClient(create_app(Retriever(library, encoder)), base_url=HERE)
        assert answered(client) == 200
        server_manager_instance.release_server(place)
        with pytest.raises(Unavailable, match="Milvus cannot be used"):
            library.refresh()
        assert answered(client) == 503
    monkeypatch.setenv("AVOW_MILVUS_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("AVOW_MILVUS_TOKEN", "me:hunter2")
    with pytest.raises(Unavailable, match="check AVOW_MILVUS_URI") as told:
        open_library("milvus:shop")
    assert "hunter2" not in str(told.value)


@pytest.mark.long
def test_a_server_that_was_killed_is_used_again(shop, tmp_path, monkeypatch):
    running, encoder = Running(tmp_path / "data"), ColourEncoder()
    monkeypatch.setenv("AVOW_MILVUS_URI", f"http://127.0.0.1:{running.port}")
    try:
        index_folders([shop], index=Path("milvus:shop"), encoder=encoder)
        with open_library("milvus:shop") as library:
            client = TestClient(create_app(Retriever(library, encoder)), base_url=HERE)
            assert answered(client) == 200
            running.kill()
            assert answered(client) == 503
            running.start()
            deadline = time.monotonic() + 60
            while answered(client) != 200:
                assert time.monotonic() < deadline
    finally:
        running.kill()


WRITER = """
import sys
sys.path[:0] = [sys.argv[1]]
from test_milvus import MANIFEST, batch
from avow.retrieval.opening import open_shared
store = open_shared("milvus:shop")
store.prepare(MANIFEST, False)
store.publish()
version = max((file.size for file in store.files(["/"])), default=0)
before = [row.id for row in batch(version)[0]]
while True:
    version += 1
    store.put(*batch(version), before)
    before = [row.id for row in batch(version)[0]]
    print(version, flush=True)
"""


@pytest.mark.long
def test_a_killed_writer_leaves_whole_batches(tmp_path, monkeypatch):
    monkeypatch.setenv("AVOW_MILVUS_URI", str(tmp_path / "shop.db"))
    line = [sys.executable, "-c", WRITER, str(Path(__file__).parent)]
    for time_to_live in np.linspace(0, 0.5, 12):
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            said = int(writer.stdout.readline())
            time.sleep(time_to_live)
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split()
        said = int(rest[-1]) if rest else said
        store = open_shared("milvus:shop")
        assert store is not None
        follow(store)
        (file,) = store.files(["/"])
        assert file.whole and len(file.ids) == 6 and said <= file.size <= said + 1
        store.close()
