"""GSMN's match vectors learnt from products against those of what nodes gather."""

import pytest
import torch
from samples import regions, tokens

from avow.methods import gsmn


def built(dim=64, blocks=4, **more):
    torch.manual_seed(0)
    sizes = {"visual_dim": 12, "vocabulary": 30, "dim": dim, "word_dim": 6, "blocks": blocks}
    return gsmn.build(**sizes, **more)


def values_and_slopes(method, sides, from_products, monkeypatch):
    monkeypatch.setattr(method, "learns_from_products", lambda *given: from_products)
    leaves = [side.parts.detach().double().requires_grad_() for side in sides]
    there = [
        type(side)(leaf, side.present, side.boxes, side.edges)
        for side, leaf in zip(sides, leaves, strict=True)
    ]
    scores = method._compare(*there)
    uneven = torch.linspace(-1, 2, scores.numel(), dtype=torch.float64).view_as(scores)
    inputs = [*leaves, *method.visual_graph.parameters(), *method.textual_graph.parameters()]
    return [scores.detach(), *torch.autograd.grad((scores * uneven).sum(), inputs)]


@pytest.mark.parametrize("texts", [[7, 4, 1], [3, 3]])
def test_gradients_in_float64_are_those_of_what_is_gathered(monkeypatch, texts):
    method = built()
    visual = method.encode_visual(regions([5, 3, 1, 4]))
    text = method.encode_text(tokens(texts, parts=max(texts)))
    method.double()
    sides = visual, text
    found = values_and_slopes(method, sides, True, monkeypatch)
    expected = values_and_slopes(method, sides, False, monkeypatch)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("tile_mb", [1, pytest.param(1024, marks=pytest.mark.long)])
def test_tiles_and_recomputing_change_nothing(tile_mb):
    method, expected = built(recompute=False), []
    visual, text = regions([5, 3, 1, 4] * 20), tokens([7, 4, 1] * 20)
    for some in (method, built(tile_mb=tile_mb, recompute=True)):
        images, texts = some.encode_visual(visual), some.encode_text(text)
        scores = some.score(images, texts)
        slopes = torch.autograd.grad(scores.square().sum(), list(some.parameters()))
        expected.append([scores, *slopes])
    for one, other in zip(*expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_narrow_blocks_are_gathered_as_published():
    wide, narrow = built(dim=64, blocks=4), built(dim=64, blocks=8)
    for method, expected in ((wide, True), (narrow, False)):
        visual, text = method.encode_visual(regions([5])), method.encode_text(tokens([7]))
        assert method.learns_from_products(visual, text) == expected
