"""Ranking by relative evidence: what it computes, how its strength is chosen, the command."""

import json

import numpy as np
import pytest
import torch
from test_cli import command  # noqa: F401  (a fixture)
from test_cli_trust import run  # noqa: F401  (a fixture)
from test_trust import world

from avow.core.errors import BadData
from avow.metrics.recall import match_ranks
from avow.study.direction import ranks_of
from avow.study.rerank import choose_strength, relative_scores, rerank
from avow.trust.gallery_sampling import ScoredQueries, fit_serving, summarise


def test_strength_one_ranks_as_the_inverted_softmax():
    from avow.uncertainty.two_way import Bank, inverted_softmax

    scored = world(images=30, seed=3)
    ours = relative_scores(scored, 1.0)
    theirs = inverted_softmax(
        torch.from_numpy(scored.similarity.copy()), Bank.of(scored.background)
    ).double()
    assert (ours.argsort(1) == theirs.numpy().argsort(1)).mean() > 0.99
    np.testing.assert_allclose(relative_scores(scored, 0.0), scored.averaged)


def test_no_strength_is_the_plain_ranking():
    scored = world(images=30, seed=4)
    found = match_ranks(relative_scores(scored, 0.0), scored.match)
    np.testing.assert_array_equal(found, ranks_of(scored))


def test_hubs_are_ranked_down_and_new_queries_gain():
    seen, new = world(images=150, seed=5), world(images=150, seed=6)
    strength = choose_strength(seen)
    assert strength > 0
    plain, better = (
        match_ranks(relative_scores(new, one), new.match) for one in (0.0, strength)
    )
    assert (better == 1).mean() > (plain == 1).mean() + 0.02
    both = rerank({"image": new, "text": new}, {"image": 0.0, "text": strength})
    np.testing.assert_array_equal(both.image_to_text, plain)
    np.testing.assert_array_equal(both.text_to_image, better)


def test_no_bank_no_relative_ranking():
    scored = ScoredQueries(np.zeros((1, 2, 2), np.float32), np.eye(2, dtype=bool))
    with pytest.raises(BadData, match="no bank of reference queries"):
        relative_scores(scored, 1.0)


def test_a_list_is_served_by_its_first_right_candidate():
    scored = world(images=60, seed=7)
    turned = ScoredQueries(scored.similarity.swapaxes(1, 2), scored.match.T, 0)
    serving = fit_serving(turned, depth=20)
    summary, order = summarise(turned.asked(), shown=20)
    right = np.take_along_axis(turned.match, order, axis=1)
    assert serving.event == "first right" and serving.hits == 60 * 20
    from avow.trust.top_k import describe

    stated = serving(describe(summary).reshape(60 * 20, -1), 120)
    # a photograph has two right texts, and only one of them serves it
    assert stated.sum() == pytest.approx(right.any(1).sum(), abs=1)
    assert right.sum() > right.any(1).sum() + 5


@pytest.mark.slow
def test_the_command_adds_a_row_and_says_what_it_used(command, run):  # noqa: F811
    code, out, err = command("evaluate", run, "--rerank", "relative", "--json", "--draws", 0)
    assert code == 0, err
    found = json.loads(out)
    names = [row["name"] for row in found["rows"]]
    assert names == ["image view", "text view", "both views", "relative evidence"]
    told = found["about"]["rerank"]
    assert told["strength_chosen_on"] == "dev" and "without their labels" in told["bank"]
    code, out, _ = command("evaluate", run, "--rerank", "relative", "--draws", 0)
    assert code == 0 and "relative evidence: bank of 240 texts and 48 images of train" in out
    code, _, err = command("evaluate", run, "--rerank", "relative", "--fold", 5)
    assert code == 2
