"""The level of a name: learnt from vectors, of no use to the name itself, read by a policy."""

import json
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
from samples import refusal
from test_other_shares import ITEMS, NAMES, TAU, absent

from avow.core.background import Background
from avow.core.errors import BadData, WrongTrust
from avow.metrics.rejection import auroc
from avow.trust.calibration_queries import COMMON, CalibrationQueries, without_relevant
from avow.trust.coherence import ABOVE, BEHIND, Number
from avow.trust.counting import behind
from avow.trust.drawn_hits import NAMES as ENOUGH
from avow.trust.drawn_hits import RARE, DrawnHits, crossed_levels, known_levels, with_levels
from avow.trust.fitting import fit_search_policy, judge_again
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.level import Level
from avow.trust.policy import Policy
from avow.trust.probability import named
from avow.trust.top_k import summarise

DIM, SIZES = 6, (20, 100)
TELLS = np.random.default_rng(7).normal(size=DIM)
"""Along which a vector tells the level of its query."""


def usual() -> Background:
    scores = TAU * np.random.default_rng(0).normal(0, 1.3, (1, 200, ITEMS))
    return Background.from_scores([scores.astype(np.float32)], TAU)


def read(asking: CalibrationQueries, level: np.ndarray, prefix: str) -> CalibrationQueries:
    """The queries with texts, a background, and vectors that tell their levels."""
    rng = np.random.default_rng(len(prefix))
    vectors = rng.normal(size=(len(level), DIM))
    vectors += np.outer(level - vectors @ TELLS, TELLS) / (TELLS @ TELLS)
    return replace(
        asking,
        scored=replace(asking.scored, background=usual()),
        texts=[f"{prefix} {number}" for number in range(len(level))],
        vectors=vectors.astype(np.float32),
    )


def names(seed: int) -> CalibrationQueries:
    """Names that stand out by levels between 1 and 7, as similar things do by a little less."""
    rng = np.random.default_rng(seed)
    match = rng.random((NAMES, ITEMS)) < 0.03
    match[:, :3] |= np.logical_not(match.any(axis=1, keepdims=True))
    level = rng.uniform(1.0, 7.0, NAMES)
    similar = rng.random((NAMES, ITEMS)) < 0.05
    middle = np.where(match, level[:, None], np.where(similar, level[:, None] - 1.5, -3))
    evidence = rng.normal(middle, 0.5)
    scored = ScoredQueries((TAU * evidence[None]).astype(np.float32), match, 0, TAU)
    common = rng.normal(-6, 1, NAMES)
    asking = CalibrationQueries("name", scored, np.ones(NAMES, int), common, complete=True)
    return read(asking, level, f"name of {seed}")


def captions(seed: int) -> CalibrationQueries:
    rng = np.random.default_rng(seed)
    match = np.arange(NAMES)[:, None] == rng.permutation(ITEMS)[None]
    evidence = rng.normal(0, 1.3, match.shape) + np.where(match, 4.0, 0.0)
    scored = ScoredQueries((TAU * evidence[None]).astype(np.float32), match, 0, TAU)
    asking = CalibrationQueries("caption", scored, np.full(NAMES, 9), rng.normal(-8, 1, NAMES))
    return read(asking, np.zeros(NAMES), f"caption of {seed}")


def nowhere(seed: int) -> CalibrationQueries:
    return read(absent(seed), np.zeros(NAMES), f"absent of {seed}")


@pytest.fixture(scope="module")
def kinds() -> list[CalibrationQueries]:
    return [names(2), captions(5), nowhere(3)]


@pytest.fixture(scope="module")
def taught(kinds) -> Policy:
    return fit_search_policy(kinds, sizes=SIZES)


def test_a_level_is_learnt_from_vectors(kinds):
    known = known_levels(kinds)
    level, asked = with_levels(kinds, 0)
    assert level is not None and len(known) == NAMES
    other = names(11)
    true = known_levels([other])
    assert other.vectors is not None
    assert np.corrcoef(level(other.vectors), [true[text] for text in other.texts])[0, 1] > 0.9
    assert all(one.level is not None and len(one.level) == NAMES for one in asked)


