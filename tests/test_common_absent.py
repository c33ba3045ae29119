"""Names that are absent though their words are common: taught, and told apart."""

from dataclasses import replace

import numpy as np
import pytest
from test_other_shares import ITEMS, NAMES, TAU, absent, names

from avow.metrics.rejection import auroc
from avow.trust import fitting
from avow.trust.calibration_queries import (
    SMALL,
    SMALLEST,
    WITHOUT,
    CalibrationQueries,
    halved_queries,
    halves_without,
    in_other_shares,
    without_own,
    without_relevant,
)
from avow.trust.drawn_hits import DrawnHits
from avow.trust.fitting import fit_search_policy
from avow.trust.gallery_sampling import SIZES, Hits, ScoredQueries
from avow.trust.policy import Policy
from avow.trust.top_k import summarise


def test_what_is_taken_away_leaves_nothing_relevant():
    asking = replace(names(1), complete=True)
    own = without_relevant(asking, seed=3)
    inside, origin = np.isfinite(own.scored.similarity[0]), own.scored.groups
    assert len(origin) == WITHOUT * NAMES and own.apart and not own.scored.match.any()
    assert not (inside & asking.scored.match[origin]).any()
    size = inside.sum(1)
    assert SMALLEST <= size.min() < 60 and size.max() > 300
    before = asking.scored.similarity[0][origin]
    np.testing.assert_array_equal(own.scored.similarity[0][inside], before[inside])


def test_kinds_whose_labels_are_not_complete_are_not_taken_away():
    """Captions do not say all that a picture shows."""
    kinds = halved_queries([names(1), replace(names(2), complete=True)], 2, 0)[0]
    (both,) = halves_without(kinds, 0)
    complete = kinds[1]
    for half, away in zip(complete, both, strict=True):
        np.testing.assert_array_equal(np.unique(away.scored.groups), np.arange(len(half.words)))


def captions(seed: int) -> CalibrationQueries:
    """Longer queries, with one match each that stands out."""
    rng = np.random.default_rng(seed)
    match = np.arange(NAMES)[:, None] == rng.permutation(ITEMS)[None]
    evidence = rng.normal(0, 1.3, match.shape) + np.where(match, 4.0, 0.0)
    scored = ScoredQueries((TAU * evidence[None]).astype(np.float32), match, 0, TAU)
    return CalibrationQueries("caption", scored, np.full(NAMES, 9), rng.normal(-8, 1, NAMES))


@pytest.fixture(scope="module")
def taught() -> Policy:
    kinds = [replace(names(2), complete=True), captions(5), absent(3)]
    return fit_search_policy(kinds, other_shares=2)


def apart(policy: Policy) -> float:
    """AUROC of "it is there" over common names, as they are and with items taken away."""
    asking = names(8)
    away = without_relevant(asking, seed=5)
    sides = []
    for one in (in_other_shares(asking, 3, seed=4), away):
        summary, _ = summarise(one.scored.asked())
        sides.append(policy.judge(summary, one.words, common=one.common).present)
    return auroc(*sides)


def test_common_names_that_are_absent_are_told_apart(taught):
    """Absent names were rare words; where a word is common, the items have to tell."""
    untaught = fit_search_policy([names(2), captions(5), absent(3)], other_shares=2)
    assert apart(taught) > apart(untaught) + 0.02


def test_a_policy_for_names_alone_has_one_judgement_of_ten():
    assert fit_search_policy([names(1), absent(3)]).anything_named is None


@pytest.mark.parametrize("right", [True, False])
def test_names_that_all_end_alike_have_no_judgement_of_their_own(taught, right):
    """Forty captions that somebody labelled may hold two names, both with their pictures."""
    drawn = DrawnHits.of([names(2), captions(5), absent(3)], SIZES, 0, 0)
    assert fitting._fit_named(taught.probability, drawn) is not None

    def alike(hits: Hits) -> Hits:
        return replace(hits, right=np.full_like(hits.right, right))

    same = replace(drawn, fitted=alike(drawn.fitted), without=[*map(alike, drawn.without)])
    assert fitting._fit_named(taught.probability, same) is None


def test_what_is_fitted_for_names_is_kept_and_judges_names_alone(taught, tmp_path):
    taught.save(tmp_path / "policy.json")
    again = Policy.load(tmp_path / "policy.json")
    assert taught.anything_named is not None
    assert again.anything_named == taught.anything_named
    plain = replace(taught, anything_named=None)
    for one, same in ((captions(6), True), (names(9), False)):
        summary, _ = summarise(one.scored.asked())
        stated = [each.judge(summary, one.words, common=one.common).present
                  for each in (again, plain)]  # fmt: skip
        assert np.allclose(*stated) == same


# --- captions without the picture that they were written for --------------------------------


def elsewhere(seed: int) -> CalibrationQueries:
    asking = captions(seed)
    return without_own(asking, asking.scored.match.argmax(1), seed)


def test_a_caption_has_a_gallery_without_its_own_picture():
    asking = names(1)
    own = np.random.default_rng(4).integers(ITEMS, size=NAMES)
    alone = without_own(asking, own, seed=3)
    inside, rows = np.isfinite(alone.scored.similarity[0]), np.arange(NAMES)
    assert alone.apart and not inside[rows, own].any()
    assert inside.sum(1).min() >= SMALL and len(np.unique(inside.sum(1))) > NAMES / 2
    np.testing.assert_array_equal(alone.scored.match, asking.scored.match & inside)
    kept = asking.scored.similarity[0][inside]
    np.testing.assert_array_equal(alone.scored.similarity[0][inside], kept)
    np.testing.assert_array_equal(alone.scored.groups, own)


def test_captions_without_their_picture_teach_to_doubt(taught):
    """Descriptions that stand out less than one of a picture that is there."""
    also = fit_search_policy(
        [replace(names(2), complete=True), captions(5), absent(3), elsewhere(7)], other_shares=2
    )
    asking = elsewhere(9)
    summary, _ = summarise(asking.scored.asked())
    before, now = (
        policy.judge(summary, asking.words, common=asking.common).present.mean()
        for policy in (taught, also)
    )
    assert not asking.scored.match.any() and now < before - 0.05
