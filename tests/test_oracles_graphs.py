"""Parity with the published VSRN, GSMN, DivE and RVSE++, where their numbers are found.

Weights come in through the translators, so these are tested as well. Every array that was
recorded for a system is compared; a test ends by making sure of that.
"""

import copy
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from test_oracles import close, inputs, oracles, training_batch

from avow import methods
from avow.assembly.importing import dive as dive_import
from avow.assembly.importing import gsmn as gsmn_import
from avow.assembly.importing import vsrn as vsrn_import
from avow.assembly.recipe import Training
from avow.core import folder
from avow.core.contracts import Encoded, Lesson, Method, Regions, Tokens
from avow.losses import hinge, selhn
from avow.methods.dive import crowding, discrepancy
from avow.training.batches import Batch
from avow.training.compare import Comparison
from avow.training.loop import Learner
from avow.training.optim import build_optimiser

pytestmark = pytest.mark.data
__all__ = ["oracles"]  # the fixture
RATE = 2e-4


class Recorded:
    """The numbers of one system: each is compared at its tolerance, and ticked off."""

    def __init__(self, home: Path, name: str):
        self.arrays = np.load(home / f"{name}_out.npz")
        self.limits = json.loads((home / "tolerance.json").read_text())[name]
        self.left = set(self.arrays.files)

    def __getitem__(self, name: str) -> np.ndarray:
        self.left.discard(name)
        return self.arrays[name]

    def check(self, name: str, found: torch.Tensor, adrift: float = 0.0) -> None:
        """adrift: how far all numbers may lie apart by one and the same amount."""
        when = "after" if name.startswith("after") else "start"
        expected, offset = self[name], 0.0
        if adrift:
            offset = float((found - torch.from_numpy(expected)).mean())
            assert abs(offset) <= adrift, f"{name}: {offset}"
        close(found - offset, expected, self.limits[when], name)


def view_of(home: Path, name: str, importing: ModuleType, **changes: Any) -> Method:
    """The published weights in our method."""
    published = torch.load(home / f"{name}_weights.pt", weights_only=True)
    made = importing.translate(published, published["opt"])
    settings = {key: value for key, value in made.method.items() if key != "name"}
    view = folder.build(methods, made.method["name"], **settings, **changes)
    (state,) = made.views
    view.load_state_dict(state)
    return view.eval()


def learner_of(view: Method) -> Learner:
    settings = Training(precision="fp32", optimiser="adam", lr=RATE, weight_decay=0.0)
    optimiser = build_optimiser([view], settings)
    loss = hinge.build(warm_up=0)
    return Learner(Accelerator(cpu=True), Comparison([view]), [view], loss, optimiser, settings)


def compared(view: Method, batch: Batch) -> tuple[Encoded, Encoded]:
    """Both sides of a training batch, by a copy whose statistics nobody else sees."""
    apart = copy.deepcopy(view).train()
    return apart.encode_visual(batch.visual), apart.encode_text(batch.text)


def hinge_of(scores: torch.Tensor, **settings: Any) -> torch.Tensor:
    (value,) = hinge.build(warm_up=0, **settings).steps(
        lambda: [scores], Lesson.paired(len(scores))
    )
    return value


# --- VSRN ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vsrn_f30k_precomp_small", "vsrn_coco_precomp_small"])
def test_vsrn(oracles, name):
    out = Recorded(oracles, name)
    view = view_of(oracles, name, vsrn_import)
    regions, text, _ = inputs(oracles)

    def check(prefix: str) -> None:
        view.eval()
        visual, words = view.encode_visual(regions), view.encode_text(text)
        out.check(f"{prefix}_gcn_emb", view.reason(regions))
        out.check(f"{prefix}_img_emb", visual.parts)
        out.check(f"{prefix}_cap_emb", words.parts)
        out.check(f"{prefix}_sims", view.score(visual, words))

    check("init")
    batch = training_batch(oracles)
    width = batch.text.ids.shape[1]
    labels, told = out["caption_labels"], out["caption_masks"]
    np.testing.assert_array_equal(labels[:, :width], batch.text.ids)
    np.testing.assert_array_equal(told[:, :width].astype(bool), batch.text.present)
    assert not told[:, width:].any()
    visual, words = compared(view, batch)
    out.check("train_log_Le_retrieval", hinge_of(view.score(visual, words)))
    out.check("train_log_Le_caption", view.regulariser(visual, words))
    learner = learner_of(view)
    assert learner.optimiser.param_groups[0]["lr"] == out["train_log_lr"]
    out.check("train_log_Le", learner.learn(batch))
    assert out["train_log_Eit"] == 1
    check("after1")
    assert not out.left


@pytest.mark.parametrize("name", ["vsrn_f30k_precomp_small", "vsrn_coco_precomp_small"])
def test_where_the_captioner_looks(oracles, name):
    """Untrained, it looks almost everywhere alike; only many digits show where."""
    view = view_of(oracles, name, vsrn_import).double()
    batch = training_batch(oracles)
    visual = replace(batch.visual, features=batch.visual.features.double())
    told = view.regulariser(*compared(view, replace(batch, visual=visual)))
    close(told, Recorded(oracles, name)["train_log_Le_caption"], 1e-7)


# --- GSMN ---------------------------------------------------------------------------------


