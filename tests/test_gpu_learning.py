"""On a CUDA device: kernels for learning against the operations they stand for."""

from dataclasses import replace

import pytest
import torch
from samples import SIZES, regions, tokens
from test_gpu import launched_and_recorded
from test_learnt_nodes import plainly, sides
from test_learnt_nodes import values_and_slopes as nodes_and_slopes
from test_whole_batch import batch_of, made
from torch import nn

from avow.blocks import fused
from avow.blocks.joint_gru import read_together
from avow.methods import imram
from avow.methods._learnt_nodes import learnt_nodes
from avow.training.batches import Batch
from avow.training.optim import build_optimiser
from avow.training.whole_batch import WholeBatches

pytestmark = pytest.mark.gpu


@pytest.fixture
def learning(monkeypatch):
    """Kernels for learning, and products that are not rounded to tf32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(fused, "_learning", True)
    monkeypatch.setattr(fused, "ran", set())
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield fused.ran
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("hidden", [1024, 32])
def test_grus_read_together_are_those_of_cudnn(learning, hidden):
    torch.manual_seed(0)
    grus = [nn.GRU(300, hidden).cuda() for _ in range(4)]
    steps = torch.randn(4, 23, 128, 300, device="cuda", requires_grad=True)
    inputs = [steps, *(p for gru in grus for p in gru.parameters())]
    results = []
    for states in (
        read_together(grus, steps),
        torch.stack([gru(own)[0] for gru, own in zip(grus, steps, strict=True)]),
    ):
        uneven = torch.linspace(-1, 2, hidden, device="cuda")
        results.append([states, *torch.autograd.grad((states * uneven).sum(), inputs)])
    small = "small_" if hidden == 32 else ""
    assert learning == {f"{small}gru_forth", f"{small}gru_back"} and not fused._failure
    for one, other in zip(*results, strict=True):
        assert (one - other).abs().max() <= 2e-4 * other.abs().max()


def test_learnt_nodes_are_those_of_single_operations(learning):
    exact = [leaf.detach().cuda().requires_grad_() for leaf in sides(torch.float32, 96)]
    leaves = [leaf.detach().bfloat16().requires_grad_() for leaf in exact]
    found = nodes_and_slopes(learnt_nodes, leaves)
    assert learning == {"compare", "unit_back", "gap_back"} and not fused._failure
    for one, other in zip(found, nodes_and_slopes(plainly, exact), strict=True):
        assert (one.float() - other).abs().max() <= 4e-2 * other.abs().max()


def test_a_memory_is_that_of_single_operations(learning, monkeypatch):
    torch.manual_seed(0)
    method = imram.build(**SIZES | {"dim": 96}).cuda()
    visual = method.encode_visual(regions([5, 3, 1, 4]).to("cuda"))
    text = method.encode_text(tokens([7, 4, 1]).to("cuda"))
    results = []
    for forgets in (True, False):
        monkeypatch.setattr(imram.Memory, "forgets_gates", lambda *given, own=forgets: own)
        scores = method.score(visual, text)
        inputs = list(method.pairing.parameters())
        slopes = torch.autograd.grad(scores.square().sum(), inputs, retain_graph=True)
        results.append([scores, *slopes])
    assert {"remember", "remember_back"} <= learning and not fused._failure
    for one, other in zip(*results, strict=True):
        assert (one - other).abs().max() <= 1e-3 * other.abs().max()


@pytest.mark.parametrize("name", ["vse_infty", "sgr", "gsmn", "imram"])
def test_recorded_with_kernels_equals_launched_without(learning, name):
    comparison, recorded = launched_and_recorded(name)
    visual, text = regions([5, 3, 1]).to("cuda"), tokens([7, 4, 2]).to("cuda")
    parameters = list(comparison.parameters())
    buffers = [buffer.clone() for buffer in comparison.buffers()]
    found, _ = recorded(visual, text)
    slopes = torch.autograd.grad(sum(one.square().sum() for one in found), parameters)
    for buffer, before in zip(comparison.buffers(), buffers, strict=True):
        buffer.copy_(before)
    fused.use_for_learning(False)
    expected, _ = comparison(visual, text)
    wanted = torch.autograd.grad(sum(one.square().sum() for one in expected), parameters)
    assert not recorded.why_not
    for one, other in zip([*found, *slopes], [*expected, *wanted], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_a_batch_replayed_as_a_whole_learns_as_one_that_is_launched(learning):
    """Of two shapes in turns, from the same weights; rates change between batches."""
    plain, whole = (made() for _ in range(2))
    for learner in (plain, whole):
        for view in learner.views:
            view.cuda().visual.drop.p = 0.0
        learner.optimiser = build_optimiser(learner.views, learner.settings)
    recorded = WholeBatches(whole)
    for step in range(6):
        for mine, theirs in zip(plain.views, whole.views, strict=True):
            theirs.load_state_dict(mine.state_dict())
        for learner in (plain, whole):
            learner.optimiser.param_groups[0]["lr"] = 1e-4 / (1 + step)
        host = batch_of(step)
        lesson = replace(
            host.lesson,
            pairs=host.lesson.pairs.cuda(),
            match=host.lesson.match.cuda(),
            trust=host.lesson.trust.cuda(),
        )
        batch = Batch(host.visual.to("cuda"), host.text.to("cuda"), lesson)
        torch.testing.assert_close(
            recorded.learn(batch), plain.learn(batch), rtol=1e-3, atol=1e-4
        )
    assert not recorded.why_not and len(recorded.recorded) == 2
    for mine, theirs in zip(plain.views, whole.views, strict=True):
        for key, tensor in mine.state_dict().items():
            torch.testing.assert_close(theirs.state_dict()[key], tensor, rtol=1e-2, atol=1e-3)
