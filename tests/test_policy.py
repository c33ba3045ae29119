"""When to answer, to check, to say "nothing found": planted truths come back."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from avow.core.background import Background
from avow.core.contracts import QueryBatch
from avow.core.errors import BadData, WrongTrust
from avow.retrieval.status import cost
from avow.trust.calibration_queries import (
    NOTHING_THERE,
    CalibrationQueries,
    nothing_for_some,
)
from avow.trust.fitting import fit_search_policy
from avow.trust.gallery_sampling import Hits, ScoredQueries
from avow.trust.held_out import ANSWERED, RISKS, USUAL
from avow.trust.policy import MAX_FALSE_REFUSALS, Policy
from avow.trust.risk_control import promise
from avow.trust.top_k import summarise

DIM, TAU = 24, 0.05


def world(seed: int, pictures: int = 400, noise: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of pictures, and of one text for each that says it more or less well."""
    draw = torch.Generator().manual_seed(seed)
    images = torch.nn.functional.normalize(torch.randn(pictures, DIM, generator=draw), dim=1)
    blur = noise * torch.rand(pictures, 1, generator=draw)
    texts = images + blur * torch.randn(pictures, DIM, generator=draw) / DIM**0.5 * 2
    return images.numpy(), torch.nn.functional.normalize(texts, dim=1).numpy()


def bank() -> np.ndarray:
    return world(99)[1]


def scored(seed: int, matched: bool = True, pictures: int = 400) -> ScoredQueries:
    images, texts = world(seed, pictures)
    usual = Background.from_scores([(bank() @ images.T)[None]], TAU)
    if not matched:
        texts = world(seed + 1000, pictures)[1]
    match = np.eye(len(images), dtype=bool) & matched
    return ScoredQueries((texts @ images.T)[None], match, 0, TAU, "exp", usual)


def asking(seed: int, matched: bool = True, pictures: int = 400) -> CalibrationQueries:
    words = np.full(pictures, 9)
    return CalibrationQueries("caption", scored(seed, matched, pictures), words)


@pytest.fixture(scope="module")
def policy() -> Policy:
    askings = [asking(1), asking(2), asking(3, matched=False)]
    return fit_search_policy(askings, model="one", style="text")


def judged(policy: Policy, one: ScoredQueries, **options):
    summary, order = summarise(QueryBatch(one.similarity, 0, TAU, "exp", one.background))
    words = np.full(one.match.shape[0], 9)
    ruling = policy.judge(summary, words, model="one", style="text", **options)
    shown = np.take_along_axis(order, ruling.order, 1)
    right = np.take_along_axis(one.match, shown, 1)
    return ruling, right


def test_probabilities_come_true(policy):
    """Of queries of which as many have nothing to find as when it was fitted."""
    first, right, confidence, any_right = [], [], [], []
    without = round(800 * NOTHING_THERE / (1 - NOTHING_THERE))
    for seed, matched, kept in ((11, True, 400), (12, True, 400), (13, False, without)):
        ruling, found = judged(policy, scored(seed, matched))
        first.append(ruling.probability[:kept, 0])
        right.append(found[:kept, 0])
        confidence.append(ruling.confidence[:kept])
        any_right.append(found[:kept].any(1))
    stated, true = np.concatenate(first), np.concatenate(right)
    for low, high in ((0.0, 0.2), (0.2, 0.6), (0.6, 0.9), (0.9, 1.0)):
        inside = (stated >= low) & (stated < high)
        assert abs(stated[inside].mean() - true[inside].mean()) < 0.1
    assert abs(np.concatenate(confidence).mean() - np.concatenate(any_right).mean()) < 0.06


def test_the_most_probable_come_first(policy):
    """And finding is no worse than by similarity: these pictures have no hubs to gain from."""
    by_probability, by_similarity = [], []
    for seed in range(18, 24):
        ruling, right = judged(policy, scored(seed))
        assert (np.diff(ruling.probability, axis=1) <= 0).all()
        by_probability.append(right[:, 0].mean())
        by_similarity.append((scored(seed).similarity[0].argmax(1) == np.arange(400)).mean())
    assert np.mean(by_probability) > np.mean(by_similarity) - 0.005


def test_the_promise_holds_on_new_queries(policy):
    for risk in (0.05, 0.2):
        wrong = []
        for seed in range(20, 26):
            ruling, right = judged(policy, scored(seed), risk=risk)
            answered = np.array([verdict == "answer" for verdict in ruling.verdicts])
            wrong += (~right[answered].any(1)).tolist()
        assert len(wrong) > 300
        assert np.mean(wrong) < risk + 0.03