def edges_of(pairs: np.ndarray, parts: int) -> torch.Tensor:
    """Word pairs as a matrix; the first pair of a caption is not one, and -1 is padding."""
    out = torch.zeros(len(pairs), parts, parts, dtype=torch.bool)
    rows = np.broadcast_to(np.arange(len(pairs))[:, None], pairs.shape[:2])[:, 1:]
    first, second = pairs[:, 1:, 0], pairs[:, 1:, 1]
    real = first >= 0
    out[rows[real], first[real], second[real]] = True
    return out


@pytest.mark.parametrize("name", ["gsmn_dense_small", "gsmn_sparse_small"])
def test_gsmn(oracles, name):
    out = Recorded(oracles, name)
    view = view_of(oracles, name, gsmn_import, squash="none")
    found = np.load(oracles / "inputs_small.npz")
    boxes, pairs = torch.from_numpy(found["bbox"]), out["dep_pairs"]
    regions, text, chosen = inputs(oracles)
    regions = replace(regions, boxes=boxes)
    text = replace(text, edges=edges_of(pairs, text.ids.shape[1]))

    @torch.no_grad()
    def check(prefix: str) -> None:
        view.eval()
        visual, words = view.encode_visual(regions), view.encode_text(text)
        from_images, from_texts = view.scores(visual, words)
        # A hinge does not see what is added to all scores, so the true gradient of the
        # last biases is 0. Adam's first step magnifies its rounding, up to its rate.
        adrift = RATE if prefix == "after1" else 0.0
        out.check(f"{prefix}_sims_i2t", from_images, adrift)
        out.check(f"{prefix}_sims_t2i", from_texts, adrift)
        out.check(f"{prefix}_sims", view.similarity(visual, words), 2 * adrift)

    check("init")
    batch = training_batch(oracles)
    width = batch.text.ids.shape[1]
    batch = Batch(
        replace(batch.visual, boxes=boxes[torch.from_numpy(found["train_img_idx"])]),
        replace(batch.text, edges=edges_of(pairs[chosen], width)),
        batch.lesson,
    )
    out.check("train_loss", learner_of(view).learn(batch))
    check("after1")
    assert not out.left


# --- DivE ---------------------------------------------------------------------------------


def test_dive(oracles):
    out = Recorded(oracles, "dive_small")
    view = view_of(oracles, "dive_small", dive_import)
    regions, text, _ = inputs(oracles)
    visual, words = view.encode_visual(regions), view.encode_text(text)
    out.check("img_set", visual.parts)
    out.check("cap_set", words.parts)
    out.check("cap_set_extra_padding", view.encode_text(text.resized(17)).parts)
    out.check("img_residual", slots_of(view, view.encode_visual, regions))
    out.check("cap_residual", slots_of(view, view.encode_text, text))
    for kind in ("chamfer", "max", "smooth_chamfer"):
        view.kind = kind
        out.check(f"sims_{kind}", view.score(visual, words))

    view.train()
    batch = training_batch(oracles)
    visual, words = view.encode_visual(batch.visual), view.encode_text(batch.text)
    scores = view.score(visual, words)
    rows = hinge.violation(scores, batch.lesson.match, 0.2).amax(-1).mean()
    columns = hinge.violation(scores.T, batch.lesson.match, 0.2).amax(-1).mean()
    out.check("train_t2i_loss", columns)
    out.check("train_i2t_loss", rows)
    sides = visual.parts.flatten(0, 1), words.parts.flatten(0, 1)
    out.check("train_mmd_loss", discrepancy(*sides))
    out.check("train_unif_loss", crowding(visual.slots) + crowding(words.slots))
    loss = hinge_of(view.similarity(visual, words), reduce="mean")
    loss = loss + view.regulariser(visual, words)
    out.check("train_loss", loss)
    loss.backward()
    gradients = [p.grad for p in view.parameters() if p.grad is not None]
    out.check("train_gradnorm", torch.nn.utils.get_total_norm(gradients))
    assert not out.left


def slots_of(view: Method, encode: Any, items: Regions | Tokens) -> torch.Tensor:
    """The slots that only training keeps, with the statistics of evaluation."""
    view.training = True  # of the method alone: its layers stay as they are
    slots = encode(items).slots
    view.training = False
    return slots


def test_dive_does_not_leak_by_default(oracles):
    """What the published text encoder makes of padding, ours does not."""
    view = view_of(oracles, "dive_small", dive_import)
    _, text, _ = inputs(oracles)
    leaking = (view.encode_text(text).parts - view.encode_text(text.resized(17)).parts).abs()
    assert leaking.max() > 0.1
    view.text_slots.faithful = False
    tight = view.encode_text(text).parts
    torch.testing.assert_close(view.encode_text(text.resized(17)).parts, tight)


# --- RVSE++ -------------------------------------------------------------------------------


@pytest.mark.parametrize("near", ["0.01", "0.1", "0.5"])
def test_selhn(oracles, near):
    out = Recorded(oracles, "losses_rvsepp_ncr_pcmepp")
    sides = [torch.from_numpy(out[f"{side}_emb"]).requires_grad_() for side in ("img", "cap")]
    loss = selhn.build(near=float(near))
    (value,) = loss.steps(lambda: [sides[0] @ sides[1].T], Lesson.paired(len(sides[0])))
    out.check(f"rvsepp_loss_eps{near}", value)
    gradients = torch.autograd.grad(value, sides)
    out.check(f"rvsepp_gradimg_eps{near}", gradients[0])
    out.check(f"rvsepp_gradcap_eps{near}", gradients[1])
    assert not [name for name in out.left if name.endswith(f"eps{near}")]
