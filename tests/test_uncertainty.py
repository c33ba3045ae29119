"""The contract of every probe, and each measure against a plain loop."""

import decimal
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import typed_with_defaults

from avow import uncertainty
from avow.core import folder
from avow.core.background import Background
from avow.core.contracts import Draw, Probe, QueryBatch
from avow.core.errors import BadData
from avow.uncertainty import _answers, _posterior, mc_dropout, scores
from avow.uncertainty._drawn import averaged_over_features, averaged_over_posteriors
from avow.uncertainty._posterior import Posteriors
from avow.uncertainty.scores import fit_temperature

NAMES = folder.names(uncertainty)
OPTIONAL = ("background", "runs", "draws")
BANK = torch.rand(2, 40, 9, generator=torch.Generator().manual_seed(7)) * 0.6 - 0.3
WORSE = {
    "evidential": {"u", "u own", "u other", "belief", "belief shortlist"},
    "scores": {"largest", "lead", "spread", "probability", "entropy"},
    "two_way": {
        "back",
        "back own",
        "back other",
        "back shortlist",
        "both ways",
        "standard score",
    },
}
"""What must grow when the first answer gets a lower score; other measures need not."""


def question(
    seed: int = 0,
    queries: int = 6,
    candidates: int = 9,
    views: int = 2,
    noise: float = 0.05,
) -> QueryBatch:
    """Queries of which each has one candidate well before the others, and everything."""
    draw = torch.Generator().manual_seed(seed)

    def shaken(scores: torch.Tensor, by: float) -> torch.Tensor:
        return scores + by * torch.randn(scores.shape, generator=draw)

    base = torch.rand(queries, candidates, generator=draw) * 0.3
    best = torch.randint(candidates, (queries, 1), generator=draw)
    base.scatter_(1, best, 0.5)
    vectors = torch.randn(queries, 4, generator=draw)
    found = [Draw(shaken(base, noise), shaken(vectors, noise)) for _ in range(60)]
    return QueryBatch(
        similarity=torch.stack([shaken(base, 0.03) for _ in range(views)]).numpy(),
        own=views - 1,
        background=Background.from_scores(
            [BANK[:views, :, :candidates].numpy()], tau=0.05, kept=8
        ),
        runs=torch.stack([shaken(base, noise) for _ in range(3)]).numpy(),
        draws=lambda: iter(found),
    )


def same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def changed(
    asked: QueryBatch,
    scores: Callable[[torch.Tensor], torch.Tensor],
    vectors: Callable[[torch.Tensor], torch.Tensor] = same,
    background: Background | None = None,
) -> QueryBatch:
    """The question with every matrix [..., queries, candidates] and vector changed."""
    found = [Draw(scores(one.similarity), vectors(one.vectors)) for one in asked.draws()]
    return replace(
        asked,
        similarity=scores(torch.from_numpy(asked.similarity)).numpy(),
        runs=scores(torch.from_numpy(asked.runs)).numpy(),
        draws=lambda: iter(found),
        background=background or asked.background,
    )


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


@pytest.fixture
def probe(name) -> Probe:
    return folder.build(uncertainty, name)


# --- what every probe promises --------------------------------------------------------


@pytest.mark.parametrize("views", [1, 2])
def test_one_finite_number_per_query(probe, views):
    found = probe.measure(question(views=views))
    assert found
    for measure, values in found.items():
        assert values.shape == (6,), measure
        assert values.isfinite().all(), measure


def test_one_view_says_the_same_as_two_equal_ones(probe):
    one = question(views=1)
    twice = replace(
        one,
        similarity=np.tile(one.similarity, (2, 1, 1)),
        background=Background.from_scores([np.tile(BANK[:1], (2, 1, 1))], tau=0.05, kept=8),
    )
    alone, both = probe.measure(one), probe.measure(twice)
    assert alone.keys() <= both.keys()
    for measure, values in alone.items():
        torch.testing.assert_close(values, both[measure])


def test_a_single_query_and_a_single_candidate_will_do(probe):
    found = probe.measure(question(queries=1, candidates=1))
    assert all(values.shape == (1,) and values.isfinite().all() for values in found.values())


