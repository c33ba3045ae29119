"""The contract of every loss: one file in `losses/` is one row of these tests."""

import pytest
import torch

from avow import losses
from avow.core import folder
from avow.core.contracts import Lesson
from avow.core.errors import BadRecipe
from avow.core.opinion import Opinion, dirichlet_risk


@pytest.fixture(params=folder.names(losses))
def loss(request):
    return folder.build(losses, request.param)


def values(loss, scores, epoch=0, match=None):
    lesson = Lesson.paired(len(scores), epoch=epoch, views=loss.views)
    if match is not None:
        lesson = Lesson(lesson.pairs, match, lesson.trust, epoch, 0)
    return list(loss.steps(lambda: [scores] * loss.views, lesson))


@pytest.mark.parametrize("epoch", [0, 5])
def test_falls_when_matches_win(loss, epoch):
    good, flat, bad = torch.eye(4), torch.zeros(4, 4), -torch.eye(4)
    first = [values(loss, scores, epoch)[0] for scores in (good, flat, bad)]
    assert first[0] < first[1] < first[2]


def test_is_symmetric_in_the_order_of_pairs(loss):
    torch.manual_seed(0)
    scores = torch.rand(6, 6) * 2 - 1
    order = torch.randperm(6)
    shuffled = scores[order][:, order]
    for one, other in zip(values(loss, scores), values(loss, shuffled), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_are_finite_at_the_ends(loss):
    for value in (-1.0, 0.0, 1.0):
        scores = torch.full((4, 4), value, requires_grad=True)
        for step in values(loss, scores, epoch=3):
            (gradient,) = torch.autograd.grad(step, scores, allow_unused=True)
            assert gradient is None or torch.isfinite(gradient).all()


def test_several_texts_may_match_one_image(loss):
    match = torch.eye(4, dtype=torch.bool)
    match[0, 1] = match[1, 0] = True
    found = values(loss, torch.rand(4, 4), epoch=1, match=match)
    assert all(torch.isfinite(value) for value in found)


def test_hinge_equals_a_plain_loop():
    torch.manual_seed(0)
    scores = torch.rand(5, 5) * 2 - 1
    hardest, total = 0.0, 0.0
    for i in range(5):
        rows = [max(0.0, 0.2 + float(scores[i, j] - scores[i, i])) for j in range(5) if j != i]
        columns = [
            max(0.0, 0.2 + float(scores[j, i] - scores[i, i])) for j in range(5) if j != i
        ]
        hardest += max(rows) + max(columns)
        total += sum(rows) + sum(columns)
    loss = folder.build(losses, "hinge")
    assert float(values(loss, scores, epoch=0)[0]) == pytest.approx(total, rel=1e-5)
    assert float(values(loss, scores, epoch=1)[0]) == pytest.approx(hardest, rel=1e-5)


def test_hinge_may_be_the_mean_over_the_batch():
    torch.manual_seed(0)
    scores = torch.rand(5, 5) * 2 - 1
    whole, mean = (folder.build(losses, "hinge", reduce=kind) for kind in ("sum", "mean"))
    for epoch in (0, 1):
        torch.testing.assert_close(
            values(mean, scores, epoch)[0], values(whole, scores, epoch)[0] / 5
        )


@pytest.mark.parametrize("near", [0.0, 0.1, 0.5, 3.0])
def test_selhn_equals_a_plain_loop(near):
    torch.manual_seed(0)
    scores = torch.rand(6, 6) * 2 - 1
    match = torch.eye(6, dtype=torch.bool)
    match[0, 1] = match[1, 0] = True  # one image with two texts
    total = 0.0
    for table, right in ((scores, match), (scores.T, match.T)):
        for row, own in zip(table.tolist(), right.tolist(), strict=True):
            positive = min(s for s, mine in zip(row, own, strict=True) if mine)
            negatives = [s for s, mine in zip(row, own, strict=True) if not mine]
            costs = [max(0.0, 0.2 + s - positive) for s in negatives]
            undecided = abs(positive - max(negatives)) < near
            total += sum(costs) / len(costs) if undecided else max(costs)
    (found,) = values(folder.build(losses, "selhn", near=near), scores, match=match)
    assert float(found) == pytest.approx(total / 6 / 2, rel=1e-5)


@pytest.mark.parametrize("name", ["tcl", "hinge"])
def test_risk_steps_repeat_the_step_on_the_risk_alone(name):
    """Each step compares anew; what else the loss yields comes after them, once."""
    calls = []
    loss = folder.build(losses, name, risk_steps=3)
    scores = [torch.eye(4) + 0.1 * view for view in range(loss.views)]

    def similarities():
        calls.append(1)
        return scores

    once = folder.build(losses, name)
    lesson = Lesson.paired(4, epoch=2, views=loss.views)
    single = list(once.steps(lambda: scores, lesson))
    several = list(loss.steps(similarities, lesson))
    assert len(calls) == len(several) == len(single) + 2
    torch.testing.assert_close(torch.stack(several[:3]), single[0].repeat(3))
    torch.testing.assert_close(torch.stack(several[2:]), torch.stack(single))


def test_tcl_takes_agreement_steps_from_its_epoch_on():
    scores = torch.rand(4, 4)
    assert len(values(folder.build(losses, "tcl"), scores, epoch=0)) == 1
    assert len(values(folder.build(losses, "tcl"), scores, epoch=1)) == 4
    early = folder.build(losses, "tcl", agree_from=0, agreement_steps=2)
    assert len(values(early, scores, epoch=0)) == 3
    off = folder.build(losses, "tcl", agreement_steps=0)
    assert len(values(off, scores, epoch=9)) == 1


@pytest.mark.parametrize("learn", ["image", "text"])
def test_tcl_of_one_direction_trains_one_network(learn):
    """Rows #4 and #6 of Table IV: the risk of that direction's queries, and nothing else."""
    loss = folder.build(losses, "tcl", learn=learn)
    assert loss.views == 1
    lopsided = torch.zeros(3, 3)
    lopsided[0, 1:] = 0.5  # one image is misled twice, two texts once each
    match = torch.eye(3, dtype=torch.bool)
    by_image, by_text = (
        dirichlet_risk(Opinion.from_similarity(side), match).mean()
        for side in (lopsided, lopsided.T)
    )
    assert abs(by_image - by_text) > 0.1
    (found,) = values(loss, lopsided)
    torch.testing.assert_close(found, by_image if learn == "image" else by_text)
    assert len(values(loss, lopsided, epoch=5)) == 1


def test_tcl_kl_weight_starts_at_zero_and_grows():
    torch.manual_seed(0)
    scores = torch.rand(6, 6)
    plain = folder.build(losses, "tcl", kl_rate=0.0)
    loss = folder.build(losses, "tcl")
    assert values(loss, scores, 0)[0] == values(plain, scores, 0)[0]
    gaps = [float(values(loss, scores, e)[0] - values(plain, scores, e)[0]) for e in (1, 2)]
    assert gaps[1] == pytest.approx(2 * gaps[0], rel=1e-3)


def test_tcl_refuses_an_unknown_direction():
    with pytest.raises(BadRecipe) as caught:
        folder.build(losses, "tcl", learn="sound")
    assert str(caught.value) == (
        "learn of 'tcl' in losses is 'sound'. Expected one of: 'both', 'image', 'text'."
    )
