"""Shortlists that a method looks through, precision, subsets, and runs averaged."""

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import SIZES, SMALLER, regions, small_recipe, tokens, write_precomp
from test_cli import command
from test_training import run_recipe

from avow import methods
from avow.assembly import scores, two_stage
from avow.assembly.evaluate_runs import (
    EvaluationPlan,
    difference,
    judge_run,
    judge_together,
    judge_two_stage,
    log_mean_evidence,
)
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks, compare, similarity
from avow.assembly.two_stage import Items, pair_scores, pooled_scores, rerank
from avow.core import folder
from avow.core.contracts import Method, VectorMethod
from avow.core.errors import AvowError, BadData, UnknownName
from avow.data.subsets import images_in
from avow.metrics.recall import ranks

__all__ = ["command"]  # the fixture
EVERY = folder.names(methods)
LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=5)


@cache
def built(name: str, **chosen) -> Method:
    torch.manual_seed(0)
    smaller = {key: value for key, value in SMALLER.get(name, {}).items() if key != "smooth"}
    return folder.build(methods, name, **SIZES | smaller | chosen).eval()


@torch.no_grad()
def items(method: Method, images: list[int], texts: list[int]) -> Items:
    return Items(
        method,
        method.encode_visual(regions(images)),
        method.encode_text(tokens(texts)),
    )


@pytest.mark.parametrize("name", EVERY)
@settings(deadline=None, max_examples=6)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), LENGTHS, st.integers(0, 99))
def test_chosen_pairs_have_the_scores_of_the_matrix(name, images, texts, seed):
    made = items(built(name), images, texts)
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(len(images), size=9), rng.integers(len(texts), size=9)
    with torch.no_grad():
        matrix = made.view.similarity(made.visual, made.text).numpy()
    found = pair_scores(made, rows, columns, "cpu")
    np.testing.assert_allclose(found, matrix[rows, columns], rtol=1e-4, atol=2e-6)


def test_pairs_in_small_blocks_come_back_in_order(monkeypatch):
    monkeypatch.setitem(two_stage._BLOCK, "cpu", 2000)
    made = items(built("sgr"), [5, 3], [7, 1, 4, 2])
    rows, columns = np.array([1, 0, 1, 0, 1]), np.array([0, 3, 1, 0, 2])
    matrix = compare(made.view, made.visual, made.text, "cpu", Blocks())
    found = pair_scores(made, rows, columns, "cpu")
    np.testing.assert_allclose(found, matrix[rows, columns], rtol=1e-4, atol=2e-6)


IMAGE_OF = np.array([0, 0, 1, 2, 2, 3])


def plain_ranks(near, scores, k, own) -> list[int]:
    """Rows are queries: the k nearest, sorted again; then the others as they were."""
    found = []
    for query in range(len(near)):
        order = sorted(range(near.shape[1]), key=lambda item: -near[query, item])
        order = sorted(order[:k], key=lambda item: -scores[query, item]) + order[k:]
        wrong = 0
        for item in order:
            if own[query, item]:
                break
            wrong += 1
        found.append(wrong + 1)
    return found


@pytest.mark.parametrize("k", [1, 2, 3, 6, 50])
def test_shortlists_are_sorted_again_and_the_rest_stays_behind(k):
    made = items(built("scan"), [5, 3, 4, 2], [7, 4, 2, 6, 3, 5])
    near = np.random.default_rng(1).random((4, 6), np.float32)
    scores = compare(made.view, made.visual, made.text, "cpu", Blocks())
    own = IMAGE_OF[None] == np.arange(4)[:, None]
    found = rerank([made], near, IMAGE_OF, k, "cpu")
    assert found.ranks.image_to_text.tolist() == plain_ranks(near, scores, k, own)
    assert found.ranks.text_to_image.tolist() == plain_ranks(near.T, scores.T, k, own.T)
    assert found.pairs <= min(k, 6) * 4 + min(k, 4) * 6
    assert (found.pairs == 24) == (k >= 4)


