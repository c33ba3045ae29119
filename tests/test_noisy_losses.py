"""NCR, TCL + DECL and the mixture they judge with, against plain loops and scikit-learn."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.mixture import GaussianMixture

from avow import losses
from avow.blocks.null_comparison import chance_of_right, normal_scores
from avow.core import folder
from avow.core.contracts import Lesson
from avow.losses._mixture import chance_of_higher
from avow.losses.ncr import predicted, softened


@pytest.fixture
def scores():
    torch.manual_seed(0)
    return torch.rand(8, 8, dtype=torch.float64) * 1.6 - 0.8


def lesson(trust: torch.Tensor, epoch: int = 5, step: int = 0) -> Lesson:
    size = trust.shape[1]
    eye = torch.eye(size, dtype=torch.bool)
    return Lesson(torch.arange(size), eye, trust.double(), epoch, step)


def first(loss, scores, given):
    return next(iter(loss.steps(lambda: list(scores), given)))


# --- the mixture -----------------------------------------------------------------------


def two_kinds(share: float, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    rng = np.random.default_rng(seed)
    high = rng.random(2000) < share
    values = np.where(high, rng.normal(2, 0.8, 2000), rng.normal(-1, 1.2, 2000))
    return torch.from_numpy(values), high


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_mixture_is_that_of_scikit_learn(share):
    values, _ = two_kinds(share)
    theirs = GaussianMixture(2, tol=1e-7, max_iter=500, reg_covar=1e-6, random_state=0)
    theirs.fit(values.numpy()[:, None])
    expected = theirs.predict_proba(values.numpy()[:, None])[:, theirs.means_.argmax()]
    found = chance_of_higher(values, 500, 1e-7, monotone=False)
    np.testing.assert_allclose(found.numpy(), expected, atol=0.02)


def test_the_mixture_tells_two_kinds_apart_and_is_monotone():
    values, high = two_kinds(0.6)
    found = chance_of_higher(values)
    assert ((found > 0.5).numpy() == high).mean() > 0.9
    ordered = found[values.argsort()]
    assert (ordered.diff() >= -1e-9).all()
    assert chance_of_higher(torch.ones(5)).tolist() == [1.0] * 5


# --- NCR -------------------------------------------------------------------------------


def plain_ncr(scores: torch.Tensor, margins: list[float], turned: bool) -> float:
    size, total = len(scores), 0.0
    for i in range(size):
        to_text = [margins[i] + float(scores[i, j] - scores[i, i]) for j in range(size)]
        to_image = [
            (margins[j] if turned else margins[i]) + float(scores[j, i] - scores[i, i])
            for j in range(size)
        ]
        for costs in (to_text, to_image):
            total += max([0.0, *(c for j, c in enumerate(costs) if j != i)])
    return total


@pytest.mark.parametrize("text_margin", ["candidate", "own"])
def test_ncr_equals_a_plain_loop(scores, text_margin):
    """Pairs in doubt have the margin that the network's own prediction leaves them."""
    loss = folder.build(losses, "ncr", text_margin=text_margin)
    trust = torch.tensor([0.9, 0.2, 1.0, 0.6, 0.1, 0.8, 0.7, 0.3]).double()
    found = first(loss, [scores, scores], lesson(torch.stack([trust, trust])))
    places = torch.tensor([0, 2, 3, 5, 6])
    part = scores[places][:, places]
    said = predicted(part, torch.eye(5, dtype=torch.bool), 0.2)
    label = (trust[places] + (1 - trust[places]) * said).clamp(0, 1)
    margins = (0.2 * softened(label, "exponential")).tolist()
    expected = 2 * plain_ncr(part, margins, text_margin == "candidate")
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_ncr_learns_from_doubtful_pairs_only_late(scores):
    loss = folder.build(losses, "ncr", wrong_from=6)
    trust = torch.tensor([[1.0] * 4 + [0.0] * 4] * 2)
    scores.requires_grad_()
    for epoch, learnt in ((5, False), (6, True)):
        value = first(loss, [scores, scores], lesson(trust, epoch))
        (gradient,) = torch.autograd.grad(value, scores)
        assert gradient[:4, :4].abs().sum() > 0
        assert (gradient[4:, 4:].abs().sum() > 0) == learnt
        assert gradient[:4, 4:].abs().sum() == 0  # never compared with each other


