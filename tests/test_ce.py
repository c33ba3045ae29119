"""Collaborative Experts against a plain version, and what a missing expert may change."""

import numpy as np
import pytest
import torch
from samples import SIZES, regions, tokens
from torch.nn.functional import normalize

from avow import methods
from avow.assembly.scores import Blocks, compare
from avow.blocks.netvlad import NetVlad
from avow.core import folder
from avow.core.contracts import Encoded, Experts, Regions, TextFeatures
from avow.core.errors import BadFeatures, BadRecipe

WIDTHS = {"scene": 5, "audio": 4, "speech": 3}
LISTED = "scene:5, audio:4/2, speech:3/3"


def made(**changes):
    torch.manual_seed(0)
    settings = {**SIZES, "text_dim": 6, "clusters": 3, "experts": LISTED, **changes}
    method = folder.build(methods, "ce", **settings).eval()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        for norm in (m for m in method.modules() if isinstance(m, torch.nn.BatchNorm1d)):
            norm.running_mean += 0.1 * torch.randn_like(norm.running_mean)
    return method


def experts(items: int = 3, missing: dict[str, list[int]] | None = None) -> Experts:
    draw = torch.Generator().manual_seed(1)
    features = {n: torch.randn(items, 4, w, generator=draw) for n, w in WIDTHS.items()}
    present = {n: torch.ones(items, 4, dtype=torch.bool) for n in WIDTHS}
    for name, rows in (missing or {}).items():
        present[name][rows] = False
    return Experts(features, present)


def words(counts: list[int], dim: int = 6) -> TextFeatures:
    draw = torch.Generator().manual_seed(2)
    present = torch.arange(max(counts))[None] < torch.tensor(counts)[:, None]
    return TextFeatures(torch.randn(len(counts), max(counts), dim, generator=draw), present)


@torch.no_grad()
def test_netvlad_equals_a_plain_loop():
    torch.manual_seed(0)
    pool = NetVlad(4, 3, ghosts=2).eval()
    pool.norm.running_mean += torch.randn(5)
    parts, present = torch.randn(2, 5, 4), torch.arange(5)[None] < torch.tensor([[5], [2]])
    for item, count in enumerate((5, 2)):
        apart = torch.zeros(4, 3)
        for part in parts[item, :count]:
            share = pool.norm((part @ pool.belonging)[None])[0].softmax(0)
            for cluster in range(3):
                apart[:, cluster] += share[cluster] * (part - pool.centres[:, cluster])
        columns = torch.stack([normalize(column, dim=0) for column in apart.T], 1)
        expected = normalize(columns.flatten(), dim=0)
        torch.testing.assert_close(pool(parts, present)[item], expected)


@torch.no_grad()
def test_scores_are_means_of_cosines_over_the_experts_that_are_there():
    method = made(text_features=True)
    seen = experts(missing={"audio": [1], "speech": [0, 1]})
    said = words([3, 2, 4, 1])
    vectors, weights = method.text_experts(method.pooled_text(said))
    gated = method.visual(seen)
    scores = method.similarity(method.encode_visual(seen), method.encode_text(said))
    for video, there in enumerate(([0, 1], [0], [0, 1, 2])):
        for text in range(4):
            total = sum(weights[text, m] for m in there)
            cosines = [weights[text, m] * (gated[video, m] @ vectors[text, m]) for m in there]
            torch.testing.assert_close(scores[video, text], sum(cosines) / total)


@torch.no_grad()
def test_what_stands_where_an_expert_is_missing_changes_nothing():
    method = made()
    one = experts(missing={"audio": [1], "speech": [0, 1]})
    noisy = {
        name: f.masked_fill(~one.present[name][..., None], torch.nan)
        for name, f in one.features.items()
    }
    other = Experts(noisy, one.present)
    torch.testing.assert_close(
        method.encode_visual(one).parts, method.encode_visual(other).parts
    )
    changed = experts(missing={"audio": [1], "speech": [0, 1]})
    changed.features["scene"][0] += 1  # and what is there does
    gap = method.encode_visual(one).parts - method.encode_visual(changed).parts
    assert gap[0, 1].abs().max() > 1e-4, "audio is gated by what the scene is"
    assert torch.equal(gap[1:], torch.zeros_like(gap[1:]))