def test_no_name_learns_from_itself():
    """Where vectors tell nothing, names that saw their own level would seem to know it."""
    rng = np.random.default_rng(0)
    texts, vectors = [f"name {n}" for n in range(90)], rng.normal(size=(90, 60))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) / 8
    true = rng.normal(size=90)
    twice = [*texts, *texts]
    known = dict(zip(texts, true.tolist(), strict=True))
    level, crossed = crossed_levels(twice, np.concatenate([vectors] * 2), known, 0)
    np.testing.assert_allclose(crossed[:90], crossed[90:], atol=1e-12)
    assert np.corrcoef(level(vectors), true)[0, 1] > 0.7
    assert np.corrcoef(crossed[:90], true)[0, 1] < 0.3


def test_nothing_is_learnt_from_few_names_or_without_vectors(kinds):
    some = kinds[0].only(np.arange(ENOUGH - 1))
    for askings in ([some, kinds[2]], [replace(kinds[0], vectors=None), kinds[2]]):
        assert with_levels(askings, 0) == (None, askings)


def told_apart(policy: Policy) -> float:
    """AUROC of "it is there" over names as they are, and with items taken away."""
    asking = names(8)
    sides = []
    for one in (asking, without_relevant(asking, seed=5)):
        summary, _ = summarise(one.scored.asked())
        judged = policy.judge(summary, one.words, common=one.common, vectors=one.vectors)
        sides.append(judged.present)
    return auroc(*sides)


def test_the_level_tells_what_is_absent(kinds, taught):
    plain = fit_search_policy([replace(one, vectors=None) for one in kinds], sizes=SIZES)
    assert plain.level is None
    assert told_apart(taught) > told_apart(plain) + 0.015


def counted(policy: Policy, asking: CalibrationQueries) -> Number:
    summary, order = summarise(asking.scored.asked())
    reading = policy.read(summary, asking.words, asking.common, asking.vectors)
    number = policy.number(reading, behind(asking.scored, order))
    assert number is not None
    return number


def test_how_many_there_are_is_read_from_the_level(kinds, taught):
    plain = fit_search_policy([replace(one, vectors=None) for one in kinds], sizes=SIZES)
    assert plain.tail is not None and plain.tail.names == BEHIND
    assert taught.tail is not None and taught.tail.names == (*BEHIND, ABOVE)
    asking = names(8)
    summary, order = summarise(asking.scored.asked())
    reading = taught.read(summary, asking.words, asking.common, asking.vectors)
    assert reading.level is not None and summary.relative is not None
    np.testing.assert_allclose(reading.above, summary.relative[:, -1] - reading.level)
    others = behind(asking.scored, order)
    read = taught.number(reading, others)
    higher = taught.number(replace(reading, level=reading.level + 1), others)
    assert read is not None and higher is not None
    assert (read.expected != higher.expected).mean() > 0.5


def test_the_level_of_a_longer_query_changes_no_number(taught):
    asking = captions(6)
    assert asking.vectors is not None
    other = replace(asking, vectors=3 * asking.vectors)
    one, same = counted(taught, asking), counted(taught, other)
    np.testing.assert_array_equal(one.expected, same.expected)


def test_it_is_kept_and_asked_for(taught, tmp_path):
    path = tmp_path / "policy.json"
    taught.save(path)
    again = Policy.load(path)
    assert again.level == taught.level and json.loads(path.read_text())["format"] == 8
    asking = names(8)
    summary, _ = summarise(asking.scored.asked())
    one, other = (
        policy.judge(summary, asking.words, common=asking.common, vectors=asking.vectors)
        for policy in (taught, again)
    )
    np.testing.assert_array_equal(one.present, other.present)
    np.testing.assert_array_equal(
        counted(taught, asking).expected, counted(again, asking).expected
    )
    message = refusal(lambda: again.judge(summary, asking.words, common=asking.common), BadData)
    assert message == (
        "The policy reads the vectors of queries. Expected `vectors`, one for every query; "
        "pass what the model gives."
    )


