"""SAF and SGR against the plain loop over captions: scores, gradients, running statistics."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_sgraf import plain_scores
from samples import SIZES, regions, tokens
from tiers import long
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from avow import methods
from avow.core import folder
from avow.core.contracts import Encoded, Regions
from avow.core.errors import BadFeatures, BadRecipe
from avow.methods._gaps import projected_gaps
from avow.methods._gist import PlaceNorm
from avow.methods._similarity_vectors import SimilarityVectors
from avow.methods.saf import CaptionNorm

NAMES = ["saf", "sgr"]
STILL = {"dropout_word": 0.0, "dropout_image": 0.0, "dropout_head": 0.0}


def made(name: str, seed: int = 0, **chosen) -> SimilarityVectors:
    """A small network in double precision, whose statistics and biases are not trivial."""
    torch.manual_seed(seed)
    method = folder.build(methods, name, **SIZES, similarity_dim=16, **STILL, **chosen)
    with torch.no_grad():
        for key, tensor in method.state_dict().items():
            if "running_var" in key:
                tensor.uniform_(0.5, 2)
            elif "running_mean" in key or key.endswith("bias"):
                tensor.uniform_(-0.5, 0.5)
    return method.double()


def items(counts: list[int], seed: int) -> Encoded:
    """A gist and the given number of parts each, padded with numbers that must not matter."""
    draw = torch.Generator().manual_seed(seed)
    parts = torch.randn(len(counts), max(counts) + 1, SIZES["dim"], generator=draw).double()
    parts = parts / parts.norm(dim=-1, keepdim=True)
    present = torch.arange(max(counts) + 1)[None] <= torch.tensor(counts)[:, None]
    return Encoded(parts.requires_grad_(), present)


def with_gaps(encoded: Encoded, seed: int) -> Encoded:
    """The same with some parts absent anywhere; gist and first part stay."""
    draw = torch.Generator().manual_seed(seed)
    kept = torch.rand(encoded.present.shape, generator=draw) > 0.3
    kept[:, :2] = True
    return Encoded(encoded.parts, encoded.present & kept)


def gradients(scores: Tensor, method: SimilarityVectors, *encoded: Encoded) -> list[Tensor]:
    """Of a sum that no symmetry makes zero, by parts and weights of the comparison."""
    weight = torch.linspace(-1, 1, scores.numel(), dtype=torch.float64).view_as(scores).cos()
    weights = [p for p in method.parameters() if p.requires_grad]
    inputs = [*(e.parts for e in encoded), *weights]
    found = torch.autograd.grad((scores * weight).sum(), inputs, allow_unused=True)
    return [g for g in found if g is not None]


captions = st.lists(st.integers(1, 12), min_size=1, max_size=6)
pictures = st.lists(st.integers(1, 5), min_size=2, max_size=5)


@settings(deadline=None)
@given(
    st.sampled_from(NAMES),
    st.booleans(),
    captions,
    pictures,
    st.integers(0, 1000),
    st.sampled_from([1, 6000, 20_000, 2**20]),
    st.booleans(),
    st.booleans(),
)
def test_equals_the_plain_loop(name, training, words, parts, seed, tile, ask, recompute):
    """One-word and long captions, gaps among regions, any tiling, both modes."""
    method = made(name, seed, recompute=recompute).train(training)
    plain = copy.deepcopy(method)
    method._tile_bytes = lambda like: tile
    method._may_ask = lambda text: ask
    visual, text = with_gaps(items(parts, seed), seed), items(words, seed + 1)
    expected, found = plain_scores(plain, visual, text), method.score(visual, text)
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        gradients(found, method, visual, text),
        gradients(expected, plain, visual, text),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-9)
    for (key, one), other in zip(method.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(one, other, msg=f"{key} after the comparison")


def test_a_longer_caption_than_any_seen():
    method = made("sgr").eval()
    visual, text = items([5, 4], 0), items([60, 1], 1)
    torch.testing.assert_close(method.score(visual, text), plain_scores(method, visual, text))


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 1000))
def test_running_statistics_move_once_per_caption(count, seed):
    torch.manual_seed(seed)
    norm, moments = CaptionNorm(), torch.rand(count, 2)
    mean, var = torch.zeros(()), torch.ones(())
    for now in moments:
        mean, var = 0.9 * mean + 0.1 * now[0], 0.9 * var + 0.1 * now[1]
    norm.remember(moments)
    torch.testing.assert_close(norm.running_mean[0], mean)
    torch.testing.assert_close(norm.running_var[0], var)


@pytest.mark.parametrize("training", [True, False])
def test_place_norm_is_batch_norm_per_place(training):
    torch.manual_seed(0)
    ours, theirs = PlaceNorm(5), torch.nn.BatchNorm1d(5)
    for norm in (ours, theirs):
        torch.manual_seed(1)
        torch.nn.init.uniform_(norm.weight)
        torch.nn.init.uniform_(norm.bias)
        norm.train(training)
    for seed in range(3):
        parts = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(seed))
        whole = torch.ones(4, 5, dtype=torch.bool)
        torch.testing.assert_close(ours(parts, whole), theirs(parts))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_place_norm_learns_from_what_is_present():
    """Three images have the last region, one of them nothing: as if there were two."""
    torch.manual_seed(0)
    parts, norm = torch.randn(3, 2, 6), PlaceNorm(4).train()
    present = torch.tensor([[True, True], [True, False], [True, True]])
    found = norm(parts, present)
    other = PlaceNorm(4).train()
    chosen = other(parts[[0, 2]], torch.ones(2, 2, dtype=torch.bool))
    torch.testing.assert_close(found[[0, 2], 1], chosen[:, 1])
    torch.testing.assert_close(norm.running_var[1], other.running_var[1])
    assert norm.running_mean[2:].tolist() == [0, 0] and norm.running_var[2:].tolist() == [1, 1]


@pytest.mark.parametrize("most", [1, 400, long(10**6)])
def test_gradient_of_projected_gaps(most):
    torch.manual_seed(0)
    shapes = (3, 4, 2), (3, 2, 5), (4, 5)
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    layer = torch.nn.Linear(5, 3).double()
    weights = layer.weight, layer.bias

    def gaps(*given: Tensor) -> Tensor:
        return projected_gaps(*given[:3], layer, most)

    weight, context, query = inputs
    torch.testing.assert_close(gaps(*inputs), layer((weight @ context - query) ** 2))
    assert torch.autograd.gradcheck(gaps, (*inputs, *weights))

    def gaps_of_one(*given: Tensor) -> Tensor:
        return projected_gaps(None, given[0], given[1], layer, most)

    one = context.detach()[:, :1].clone().requires_grad_()
    torch.testing.assert_close(gaps_of_one(one, query), layer((one - query) ** 2))
    assert torch.autograd.gradcheck(gaps_of_one, (one, query, *weights))


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a processor without bfloat16
@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_comes_near(name):
    """Encoded in bfloat16, compared in it; the scores themselves are float32."""
    method = made(name).float()
    visual, text = regions([5, 3, 4]), tokens([7, 4, 1, 3])
    exact = method.score(method.encode_visual(visual), method.encode_text(text))
    with torch.autocast("cpu", torch.bfloat16):
        images, texts = method.encode_visual(visual), method.encode_text(text)
    assert images.parts.dtype == texts.parts.dtype == torch.bfloat16
    found = method.score(images, texts)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.05)
    found.sum().backward()
    for key, parameter in method.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), key


@pytest.mark.parametrize("name", NAMES)
def test_training_on_a_device_asks_nothing_of_it(name):
    """Tensors without content: whatever reads one on the way to the gradient would fail."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        method = folder.build(methods, name, **SIZES).train()
        visual, text = regions([5, 3, 4]), tokens([7, 4, 1, 3])
        method._may_ask = lambda text: False
        images, texts = method.encode_visual(visual), method.encode_text(text)
        method.similarity(images, texts).sum().backward()
        assert method.local.weight.grad is not None


