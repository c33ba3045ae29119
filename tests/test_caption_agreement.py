"""Pairs that fit besides the matches: how they are found, and what TCL makes of them."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from avow.core.contracts import Lesson
from avow.core.logistic import expit
from avow.losses.tcl import build
from avow.study.relevance_labels import agreement
from avow.training.caption_agreement import OFFSET, SLOPE, CaptionAgreement

ROOT = Path(__file__).parent.parent
IMAGE_OF = np.array([2, 0, 0, 1, 2, 0])  # one, two and three captions


def vectors(count: int = len(IMAGE_OF)) -> np.ndarray:
    drawn = np.random.default_rng(0).normal(size=(count, 8)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def test_fits_are_those_of_the_study_and_one_for_the_own_image():
    said, pairs = vectors(), torch.tensor([4, 0, 3, 1])
    found = CaptionAgreement(said, IMAGE_OF).fits(pairs)
    agreed = agreement(said, said, IMAGE_OF, 3)
    for row, first in enumerate(pairs.tolist()):
        for column, second in enumerate(pairs.tolist()):
            image = IMAGE_OF[first]
            stated = float(expit(SLOPE * agreed[second, image] + OFFSET))
            wanted = 1.0 if IMAGE_OF[second] == image else stated
            assert float(found[row, column]) == pytest.approx(wanted, abs=1e-5)


def test_the_curve_is_the_one_that_the_benchmark_fitted():
    kept = json.loads((ROOT / "benchmarks/results/labels.json").read_text("utf-8"))
    row = kept["rows"]["sentence vectors"]
    assert (SLOPE, OFFSET) == (round(row["slope"], 2), round(row["offset"], 2))


def risk(others: str, fits: torch.Tensor | None, scores: torch.Tensor) -> torch.Tensor:
    loss = build(others=others, agreement_steps=0, kl_rate=0.1)  # type: ignore[arg-type]
    lesson = dataclasses.replace(Lesson.paired(len(scores), epoch=3, views=2), fits=fits)
    return next(iter(loss.steps(lambda: (scores, scores), lesson)))


@pytest.fixture
def scores() -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.rand(5, 5, generator=draw, dtype=torch.float64).requires_grad_()


def test_a_pair_that_is_left_out_teaches_nothing_and_all_others_do(scores):
    fits = torch.eye(5, dtype=torch.float64)
    fits[0, 3] = 0.9
    risk("left_out", fits, scores).backward()
    assert scores.grad is not None
    assert scores.grad[0, 3] == 0
    assert (scores.grad != 0).sum() == 24


def test_a_graded_pair_is_learnt_and_a_wrong_one_is_not():
    scores = torch.zeros(5, 5, dtype=torch.float64, requires_grad=True)
    fits = torch.eye(5, dtype=torch.float64)
    fits[0, 3] = 0.9
    risk("graded", fits, scores).backward()
    assert scores.grad is not None
    assert scores.grad[0, 3] < 0 < scores.grad[0, 2]


@pytest.mark.parametrize("others", ["left_out", "graded"])
def test_where_nothing_else_fits_the_risk_is_the_plain_one(others, scores):
    plain = risk("wrong", None, scores)
    assert torch.allclose(risk(others, torch.eye(5, dtype=torch.float64), scores), plain)


def test_only_a_loss_that_asks_needs_to_know_what_fits():
    assert not build().needs_fits
    assert build(others="graded").needs_fits
