"""On a CUDA device: a recorded comparison equals a launched one, and a run can be resumed."""

from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator
from samples import SIZES, regions, small_recipe, tokens, write_precomp
from test_training import final_weights, run_recipe, same

import avow.training.loop as loop
from avow import losses, methods
from avow.assembly import scores
from avow.assembly.recipe import Training
from avow.assembly.scores import similarity
from avow.blocks import fused, rank_pooling
from avow.blocks.pooling import LearntPool
from avow.core import folder
from avow.core.contracts import Lesson, Regions, Tokens
from avow.training.batches import Batch
from avow.training.compare import Comparison
from avow.training.graphs import Graphed

pytestmark = pytest.mark.gpu

TURNS = [[7, 4, 2], [11, 5, 1], [6, 6, 6], [12, 3, 3], [9, 1, 1]]
"""Captions of batches in turns: padded to 7, 11, 7, 15 and 11 words."""
ADDING = ("dive", "vsrn")
"""Methods that add something to the loss, and are recorded with it and without it."""


def still_comparison(name: str) -> Comparison:
    """Two views of a method that drop nothing."""
    torch.manual_seed(0)
    still = {"dropout_word": 0.0, "dropout_image": 0.0, "dropout_head": 0.0}
    return Comparison([folder.build(methods, name, **SIZES, **still).cuda() for _ in range(2)])


def launched_and_recorded(name: str) -> tuple[Comparison, Graphed]:
    """A comparison as it is launched, and the same one recorded."""
    comparison = still_comparison(name)
    recorded = Graphed(comparison)
    recorded.train()
    return comparison, recorded


@pytest.mark.parametrize("name", folder.names(methods))
def test_recorded_equals_launched(name):
    comparison, recorded = launched_and_recorded(name)
    parameters = list(comparison.parameters())
    for seed, counts in enumerate(TURNS):
        visual = regions([5, 3, 1], seed=seed).to("cuda")
        text = tokens(counts, parts=max(counts), seed=seed).to("cuda")
        buffers = [buffer.clone() for buffer in comparison.buffers()]
        expected, extra = comparison(visual, text)
        wanted = torch.autograd.grad(_value(expected, extra), parameters)
        for buffer, before in zip(comparison.buffers(), buffers, strict=True):
            buffer.copy_(before)
        found, added = recorded(visual, text)
        given = torch.autograd.grad(_value(found, added), parameters)
        ours, theirs = [*expected, extra, *wanted], [*found, added, *given]
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", folder.names(methods))
def test_a_recorded_step_of_training_equals_a_launched_one(name):
    """All of TCL: the evidential step and three of agreement, on batches of three shapes.

    Both begin every batch with the same weights: over several batches the attention of some
    methods makes a difference of 1e-7 in the photographs one of 1e-2 in the weights.
    """
    launched, recorded = learners = [_learner(name, graphs) for graphs in (False, True)]
    for step, counts in enumerate(TURNS):
        for one, other in zip(launched.views, recorded.views, strict=True):
            other.load_state_dict(one.state_dict())
        lesson = Lesson.paired(3, epoch=2, step=step, views=2)
        there = replace(
            lesson,
            pairs=lesson.pairs.cuda(),
            match=lesson.match.cuda(),
            trust=lesson.trust.cuda(),
        )
        visual = regions([5, 3, 1], seed=step).to("cuda")
        text = tokens(counts, parts=max(counts), seed=step).to("cuda")
        values = [learner.learn(Batch(visual, text, there)) for learner in learners]
        torch.testing.assert_close(values[1], values[0], rtol=1e-3, atol=1e-4)
        for one, other in zip(launched.views, recorded.views, strict=True):
            found = other.state_dict()
            for key, tensor in one.state_dict().items():
                torch.testing.assert_close(found[key], tensor, rtol=1e-2, atol=1e-3)
    why_not = recorded.comparison.why_not
    if why_not:
        pytest.xfail(f"{name} cannot be recorded: {why_not}")
    assert len(recorded.comparison.recorded) == (6 if name in ADDING else 3)


def _learner(name: str, recorded: bool) -> loop.Learner:
    """Plain descent: Adam would turn the rounding of a zero gradient into a whole step."""
    comparison = still_comparison(name)
    optimiser = torch.optim.SGD(comparison.parameters(), lr=0.01)
    return loop.Learner(
        Accelerator(),
        Graphed(comparison) if recorded else comparison,
        list(comparison.views),
        folder.build(losses, "tcl"),
        optimiser,
        Training(),
    )


