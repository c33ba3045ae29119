"""Published checkpoints: brought in with the same numbers, or refused without running."""

import argparse
import builtins
import importlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from samples import refusal, write_precomp
from test_cli import command
from test_methods import tiny_bert
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import BertConfig, BertModel

from avow.assembly import published_checkpoint
from avow.assembly.model import Model
from avow.assembly.published import fit, import_checkpoint, translate
from avow.assembly.translated import Translated
from avow.core.contracts import Tokens
from avow.core.errors import UnknownName, WrongCheckpoint
from avow.data.vocabulary import MARKS

__all__ = ["command", "tiny_bert"]  # the fixtures
WORDS = [*MARKS, "a", "red", "dog", "runs", "two", "cats"]
CAPTIONS = ["a red dog runs", "two cats", "a bird"]
NUMBERS = [[1, 4, 5, 6, 7, 2], [1, 8, 9, 2], [1, 4, 3, 2]]
VISUAL, DIM, WORD = 12, 8, 6


def below(name: str, layer: nn.Module) -> dict[str, torch.Tensor]:
    """The state of a layer as a larger network would save it."""
    return {f"{name}.{key}": value for key, value in layer.state_dict().items()}


class Layers:
    """Random layers of a published network, and its states."""

    def __init__(self, seed: int = 0, words: int = len(WORDS), both: bool = True):
        torch.manual_seed(seed)
        self.fc = nn.Linear(VISUAL, DIM)
        self.embed = nn.Embedding(words, WORD)
        self.rnn = nn.GRU(WORD, DIM, batch_first=True, bidirectional=both)

    def states(self) -> list[dict[str, torch.Tensor]]:
        text = below("embed", self.embed) | below("rnn", self.rnn)
        return [below("fc", self.fc), text]

    def gru(self) -> torch.Tensor:
        """What the GRU says at every word of the captions, packed as published."""
        ids = [torch.tensor(row) for row in NUMBERS]
        lengths = torch.tensor([len(row) for row in NUMBERS])
        padded = nn.utils.rnn.pad_sequence(ids, batch_first=True)
        packed = pack_padded_sequence(
            self.embed(padded), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return states


def region_layers(seed: int = 0, words: int = len(WORDS)) -> list[dict[str, torch.Tensor]]:
    """The states of a VSE-infinity network."""
    made = Layers(seed, words)
    image, text = made.states()
    for name, layer in {
        "mlp.layers.0": nn.Linear(VISUAL, DIM // 2),
        "mlp.layers.1": nn.Linear(DIM // 2, DIM),
        "mlp.bns.0": nn.BatchNorm1d(DIM // 2),
        "mlp.bns.1": nn.BatchNorm1d(DIM),
    }.items():
        image |= below(name, layer)
    for part in (image, text):
        part |= below("gpool.gru", nn.GRU(32, 32, batch_first=True, bidirectional=True))
        part |= below("gpool.linear", nn.Linear(32, 1, bias=False))
    return [image, text]


def write(path: Path, model: Any, legacy: bool = False, **options: Any) -> Path:
    """A checkpoint as published training loops save it."""
    opt = argparse.Namespace(
        data_name="f30k_precomp", margin=np.float64(0.2), learning_rate=2e-4, **options
    )
    content = {"epoch": 3, "model": model, "best_rsum": np.float64(400.5), "opt": opt}
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    return path


@pytest.fixture
def vocabulary(tmp_path) -> Path:
    """A published vocabulary; it does not know the word that hides others."""
    path = tmp_path / "words.json"
    numbers = {word: number for number, word in enumerate(WORDS)}
    back = {str(number): word for word, number in numbers.items()}
    path.write_text(
        json.dumps({"word2idx": numbers, "idx2word": back, "idx": len(WORDS)}), "utf-8"
    )
    return path


def refused(call: Any, *arguments: Any) -> str:
    with pytest.raises(WrongCheckpoint) as caught:
        call(*arguments)
    return str(caught.value)


def test_vsepp_gives_the_cosines_of_its_published_layers(tmp_path, vocabulary, command):
    layers = Layers(both=False)
    file = write(tmp_path / "best.pth.tar", layers.states(), max_violation=True)
    run = tmp_path / "run"
    code, out, _ = command(
        "import", "vsepp", file, "--out", run, "--vocabulary", vocabulary, "--json"
    )
    report = json.loads(out)
    assert code == 0
    assert (report["method"], report["views"], report["words"]) == ("vsepp", 1, 11)

    model = Model.from_pretrained(run)
    images = torch.randn(4, 1, VISUAL)
    states = layers.gru()
    texts = torch.stack([states[row, len(ids) - 1] for row, ids in enumerate(NUMBERS)])
    expected = nn.functional.cosine_similarity(
        layers.fc(images[:, 0])[:, None], texts[None], dim=-1
    )
    torch.testing.assert_close(model.similarity(images, CAPTIONS), expected)
    assert model.recipe.loss == {"name": "hinge", "margin": 0.2, "hardest": True, "warm_up": 0}
    assert model.recipe.train.lr == 2e-4
    assert model.history["imported"]["file"] == "best.pth.tar"
    assert command("import", "vsepp", file, "--out", run)[2] == (
        f"avow: There is something in '{run}' already. Expected a new folder for the run; "
        "choose another --out.\n"
    )


def test_tcl_vse_pools_by_mean_and_has_two_views(tmp_path, vocabulary):
    states = [region_layers(seed) for seed in (0, 1)]
    options = {"method": "VSE", "tau": 0.1, "active": "ReLU", "dis_k": 2}
    file = write(tmp_path / "a.tar", [[parts] for parts in states], **options)
    model = import_checkpoint("tcl", file, vocabulary)
    assert len(model.views) == 2
    assert model.evidence_settings == {"tau": 0.1, "kind": "relu"}

    words = Layers(1).gru()
    both = (words[..., :DIM] + words[..., DIM:]) / 2
    texts = torch.stack([both[row, : len(ids)].mean(0) for row, ids in enumerate(NUMBERS)])
    images = torch.randn(4, 5, VISUAL)
    found = model.similarities(images, CAPTIONS)[1]
    vectors = model.views[1].encode_visual(model.regions(images)).parts
    expected = nn.functional.cosine_similarity(vectors, texts[None], dim=-1)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("legacy", [False, True])
def test_old_and_parallel_files_are_read(tmp_path, vocabulary, legacy):
    parts = region_layers()
    plain = import_checkpoint("vse_infty", write(tmp_path / "a.tar", parts), vocabulary)
    parallel = [{f"module.{name}": part[name] for name in part} for part in parts]
    file = write(tmp_path / "b.tar", parallel, legacy)
    found = import_checkpoint("vse_infty", file, vocabulary)
    images = torch.randn(2, 3, VISUAL)
    torch.testing.assert_close(
        found.similarity(images, CAPTIONS), plain.similarity(images, CAPTIONS)
    )
    assert found.recipe.loss["margin"] == 0.2


def test_bert_comes_with_its_folder(tmp_path, tiny_bert):
    torch.manual_seed(0)
    bert = BertModel(BertConfig.from_pretrained(tiny_bert))
    linear = nn.Linear(bert.config.hidden_size, DIM)
    image, _ = region_layers()
    options = {"method": "VSE_bert", "tau": 0.05, "active": "Exp", "dis_k": 3}
    text = below("bert", bert) | below("linear", linear)
    file = write(tmp_path / "a.tar", [[[image, text]]] * 2, **options)
    import_checkpoint("tcl", file, tiny_bert).save_pretrained(tmp_path / "run")
    model = Model.from_pretrained(tmp_path / "run")
    assert model.recipe.loss["kl_rate"] == 0.001
    ids = torch.tensor([[one for word in model.tokeniser.words("a dog") for one in word]])
    expected = linear(bert.eval()(ids).last_hidden_state).mean(1)
    text = Tokens(ids, torch.ones_like(ids, dtype=torch.bool))
    found = model.views[0].encode_text(text).parts[:, 0]
    torch.testing.assert_close(found, nn.functional.normalize(expected))


def test_an_imported_run_is_evaluated_as_any_other(tmp_path, command):
    data = write_precomp(tmp_path / "f30k_precomp", dim=VISUAL)
    words = sorted({word for path in data.glob("*.txt") for word in path.read_text().split()})
    numbers = {word: number for number, word in enumerate([*MARKS, *words])}
    listed = {"word2idx": numbers, "idx2word": {}, "idx": len(numbers)}
    (tmp_path / "vocab").mkdir()
    (tmp_path / "vocab" / "f30k_precomp_vocab.json").write_text(json.dumps(listed))
    file = write(tmp_path / "best.tar", region_layers(words=len(numbers) + 1))
    code, out, _ = command("import", "vse_infty", file, "--out", tmp_path / "run")
    assert (code, out.split(",")[0]) == (0, "vse_infty")
    code, out, _ = command("evaluate", tmp_path / "run", "--data", data, "--json")
    assert code == 0 and json.loads(out)["about"]["texts"] == 120


class Calls:
    """Pickles as a call of any function."""

    def __init__(self, function: Any, *arguments: Any):
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("function", "named"),
    [
        (os.system, "posix.system"),
        (builtins.exec, "exec"),
        (builtins.getattr, "getattr"),
        (importlib.import_module, "importlib.import_module"),
        (np.load, "numpy.load"),
    ],
)
def test_nothing_inside_a_checkpoint_is_run(tmp_path, function, named, legacy):
    mark = tmp_path / "ran"
    argument = f"touch {mark}" if function is os.system else f"open({str(mark)!r}, 'w')"
    bomb = Calls(function, argument)
    for number, place in enumerate(({"model": [bomb]}, {"model": [], "opt": bomb})):
        file = tmp_path / f"{number}.tar"
        torch.save(
            {"opt": argparse.Namespace(), **place},
            file,
            _use_new_zipfile_serialization=not legacy,
        )
        assert refused(import_checkpoint, "vsepp", file) == (
            f"The checkpoint '{file}' holds a '{named}', and reading it could run code that "
            "came with the file. Expected tensors, plain numbers and an argparse.Namespace. "
            "Save it without that object where you trust its origin."
        )
    assert not mark.exists()


def test_a_whole_module_is_refused_by_its_name(tmp_path):
    file = write(tmp_path / "a.tar", nn.Linear(2, 2))
    assert "holds a 'torch.nn.modules.linear.Linear'" in refused(
        import_checkpoint, "vsepp", file
    )


def test_numpy_numbers_are_numbers_and_nothing_else(tmp_path):
    kinds = [np.float32(0.5), np.float64(-2.5), np.int64(-7), np.int32(9), np.bool_(True)]
    options = {f"option{number}": value for number, value in enumerate(kinds)}
    file = write(tmp_path / "a.tar", [{"w": torch.ones(1)}], **options)
    found = published_checkpoint.read_checkpoint(file)
    assert [found.options[name] for name in options] == [0.5, -2.5, -7, 9, True]
    assert {type(found.options[name]) for name in options} == {float, int, bool}
    for wrong in (np.complex64(1), np.datetime64(3, "D"), np.ones(2)):
        file = write(tmp_path / "b.tar", [{"w": torch.ones(1)}], wrong=wrong)
        assert "holds a 'numpy" in refused(published_checkpoint.read_checkpoint, file)


def test_unknown_and_missing_tensors_are_named(tmp_path, vocabulary):
    why = "The checkpoint cannot be read as one of 'vse_infty': {}. Expected what that system "
    why += "saves. Check which system it comes from."
    image, text = region_layers()
    file = write(tmp_path / "a.tar", [image | {"extra.weight": torch.ones(1)}, text])
    assert refused(import_checkpoint, "vse_infty", file, vocabulary) == why.format(
        "its tensors 'img_enc.extra.weight' are unknown here"
    )
    silent = {name: text[name] for name in text if not name.startswith("rnn")}
    file = write(tmp_path / "b.tar", [image, silent])
    assert refused(import_checkpoint, "vse_infty", file, vocabulary) == why.format(
        "it has nothing for 'text.gru.ahead.weight_ih_l0', 'text.gru.ahead.weight_hh_l0', "
        "'text.gru.ahead.bias_ih_l0', 'text.gru.ahead.bias_hh_l0', "
        "'text.gru.back.weight_ih_l0' and 3 more"
    )
    file = write(tmp_path / "c.tar", [image | {"fc.bias": torch.ones(3)}, text])
    assert refused(import_checkpoint, "vse_infty", file, vocabulary) == why.format(
        "'visual.straight.bias' has the shape (3,) where its options ask for (8,)"
    )
    file = write(tmp_path / "d.tar", [{}, text])
    assert refused(import_checkpoint, "vse_infty", file, vocabulary) == why.format(
        "it has no 'fc.weight'"
    )
    with pytest.raises(UnknownName, match=r"There is no 'vsep' in importing. Did you mean"):
        import_checkpoint("vsep", file, vocabulary)


def test_a_file_cannot_ask_for_more_memory_than_it_has_weights():
    method = {"name": "vse_infty", "dim": 10**7, "visual_dim": 10**7, "vocabulary": 10**9}
    small = Translated(method, {"name": "hinge"}, [{}])
    assert "it has nothing for 'visual.straight.weight'" in refused(fit, "vse_infty", small, {})


def test_large_files_and_stretched_tensors_are_refused(tmp_path, monkeypatch):
    stretched = torch.zeros(1).expand(10**10)
    file = write(tmp_path / "a.tar", [{"w": stretched}])
    assert refused(published_checkpoint.read_checkpoint, file) == (
        f"The checkpoint '{file}' takes 37.3 GB. Expected at most 4 GB. Save it again "
        "without what is no network."
    )
    monkeypatch.setattr(published_checkpoint, "LARGEST", 10**6)
    write(file, [{"w": torch.zeros(10**6)}])
    packed = tmp_path / "b.tar"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(packed, "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry), zipfile.ZIP_DEFLATED)
    assert packed.stat().st_size < 10**5
    assert "takes 0.0 GB" in refused(published_checkpoint.read_checkpoint, packed)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ([1, 2], "it holds a 'list'"),
        ({"model": [{"w": torch.ones(1)}]}, "it has no options under 'opt'"),
        ({"opt": {}, "epoch": 3}, "it has no networks"),
        (
            {"opt": {}, "model": [{"w": torch.tensor([1.0, torch.nan])}]},
            "its tensor 'model[0].w' holds NaN or infinite numbers",
        ),
        (
            {"opt": {}, "model": {"w": torch.ones(2).to_sparse()}},
            "its tensor 'model.w' is no plain array of numbers",
        ),
    ],
)
def test_what_is_no_checkpoint_is_told_why(tmp_path, content, why):
    file = tmp_path / "a.tar"
    torch.save(content, file)
    assert refused(published_checkpoint.read_checkpoint, file) == (
        f"The file '{file}' is no checkpoint that can be imported: {why}. Expected a "
        "dictionary with the states of networks and their options, saved by torch. Download "
        "it again, or name another file."
    )


def ten_times_ten_times() -> list:
    """Forty lists of ten times the next one: a few hundred bytes, 10^40 entries."""
    nested: list = [torch.ones(1)]
    for _ in range(40):
        nested = [nested] * 10
    return nested


def itself() -> list:
    nested: list = [torch.ones(1)]
    nested.append(nested)
    return nested


@pytest.mark.parametrize("place", ["model", "opt"])
@pytest.mark.parametrize(
    ("nested", "why"),
    [
        (ten_times_ten_times, "it has more than 1,000,000 entries"),
        (itself, "its lists are nested more than 20 deep"),
    ],
)
def test_lists_inside_lists_take_neither_forever_nor_the_stack(tmp_path, nested, why, place):
    content: dict = {"model": {"weight": torch.ones(1)}, "opt": {"dim": 4}}
    content[place] = {**content[place], "nested": nested()}
    path = tmp_path / "nested.pth.tar"
    torch.save(content, path)
    assert refusal(lambda: published_checkpoint.read_checkpoint(path), WrongCheckpoint) == (
        f"The file {str(path)!r} is no checkpoint that can be imported: {why}. Expected a "
        "dictionary with the states of networks and their options, saved by torch. Download "
        "it again, or name another file."
    )


def test_broken_files_end_in_a_sentence(tmp_path):
    file = write(tmp_path / "a.tar", region_layers())
    whole = file.read_bytes()
    for broken in (b"", b"hello", whole[: len(whole) // 2], b"\x80\x02" + whole):
        file.write_bytes(broken)
        assert "is no checkpoint that can be imported" in refused(
            published_checkpoint.read_checkpoint, file
        )
    assert refused(published_checkpoint.read_checkpoint, tmp_path / "none") == (
        f"There is no checkpoint '{tmp_path / 'none'}'. Expected a file saved by a published "
        "system, such as model_best.pth.tar. Check the path."
    )


def test_the_vocabulary_must_be_its_own(tmp_path, vocabulary):
    file = write(tmp_path / "a.tar", region_layers(words=20))
    assert refused(import_checkpoint, "vse_infty", file) == (
        f"There is no vocabulary beside '{file}', which knows 20 words. Expected the JSON "
        "that was published with it; name it with --vocabulary."
    )
    assert refused(import_checkpoint, "vse_infty", file, vocabulary) == (
        f"The vocabulary '{vocabulary}' has 11 words, the one that hides others among them, "
        "and the checkpoint knows 20. Expected the vocabulary it was trained with; name that "
        "with --vocabulary."
    )


@pytest.mark.parametrize(
    ("system", "options", "sentence"),
    [
        ("vse_infty", {"no_imgnorm": True}, "The checkpoint was trained with 'no_imgnorm'."),
        ("vse_infty", {"precomp_enc_type": "backbone"}, "has the image encoder 'backbone'"),
        ("vsepp", {"measure": "order"}, "The checkpoint compares by 'order'."),
        ("tcl", {"method": "CLIP"}, "The checkpoint has the method 'CLIP'."),
        ("tcl", {}, "it has no 'method'"),
    ],
)
def test_what_we_cannot_compute_is_refused(tmp_path, system, options, sentence):
    file = write(tmp_path / "a.tar", region_layers(), **options)
    published = published_checkpoint.read_checkpoint(file)
    assert sentence in refused(translate, system, published)