def test_the_other_direction_is_the_transpose(probe):
    """Image queries and text queries look the same: rows ask, columns answer."""
    asked = question()
    turned = changed(
        replace(asked, own=0),
        lambda scores: scores.transpose(-1, -2),
        lambda vectors: vectors.repeat(2, 1)[:9],
        Background.from_scores([torch.rand(2, 30, 6).numpy()], tau=0.05),
    )
    copied = changed(turned, torch.Tensor.contiguous)
    expected = probe.measure(copied)
    for measure, values in probe.measure(turned).items():
        assert values.shape == (9,) and values.isfinite().all(), measure
        torch.testing.assert_close(values, expected[measure])


def test_the_order_of_candidates_does_not_matter(probe):
    asked = question()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    shuffled = changed(
        asked, lambda scores: scores[..., order], background=asked.background.of(order.numpy())
    )
    before, after = probe.measure(asked), probe.measure(shuffled)
    for measure in before:
        torch.testing.assert_close(before[measure], after[measure])


def test_the_order_of_queries_is_kept(probe):
    asked = question()
    order = torch.tensor([3, 0, 5])
    some = changed(asked, lambda scores: scores[..., order, :], lambda vectors: vectors[order])
    before, after = probe.measure(asked), probe.measure(some)
    for measure in before:
        torch.testing.assert_close(before[measure][order], after[measure])


def test_a_worse_first_answer_is_trusted_less(name, probe):
    asked = question()
    first = torch.from_numpy(asked.together).argmax(-1, keepdim=True)

    def lower(scores: torch.Tensor) -> torch.Tensor:
        places = first.expand(*scores.shape[:-1], 1)
        return scores.scatter_add(-1, places, scores.new_full(places.shape, -0.03))

    before, after = probe.measure(asked), probe.measure(changed(asked, lower))
    assert WORSE.get(name, set()) <= before.keys()
    for measure in WORSE.get(name, set()):
        assert (after[measure] > before[measure]).all(), measure


def test_models_that_differ_more_are_trusted_less(probe):
    if not probe.needs & {"draws", "runs"}:
        return
    calm, wild = probe.measure(question(noise=0.05)), probe.measure(question(noise=0.2))
    for measure in calm:
        assert wild[measure].mean() > calm[measure].mean(), measure


def test_what_it_is_given_stays_as_it_was(probe):
    """In double precision nothing is copied by a conversion, so a write would show."""
    asked = changed(question(), torch.Tensor.double, torch.Tensor.double)
    draw = next(asked.draws())
    given = [asked.similarity, asked.runs, draw.similarity, draw.vectors]
    before = [np.asarray(one).copy() for one in given]
    probe.measure(asked)
    assert all(np.array_equal(np.asarray(a), b) for a, b in zip(given, before, strict=True))


def test_needs_are_what_it_cannot_do_without(probe):
    bare = replace(question(), **dict.fromkeys(set(OPTIONAL) - probe.needs))
    assert probe.measure(bare)
    for part in probe.needs:
        with pytest.raises(BadData, match=f"no '{part}' to look at"):
            probe.measure(replace(bare, **{part: None}))


def test_looking_at_some_queries_after_the_others_changes_nothing(probe, monkeypatch):
    asked = question()
    whole = probe.measure(asked)
    monkeypatch.setattr(_answers, "_AT_ONCE", 40)
    monkeypatch.setattr(_posterior, "_AT_ONCE", 20)
    for measure, values in probe.measure(asked).items():
        torch.testing.assert_close(values, whole[measure])


def test_its_file_names_a_paper(name):
    assert "Paper" in (folder.find(uncertainty, name).__doc__ or "")


def test_build_is_typed_and_has_defaults(name):
    assert typed_with_defaults(uncertainty, name)


def test_what_is_missing_is_named():
    with pytest.raises(BadData) as caught:
        mc_dropout.build().measure(replace(question(), draws=None))
    assert str(caught.value) == (
        "There is no 'draws' to look at. Expected stochastic passes over the same queries; "
        "give it to `QueryBatch`, or leave this probe out."
    )


# --- evidential -----------------------------------------------------------------------


