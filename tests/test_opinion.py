"""An opinion keeps its mass, matches its closed forms, and never overflows."""

import inspect

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from avow.core.errors import BadRecipe
from avow.core.opinion import (
    Opinion,
    dirichlet_risk,
    disagreement,
    kl_to_uniform,
    log_evidence,
    squared_risk,
)

KINDS = ["exp", "relu", "softplus"]


def opinion_of(evidence: list[list[float]]) -> Opinion:
    return Opinion(torch.tensor(evidence).log())


def test_no_evidence_is_total_uncertainty():
    opinion = Opinion(torch.full((2, 5), -torch.inf))
    torch.testing.assert_close(opinion.uncertainty, torch.ones(2))
    assert opinion.belief.sum() == 0


def test_definitions_of_the_paper():
    """b = e/S, u = K/S, p = alpha/S (TCL Eq. 4), by hand for one query."""
    opinion = opinion_of([[3.0, 0.5, 1.0]])
    strength = 3 + 0.5 + 1 + 3
    torch.testing.assert_close(opinion.alpha, torch.tensor([[4.0, 1.5, 2.0]]))
    torch.testing.assert_close(opinion.strength, torch.tensor([[strength]]))
    torch.testing.assert_close(opinion.uncertainty, torch.tensor([3 / strength]))
    belief = torch.tensor([[3.0, 0.5, 1.0]]) / strength
    torch.testing.assert_close(opinion.belief, belief)
    torch.testing.assert_close(opinion.probability, opinion.alpha / strength)


@given(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=40))
def test_belief_and_uncertainty_share_one_unit_of_mass(similarity):
    for kind in KINDS:
        opinion = Opinion.from_similarity(torch.tensor([similarity]), 0.05, kind)
        total = opinion.belief.sum(-1) + opinion.uncertainty
        torch.testing.assert_close(total, torch.ones(1), rtol=1e-5, atol=1e-5)


def test_uncertainty_grows_with_the_gallery():
    """The figures of one match at 0.5 among K-1 candidates at 0."""
    for size, expected in [(100, 0.004), (1000, 0.042), (5000, 0.156), (25000, 0.347)]:
        similarity = torch.zeros(1, size)
        similarity[0, 0] = 0.5
        assert round(float(Opinion.from_similarity(similarity).uncertainty), 3) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_log_evidence_is_the_logarithm_of_the_evidence(kind):
    similarity = torch.linspace(-1, 1, 41, dtype=torch.float64)
    function = {
        "exp": torch.exp,
        "relu": torch.relu,
        "softplus": torch.nn.functional.softplus,
    }[kind]
    found = log_evidence(similarity, 0.05, kind).exp()
    torch.testing.assert_close(found, function(similarity / 0.05), rtol=1e-6, atol=1e-20)


@pytest.mark.parametrize("tau", [0.0, -0.05, float("nan")])
def test_a_temperature_that_is_none_is_refused(tau):
    with pytest.raises(BadRecipe, match="Expected a number above 0"):
        Opinion.from_similarity(torch.rand(2, 3), tau, "exp")


def test_an_unknown_evidence_function_is_refused():
    with pytest.raises(BadRecipe) as caught:
        inspect.unwrap(log_evidence)(torch.zeros(2), 0.05, "cosh")  # type: ignore
    assert str(caught.value) == (
        "There is no evidence function 'cosh'. Expected one of: exp, relu, softplus."
    )


def test_risk_matches_monte_carlo():
    """The closed form is the mean of -log p over the Dirichlet it integrates."""
    torch.manual_seed(0)
    opinion = opinion_of([[3.0, 0.5, 1.0]])
    draws = torch.distributions.Dirichlet(opinion.alpha[0]).sample((200_000,))
    risk = dirichlet_risk(opinion, torch.tensor([[True, False, False]]))
    torch.testing.assert_close(risk[0], -draws[:, 0].log().mean(), rtol=0.01, atol=0.01)


