"""Trust in answers: what is seen of them, probabilities that come true, promises, verdicts."""

import json
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import avow
from avow.core.background import Background
from avow.core.contracts import QueryBatch
from avow.core.errors import BadData, WrongTrust
from avow.core.evidence import top_positions
from avow.metrics.calibration import calibration_floor, expected_calibration_error
from avow.trust.fitting import fit_policy
from avow.trust.gallery_sampling import (
    Hits,
    ScoredQueries,
    collect_hits,
    deal,
    draw,
    draw_sizes,
    fit_hits,
    predict,
)
from avow.trust.policy import Policy
from avow.trust.probability import Probability, fit_probability
from avow.trust.top_k import describe, hub_statistics, summarise, summarise_best


def world(images=120, seed=0, views=2, noise=0.35, bank=300):
    """Captioned images whose scores are a truth and noise; some images are hubs."""
    rng = np.random.default_rng(seed)
    image_of = np.repeat(np.arange(images), 2)
    hubs = rng.normal(0, 0.1, images)
    truth = image_of[None] == np.arange(images)[:, None]
    scores = [
        np.tanh(0.45 * truth + hubs[:, None] + noise * rng.normal(size=truth.shape) * 0.5)
        for _ in range(views)
    ]
    asking = [np.tanh(hubs[None] + noise * rng.normal(size=(bank, images)) * 0.5)] * views
    usual = Background.from_scores([np.stack(asking).astype(np.float32)], 0.05)
    similarity = np.stack(scores).astype(np.float32)
    return ScoredQueries.both(similarity, image_of, images=usual)["text"]


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(0, 500))
def test_a_sight_equals_a_loop(candidates, views, seed):
    generator = torch.Generator().manual_seed(seed)
    similarity = torch.rand(views, 3, candidates, generator=generator).numpy()
    bank = torch.rand(views, 20, candidates, generator=generator).numpy()
    asked = QueryBatch(similarity, 0, 0.1, background=Background.from_scores([bank], 0.1))
    summary, order = summarise(asked)
    found = dict(zip(summary.names, np.moveaxis(describe(summary), -1, 0), strict=True))
    for query in range(3):
        mean = [float(similarity[:, query, c].mean()) for c in range(candidates)]
        ranked = sorted(range(candidates), key=lambda c: -mean[c])
        assert order[query].tolist() == ranked
        relative = [
            np.mean(
                [
                    float(similarity[v, query, c]) / 0.1
                    - np.log(np.mean([np.exp(float(s) / 0.1) for s in bank[v, :, c]]))
                    for v in range(views)
                ]
            )
            for c in range(candidates)
        ]
        for place, candidate in enumerate(ranked):
            others = [mean[c] for c in ranked if c != candidate]
            lead = mean[candidate] - max(others) if others else 0.0
            assert float(found["lead"][query, place]) == pytest.approx(lead, abs=1e-5)
            five = others[:5]
            clear = mean[candidate] - np.mean(five) if five else 0.0
            assert float(found["clear"][query, place]) == pytest.approx(clear, abs=1e-5)
            share = np.exp(relative[candidate]) / np.exp(relative).sum()
            soft = float(found["relative softmax 1"][query, place])
            assert np.exp(soft) == pytest.approx(share, rel=1e-3, abs=1e-5)


def test_a_candidate_at_minus_infinity_is_not_there():
    """The same numbers as for a gallery without it: nothing leaks from what was taken out."""
    torch.manual_seed(0)
    similarity = torch.rand(2, 4, 9).numpy()
    hidden = similarity.copy()
    hidden[:, :, 5] = -np.inf
    kept = [0, 1, 2, 3, 4, 6, 7, 8]
    bank = Background.from_scores([torch.rand(2, 30, 9).numpy()], 0.05)
    one, _ = summarise(QueryBatch(hidden, 0, background=bank))
    other, _ = summarise(
        QueryBatch(similarity[:, :, kept], 0, background=bank.of(np.array(kept)))
    )
    np.testing.assert_allclose(describe(one), describe(other), rtol=1e-4, atol=1e-5)
    assert one.gallery.tolist() == [8] * 4


def test_galleries_are_disjoint_and_hold_every_match():
    scored = world()
    seen = []
    for queries, candidates in deal(scored, 20, seed=3):
        assert len(candidates) == 20
        assert scored.match[np.ix_(queries, candidates)].any(1).all()
        seen += candidates.tolist()
    assert len(seen) == len(set(seen)) == 120


def test_captions_of_an_image_stay_in_one_gallery():
    scored = world()
    for queries, _ in deal(scored, 30, seed=0):
        assert (
            np.bincount(scored.groups[queries])[np.unique(scored.groups[queries])] == 2
        ).all()