def opinion(row: list[float], tau: float) -> tuple[list[float], float]:
    """Belief and uncertainty of one query, the plain way."""
    evidence = [math.exp(score / tau) for score in row]
    strength = sum(evidence) + len(evidence)
    return [one / strength for one in evidence], len(evidence) / strength


def test_evidential_against_a_loop():
    asked = question()
    found = folder.build(uncertainty, "evidential", shortlist=4).measure(asked)
    for query in range(6):
        mean = asked.similarity[:, query].mean(0).tolist()
        belief, u = opinion(mean, 0.05)
        assert found["u"][query] == pytest.approx(u, rel=1e-4)
        assert found["belief"][query] == pytest.approx(-max(belief), rel=1e-5)
        near, _ = opinion(sorted(mean)[-4:], 0.05)
        assert found["belief shortlist"][query] == pytest.approx(-max(near), rel=1e-5)
        own, own_u = opinion(asked.similarity[1, query].tolist(), 0.05)
        other, other_u = opinion(asked.similarity[0, query].tolist(), 0.05)
        assert found["u own"][query] == pytest.approx(own_u, rel=1e-4)
        assert found["u other"][query] == pytest.approx(other_u, rel=1e-4)
        gap = sum(abs(a - b) for a, b in zip(own, other, strict=True)) / 9
        assert found["disagreement"][query] == pytest.approx(gap, rel=1e-4)
        differ = own.index(max(own)) != other.index(max(other))
        assert found["first answers differ"][query] == float(differ)


def test_first_answers_can_differ():
    similarity = np.array([[[0.5, 0.1], [0.5, 0.1]], [[0.2, 0.4], [0.9, 0.4]]])
    found = folder.build(uncertainty, "evidential").measure(QueryBatch(similarity, own=0))
    assert found["first answers differ"].tolist() == [1.0, 0.0]


def test_evidence_is_read_as_the_loss_learnt_it():
    asked = replace(question(), tau=0.2, kind="relu")
    found = folder.build(uncertainty, "evidential").measure(asked)
    for query, row in enumerate(asked.together.tolist()):
        strength = sum(max(score, 0) / 0.2 + 1 for score in row)
        assert found["u"][query] == pytest.approx(len(row) / strength, rel=1e-5)


def test_u_of_the_explanation():
    """One match at 0.5, the rest at 0: the figures that show how u depends on K."""
    for count, expected in ((100, 0.004), (1000, 0.042), (5000, 0.156), (25000, 0.347)):
        similarity = np.zeros((1, 1, count), np.float32)
        similarity[0, 0, 3] = 0.5
        found = folder.build(uncertainty, "evidential").measure(QueryBatch(similarity, own=0))
        assert found["u"][0] == pytest.approx(expected, abs=5e-4)


# --- scores ---------------------------------------------------------------------------


def test_scores_against_a_loop():
    asked = question()
    found = folder.build(uncertainty, "scores", temperature=0.1).measure(asked)
    for query, row in enumerate(asked.together.tolist()):
        ordered = sorted(row)
        weights = [math.exp(score / 0.1) for score in row]
        shares = [weight / sum(weights) for weight in weights]
        assert found["largest"][query] == pytest.approx(-ordered[-1])
        assert found["lead"][query] == pytest.approx(ordered[-2] - ordered[-1], rel=1e-4)
        assert found["spread"][query] == pytest.approx(-np.std(row), rel=1e-4)
        assert found["probability"][query] == pytest.approx(-max(shares), rel=1e-4)
        expected = -sum(share * math.log(share) for share in shares)
        assert found["entropy"][query] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("true", [0.02, 0.3])
def test_fitted_temperature_is_the_one_the_answers_were_drawn_with(true):
    draw = torch.Generator().manual_seed(0)
    similarity = torch.rand(4000, 12, generator=draw)
    answer = (similarity / true).softmax(-1).multinomial(1, generator=draw)
    match = torch.zeros(4000, 12, dtype=torch.bool).scatter_(1, answer, True)
    assert fit_temperature(similarity, match) == pytest.approx(true, rel=0.08)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000))