@torch.no_grad()
def test_blocks_without_the_last_expert_are_scored_alike():
    method = made()
    images = method.encode_visual(experts(4, missing={"speech": [2, 3]}))
    texts = method.encode_text(tokens([7, 4, 2]))
    whole = method.similarity(images, texts)
    blocks = compare(method, images, texts, "cpu", Blocks(images=2, texts=2))
    torch.testing.assert_close(torch.from_numpy(blocks), whole)
    torch.testing.assert_close(
        method.pair_similarity(images.rows(slice(0, 3)), texts), whole[:3].diagonal()
    )
    cut = Encoded(images.parts[2:, :2], images.present[2:, :2])
    torch.testing.assert_close(method.pooled(cut), method.pooled(images.rows(slice(2, 4))))


@torch.no_grad()
def test_pooled_vectors_rank_videos_as_the_similarity_does():
    method = made()
    images, texts = method.encode_visual(experts(6)), method.encode_text(tokens([7, 4, 2]))
    scores = method.similarity(images, texts).T
    by_vectors = method.pooled(texts) @ method.pooled(images).T
    assert torch.equal(scores.argsort(1), by_vectors.argsort(1))


@torch.no_grad()
def test_packed_experts_are_the_same_experts():
    method = made()
    whole = experts(missing={"audio": [1], "speech": [0, 1]})
    whole.present["scene"][2, 1:] = False
    packed = whole.packed()
    assert packed.shape == (3, 4, 12)
    visual = Regions(packed, torch.ones(3, 4, dtype=torch.bool))
    torch.testing.assert_close(
        method.encode_visual(visual).parts, method.encode_visual(whole).parts
    )
    back = Experts.unpacked(packed, visual.present, WIDTHS)
    assert torch.equal(back.available, whole.available)
    assert all(torch.equal(back.present[name], whole.present[name]) for name in WIDTHS)


def test_experts_of_other_widths_are_refused():
    method = made()
    with pytest.raises(BadFeatures) as caught:
        method.encode_visual(regions([5, 3], dim=11))
    assert str(caught.value) == (
        "The features have 11 numbers per part, and the experts 12: scene 5, audio 4, speech "
        "3. Expected features of these experts side by side, in this order."
    )
    one = experts()
    turned = Experts(dict(reversed(one.features.items())), dict(reversed(one.present.items())))
    with pytest.raises(BadFeatures, match="in this order; give a missing expert an empty mask"):
        method.encode_visual(turned)


@pytest.mark.parametrize(
    "listed, at", [("scene", "scene"), ("a:3, a:4", "a:4"), ("a:3/x", "a:3/x")]
)
def test_experts_that_cannot_be_read_are_refused(listed, at):
    with pytest.raises(BadRecipe) as caught:
        made(experts=listed)
    assert str(caught.value) == (
        f"The experts of 'ce' are {listed!r}, which cannot be read at {at!r}. Expected each "
        "name once with its width, such as 'scene:2208, audio:128/16'; the number after a "
        "slash is that of NetVLAD's clusters."
    )


def test_words_are_refused_where_features_were_promised():
    with pytest.raises(
        BadFeatures, match="Expected features per word, or text_features = false"
    ):
        made(text_features=True).encode_text(tokens([3]))


@torch.no_grad()
@pytest.mark.parametrize("faithful", [False, True])
def test_padding_of_words_counts_in_the_published_system_alone(faithful):
    method = made(text_features=True, faithful=faithful)
    short = words([3, 2])
    pad = torch.nn.functional.pad
    long = TextFeatures(pad(short.features, (0, 0, 0, 2)), pad(short.present, (0, 2)))
    gap = method.encode_text(short).parts - method.encode_text(long).parts
    assert (gap.abs().max() > 1e-4) == faithful


def test_every_parameter_of_several_experts_is_trained():
    method = made(text_features=True).train()
    seen, said = experts(4, missing={"audio": [1]}), words([3, 2, 4, 1])
    scores = method.similarity(method.encode_visual(seen), method.encode_text(said))
    (
        scores * torch.from_numpy(np.random.default_rng(0).random((4, 4))).float()
    ).sum().backward()
    for name, parameter in method.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
