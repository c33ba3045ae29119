"""SCAN, IMRAM and ACMNet against plain loops over pairs, with nothing padded."""

import math
import re
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import SIZES, examples, regions, tokens
from torch import Tensor

from avow import losses
from avow.assembly.recipe import Recipe, names
from avow.blocks.attention import Focus, FocusNorm
from avow.core import folder
from avow.core.contracts import Encoded, Lesson, Regions, Tokens
from avow.core.errors import BadRecipe
from avow.methods import acmnet, imram, scan
from avow.methods._partwise import NormKind, Partwise
from avow.methods.acmnet import ConfidenceMatching
from avow.methods.imram import Memory, RecurrentAttention
from avow.methods.scan import CrossAttention

DIM = 5
counts = st.lists(st.sampled_from([1, 2, 3, 5, 23]), min_size=1, max_size=4)
seeds = st.integers(0, 1000)


def items(lengths: list[int], seed: int) -> tuple[Encoded, list[Tensor]]:
    """Random parts in double precision: padded, and each item by itself."""
    draw = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths) + 1, DIM)
    parts = torch.randn(shape, generator=draw, dtype=torch.float64)
    present = torch.arange(shape[1])[None] < torch.tensor(lengths)[:, None]
    own = [parts[place, :length] for place, length in enumerate(lengths)]
    return Encoded(parts * present[..., None], present), own


def in_pairs(compare, images: list[Tensor], texts: list[Tensor]) -> Tensor:
    return torch.stack([torch.stack([compare(v, t) for t in texts]) for v in images])


# --- the attention of SCAN, one query part after the other ----------------------------


def leaky(x: Tensor, slope: float) -> Tensor:
    return torch.where(x > 0, x, slope * x)


def comparable(products: Tensor, norm: str, slope: float) -> Tensor:
    """Rows are queries; every column is made comparable across them."""
    if norm.startswith("clipped"):
        products = leaky(products, slope)
    columns = []
    for column in products.T:
        if norm == "softmax":
            column = column.exp() / column.exp().sum()
        elif norm.endswith("l2norm"):
            column = column / (column.square().sum().sqrt() + 1e-8)
        elif norm.endswith("l1norm"):
            column = column / (column.abs().sum() + 1e-8)
        columns.append(column)
    return torch.stack(columns, 1)


def attended(
    query: Tensor, context: Tensor, smooth: float, norm="clipped_l2norm", slope=0.1
) -> Tensor:
    """What every query part looks at, formed in full."""
    scaled = smooth * comparable(query @ context.T, norm, slope)
    out = []
    for row in scaled:
        weights = row.exp() / row.exp().sum()
        out.append(sum(weight * part for weight, part in zip(weights, context, strict=True)))
    return torch.stack(out)


def cosines(one: Tensor, other: Tensor) -> list[Tensor]:
    return [a @ b / (a.norm() * b.norm()) for a, b in zip(one, other, strict=True)]


# --- SCAN -----------------------------------------------------------------------------


@pytest.mark.parametrize("aggregate", get_args(scan.Aggregate))
@pytest.mark.parametrize("direction", get_args(scan.Direction))
@examples(10, 25)
@given(counts, counts, seeds, st.sampled_from(get_args(FocusNorm)))
def test_scan_equals_a_loop(direction, aggregate, images, texts, seed, norm):
    (visual, each_image), (text, each_text) = items(images, seed), items(texts, seed + 1)

    def compare(image: Tensor, words: Tensor) -> Tensor:
        query, context = (words, image) if direction == "t2i" else (image, words)
        local = cosines(query, attended(query, context, 4.0, norm))
        if aggregate == "mean":
            return sum(local) / len(local)
        return sum((6.0 * value).exp() for value in local).log() / 6.0

    pairing = CrossAttention(direction, aggregate, 6.0, Focus(4.0, norm))
    torch.testing.assert_close(pairing(visual, text), in_pairs(compare, each_image, each_text))


def test_the_similarity_of_scan_is_its_score_where_that_is_bounded():
    method = scan.build(**SIZES).eval()
    visual, text = method.encode_visual(regions([5, 3])), method.encode_text(tokens([7, 4]))
    torch.testing.assert_close(method.similarity(visual, text), method.score(visual, text))
    longer = scan.build(**SIZES, aggregate="lse", lse_scale=0.1).eval()
    assert longer.score(visual, text).min() > 1  # log(4) / 0.1 and more
    assert longer.similarity(visual, text).max() <= 1


# --- IMRAM ----------------------------------------------------------------------------


def remembered(memory: Memory, query: Tensor, seen: Tensor) -> Tensor:
    both = torch.cat([query, seen], -1)
    gate, fresh = memory.gate(both).sigmoid(), memory.fresh(both).tanh()
    new = gate * query + (1 - gate) * fresh
    return new / (new.norm(dim=-1, keepdim=True) + 1e-8) if memory.norm else new


def steps_of(memory: Memory | None, query: Tensor, context: Tensor, steps: int) -> Tensor:
    total, state = 0.0, query
    for step in range(steps):
        seen = attended(state, context, 9.0)
        total = total + sum(cosines(query, seen)) / len(query)
        if step + 1 < steps:
            assert memory is not None
            state = remembered(memory, state, seen)
    return torch.as_tensor(total)