def test_queries_with_many_matches_ask_where_one_of_them_is():
    rng = np.random.default_rng(0)
    match = rng.random((30, 90)) < 0.3  # everything hangs together
    scored = ScoredQueries(rng.random((1, 30, 90)).astype(np.float32), match)
    seen = []
    for queries, candidates in deal(scored, 20, seed=1):
        assert len(candidates) == 20
        assert match[np.ix_(queries, candidates)].any(1).all()
        seen += queries.tolist()
    assert len(seen) == len(set(seen)) > 20


def test_without_its_match_nothing_is_right():
    hits = draw(world(), 20, absent=True)
    assert hits is not None
    assert not hits.right.any()
    assert (hits.gallery == 19).all()


def test_one_fit_holds_for_every_size():
    """Fitted on some worlds, the stated probabilities come true in another, at each size."""
    probability = fit_hits(
        "right", Hits.join([draw_sizes(world(seed=seed), (20, 60)) for seed in range(4)])
    )
    for size in (20, 60, 120):
        parts = [draw(world(seed=seed), size) for seed in range(50, 56)]
        hits = Hits.join([part for part in parts if part is not None])
        stated = predict(probability, hits.features, hits.gallery)[:, 0]
        right = hits.right[:, 0]
        error = expected_calibration_error(stated, right, 10, equal_mass=True)
        floor = calibration_floor(stated, 10, True, levels=(0.99,), group=hits.groups)[0]
        assert error < floor + 0.02
        assert 0.1 < right.mean() < 0.999


def test_a_probability_survives_json():
    hits = draw_sizes(world(), (20,))
    fitted = fit_hits("right", hits)
    again = Probability.from_dict(json.loads(json.dumps(fitted.to_dict())))
    before = predict(fitted, hits.features, hits.gallery)
    np.testing.assert_array_equal(before, predict(again, hits.features, hits.gallery))


def test_a_text_in_place_of_the_bias_costs_no_memory():
    """numpy would make every other number as long as the text."""
    named = ("a", "b")
    numbers = tuple(0.5 for _ in range(2 * len(named) + 2))
    model = Probability("right", named, numbers, numbers, numbers, 0.1, 1.0, 10)
    assert Probability.from_dict(model.to_dict()) == model
    tracemalloc.start()
    with pytest.raises(ValueError, match="bias"):
        Probability.from_dict({**model.to_dict(), "bias": "x" * 10**6})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3 * 10**6  # the text itself is a third of that


def test_nothing_is_learnt_from_one_kind_of_answer():
    with pytest.raises(BadData) as caught:
        fit_probability(
            "right", ["a"], np.ones((4, 1)), np.ones(4, bool), 10, np.arange(4), (1.0,)
        )
    assert str(caught.value) == (
        "All 4 answers are right. Expected some of both, to learn the difference from; give "
        "more queries."
    )


@pytest.fixture(scope="module")
def fitted() -> Policy:
    scored = world(images=400, seed=1)
    return fit_policy(
        scored.similarity,
        scored.match,
        bank=scored.background,
        risk=0.3,
        sizes=(50, 100, 200),
        model="abc",
    )


def test_verdicts_keep_their_promise(fitted):
    """Over other worlds of the same kind, as many as make chance small."""
    risks, shares = [], []
    for seed in range(2, 8):
        scored = world(images=400, seed=seed)
        found = fitted.judge(scored.similarity, bank=scored.background, model="abc")
        right = np.take_along_axis(scored.match, found.candidates[:, :1], 1)[:, 0]
        verdicts = np.array(found.verdicts)
        answered, refused = verdicts == "answer", verdicts == "nothing found"
        risks.append((~right[answered]).mean())
        shares.append((refused & right).sum() / right.sum())
        assert answered.mean() > 0.1
        assert right[refused].mean() < right[answered].mean()
    assert np.mean(risks) <= 0.33  # other galleries: near the promise, not under it
    assert np.mean(shares) <= 0.1
    assert found.evidence == {"K": 400, "tau": 0.05, "evidence": "exp"}
    assert found.doubts == []


def test_a_promise_for_the_ten_shown():
    """Easier to keep than one for the first answer, so more is answered at the same risk."""
    scored, other = world(images=400, seed=1), world(images=400, seed=2)
    made = {
        among: fit_policy(
            scored.similarity,
            scored.match,
            bank=scored.background,
            risk=0.2,
            sizes=(50, 100),
            among=among,
        )
        for among in (1, 10)
    }
    assert made[10].promise.event == "none of 10 answers is right"
    found = made[10].judge(other.similarity, bank=other.background)
    hits = np.take_along_axis(other.match, found.candidates, 1)
    answered = np.array(found.verdicts) == "answer"
    assert (~hits[answered].any(1)).mean() <= 0.25
    assert answered.mean() > made[1].promise.coverage + 0.1


def test_trust_is_the_same_after_saving(fitted, tmp_path):
    fitted.save(tmp_path / "trust.json")
    again = Policy.load(tmp_path / "trust.json")
    scored = world(images=60, seed=3)
    before = fitted.judge(scored.similarity, bank=scored.background)
    after = again.judge(scored.similarity, bank=scored.background)
    np.testing.assert_array_equal(before.probability, after.probability)
    assert before.verdicts == after.verdicts


