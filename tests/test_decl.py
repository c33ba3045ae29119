"""DECL against plain loops, and the sifting of pairs between epochs."""

import math

import pytest
import torch

from avow import losses
from avow.core import folder
from avow.core.contracts import Lesson
from avow.core.errors import BadRecipe
from avow.core.opinion import Opinion, kl_to_uniform, squared_risk
from avow.losses.decl import believed, shared


@pytest.fixture
def scores():
    torch.manual_seed(0)
    return torch.rand(6, 6, dtype=torch.float64) * 1.6 - 0.8


def lesson(trust: list[float], step: int = 0) -> Lesson:
    size = len(trust)
    eye = torch.eye(size, dtype=torch.bool)
    given = torch.tensor([trust], dtype=torch.float64)
    return Lesson(torch.arange(size), eye, given, 0, step)


def plain_risk(row: list[float], target: list[float], tau: float) -> float:
    alpha = [math.exp(s / tau) + 1 for s in row]
    whole = sum(alpha)
    return sum(
        (y - a / whole) ** 2 + a * (whole - a) / (whole**2 * (whole + 1))
        for y, a in zip(target, alpha, strict=True)
    )


def plain_kl(row: list[float], target: list[float], tau: float) -> float:
    alpha = [y + (1 - y) * (math.exp(s / tau) + 1) for s, y in zip(row, target, strict=True)]
    whole, count = sum(alpha), len(alpha)
    psi = torch.digamma(torch.tensor([*alpha, whole], dtype=torch.float64)).tolist()
    value = math.lgamma(whole) - math.lgamma(count) - sum(map(math.lgamma, alpha))
    return value + sum((a - 1) * (p - psi[-1]) for a, p in zip(alpha, psi[:-1], strict=True))


def plain_decl(scores: torch.Tensor, trust: list[float], step: int) -> float:
    size, total = len(scores), 0.0
    for table in (scores.tolist(), scores.T.tolist()):
        for query, row in enumerate(table):
            target = [trust[query] if other == query else 0.0 for other in range(size)]
            risk = plain_risk(row, target, 0.1) + 0.1 * plain_kl(row, target, 0.1)
            total += risk / size
            costs = sorted(
                (max(0, 0.2 + s - row[query]) for k, s in enumerate(row) if k != query),
                reverse=True,
            )
            count = max(int(size - 0.5 * (step + 1)), 2)
            total += 0.8 * trust[query] * sum(costs[:count]) / count
    return total


@pytest.mark.parametrize("trust", [[1.0] * 6, [1, 0, 1, 0, 0, 1], [0.3, 1, 0, 0.9, 0.5, 1]])
@pytest.mark.parametrize("step", [0, 4, 100])
def test_decl_equals_a_plain_loop(scores, trust, step):
    loss = folder.build(losses, "decl", easing=0.5, fewest=2)
    (found,) = loss.steps(lambda: [scores], lesson(trust, step))
    assert float(found) == pytest.approx(plain_decl(scores, trust, step), rel=1e-9)


def test_a_distrusted_pair_only_takes_evidence_back():
    """No target: where a pair has come to agree, that is taken back."""
    loss = folder.build(losses, "decl")
    scores = (torch.eye(6, dtype=torch.float64) * 0.3).requires_grad_()
    (value,) = loss.steps(lambda: [scores], lesson([1, 1, 0, 1, 1, 1]))
    (gradient,) = torch.autograd.grad(value, scores)
    assert gradient[2, 2] > 0  # falling is downhill
    (value,) = loss.steps(lambda: [scores], lesson([1, 1, 1, 1, 1, 1]))
    (gradient,) = torch.autograd.grad(value, scores)
    assert gradient[2, 2] < 0


