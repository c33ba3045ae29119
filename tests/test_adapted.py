"""A frozen text network with low-rank changes: the published one until it learns."""

import pytest
import torch

from avow.backbones import minilm
from avow.blocks.lora_text import AdaptedTransformer
from avow.blocks.pretrained import text_files
from avow.blocks.text import build_text
from avow.core.contracts import Tokens
from avow.core.errors import BadRecipe
from avow.data.captions import TokenTable
from avow.data.wordpiece import WordPieces

CAPTIONS = ["a dog runs on a beach", "rocket", "two old men talk about the weather of today"]


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    tokeniser = WordPieces.open(text_files("minilm") / "tokenizer.json")
    return TokenTable.from_captions(tokeniser, CAPTIONS).tokens(torch.arange(3))


@pytest.fixture
def network() -> AdaptedTransformer:
    torch.manual_seed(0)
    return AdaptedTransformer("minilm", 4).eval()


def test_it_begins_as_the_published_network(network, tokens):
    theirs, present = minilm.build().states(CAPTIONS)
    with torch.no_grad():
        ours = network(tokens.ids, tokens.present)
    torch.testing.assert_close(
        ours * present[..., None], theirs, rtol=1e-4, atol=1e-5, check_dtype=False
    )


def test_changes_are_seen_at_once_in_evaluation(network, tokens):
    with torch.no_grad():
        before = network(tokens.ids, tokens.present)
        network.high["qkv0"].fill_(0.1)
        after = network(tokens.ids, tokens.present)
    assert (before - after).abs().max() > 1e-3
    network.train()
    torch.testing.assert_close(network(tokens.ids, tokens.present), after)


def test_changes_that_no_version_counts_are_seen_by_the_next_evaluation(network, tokens):
    """As operations on many tensors at once change weights on a device."""
    with torch.no_grad():
        before = network(tokens.ids, tokens.present)
        network.high["qkv0"].data.fill_(0.1)  # which leaves the version as it was
        after = network.eval()(tokens.ids, tokens.present)
    assert (before - after).abs().max() > 1e-3
    torch.testing.assert_close(network.train()(tokens.ids, tokens.present), after)


def test_only_the_changes_are_saved_and_learnt(network):
    saved = network.state_dict()
    changes = {f"{part}.{name}" for part in ("low", "high") for name in network.low}
    assert set(saved) == {"beside", *changes}
    assert sum(tensor.numel() for tensor in saved.values()) < 200_000
    assert {id(p) for p in network.parameters()} == {
        id(p) for part in (network.low, network.high) for p in part.values()
    }


def test_changes_beside_other_weights_are_refused(network):
    saved = network.state_dict() | {"beside": torch.tensor(7)}
    with pytest.raises(RuntimeError, match="beside other weights"):
        network.load_state_dict(saved)


def test_a_gradient_reaches_every_change(tokens):
    torch.manual_seed(0)
    encoder = build_text(
        "adapted", dim=8, vocabulary=9, word_dim=4, source="", pretrained=True, dropout=0.0
    )
    for tensor in encoder.parameters():
        tensor.data.add_(0.01 * torch.randn_like(tensor))
    encoder(tokens).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in encoder.parameters())


def test_a_model_of_another_kind_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(BadRecipe) as caught:
        AdaptedTransformer(str(tmp_path), 4)
    assert str(caught.value) == (
        f"{str(tmp_path)!r} is a 'gpt2' model. Expected BERT or one of its kin with a "
        "'model.safetensors', such as 'minilm'; choose another one, or the text encoder "
        '"bert".'
    )