def test_no_other_temperature_is_more_likely(seed):
    draw = torch.Generator().manual_seed(seed)
    similarity = torch.rand(30, 8, generator=draw)
    match = torch.rand(30, 8, generator=draw) < 0.2
    match[torch.arange(30), similarity.argmin(-1)] = True
    best = similarity.masked_fill(~match, -1).amax(-1)

    def cost(temperature: float) -> float:
        return float(((similarity / temperature).logsumexp(-1) - best / temperature).mean())

    found = cost(fit_temperature(similarity, match))
    assert all(found <= cost(10.0**step) + 1e-5 for step in np.linspace(-3, 2, 60))


def test_a_query_without_a_match_has_no_likelihood():
    match = torch.tensor([[True, False], [False, False]])
    with pytest.raises(BadData) as caught:
        fit_temperature(torch.rand(2, 2), match)
    assert str(caught.value) == (
        "Query number 1 has no match. Expected at least one for every query; leave out the "
        "queries whose answer is not in the gallery."
    )


def test_scores_have_a_default_temperature():
    assert scores.build() == scores.build(temperature=0.05)


# --- two-way --------------------------------------------------------------------------


def test_two_way_against_the_whole_bank():
    """Every candidate looks at the bank and at the query, one after the other."""
    asked = question()
    asked = replace(asked, background=Background.from_scores([BANK.numpy()], tau=0.05, kept=40))
    found = folder.build(uncertainty, "two_way", shortlist=3).measure(asked)

    def log_back(view: int, query: int, candidate: int) -> float:
        seen = [
            *BANK[view, :, candidate].tolist(),
            float(asked.similarity[view, query, candidate]),
        ]
        weights = [math.exp(score / 0.05) for score in seen]
        return math.log(weights[-1] / sum(weights))

    for query in range(6):
        answer = int(asked.together[query].argmax())
        back = [log_back(view, query, answer) for view in (0, 1)]
        score = asked.similarity[:, query, answer]
        assert found["back"][query] == pytest.approx(-sum(back) / 2, rel=1e-4)
        assert found["back own"][query] == pytest.approx(-back[1], rel=1e-4)
        assert found["back other"][query] == pytest.approx(-back[0], rel=1e-4)
        near = np.argsort(-asked.together[query])[:3].tolist()
        largest = max(sum(log_back(view, query, one) for view in (0, 1)) / 2 for one in near)
        assert found["back shortlist"][query] == pytest.approx(-largest, rel=1e-4)
        scaled = torch.from_numpy(asked.similarity[:, query] / 0.05)
        forth = scaled.log_softmax(-1)[:, answer]
        both = float(forth.mean()) + sum(back) / 2
        assert found["both ways"][query] == pytest.approx(-both, rel=1e-4)
        places = [
            1 + int((BANK[view, :, answer].numpy() >= score[view]).sum()) for view in (0, 1)
        ]
        expected = -(1 / places[0] + 1 / places[1]) / 2
        assert found["reciprocal rank"][query] == pytest.approx(expected)
        bank = BANK[:, :, answer].numpy()
        standard = (score - bank.mean(1)) / bank.std(1)
        assert found["standard score"][query] == pytest.approx(-standard.mean(), rel=1e-3)
        hub = np.log(np.exp(bank / 0.05).mean(1)).mean()
        assert found["hub"][query] == pytest.approx(hub, rel=1e-4)


def test_rank_is_exact_while_it_can_be_and_estimated_beyond():
    torch.manual_seed(0)
    bank = 0.1 * torch.randn(1, 20_000, 1)
    usual = Background.from_scores([bank.numpy()], tau=0.05, kept=32)
    ordered = bank[0, :, 0].sort(descending=True).values
    for place in (1, 2, 20, 32, 100, 1000, 10_000):
        score = (ordered[place - 1] + ordered[place]) / 2  # below the first `place` of them
        asked = QueryBatch(score.reshape(1, 1, 1).numpy(), own=0, background=usual)
        found = folder.build(uncertainty, "two_way").measure(asked)["reciprocal rank"]
        exact = place < 32
        assert -1 / found[0] == pytest.approx(place + 1, rel=1e-5 if exact else 0.15)


