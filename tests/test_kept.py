"""Captions read once by a frozen network: the published one, one look each, small on disk."""

import numpy as np
import pytest
import torch

from avow.backbones import minilm
from avow.blocks.cached_text import CaptionReader, caption_reader
from avow.blocks.pretrained import text_files
from avow.blocks.text import build_text
from avow.core.contracts import Tokens
from avow.data.captions import TokenTable
from avow.data.wordpiece import WordPieces

CAPTIONS = ["a dog runs on a beach", "rocket", "two old men talk about the weather of today"]


@pytest.fixture(scope="module")
def table() -> TokenTable:
    tokeniser = WordPieces.open(text_files("minilm") / "tokenizer.json")
    return TokenTable.from_captions(tokeniser, CAPTIONS)


@pytest.fixture
def tokens(table) -> Tokens:
    return table.tokens(torch.arange(3))


@pytest.fixture
def reader() -> CaptionReader:
    return CaptionReader("minilm")


def looks(reader: CaptionReader) -> list[int]:
    """How many captions the network is asked about, each time it is asked."""
    seen: list[int] = []
    reader.network.register_forward_hook(lambda _, given, __: seen.append(len(given[0])))
    return seen


def test_a_vector_is_the_mean_and_the_largest_of_the_published_states(reader, tokens):
    states, present = minilm.build().states(CAPTIONS)
    found = reader.read(tokens)
    for row in range(3):
        own = states[row][present[row].bool()]
        expected = torch.cat([own.mean(0), own.amax(0)])
        torch.testing.assert_close(found[row], expected, rtol=2e-3, atol=1e-3)


def test_every_caption_is_read_once(reader, tokens, table):
    seen = looks(reader)
    first = reader.read(tokens)
    assert sum(seen) == 3
    assert torch.equal(reader.read(tokens), first)
    assert torch.equal(reader.read(table.tokens(torch.tensor([2, 0]))), first[[2, 0]])
    assert sum(seen) == 3
    longer = Tokens(tokens.ids[:1], tokens.present[:1].clone())
    longer.present[0, -1] = True  # one token more is another caption
    assert not torch.equal(reader.read(longer), first[:1])
    assert sum(seen) == 4


def test_what_was_read_while_judging_can_be_learnt_from(tokens):
    """Evaluation runs in a mode whose tensors may not enter a backward pass."""
    torch.manual_seed(0)
    encoder = build_text(
        "kept", dim=8, vocabulary=0, word_dim=0, source="", pretrained=True, dropout=0.0
    )
    encoder.reader = CaptionReader("minilm")
    with torch.inference_mode():
        encoder.eval()(tokens)
    encoder.train()(tokens).square().sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


def test_all_views_and_folds_share_one_reader_and_save_none_of_it(tokens):
    made = [
        build_text(
            "kept", dim=8, vocabulary=0, word_dim=0, source="", pretrained=True, dropout=0.0
        )
        for _ in range(2)
    ]
    assert made[0].reader is made[1].reader is caption_reader("minilm")
    assert sum(tensor.numel() for tensor in made[0].state_dict().values()) < 20_000
    states = made[0].eval()(tokens)
    assert states.shape == (*tokens.ids.shape, 8)
    assert torch.equal(states, states[:, :1].expand_as(states))
    with pytest.raises(RuntimeError, match="trained beside other weights"):
        made[1].load_state_dict(made[0].state_dict() | {"beside": torch.tensor(7)})


def test_what_is_kept_is_small(reader, tokens):
    reader.read(tokens)
    assert len(reader.captions) == 3
    assert reader.vectors.dtype == np.float16 and reader.vectors[:3].nbytes < 3 * 2000


def test_many_captions_in_any_order_and_any_padding(reader, monkeypatch):
    """What is found equals what a plain table would hold, caption by caption."""
    asked = []

    def told(ids):
        asked.extend(ids.tolist())
        marks = (ids * torch.arange(1, ids.shape[1] + 1)).sum(1, keepdim=True) % 2039
        return marks.half().expand(-1, reader.dim).numpy()

    monkeypatch.setattr(reader, "_vectors", told)
    draw = torch.Generator().manual_seed(0)
    plain: dict[tuple[int, ...], float] = {}
    for width in (3, 9, 2, 6):
        lengths = torch.randint(1, width + 1, (60,), generator=draw)
        # few numbers, some of them 0 or with bytes that are: repeated captions, look-alikes
        ids = torch.randint(0, 4, (60, width), generator=draw) * 256
        text = Tokens(ids, torch.arange(width) < lengths[:, None])
        found = reader.read(text)
        for row, length in enumerate(lengths.tolist()):
            caption = tuple(ids[row, :length].tolist())
            mark = sum(n * (place + 1) for place, n in enumerate(caption)) % 2039
            assert plain.setdefault(caption, mark) == found[row, 0]
    assert len(asked) == len(plain) == len(reader.captions)