def test_vectors_of_another_model_are_told(taught):
    asking = names(8)
    assert asking.vectors is not None
    summary, _ = summarise(asking.scored.asked())
    words, common, vectors = asking.words, asking.common, asking.vectors[:, 1:]
    message = refusal(
        lambda: taught.judge(summary, words, common=common, vectors=vectors), BadData
    )
    assert message == (
        f"The vectors have {DIM - 1} numbers each. Expected {DIM}, as of the model that the "
        "policy was fitted for; pass that model's vectors."
    )


def test_a_file_with_half_of_it_is_refused(taught, tmp_path):
    path = tmp_path / "policy.json"
    for part in ({"level": None}, {"anything_named": None}):
        replace(taught, **part).save(path)
        with pytest.raises(WrongTrust, match="do not go together"):
            Policy.load(path)
    for part in ({"level": None, "anything_named": None}, {"tail": taught.anything}):
        replace(taught, **part).save(path)
        with pytest.raises(WrongTrust, match="columns that are not known here"):
            Policy.load(path)
    with pytest.raises(ValueError, match="finite"):
        Level((1.0, float("nan")), 0.0)


def test_longer_queries_do_not_hang_on_it(taught):
    asking = captions(6)
    assert asking.vectors is not None
    summary, _ = summarise(asking.scored.asked())
    stated = [
        taught.judge(summary, asking.words, common=asking.common, vectors=vectors).present
        for vectors in (asking.vectors, 3 * asking.vectors)
    ]
    np.testing.assert_array_equal(*stated)


def test_rare_names_and_those_over_further_items_teach_and_are_not_held_out(kinds):
    drawn = {
        style: DrawnHits.of([*kinds, replace(names(4), style=style)], SIZES, 0, 0)
        for style in (RARE, COMMON, "name")
    }
    fitted, held = (
        {style: set(part(one).groups // 10_000_000) for style, one in drawn.items()}
        for part in (attrgetter("fitted"), attrgetter("held"))
    )
    # the fourth kind: its halves are 6 and 7
    assert all(6 in halves for halves in fitted.values())
    assert [7 in held[style] for style in (RARE, COMMON, "name")] == [False, False, True]
    for style in (COMMON, "name"):  # all labels are complete: names of both kinds are taken
        assert len(drawn[style].common[0]) == 2
    assert [len(drawn[style].common[1]) for style in (COMMON, "name")] == [1, 2]
    assert len(drawn[COMMON].unseen) < len(drawn["name"].unseen)
    assert len(known_levels([replace(names(4), style=RARE)])) == 0
    assert len(known_levels([replace(names(4), style=COMMON)])) == NAMES


def test_the_first_ten_are_judged_again_by_other_queries(kinds, taught):
    """What is stated of hits stays; the same queries give the same policy, again and again."""
    same = judge_again(taught, kinds, sizes=SIZES)
    for part in ("probability", "anything", "anything_named", "level", "refuse", "spread"):
        assert getattr(same, part) == getattr(taught, part), part
    assert same.held is not None and taught.held is not None
    np.testing.assert_array_equal(same.held.anything, taught.held.anything)
    more = judge_again(taught, [*kinds, names(4)], sizes=SIZES)
    assert more.probability == taught.probability
    assert more.level != taught.level and more.anything_named != taught.anything_named
    described = judge_again(taught, [*kinds, captions(9)], sizes=SIZES)
    assert described.probability == taught.probability
    assert described.anything != taught.anything


def test_captions_are_judged_by_what_captions_taught(kinds, taught):
    learnt = DrawnHits.of(kinds, SIZES, 0, 0).learnt
    of_names = named(learnt.first, learnt.names)
    assert of_names.any() and taught.anything.hits == np.count_nonzero(~of_names)
