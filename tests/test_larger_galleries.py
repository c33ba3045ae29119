"""Galleries larger than any of a fit are judged by another one, where a policy holds one."""

import json
from dataclasses import replace

import numpy as np
import pytest
from samples import refusal
from test_calibrate import CLEAR, calibrated, open_at, place  # noqa: F401 (fixtures)

from avow.api.calibration import calibration_of
from avow.core.errors import WrongTrust
from avow.retrieval import sample_parts
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words
from avow.retrieval.gallery import Gallery, QueryScores
from avow.retrieval.sample_parts import PARTS, Asked
from avow.retrieval.status import status_of
from avow.trust.policy import Policy
from avow.trust.probability import Line
from avow.trust.top_k import SHOWN

SMALL, LARGE = 100, 5000
"""Largest galleries of the two fits; the index holds 200 pictures."""


@pytest.fixture(scope="module")
def policy(calibrated) -> Policy:  # noqa: F811
    one = calibrated.policy
    far = replace(one.conditions, smallest=SMALL, largest=LARGE)
    near = replace(one.conditions, largest=SMALL)
    assert one.anything is not None
    doubtful = replace(one.anything, bias=one.anything.bias - 4)
    return replace(one, conditions=near, larger=replace(one, conditions=far, anything=doubtful))


def test_the_size_of_the_gallery_decides(policy):
    assert policy.for_size(SMALL) is policy
    assert policy.for_size(SMALL + 1).conditions.largest == LARGE
    assert policy.for_size(SMALL + 1) is policy.for_size(10 * LARGE)  # as its promises are kept
    alone = replace(policy, larger=None)
    assert alone.for_size(10 * LARGE) is alone


def test_ticks_move_both(policy):
    moved = replace(policy, line=Line(1.0, -0.5))
    assert moved.for_size(LARGE).line == moved.line and policy.for_size(LARGE).line is None


def test_a_file_keeps_both(policy, tmp_path):
    policy.save(tmp_path / "trust.json")
    again = Policy.load(tmp_path / "trust.json")
    assert again.larger is not None and again.larger.anything == policy.larger.anything
    assert again.conditions == policy.conditions
    assert again.for_size(LARGE).conditions == policy.for_size(LARGE).conditions
    assert again.for_size(LARGE).promised(0.1) == again.larger.promised(0.1)


def test_what_is_wrong_inside_is_told(policy, tmp_path):
    path = tmp_path / "trust.json"
    policy.save(path)
    content = json.loads(path.read_text())
    content["larger"]["probability"]["weights"] = [1.0]
    path.write_text(json.dumps(content))
    assert "cannot be read" in refusal(lambda: Policy.load(path), WrongTrust)


def test_a_search_takes_the_one_for_its_gallery(place, calibrated, policy):  # noqa: F811
    before = calibrated.path.read_text()
    try:
        policy.save(calibrated.path)
        retriever = open_at(place)
        whole = retriever.search(CLEAR, k=3)
        part = retriever.search(CLEAR, k=3, where="name~red")
        told, offered = status_of(retriever), calibration_of(retriever)
    finally:
        calibrated.path.write_text(before)
    assert whole.trust < 0.5 < 0.8 < part.trust
    # two fit; the parts of the sample are judged by the fit for small galleries
    assert whole.how_many.expected < 30 and part.how_many.expected < 8
    assert 0 == whole.how_many.low < whole.how_many.high < 100
    assert any(f"galleries of {SMALL} to {LARGE} pictures" in one.why for one in told.trust)
    assert offered.conditions["largest"] == LARGE


def test_far_beyond_what_was_measured_nothing_is_promised(policy):
    assert policy.held is not None
    most = int(policy.held.sizes.max())
    assert policy.promised(0.5, size=4 * most).threshold is not None
    beyond = policy.promised(0.5, size=4 * most + 1)
    assert beyond.threshold is None and f"only up to {most}" in beyond.reason


def test_every_part_is_judged_as_a_gallery_of_its_own(place, calibrated):  # noqa: F811
    """All at once, beside one after the other by what small galleries are counted with."""
    retriever, policy = open_at(place), calibrated.policy
    library, encoder = retriever.library, retriever.encoder
    gallery, texts = Gallery.of(library, None, "image"), [CLEAR, "a red thing"]
    asked = Asked(
        encoder.encode_texts(texts), count_words(texts), commonness(texts), encoder.tau
    )
    ids = library.search(asked.vectors, SHOWN)[0]
    best, views = library.vectors(ids.ravel()).reshape(*ids.shape, -1), encoder.views
    scores = QueryScores.of(gallery, asked.vectors, best, ids, views)
    parts = np.arange(len(gallery)).reshape(-1, PARTS).T
    together = sample_parts._judged(policy, gallery, scores, parts, asked)
    for part, judged in zip(parts, np.split(together, PARTS, axis=1), strict=True):
        some = gallery.sampled[part]
        choice = replace(gallery.choice, count=len(part), sampled=some, ids=some)
        usual = gallery.background
        own = Gallery(choice, gallery.vectors[part], None if usual is None else usual.of(part))
        order = np.argsort(-scores.sampled[:, part], axis=1, kind="stable")[:, :SHOWN]
        first = gallery.vectors[part][order]
        alone = QueryScores.of(own, asked.vectors, first, some[order], views)
        known = None if usual is None else usual.of(part[order].ravel())
        summary = alone.summary(encoder.tau, known, own.usual)
        reading = policy.read(summary, asked.words, asked.common, asked.vectors)
        number = policy.number(reading, alone.behind(summary, own.usual))
        np.testing.assert_allclose(judged.sum(1), number.expected, rtol=1e-5)


def test_the_same_items_are_dealt_alike_however_a_store_numbers_them():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((101, 8)).astype(np.float32)
    inside, moved = np.flatnonzero(np.arange(101) % 10), rng.permutation(101)
    there = np.argsort(moved)  # of every item in the other store
    parts = sample_parts._dealt(vectors, inside)
    assert parts.shape == (PARTS, len(inside) // PARTS) and np.isin(parts, inside).all()
    assert len(np.unique(parts)) == parts.size
    other = sample_parts._dealt(vectors[moved], np.sort(there[inside]))
    np.testing.assert_array_equal(moved[other], parts)
