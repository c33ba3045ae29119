"""What trust meets seldom: policies of before, lax promises, galleries that all fit."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from samples import refusal
from scipy.stats import binom

from avow.core.errors import BadData
from avow.core.evidence_sum import CAUTION, evidence_sum
from avow.core.places import packaged_folder
from avow.core.queries import QueryBatch
from avow.trust import gallery_sampling
from avow.trust.coherence import one_of_first, one_of_some
from avow.trust.conformal_sets import conformal_limit
from avow.trust.gallery_sampling import ScoredQueries, deal, draw, fit_serving
from avow.trust.policy import Policy
from avow.trust.probability import COMMON, LOG_WORDS, ONE_WORD, of_query
from avow.trust.risk_control import fewest_answers, promise, promise_on_average
from avow.trust.top_k import PLAIN, describe, summarise, summarise_best

FIXTURES = Path(__file__).parent / "fixtures"
SHIPPED = packaged_folder() / "trust-text.json"


def test_a_policy_that_reads_how_common_a_query_is_asks_for_it():
    policy = Policy.load(SHIPPED)
    similarity = np.random.default_rng(0).random((2, 3, 50)).astype(np.float32)
    summary, _ = summarise(QueryBatch(similarity, 0))
    words = np.array([1, 2, 9])
    assert refusal(lambda: policy.features(summary, words), BadData) == (
        "The policy reads how common a query is. Expected `common`, one number per query; "
        "pass what `avow.retrieval.commonness` gives."
    )


READ = """
import sys
from avow.core.errors import WrongTrust
from avow.trust.policy import Policy
for name in sys.argv[1:]:
    try:
        Policy.load(name)
    except WrongTrust as error:
        print(error)
