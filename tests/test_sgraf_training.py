"""Training SAF and SGR: regions stay in their places, and BERT can be fine-tuned."""

import pytest
import torch
from safetensors.torch import load_file
from samples import small_recipe, write_precomp
from test_training import final_weights, run_recipe
from tiny_bert import save_bert
from tokenizers import Tokenizer, models, pre_tokenizers

import avow.training.loop as loop
from avow.assembly.model import Model
from avow.training.batches import Batch


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_precomp(tmp_path_factory.mktemp("data") / "toy_precomp")


@pytest.fixture(scope="module")
def small_bert(tmp_path_factory):
    """A BERT of one layer that knows the words of the data, as `save_pretrained` writes it."""
    home = tmp_path_factory.mktemp("bert")
    listed = "[PAD] [UNK] [CLS] [SEP] [MASK] a the one see runs outside red blue green white"
    words = [*listed.split(), *"dog cat horse bird fish fox .".split()]
    made = Tokenizer(models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(home / "tokenizer.json"))
    save_bert(home, len(words), num_hidden_layers=1)
    return home


def first_batch(content: dict, run, monkeypatch) -> Batch:
    """The first batch that a run would have learnt from."""
    seen: list[Batch] = []

    def look(self, batch: Batch) -> None:
        seen.append(batch)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop.Learner, "learn", look)
    with pytest.raises(KeyboardInterrupt):
        run_recipe(content, run)
    return seen[0]


@pytest.mark.parametrize("method", ["saf", "sgr"])
def test_regions_are_masked_where_a_method_keeps_them(data, tmp_path, monkeypatch, method):
    content = small_recipe(data, regions_changed=0.5)
    content["method"]["name"] = method
    visual = first_batch(content, tmp_path / "run", monkeypatch).visual
    hidden = (visual.features == 1e-8).all(-1)
    assert visual.present.all()
    assert 0.2 < hidden.float().mean() < 0.8


def test_regions_are_dropped_where_it_does_not(data, tmp_path, monkeypatch):
    content = small_recipe(data, regions_changed=0.5)
    visual = first_batch(content, tmp_path / "run", monkeypatch).visual
    assert 0.2 < visual.present.float().mean() < 0.8
    assert not (visual.features == 1e-8).any()


@pytest.mark.long
def test_sgr_with_bert_learns_by_tcl(data, tmp_path, small_bert):
    """The row of TCL's tables that its published system cannot build."""
    content = small_recipe(data, epochs=2, lr=0.01, words_changed=0.0, regions_changed=0.0)
    content["method"] = {
        "name": "sgr",
        "dim": 16,
        "similarity_dim": 32,
        "text": "bert",
        "text_source": str(small_bert),
        "dropout_word": 0.0,
        "dropout_head": 0.0,
    }
    content["loss"] = {"name": "tcl", "kl_rate": 0.001, "agreement_steps": 1}
    run = tmp_path / "run"
    reached = run_recipe(content, run)
    assert reached.best > 250  # chance is 118
    learnt, known = final_weights(run), load_file(small_bert / "model.safetensors")
    for name, tensor in known.items():
        assert not torch.equal(learnt[f"0.text.transformer.{name}"], tensor), name
    model = Model.from_pretrained(run)
    scores = model.similarity(torch.rand(3, 4, 12), ["a red dog", "the white fox"])
    assert scores.shape == (3, 2) and scores.abs().max() <= 1
