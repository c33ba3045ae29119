"""Models and indexes with hostile content: no event, no traceback, no memory to speak of."""

import contextlib
import json
import os
import shutil
import sqlite3
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from search_samples import ColourEncoder, save_pictures, save_toy, save_two_towers
from torch import nn

from avow.assembly.model import Model
from avow.assembly.published_checkpoint import read_checkpoint
from avow.assembly.recipe import Recipe
from avow.audit.files import read_decisions
from avow.core import checksums, fingerprint
from avow.core.bounded import Bounded, TooLarge
from avow.core.documents import DEEPEST, parse_object, read_file, read_object
from avow.core.errors import (
    AvowError,
    BadData,
    BadRecipe,
    WrongCheckpoint,
    WrongIndex,
    WrongTrust,
)
from avow.data.gather import read_text
from avow.indexes.faiss import Faiss
from avow.retrieval.encoders.opening import open_encoder, open_recorded
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.store import state
from avow.retrieval.store.catalogue import _connected
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.rows import Rows
from avow.trust.policy import Policy
from benchmarks.torture import _mutations, strangers_files

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["..", "../other", "/tmp", "", "a\0b", "a/b"])
def test_a_model_of_an_index_lies_inside_it(tmp_path, name):
    """The catalogue names the folder, and a rebuild removes what lies there."""
    with pytest.raises(WrongIndex, match="names a model"):
        Space(tmp_path, name)


@pytest.mark.parametrize("of_file", [checksums.of_file, fingerprint.of_file])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path, of_file):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(OSError, match="is not a file"):
            of_file(tmp_path / name)


