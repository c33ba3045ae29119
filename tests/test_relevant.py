"""P(relevant): fitted per style, judged on other queries, and beside what people said."""

import json
from dataclasses import replace

import numpy as np
import pytest
from test_cli import command  # noqa: F401  (a fixture)
from test_cli_trust import run  # noqa: F401  (a fixture)
from test_trust import world
from test_trust_studies import short_split

from avow.core.background import Background
from avow.core.evidence import top_positions
from avow.data.judgements import JudgedPairs
from avow.data.opening import open_dataset
from avow.metrics.calibration import expected_calibration_error
from avow.reports import report
from avow.study.human_hits import people_study, stands_for, weighted_errors
from avow.study.relevance import judge_style, relevance_study
from avow.study.short_queries import whole_captions
from avow.trust.gallery_sampling import ScoredQueries, collect_hits
from avow.trust.policy import Policy


def many(queries=120, images=80, seed=0) -> ScoredQueries:
    """Queries with several relevant images each; the score knows it with noise."""
    rng = np.random.default_rng(seed)
    match = rng.random((queries, images)) < rng.uniform(0.03, 0.3, (queries, 1))
    match[np.arange(queries), rng.integers(0, images, queries)] = True
    hubs = rng.normal(0, 0.15, images)
    scores = np.tanh(0.35 * match + hubs + 0.2 * rng.normal(size=(2, *match.shape)))
    bank = np.tanh(hubs + 0.2 * rng.normal(size=(2, 200, images)))
    usual = Background.from_scores([bank.astype(np.float32)], 0.05)
    return ScoredQueries(scores.astype(np.float32), match, 1, background=usual)


@pytest.fixture(scope="module")
def studied():
    return relevance_study({"object name": many(), "phrase": many(seed=1)}, model="m", draws=50)


def test_a_row_per_style_beside_the_similarity_alone(studied):
    rows, _ = studied
    assert set(rows) == {"object name", "phrase"}
    row = rows["object name"]
    assert row["queries"] == 120 and row["hits"] == 1200
    assert row["ece"] < row["floor"] + 0.05
    assert row["auroc"] > row["similarity"]["auroc"] + 0.02  # it knows of hubs
    assert row["stated"] == pytest.approx(row["relevant"], abs=0.06)


def test_halves_are_not_judged_by_themselves(monkeypatch):
    import avow.study.relevance as module

    scored, seen = many(), []
    plain = module.fit_hits

    def noted(event, hits):
        seen.append(len(np.unique(hits.groups)))
        assert event == "relevant"
        return plain(event, hits)

    monkeypatch.setattr(module, "fit_hits", noted)
    judge_style(scored, draws=5)
    assert sum(seen) == len(np.unique(scored.groups)) and len(seen) == 2


def test_the_trust_of_a_style_says_relevant(studied, tmp_path):
    _, trusts = studied
    trusts["phrase"].save(tmp_path / "trust.json")
    read = Policy.load(tmp_path / "trust.json")
    assert read.probability.event == "relevant" and read.conditions.style == "phrase"
    assert read.conditions.model == "m" and "relevant" in read.promise.event


def test_a_style_that_cannot_be_learnt_has_a_sentence():
    few = many(queries=4, images=20)
    none = replace(few, similarity=np.where(few.match, np.float32(-1.0), few.similarity))
    rows, trusts = relevance_study({"phrase": none}, draws=5)
    assert "Expected some of both" in rows["phrase"]["left_out"] and not trusts


def test_queries_with_other_matches_are_other_groups():
    match = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1]], bool)
    groups = ScoredQueries(np.zeros((1, 4, 3), np.float32), match).groups
    assert groups[0] == groups[2] and len(set(groups)) == 3


def test_a_caption_is_relevant_where_all_its_words_are_said():
    found = whole_captions(short_split())
    relevant = dict(zip(found.queries, found.match.tolist(), strict=True))
    # "dog" and "couch" are said of one photograph only; "dog" and "boat" of two
    assert relevant["A couch with a dog."] == [False, True, False, False, False]
    assert relevant["The dog is near a boat."] == [True, False, True, False, False]