def test_a_hub_is_found_out():
    """Two candidates with the same score; the second is liked by every query."""
    bank = torch.stack([torch.full((50,), 0.0), torch.full((50,), 0.5)], -1)[None]
    usual = Background.from_scores([bank.numpy()], tau=0.05)
    similarity = np.array([[[0.55, 0.1], [0.1, 0.55]]], np.float32)
    found = folder.build(uncertainty, "two_way").measure(
        QueryBatch(similarity, own=0, background=usual)
    )
    for measure in ("back", "both ways", "hub"):
        assert found[measure][1] > found[measure][0] + 1, measure


def test_a_shortlist_finds_a_candidate_that_would_choose_the_query():
    """The first answer is a hub; the second, just behind it, is not."""
    bank = torch.stack([torch.full((50,), 0.5), torch.full((50,), 0.0)], -1)[None]
    usual = Background.from_scores([bank.numpy()], tau=0.05)
    asked = QueryBatch(np.array([[[0.55, 0.5]]], np.float32), own=0, background=usual)
    found = folder.build(uncertainty, "two_way").measure(asked)
    expected = -math.log(math.exp(10) / (math.exp(10) + 50))
    assert found["back shortlist"][0] == pytest.approx(expected, rel=1e-3)
    assert found["back"][0] > 2
    alone = folder.build(uncertainty, "two_way", shortlist=1).measure(asked)
    assert alone["back shortlist"][0] == alone["back"][0]


def test_a_background_of_another_gallery_is_refused():
    asked = QueryBatch(torch.rand(1, 3, 5).numpy(), own=0, background=question().background)
    with pytest.raises(BadData) as caught:
        folder.build(uncertainty, "two_way").measure(asked)
    assert str(caught.value) == (
        "The background knows 2 views and 9 candidates, and the scores have 1 and 5. "
        "Expected the same; make it from the same views and gallery."
    )


# --- stochastic passes and runs -------------------------------------------------------


def exact_posteriors(
    rows: list[list[float]], temperature: float
) -> tuple[list[Decimal], float, float]:
    """Mean posterior, mutual information and expected entropy with eighty digits."""
    with decimal.localcontext() as context:
        context.prec = 80
        found = []
        for row in rows:
            weights = [(Decimal(score) / Decimal(temperature)).exp() for score in row]
            found.append([weight / sum(weights) for weight in weights])
        mean = [sum(column) / len(found) for column in zip(*found, strict=True)]

        def entropy(shares: list[Decimal]) -> Decimal:
            return -sum(share * share.ln() for share in shares)

        expected = sum(map(entropy, found)) / len(found)
        return mean, float(entropy(mean) - expected), float(expected)


@pytest.mark.parametrize("temperature", [0.001, 0.05, 10.0])
@pytest.mark.parametrize("lead", [0.0, 0.02, 0.3])
def test_posterior_uncertainty_against_the_formula(temperature, lead):
    """Also where one candidate has all but 1e-100 of the probability."""
    torch.manual_seed(0)
    draws = 0.02 * torch.randn(4, 3, 7)
    draws[..., 2] += lead
    posteriors = Posteriors(draws[0], temperature)
    for one in draws:
        posteriors.add(one)
    for query in range(3):
        rows = draws[:, query].tolist()
        mean, information, expected = exact_posteriors(rows, temperature)
        assert posteriors.expected_entropy[query] == pytest.approx(expected, rel=1e-9)
        # at a high temperature both entropies are nearly log K, and digits cancel
        known = dict(rel=1e-9, abs=1e-12 if temperature > 1 else 0)
        assert posteriors.mutual_information[query] == pytest.approx(information, **known)
        found = posteriors.mean[query].tolist()
        assert found == pytest.approx([float(share) for share in mean], rel=1e-9)


def test_models_that_agree_know_as_much_as_one():
    scores = torch.rand(5, 8)
    posteriors = Posteriors(scores, 0.01)
    for _ in range(3):
        posteriors.add(scores)
    torch.testing.assert_close(
        posteriors.mutual_information, torch.zeros(5).double(), atol=1e-14, rtol=0
    )


def test_two_certain_models_that_differ_are_one_bit_apart():
    posteriors = Posteriors(torch.zeros(1, 2), 0.001)
    posteriors.add(torch.tensor([[1.0, -1.0]]))
    posteriors.add(torch.tensor([[-1.0, 1.0]]))
    assert posteriors.mutual_information[0] == pytest.approx(math.log(2))
    assert posteriors.expected_entropy[0] == 0