def test_a_stricter_risk_answers_less(policy):
    counts = [
        sum(v == "answer" for v in judged(policy, scored(12), risk=risk)[0].verdicts)
        for risk in (0.01, 0.1, 0.3)
    ]
    assert counts[0] <= counts[1] <= counts[2] and counts[0] < counts[2]


def test_what_is_not_there_is_refused(policy):
    """Within the share of false refusals that was asked for, which leaves the rest to check."""
    missing, withheld, answered = [], [], []
    for seed in (13, 14, 15):
        ruling, _ = judged(policy, scored(seed, matched=False))
        missing += [verdict == "nothing found" for verdict in ruling.verdicts]
        answered += [verdict == "answer" for verdict in ruling.verdicts]
        there, right = judged(policy, scored(seed))
        pairs = zip(there.verdicts, right.any(1), strict=True)
        withheld += [verdict == "nothing found" for verdict, yes in pairs if yes]
    assert np.mean(withheld) < MAX_FALSE_REFUSALS + 0.02
    assert np.mean(missing) > 0.15 and np.mean(missing) > 5 * np.mean(withheld)
    assert np.mean(answered) < 0.15


def test_what_is_more_likely_wrong_is_never_an_answer(policy):
    """At any risk: the number and the verdict of one query would contradict each other."""
    for risk in RISKS:
        ruling, _ = judged(policy, scored(16), risk=risk)
        likely = [
            p
            for p, said in zip(ruling.present, ruling.verdicts, strict=True)
            if said == "answer"
        ]
        assert min(likely, default=1.0) >= 0.5
    assert (ruling.present < 0.5).any() and likely


def test_how_a_promise_went_in_galleries_of_one_size(policy):
    """Against a plain loop over the held-out queries; nothing is said of other sizes."""
    held = policy.held
    assert held is not None and held.sizes is not None and held.anything is not None
    coverage = set()
    for size in (25, 100, 400):
        threshold = policy.promised(0.2, size=size).threshold or 9.0
        found = cost(policy, "questions", 0.2, size)
        near, answered, wrong, sizes = 0, 0, 0, set()
        for other, sure, right in zip(held.sizes, held.anything, held.correct, strict=True):
            if size / 2 <= other <= size * 2:
                sizes.add(int(other))
                near += 1
                answered += sure >= threshold
                wrong += sure >= threshold and not right.any()
        assert (found.coverage, found.wrong) == (answered / near, wrong / answered)
        assert f"over {min(sizes):,} to {max(sizes):,} pictures" in found.says
        coverage.add(found.coverage)
    assert len(coverage) == 3
    assert all(cost(policy, "questions", 0.2, size).wrong is None for size in (5, 10_000))


@pytest.fixture(scope="module")
def of_two_kinds(policy) -> Policy:
    """Every second held-out query is a name; of equally sure descriptions more are wrong."""
    held = policy.held
    rows = np.arange(len(held.groups))
    words = np.where(rows % 2, 1, 9)
    unlucky = (words == 9) & (np.random.default_rng(1).random(len(rows)) < 0.15)
    correct = held.correct & ~unlucky[:, None]
    return replace(policy, held=replace(held, correct=correct, words=words))


def test_names_and_descriptions_have_promises_of_their_own(of_two_kinds):
    """Each as if there were no others; one promise about both is broken for descriptions."""
    policy, held = of_two_kinds, of_two_kinds.held
    assert policy.kinds == ("names", "descriptions") == tuple(policy.usual_risks)
    assert policy.usual_risks["names"] < policy.usual_risks["descriptions"]
    wrong = ~held.correct.any(1)
    for kind, some in (("names", held.words <= 2), ("descriptions", held.words > 2)):
        some = some & (held.anything >= 0.5)
        about = held.anything[some], wrong[some], 0.2, 0.1
        alone = promise(*about, groups=held.groups[some], starts=3)
        assert policy.promised(0.2, asked=kind).threshold == alone.threshold is not None
    both = policy.promised(0.2)
    answered = (held.words > 2) & both.answers(held.anything)
    assert wrong[answered].mean() > 0.2
    own = policy.promised(0.2, asked="descriptions")
    answered = (held.words > 2) & own.answers(held.anything)
    assert wrong[answered].mean() < 0.2