"""
APART = {
    "correct": "stated and true are of different hits",
    "groups": "there is not one group for every query",
    "anything": "there is not one judgement of the first ten for every query",
}
"""Parts of the held-out answers that may have lost a query, and what is said then."""


def test_held_out_answers_that_do_not_go_together_are_told(tmp_path):
    """In a process of its own: here shapes are checked earlier, as tests do."""
    content = json.loads((FIXTURES / "policy-3.json").read_text())
    content.pop("checksum", None)
    for part in APART:
        held = content["held"] | {part: content["held"][part][1:]}
        (tmp_path / part).write_text(json.dumps(content | {"held": held}))
    files = [str(tmp_path / part) for part in APART]
    done = subprocess.run([sys.executable, "-c", READ, *files], capture_output=True, text=True)
    for told, why in zip(done.stdout.splitlines(), APART.values(), strict=True):
        assert f"cannot be read ({why}). Expected a file written by" in told


@pytest.mark.parametrize("one_word", [False, True])
def test_a_query_is_described_as_the_policy_was_fitted(one_word):
    """Those of before have no column for a single word."""
    rng = np.random.default_rng(1)
    features = rng.random((4, 3, 2)).astype(np.float32)
    words, common = np.array([1, 2, 1, 7]), rng.random(4).astype(np.float32)
    wanted = (COMMON, ONE_WORD) if one_word else (COMMON,)
    names, wide = of_query(("a", "b"), features, words, common, wanted)
    assert (ONE_WORD in names) == one_word and len(names) == wide.shape[2]
    told = dict(zip(names, np.moveaxis(wide, -1, 0), strict=True))
    for query in range(4):
        single = float(words[query] == 1)
        for shown in range(3):
            a = features[query, shown, 0]
            at = {name: values[query, shown] for name, values in told.items()}
            assert at["a"] == a
            assert at[LOG_WORDS] == pytest.approx(np.log1p(words[query]), rel=1e-6)
            assert at[COMMON] == common[query] and at[f"a x {COMMON}"] == a * common[query]
            if one_word:
                assert (at[ONE_WORD], at[f"a x {ONE_WORD}"]) == (single, a * single)
                assert at[f"{COMMON} x {ONE_WORD}"] == common[query] * single


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.85])
def test_a_promise_of_any_confidence_tries_every_threshold(delta):
    """Against binomial tests from the most confident answer on, one after the other."""
    rng = np.random.default_rng(3)
    reached = []
    for rate in (0.01, 0.05, 0.1, 0.13, 0.2):
        confidence, wrong = np.sort(rng.random(200))[::-1], rng.random(200) < rate
        counts = np.arange(1, 201)
        passed = binom.cdf(np.cumsum(wrong), counts, 0.1) <= delta
        begins = int(np.argmax(binom.cdf(0, counts, 0.1) <= delta))
        rest = passed[begins:]
        answered = begins + (len(rest) if rest.all() else int(np.argmin(rest)))
        answered = answered if passed[begins] else 0
        made = promise(confidence, wrong, 0.1, delta, starts=1)
        assert made.answered == answered
        reached.append(answered)
    assert max(reached) > 50


def test_the_limit_of_few_scores_is_the_one_that_counts():
    """(n + 1)(1 - alpha) is a whole number here: one score fewer cannot say it."""
    scores = np.arange(9.0)
    assert conformal_limit(scores, 0.1) == 8.0
    assert conformal_limit(scores[:8], 0.1) == np.inf


def test_a_second_start_is_taken_where_there_are_queries_enough():
    """One early mistake ends a sequence that starts early; the second start gets over it."""
    enough = 20 * fewest_answers(0.1, 0.1)
    made = []
    for count in (enough - 1, enough):
        wrong = np.zeros(count, bool)
        wrong[3] = True
        confidence = np.linspace(1, 0, count)
        made.append(
            [promise(confidence, wrong, 0.1, starts=starts).answered for starts in (None, 1, 2)]
        )
    (few, few_one, few_two), (many, many_one, many_two) = made
    assert few == few_one == 0 < few_two == enough - 1
    assert many == many_two == enough > many_one == 0


def test_no_answers_promise_nothing_even_where_one_would_do():
    nothing = np.zeros(0)
    assert fewest_answers(0.9, 0.2) == 1
    assert promise(np.ones(1), np.zeros(1, bool), 0.9, 0.2).answered == 1
    made = promise(nothing, nothing.astype(bool), 0.9, 0.2)
    assert made.threshold is None and made.reason


def test_what_a_sample_may_have_missed_is_counted_from_its_chance():
    """Constant evidence has no spread: all of the bound is what may lie between, unseen."""
    level, sample, gap = 0.9, 40, 0.02
    top, sampled = np.full((1, 5), 0.5), np.full((1, sample), 0.5 - gap)
    left = np.ones((1, sample), bool)
    told = evidence_sum(top, sampled, left, 10_005, tau=0.05, level=level)
    share = np.exp(-gap / 0.05)
    careful = 1 - CAUTION * (1 - level)
    high = share + (1 - share) * -np.log((1 - careful) / 2) / sample
    best = 5 * np.exp(0.5 / 0.05)
    rest = (np.exp(told.log_high) - best) / (10_000 * np.exp(0.5 / 0.05))
    assert rest[0] == pytest.approx(high, rel=1e-9)


def test_a_list_is_served_by_the_first_right_hit_alone(monkeypatch):
    similarity = np.array([[[0.9, 0.8, 0.7, 0.6], [0.5, 0.9, 0.7, 0.8]]], np.float32)
    match = np.array([[0, 1, 1, 0], [1, 0, 1, 1]], bool)
    seen, fit = [], gallery_sampling.fit_hits

    def watched(event, hits, strengths):
        seen.append(hits.right)
        return fit(event, hits, strengths)

    monkeypatch.setattr(gallery_sampling, "fit_hits", watched)
    fit_serving(ScoredQueries(similarity, match), depth=4)
    assert seen[0].tolist() == [[False, True, False, False], [False, True, False, False]]


# --- galleries --------------------------------------------------------------------------------


def scored(match: np.ndarray) -> ScoredQueries:
    similarity = np.random.default_rng(0).random((1, *match.shape)).astype(np.float32)
    return ScoredQueries(similarity, match)


def test_where_everything_fits_no_gallery_is_without_a_match():
    everything = scored(np.ones((4, 40), bool))
    assert draw(everything, 10) is not None
    assert draw(everything, 10, absent=True) is None


def test_a_query_asks_where_one_of_its_matches_is_and_nowhere_without_any():
    """ "a dog" and "a man" tie all pictures together, so they are dealt one by one."""
    match = np.random.default_rng(2).random((30, 40)) < 0.3
    match[5] = False
    asks: list[int] = []
    for queries, candidates in deal(scored(match), 10, seed=0):
        assert len(candidates) == 10
        assert match[np.ix_(queries, candidates)].any(1).all()
        asks += queries.tolist()
    assert sorted(asks) == [number for number in range(30) if number != 5]


def test_each_direction_is_judged_by_the_view_that_learnt_it():
    for views, text in ((1, 0), (2, 1), (3, 1)):
        both = ScoredQueries.both(np.zeros((views, 3, 6), np.float32), np.arange(6) // 2)
        assert (both["text"].own, both["image"].own) == (text, 0)
        assert both["text"].match.tolist() == both["image"].match.T.tolist()


# --- summaries --------------------------------------------------------------------------------


def test_the_only_candidate_has_no_lead():
    summary, _ = summarise(QueryBatch(np.full((2, 3, 1), 0.4, np.float32), 0))
    told = dict(zip(PLAIN, np.moveaxis(describe(summary), -1, 0), strict=True))
    for name in ("lead", "clear", "log rank", "split"):
        assert (told[name] == 0).all()
    assert (told["agreed"] == 1).all()


@pytest.mark.parametrize("shown", [2, 5, 6, 7, 12])
def test_a_hit_is_clear_of_the_first_five_others(shown):
    similarity = np.random.default_rng(4).random((1, 3, 30)).astype(np.float32)
    summary, order = summarise(QueryBatch(similarity, 0), shown)
    clear = describe(summary)[..., PLAIN.index("clear")]
    for query in range(3):
        scores = similarity[0, query, order[query]]
        for place in range(shown):
            others = [score for at, score in enumerate(scores) if at != place][:5]
            assert clear[query, place] == pytest.approx(
                scores[place] - np.mean(others), abs=1e-5
            )


def test_what_is_usual_for_the_sample_alone_changes_nothing():
    rng = np.random.default_rng(5)
    sampled = np.sort(rng.random((3, 40)).astype(np.float32))[:, ::-1]
    best, left = sampled[None, :, :10], np.arange(40)[None].repeat(3, 0) >= 10
    plain = summarise_best(best, sampled, left, 40)
    half = summarise_best(best, sampled, left, 40, usual_sample=np.zeros(40, np.float32))
    assert plain.names == half.names == PLAIN
    np.testing.assert_array_equal(describe(half), describe(plain))
    np.testing.assert_allclose(plain.log_sum, np.log(np.exp(sampled / 0.05).sum(1)), rtol=1e-5)


def test_some_hits_are_no_more_probable_than_anything_and_no_less_than_the_best():
    some = np.array([0.2, 0.5])
    for anything, wanted in ((1.0, 0.6), (0.55, 0.55), (0.3, 0.5)):
        assert one_of_some(some, 1.0, anything) == pytest.approx(wanted)


def test_hits_that_exclude_each_other_are_at_most_certain():
    found = one_of_first(np.array([[0.8, 0.7]]), np.array([2.0]))
    assert found == pytest.approx(np.array([[0.8, 1.0]]))


def test_a_promise_on_average_may_be_of_the_first_answer_alone():
    """Of four queries one wrong answer is bearable at 2/5: the second mistake is too much."""
    confidence = np.array([0.9, 0.8, 0.7, 0.6])
    made = promise_on_average(confidence, np.array([True, True, False, False]), 0.4)
    assert (made.threshold, made.answered, made.wrong) == (0.9, 1, 1)
    none = promise_on_average(confidence, np.array([True, True, False, False]), 0.3)
    assert (none.threshold, none.answered, none.wrong) == (None, 0, 0)


def test_a_promise_holds_where_chance_and_level_are_equal():
    made = promise(np.array([0.9]), np.array([False]), 0.5, 0.5, starts=1)
    assert (made.threshold, made.answered) == (0.9, 1)


def test_queries_that_are_told_to_be_the_same_are_one_group():
    match = np.eye(3, dtype=bool)
    same = np.array([0, 0, 1])
    scored = ScoredQueries(np.zeros((1, 3, 3), np.float32), match, 0, same=same)
    assert scored.groups.tolist() == [0, 0, 1]
    assert scored.queries(np.array([1, 2])).groups.tolist() == [0, 1]
