"""Parity with the published systems, where their recorded numbers are found.

The recorded numbers lie beside the data (`oracles` next to the data folder).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from avow.assembly.published import fit, translate
from avow.assembly.published_checkpoint import read_checkpoint
from avow.assembly.recipe import Training
from avow.core.contracts import Lesson, Regions, Tokens
from avow.core.opinion import Opinion, dirichlet_risk, disagreement, kl_to_uniform
from avow.data.opening import data_home
from avow.losses import hinge, tcl
from avow.metrics.recall import ranks, summarise
from avow.training.batches import Batch
from avow.training.compare import Comparison
from avow.training.loop import Learner
from avow.training.optim import build_optimiser

pytestmark = pytest.mark.data


@pytest.fixture
def oracles() -> Path:
    home = data_home()
    folder = home.parent / "oracles" if home else None
    if folder is None or not folder.is_dir():
        pytest.skip("no recorded numbers of the published systems beside the data")
    return folder


def inputs(folder: Path) -> tuple[Regions, Tokens, np.ndarray]:
    found = np.load(folder / "inputs_small.npz")
    features = torch.from_numpy(found["images_f16"].astype(np.float32))
    regions = Regions(features, torch.ones(features.shape[:2], dtype=torch.bool))
    return regions, tokens(found["cap_ids"], found["cap_lens"]), found["train_cap_idx"]


def tokens(ids: np.ndarray, lengths: np.ndarray) -> Tokens:
    longest = int(lengths.max())
    count = torch.from_numpy(lengths.astype(np.int64))
    present = torch.arange(longest)[None] < count[:, None]
    return Tokens(torch.from_numpy(ids[:, :longest].astype(np.int64)), present)


def close(found: torch.Tensor, expected: np.ndarray, tolerance: float, name: str = ""):
    expected = torch.from_numpy(np.asarray(expected, np.float64))
    error = (found.detach().double().reshape(expected.shape) - expected).abs().max()
    assert error <= tolerance * expected.abs().max(), f"{name}: {error}"


SYSTEMS = ["tcl_VSE_infty_small", "tcl_VSE_small"]


def views_of(folder: Path, name: str, system: str):
    """The networks of a recorded checkpoint, as `avow import` brings them in."""
    published = read_checkpoint(folder / f"{name}_weights.pt")
    return fit(system, translate(system, published), published.options).views


def opinions(scores: torch.Tensor) -> dict[str, torch.Tensor]:
    opinion = Opinion.from_similarity(scores)
    return {
        "evidence": opinion.log_evidence.exp(),
        "u_i2t": opinion.uncertainty,
        "u_t2i": Opinion.from_similarity(scores.T).uncertainty,
    }


def check_view(found: dict[str, torch.Tensor], out, label: str, tolerance: float):
    for name, value in found.items():
        close(value, out[label.format(name)], tolerance, label.format(name))


def check_views(views, folder, out, prefix: str, tolerance: float):
    regions, text, _ = inputs(folder)
    for number, view in enumerate(views):
        view.eval()
        visual, words = view.encode_visual(regions), view.encode_text(text)
        scores = view.similarity(visual, words)
        found = {
            "img_emb": visual.parts[:, 0],
            "cap_emb": words.parts[:, 0],
            "sims": scores,
        }
        check_view(found | opinions(scores), out, f"{prefix}_{{}}_{number}", tolerance)


@pytest.mark.parametrize("name", SYSTEMS)
def test_tcl_views_and_losses(oracles, name):
    limits = json.loads((oracles / "tolerance.json").read_text())[name]
    out = np.load(oracles / f"{name}_out.npz")
    views = views_of(oracles, name, "tcl")
    check_views(views, oracles, out, "init", limits["start"])

    batch = training_batch(oracles)
    scores = [
        view.similarity(view.encode_visual(batch.visual), view.encode_text(batch.text))
        for view in views
    ]
    check_losses(scores, batch.lesson.match, out, limits["start"])


def check_losses(scores: list[torch.Tensor], match: torch.Tensor, out: Any, limit: float):
    """The losses of two views over one batch, both ways, and how far the views disagree."""
    opinions = []
    for number, seen in enumerate(scores):
        both = Opinion.from_similarity(seen), Opinion.from_similarity(seen.T)
        opinions.append(both)
        for side, opinion in zip(("i2t", "t2i"), both, strict=True):
            risk, kl = dirichlet_risk(opinion, match), kl_to_uniform(opinion.without(match))
            for weight in ("0", "0.005", "1"):
                label = f"evalmode_ce_{side}_{number}_lam{weight}"
                close(risk + float(weight) * kl, out[label], limit, label)
    for place, label in ((0, "v2t"), (1, "t2v")):
        gap = disagreement(opinions[1][place], opinions[0][place])
        close(gap, out[f"evalmode_consistency_{label}"], limit, label)


def training_batch(folder: Path, epoch: int = 0) -> Batch:
    regions, _, chosen = inputs(folder)
    found = np.load(folder / "inputs_small.npz")
    text = tokens(found["cap_ids"][chosen], found["cap_lens"][chosen])
    images = torch.from_numpy(found["train_img_idx"])
    visual = Regions(regions.features[images], regions.present[images])
    return Batch(visual, text, Lesson.paired(len(images), epoch, epoch, views=2))


@pytest.mark.parametrize("name", SYSTEMS)
def test_tcl_training_steps(oracles, name):
    """Epoch 0, then epoch 1 with its three agreement steps, end at the same scores."""
    limits = json.loads((oracles / "tolerance.json").read_text())[name]
    out = np.load(oracles / f"{name}_out.npz")
    views = views_of(oracles, name, "tcl")
    learner = learner_of(views, tcl.build())
    for epoch in (0, 1):
        value = learner.learn(training_batch(oracles, epoch))
        tolerance = limits["start"] if epoch == 0 else limits["after"]
        close(value, out["train_log_loss"][epoch], tolerance, "train_log_loss")
    check_views(views, oracles, out, "after2", limits["after"])


def learner_of(views, loss, settings: Training | None = None) -> Learner:
    settings = settings or Training(precision="fp32")
    optimiser = build_optimiser(views, settings)
    return Learner(Accelerator(cpu=True), Comparison(views), views, loss, optimiser, settings)


def test_vse_infinity_and_its_hinge(oracles):
    limits = json.loads((oracles / "tolerance.json").read_text())["vseinfty_bigru_small"]
    out = np.load(oracles / "vseinfty_bigru_small_out.npz")
    (view,) = views_of(oracles, "vseinfty_bigru_small", "vse_infty")
    learner = learner_of([view], hinge.build())
    regions, text, _ = inputs(oracles)

    def check(prefix: str, tolerance: float):
        view.eval()
        visual, words = view.encode_visual(regions), view.encode_text(text)
        close(visual.parts[:, 0], out[f"{prefix}_img_emb"], tolerance, "img_emb")
        close(words.parts[:, 0], out[f"{prefix}_cap_emb"], tolerance, "cap_emb")
        close(view.similarity(visual, words), out[f"{prefix}_sims"], tolerance, "sims")

    check("init", limits["start"])
    counts = torch.from_numpy(out["init_gpo_varlen_lengths"].astype(np.int64))
    present = torch.arange(36)[None] < counts[:, None]
    parts = view.visual(regions.features * present[..., None])
    close(view.visual_pool(parts, present), out["init_gpo_varlen_pooled"], limits["start"])
    table = view.visual_pool.weights(36, torch.device("cpu"))[counts - 1]
    close(table, out["init_gpo_varlen_weights"], limits["start"])
    for epoch in (0, 1):
        value = learner.learn(training_batch(oracles, epoch))
        tolerance = limits["start"] if epoch == 0 else limits["after"]
        close(value, out["train_loss"][epoch], tolerance, "train_loss")
    check("after2", limits["after"])


@pytest.mark.parametrize("kind", ["signal", "ties", "constant"])
def test_metrics(oracles, kind):
    out = np.load(oracles / "eval_metrics_out.npz")
    scores, owners = out[f"sims_{kind}"], np.repeat(np.arange(100), 5)
    found = ranks([scores], owners)
    theirs = out[f"i2t_ranks_{kind}"], out[f"t2i_ranks_{kind}"]
    ours = found.image_to_text - 1, found.text_to_image - 1
    if kind == "signal":
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
        recall = summarise(found)
        for side, name in (
            (recall.image_to_text, "i2t"),
            (recall.text_to_image, "t2i"),
        ):
            numbers = [*side.recalls, side.median_rank, side.mean_rank]
            np.testing.assert_allclose(numbers, out[f"{name}_metrics_{kind}"])
    else:  # a tie counts against us, so our ranks are never better than theirs
        assert (ours[0] >= theirs[0]).all() and (ours[1] >= theirs[1]).all()