def test_kl_matches_monte_carlo():
    torch.manual_seed(0)
    opinion = opinion_of([[3.0, 0.5, 1.0]])
    known = torch.distributions.Dirichlet(opinion.alpha[0])
    ignorance = torch.distributions.Dirichlet(torch.ones(3))
    draws = known.sample((200_000,))
    estimate = (known.log_prob(draws) - ignorance.log_prob(draws)).mean()
    torch.testing.assert_close(kl_to_uniform(opinion)[0], estimate, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("largest", [1.0, 5.0, 15.0])
def test_losses_and_gradients_match_the_plain_formulas_in_float64(largest):
    torch.manual_seed(1)
    scaled = (torch.rand(6, 9, dtype=torch.float64) * 2 - 1) * largest
    match = torch.eye(6, 9, dtype=torch.bool)
    ours, plain = scaled.clone().requires_grad_(), scaled.clone().requires_grad_()

    opinion = Opinion(ours)
    found = dirichlet_risk(opinion, match) + kl_to_uniform(opinion.without(match))

    alpha = plain.exp() + 1
    strength = alpha.sum(-1, keepdim=True)
    risk = (match * (torch.digamma(strength) - torch.digamma(alpha))).sum(-1)
    left = plain.exp() * ~match + 1
    uniform = torch.distributions.Dirichlet(torch.ones_like(left))
    kl = torch.distributions.kl_divergence(torch.distributions.Dirichlet(left), uniform)
    torch.testing.assert_close(found, risk + kl, rtol=1e-6, atol=1e-6)

    found.sum().backward()
    (risk + kl).sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_stays_finite_up_to_a_hundred(kind):
    """s/tau from -100 to 100 in float32, where exp(s/tau) itself overflows."""
    torch.manual_seed(0)
    similarity = torch.empty(32, 64).uniform_(-1, 1)
    similarity[0, :3] = torch.tensor([1.0, -1.0, 0.0])
    similarity[1] = 1.0
    similarity[2] = -1.0
    match = torch.eye(32, 64, dtype=torch.bool)
    values = {
        "alpha": lambda o: o.alpha,
        "strength": lambda o: o.strength,
        "belief": lambda o: o.belief,
        "uncertainty": lambda o: o.uncertainty,
        "probability": lambda o: o.probability,
        "risk": lambda o: dirichlet_risk(o, match),
        "kl": kl_to_uniform,
        "kl without the match": lambda o: kl_to_uniform(o.without(match)),
        "disagreement": lambda o: disagreement(o, Opinion(o.log_evidence.flip(0))),
    }
    for name, value in values.items():
        leaf = similarity.clone().requires_grad_()
        found = value(Opinion.from_similarity(leaf, 0.01, kind))
        assert torch.isfinite(found).all(), name
        found.sum().backward()
        assert leaf.grad is not None and torch.isfinite(leaf.grad).all(), name


def test_kl_keeps_its_digits_where_the_printed_formula_loses_them():
    """float32 against mpmath-grade float64 at evidence exp(12)."""
    scaled = torch.linspace(-2, 12, 64)[None]
    exact = kl_to_uniform(Opinion(scaled.double()))
    torch.testing.assert_close(
        kl_to_uniform(Opinion(scaled)).double(), exact, rtol=1e-5, atol=1e-4
    )


def test_the_squared_risk_is_the_printed_sum():
    opinion = opinion_of([[3.0, 1.0, 0.5], [0.1, 20.0, 4.0]])
    target = torch.eye(3)[:2]
    for row, found in enumerate(squared_risk(opinion, target).tolist()):
        size = float(opinion.strength[row])
        shares = zip(opinion.probability[row].tolist(), target[row].tolist(), strict=True)
        terms = [(y - p) ** 2 + p * (1 - p) / (size + 1) for p, y in shares]
        assert found == pytest.approx(sum(terms), rel=1e-5)


def test_only_the_student_learns_from_disagreement():
    student = torch.randn(4, 4, requires_grad=True)
    teacher = torch.randn(4, 4, requires_grad=True)
    disagreement(Opinion(student), teacher=Opinion(teacher)).backward()
    assert student.grad is not None and student.grad.abs().sum() > 0
    assert teacher.grad is None
    one, other = Opinion(student), Opinion(teacher)
    beliefs = zip(one.belief.ravel().tolist(), other.belief.ravel().tolist(), strict=True)
    apart = [abs(mine - yours) for mine, yours in beliefs]
    assert disagreement(one, other).item() == pytest.approx(sum(apart) / len(apart))
    assert disagreement(one, one).item() == 0


def test_disagreement_bounds_the_difference_of_uncertainty():
    """TCL Eq. 14: K times the mean difference of belief is at least that of u."""
    torch.manual_seed(0)
    first, second = Opinion(torch.randn(50, 8)), Opinion(torch.randn(50, 8))
    for row in range(50):
        one = Opinion(first.log_evidence[row : row + 1])
        other = Opinion(second.log_evidence[row : row + 1])
        gap = (one.uncertainty - other.uncertainty).abs()
        assert gap <= 8 * disagreement(one, other) + 1e-6


def test_all_zero_similarity_is_half_uncertain():
    """exp(0) = 1, so exponential evidence never says 'no evidence at all'."""
    opinion = Opinion.from_similarity(torch.zeros(1, 7))
    torch.testing.assert_close(opinion.uncertainty, torch.tensor([0.5]))