def test_only_the_pairs_of_shortlists_are_compared(monkeypatch):
    made, seen = items(built("saf"), [5, 3, 4, 2], [7, 4, 2, 6, 3, 5]), []
    usual = made.view.pair_similarity

    def counted(visual, text):
        seen.append(len(visual.parts))
        return usual(visual, text)

    monkeypatch.setattr(made.view, "pair_similarity", counted)
    found = rerank([made], np.eye(4, 6, dtype=np.float32), IMAGE_OF, 1, "cpu")
    assert sum(seen) == found.pairs < 11


@pytest.mark.parametrize("name", EVERY)
def test_pooled_vectors_are_of_length_one_and_know_no_padding(name):
    method = built(name)
    made = items(method, [3, 5], [4, 7])
    for side in (made.visual, made.text):
        pooled = method.pooled(side)
        torch.testing.assert_close(pooled.norm(dim=-1), torch.ones(2))
        torch.testing.assert_close(method.pooled(side.resized(9)), pooled)
    mean = pooled_scores([made, made], Blocks())
    np.testing.assert_allclose(mean, pooled_scores([made], Blocks()), rtol=1e-5, atol=1e-6)


# --- precision --------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
@torch.no_grad()
def test_rounded_products_change_similarities_a_little(name):
    made = items(built(name), [5, 3, 4], [7, 4, 1])
    exact = similarity(made.view, made.visual, made.text, "fp32")
    rounded = similarity(made.view, made.visual, made.text, "bf16")
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0.02)
    assert torch.equal(rounded, exact) != made.view.takes_bf16
    assert torch.get_float32_matmul_precision() == "highest"
    compares_few = name in ("ce", "dive", "vsrn") or isinstance(made.view, VectorMethod)
    assert made.view.takes_bf16 or compares_few


@pytest.mark.parametrize("has", [True, False])
def test_a_processor_without_bfloat16_multiplies_rounded_numbers(monkeypatch, has):
    monkeypatch.setattr(scores, "multiplies_bf16", lambda device: has)
    made = items(built("saf"), [5, 3, 4], [7, 4, 1])
    rounded = scores.in_kind(made.visual, torch.bfloat16)
    assert rounded.parts.dtype == (torch.bfloat16 if has else torch.float32)
    assert torch.equal(rounded.parts.float(), made.visual.parts.bfloat16().float())
    assert not torch.equal(rounded.parts.float(), made.visual.parts)


def test_the_difference_counts_first_answers():
    exact = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.7]], np.float32)
    rounded = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.75]], np.float32)
    found = difference([rounded], [exact], np.array([0, 1, 0]))
    assert found["first_changed_image"] == 0.5 and found["first_changed_text"] == 0.0
    assert found["rsum"] == pytest.approx(-50.0)
    assert found["largest"] == pytest.approx(0.1, abs=1e-6)


# --- subsets ----------------------------------------------------------------------------


def test_people_are_found_by_whole_words_in_any_caption():
    captions = ["A Man runs.", "many dogs", "two dogs", "the kids' toys", "a manly horse"]
    found = images_in("human", captions, np.array([0, 0, 1, 2, 3]))
    assert found.tolist() == [0, 2]


def test_a_subset_without_images_says_so():
    with pytest.raises(BadData) as caught:
        images_in("human", ["a dog"], np.array([0]))
    assert str(caught.value) == (
        "No caption belongs to the subset 'human'. Expected a word such as 'boy' in at least "
        "one; leave --subset out for the whole split."
    )
    with pytest.raises(UnknownName, match=r"There is no 'humans' in subsets\. Did you mean"):
        images_in("humans", ["a dog"], np.array([0]))


# --- runs -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("runs")
    data = write_precomp(home / "toy_precomp")
    lines = (data / "test_caps.txt").read_text().splitlines()
    lines[10] += " with a man"  # image 2
    lines[37] += " and a girl"  # image 7
    (data / "test_caps.txt").write_text("\n".join(lines) + "\n")
    made = {}
    for name in ("vse_infty", "saf", "sgr"):
        content = small_recipe(data, epochs=1, batch=48)
        content["method"] |= {"name": name, **SMALLER.get(name, {})}
        if name == "saf":
            content["loss"] = {"name": "hinge"}
        made[name] = home / name
        run_recipe(content, made[name])
    return made


PLAN = EvaluationPlan(draws=0)