def test_equal_weights_give_the_plain_error():
    rng = np.random.default_rng(0)
    stated = rng.random(200)
    happened = rng.random(200) < stated**2
    (found,) = weighted_errors(stated, happened, np.ones((1, 200)), bins=5)
    plain = expected_calibration_error(stated, happened, 5, equal_mass=True)
    assert found == pytest.approx(plain, abs=1e-9)


def test_a_hit_counted_twice_is_a_hit_that_is_there_twice():
    rng = np.random.default_rng(1)
    stated, happened = rng.random(60), rng.random(60) < 0.4
    twice = np.where(np.arange(60) < 20, 2.0, 1.0)[None]
    there = np.concatenate([np.arange(20), np.arange(60)])
    (weighted,) = weighted_errors(stated, happened, twice, bins=1)
    (repeated,) = weighted_errors(stated[there], happened[there], np.ones((1, 80)), bins=1)
    assert weighted == pytest.approx(repeated)


def test_judged_hits_stand_for_all_hits_of_their_kind():
    right = np.array([[True, False], [False, True], [False, False], [True, False]])
    place = np.array([0, 0, 0, 1])
    own = np.array([True, False, False, False])
    weight = stands_for(right, place, own)
    assert weight.tolist() == [2, 1, 1, 3]  # of rank 2 nobody judged an annotated one


def test_people_and_probabilities_of_shown_hits():
    fitted, judged = world(images=60, seed=1), world(images=60, seed=2)
    hits = collect_hits(judged)
    order = top_positions(judged.averaged, 10)
    text = np.repeat(np.arange(0, 120, 2), 2)
    image = order[text, np.tile([0, 1], 60)]
    own = image == text // 2
    scores = np.where(own[:, None], 4, np.tile([1, 2, 2], (120, 1)))
    far = JudgedPairs(
        np.append(image, order[1, 9]),
        np.append(text, 0),
        np.append(own, False),
        np.append(scores, [[1, 1, 1]], axis=0),
    )
    events = {"relevant": replace(fitted), "right": fitted}
    found = people_study(events, judged, far, draws=50)
    shown_too = int(order[1, 9] in order[0])
    assert found["pairs"] == 120 + shown_too
    strict = found["strict"]
    assert set(strict["measures"]) == {"P(relevant)", "P(right)", "similarity alone"}
    row = strict["measures"]["P(relevant)"]
    assert row["auroc"][0] > 0.7 and row["ece"][0] < 0.15
    assert row["auroc"][1] <= row["auroc"][0] <= row["auroc"][2]
    assert strict["count"] == found["annotated"] == hits.right[::2, :2].sum()


@pytest.mark.slow
def test_the_command_fits_it_on_any_dataset_with_objects(
    command,  # noqa: F811
    run,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    monkeypatch.setattr(report, "draw_all", lambda studies: {})  # no figure is about it
    recipe = json.loads((run / "recipe.json").read_text())["recipe"]
    data = recipe["data"]["name"]
    split = open_dataset(name=data).splits["dev"]
    objects = {
        image: split.captions[5 * place].split()[1:3]
        for place, image in enumerate(split.image_ids)
    }
    listed = tmp_path / "objects.json"
    listed.write_text(json.dumps(objects))
    code, out, err = command(
        "trust",
        run,
        "--relevant",
        data,
        "--objects",
        listed,
        "--splits",
        2,
        "--no-corruption",
        "--json",
    )
    assert code == 0, err
    found = json.loads(out)["studies"][0]["relevant"]
    assert set(found["styles"]) >= {"caption", "object name", "a and object name"}
    assert found["about"]["split"] == "dev" and found["styles"]["caption"]["queries"] == 120
    trust = Policy.load(run / "trust" / "trust-run-relevant-caption.json")
    assert trust.conditions.style == "caption" and trust.probability.event == "relevant"
    page = (run / "trust" / "index.html").read_text()
    assert "Queries with many good answers" in page and "P(relevant)" in page
