"""Tiles: the same numbers as all at once, within the room they are given."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from avow.blocks.squash import squashed
from avow.blocks.tiles import in_tiles
from avow.core.contracts import Encoded


def items(counts: list[int], dim: int = 3, seed: int = 0) -> Encoded:
    draw = torch.Generator().manual_seed(seed)
    present = torch.arange(max(counts))[None] < torch.tensor(counts)[:, None]
    parts = torch.randn(len(counts), max(counts), dim, generator=draw) * present[..., None]
    return Encoded(parts, present)


def total(visual: Encoded, text: Encoded) -> torch.Tensor:
    """A comparison in which every part of both sides counts, and no padding."""
    every = torch.einsum("imd,tnd->itmn", visual.parts, text.parts)
    return every.square().sum((-1, -2)) + visual.present.sum(1)[:, None]


counts = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@settings(deadline=None)
@given(counts, counts, st.integers(1, 4000))
def test_tiles_equal_all_at_once_within_their_room(images, texts, most):
    visual, text = items(images), items(texts, seed=1)
    pair = 4 * max(images) * max(texts)
    seen = []

    def compare(some: Encoded, others: Encoded) -> torch.Tensor:
        seen.append(4 * some.present.numel() * others.present.numel())
        return total(some, others)

    found = in_tiles(compare, visual, text, pair, most)
    torch.testing.assert_close(found, total(visual, text))
    assert max(seen) <= max(most, pair)
    assert len(seen) <= 3 * (1 + len(images) * len(texts) * pair // most)


def test_short_items_are_not_padded_like_long_ones():
    visual, text = items([2] * 4), items([1, 30, 1, 29, 1, 1], seed=1)
    widths = []

    def compare(some: Encoded, others: Encoded) -> torch.Tensor:
        widths.append(others.present.shape[1])
        return total(some, others)

    in_tiles(compare, visual, text, pair_bytes=1, most=8)
    assert sorted(set(widths)) == [1, 30]


def test_a_gap_is_no_end():
    """Augmentation leaves gaps; what comes after one must not be cut off."""
    visual = items([4] * 6)
    gaps = torch.tensor([True, False, False, True]).repeat(6, 1)
    gapped = Encoded(visual.parts * gaps[..., None], gaps)
    text = items([3, 1, 2], seed=1)
    expected = total(gapped, text)
    torch.testing.assert_close(in_tiles(total, gapped, text, 1, 2), expected)


def test_boxes_and_edges_stay_with_their_items():
    """And a comparison may give several kinds of scores at once."""
    visual, text = items([2, 5, 3]), items([4, 1, 6, 2], seed=1)
    edges = text.present[:, :, None] & text.present[:, None]
    visual = Encoded(visual.parts, visual.present, boxes=visual.parts[..., [0, 1, 2, 0]])
    text = Encoded(text.parts, text.present, edges=edges)

    def compare(some: Encoded, others: Encoded) -> torch.Tensor:
        assert some.boxes is not None and others.edges is not None
        areas, links = some.boxes.square().sum((1, 2)), others.edges.sum((1, 2))
        return torch.stack([areas[:, None] + links, total(some, others)])

    found = in_tiles(compare, visual, text, pair_bytes=1, most=2)
    torch.testing.assert_close(found, compare(visual, text))


@pytest.mark.parametrize("most", [5, 10_000])
@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_flow_through_tiles(recompute, most):
    visual, text = items([5, 2, 3, 1]), items([7, 1, 4], seed=1)
    calls = 0

    def compare(some: Encoded, others: Encoded) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return total(some, others)

    parts = [encoded.parts.clone().requires_grad_() for encoded in (visual, text)]
    sides = Encoded(parts[0], visual.present), Encoded(parts[1], text.present)
    weights = torch.arange(12.0).reshape(4, 3)
    expected = torch.autograd.grad((total(*sides) * weights).sum(), parts)
    scores = in_tiles(compare, *sides, 1, most, recompute)
    forwards = calls
    found = torch.autograd.grad((scores * weights).sum(), parts)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert calls == forwards * (2 if recompute else 1)


def test_every_squash_but_none_keeps_the_order_within_bounds():
    score = torch.linspace(-3, 3, 9)
    assert squashed(score, "none", 3.0) is score
    torch.testing.assert_close(squashed(score, "auto", 3.0), score / 3)
    torch.testing.assert_close(squashed(score, "auto", None), score.tanh())
    torch.testing.assert_close(squashed(score, "tanh", 3.0), score.tanh())
    torch.testing.assert_close(squashed(score, "sigmoid", 3.0), score.sigmoid())
    for kind in ("auto", "tanh", "sigmoid"):
        found = squashed(score, kind, 3.0)
        assert found.abs().max() <= 1 and (found.diff() > 0).all()
