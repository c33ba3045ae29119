"""Scores that are only read take a shorter way: the same numbers as with a gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

from avow import methods
from avow.blocks import attention
from avow.blocks import attention_inference as inference
from avow.blocks.attention import Focus
from avow.core import folder
from avow.core.contracts import Encoded, Method

DIM = 64
WAYS = [
    ("scan", {"direction": "t2i"}),
    ("scan", {"direction": "i2t", "smooth": 4.0, "aggregate": "lse"}),
    ("acmnet", {"grounded": "text"}),
    ("acmnet", {"grounded": "image", "reduce": "sum"}),
    ("imram", {"mode": "full"}),
    ("imram", {"mode": "text", "memory_norm": True}),
    ("gsmn", {"blocks": 4}),
    ("gsmn", {"blocks": 4, "faithful": True}),
    ("saf", {"similarity_dim": 16}),
    ("sgr", {"similarity_dim": 16}),
]
counts = st.lists(st.integers(1, 9), min_size=1, max_size=5)


def items(lengths: list[int], seed: int, gaps: bool) -> Encoded:
    """Unit vectors, among which some may be absent; nothing is known of absent ones."""
    draw = torch.Generator().manual_seed(seed)
    parts = torch.randn(len(lengths), max(lengths), DIM, generator=draw, dtype=torch.float64)
    present = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    if gaps:
        present &= torch.rand(present.shape, generator=draw) > 0.3
        present[:, :1] = True
    boxes = torch.rand(*present.shape, 4, generator=draw, dtype=torch.float64)
    return Encoded(parts / parts.norm(dim=-1, keepdim=True), present, boxes)


def made(name: str, chosen: dict) -> Method:
    torch.manual_seed(0)
    sizes = {"visual_dim": 12, "vocabulary": 30, "dim": DIM, "word_dim": 6}
    return folder.build(methods, name, **sizes, **chosen).double().eval()


@pytest.mark.parametrize("name, chosen", WAYS)
@examples(6, 15)
@given(counts, counts, st.integers(0, 1000), st.booleans(), st.sampled_from([1, 4000, 10**6]))
def test_scores_are_those_with_a_gradient(name, chosen, images, texts, seed, gaps, tile):
    method = made(name, chosen)
    if name in ("saf", "sgr"):
        object.__setattr__(method, "_tile_bytes", lambda like: tile)
    led = 1 if name in ("saf", "sgr", "acmnet") else 0
    images, texts = [n + led for n in images], [n + led for n in texts]
    visual, text = items(images, seed, gaps), items(texts, seed + 1, gaps)
    if led:  # what stands before the parts, and one part at least
        visual.present[:, : led + 1], text.present[:, : led + 1] = True, True
    visual = Encoded(visual.parts * visual.present[..., None], visual.present, visual.boxes)
    text = Encoded(text.parts * text.present[..., None], text.present)
    expected = method.score(visual, text).detach()
    with torch.no_grad():
        torch.testing.assert_close(method.score(visual, text), expected)


@examples(15, 40)
@given(counts, counts, st.integers(0, 1000), st.floats(0.5, 20.0), st.sampled_from([0.0, 0.1]))
def test_looking_is_that_of_attention(queries, contexts, seed, smooth, slope):
    query, context = items(queries, seed, True), items(contexts, seed + 1, True)
    how = Focus(smooth, "clipped_l2norm", slope)
    expected = attention.look(query, context, how)
    with torch.no_grad():
        ways = [
            (query, context),
            (inference.as_query(query), inference.as_context(context)),
        ]
        for one, other in ways:
            found = inference.look(one, other, how)
            shown = query.present[None].expand_as(found)
            torch.testing.assert_close(found[shown], expected[shown])


def test_where_the_short_way_is_open():
    query, context = items([3, 2], 0, False), items([4], 1, False)
    with torch.no_grad():
        assert inference.is_possible(query, context, Focus(9.0))
        assert not inference.is_possible(query, context, Focus(40.0)), "exponentials overflow"
        alone = query.rows(slice(0, 1))
        assert not inference.is_possible(alone, context, Focus(9.0)), "it may be one under vmap"
    assert not inference.is_possible(query, context, Focus(9.0)), "a gradient is wanted"


@torch.no_grad()
def test_what_is_attended_may_have_no_length():
    query, context = items([3, 2], 0, False), items([4, 2], 1, False)
    nothing = Encoded(torch.zeros_like(context.parts), context.present)
    assert inference.look(query, nothing, Focus(9.0)).abs().max() == 0
