"""Studies of trust: corrupted inputs, human judgements, other domains, short queries."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import opened_once
from scipy.stats import kendalltau
from torch import nn

from avow.assembly.evaluate import score_views
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.recipe import Recipe
from avow.core.background import Background
from avow.core.contracts import Encoded, Method, QueryBatch, Regions, Split, Tokeniser, Tokens
from avow.core.errors import AvowError, BadData, BadFeatures
from avow.core.seeds import generator
from avow.data.captions import TokenTable
from avow.data.corruption import compact_regions, corrupt_captions, corrupt_words
from avow.data.features import NpyRows
from avow.data.judgements import JudgedPairs, read_judgements
from avow.data.opening import data_home, dataset_file
from avow.metrics.agreement import auroc_interval, kendall_tau_c, tau_c_interval
from avow.metrics.rejection import auroc
from avow.study.corruption import BINS, Stating, corruption_study, rises
from avow.study.domain_shift import ask, tell_apart, with_and_without
from avow.study.human_agreement import human_study, is_first, pair_measures, wrong_but_fitting
from avow.study.short_queries import (
    noun_like,
    object_names,
    phrases,
    query_sets,
    read_objects,
)
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.probability import Probability, fit_probability
from avow.trust.top_k import PLAIN, describe, describe_one, summarise

IMAGES, WORDS, TAU = 12, 4, 0.5
GAINS = (1.0, 0.5)
seeds = st.integers(0, 10_000)


def sentence(call: Callable[[], Any], kind: type[AvowError] = BadData) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# --- a world in which every similarity is known ----------------------------------------
#
# Each image has four regions, each caption four words, and the n-th word of a caption is the
# n-th region of its image: a cosine is the share of what is left of both.


class Numbered(Tokeniser):
    """Words are written as numbers."""

    mask = IMAGES * WORDS + 1

    @property
    def size(self) -> int:
        return IMAGES * WORDS + 2

    def words(self, caption: str) -> list[list[int]]:
        return [[int(word)] for word in caption.split()]

    def save(self, folder: Path) -> None:
        raise NotImplementedError


class Shares(Method):
    """A gain times the cosine of two sums; words beyond the known ones are nothing."""

    def __init__(self, gain: float):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain))
        self.seen: list[Regions] = []
        self.read: list[Tokens] = []

    def encode_visual(self, visual: Regions) -> Encoded:
        self.seen.append(visual)
        kept = visual.features * visual.present[..., None]
        return unit(kept.sum(1))

    def encode_text(self, text: Tokens) -> Encoded:
        self.read.append(text)
        words = torch.eye(IMAGES * WORDS + 2)[text.ids] * text.present[..., None]
        return unit(words.sum(1)[:, 1:-1])

    def score(self, visual: Encoded, text: Encoded) -> torch.Tensor:
        return self.gain * (visual.parts[:, 0] @ text.parts[:, 0].T)


def unit(vectors: torch.Tensor) -> Encoded:
    length = vectors.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    return Encoded((vectors / length)[:, None], torch.ones(len(vectors), 1, dtype=torch.bool))


def toy_model(region_change: str = "drop", gains: tuple[float, ...] = GAINS) -> Model:
    content = {
        "data": {"name": "none"},
        "method": {"name": "vse_infty"},
        "loss": {"name": "tcl", "tau": TAU},
        "train": {"region_change": region_change},
    }
    recipe = Recipe.from_dict("toy", content)
    visual = {"dim": IMAGES * WORDS, "parts": WORDS, "identity": None}
    return Model(recipe, [Shares(gain) for gain in gains], Numbered(), visual)


def toy_split(folder: Path) -> FeaturedSplit:
    features = np.eye(IMAGES * WORDS, dtype=np.float32).reshape(IMAGES, WORDS, -1)
    np.save(folder / "features.npy", features)
    captions = [
        " ".join(str(image * WORDS + word + 1) for word in range(WORDS))
        for image in range(IMAGES)
    ]
    split = Split(
        tuple(f"{image}.jpg" for image in range(IMAGES)),
        tuple(captions),
        np.arange(IMAGES),
        features=folder / "features.npy",
        feature_rows=np.arange(IMAGES),
    )
    rows = np.arange(IMAGES)
    return FeaturedSplit(
        NpyRows(split), split.image_ids, rows, split.captions, split.image_of, None
    )


@pytest.fixture
def split(tmp_path) -> FeaturedSplit:
    return toy_split(tmp_path)


@pytest.fixture
def table(split) -> TokenTable:
    return TokenTable.from_captions(Numbered(), split.captions)


def u_of(similarity: float) -> float:
    """K / S when the match has this similarity and all others 0."""
    return IMAGES / (IMAGES + np.exp(similarity / TAU) + (IMAGES - 1))


# --- corruption ------------------------------------------------------------------------


def test_u_of_clean_and_of_one_region_left_in_closed_form(split, table):
    study = corruption_study(toy_model(), split, table, ratios=(0.0, 1.0))
    for query, own in (("text", GAINS[1]), ("image", GAINS[0])):
        # one region left of four has a cosine of 1/2 with the whole caption
        for entry, cosine in zip(study[query]["kinds"]["regions"], (1.0, 0.5), strict=True):
            assert entry["u"]["mean"] == pytest.approx(u_of(own * cosine))
            assert entry["u averaged"]["mean"] == pytest.approx(u_of(np.mean(GAINS) * cosine))
            assert entry["u"]["quantiles"] == pytest.approx([u_of(own * cosine)] * 5)
            assert entry["r1"] == 100.0
            assert sum(entry["u"]["histogram"]["counts"]) == IMAGES
            assert len(entry["u"]["histogram"]["edges"]) == BINS + 1
            assert "trust" not in entry


def test_u_among_fewer_candidates_in_closed_form(split, table):
    """u = K / S of a match and K - 1 others of similarity 0."""
    stating = Stating(galleries=(2, IMAGES))
    study = corruption_study(toy_model(), split, table, stating=stating, ratios=(0.0,))
    for query, own in (("text", GAINS[1]), ("image", GAINS[0])):
        (entry,) = study[query]["kinds"]["both"]
        expected = {str(k): k / (k + np.exp(own / TAU) + (k - 1)) for k in (2, IMAGES)}
        assert entry["u among K"] == pytest.approx(expected)
        assert entry["u among K"][str(IMAGES)] == pytest.approx(entry["u"]["mean"])
    with pytest.raises(BadData, match=r"Expected 1 to"):
        stating = Stating(galleries=(IMAGES + 1,))
        corruption_study(toy_model(), split, table, stating=stating, ratios=(0.0,))


def test_swapped_words_are_all_still_there(split, table):
    """The toy model knows no order of words, so that swapping changes nothing for it."""
    swapped = Stating(words=("swap",))
    study = corruption_study(toy_model(), split, table, stating=swapped, ratios=(0.0, 0.6))
    masked = corruption_study(toy_model(), split, table, ratios=(0.0, 0.6))
    for query in ("text", "image"):
        whole, worse = (entry["u"]["mean"] for entry in study[query]["kinds"]["words"])
        assert worse == pytest.approx(whole)
        assert masked[query]["kinds"]["words"][1]["u"]["mean"] > whole


def test_mean_u_rises_with_every_kind_of_corruption(split, table):
    study = corruption_study(toy_model(), split, table)
    assert list(study) == ["text", "image"]
    for of_query in study.values():
        assert set(of_query["kinds"]) == {"words", "regions", "both"}
        for kind, entries in of_query["kinds"].items():
            means = [entry["u"]["mean"] for entry in entries]
            assert [entry["ratio"] for entry in entries] == [0.0, 0.3, 0.6]
            assert means[0] < means[1] < means[2]
            assert of_query["rises"][kind] == {"u": True, "u averaged": True}
        both, words = of_query["kinds"]["both"], of_query["kinds"]["words"]
        assert both[0]["u"] == words[0]["u"]
        assert both[2]["u"]["mean"] > words[2]["u"]["mean"]
        assert both[2]["r1"] < 100


def test_u_that_does_not_rise_is_not_said_to(split, table):
    study = corruption_study(toy_model(gains=(-1.0,)), split, table)
    assert study["text"]["rises"]["both"] == {"u": False, "u averaged": False}
    flat = corruption_study(toy_model(gains=(0.0,)), split, table)
    assert flat["text"]["rises"]["both"] == {"u": False, "u averaged": False}
    up_and_down = [
        {"ratio": r, "u": {"mean": m}} for r, m in ((0, 0.1), (0.3, 0.3), (0.6, 0.2))
    ]
    assert not rises(up_and_down, "u") and rises(up_and_down[:2], "u")


def test_order_of_ratios_is_kept_and_does_not_change_what_rises(split, table):
    study = corruption_study(toy_model(), split, table, ratios=(0.6, 0.0))
    assert [entry["ratio"] for entry in study["text"]["kinds"]["both"]] == [0.6, 0.0]
    assert study["text"]["rises"]["both"]["u"]


def test_masked_regions_stay_and_hold_nothing(split, table):
    model = toy_model("mask")
    study = corruption_study(model, split, table, ratios=(0.0, 1.0))
    last = model.views[0].seen[-1]
    assert last.present.all() and last.features.shape[1] == WORDS
    assert last.features.unique().tolist() == pytest.approx([1e-8])
    # all images are alike, and a tie counts against us
    assert study["text"]["kinds"]["regions"][1]["r1"] == 0


def test_each_side_is_encoded_once_per_ratio_and_alike_for_every_view(split, table):
    model = toy_model()
    corruption_study(model, split, table)
    first, second = model.views
    assert len(first.seen) == len(first.read) == len(second.seen) == len(second.read) == 3
    for one, other in zip(first.seen, second.seen, strict=True):
        assert torch.equal(one.features, other.features)
    for one, other in zip(first.read, second.read, strict=True):
        assert torch.equal(one.ids, other.ids)


def test_what_is_hidden_at_a_ratio_is_hidden_at_every_larger_one(split, table):
    model = toy_model()
    corruption_study(model, split, table)
    left = [
        (seen.features * seen.present[..., None]).sum(1) > 0 for seen in model.views[0].seen
    ]
    assert (left[0] >= left[1]).all() and (left[1] >= left[2]).all()
    assert left[0].sum() > left[1].sum() > left[2].sum()


def test_corruption_is_a_function_of_its_seed(split, table):
    def study(seed: int) -> dict:
        return corruption_study(toy_model(), split, table, seed=seed)

    assert study(3) == study(3)
    assert study(3) != study(4)


def test_confidence_sees_queries_with_the_background_of_their_candidates(split, table):
    asked_for: list[tuple[str, torch.Tensor]] = []

    def usual(query: str, candidates) -> Background:
        asked_for.append((query, candidates[0].parts))
        scores = np.full((2, 3, IMAGES), len(asked_for), np.float32)
        return Background.from_scores([scores], TAU)

    def confidence(asked: QueryBatch) -> np.ndarray:
        assert asked.background is not None and asked.tau == TAU
        assert asked.own == 1
        return np.full(asked.similarity.shape[1], asked.background.mean[0, 0] / 100)

    study = corruption_study(
        toy_model(), split, table, stating=Stating({"text": confidence}, usual)
    )
    assert [query for query, _ in asked_for] == ["text", "image"] * 3
    kinds = study["text"]["kinds"]
    said = {kind: [round(100 * e["trust"]["mean"]) for e in kinds[kind]] for kind in kinds}
    # under "words" the images asked for are whole; else they are of that ratio
    assert said == {"words": [1, 1, 1], "regions": [1, 3, 5], "both": [1, 3, 5]}
    assert "trust" not in study["image"]["kinds"]["both"][0]


def test_a_table_of_other_captions_is_refused(split, table):
    other = TokenTable.from_captions(Numbered(), split.captions[1:])
    assert sentence(lambda: corruption_study(toy_model(), split, other)) == (
        "The table holds 11 captions and the split 12. Expected the captions of the split, "
        "in its order."
    )
    assert sentence(lambda: corruption_study(toy_model(), split, table, ratios=(0.3, 0.3))) == (
        "The ratios are [0.3, 0.3]. Expected at least one, each once, such as [0.0, 0.3, 0.6]."
    )


def test_corrupted_table_is_the_corrupted_captions(table):
    rows = torch.arange(IMAGES)
    changed = corrupt_captions(table, 0.5, generator(1))
    expected = corrupt_words(table, rows, 0.5, generator(1))
    again = changed.tokens(rows)
    assert torch.equal(again.ids, expected.ids) and torch.equal(again.present, expected.present)
    assert torch.equal(changed.word >= 0, expected.present)
    assert corrupt_captions(table, 0.0, generator(1)).ids.equal(table.ids)


def test_compacted_regions_keep_their_order_and_boxes():
    present = torch.tensor([[False, True, False, True], [True, False, False, False]])
    features = torch.arange(8.0).reshape(2, 4, 1)
    boxes = features.expand(-1, -1, 4)
    found = compact_regions(Regions(features, present, boxes))
    assert found.present.tolist() == [[True, True], [True, False]]
    assert found.features[0, :, 0].tolist() == [1, 3] and found.features[1, 0] == 4
    assert found.boxes is not None and torch.equal(found.boxes[..., :1], found.features)


# --- one candidate, wherever it ranks --------------------------------------------------


def some_asked(
    seed: int, queries: int = 6, candidates: int = 20, known: bool = True
) -> QueryBatch:
    draw = torch.Generator().manual_seed(seed)
    similarity = torch.rand(2, queries, candidates, generator=draw).numpy()
    bank = torch.rand(2, 9, candidates, generator=draw).numpy()
    usual = Background.from_scores([bank], 0.05) if known else None
    return QueryBatch(similarity, 1, background=usual)


@settings(deadline=None, max_examples=20)
@given(seeds, st.booleans())
def test_a_candidate_among_those_shown_is_described_as_always(seed, known):
    asked = some_asked(seed, known=known)
    summary, order = summarise(asked, 5)
    for place in range(5):
        found = describe_one(asked, order[:, place], 5)
        np.testing.assert_allclose(found, describe(summary)[:, place], rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_a_candidate_below_them_has_its_true_rank_and_rivals(seed):
    asked = some_asked(seed, known=False)
    whole, order = summarise(asked, 20)
    names = [name for name in PLAIN if name != "agreed"]
    columns = [PLAIN.index(name) for name in names]
    for place in (7, 12, 19):
        found = describe_one(asked, order[:, place], 6)
        np.testing.assert_allclose(
            found[:, columns], describe(whole)[:, place, columns], rtol=1e-5, atol=1e-5
        )


def test_a_candidate_as_good_as_the_last_one_shown_stands_behind_it():
    asked = QueryBatch(np.full((2, 3, 20), 0.25, np.float32), 1)
    _, order = summarise(asked, 6)
    left_out = np.array([min(set(range(20)) - set(row)) for row in order.tolist()])
    found = describe_one(asked, left_out, 6)
    np.testing.assert_allclose(found[:, PLAIN.index("log rank")], np.log(7), rtol=1e-6)


def test_a_candidate_below_is_compared_with_all_shown_in_relative_evidence():
    asked = some_asked(3)
    assert asked.background is not None
    summary, order = summarise(asked, 5)
    found = describe_one(asked, order[:, 0] * 0 + 2, 5)
    relative = (asked.similarity / 0.05 - asked.background.log_mean[:, None]).mean(0)
    outside = ~(order == 2).any(1)
    assert outside.any()
    best = np.take_along_axis(relative, order, 1).max(1)
    lead = found[:, summary.names.index("relative lead")]
    np.testing.assert_allclose(
        lead[outside], (relative[:, 2] - best)[outside], rtol=1e-5, atol=1e-5
    )


# --- agreement with grades -------------------------------------------------------------


def grades(seed: int, items: int, levels: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.integers(1, levels + 1, (items, 3))
    measure = np.round(scores.mean(1) + rng.normal(size=items), 1)  # with ties
    return measure, scores, rng.integers(0, max(2, items // 4), items)


@settings(deadline=None)
@given(seeds, st.integers(3, 60), st.integers(2, 5))
def test_tau_c_is_that_of_scipy(seed, items, levels):
    measure, scores, _ = grades(seed, items, levels)
    expected = kendalltau(np.repeat(measure, 3), scores.ravel(), variant="c").statistic
    assert kendall_tau_c(measure, scores) == pytest.approx(expected, nan_ok=True)


@settings(deadline=None)
@given(seeds, st.integers(8, 60))
def test_auroc_is_that_of_the_ranks(seed, items):
    measure, scores, groups = grades(seed, items)
    right = scores[:, 0] >= 3
    value, low, high = auroc_interval(measure, right, groups, draws=20)
    if right.all() or not right.any():
        assert np.isnan([value, low, high]).all()
    else:
        assert value == pytest.approx(auroc(measure[right], measure[~right]))


def test_intervals_are_those_of_redrawn_groups():
    measure, scores, groups = grades(5, 80)
    rng = np.random.default_rng(7)
    names = np.unique(groups)
    taus = []
    for _ in range(40):
        often = rng.multinomial(len(names), np.full(len(names), 1 / len(names)))
        rows = np.concatenate(
            [np.flatnonzero(groups == name) for name in np.repeat(names, often)]
        )
        repeated = np.repeat(measure[rows], 3), scores[rows].ravel()
        taus.append(kendalltau(*repeated, variant="c").statistic)
    found = tau_c_interval(measure, scores, groups, draws=40, seed=7)
    assert found[0] == kendall_tau_c(measure, scores)
    assert found[1:] == pytest.approx(tuple(np.quantile(taus, (0.025, 0.975))))
    assert found == tau_c_interval(measure, scores, groups, draws=40, seed=7)
    assert found != tau_c_interval(measure, scores, groups, draws=40, seed=8)


def test_a_measure_that_is_the_grade_agrees_wholly():
    scores = np.repeat(np.arange(1, 5), 5)[:, None]
    assert kendall_tau_c(scores[:, 0], scores) == pytest.approx(1)
    assert kendall_tau_c(-scores[:, 0], scores) == pytest.approx(-1)
    assert np.isnan(kendall_tau_c(np.ones(20), scores))


# --- people ----------------------------------------------------------------------------

ENTRY = {"image": "a.jpg", "caption_of": "b.jpg", "caption_idx": 1, "scores": [1, 2, 4]}


def written(folder: Path, content: Any) -> Path:
    path = folder / "judged.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_pairs_are_found_by_their_positions(tmp_path):
    entries = [
        ENTRY,
        {**ENTRY, "image": "b.jpg", "scores": [4, 4, 1]},
        {**ENTRY, "image": "elsewhere.jpg"},
        {**ENTRY, "caption_of": "elsewhere.jpg"},
        {**ENTRY, "caption_idx": 2},
        {**ENTRY, "caption_of": "a.jpg", "caption_idx": 0},
    ]
    judged = read_judgements(written(tmp_path, entries))
    assert len(judged) == 6
    # captions of a and b are mixed; b has two, at 0 and 3
    found = judged.within(["a.jpg", "b.jpg"], np.array([1, 0, 0, 1]))
    assert found.image.tolist() == [0, 1, 0]
    assert found.text.tolist() == [3, 3, 1]
    assert found.own.tolist() == [False, True, True]
    assert found.scores.tolist() == [[1, 2, 4], [4, 4, 1], [1, 2, 4]]
    assert found.called(4).tolist() == [False, True, False]
    assert found.called(2).tolist() == [True, True, True]


def test_what_is_wrong_with_a_file_of_judgements_is_named(tmp_path):
    def told(content: Any) -> str:
        path = written(tmp_path, content)
        return sentence(lambda: read_judgements(path)).replace(str(path), "FILE")

    assert told({"a": 1}) == (
        "The file 'FILE' holds an object. Expected a JSON list. Check that it is the right "
        "file."
    )
    assert told("[1,") == (
        "The file 'FILE' is not JSON at line 1, column 4 (Expecting value). Expected a JSON "
        "list. Download or write it again."
    )
    assert told([]) == (
        "There are no judged pairs in 'FILE'. Expected at least one. Download or write it "
        "again."
    )
    assert told([ENTRY, {"image": "a.jpg"}]) == (
        "'caption_of' is missing at [1] of 'FILE'. Expected a string. Correct the file."
    )
    assert told([{**ENTRY, "scores": [1, 5]}]) == (
        "The scores at [0] of 'FILE' are [1, 5]. Expected whole numbers from 1 to 4, one per "
        "person. Correct the file."
    )
    assert told([{**ENTRY, "caption_idx": -1}]) == (
        "The caption at [0] of 'FILE' has number '-1'. Expected 0 or more. Correct the file."
    )
    assert told([ENTRY, {**ENTRY, "scores": [1]}]) == (
        "There are 1 scores at [1] of 'FILE' and 3 at the first pair. Expected as many for "
        "every pair. Correct the file."
    )


def test_judgements_that_are_missing_or_of_another_split_are_named(tmp_path):
    missing = tmp_path / "none.json"
    assert sentence(lambda: read_judgements(missing)) == (
        f"The file '{missing}' is missing. Expected it as part of the dataset. Download or "
        "copy it there."
    )
    judged = read_judgements(written(tmp_path, [ENTRY]))
    assert sentence(lambda: judged.within(["c.jpg"], np.array([0]))) == (
        "None of the 1 judged pairs is in this split, which has 1 images. Expected "
        "judgements of the same dataset and split. Check which split was judged."
    )


def scored_pairs(seed: int = 0, images: int = 30) -> dict:
    """A split with one caption per image, seen by two views that know a little."""
    draw = torch.Generator().manual_seed(seed)
    noise = torch.randn(2, images, images, generator=draw)
    similarity = (0.15 * torch.eye(images) + 0.1 * noise).numpy()
    bank = (0.1 * torch.randn(2, 40, images, generator=draw)).numpy()
    usual = Background.from_scores([bank], 0.05)
    return ScoredQueries.both(similarity, np.arange(images), images=usual, texts=usual)


def judged_pairs(seed: int = 0, images: int = 30, pairs: int = 90) -> JudgedPairs:
    rng = np.random.default_rng(seed)
    image, text = rng.integers(0, images, (2, pairs))
    own = image == text
    scores = np.where(own[:, None], 4, rng.integers(1, 5, (pairs, 3)))
    return JudgedPairs(image, text, own, scores)


def fitted(scored: ScoredQueries) -> Probability:
    features, right = [], []
    summary, order = summarise(scored.asked())
    features = describe(summary)[:, :10].reshape(-1, len(summary.names))
    right = np.take_along_axis(scored.match, order[:, :10], 1).ravel()
    groups = np.repeat(np.arange(len(order)), 10)
    return fit_probability("right", summary.names, features, right, 30, groups, (0.03,))


def test_a_pair_has_the_similarity_belief_and_trust_of_its_candidate():
    scored, judged = scored_pairs(), judged_pairs()
    probability = {query: fitted(one) for query, one in scored.items()}
    found = pair_measures(scored, judged, probability)
    together = scored["image"].similarity.mean(0)
    for pair in range(0, len(judged), 7):
        image, text = int(judged.image[pair]), int(judged.text[pair])
        assert found["similarity"][pair] == pytest.approx(float(together[image, text]))
        evidence = np.exp(together / 0.05)
        share = evidence[image, text] / (evidence[:, text].sum() + len(together))
        assert found["belief, text query"][pair] == pytest.approx(float(share), rel=1e-4)
        share = evidence[image, text] / (evidence[image].sum() + len(together))
        assert found["belief, image query"][pair] == pytest.approx(float(share), rel=1e-4)
        summary, order = summarise(scored["text"].asked(np.array([text])))
        place = int(np.flatnonzero(order[0] == image)[0])  # all 30 are shown
        stated = probability["text"](describe(summary)[:, place], 30)
        assert found["calibrated trust, text query"][pair] == pytest.approx(float(stated[0]))


def test_study_of_people_has_its_numbers(tmp_path):
    scored, judged = scored_pairs(), judged_pairs()
    probability = {query: fitted(one) for query, one in scored.items()}
    study = human_study(scored, judged, probability, draws=30)
    measures = pair_measures(scored, judged, probability)
    assert study["pairs"] == 90 and study["foreign"]["pairs"] == 90 - judged.own.sum()
    assert study["queries"] == len(set(judged.text.tolist()))
    assert study["images"] == len(set(judged.image.tolist()))
    strict = [sorted(row)[1] == 4 for row in judged.scores.tolist()]
    assert study["called_right"]["strict"] == sum(strict)
    for name, values in measures.items():
        right = np.array(strict)
        assert study["auroc"][name][0] == pytest.approx(auroc(values[right], values[~right]))
        tau = kendalltau(
            np.repeat(values[~judged.own], 3), judged.scores[~judged.own].ravel(), variant="c"
        )
        assert study["foreign"]["kendall_tau_c"][name][0] == pytest.approx(tau.statistic)
        low, value, high = (study["auroc"][name][place] for place in (1, 0, 2))
        assert low <= value <= high
    assert json.loads(json.dumps(study)) == study


def test_wrong_but_fitting_answers_by_a_plain_loop():
    scored, judged = scored_pairs(), judged_pairs(pairs=400)
    first = is_first(scored["text"], "text", judged)
    together = scored["text"].asked().together
    called, values = [], []
    similarity = pair_measures(scored, judged, {})["similarity"]
    for pair in range(len(judged)):
        image, text = int(judged.image[pair]), int(judged.text[pair])
        best = int(together[text].argmax())
        assert first[pair] == (best == image)
        if best == image and image != text:
            called.append(sorted(judged.scores[pair].tolist())[1] == 4)
            values.append(similarity[pair])
    marked, numbers = np.array(called), np.array(values)
    assert marked.any() and not marked.all()
    found = wrong_but_fitting(judged, first, {"similarity": similarity}, draws=50)
    assert found["n"] == [marked.sum(), (~marked).sum()]
    assert found["measure"] == "similarity"
    assert found["trust when people call it right"] == pytest.approx(numbers[marked].mean())
    assert found["when they call it wrong"] == pytest.approx(numbers[~marked].mean())
    assert found["auroc"][0] == pytest.approx(auroc(numbers[marked], numbers[~marked]))
    study = human_study(scored, judged, draws=0)
    assert study["wrong_but_fitting"]["n"] == found["n"]
    assert study["wrong_but_fitting"]["auroc"][1:] == [None, None]
    assert set(study["wrong_but_fitting"]["baselines"]) == {"belief", "1 - u"}
    assert sum(study["wrong_but_fitting"]["lenient"]["n"]) == sum(found["n"])


def test_nothing_is_made_up_where_no_wrong_answer_was_judged():
    judged = judged_pairs()
    nothing = np.zeros(len(judged), bool)
    found = wrong_but_fitting(judged, nothing, {"x": np.zeros(len(judged))})
    assert found["n"] == [0, 0] and found["auroc"] is None
    assert found["trust when people call it right"] is None


# --- domains ---------------------------------------------------------------------------


def test_domains_are_told_apart_as_far_as_their_measures_differ():
    usual = {"u": np.array([0.1, 0.2, 0.3]), "spread": np.array([1.0, 2.0, 3.0])}
    far = {"u": np.array([0.5, 0.6]), "spread": np.array([2.0, 2.0])}
    found = tell_apart(usual, {"far": far, "near": {"u": np.array([0.25])}})
    assert found["u"] == {"far": 1.0, "near": pytest.approx(2 / 3)}
    assert found["spread"] == {"far": 0.5}


def test_measures_that_cannot_be_compared_are_named():
    usual = {"u": np.ones(3)}
    assert sentence(lambda: tell_apart(usual, {"coco": {"spread": np.ones(2)}})) == (
        "The queries called 'coco' have the measures 'spread' and the usual ones 'u'. "
        "Expected at least one that both have."
    )
    broken = {"u": np.array([1.0, np.nan])}
    assert sentence(lambda: tell_apart(usual, {"coco": broken})) == (
        "The measure 'u' of the queries called 'coco' holds NaN. Expected a number for each "
        "of them; leave the measure out."
    )
    assert sentence(lambda: tell_apart({"u": np.ones(0)}, {"coco": usual})) == (
        "The measure 'u' of the queries called 'usual' is of no query. Expected a number "
        "for each of them; leave the measure out."
    )


def test_foreign_captions_and_images_ask_in_this_gallery(split, table):
    model = toy_model()
    foreign = TokenTable.from_captions(Numbered(), ["1 2", "5 6 7 8 9"])
    scores = score_views(model.views, split, foreign, "cpu")
    asked = ask(model, "text", split, foreign)
    assert asked.own == 1 and asked.tau == TAU
    assert asked.similarity.shape == (2, 2, IMAGES)
    np.testing.assert_array_equal(asked.similarity[1].T, scores[1])
    assert float(asked.similarity[0, 0, 0]) == pytest.approx(np.sqrt(0.5))
    fewer = replace(split, image_ids=split.image_ids[:3], rows=split.rows[:3])
    back = ask(model, "image", fewer, table)
    assert back.own == 0 and back.similarity.shape == (2, 3, IMAGES)


def test_features_and_captions_made_for_another_model_are_refused(split, table):
    model = toy_model()
    model.visual = {**model.visual, "dim": 7}
    assert sentence(lambda: ask(model, "text", split, table), BadFeatures) == (
        "The features of the split have 48 numbers per part. Expected 7, as the model was "
        "trained with; extract them with its backbone."
    )
    other = replace(table, size=9)
    assert sentence(lambda: ask(toy_model(), "text", split, other)) == (
        "The captions were numbered by a tokeniser of 9 numbers. Expected the model's own, "
        "of 50; make the table with `TokenTable.from_captions(model.tokeniser, captions)`."
    )


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_one_gallery_for_queries_with_and_without_a_match(seed):
    images = 9
    image_of = np.repeat(np.arange(images), 2)
    # what a similarity is of can be read from it
    code = torch.arange(images)[:, None] * 100 + torch.arange(2 * images)[None]
    usual = Background.from_scores(
        [np.tile(np.arange(images, dtype=np.float32), (1, 4, 1))], 1.0
    )
    scored = ScoredQueries.both(code[None].float().numpy(), image_of, images=usual)["text"]
    present, absent = with_and_without(scored, seed)
    assert present.similarity.shape == (1, 8, 4) and absent.similarity.shape == (1, 10, 4)
    gallery = (present.similarity[0, 0] // 100).astype(int)
    for asked, held in ((present, True), (absent, False)):
        texts = (asked.similarity[0, :, 0] % 100).astype(int)
        assert (np.isin(image_of[texts], gallery) == held).all()
        assert asked.background is not None
        assert (asked.background.mean[0].astype(int) == gallery).all()


def test_a_gallery_that_cannot_be_halved_is_named():
    scored = ScoredQueries(np.zeros((1, 2, 2), np.float32), np.ones((2, 2), bool))
    assert sentence(lambda: with_and_without(scored)) == (
        "All candidates belong together. Expected at least two that share no query, to leave "
        "one of them out."
    )


# --- relevance -------------------------------------------------------------------------

CAPTIONS = {
    "0.jpg": ["A brown dog runs on the beach.", "The dog is near a boat."],
    "1.jpg": ["Two brown dogs on a couch.", "A couch with a dog."],
    "2.jpg": ["A brown dog sits by a white boat."],
    "3.jpg": ["A picture of a boat; a white boat in the water."],
    "4.jpg": ["A brown horse; a dog."],
}


def short_split() -> Split:
    counts = [len(listed) for listed in CAPTIONS.values()]
    captions = tuple(caption for listed in CAPTIONS.values() for caption in listed)
    return Split(tuple(CAPTIONS), captions, np.repeat(np.arange(len(counts)), counts))


def named() -> Split:
    return Split(("0.jpg",), ("A small fire hydrant.",), np.zeros(1, np.int64))


def test_object_names_match_the_photographs_that_hold_them():
    held = {
        "0.jpg": ["dog", "boat"],
        "1.jpg": ["dog", "apple", "skis"],
        "elsewhere.jpg": ["zebra"],
    }
    plain, spoken = object_names(short_split(), held)
    assert plain.queries == ("apple", "boat", "dog", "skis")  # the zebra is nowhere
    assert spoken.queries == ("an apple", "a boat", "a dog", "some skis")
    assert plain.match.tolist() == [
        [False, True, False, False, False],
        [True, False, False, False, False],
        [True, True, False, False, False],
        [False, True, False, False, False],
    ]
    np.testing.assert_array_equal(plain.match, spoken.match)
    assert (plain.style, spoken.style) == ("object name", "a and object name")


def test_phrases_match_what_captions_say_in_any_order():
    found = phrases(short_split(), ["dog", "boat"], at_least=2)
    assert found.queries == ("brown dog", "white boat")
    # "Two brown dogs" says it too; "a brown horse; a dog" has all its words
    assert found.match.tolist() == [
        [True, True, True, False, True],
        [False, False, True, True, False],
    ]
    assert phrases(short_split(), ["dog", "boat"], at_least=2, most=1).queries == ("brown dog",)


def test_no_phrase_holds_a_mark_or_the_half_of_a_name_or_a_word_for_the_picture():
    found = phrases(short_split(), ["dog", "boat", "horse"], at_least=1)
    assert "picture of a boat" not in found.queries
    assert "horse a dog" not in found.queries and "brown horse" in found.queries
    assert "small fire" not in phrases(named(), ["fire hydrant", "fire"], at_least=1).queries
    assert all(row.any() for row in found.match)
    assert all(2 <= len(query.split()) <= 4 for query in found.queries)


def test_phrases_of_the_same_words_are_one_query():
    captions = ("A man and a woman.", "A woman and a man.", "Two women; a man and a woman.")
    split = Split(("0.jpg", "1.jpg", "2.jpg"), captions, np.arange(3))
    found = phrases(split, ["man", "woman"], at_least=1)
    assert found.queries == ("man and a woman",)
    assert found.match.tolist() == [[True, True, True]]
    assert phrases(split, ["man", "woman"], at_least=4).match.shape == (0, 3)


def test_nouns_are_known_by_where_they_stand():
    captions = [caption.split() for caption in ["a big dog runs on a boat"] * 5]
    assert noun_like(captions) == {"boat"}
    captions = [caption.split() for caption in ["the dog on a big boat"] * 5]
    assert noun_like(captions) == {"dog"}
    assert noun_like(captions[:4]) == set()


def test_query_sets_are_the_same_every_time_and_need_their_file(tmp_path, monkeypatch):
    held = {"0.jpg": ["dog"], "3.jpg": ["boat"]}
    first, again = (query_sets(short_split(), held, at_least=1) for _ in range(2))
    assert [one.queries for one in first] == [one.queries for one in again]
    styles = ["caption", "object name", "a and object name", "phrase"]
    assert [one.style for one in first] == styles
    (tmp_path / "coco").mkdir()
    monkeypatch.setenv("AVOW_DATA", str(tmp_path))
    assert sentence(lambda: query_sets(short_split())) == (
        f"The file '{tmp_path}/coco/objects_dev.json' is missing. Expected it as part of "
        "the dataset. Download or copy it there."
    )
    path = tmp_path / "coco" / "objects_dev.json"
    path.write_text('{"0.jpg": ["dog", 3]}')
    assert sentence(lambda: query_sets(short_split())) == (
        f"'0.jpg' holds a number at its top level of '{path}'. Expected strings only. "
        "Correct the file."
    )
    assert sentence(lambda: object_names(short_split(), {"9.jpg": ["dog"]})) == (
        "None of the 1 images with objects is in the split, which has 5 images. Expected "
        "objects of the same images. Check which split they are of."
    )


# --- the real ones ---------------------------------------------------------------------


def real(name: str, file: str) -> Path:
    home = data_home()
    if home is None or not (home / name / file).is_file():
        pytest.skip(f"there is no {name}/{file} in the data home; set AVOW_DATA")
    return dataset_file(name, file)


@pytest.mark.data
def test_experts_judged_5822_pairs_of_flickr8k():
    judged = read_judgements(real("flickr8k", "expert_judgements.json"))
    split = opened_once("flickr8k").splits["test"]
    found = judged.within(split.image_ids, split.image_of)
    assert len(judged) == len(found) == 5822
    assert found.own.sum() == 158
    assert found.called(4).sum() == 311 and found.called(3).sum() == 829
    assert len(np.unique(found.text)) == 977 and len(np.unique(found.image)) == 1000
    # the third caption of each image is the one that was judged
    assert (found.text % 5 == 2).all()
    assert (split.image_of[found.text] == found.image).sum() == 158


@pytest.mark.data
def test_short_queries_of_coco_dev():
    objects = read_objects(real("coco", "objects_dev.json"))
    split = opened_once("coco").splits["dev"]
    whole, plain, spoken, phrase = query_sets(split)
    assert whole.queries == split.captions
    assert whole.match[np.arange(len(split.captions)), split.image_of].all()
    assert len(objects) == 891 and len(plain.queries) == len(spoken.queries) == 80
    for found in (whole, plain, spoken, phrase):
        assert found.match.shape == (len(found.queries), 894)
        assert found.match.any(1).all()
    assert plain.match[plain.queries.index("dog")].sum() == 32
    assert len(phrase.queries) > 200 and "fire hydrant" in phrase.queries
    hydrant = phrase.match[phrase.queries.index("fire hydrant")]
    said = np.zeros(894, bool)
    for caption, image in zip(split.captions, split.image_of, strict=True):
        words = caption.lower().replace(".", " ").replace(",", " ").split()
        said[image] |= "fire" in words and bool({"hydrant", "hydrants"} & set(words))
    np.testing.assert_array_equal(hydrant, said)