def test_ncr_networks_teach_each_other():
    loss = folder.build(losses, "ncr")
    costs = torch.cat([torch.rand(300) * 0.1, 0.8 + torch.rand(100) * 0.1])
    seen = torch.stack([costs, costs.flip(0)])
    trust, _ = loss.settle(seen, None, 1)
    assert (trust[1, :300] > 0.5).all() and (trust[1, 300:] < 0.5).all()
    assert (trust[0, 100:] > 0.5).all() and (trust[0, :100] < 0.5).all()


def test_ncr_always_doubts_a_hundredth():
    loss = folder.build(losses, "ncr", threshold=-1.0)
    cost = torch.linspace(0, 1, 400)
    trust, _ = loss.settle(torch.stack([cost, cost]), None, 1)
    assert (trust[0, 396:] == 0).all() and (trust[0, :396] > 0).any()


def test_ncr_survives_a_batch_without_anybody_to_believe(scores):
    loss = folder.build(losses, "ncr")
    scores.requires_grad_()
    value = first(loss, [scores, scores], lesson(torch.zeros(2, 8)))
    (gradient,) = torch.autograd.grad(value, scores)
    assert float(value.detach()) == 0 and (gradient == 0).all()


# --- TCL + DECL ------------------------------------------------------------------------


def test_without_doubt_it_is_tcl(scores):
    ours, tcl = (folder.build(losses, name) for name in ("tcl_decl", "tcl"))
    both = [scores, scores.T.contiguous()]
    given = lesson(torch.ones(2, 8))
    pairs = zip(ours.steps(lambda: both, given), tcl.steps(lambda: both, given), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other)


def test_with_its_settings_it_is_two_networks_of_decl(scores):
    decl = folder.build(losses, "decl")
    ours = folder.build(
        losses,
        "tcl_decl",
        judge="argmax",
        ask="own",
        history=0.0,
        risk="squared",
        kl_least=0.1,
        kl_rate=0.0,
        hinge=0.4,
        tau=0.1,
        agreement_steps=0,
    )
    trust = torch.tensor([[1.0, 0, 1, 0, 1, 1, 0, 1]])
    given = lesson(trust.expand(2, -1), step=50)
    expected = first(decl, [scores], lesson(trust, step=50))
    # the same scores in both views: two halves of the hinge make the whole
    torch.testing.assert_close(first(ours, [scores, scores], given), expected)
    eye = torch.eye(8, dtype=torch.bool)
    near = torch.eye(8) * 0.3 + torch.rand(8, 8) * 0.4
    seen = ours.glance([near, near.T], eye)
    votes, _ = ours.settle(seen, None, 1)
    assert torch.equal(votes[:1], decl.glance([near], eye))


def test_the_past_counts_and_so_do_both_views():
    ours = folder.build(losses, "tcl_decl", judge="argmax", history=0.75, ask="own")
    before, seen = torch.tensor([[4.0, -4.0]] * 2), torch.tensor([[-8.0, 8.0]] * 2)
    trust, kept = ours.settle(seen, before, 1)
    assert kept[0].tolist() == [1.0, -1.0] and trust[0].tolist() == [1, 0]
    apart = torch.tensor([[1.0, 1.0, -1.0], [2.0, -3.0, -1.0]])
    for ask, expected in {
        "own": [[1, 1, 0], [1, 0, 0]],
        "other": [[1, 0, 0], [1, 1, 0]],
        "mean": [[1, 0, 0]] * 2,
        "both": [[1, 0, 0]] * 2,
    }.items():
        asked = folder.build(losses, "tcl_decl", judge="argmax", ask=ask)
        assert asked.settle(apart, None, 1)[0].tolist() == expected, ask


@pytest.mark.parametrize("judge", ["null", "mixture"])
def test_soft_and_rounded_trust(judge):
    values, _ = two_kinds(0.6)
    seen = values.float().expand(2, -1)
    soft, _ = folder.build(losses, "tcl_decl", judge=judge).settle(seen, None, 1)
    hard, _ = folder.build(losses, "tcl_decl", judge=judge, round=True).settle(seen, None, 1)
    assert ((soft > 0) & (soft < 1)).any() and set(hard.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(soft.round(), hard)


# --- pairs beside those that are wrong for certain -----------------------------------------


def test_normal_scores_equal_a_plain_loop(scores):
    found = normal_scores(scores / 0.1, torch.eye(8, dtype=torch.bool))
    weight = (scores / 0.1).exp()

    def stand(i: int, j: int) -> float:
        row = sum(float(weight[i, k]) for k in range(8) if k not in (i, j))
        column = sum(float(weight[k, j]) for k in range(8) if k not in (i, j))
        return float(weight[i, j].log()) - (np.log(row) + np.log(column)) / 2

    wrong = [stand(i, j) for i in range(8) for j in range(8) if i != j]
    for i in range(8):
        above = sum(value >= stand(i, i) for value in wrong)
        assert float(found[i]) == pytest.approx(-norm.ppf((above + 0.5) / 57), abs=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.6])
