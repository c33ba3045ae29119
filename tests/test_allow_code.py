"""Opening what somebody sent runs none of their code, unless the user allows it."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import forked_commands
import pytest
import torch
from encoders import ColourEncoder
from samples import small_recipe, write_precomp
from search_samples import save_pictures, save_toy, save_two_towers

import avow
from avow.assembly.evaluate_runs import EvaluationPlan, judge_run
from avow.assembly.model import Model
from avow.assembly.recipe import Recipe
from avow.core import checksums
from avow.core.errors import AvowError, BadRecipe, CodeNotAllowed, WrongCheckpoint, WrongIndex
from avow.retrieval.encoders.opening import open_encoder, open_recorded
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.store.catalogue import changing, open_catalogue
from avow.training.loop import train
from avow.training.setup import enrol, open_data
from avow.training.state import load_state

COLOURS = ColourEncoder(bank=["red", "blue", "green"])
EVIL = 'from pathlib import Path\nPath(__file__).with_name("ran").touch()\n'
"""A module that leaves a mark when it is imported."""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A model, two pictures and an index of them, to copy."""
    place = tmp_path_factory.mktemp("made")
    save_toy(place / "gift")
    (place / "gift" / "evil.py").write_text(EVIL)
    save_pictures(place / "photos", 2)
    index_folders([place / "photos"], index=place / "index", encoder=COLOURS)
    save_two_towers("clip", place / "clip")
    return place