def test_several_runs_are_averaged(runs):
    both = judge_together([runs["saf"], runs["sgr"]], PLAN)
    assert [row.name for row in both.rows] == ["saf", "sgr", "all runs"]
    alone = [judge_run(runs[name], PLAN).best.recall for name in ("saf", "sgr")]
    assert [row.recall for row in both.rows[:2]] == alone
    model = {name: Model.from_pretrained(runs[name]) for name in ("saf", "sgr")}
    split = opened(runs)
    total = sum(
        one.similarity(split.regions(np.arange(24)), split.captions) for one in model.values()
    )
    expected = ranks([total.numpy()], split.image_of)
    assert both.best.recall.image_to_text.mean_rank == expected.image_to_text.mean()
    assert both.best.recall.text_to_image.mean_rank == expected.text_to_image.mean()


EVIDENCE = {
    "exp": math.exp,
    "relu": lambda x: max(0.0, x),
    "softplus": lambda x: math.log1p(math.exp(x)),
}


@pytest.fixture
def evidential(runs, tmp_path):
    """The runs of SAF and SGR as if other losses had made them."""

    def with_losses(**chosen) -> list[Path]:
        for name, loss in chosen.items():
            model = Model.from_pretrained(runs[name])
            model.recipe = replace(model.recipe, loss=loss)
            model.save_pretrained(tmp_path / name)
        return [tmp_path / name for name in chosen]

    return with_losses


def plain_mean_ranks(table: list[list[float]], image_of: np.ndarray) -> tuple[float, float]:
    """The mean rank of images among texts and back; a tie counts against the match."""
    to_text = []
    for image, row in enumerate(table):
        best = max(e for e, owner in zip(row, image_of, strict=True) if owner == image)
        wrong = (e for e, owner in zip(row, image_of, strict=True) if owner != image)
        to_text.append(1 + sum(e >= best for e in wrong))
    to_image = []
    for text, owner in enumerate(image_of):
        column = [row[text] for row in table]
        to_image.append(sum(e >= column[owner] for e in column))
    return sum(to_text) / len(to_text), sum(to_image) / len(to_image)


@pytest.mark.parametrize(
    "kinds",
    [
        ("exp", "exp"),
        ("relu", "softplus"),
        pytest.param(("exp", "relu"), marks=pytest.mark.long),
    ],
)
def test_the_evidence_of_runs_is_averaged_as_by_a_plain_loop(runs, evidential, kinds):
    """Each has its own tau: DECL's default, and one that the recipe of TCL names."""
    given = evidential(
        saf={"name": "decl", "evidence": kinds[0]},
        sgr={"name": "tcl", "evidence": kinds[1], "tau": 0.02},
    )
    found = judge_together(given, PLAN, average="evidence")
    alike = judge_together(given, PLAN)
    split = opened(runs)
    each = [
        Model.from_pretrained(run).similarity(split.regions(np.arange(24)), split.captions)
        for run in given
    ]
    table = [
        [
            (EVIDENCE[kinds[0]](float(one) / 0.1) + EVIDENCE[kinds[1]](float(two) / 0.02)) / 2
            for one, two in zip(*rows, strict=True)
        ]
        for rows in zip(*each, strict=True)
    ]
    recall = found.best.recall
    ours = (recall.image_to_text.mean_rank, recall.text_to_image.mean_rank)
    assert ours == pytest.approx(plain_mean_ranks(table, split.image_of), rel=1e-12)
    assert found.best.name == "all runs, evidence" and recall != alike.best.recall
    assert [row.recall for row in found.rows[:2]] == [row.recall for row in alike.rows[:2]]
    assert found.about["average"] == "evidence"
    assert found.about["evidence_settings"] == [
        {"tau": 0.1, "kind": kinds[0]},
        {"tau": 0.02, "kind": kinds[1]},
    ]


def test_evidence_is_averaged_in_folds_as_well(runs, evidential):
    given = evidential(saf={"name": "decl"}, sgr={"name": "tcl"})
    whole = judge_together(given, PLAN, average="evidence")
    folded = judge_together(given, replace(PLAN, fold=24), average="evidence")
    assert folded.best.recall == whole.best.recall