def test_pairs_are_believed_as_often_as_they_are_right(noise):
    """Whatever the share of wrong pairs, 0 included: no share has to be assumed."""
    torch.manual_seed(1)
    notes, wrong = [], []
    for _ in range(60):
        images = torch.nn.functional.normalize(torch.randn(64, 16), dim=1)
        texts = torch.nn.functional.normalize(images + 0.15 * torch.randn(64, 16), dim=1)
        bad = torch.rand(64) < noise
        texts[bad] = torch.nn.functional.normalize(torch.randn(int(bad.sum()), 16), dim=1)
        notes.append(normal_scores(images @ texts.T / 0.05, torch.eye(64, dtype=torch.bool)))
        wrong.append(bad)
    z, bad = torch.cat(notes), torch.cat(wrong)
    trust = chance_of_right(z)
    if noise:
        assert float(z[bad].mean()) == pytest.approx(0, abs=0.15)
        assert float(z[bad].std()) == pytest.approx(1, abs=0.15)
        assert trust[bad].mean() < 0.15
    assert trust[~bad].mean() > 0.85
    assert float(trust.mean()) == pytest.approx(1 - noise, abs=0.08)
    ordered = trust[z.argsort()]
    assert (ordered.diff() >= 0).all()


# --- strangers as judges -----------------------------------------------------------------


def test_strangers_judge_what_they_never_learnt():
    ours = folder.build(losses, "strangers", apart=2)
    values, right = two_kinds(0.6)
    values, half = values.float(), len(values) // 2
    # each view is sure of what it learnt, right or wrong, and sees the other half as it is
    sure = torch.full((half,), 9.0)
    seen = torch.stack([torch.cat([sure, values[half:]]), torch.cat([values[:half], sure])])
    begun, _ = ours.settle(seen, None, 0)
    assert begun[0, :half].eq(1).all() and begun[0, half:].eq(0).all()
    assert torch.equal(begun.sum(0), torch.ones(2 * half))
    apart, _ = ours.settle(seen, seen, 1)
    together, _ = ours.settle(seen, seen, 2)
    assert torch.equal(together[0], together[1]) and torch.equal(apart.sum(0), together[0])
    assert apart[0, half:].eq(0).all() and apart[1, :half].eq(0).all()
    assert together[0][right].mean() > together[0][~right].mean() + 0.5
    assert [ours.sifts(epoch) for epoch in range(4)] == [True, True, True, False]


def test_strangers_who_believe_most_pairs_meet_at_once(scores):
    draws = torch.Generator().manual_seed(0)
    chance, sure = (
        torch.randn(2, 2, 4000, generator=draws) + torch.tensor([0, 4])[:, None, None]
    )
    for meet_at, met in ((0.5, True), (0.95, True), (1.1, False)):
        ours = folder.build(losses, "strangers", apart=3, meet_at=meet_at)
        trust, kept = ours.settle(sure, chance, 1)
        assert trust.sum(0).mean() > 0.95
        assert torch.equal(trust[0], trust[1]) == met
        # from now on both learn every pair, and what they think of it is no judgement
        later, kept = ours.settle(chance, kept, 2)
        assert torch.equal(later, trust) == met
        assert torch.equal(kept, sure) == met
    tcl, both = folder.build(losses, "tcl"), [scores, scores.T.contiguous()]
    given = lesson(torch.ones(2, 8), 2)
    ours = folder.build(losses, "strangers", apart=3)
    found = [float(value) for value in ours.steps(lambda: both, given)]
    assert found == pytest.approx([float(value) for value in tcl.steps(lambda: both, given)])


def test_a_pair_that_nobody_believes_teaches_strangers_nothing(scores):
    ours = folder.build(losses, "strangers", apart=2, agreement_steps=0)
    scores.requires_grad_()
    for epoch in (0, 1, 2, 9):
        value = first(ours, [scores, scores], lesson(torch.zeros(2, 8), epoch))
        (gradient,) = torch.autograd.grad(value, scores)
        assert (gradient == 0).all()


def test_strangers_who_have_met_learn_as_tcl_does(scores):
    ours, tcl = (folder.build(losses, name) for name in ("strangers", "tcl"))
    both, given = [scores, scores.T.contiguous()], lesson(torch.ones(2, 8), 5)
    pairs = zip(ours.steps(lambda: both, given), tcl.steps(lambda: both, given), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other)