@pytest.mark.parametrize("name", folder.names(methods))
@torch.no_grad()
def test_scores_on_the_device_are_those_of_the_processor(name):
    torch.manual_seed(0)
    method = folder.build(methods, name, **SIZES).eval()
    visual = method.encode_visual(regions([5, 3, 1, 4]))
    text = method.encode_text(tokens([7, 4, 2, 1]))
    expected = similarity(method, visual, text, "fp32")
    method.cuda()
    there = visual.to("cuda"), text.to("cuda")
    for precision, near in (("fp32", 1e-4), ("tf32", 1e-2), ("bf16", 4e-2)):
        found = similarity(method, *there, precision)
        torch.testing.assert_close(found.cpu(), expected, rtol=near, atol=near)
    pairs = method.pair_similarity(*there)
    torch.testing.assert_close(pairs.cpu(), expected.diag(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("precision", "near"), [("bf16", 0.02), ("fp16", 0.005)])
@pytest.mark.parametrize("name", ["saf", "sgr"])
@torch.no_grad()
def test_fused_kernels_score_like_single_operations(name, precision, near, monkeypatch):
    """At real sizes, with captions of 1 to 40 words and images of 1 to 36 regions."""
    torch.manual_seed(0)
    sizes = {"visual_dim": 64, "vocabulary": 30, "dim": 1024, "word_dim": 16}
    method = folder.build(methods, name, **sizes).cuda().eval()
    shown, words = [36, 36, 1, 20] * 8, [1, 40, 12, 13, 7, 15, 16, 17, 31, 32] * 5
    visual = method.encode_visual(regions(shown, parts=36, dim=64).to("cuda"))
    text = method.encode_text(tokens(words, parts=40).to("cuda"))
    exact = similarity(method, visual, text, "fp32")
    fused.ran.clear()
    found = similarity(method, visual, text, precision)
    assert not fused._failure
    heads = {"reason", "hear"} if name == "sgr" else {"gate"}
    assert fused.ran == {"attend", "compare"} | heads
    monkeypatch.setattr(fused, "is_possible", lambda like: False)
    plain = similarity(method, visual, text, precision)
    torch.testing.assert_close(found, exact, rtol=0, atol=near)
    # fused or not, rounding costs about the same
    assert (found - exact).abs().mean() < 2 * (plain - exact).abs().mean() + 1e-4


@pytest.mark.parametrize("name", ["saf", "sgr", "vse_infty"])
def test_items_in_host_memory_score_like_items_on_the_device(name, monkeypatch):
    """In bfloat16 they are rounded on the way, through buffers that are used in turns."""
    monkeypatch.setattr(scores, "_BUFFER", 1000)
    torch.manual_seed(0)
    method = folder.build(methods, name, **SIZES).cuda().eval()
    with torch.inference_mode():
        visual = method.encode_visual(regions([5, 3, 1, 4] * 20).to("cuda"))
        text = method.encode_text(tokens([7, 4, 2, 1] * 30, parts=9).to("cuda"))
        expected = similarity(method, visual, text.resized(text.parts.shape[1]), "bf16")
    blocks = scores.Blocks(images=80, texts=120, precision="bf16")
    found = scores.compare(method, visual.to("cpu"), text.to("cpu"), "cuda", blocks)
    torch.testing.assert_close(torch.from_numpy(found), expected.cpu(), rtol=0, atol=4e-3)


def _value(scores: list[torch.Tensor], extra: torch.Tensor) -> torch.Tensor:
    return sum((score.square().sum() for score in scores), extra)


def test_shapes_share_recordings():
    comparison = Comparison([folder.build(methods, "vsepp", **SIZES).cuda()])
    recorded = Graphed(comparison)
    recorded.train()
    for width in (4, 5, 6, 7):
        text = tokens([width, 2], parts=width).to("cuda")
        recorded(Regions(*_pair(regions([5, 3]).to("cuda"))), Tokens(text.ids, text.present))
    assert len(recorded.recorded) == 1


def _pair(visual: Regions) -> tuple[torch.Tensor, torch.Tensor]:
    return visual.features, visual.present


def test_resumed_on_the_device(tmp_path, monkeypatch):
    """The same weights to rounding: some CUDA sums have no fixed order."""
    data = write_precomp(tmp_path / "toy_precomp")
    content = small_recipe(data, "vse_infty", epochs=3)
    run_recipe(content, tmp_path / "whole", device=None)
    monkeypatch.setattr(loop, "SAVE_EVERY", -1.0)
    learn, seen = loop.Learner.learn, 0

    def learn_and_stop(self, batch):
        nonlocal seen
        seen += 1
        if seen == 14:
            raise KeyboardInterrupt
        return learn(self, batch)

    monkeypatch.setattr(loop.Learner, "learn", learn_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run_recipe(content, tmp_path / "stopped", device=None)
    monkeypatch.setattr(loop.Learner, "learn", learn)
    run_recipe(content, tmp_path / "stopped", resume=True, device=None)
    one, other = final_weights(tmp_path / "whole"), final_weights(tmp_path / "stopped")
    assert same(one, other) or all(
        torch.allclose(one[name], other[name], rtol=1e-3, atol=1e-4) for name in one
    )


@pytest.mark.parametrize("name", ["tcvse", "vse_infty"])
def test_gradients_in_bf16_are_finite(name):
    torch.manual_seed(0)
    views = [folder.build(methods, name, **SIZES).cuda()]
    comparison = Comparison(views, bf16=True)
    scores, _ = comparison(regions([5, 3, 1]).to("cuda"), tokens([7, 4, 2]).to("cuda"))
    found = torch.autograd.grad(scores[0].square().sum(), list(comparison.parameters()))
    assert all(torch.isfinite(gradient).all() for gradient in found)


@pytest.mark.parametrize(
    "kind, near", [(torch.float32, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 2e-2)]
)
def test_pooling_by_rank_is_pooling_of_sorted_parts(kind, near, monkeypatch):
    torch.manual_seed(0)
    # else the pool's own GRU rounds what comes back to it
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    pool = LearntPool().cuda()
    parts = torch.randn(20, 36, 1000, device="cuda").to(kind)
    present = regions([36, 1, 20, 5] * 5, parts=36).present.cuda()
    monkeypatch.setattr(fused, "ran", set())
    found = _pooled(pool, parts, present)
    assert fused.ran == {"rank", "rank_back"} and not fused._failure
    monkeypatch.setattr(rank_pooling, "_is_possible", lambda parts: False)
    for one, other in zip(found, _pooled(pool, parts, present), strict=True):
        assert (one - other).abs().max() <= near * other.abs().max()


def _pooled(pool, parts, present):
    parts = parts.clone().requires_grad_()
    pooled = pool(parts, present)
    down = torch.linspace(-1, 1, pooled.shape[1], device="cuda")
    slopes = torch.autograd.grad((pooled.float() * down).sum(), [parts, *pool.parameters()])
    return [one.float() for one in (pooled.detach(), *slopes)]