@pytest.mark.parametrize("which", ["mc_dropout", "stochastic_bn"])
def test_measures_of_passes_against_numpy(which):
    asked = question()
    found = folder.build(uncertainty, which, passes=20, temperature=0.05).measure(asked)
    used = list(asked.draws())[:20]
    vectors = np.stack([one.vectors.numpy() for one in used]).astype(np.float64)
    np.testing.assert_allclose(found["feature uncertainty"], vectors.var(0).sum(-1), rtol=1e-10)
    for query in range(6):
        rows = [one.similarity[query].tolist() for one in used]
        _, information, entropy = exact_posteriors(rows, 0.05)
        assert found["posterior uncertainty"][query] == pytest.approx(information, rel=1e-9)
        assert found["expected entropy"][query] == pytest.approx(entropy, rel=1e-9)
        answers = [row.index(max(row)) for row in rows]
        most = max(answers.count(one) for one in answers)
        assert found["variation ratio"][query] == pytest.approx(1 - most / 20)


def test_answers_that_vary_are_counted():
    rows = torch.eye(3)[[0, 1, 1, 2, 1]]
    asked = replace(question(queries=1, candidates=3), draws=lambda: _each(rows))
    found = folder.build(uncertainty, "mc_dropout", passes=5).measure(asked)
    assert found["variation ratio"].tolist() == pytest.approx([0.4])
    assert "feature uncertainty" not in found


def _each(rows: torch.Tensor) -> Iterator[Draw]:
    for row in rows:
        yield Draw(row[None])


def test_fifty_passes_are_asked_for_and_no_more():
    asked, count = question(), 0

    def draws() -> Iterator[Draw]:
        nonlocal count
        while True:
            count += 1
            yield Draw(torch.rand(6, 9))

    folder.build(uncertainty, "mc_dropout").measure(replace(asked, draws=draws))
    assert count == 50


def test_too_few_passes_are_another_measure():
    asked = replace(question(queries=1), draws=lambda: _each(torch.rand(6, 9)))
    with pytest.raises(BadData) as caught:
        folder.build(uncertainty, "mc_dropout", passes=7).measure(asked)
    assert str(caught.value) == (
        "There were 6 stochastic passes. Expected 7, at least one; set `passes` to what "
        "there is."
    )


def test_averaging_over_features_and_posteriors():
    asked, candidates = question(), torch.randn(9, 4)
    used = list(asked.draws())[:10]
    mean = np.mean([one.vectors.numpy() for one in used], 0)
    cosine = (mean / np.linalg.norm(mean, axis=1, keepdims=True)) @ (
        candidates.numpy() / np.linalg.norm(candidates.numpy(), axis=1, keepdims=True)
    ).T
    found = averaged_over_features(asked.draws, candidates, passes=10)
    np.testing.assert_allclose(found, cosine, atol=1e-6)
    shares = torch.stack([(one.similarity.double() / 10).softmax(-1) for one in used])
    found = averaged_over_posteriors(asked.draws, passes=10)
    torch.testing.assert_close(found, shares.mean(0))


def test_features_cannot_be_averaged_where_there_are_none():
    with pytest.raises(BadData) as caught:
        averaged_over_features(lambda: _each(torch.rand(3, 4)), torch.rand(4, 2), passes=2)
    assert str(caught.value) == (
        "These passes have no 'vectors'. Expected a method that gives each query one "
        "vector; average over posteriors instead."
    )


def test_ensemble_against_a_loop():
    asked = question()
    found = folder.build(uncertainty, "ensemble", temperature=0.05).measure(asked)
    for query in range(6):
        answer = int(asked.together[query].argmax())
        rows = asked.runs[:, query].tolist()
        variance = np.var([row[answer] for row in rows])
        assert found["score variance"][query] == pytest.approx(variance, rel=1e-4)
        _, information, _ = exact_posteriors(rows, 0.05)
        assert found["mutual information"][query] == pytest.approx(information, rel=1e-6)
        others = [row.index(max(row)) != answer for row in rows]
        assert found["first answers differ"][query] == pytest.approx(sum(others) / 3)