def test_mean_evidence_that_does_not_fit_keeps_its_order():
    """exp(0.9 / 0.001) fits in no float; steps of a similarity near 1 stay steps."""
    near = np.float32(1) - np.arange(4, dtype=np.float32)[None] * np.float32(2**-24)
    assert len(np.unique(near)) == 4
    sharp, usual = {"tau": 0.001, "kind": "exp"}, {"tau": 0.05, "kind": "exp"}
    found = log_mean_evidence([near, near], [sharp, usual])
    assert np.isfinite(found).all() and (np.diff(found) < 0).all()
    twice = log_mean_evidence([near, near], [usual, usual])
    np.testing.assert_allclose(twice, near.astype(np.float64) / 0.05, rtol=1e-12)


def test_runs_without_evidence_have_none_to_average(runs):
    with pytest.raises(BadData) as caught:
        judge_together([runs["sgr"], runs["saf"]], PLAN, average="evidence")
    assert str(caught.value) == (
        f"The run {str(runs['saf'])!r} has the loss 'hinge', which learns no evidence. "
        "Expected one that does, such as 'decl' or 'tcl'; leave --average out to average "
        "similarities."
    )


def test_the_command_averages_evidence(runs, evidential, command):
    given = evidential(saf={"name": "decl"}, sgr={"name": "tcl"})
    code, out, _ = command(
        *("evaluate", *given, "--average", "evidence", "--device", "cpu", "--draws", 0)
    )
    assert code == 0 and "all runs, evidence  |" in out
    assert "all runs: mean of their evidence (exp at tau 0.1, exp at tau 0.05)" in out
    assert command("evaluate", given[0], "--average", "evidence")[0] == 2


def opened(runs) -> FeaturedSplit:
    return PLAN.open(Model.from_pretrained(runs["sgr"]))[1]


def test_two_stages_with_everything_on_the_shortlist_lose_nothing(runs):
    found = judge_two_stage(runs["sgr"], 120, None, PLAN)
    assert [row.name for row in found.rows] == [
        "every pair",
        "shortlist alone",
        "shortlist of 120",
    ]
    assert found.rows[0].recall == found.rows[2].recall
    assert found.rows[0].recall == judge_run(runs["sgr"], PLAN).best.recall
    assert found.about["two_stage"]["rsum_lost"] == 0
    assert found.about["two_stage"]["share"] == 1


def test_the_command_tells_what_shortlists_lose(runs, command):
    code, out, _ = command(
        *("evaluate", runs["sgr"], "--two-stage", 5, "--shortlist", runs["vse_infty"]),
        *("--device", "cpu", "--draws", 0, "--json"),
    )
    found = json.loads(out)
    stages = found["about"]["two_stage"]
    lost = found["rows"][0]["rsum"] - found["rows"][2]["rsum"]
    assert code == 0 and stages["rsum_lost"] == pytest.approx(lost)
    assert stages["pairs"] <= 5 * (24 + 120) and 0 < stages["share"] < 0.26
    code, out, _ = command(
        "evaluate", runs["sgr"], "--two-stage", 5, "--device", "cpu", "--draws", 0
    )
    assert "shortlists of 5 by pooled parts: " in out and "rSum lost " in out


def test_a_run_of_parts_makes_no_shortlist(runs):
    with pytest.raises(AvowError, match="has the method 'saf', which compares parts"):
        judge_two_stage(runs["sgr"], 5, runs["saf"], PLAN)


def test_the_command_takes_a_subset_and_a_precision(runs, command):
    code, out, _ = command(
        *("evaluate", runs["sgr"], "--subset", "human", "--precision", "bf16"),
        *("--against-fp32", "--device", "cpu", "--draws", 0),
    )
    assert code == 0
    assert "2 images, 10 texts, whole split, subset human" in out
    assert "bf16 against fp32: rSum " in out
    assert command("evaluate", runs["sgr"], "--two-stage", 5, "--fold", 8)[0] == 2
    assert command("evaluate", runs["sgr"], "--shortlist", runs["vse_infty"])[0] == 2
    assert command("evaluate", runs["saf"], runs["sgr"], "--against-fp32")[0] == 2
