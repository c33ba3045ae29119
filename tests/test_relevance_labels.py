"""Labels read from captions: against plain loops, known curves, and what experts said."""

import os

import numpy as np
import pytest
from samples import opened_once

from avow.core.logistic import expit
from avow.data.judgements import JudgedPairs, read_judgements
from avow.data.opening import data_home, dataset_file
from avow.data.words import word_tokenize
from avow.metrics.rejection import auroc
from avow.study import relevance_labels
from avow.study.human_agreement import STRICT
from avow.study.relevance_labels import (
    agreement,
    drawn,
    expert_curve,
    expert_half,
    fit_curve,
    labels,
    sentence_vectors,
    word_overlap,
)
from avow.study.short_queries import content_stems


def units(rows: int, dim: int, seed: int) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_agreement_is_the_largest_cosine(monkeypatch):
    """Also where captions are not ordered by image, and an image has none."""
    monkeypatch.setattr(relevance_labels, "_QUERIES_AT_ONCE", 3)
    queries, captions = units(7, 5, seed=0), units(23, 5, seed=1)
    image_of = np.random.default_rng(2).integers(0, 6, 23)
    image_of[image_of == 4] = 0
    found = agreement(queries, captions, image_of, 7)
    for row, query in enumerate(queries):
        for image in range(7):
            own = [
                float(query @ one)
                for one, i in zip(captions, image_of, strict=True)
                if i == image
            ]
            assert found[row, image] == pytest.approx(max(own, default=-1), abs=1e-6)
    assert (found[:, 4] == -1).all() and (found[:, 6] == -1).all()


def test_overlap_is_the_share_of_content_words():
    queries = ["a dog on a beach", "two dogs", "the", "a red ball"]
    captions = ["A dog runs.", "Sand of the beach", "Dogs chase a ball", "A quiet street"]
    image_of = np.array([0, 0, 2, 1])
    found = word_overlap(queries, captions, image_of, 4)
    for row, query in enumerate(queries):
        asked = content_stems(word_tokenize(query))
        for image in range(4):
            said = set()
            for caption, owner in zip(captions, image_of, strict=True):
                if owner == image:
                    said |= content_stems(word_tokenize(caption.lower()))
            share = len(asked & said) / max(len(asked), 1)
            assert found[row, image] == pytest.approx(share)
    assert found[0].tolist() == [1, 0, 0.5, 0]
    assert not found[2].any() and not found[:, 3].any()


def test_the_curve_is_found_again():
    rng = np.random.default_rng(3)
    agreed = rng.uniform(-0.2, 1, 40_000)
    curve = fit_curve(agreed, rng.random(40_000) < expit(9 * agreed - 5))
    assert curve.slope == pytest.approx(9, rel=0.05)
    assert curve.offset == pytest.approx(-5, rel=0.05)
    assert curve.pairs == 40_000
    np.testing.assert_allclose(curve(np.array([[5 / 9]])), 0.5, atol=0.02)


def test_a_curve_learns_from_its_half_and_from_no_own_caption():
    rng = np.random.default_rng(4)
    image, text = rng.integers(0, 40, 3000), rng.integers(0, 50, 3000)
    agreed = rng.uniform(0, 1, (50, 40))
    fits = rng.random(3000) < expit(8 * agreed[text, image] - 4)
    half = expert_half(40)
    own = rng.random(3000) < 0.2
    spoilt = own | ~half[image]  # the opposite of the truth, which must not be read
    scores = np.where(fits ^ spoilt, STRICT, 1)[:, None].repeat(3, 1)
    curve = expert_curve(JudgedPairs(image, text, own, scores), agreed, half)
    assert half.sum() == 20 and curve.pairs == (~spoilt).sum()
    assert curve.slope == pytest.approx(8, rel=0.25)


def test_a_caption_fits_its_own_image():
    curve = fit_curve(np.array([0.1, 0.2, 0.8, 0.9]), np.array([False, False, True, True]))
    agreed = np.full((3, 4), 0.3, np.float32)
    stated = labels(agreed, curve, np.array([1, 3, 0]))
    assert (stated[[0, 1, 2], [1, 3, 0]] == 1).all() and (stated == 1).sum() == 3
    np.testing.assert_allclose(labels(agreed, curve), curve(agreed))


def test_labels_are_drawn_as_often_as_they_are_probable():
    stated = np.repeat(np.array([[0.0, 0.1, 0.5, 0.9, 1.0]]), 20_000, 0)
    rate = drawn(stated, seed=5).mean(0)
    np.testing.assert_allclose(rate, stated[0], atol=0.012)
    assert rate[0] == 0 and rate[-1] == 1
    np.testing.assert_array_equal(drawn(stated, seed=5), drawn(stated, seed=5))


@pytest.mark.data
def test_agreement_is_what_experts_say():
    """Over images of Flickr8k with a caption of another image that fits them."""
    count = 25 if os.environ.get("AVOW_LONG_TESTS") else 12
    home = data_home()
    if home is None or not (home / "flickr8k" / "expert_judgements.json").is_file():
        pytest.skip("there is no flickr8k/expert_judgements.json in the data home")
    split = opened_once("flickr8k").splits["test"]
    judged = read_judgements(dataset_file("flickr8k", "expert_judgements.json"))
    pairs = judged.within(split.image_ids, split.image_of)
    strictly = pairs.called(STRICT)
    chosen = np.unique(pairs.image[strictly & ~pairs.own])[:count]
    rows = np.flatnonzero(np.isin(pairs.image, chosen) & ~pairs.own)
    fits = strictly[rows]
    assert len(rows) > 4 * count and fits.sum() >= count
    images, image = np.unique(pairs.image[rows], return_inverse=True)
    texts, text = np.unique(pairs.text[rows], return_inverse=True)
    told = np.flatnonzero(np.isin(split.image_of, images))
    captions = [split.captions[n] for n in told]
    asked = [split.captions[n] for n in texts]
    image_of = np.searchsorted(images, split.image_of[told])
    close = agreement(
        sentence_vectors(asked), sentence_vectors(captions), image_of, len(images)
    )
    shared = word_overlap(asked, captions, image_of, len(images))
    close, shared = close[text, image], shared[text, image]
    assert auroc(close[fits], close[~fits]) >= 0.94
    assert auroc(shared[fits], shared[~fits]) >= 0.85  # a measure that shares nothing with it
