"""The contract of every method: one file in `methods/` is one row of these tests."""

from pathlib import Path

import pytest
import torch
from samples import SIZES, SMALLER, regions, tokens, typed_with_defaults
from tiny_bert import save_bert
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from avow import methods
from avow.assembly.scores import Blocks, compare
from avow.core import folder
from avow.core.contracts import Method, Regions, Tokens, VectorMethod

NAMES = folder.names(methods)
INSIDE = ("caption_dim", "caption_word_dim", "similarity_dim", "heads", "head_dim")
INSIDE += ("visual_hidden", "text_hidden", "visual_maps", "text_maps")


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def method(name) -> Method:
    torch.manual_seed(0)
    return built(name).eval()


def built(name: str, **chosen: object) -> Method:
    """A small one; as large as the paper's, some take most of a second to make."""
    inside = {key: value for key, value in SMALLER.get(name, {}).items() if key in INSIDE}
    return folder.build(methods, name, **SIZES | inside | chosen)


def score(method: Method, visual: Regions, text: Tokens) -> torch.Tensor:
    return method.similarity(method.encode_visual(visual), method.encode_text(text))


def test_scores_every_pair_within_bounds(name):
    """Of the size that a recipe gets where it says nothing."""
    torch.manual_seed(0)
    method = folder.build(methods, name, **SIZES).eval()
    scores = score(method, regions([5, 3, 1]), tokens([7, 4]))
    assert scores.shape == (3, 2)
    assert scores.abs().max() <= 1 + 1e-6


def test_ignores_padding_of_images(method):
    visual, text = regions([5, 3, 1]), tokens([7, 4])
    noisy = visual.features.clone()
    noisy[~visual.present] = 99.0
    changed = Regions(noisy, visual.present, visual.boxes)
    torch.testing.assert_close(score(method, visual, text), score(method, changed, text))


def test_ignores_padding_of_texts(method):
    visual, text = regions([5, 3]), tokens([7, 4, 1])
    noisy = torch.where(text.present, text.ids, 9)
    changed = Tokens(noisy, text.present)
    torch.testing.assert_close(score(method, visual, text), score(method, visual, changed))


def test_more_padding_changes_nothing(method):
    visual, text = regions([5, 3]), tokens([7, 4, 1])
    wider = Tokens(
        torch.nn.functional.pad(text.ids, (0, 5)),
        torch.nn.functional.pad(text.present, (0, 5)),
    )
    torch.testing.assert_close(score(method, visual, text), score(method, visual, wider))


def test_an_item_does_not_depend_on_its_neighbours(method):
    visual, text = regions([5, 3, 2, 4]), tokens([7, 4, 2])
    together = score(method, visual, text)
    alone = score(
        method,
        Regions(visual.features[1:2], visual.present[1:2], visual.boxes[1:2]),
        Tokens(text.ids[1:2, :4], text.present[1:2, :4]),
    )
    torch.testing.assert_close(alone[0, 0], together[1, 1])


def test_shuffling_items_shuffles_scores(method):
    visual, text = regions([5, 3, 2]), tokens([7, 4, 2, 5])
    rows, columns = torch.tensor([2, 0, 1]), torch.tensor([3, 1, 0, 2])
    shuffled = score(
        method,
        Regions(visual.features[rows], visual.present[rows], visual.boxes[rows]),
        Tokens(text.ids[columns], text.present[columns]),
    )
    torch.testing.assert_close(shuffled, score(method, visual, text)[rows][:, columns])


@pytest.mark.parametrize("block", [1, 2, 3, 50])
def test_scoring_in_blocks_equals_scoring_at_once(method, block):
    visual, text = regions([5, 3, 2, 1, 4]), tokens([7, 4, 2, 5])
    with torch.inference_mode():
        images, texts = method.encode_visual(visual), method.encode_text(text)
        whole = method.similarity(images, texts)
    found = compare(method, images, texts, "cpu", Blocks(images=block, texts=block))
    torch.testing.assert_close(torch.from_numpy(found), whole)


def test_gradients_reach_every_parameter(method):
    """Through the similarity or the regulariser, once no layer is the identity any more."""
    method.train()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    visual = method.encode_visual(regions([5, 3, 1]))
    text = method.encode_text(tokens([7, 4, 2]))
    scores = method.similarity(visual, text)
    value = (scores * torch.arange(9.0).reshape(3, 3)).sum()
    (value + method.regulariser(visual, text)).backward()
    for name, parameter in method.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_is_deterministic_in_eval_mode(name):
    torch.manual_seed(0)
    drops = {"dropout_word": 0.5, "dropout_image": 0.5, "dropout_head": 0.5}
    method = built(name, **drops)
    visual, text = regions([5, 3]), tokens([7, 4])
    method.eval()
    assert torch.equal(score(method, visual, text), score(method, visual, text))
    method.train()
    assert not torch.equal(score(method, visual, text), score(method, visual, text))


@pytest.mark.parametrize("which", ["dropout_word", "dropout_image", "dropout_head"])
def test_each_dropout_does_something(name, which):
    torch.manual_seed(0)
    method = built(name, **{which: 0.5}).train()
    visual, text = regions([5, 3]), tokens([7, 4])
    assert not torch.equal(score(method, visual, text), score(method, visual, text))


def test_vector_methods_give_unit_vectors(method):
    if not isinstance(method, VectorMethod):
        return
    vectors = method.vectors(method.encode_visual(regions([5, 3])))
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(2))


def test_its_file_names_a_paper(name):
    assert "Paper:" in (folder.find(methods, name).__doc__ or "")


def test_build_is_typed_and_has_defaults(name):
    assert typed_with_defaults(methods, name)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory) -> Path:
    """A BERT of two small layers with its tokeniser, saved as anybody would save one."""
    where = tmp_path_factory.mktemp("bert")
    listed = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"a dog runs cat sits red".split(),
    ]
    words = {word: number for number, word in enumerate(listed)}
    made = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=made, mask_token="[MASK]", pad_token="[PAD]"
    ).save_pretrained(where)
    save_bert(where, len(words), num_hidden_layers=2)
    return where


def test_takes_a_transformer(name, tiny_bert):
    torch.manual_seed(0)
    method = built(name, text="bert", text_source=str(tiny_bert))
    method.eval()
    visual, text = regions([5, 3, 2]), tokens([7, 4, 1], words=11)
    scores = score(method, visual, text)
    assert scores.shape == (3, 3)
    wider = Tokens(
        torch.nn.functional.pad(text.ids, (0, 3)),
        torch.nn.functional.pad(text.present, (0, 3)),
    )
    torch.testing.assert_close(score(method, visual, wider), scores, rtol=1e-4, atol=1e-5)
    assert len(method.pretrained_parameters()) > 10
    method.train()
    score(method, visual, text).sum().backward()
    assert all(p.grad is not None for p in method.pretrained_parameters())


def test_takes_word_vectors(name):
    method = folder.build(methods, name, **SIZES, text="glove")
    vectors = torch.arange(12.0).reshape(2, 6).numpy()
    known = method.use_word_vectors(["<pad>", "dog", "cat"], ["cat", "horse"], vectors)
    assert known == 1
    row = next(p for n, p in method.named_parameters() if n.endswith("words.weight"))[2]
    torch.testing.assert_close(row.detach(), torch.arange(6.0))