def test_lengths_are_read_where_that_costs_nothing():
    method = made("saf")
    here = items([3], 0)
    there = Encoded(here.parts.to("meta"), here.present.to("meta"))
    assert method.train()._may_ask(here) and not method._may_ask(there)
    assert method.eval()._may_ask(here) and method._may_ask(there)


class Largest(TorchDispatchMode):
    """Watches how many bytes the largest result of any operation takes."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if _is(t)}
        for tensor in filter(_is, tree_leaves(result)):
            if tensor.untyped_storage().data_ptr() not in given:
                size = tensor.numel() * tensor.element_size()
                self.bytes = max(self.bytes, size)
        return result


def _is(thing: object) -> bool:
    return isinstance(thing, Tensor)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [(8, 64), (512, 16)])
def test_no_intermediate_is_larger_than_a_tile(name, sizes):
    """Neither where the common space is the widest, nor where the graph is."""
    dim, narrow = sizes
    method = folder.build(methods, name, visual_dim=8, dim=dim, similarity_dim=narrow).eval()
    torch.manual_seed(0)
    texts, images = 20, 30
    parts = torch.randn(texts, 13, dim)
    present = torch.arange(13)[None] <= torch.randint(1, 13, (texts,))[:, None]
    visual = torch.randn(images, 3, dim), torch.ones(images, 3, dtype=torch.bool)
    most = images * 3 * dim * 4 + 2**17  # the images themselves, and a little
    method._tile_bytes = lambda like: most
    with torch.no_grad(), Largest() as watch:
        method.score(Encoded(*visual), Encoded(parts, present))
    assert most / 4 < watch.bytes <= most
    assert 2 * most < images * texts * 13 * max(dim, 2 * narrow) * 4


@pytest.mark.parametrize("name", NAMES)
def test_squash(name):
    visual, text = items([5, 3], 0), items([7, 4, 1], 1)
    for squash, changed in (
        ("tanh", torch.tanh),
        ("sigmoid", torch.sigmoid),
        ("none", torch.clone),
    ):
        method = made(name, squash=squash).eval()
        expected = changed(method.score(visual, text))
        torch.testing.assert_close(method.similarity(visual, text), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", list(STILL))
def test_each_dropout_acts_by_itself(name, which):
    method = folder.build(methods, name, **SIZES, **STILL | {which: 0.5}).train()
    visual, text = regions([5, 3]), tokens([7, 4])

    def score() -> Tensor:
        return method.score(method.encode_visual(visual), method.encode_text(text))

    assert not torch.equal(score(), score())


def test_too_many_regions():
    method = folder.build(methods, "saf", **SIZES, regions=4)
    with pytest.raises(BadFeatures) as caught:
        method.encode_visual(regions([5, 3]))
    assert str(caught.value) == (
        "The images have '5' regions. Expected at most 4, the number this method was built "
        "for; set method.regions = 5 and train."
    )
    short = regions([4, 3], parts=4)
    assert method.encode_visual(Regions(short.features, short.present)).parts.shape[1] == 5


def test_a_graph_without_steps():
    with pytest.raises(BadRecipe) as caught:
        folder.build(methods, "sgr", steps=0)
    assert str(caught.value) == ("The graph has '0' steps. Expected at least 1; change steps.")