def test_risk_of_an_opinion_is_that_of_draws_from_its_dirichlet():
    torch.manual_seed(0)
    opinion = Opinion(torch.tensor([0.5, 1.5, -1.0, 0.2]))
    target = torch.tensor([0.0, 1.0, 0.0, 0.0])
    drawn = torch.distributions.Dirichlet(opinion.alpha).sample((200_000,))
    expected = (target - drawn).square().sum(-1).mean()
    torch.testing.assert_close(squared_risk(opinion, target), expected, rtol=5e-3, atol=0)


def test_the_risk_stays_finite_where_evidence_does_not_fit():
    far = torch.tensor([[300.0, -300.0, 0.0]], requires_grad=True)
    for target in (torch.tensor([[1.0, 0, 0]]), torch.tensor([[0.0, 1, 0]]), torch.zeros(1, 3)):
        opinion = Opinion(far)
        value = squared_risk(opinion, target) + kl_to_uniform(opinion.discounted(target))
        (gradient,) = torch.autograd.grad(value.sum(), far)
        assert torch.isfinite(value).all() and torch.isfinite(gradient).all()


def test_discounting_by_ones_and_zeros_is_taking_away():
    torch.manual_seed(0)
    opinion = Opinion(torch.randn(4, 4))
    match = torch.eye(4, dtype=torch.bool)
    whole = opinion.discounted(match.float()).log_evidence
    assert torch.equal(whole, opinion.without(match).log_evidence)


def test_rows_of_table_3(scores):
    evidence = folder.build(losses, "decl", hinge=0.0, kl=0.0, sift=False)
    plain = folder.build(losses, "decl", hinge=0.0, kl=0.0, sift=False, risk="similarity")
    assert not evidence.sifts(99)
    (found,) = plain.steps(lambda: [scores], lesson([1.0] * 6))
    eye = torch.eye(6, dtype=torch.float64)
    torch.testing.assert_close(found, 2 * (eye - scores).square().mean())
    (found,) = evidence.steps(lambda: [scores], lesson([1.0] * 6))
    both = (scores.tolist(), scores.T.tolist())
    rows = [
        plain_risk(row, eye[i].tolist(), 0.1) / 6
        for table in both
        for i, row in enumerate(table)
    ]
    assert float(found) == pytest.approx(sum(rows), rel=1e-9)


def test_a_pair_is_believed_where_it_has_most_evidence_of_both_directions():
    loss = folder.build(losses, "decl")
    eye = torch.eye(3, dtype=torch.bool)
    scores = torch.eye(3) * 0.5
    scores[1, 0] = 0.55  # one way only: e + e' of the pair is 2 exp(5)
    assert loss.glance([scores], eye).tolist() == [[1, 1, 1]]
    scores[1, 0] = 0.6  # exp(6) + exp(0) beats it, for both pairs
    assert loss.glance([scores], eye).tolist() == [[0, 0, 1]]
    match = eye.clone()
    match[0, 1] = match[1, 0] = True  # unless it is a caption of the same image
    assert loss.glance([scores], match).tolist() == [[1, 1, 1]]


def test_warm_up_believes_everybody():
    loss = folder.build(losses, "decl", warm_up=3)
    assert [loss.sifts(epoch) for epoch in range(5)] == [False, False, False, True, True]


def test_a_text_that_is_not_believed_matches_no_image_of_its_kind():
    """Two captions of one image in a batch: the doubt is about the caption, both ways."""
    match = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=torch.bool)
    target = believed(match, torch.tensor([1.0, 0.0, 1.0]))
    assert shared(target).tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert shared(target.T).tolist() == [[0.5, 0.5, 0], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("name", ["decl", "tcl_decl"])
def test_a_hinge_over_no_negative_is_refused(name):
    for fewest in (0, -1):
        with pytest.raises(BadRecipe) as caught:
            folder.build(losses, name, fewest=fewest)
        assert str(caught.value) == (
            f"The hinge keeps '{fewest}' negatives. Expected at least 1; change fewest."
        )
    assert folder.build(losses, name, fewest=1).fewest == 1
