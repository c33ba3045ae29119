"""Dual Encoding against a plain version of it, and what padding may do to it."""

import pytest
import torch
from samples import SIZES, SMALLER, regions, tokens
from torch import nn

from avow import methods
from avow.assembly.scores import Blocks, compare
from avow.core import folder
from avow.core.contracts import Regions, Tokens
from avow.core.errors import BadRecipe
from avow.methods.dual_encoding import jaccard

SMALL = {**SIZES, **SMALLER["dual_encoding"]}


def made(**changes):
    torch.manual_seed(0)
    method = folder.build(methods, "dual_encoding", **{**SMALL, **changes}).eval()
    with torch.no_grad():
        for parameter in method.parameters():  # a bias of 0 hides what padding does
            parameter += 0.1 * torch.randn_like(parameter)
    return method


def widened(visual: Regions, more: int) -> Regions:
    pad = nn.functional.pad
    return Regions(pad(visual.features, (0, 0, 0, more)), pad(visual.present, (0, more)))


def plain_levels(states: torch.Tensor, levels) -> torch.Tensor:
    """The mean, and the largest value of every kernel, window by window."""
    found = [states.mean(0)]
    for kernel in levels.kernels:
        width = kernel.kernel_size[0]
        edge = torch.zeros(width - 1, states.shape[1])
        around = torch.cat([edge, states, edge])
        windows = [
            (kernel.weight * around[start : start + width].T).sum((1, 2)) + kernel.bias
            for start in range(len(states) + width - 1)
        ]
        found.append(torch.stack(windows).relu().amax(0))
    return torch.cat(found)


def both_ways(gru, steps: torch.Tensor) -> torch.Tensor:
    ahead, back = gru.ahead(steps[None])[0][0], gru.back(steps.flip(0)[None])[0][0].flip(0)
    return torch.cat([ahead, back], 1)


@torch.no_grad()
def test_equals_a_plain_version_item_by_item():
    method = made(frames=4)
    visual, text = regions([5, 3, 1]), tokens([7, 4, 2])
    for item, count in enumerate((5, 3, 1)):
        frames = visual.features[item, :count]
        levels = plain_levels(both_ways(method.visual.gru, frames[:4]), method.visual.levels)
        joined = torch.cat([levels, frames.mean(0)])[None]  # all frames, not the first four
        expected = nn.functional.normalize(method.visual_mapping(joined))
        torch.testing.assert_close(method.encode_visual(visual).parts[item], expected)
    for item, count in enumerate((7, 4, 2)):
        ids = text.ids[item, :count]
        states = both_ways(method.text.encoder.gru, method.text.encoder.words(ids))
        bag = torch.bincount(ids, minlength=30).float()
        joined = torch.cat([plain_levels(states, method.text.levels), bag])[None]
        expected = nn.functional.normalize(method.text_mapping(joined))
        torch.testing.assert_close(method.encode_text(text).parts[item], expected)


@torch.no_grad()
@pytest.mark.parametrize("faithful", [False, True])
def test_padding_changes_a_video_in_the_published_system_alone(faithful):
    method = made(faithful=faithful)
    visual = regions([4, 2])
    gap = method.vectors(method.encode_visual(visual)) - method.vectors(
        method.encode_visual(widened(visual, 3))
    )
    assert (gap.abs().max() > 1e-4) == faithful


@torch.no_grad()
def test_a_frame_left_out_is_as_if_it_never_was():
    method = made()
    visual = regions([5])
    dropped = Regions(visual.features, torch.tensor([[True, False, True, True, False]]))
    shorter = visual.features[:, [0, 2, 3]]
    alone = Regions(shorter, torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(
        method.encode_visual(dropped).parts, method.encode_visual(alone).parts
    )


def test_kernels_that_are_no_numbers_are_refused():
    with pytest.raises(BadRecipe) as caught:
        made(visual_kernels="2,3")
    assert str(caught.value) == (
        "The kernels of 'dual_encoding' are '2,3'. Expected their widths with hyphens between "
        "them, such as '2-3-4'."
    )


# --- the hybrid space -------------------------------------------------------------------


def test_jaccard_is_the_smaller_over_the_larger():
    torch.manual_seed(0)
    one, other = torch.rand(3, 6), torch.rand(4, 6)
    smaller = torch.minimum(one[:, None], other[None]).sum(-1)
    larger = torch.maximum(one[:, None], other[None]).sum(-1)
    torch.testing.assert_close(jaccard(one, other), smaller / larger)


@torch.no_grad()
def test_the_hybrid_space_keeps_the_contract_of_every_method():
    method = made(concepts=5)
    visual, text = regions([5, 3, 1]), tokens([7, 4, 2])
    images, texts = method.encode_visual(visual), method.encode_text(text)
    scores = method.similarity(images, texts)
    assert scores.abs().max() <= 1
    blocks = compare(method, images, texts, "cpu", Blocks(images=2, texts=1))
    torch.testing.assert_close(torch.from_numpy(blocks), scores)
    torch.testing.assert_close(method.pair_similarity(images, texts), scores.diagonal())
    torch.testing.assert_close(method.pooled(images).norm(dim=-1), torch.ones(3))
    noisy = Tokens(torch.where(text.present, text.ids, 3), text.present)
    torch.testing.assert_close(method.encode_text(noisy).labels, texts.labels)


def test_the_regulariser_trains_the_concepts_that_captions_name():
    method = made(concepts=5).train()
    text = Tokens(
        torch.tensor([[1, 4, 9], [2, 2, 0]]), torch.tensor([[True] * 3, [True] * 2 + [False]])
    )
    images, texts = method.encode_visual(regions([5, 3])), method.encode_text(text)
    labels = torch.tensor([[0.0, 1, 0, 0, 1], [0, 0, 1, 0, 0]])
    assert torch.equal(texts.labels, labels)
    concepts = [side.parts[:, 0, method.dim :] for side in (images, texts)]
    table = jaccard(*concepts).detach()
    # with two items each query has one negative, and both directions share them
    hinge = sum(
        max(0.0, 0.2 + float(side[own, 1 - own] - side[own, own]))
        for side in (table, table.T)
        for own in (0, 1)
    )
    missed = [-(labels * p.log() + (1 - labels) * (1 - p).log()).mean() for p in concepts]
    expected = hinge + 2 * (missed[0] + missed[1])
    torch.testing.assert_close(method.regulariser(images, texts), expected)
    latent = method.spaces(images, texts)[0]
    torch.testing.assert_close(method.similarity(images, texts), latent)