@pytest.mark.parametrize("read", [read_object, read_file])
def test_a_document_that_is_a_pipe_is_refused_at_once(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a file"):
        read(tmp_path / "pipe")


@pytest.mark.parametrize("read", [read_decisions, read_text])
@pytest.mark.parametrize("made", ["device", "pipe", "folder"])
def test_a_table_that_is_no_file_is_told(tmp_path, made, read):
    """A device has no end: reading decisions from one took all memory."""
    path = tmp_path / "decisions.csv"
    if made == "device":
        path.symlink_to("/dev/zero")
    elif made == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(BadData, match="not a file"):
        read(path)


def test_a_list_of_files_that_leads_to_itself_is_told(tmp_path):
    gift = save_toy(tmp_path / "gift")
    (gift / "checksums.json").unlink()
    (gift / "checksums.json").symlink_to(gift / "checksums.json")
    with pytest.raises(WrongCheckpoint, match="cannot be read"):
        Model.from_pretrained(gift)


@pytest.mark.parametrize("name", ["x" * 5000, "~nobody/x", "a/" * 3000])
def test_a_model_that_no_folder_can_be_called_is_told(name):
    with pytest.raises(WrongIndex, match="which is not on this machine"):
        open_recorded(name)


def test_a_number_that_torch_cannot_take_is_told():
    content = {"data": {"name": "sample"}, "method": {"name": "vse_infty"}}
    with pytest.raises(BadRecipe, match=r"loss.tau is 10+. Expected a smaller number"):
        Recipe.from_dict("large", content | {"loss": {"name": "tcl", "tau": 10**59}})


def test_a_tokeniser_that_gives_up_is_told(tmp_path):
    """Its library leaves Python's own kinds of errors when a special token has no number."""
    towers = tmp_path / "towers"
    save_two_towers("clip", towers)
    path = towers / "tokenizer.json"
    content = json.loads(path.read_text())
    del content["post_processor"]["special_tokens"]["<|startoftext|>"]
    path.write_text(json.dumps(content))
    with pytest.raises(BadRecipe, match=r"encodes no text .no entry"):
        open_encoder(str(towers)).encode_texts(["a red dog"])


@pytest.mark.parametrize("column", ["kind", "part", "text", "taken", "content"])
def test_bytes_in_the_place_of_a_text_are_told(tmp_path, column):
    """They cannot be sent as JSON, whatever their checksum says."""
    save_pictures(tmp_path / "photos", 2)
    index_folders([tmp_path / "photos"], index=tmp_path / "index", encoder=ColourEncoder())
    catalogue = tmp_path / "index" / "catalogue.sqlite"
    with contextlib.closing(sqlite3.connect(catalogue)) as link, link:
        link.execute(f"UPDATE items SET {column} = x'00' || id")
        link.execute(f"UPDATE items SET {column} = CAST({column} AS BLOB)")
    _mutations._seal_rows(catalogue)
    with Library.open(tmp_path / "index", ColourEncoder()) as library:
        query = ColourEncoder().encode_texts(["red"])
        with pytest.raises(WrongIndex, match="has changed"):
            library.items(library.search(query, 2)[0][0])


@pytest.mark.parametrize("made", ["folder", "pipe", "loop"])
def test_rows_that_are_no_file_are_told(tmp_path, made):
    path = tmp_path / "vectors.0"
    if made == "folder":
        path.mkdir()
    elif made == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    with pytest.raises(WrongIndex, match="Expected at least"):
        Rows(path, 4).read(1)


@pytest.mark.parametrize("value", ["default", 10**60, None, [[]]])
def test_a_policy_with_other_things_in_it_is_told(tmp_path, value):
    content = json.loads((ROOT / "tests/fixtures/policy-3.json").read_text())
    for key in list(content["probability"]):
        changed = content | {"probability": content["probability"] | {key: value}}
        (tmp_path / "p.json").write_text(json.dumps(checksums.sealed(changed)))
        with contextlib.suppress(WrongTrust):  # a name may be any text
            Policy.load(tmp_path / "p.json")
    for key in ("probability", "present", "tail", "anything", "conditions"):
        (tmp_path / "p.json").write_text(json.dumps(checksums.sealed(content | {key: value})))
        with contextlib.suppress(WrongTrust):  # some may be missing
            Policy.load(tmp_path / "p.json")


def test_triggers_of_a_strangers_catalogue_call_nothing(tmp_path):
    """Avow teaches SQLite functions of its own, which no trigger may use."""
    link = sqlite3.connect(tmp_path / "catalogue.sqlite")
    link.execute("CREATE TABLE t (x)")
    link.execute("CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT taught(1); END")
    link.commit()
    link.close()
    link = _connected(tmp_path / "catalogue.sqlite", make=False)
    called = []
    link.create_function("taught", 1, called.append)
    with pytest.raises(sqlite3.OperationalError, match="unsafe use"):
        link.execute("INSERT INTO t VALUES (1)")
    link.close()
    assert called == []


def test_the_watch_sees_what_it_is_there_for(tmp_path):
    """A watch that never reports would pass every test."""
    import importlib
    import socket
    import subprocess

    for name in ("avowtest_evil", "avowtest_worse"):
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    watch = strangers_files.WATCH
    watch.roots, watch.home = frozenset(sys.modules), str(tmp_path / "home")
    watch.hostile = str(tmp_path)
    sys.path.insert(0, str(tmp_path))
    try:
        with watch.watching():
            importlib.import_module("avowtest_evil")  # runs code without an "import"
            __import__("avowtest_worse")
            (tmp_path / "written").write_text("x")
            subprocess.run(["true"], check=True)
            with socket.socket() as end, pytest.raises(OSError):
                end.connect(("127.0.0.1", 1))
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("avowtest_evil", None)
        sys.modules.pop("avowtest_worse", None)
    kinds = {event.partition(":")[0] for event in watch.events}
    watch.events.clear()
    assert {"import", "exec", "open", "subprocess.Popen", "socket.connect"} <= kinds


# --- sizes ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    return save_toy(tmp_path_factory.mktemp("toy") / "model")


@pytest.fixture
def place(toy, tmp_path) -> Path:
    return Path(shutil.copytree(toy, tmp_path / "model"))


def write(place: Path, file: str, **changes: object) -> None:
    content = json.loads((place / file).read_text())
    for name, value in changes.items():
        inside = content
        *parents, last = name.split("__")
        for key in parents:
            inside = inside[key]
        inside[last] = value
    (place / file).write_text(json.dumps(content))
    (place / "checksums.json").unlink(missing_ok=True)  # as whoever changes a file can


@pytest.mark.parametrize("key", ["dim", "word_dim"])
@pytest.mark.parametrize("value", [10**7, 10**5, 2**40, 10**30, -1])
def test_sizes_that_the_weights_do_not_fill_are_refused(place, key, value, monkeypatch):
    """Before anything is allocated: nothing larger than a few megabytes is asked for."""
    write(place, "avow.json", **{f"recipe__method__{key}": value})
    asked: list[int] = []
    real = torch.empty

    def empty(*shape, **more):
        made = real(*shape, **more)
        asked.append(made.numel())
        return made

    monkeypatch.setattr(torch, "empty", empty)
    with pytest.raises(WrongCheckpoint, match="Expected"):
        Model.from_pretrained(place)
    assert max(asked, default=0) < 2**24


def test_a_network_may_have_what_its_weights_have():
    with Bounded(8 * 4 + 4):
        nn.Linear(8, 4)
    for numbers in (8 * 4 + 3, 0):
        with pytest.raises(TooLarge), Bounded(numbers):
            nn.Linear(8, 4)
    with pytest.raises(TooLarge), Bounded(1000):
        nn.Sequential(*(nn.Linear(4, 4) for _ in range(10**9)))
    for call in (
        lambda: torch.zeros(10**6, 10**6),
        lambda: torch.ones((10**6, 10**6)),
        lambda: torch.randn(size=(10**6, 10**6)),
        lambda: torch.full((10**6, 10**6), 7),
        lambda: torch.arange(10**12),
        lambda: torch.linspace(0, 1, 10**12),
        lambda: torch.eye(10**6),
        lambda: torch.randint(0, 9, (10**6, 10**6)),
    ):
        with pytest.raises(TooLarge), Bounded(10**6):
            call()


BROKEN = [
    ("avow.json", {"recipe": 7}),
    ("avow.json", {"recipe_name": None}),
    ("avow.json", {"visual": []}),
    ("avow.json", {"visual": {}}),
    ("avow.json", {"history": "x"}),
    ("avow.json", {"history": {"learnt": 3}}),
    ("avow.json", {"visual__dim": 10**400}),
    ("avow.json", {"recipe__method__dim": float("nan")}),
    ("avow.json", {"recipe__features__grid": 0}),
    ("avow.json", {"recipe__features__size": 10**9}),
    ("avow.json", {"recipe__train__lr": 10**400}),
    ("avow.json", {"recipe__loss__name": ["tcl"]}),
    ("weights.json", {"files": 1}),
    ("weights.json", {"tensors": {"0.x": []}}),
    ("weights.json", {"tensors": {"0.x": [7]}}),
    ("weights.json", {"tensors": {"0.x": ["absent#0"]}}),
    ("vocabulary.json", {"word2idx": 5}),
]


@pytest.mark.parametrize(("file", "changes"), BROKEN)
def test_what_cannot_be_a_model_is_a_sentence(place, file, changes):
    write(place, file, **changes)
    with pytest.raises(AvowError, match="Expected"):
        Model.from_pretrained(place)


def test_a_piece_of_a_tensor_counts_once(place):
    """A megabyte named ten thousand times would be ten gigabytes."""
    index = json.loads((place / "weights.json").read_text())
    name, (label,) = next(iter(index["tensors"].items()))
    write(place, "weights.json", tensors={**index["tensors"], name: [label] * 10_000})
    with pytest.raises(WrongCheckpoint, match="one twice"):
        Model.from_pretrained(place)


DEEP = '{"a":' * 40 + "1" + "}" * 40


@pytest.mark.parametrize("text", ["[" * 10**5, DEEP, "7", "", "{", "[]"])
def test_json_of_a_stranger_is_an_object_of_few_levels(text, place):
    with pytest.raises(ValueError):
        parse_object(text)
    (place / "checksums.json").unlink()
    for file in ("avow.json", "weights.json", "vocabulary.json"):
        before = (place / file).read_text()
        (place / file).write_text(text)
        with pytest.raises(WrongCheckpoint):
            Model.from_pretrained(place)
        (place / file).write_text(before)


def test_json_may_have_levels(tmp_path):
    deep = DEEPEST - 1
    (tmp_path / "a.json").write_text('{"a":' * deep + "{}" + "}" * deep)
    assert read_object(tmp_path / "a.json")
    with pytest.raises(ValueError, match="deeply"):
        parse_object('{"a":' * (deep + 1) + "{}" + "}" * (deep + 1))


def test_an_archive_with_a_name_that_is_no_text_is_a_sentence(tmp_path):
    file = tmp_path / "model.pt"
    torch.save({"model": {"a": torch.ones(2)}, "opt": {}}, file)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("\u00fc", b"")  # its name is marked as UTF-8
    data = file.read_bytes()
    file.write_bytes(data.replace("\u00fc".encode(), b"\xfc\xfc"))
    with pytest.raises(WrongCheckpoint, match="cut short or damaged"):
        read_checkpoint(file)


def test_a_catalogue_names_no_more_rows_than_the_files_have(tmp_path, monkeypatch):
    """Ten thousand million rows would take eighty gigabytes."""
    save_pictures(tmp_path / "photos", 2)
    index_folders([tmp_path / "photos"], index=tmp_path / "index", encoder=ColourEncoder())
    path = tmp_path / "index" / "catalogue.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as link:
        link.execute("UPDATE generations SET rows = 10000000000")
        link.commit()
    _mutations._seal_rows(path)
    asked: list[int] = []
    monkeypatch.setattr(state.np, "full", lambda shape, *_: asked.append(shape))
    with pytest.raises(WrongIndex, match="Expected at least"):
        Library.open(tmp_path / "index")
    assert asked == []


def test_faiss_reads_only_what_is_written_here(tmp_path):
    """Some kinds of Faiss's files name other files, which would be opened and written to."""
    faiss = pytest.importorskip("faiss")
    index = Faiss(4)
    index.save(tmp_path / "own")
    assert len(Faiss.open(tmp_path / "own", 4).ids()) == 0
    other = faiss.index_factory(4, "IVF1,Flat", faiss.METRIC_INNER_PRODUCT)
    faiss.write_index(faiss.IndexIDMap2(other), str(tmp_path / "own" / "vectors.faiss"))
    about = json.loads((tmp_path / "own" / "faiss.json").read_text())
    about["vectors"] = checksums.of_file(tmp_path / "own" / "vectors.faiss")
    (tmp_path / "own" / "faiss.json").write_text(json.dumps(checksums.sealed(about)))
    with pytest.raises(AvowError, match="another kind of index"):
        Faiss.open(tmp_path / "own", 4)