def test_a_batch_of_both_kinds_is_judged_as_each_alone(of_two_kinds):
    one = scored(31)
    summary, _ = summarise(QueryBatch(one.similarity, 0, TAU, "exp", one.background))
    words = np.where(np.arange(len(one.match)) % 3, 9, 1)
    for risk in (None, 0.2):
        both = of_two_kinds.judge(summary, words, model="one", risk=risk)
        confidence = both.present
        for place, count in enumerate(words.tolist()):
            kind = "names" if count == 1 else "descriptions"
            wanted = of_two_kinds.usual_risks[kind] if risk is None else risk
            promised = of_two_kinds.promised(wanted, size=len(one.match), asked=kind)
            assert both.promises[place] == promised == both.of(place).promises[0]
            if both.verdicts[place] != "nothing found":
                sure = bool(promised.answers(confidence[place : place + 1])[0])
                assert both.verdicts[place] == ("answer" if sure else "check")
        assert "answer" in both.verdicts and "check" in both.verdicts


def test_something_is_missing_as_often_in_small_galleries_as_in_large_ones():
    """Queries that lack it already count; where they are more than the share, none is added."""
    sizes = np.repeat([50, 150, 800, 1500], 100)
    missing = np.arange(400) % 10 < np.where(sizes > 200, 4, 1)  # 40 % and 10 %
    right = np.repeat(~missing[:, None], 3, 1)
    number = np.arange(400)
    there = Hits(("log words",), np.zeros((400, 3, 1)), right, sizes, number, number)
    nothing = replace(there, right=right & False, queries=number + 1000)
    both = nothing_for_some(there, nothing, 0.25)
    small = both.gallery <= 200
    assert (~both.right[small].any(1)).mean() == 0.25
    assert (~both.right[~small].any(1)).mean() == 0.4
    assert len(both.gallery) == 400 + (both.queries >= 1000).sum() == 400 + 60 - 20
    assert {*both.queries[both.queries < 1000].tolist()} == {*range(400)}


def test_few_queries_of_a_kind_make_no_promise_of_their_own(of_two_kinds, policy):
    held = of_two_kinds.held
    few = np.where(np.arange(len(held.groups)) < 300, 1, 9)
    assert replace(policy, held=replace(held, words=few)).kinds == ("questions",)
    assert policy.kinds == ("questions",)  # descriptions alone
    assert replace(policy, held=replace(held, words=None)).kinds == ("questions",)


def test_the_usual_risk_answers_enough_and_no_lower_one_does(policy):
    (usual,) = policy.usual_risks.values()
    assert policy.promised(usual, 10).coverage >= ANSWERED["questions"]
    lower = [policy.promised(risk, 10).coverage for risk in RISKS if risk < usual]
    assert lower and max(lower) < ANSWERED["questions"]


def test_what_is_often_wrong_is_no_answer_unless_somebody_wants_it(policy):
    """A network that hardly learnt has a usual risk, too, and it is not half."""
    held = policy.held
    luck = np.random.default_rng(0).random(len(held.groups)) < 0.6
    correct = np.repeat(luck[:, None], held.correct.shape[1], 1)
    unsure = replace(policy, held=replace(held, correct=correct))
    assert unsure.usual_risks == {"questions": USUAL[-1]} and USUAL[-1] == 0.25
    assert unsure.promised(USUAL[-1], 10).coverage < 0.1 < 0.5 < unsure.promised(0.5).coverage
    found, _ = judged(unsure, scored(9))
    assert "answer" not in found.verdicts and "check" in found.verdicts
    wanted, _ = judged(unsure, scored(9), risk=0.5)
    assert "answer" in wanted.verdicts


def test_fewer_shown_are_trusted_less(policy):
    ten, _ = judged(policy, scored(14))
    one, _ = judged(policy, scored(14), shown=1)
    assert (one.confidence.mean()) < ten.confidence.mean()
    np.testing.assert_allclose(one.probability[:, 0], ten.probability[:, 0], atol=1e-6)


def test_a_policy_of_a_small_gallery_judges_a_larger_one():
    """Fitted where six items could be shown, used where ten can."""

    def few(seed: int) -> CalibrationQueries:
        whole = scored(seed)
        usual = whole.background
        assert usual is not None
        chosen = np.arange(6)
        part = ScoredQueries(
            whole.similarity[:, :, :6], whole.match[:, :6], 0, TAU, "exp", usual.of(chosen)
        )
        matched = np.arange(6)
        return CalibrationQueries(
            "caption", part.queries(np.tile(matched, 20)), np.full(120, 9)
        )

    small = fit_search_policy([few(seed) for seed in range(1, 9)], sizes=())
    assert len(small.answer) < 10
    summary, _ = summarise(
        QueryBatch(scored(19).similarity, 0, TAU, "exp", scored(19).background)
    )
    ruling = small.judge(summary, np.full(400, 9), risk=0.5)
    assert ruling.probability.shape == (400, 10) and np.isfinite(ruling.confidence).all()


