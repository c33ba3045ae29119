"""Parity of SAF and SGR with SGRAF, DECL and TCL, where their recorded numbers are found."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_oracles import (  # noqa: F401
    check_losses,
    check_view,
    close,
    inputs,
    learner_of,
    opinions,
    oracles,
    training_batch,
)

from avow import methods
from avow.assembly.evaluate_runs import log_mean_evidence
from avow.assembly.importing import sgraf
from avow.assembly.recipe import Training
from avow.core import folder
from avow.core.contracts import Encoded
from avow.core.opinion import Opinion
from avow.losses import hinge, tcl
from avow.methods._similarity_vectors import SimilarityVectors
from avow.metrics.recall import ranks

pytestmark = pytest.mark.data
STILL = {"dropout_word": 0.0, "dropout_image": 0.0, "dropout_head": 0.0}
KINDS = ["SAF", "SGR"]


def network(parts: list[dict[str, torch.Tensor]], options: dict) -> SimilarityVectors:
    found = sgraf.translate({"model": parts}, options)
    settings = {key: value for key, value in found.method.items() if key != "name"}
    view = folder.build(methods, found.method["name"], **settings, **STILL)
    view.load_state_dict(found.views[0])
    return view.eval()


def opened(folder: Path, name: str) -> tuple[list[SimilarityVectors], Any, dict]:
    """The networks with their starting weights, what was recorded, and the tolerance."""
    state = torch.load(folder / f"{name}_weights.pt", weights_only=True)
    models = state["models"] if "models" in state else [state["model"]]
    limits = json.loads((folder / "tolerance.json").read_text())[name]
    views = [network(parts, state["opt"]) for parts in models]
    return views, np.load(folder / f"{name}_out.npz"), limits


def encoded(view: SimilarityVectors, folder: Path) -> tuple[Encoded, Encoded]:
    regions, text, _ = inputs(folder)
    view.eval()
    return view.encode_visual(regions), view.encode_text(text)


def batch_scores(view: SimilarityVectors, folder: Path) -> torch.Tensor:
    batch = training_batch(folder)
    return view.score(view.encode_visual(batch.visual), view.encode_text(batch.text))


@pytest.mark.parametrize("kind", KINDS)
def test_sgraf(oracles, kind):  # noqa: F811
    """Parts, similarities and losses; then the same after a step of Adam."""
    (view,), out, limits = opened(oracles, f"sgraf_{kind}_small")
    visual, text = encoded(view, oracles)
    close(visual.parts[:, 1:], out["img_emb"], limits["start"], "img_emb")
    close(text.parts[:, 1:], out["cap_emb"], limits["start"], "cap_emb")
    close(view.similarity(visual, text), out["init_sims"], limits["start"], "init_sims")
    sims = batch_scores(view, oracles).sigmoid()
    close(sims, out["batch_sims_eval"], limits["start"], "batch_sims_eval")
    lesson = training_batch(oracles).lesson
    for loss, label in ((hinge.build(warm_up=0), "max"), (hinge.build(hardest=False), "sum")):
        (value,) = loss.steps(lambda: [sims], lesson)
        close(value, out[f"hinge_{label}"], limits["start"], label)

    settings = Training(precision="fp32", optimiser="adam", lr=2e-4, weight_decay=0.0)
    learner = learner_of([view], hinge.build(warm_up=0), settings)
    value = learner.learn(training_batch(oracles))
    close(value, out["train_loss"], limits["start"], "train_loss")
    close(view.similarity(*encoded(view, oracles)), out["after1_sims"], limits["after"])


@pytest.mark.parametrize("kind", KINDS)
def test_decl_similarities(oracles, kind):  # noqa: F811
    (view,), out, limits = opened(oracles, f"decl_{kind}_small")
    check_decl(view, oracles, out, "init", limits["start"])
    scores = batch_scores(view, oracles)
    close(scores.tanh(), out["batch_tanh"], limits["start"], "batch_tanh")
    close(scores.sigmoid(), out["batch_sigmoid"], limits["start"], "batch_sigmoid")


def test_decl_sgraf_is_the_mean_of_the_evidence(oracles):  # noqa: F811
    """Of both networks together: the evidence, and the ranks it gives."""
    scores, recorded, limit = [], [], 0.0
    for kind in KINDS:
        (view,), out, limits = opened(oracles, f"decl_{kind}_small")
        with torch.no_grad():
            scores.append(view.similarity(*encoded(view, oracles)).numpy())
        recorded.append(out["init_evidence"])
        limit = max(limit, limits["start"])
    join = partial(log_mean_evidence, settings=[{"tau": 0.1, "kind": "exp"}] * 2)
    expected = np.mean(recorded, axis=0)
    close(torch.from_numpy(join(scores)).exp(), expected, limit, "mean evidence")
    image_of = np.arange(expected.shape[1]) // 5
    found, theirs = ranks(scores, image_of, join=join), ranks([expected], image_of)
    assert np.array_equal(found.image_to_text, theirs.image_to_text)
    assert np.array_equal(found.text_to_image, theirs.text_to_image)


def test_decl_after_its_training_steps(oracles):  # noqa: F811
    """Its weights and running statistics after two steps give its own similarities."""
    options = torch.load(oracles / "decl_SAF_small_weights.pt", weights_only=True)["opt"]
    parts = torch.load(oracles / "decl_SAF_small_after_step2.pt", weights_only=True)
    limits = json.loads((oracles / "tolerance.json").read_text())["decl_SAF_small"]
    out = np.load(oracles / "decl_SAF_small_out.npz")
    check_decl(network(parts, options), oracles, out, "after2", limits["start"])


def check_decl(view: SimilarityVectors, folder: Path, out: Any, prefix: str, limit: float):
    score = view.score(*encoded(view, folder))
    close(score.sigmoid(), out[f"{prefix}_sims_sigmoid"], limit, "sims_sigmoid")
    opinion = Opinion.from_similarity(score.tanh(), tau=0.1)
    close(opinion.log_evidence.exp(), out[f"{prefix}_evidence"], limit, "evidence")
    close(opinion.uncertainty, out[f"{prefix}_u_i2t"], limit, "u_i2t")
    back = Opinion.from_similarity(score.tanh().T, tau=0.1)
    close(back.uncertainty, out[f"{prefix}_u_t2i"], limit, "u_t2i")


def check_tcl(views, folder: Path, out: Any, prefix: str, limit: float):
    for number, view in enumerate(views):
        visual, text = encoded(view, folder)
        scores = view.similarity(visual, text)
        found = {
            "img_emb": visual.parts[:, 1:],
            "cap_emb": text.parts[:, 1:],
            "tanh": scores,
            "sims": view.score(visual, text).sigmoid(),
        }
        check_view(found | opinions(scores), out, f"{prefix}_{{}}_{number}", limit)


@pytest.mark.parametrize("kind", KINDS)
def test_tcl_views_and_losses(oracles, kind):  # noqa: F811
    views, out, limits = opened(oracles, f"tcl_{kind}_small")
    check_tcl(views, oracles, out, "init", limits["start"])
    match = training_batch(oracles).lesson.match
    scores = [batch_scores(view, oracles).tanh() for view in views]
    check_losses(scores, match, out, limits["start"])


def test_tcl_saf_training_steps(oracles):  # noqa: F811
    """Epoch 0, then epoch 1 with its three agreement steps: scores, weights, statistics."""
    views, out, limits = opened(oracles, "tcl_SAF_small")
    learner = learner_of(views, tcl.build())
    for epoch, limit in ((0, limits["start"]), (1, limits["after"])):
        value = learner.learn(training_batch(oracles, epoch))
        close(value, out["train_log_loss"][epoch], limit, "train_log_loss")
        check_state(views, oracles, epoch + 1)
    check_tcl(views, oracles, out, "after2", limits["after"])


def check_state(views, folder: Path, step: int):
    """Statistics are theirs, and so are the weights, but for a few in ten thousand.

    Those few have no gradient but rounding, of which Adam takes the sign. One of them is the
    bias before the normalisation of the gates, which their running mean includes and ours
    does not have: it starts at 0 and is off by no more than the learning rate a step.
    """
    saved = torch.load(folder / f"tcl_SAF_small_after_step{step}.pt", weights_only=True)
    steps = 1 if step == 1 else 5
    for view, parts in zip(views, saved, strict=True):
        theirs = sgraf.translate({"model": parts}, {"tau": 0.05}).views[0]
        gates = parts[2]["SAF_module.bn.running_mean"]
        limit = 1e-6 if step == 1 else 4 * 5e-4
        assert (view.head.norm.running_mean - gates).abs() <= limit
        apart = total = 0
        for name, tensor in view.state_dict().items():
            error = (tensor - theirs[name]).abs()
            if "running_var" in name:
                assert error.max() <= 1e-5 * theirs[name].abs().max(), name
            elif "tracked" not in name:
                assert error.max() <= steps * 1e-3, f"{name}: {error.max()}"
                apart += int((error > 1e-5).sum())
                total += error.numel()
        assert apart <= 0.002 * total


@pytest.mark.long  # steps of SAF are the same but for the network, whose scores are compared
def test_tcl_sgr_training_steps(oracles):  # noqa: F811
    """The losses of both epochs; the scores after them as far as they are determined.

    Some units of the graph stand at the kink of their ReLU for all pairs at once: starting
    weights disturbed by 1e-7, or the plain loop instead of our products, end up to 5 % of
    the largest score away. So the limit here is not that of rounding.
    """
    views, out, limits = opened(oracles, "tcl_SGR_small")
    learner = learner_of(views, tcl.build())
    for epoch, limit in ((0, 1e-6), (1, 1e-4)):
        value = learner.learn(training_batch(oracles, epoch))
        close(value, out["train_log_loss"][epoch], limit, "train_log_loss")
    for number, view in enumerate(views):
        visual, text = encoded(view, oracles)
        close(visual.parts[:, 1:], out[f"after2_img_emb_{number}"], limits["after"])
        close(text.parts[:, 1:], out[f"after2_cap_emb_{number}"], limits["after"])
        close(view.similarity(visual, text), out[f"after2_tanh_{number}"], 0.06)
