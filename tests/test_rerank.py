"""Ranking by relative evidence: what it computes, how its strength is chosen, the command."""

import json

import numpy as np
import pytest
import torch
from test_cli import command  # noqa: F401  (a fixture)
from test_cli_trust import run  # noqa: F401  (a fixture)
from test_trust import world

from avow.core.errors import BadData
from avow.trust.galleries import Scored, fit_serving, look
from avow.trust.rerank import choose_strength, ranks_under, relative_scores, rerank
from avow.trust.study import ranks_of


def test_strength_one_ranks_as_the_inverted_softmax():
    from avow.uncertainty.two_way import inverted_softmax

    scored = world(images=30, seed=3)
    ours = relative_scores(scored, 1.0)
    theirs = inverted_softmax(scored.similarity, scored.background).double()
    assert (ours.argsort(1) == theirs.numpy().argsort(1)).mean() > 0.99
    np.testing.assert_allclose(relative_scores(scored, 0.0), scored.averaged.numpy())


def test_no_strength_is_the_plain_ranking():
    scored = world(images=30, seed=4)
    found = ranks_under(relative_scores(scored, 0.0), scored)
    np.testing.assert_array_equal(found, ranks_of(scored))


def test_hubs_are_ranked_down_and_new_queries_gain():
    seen, new = world(images=150, seed=5), world(images=150, seed=6)
    strength = choose_strength(seen)
    assert strength > 0
    plain, better = (ranks_under(relative_scores(new, one), new) for one in (0.0, strength))
    assert (better == 1).mean() > (plain == 1).mean() + 0.02
    both = rerank({"image": new, "text": new}, {"image": 0.0, "text": strength})
    np.testing.assert_array_equal(both.image_to_text, plain)
    np.testing.assert_array_equal(both.text_to_image, better)


def test_no_bank_no_relative_ranking():
    scored = Scored(torch.zeros(1, 2, 2), np.eye(2, dtype=bool))
    with pytest.raises(BadData, match="no bank of reference queries"):
        relative_scores(scored, 1.0)


def test_a_list_is_served_by_its_first_right_candidate():
    scored = world(images=60, seed=7)
    turned = Scored(scored.similarity.transpose(1, 2), scored.match.T, 0)
    serving = fit_serving(turned, depth=20)
    sight, order = look(turned.asked(), shown=20)
    right = np.take_along_axis(turned.match, order.numpy(), axis=1)
    assert serving.event == "first right" and serving.hits == 60 * 20
    from avow.trust.sight import describe

    stated = serving(describe(sight).numpy().reshape(60 * 20, -1), 120)
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