@pytest.mark.parametrize("memory_norm", [False, True])
@pytest.mark.parametrize("mode", get_args(imram.Mode))
@examples(6, 15)
@given(counts, counts, seeds, st.integers(1, 3))
def test_imram_equals_a_loop(mode, memory_norm, images, texts, seed, steps):
    torch.manual_seed(seed)
    (visual, each_image), (text, each_text) = items(images, seed), items(texts, seed + 1)
    pairing = RecurrentAttention(mode, steps, DIM, memory_norm, Focus(9.0)).double()

    def compare(image: Tensor, words: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        if mode in ("full", "text"):
            total = total + steps_of(pairing.words, words, image, steps)
        if mode in ("full", "image"):
            total = total + steps_of(pairing.regions, image, words, steps)
        return total

    found = pairing(visual, text)
    torch.testing.assert_close(found, in_pairs(compare, each_image, each_text))


@pytest.mark.parametrize(("mode", "terms"), [("full", 6), ("text", 3), ("image", 3)])
def test_the_similarity_of_imram_is_the_mean_over_steps_and_directions(mode, terms):
    torch.manual_seed(0)
    method = imram.build(**SIZES, mode=mode).eval()
    visual, text = method.encode_visual(regions([5, 3])), method.encode_text(tokens([7, 4]))
    score = method.score(visual, text)
    torch.testing.assert_close(method.similarity(visual, text), score / terms)
    raw = imram.build(**SIZES, mode=mode, squash="none").eval()
    raw.load_state_dict(method.state_dict())
    torch.testing.assert_close(raw.similarity(visual, text), score)


def test_imram_looks_at_least_once():
    with pytest.raises(BadRecipe) as caught:
        imram.build(**SIZES, steps=0)
    assert str(caught.value) == (
        "steps of 'imram' in methods is '0'. Expected at least 1. Look once or more."
    )


# --- ACMNet: Eq. 1 to 22 of its paper ---------------------------------------------------


def unit(x: Tensor) -> Tensor:
    return x / (x.norm(dim=-1, keepdim=True) + 1e-8)


def region_features(method: Partwise, features: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 1 and 2."""
    local = features @ method.visual.straight.weight.T + method.visual.straight.bias
    local = unit(local) if method.norm in ("both", "image") else local
    return local, sum(local) / len(local)


def word_features(method: Partwise, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 3 to 6; each direction of the GRU reads the caption alone."""
    words = method.text.words.weight[ids]
    ahead = method.text.gru.ahead(words[None])[0][0]
    back = method.text.gru.back(words.flip(0)[None])[0][0].flip(0)
    local, whole = (ahead + back) / 2, (ahead[-1] + back[0]) / 2
    if method.norm in ("both", "text"):
        local, whole = unit(local), unit(whole)
    return local, whole


def grounded_on(
    query: Tensor,
    context: Tensor,
    whole: Tensor,
    how: ConfidenceMatching,
) -> Tensor:
    """Eq. 7 to 13 with regions as the query, Eq. 7 and 14 to 19 with words."""
    products = query @ context.T  # Eq. 7, of unit vectors where they are asked for
    kept = products.clamp(min=0)
    scaled = kept / (kept.square().sum(0).sqrt() + 1e-8)  # Eq. 8 or 14
    total = torch.zeros(())
    for part, row in zip(query, scaled, strict=True):
        weight = (how.how.smooth * row).exp() / (how.how.smooth * row).exp().sum()  # Eq. 9, 15
        seen = weight @ context  # Eq. 10 or 16
        local = part @ seen / (part.norm() * seen.norm())  # Eq. 11 or 17
        confidence = how.gate(torch.cat([part, whole])).sigmoid()[0]  # Eq. 12 or 18
        total = total + local * (confidence + how.base)
    return total / len(query) if how.reduce == "mean" else total  # Eq. 13 or 19


def acmnet_loop(method: Partwise, visual: Regions, text: Tokens) -> Tensor:
    pairing = method.pairing
    assert isinstance(pairing, ConfidenceMatching)

    def compare(features: Tensor, ids: Tensor) -> Tensor:
        parts, image = region_features(method, features)
        words, caption = word_features(method, ids)
        if pairing.grounded == "image":
            return grounded_on(parts, words, caption, pairing)
        return grounded_on(words, parts, image, pairing)

    pictures = [f[p] for f, p in zip(visual.features, visual.present, strict=True)]
    captions = [i[p] for i, p in zip(text.ids, text.present, strict=True)]
    return in_pairs(compare, pictures, captions)


@pytest.mark.parametrize("norm", get_args(NormKind))
@pytest.mark.parametrize("reduce", get_args(acmnet.Reduce))
@pytest.mark.parametrize("grounded", ["image", "text"])
@examples(2, 10)
@given(counts, counts, seeds)
def test_acmnet_equals_its_equations(grounded, reduce, norm, images, texts, seed):
    torch.manual_seed(seed)
    chosen = {"grounded": grounded, "reduce": reduce, "norm": norm, "smooth": 6.0, "base": 0.3}
    method = acmnet.build(**SIZES, **chosen).eval()
    visual, text = regions(images, 23, seed=seed), tokens(texts, 23, seed=seed)
    found = method.score(method.encode_visual(visual), method.encode_text(text))
    expected = acmnet_loop(method, visual, text)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_similarity_of_acmnet_is_bounded():
    torch.manual_seed(0)
    for reduce in ("mean", "sum"):
        method = acmnet.build(**SIZES, reduce=reduce).eval()
        visual = method.encode_visual(regions([5, 3]))
        text = method.encode_text(tokens([7, 4]))
        score = method.score(visual, text)
        expected = score / 1.5 if reduce == "mean" else score.tanh()
        torch.testing.assert_close(method.similarity(visual, text), expected)


@pytest.mark.parametrize(("hardest", "equation"), [(False, "VSE"), (True, "VSEPP")])
def test_the_losses_of_acmnet_are_settings_of_the_hinge(hardest, equation):
    """Eq. 20, and Eq. 21 with 22, summed over the pairs of a batch."""
    torch.manual_seed(0)
    score, margin, total = torch.rand(6, 6), 0.2, 0.0
    for i in range(6):
        others = [j for j in range(6) if j != i]
        to_text = {j: max(0.0, float(margin - score[i, i] + score[i, j])) for j in others}
        to_image = {j: max(0.0, float(margin - score[i, i] + score[j, i])) for j in others}
        if equation == "VSE":
            total += sum(to_text.values()) + sum(to_image.values())
        else:
            text = max(others, key=lambda j: float(score[i, j]))
            image = max(others, key=lambda j: float(score[j, i]))
            total += to_text[text] + to_image[image]
    loss = folder.build(losses, "hinge", margin=margin, hardest=hardest, warm_up=0)
    (value,) = loss.steps(lambda: [score], Lesson.paired(6))
    assert math.isclose(float(value), total, rel_tol=1e-5)


# --- what all three share ---------------------------------------------------------------


VARIANTS = [
    (scan, {"direction": "t2i", "aggregate": "lse"}),
    (scan, {"direction": "i2t"}),
    (imram, {"mode": "full"}),
    (imram, {"mode": "image", "memory_norm": True}),
    (acmnet, {"grounded": "image"}),
    (acmnet, {"grounded": "text", "norm": "none"}),
]


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(("module", "chosen"), VARIANTS)
def test_tiles_change_neither_scores_nor_gradients(module, chosen, recompute, monkeypatch):
    torch.manual_seed(0)
    method = module.build(**SIZES, **chosen)
    tiled = module.build(**SIZES, **chosen, tile_mb=1, recompute=recompute)
    tiled.load_state_dict(method.state_dict())
    monkeypatch.setattr("avow.methods._partwise.MB", 900)
    calls: list[int] = []
    tiled.pairing.register_forward_hook(lambda *_: calls.append(1))
    visual, text = regions([5, 3, 1, 4]), tokens([7, 1, 2, 6, 3])

    def scores_of(one: Partwise) -> Tensor:
        return one.score(one.encode_visual(visual), one.encode_text(text))

    torch.testing.assert_close(scores_of(tiled), scores_of(method))
    found, expected = (
        torch.autograd.grad((scores_of(one) * torch.arange(5.0)).sum(), list(one.parameters()))
        for one in (tiled, method)
    )
    assert len(calls) > 2
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("module", "chosen"), VARIANTS)
def test_parts_without_any_length_have_finite_gradients(module, chosen):
    """Features of a masked region and a fresh bias can both be zero."""
    method = module.build(**SIZES, **chosen)
    visual = Regions(torch.zeros(2, 3, 12), torch.ones(2, 3, dtype=torch.bool))
    scores = method.similarity(method.encode_visual(visual), method.encode_text(tokens([4, 1])))
    assert torch.isfinite(scores).all()
    scores.sum().backward()
    gradients = [p.grad for p in method.parameters() if p.grad is not None]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


PUBLISHED = [name for name in names() if re.search("/(scan|imram|acmnet).*_hinge", name)]


@pytest.mark.parametrize("name", PUBLISHED)
def test_recipes_scale_the_published_margin_and_clip_with_the_similarity(name):
    """Dividing scores, margin and clip by one number leaves Adam's steps as they were."""
    recipe = Recipe.open(name)
    method = recipe.build_method(visual_dim=4, vocabulary=5, dim=4)
    assert isinstance(method, Partwise) and method.pairing.largest is not None
    assert recipe.loss["margin"] * method.pairing.largest == pytest.approx(0.2, rel=2e-3)
    assert recipe.train.clip * method.pairing.largest == pytest.approx(2.0, rel=2e-3)


def test_there_is_a_recipe_for_every_one_and_loss_on_flickr8k():
    for method in ("scan_t2i", "scan_i2t", "imram", "acmnet_gi", "acmnet_gt"):
        for loss in ("hinge", "tcl"):
            assert f"flickr8k/{method}_{loss}" in names()
