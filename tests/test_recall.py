"""Ranks and recalls against a plain loop, ties included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avow.metrics.recall import Ranks, average, bootstrap, folds, ranks, summarise


def plain_ranks(scores, image_of):
    to_text, to_image = [], []
    for image in range(scores.shape[0]):
        best = max(scores[image, t] for t in range(len(image_of)) if image_of[t] == image)
        wrong = [
            t for t in range(len(image_of)) if image_of[t] != image and scores[image, t] >= best
        ]
        to_text.append(1 + len(wrong))
    for text, owner in enumerate(image_of):
        wrong = [
            i
            for i in range(scores.shape[0])
            if i != owner and scores[i, text] >= scores[owner, text]
        ]
        to_image.append(1 + len(wrong))
    return to_text, to_image


@settings(deadline=None)
@given(
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(0, 10_000),
    st.sampled_from([2, 5, 1000]),
    st.integers(1, 9),
)
def test_ranks_equal_a_plain_loop(images, most, seed, levels, block):
    """Any number of captions per image, any block size, many ties or none."""
    rng = np.random.default_rng(seed)
    owners = np.concatenate(
        [np.arange(images), rng.integers(0, images, images * (most - 1))]
    ).astype(np.int64)
    rng.shuffle(owners)
    scores = rng.integers(0, levels, (images, len(owners))).astype(np.float32)
    found = ranks([scores], owners, block)
    to_text, to_image = plain_ranks(scores, owners)
    assert found.image_to_text.tolist() == to_text
    assert found.text_to_image.tolist() == to_image


def test_the_mean_of_matrices_is_ranked():
    rng = np.random.default_rng(0)
    owners = np.arange(6)
    one, other = rng.random((2, 6, 6)).astype(np.float32)
    found = ranks([one, other], owners)
    expected = ranks([(one + other) / 2], owners)
    assert found.text_to_image.tolist() == expected.text_to_image.tolist()


def test_joined_matrices_are_ranked_as_exactly_as_they_were_joined():
    """Two candidates that only double precision tells apart are no tie."""
    scores = np.array([[1.0, 0.5], [0.5, 1.0]], np.float32)
    found = ranks(
        [scores, scores],
        np.array([0, 1]),
        join=lambda parts: 1 + 1e-9 * (parts[0].astype(np.float64) + parts[1]),
    )
    assert found.text_to_image.tolist() == found.image_to_text.tolist() == [1, 1]


def test_a_constant_model_is_never_above_chance():
    owners = np.repeat(np.arange(20), 5)
    recall = summarise(ranks([np.zeros((20, 100), np.float32)], owners))
    assert recall.rsum == 0


def test_a_perfect_model():
    owners = np.repeat(np.arange(20), 5)
    scores = (owners[None] == np.arange(20)[:, None]).astype(np.float32)
    recall = summarise(ranks([scores], owners))
    assert recall.rsum == 600
    assert recall.image_to_text.median_rank == recall.text_to_image.mean_rank == 1


def test_summary_by_hand():
    recall = summarise(Ranks(np.array([1, 3, 7, 20]), np.array([1, 1, 11, 2])))
    assert recall.image_to_text.recalls == (25.0, 50.0, 75.0)
    assert recall.image_to_text.median_rank == 5.0
    assert recall.image_to_text.mean_rank == 7.75
    assert recall.text_to_image.recalls == (50.0, 75.0, 75.0)
    assert recall.rsum == 350.0


def test_folds_are_consecutive_and_whole():
    owners = np.repeat(np.arange(7), 2)
    parts = folds(owners, 7, 3)
    assert [(part.start, part.stop) for part, _ in parts] == [(0, 3), (3, 6)]
    assert parts[1][1].tolist() == [6, 7, 8, 9, 10, 11]


def test_average_is_the_mean_of_the_rows():
    one = summarise(Ranks(np.array([1, 1]), np.array([1, 1])))
    other = summarise(Ranks(np.array([1, 20]), np.array([20, 20])))
    assert average([one, other]).image_to_text.r1 == 75.0
    assert average([one, other]).rsum == (one.rsum + other.rsum) / 2


def test_bootstrap_covers_the_truth():
    """95 % intervals of R@1 from samples of a known success rate cover it about 95 %."""
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(200), 2)
    covered = 0
    for trial in range(200):
        hits = np.where(rng.random(200) < 0.4, 1, 50)
        found = Ranks(hits, np.repeat(hits, 2))
        low, high = bootstrap(found, owners, 300, seed=trial)["image_to_text.r1"]
        covered += low <= 40 <= high
    assert 0.90 <= covered / 200 <= 0.99


def test_bootstrap_moves_captions_with_their_image():
    """When all five captions succeed together the interval is that of the images."""
    rng = np.random.default_rng(0)
    hits = np.where(rng.random(300) < 0.4, 1, 50)
    found = Ranks(hits, np.repeat(hits, 5))
    ends = bootstrap(found, np.repeat(np.arange(300), 5), 500)
    assert ends["text_to_image.r1"] == pytest.approx(ends["image_to_text.r1"])