def test_a_saved_policy_says_the_same(policy, tmp_path):
    policy.save(tmp_path / "trust.json")
    again = Policy.load(tmp_path / "trust.json")
    ours, _ = judged(policy, scored(15), risk=0.1)
    theirs, _ = judged(again, scored(15), risk=0.1)
    np.testing.assert_allclose(ours.probability, theirs.probability)
    assert ours.verdicts == theirs.verdicts
    assert again.usual_risks == policy.usual_risks
    assert policy.tail is not None and policy.spread > 1
    assert (again.anything, again.tail) == (policy.anything, policy.tail)
    assert again.spread == policy.spread


def test_another_model_is_refused(policy):
    summary, _ = summarise(
        QueryBatch(scored(16).similarity, 0, TAU, "exp", scored(16).background)
    )
    with pytest.raises(WrongTrust) as caught:
        policy.judge(summary, np.full(400, 9), model="two")
    assert str(caught.value) == (
        "The policy was fitted for model 'one', used for 'two'. Expected the model it was "
        "fitted with; calibrate with `avow calibrate`, or fit another with `avow.fit_policy`."
    )


def test_a_search_without_the_bank_is_refused(policy):
    summary, _ = summarise(QueryBatch(scored(16).similarity, 0, TAU))
    with pytest.raises(WrongTrust, match="reads 47 numbers per hit and the search gives 19"):
        policy.judge(summary, np.full(400, 9))


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "trust.json").write_text('{"format": 1}')
    with pytest.raises(WrongTrust, match="cannot be read \\('held'\\)"):
        Policy.load(tmp_path / "trust.json")


def test_a_strange_query_is_noticed(policy):
    usual, _ = judged(policy, scored(17))
    odd = scored(17)
    strange = ScoredQueries(odd.similarity * 0 + 0.99, odd.match, 0, TAU, "exp", odd.background)
    unlike, _ = judged(policy, strange)
    assert usual.odd is not None and unlike.odd is not None
    assert np.mean([Policy.is_odd(x) for x in usual.odd]) < 0.05
    assert all(Policy.is_odd(x) for x in unlike.odd)


def test_queries_without_anything_relevant_teach_nothing():
    with pytest.raises(BadData, match="No query has a relevant item"):
        fit_search_policy([asking(3, matched=False)])


def test_how_common_a_query_is_is_asked_for_where_it_is_read():
    common = np.random.default_rng(0).normal(size=100)
    askings = [replace(asking(seed, pictures=100), common=common) for seed in (1, 2)]
    known = fit_search_policy(askings, model="one", style="text")
    one = scored(18, pictures=100)
    summary, _ = summarise(QueryBatch(one.similarity, 0, TAU, "exp", one.background))
    words = np.full(100, 9)
    with pytest.raises(BadData, match="reads how common a query is"):
        known.judge(summary, words, model="one")
    judged = known.judge(summary, words, common=common, model="one")
    assert judged.probability.shape == (100, 10)


def test_a_promise_was_kept_in_galleries_of_this_size_too(policy):
    """The laxest threshold of all sizes or above it whose answers there kept it; by a loop."""
    held = policy.held
    assert held is not None and held.sizes is not None and held.anything is not None
    wrong, stricter = ~held.correct.any(1), 0
    for risk in (0.02, 0.05, 0.1, 0.2):
        for size in (25, 100, 400):
            every, here = policy.promised(risk), policy.promised(risk, size=size)
            if every.threshold is None:
                assert here.threshold is None
                continue
            near = (held.sizes >= size / 2) & (held.sizes <= 2 * size)
            kept = []
            for threshold in [every.threshold, *held.anything[near]]:
                answered = near & (held.anything >= threshold)
                if threshold >= every.threshold and wrong[answered].mean() <= risk:
                    kept.append(threshold)
            assert here.threshold == min(kept, default=None)
            stricter += here.threshold != every.threshold
        assert policy.promised(risk, size=7) == policy.promised(risk, size=900)
    assert stricter