def test_another_model_is_refused(fitted):
    scored = world(images=60)
    with pytest.raises(WrongTrust) as caught:
        fitted.judge(scored.similarity, bank=scored.background, model="xyz")
    assert str(caught.value) == (
        "The policy was fitted for model 'abc', used for 'xyz'. Expected the model it was "
        "fitted with; calibrate with `avow calibrate`, or fit another with `avow.fit_policy`."
    )


def test_another_style_or_size_is_doubted(fitted):
    scored = world(images=5, seed=4)
    found = fitted.judge(scored.similarity, bank=scored.background, style="object name")
    assert found.doubts == [
        "fitted for style 'caption', used for 'object name'",
        "fitted on galleries of 50 to 400, used on one of 5",
    ]


def test_a_missing_bank_is_named(fitted):
    with pytest.raises(WrongTrust, match="Expected the same bank of reference queries"):
        fitted.judge(world(images=60).similarity)


def test_any_similarity_will_do():
    """One plain matrix of somebody's model and the positions of the right candidates."""
    scored = world(images=300, seed=5, views=1)
    owner = scored.match.argmax(1)
    trust = avow.fit_policy(scored.similarity[0], owner, sizes=(50, 100))
    found = trust.judge(world(images=300, seed=6, views=1).similarity[0])
    right = np.take_along_axis(scored.match, found.candidates[:, :1], 1)[:, 0]
    assert found.trust.shape == right.shape
    assert found.trust.min() >= 0 and found.trust.max() <= 1


@pytest.mark.parametrize(
    ("similarity", "matches", "message"),
    [
        (np.zeros(3), np.zeros(3, int), "The similarity has shape (3,)."),
        (np.full((2, 3), np.nan), np.zeros(2, int), "The similarity holds NaN"),
        (np.zeros((2, 3)), np.array([0, 3]), "The matches have shape (2,)"),
        (np.zeros((2, 3)), np.zeros((3, 2), bool), "The matches have shape (3, 2)"),
    ],
)
def test_what_does_not_fit_is_named(similarity, matches, message):
    with pytest.raises(BadData) as caught:
        fit_policy(similarity, matches)
    assert str(caught.value).startswith(message)


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "trust.json").write_text("{}")
    with pytest.raises(WrongTrust, match="cannot be read"):
        Policy.load(tmp_path / "trust.json")


def test_hits_of_a_subset_of_queries():
    scored = world()
    whole, part = collect_hits(scored), collect_hits(scored, np.array([5, 9]))
    np.testing.assert_allclose(part.features, whole.features[[5, 9]], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(part.right, whole.right[[5, 9]])


def best_of(asked, k, sample):
    """What an engine would give of a gallery whose rows are known."""
    order = top_positions(asked.together, k)
    best = np.take_along_axis(asked.similarity, order[None], -1)
    left = ~(sample[None, :, None] == order[:, None, :]).any(-1)
    return summarise_best(
        best,
        asked.together[:, sample],
        left,
        asked.similarity.shape[-1],
        asked.tau,
        usual_best=hub_statistics(asked.background, order),
        usual_sample=asked.background.of(sample).log_mean.mean(0),
    )


def test_a_probability_is_its_plain_sum(fitted):
    """Every number and its product with the size, centred, scaled and weighed."""
    model = fitted.probability
    features = np.random.default_rng(4).normal(size=(20, len(model.names))).astype(np.float32)
    for sizes in (50, np.arange(20) + 7):
        size = (np.log(np.broadcast_to(sizes, 20)) - 6) / 2
        for row, (told, large) in enumerate(zip(features.astype(float), size, strict=True)):
            wide = [*told, *(told * large), large, large**2]
            parts = zip(wide, model.centre, model.scale, model.weights, strict=True)
            total = model.bias + sum(w * (x - c) / s for x, c, s, w in parts)
            assert model.log_odds(features, sizes)[row] == pytest.approx(total, abs=1e-9)


def test_the_best_and_a_whole_sample_give_the_exact_sight():
    asked = world(images=150, seed=7).asked()
    exact, _ = summarise(asked)
    found = best_of(asked, 40, np.arange(150))
    np.testing.assert_allclose(describe(found), describe(exact), rtol=1e-4, atol=1e-4)


def test_a_sample_is_nearly_as_good(fitted):
    asked = world(images=400, seed=8).asked()
    exact, _ = summarise(asked)
    chosen = torch.randperm(400, generator=torch.Generator().manual_seed(0))[:100].numpy()
    found = best_of(asked, 60, chosen)
    sizes = exact.gallery
    one = predict(fitted.probability, describe(exact)[:, :1], sizes)
    other = predict(fitted.probability, describe(found)[:, :1], sizes)
    assert np.abs(one - other).mean() < 0.02
