"""Parity of SCAN and IMRAM with the published systems, where their numbers are found."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from test_oracles import close, inputs, oracles, training_batch

from avow import losses, methods
from avow.assembly.importing import imram, scan
from avow.assembly.recipe import Training
from avow.assembly.translated import Translated
from avow.core import folder
from avow.core.contracts import Method
from avow.methods._partwise import Partwise
from avow.methods.imram import RecurrentAttention
from avow.training.compare import Comparison
from avow.training.loop import Learner
from avow.training.optim import build_optimiser

pytestmark = pytest.mark.data
__all__ = ["oracles"]  # the fixture
SCAN = [f"scan_{way}_{how}" for way in ("t2i", "i2t") for how in ("LogSumExp", "Mean")]
# Their numbers are all compared in test_parity.py too, as a user's import gives them.
IMRAM = [
    pytest.param("imram_full_IMRAM", marks=pytest.mark.long),
    pytest.param("imram_full_IMRAM_nonorm", marks=pytest.mark.long),
    "imram_image_IMRAM",
    "imram_text_IMRAM",
    pytest.param("imram_text_IMRAM_nonorm", marks=pytest.mark.long),
]


def opened(folder_: Path, name: str, module: Any) -> tuple[dict, Any, Translated]:
    """Tolerances, recorded numbers, and the published weights under our names."""
    limits = json.loads((folder_ / "tolerance.json").read_text())[f"{name}_small"]
    published = torch.load(folder_ / f"{name}_small_weights.pt", weights_only=True)
    options = published.pop("opt")
    found = module.translate(published, options)
    return limits, np.load(folder_ / f"{name}_small_out.npz"), found


def method_of(found: Translated) -> Partwise:
    """With the published range of scores, for which the published margin was chosen."""
    settings = {key: value for key, value in found.method.items() if key != "name"}
    method = folder.build(methods, found.method["name"], **settings, squash="none")
    method.load_state_dict(found.views[0])
    return method.eval()


def learn(method: Method, found: Translated, batch: Any) -> torch.Tensor:
    """One step of Adam as published; the loss before it."""
    settings = Training(optimiser="adam", lr=2e-4, weight_decay=0.0, clip=2.0, precision="fp32")
    chosen = {key: value for key, value in found.loss.items() if key != "name"}
    loss = folder.build(losses, found.loss["name"], **chosen)
    optimiser = build_optimiser([method], settings)
    device = Accelerator(cpu=True)
    learner = Learner(device, Comparison([method]), [method], loss, optimiser, settings)
    return learner.learn(batch)


@pytest.mark.parametrize("name", SCAN)
def test_scan(oracles, name):
    limits, out, found = opened(oracles, name, scan)
    method = method_of(found)
    regions, text, _ = inputs(oracles)
    visual, words = method.encode_visual(regions), method.encode_text(text)
    close(visual.parts, out["img_emb"], limits["start"], "img_emb")
    close(words.parts, out["cap_emb"], limits["start"], "cap_emb")
    close(method.score(visual, words), out["init_sims"], limits["start"], "init_sims")
    value = learn(method, found, training_batch(oracles))
    close(value, out["train_loss"][0], limits["start"], "train_loss")
    method.eval()
    scores = method.score(method.encode_visual(regions), method.encode_text(text))
    close(scores, out["after1_sims"], limits["after"], "after1_sims")


@pytest.mark.parametrize("name", IMRAM)
def test_imram(oracles, name):
    limits, out, found = opened(oracles, name, imram)
    method = method_of(found)
    check_imram(method, oracles, out, "init", limits["start"])
    batch = training_batch(oracles)
    close(gradient_norm(method, batch), out["train_gradnorm"], limits["start"], "gradient")
    value = learn(method, found, batch)
    close(value, out["train_loss"], limits["start"], "train_loss")
    check_imram(method.eval(), oracles, out, "after1", limits["after"])


def check_imram(method: Partwise, oracles: Path, out: Any, prefix: str, tolerance: float):
    regions, text, _ = inputs(oracles)
    visual, words = method.encode_visual(regions), method.encode_text(text)
    close(method.score(visual, words), out[f"{prefix}_sims"], tolerance, "sims")
    pairing = method.pairing
    assert isinstance(pairing, RecurrentAttention)
    if f"{prefix}_steps_t2i" in out:
        steps = pairing.each_step(words, visual, pairing.words)
        close(steps, out[f"{prefix}_steps_t2i"], tolerance, "steps_t2i")
    if f"{prefix}_steps_i2t" in out:
        steps = pairing.each_step(visual, words, pairing.regions).mT
        close(steps, out[f"{prefix}_steps_i2t"], tolerance, "steps_i2t")


def gradient_norm(method: Partwise, batch: Any) -> torch.Tensor:
    """Of the published loss on the training batch, before it is clipped."""
    images, texts = method.encode_visual(batch.visual), method.encode_text(batch.text)
    loss = folder.build(losses, "hinge", warm_up=0)
    (value,) = loss.steps(lambda: [method.similarity(images, texts)], batch.lesson)
    gradients = torch.autograd.grad(value, list(method.parameters()))
    return torch.stack([gradient.norm() for gradient in gradients]).norm()