@pytest.fixture
def gift(made, tmp_path, monkeypatch) -> Iterator[Path]:
    """A model somebody sent, with a module in its folder; we are in the parent folder."""
    place = Path(shutil.copytree(made / "gift", tmp_path / "gift"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield place
    for name in [name for name in sys.modules if name.split(".")[0] == "gift"]:
        del sys.modules[name]


def change(place: Path, where: str, value: object) -> None:
    """Write `value` at the dotted place `where` of a model's avow.json."""
    about = json.loads((place / "avow.json").read_text())
    inside = about
    *parents, last = where.split(".")
    for key in parents:
        inside = inside.setdefault(key, {})
    inside[last] = value
    (place / "avow.json").write_text(json.dumps(about))
    (place / "checksums.json").unlink(missing_ok=True)  # as whoever changes a file can


def ran(place: Path) -> bool:
    return (place / "ran").exists() or any(name.startswith("gift") for name in sys.modules)


@pytest.mark.parametrize("part", ["loss", "method"])
def test_a_model_that_names_a_module_does_not_import_it(gift, part):
    change(gift, f"recipe.{part}.name", "gift.evil")
    for opened in (Model.from_pretrained, open_encoder, open_recorded):
        with pytest.raises(CodeNotAllowed) as caught:
            opened("gift")
        assert str(caught.value) == (
            "The module 'gift.evil' is not part of Avow, and importing it would run its code. "
            "Expected a name of Avow's own. If you trust whoever made these files, allow it "
            "with --allow-code (allow_code=True in Python)."
        )
    assert not ran(gift)


def test_the_module_of_a_backbone_or_a_reader_is_not_imported(gift):
    change(gift, "recipe.features.backbone", "gift.evil")
    with pytest.raises(CodeNotAllowed):
        Model.from_pretrained("gift").backbone  # noqa: B018
    data = write_precomp(gift.parent / "data")
    change(gift, "recipe.data", {"name": str(data), "reader": "gift.evil"})
    with pytest.raises(CodeNotAllowed):
        judge_run(gift, EvaluationPlan())
    change(gift, "recipe.data", {"name": str(data), "reader": "gift.evil", "allow_code": True})
    with pytest.raises(BadRecipe, match=r"data\.allow_code is set"):
        judge_run(gift, EvaluationPlan())
    assert not ran(gift)


def test_the_command_line_does_not_import_it(gift):
    """Started like this, Python finds modules in the current folder."""
    change(gift, "recipe.loss.name", "gift.evil")
    (gift.parent / "photos").mkdir()
    words = ["index", "photos", "--index", "index", "--model", "gift"]
    about = os.environ | {"PYTHONPATH": str(Path(avow.__file__).parents[1])}
    done = forked_commands.run(
        [sys.executable, "-m", "avow", *words], cwd=gift.parent, env=about
    )
    assert done.returncode == 1 and not (gift / "ran").exists()
    assert done.stderr.startswith("avow: The module 'gift.evil' is not part of Avow")


@pytest.fixture
def index(made, gift) -> Path:
    """An index somebody sent, beside the model."""
    return Path(shutil.copytree(made / "index", gift.parent / "index"))


@pytest.fixture
def clip(made, tmp_path) -> Path:
    """A model of transformers somebody sent, with a module in its folder."""
    place = Path(shutil.copytree(made / "clip", tmp_path / "clip"))
    (place / "evil.py").write_text(EVIL)
    return place


def name_model(index: Path, name: object) -> None:
    (path,) = index.glob("models/*/manifest.json")
    about = json.loads(path.read_text()) | {"model": name}
    path.write_text(json.dumps(checksums.sealed(about)))


def test_an_index_that_names_a_module_as_its_model_does_not_import_it(gift, index):
    name_model(index, "gift.evil")
    retriever = avow.open(index)
    with pytest.raises(CodeNotAllowed, match=r"'gift\.evil'"):
        retriever.search("red")
    assert not ran(gift)


def test_an_index_that_names_a_module_as_its_engine_does_not_import_it(gift, index):
    with closing(open_catalogue(index)) as link, changing(link):
        link.execute("UPDATE generations SET engine = 'gift.evil'")
    for opened in (Library.open, avow.open):
        with pytest.raises(CodeNotAllowed, match=r"'gift\.evil'"):
            opened(index)
    save_pictures(gift.parent / "photos", 3)
    with pytest.raises(CodeNotAllowed):
        index_folders([gift.parent / "photos"], index=index, encoder=COLOURS)
    assert not ran(gift)
    with pytest.raises(AttributeError, match="build"):  # it was imported, and has no `build`
        Library.open(index, allow_code=True)
    assert ran(gift)


@pytest.mark.parametrize(
    "name",
    [
        *("somebody/model", "clip", "no-such-model", "//server/share", "\\\\server\\share"),
        *("../elsewhere", "", "a\0b", "\ud800", 7, None, ["gift"]),
    ],
)
def test_an_index_starts_no_download(index, name, monkeypatch):
    """The models that it may name are in a folder, or in the cache of the hub."""
    import socket

    monkeypatch.setattr(socket.socket, "connect", None)
    monkeypatch.setattr(socket, "getaddrinfo", None)
    name_model(index, name)
    with pytest.raises(WrongIndex, match=r"--model|--rebuild"):
        avow.open(index).search("red")


def test_a_model_in_the_cache_of_the_hub_is_opened_offline(made, tmp_path, monkeypatch):
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    snapshot = cache / "models--avowtest--clip" / "snapshots" / ("0" * 40)
    shutil.copytree(made / "clip", snapshot)
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text("0" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    found = open_recorded("avowtest/clip")
    assert (found.name, found.dim) == ("avowtest/clip", 8)


# --- what is allowed ------------------------------------------------------------------------


def trained(tmp_path: Path) -> Path:
    """A run with a method of tests/plugged, as `avow train` makes it from a recipe file."""
    content = small_recipe(write_precomp(tmp_path / "data"), epochs=1)
    method = {**content["method"], "name": "plugged.mean"}
    lines = [f"data.name={content['data']['name']}", "method.name=plugged.mean"]
    lines += [f"method.{key}={method[key]}" for key in ("dim", "word_dim")]
    (tmp_path / "own.toml").write_text('[data]\nname=""\n[method]\nname=""\n[loss]\nname="tcl"')
    lines += ["train.epochs=1", "train.batch=24", "train.precision=fp32"]
    recipe = Recipe.open(str(tmp_path / "own.toml"), lines)
    model, course = enrol(recipe, open_data(recipe), None)
    train(model, course, tmp_path / "run", progress=False, device="cpu")
    return tmp_path / "run"


def test_a_method_of_ones_own_is_trained_without_leave_and_opened_with_it(tmp_path):
    run = trained(tmp_path)
    with pytest.raises(CodeNotAllowed, match=r"'plugged\.mean'"):
        Model.from_pretrained(run)
    with pytest.raises(CodeNotAllowed, match=r"'plugged\.mean'"):
        judge_run(run, EvaluationPlan())
    opened = Model.from_pretrained(run, allow_code=True)
    assert type(opened.views[0].visual_pool).__name__ == "MeanPool"
    assert Model.from_pretrained(run, allow_code=["plugged.mean"]).fingerprint
    found = judge_run(run, EvaluationPlan(draws=0, allow_code=True))
    assert len(found.rows) == 3


def test_an_encoder_of_ones_own_is_allowed_by_name_or_by_leave(tmp_path):
    save_pictures(tmp_path / "photos", 2)
    index = tmp_path / "index"
    index_folders([tmp_path / "photos"], index=index, encoder=open_encoder("plugged.colours"))
    name_model(index, "plugged.colours")
    with pytest.raises(CodeNotAllowed):
        avow.open(index).search("red")
    assert avow.open(index, "plugged.colours").search("red").uncertainty.K == 2
    assert avow.open(index, allow_code=True).search("red").uncertainty.K == 2


# --- places outside the folder of a model ---------------------------------------------------


@pytest.mark.parametrize("name", ["../gift", "/", ".", "", "best", "best-1/../..", "C:\\x"])
def test_the_pointer_of_a_run_stays_inside_it(gift, name):
    run = gift.parent / "run"
    run.mkdir()
    for kind in ("best", "last"):
        (run / kind).write_text(name.replace("best", kind))
    for opened in (Model.from_pretrained, lambda one: open_encoder(str(one))):
        with pytest.raises(WrongCheckpoint, match="Expected a folder of the run itself"):
            opened(run)
    with pytest.raises(WrongCheckpoint, match="Expected a folder of the run itself"):
        load_state(run, [], torch.optim.SGD([torch.zeros(1)]))


def test_the_pointer_of_a_run_is_followed(gift):
    run = gift.parent / "run"
    shutil.copytree(gift, run / "best-00001")
    (run / "best").write_text("best-00001\n")
    assert open_encoder(str(run)).home == run / "best-00001"


def test_a_training_state_is_not_unpickled(tmp_path):
    """torch.load refuses functions; what else may be in the file ends in the same sentence."""
    (tmp_path / "last-1").mkdir()
    (tmp_path / "last").write_text("last-1")
    optimiser = torch.optim.SGD([torch.zeros(1)])
    for content in (os.system, [1], {"views": 3}, {"views": [], "optimiser": 1}):
        torch.save(content, tmp_path / "last-1" / "training.pt")
        with pytest.raises(WrongCheckpoint, match="cannot be used"):
            load_state(tmp_path, [], optimiser)


def test_weights_lie_in_the_folder_of_their_model(gift):
    index = json.loads((gift / "weights.json").read_text())
    outside = gift.parent / "weights-00001.safetensors"
    shutil.copy(gift / outside.name, outside)
    for name in (f"../{outside.name}", str(outside)):
        moved = {**index, "files": {name: index["files"][outside.name]}}
        (gift / "weights.json").write_text(json.dumps(moved))
        (gift / "checksums.json").unlink(missing_ok=True)
        with pytest.raises(WrongCheckpoint, match="files of its own folder"):
            Model.from_pretrained(gift)


@pytest.mark.parametrize(
    "source", ["somebody/bert", "/", "gift", "~", "../gift", "bert-base-uncased"]
)
def test_a_saved_model_reads_no_other_folder_and_downloads_nothing(gift, source, monkeypatch):
    import socket

    monkeypatch.setattr(socket.socket, "connect", None)
    monkeypatch.setattr(socket, "getaddrinfo", None)
    (gift / "config.json").unlink(missing_ok=True)
    change(gift, "recipe.method.text", "adapted")
    change(gift, "recipe.method.text_source", source)
    with pytest.raises(BadRecipe, match="starts no download and reads no other folder"):
        Model.from_pretrained("gift")
    change(gift, "recipe.method.text", "gru")
    change(gift, "recipe.features.backbone", "huggingface")
    change(gift, "recipe.features.settings", {"name": source})
    with pytest.raises(BadRecipe, match="starts no download and reads no other folder"):
        Model.from_pretrained("gift").backbone  # noqa: B018


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_in_a_model_of_transformers_is_not_run(clip, file, monkeypatch):
    """Neither imported nor asked about, which would wait for an answer on the terminal."""
    content = json.loads((clip / file).read_text())
    names = {"AutoConfig": "evil.C", "AutoModel": "evil.M", "AutoTokenizer": ["evil.T", None]}
    content |= {"auto_map": names, "tokenizer_class": "T", "model_type": "stranger"}
    (clip / file).write_text(json.dumps(content))
    monkeypatch.setattr("builtins.input", None)
    try:
        open_encoder(str(clip))
    except AvowError as error:
        assert "cannot be used" in str(error) or "encodes no text" in str(error)
    assert not (clip / "ran").exists()


@pytest.mark.parametrize(
    "more",
    [
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
        {"attn_implementation": "somebody/kernel"},
        {"vision_config": {"_attn_implementation": "somebody/kernel"}},
    ],
)
def test_a_model_of_transformers_cannot_ask_for_other_code(clip, more):
    content = json.loads((clip / "config.json").read_text())
    (clip / "config.json").write_text(json.dumps({**content, **more}))
    with pytest.raises(BadRecipe, match=r"quantised|_implementation"):
        open_encoder(str(clip))
