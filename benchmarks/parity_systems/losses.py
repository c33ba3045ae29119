"""Losses alone, of RVSE++, NCR, PCME++ and PCME, on one batch of recorded vectors."""

from collections.abc import Iterator

import torch
from parity_systems._claims import Claim, inputs, not_yet
from parity_systems._oracle import Oracle

from avow import losses
from avow.core import folder
from avow.core.contracts import Lesson
from avow.losses.ncr import predicted

PREFIXES = ("losses_",)
LATER = {"pcmepp_": "PCME++", "pcme_": "PCME"}


def recompute(oracle: Oracle) -> Iterator[Claim]:
    for prefix, system in LATER.items():
        found = [name for name in oracle.arrays if name.startswith(prefix)]
        yield from not_yet(found, system)
    yield from inputs("img_emb", "cap_emb", "img_logvar", "cap_logvar", "ncr_soft_labels")
    for array in [name for name in oracle.arrays if name.startswith("rvsepp_loss_eps")]:
        yield from selective(oracle, array.removeprefix("rvsepp_loss_eps"))
    if "ncr_scores" in oracle.arrays:
        yield from noisy(oracle)


def selective(oracle: Oracle, near: str) -> Iterator[Claim]:
    """The loss of RVSE++ and its gradients, for one threshold."""
    images, texts = (
        torch.from_numpy(oracle.arrays[name]).requires_grad_()
        for name in ("img_emb", "cap_emb")
    )
    loss = folder.build(losses, "selhn", margin=0.2, near=float(near))
    value = next(loss.steps(lambda: [images @ texts.T], Lesson.paired(len(images))))
    value.backward()
    yield Claim(f"rvsepp_loss_eps{near}", value.detach())
    yield Claim(f"rvsepp_gradimg_eps{near}", images.grad)
    yield Claim(f"rvsepp_gradcap_eps{near}", texts.grad)


def noisy(oracle: Oracle) -> Iterator[Claim]:
    """The losses of NCR: warm-up, what pairs cost and promise, and soft margins."""
    images, texts = (torch.from_numpy(oracle.arrays[name]) for name in ("img_emb", "cap_emb"))
    scores = torch.sigmoid(3 * images @ texts.T)
    label = torch.from_numpy(oracle.arrays["ncr_soft_labels"]).flatten()
    lesson = Lesson.paired(len(scores), views=2)
    loss = folder.build(losses, "ncr", margin=0.2)
    yield Claim("ncr_scores", scores)
    # two networks that see the same: each costs half
    yield Claim("ncr_warmup", next(loss.steps(lambda: [scores, scores], lesson)) / 2)
    yield Claim("ncr_eval_loss", loss.glance([scores], lesson.match)[0])
    yield Claim("ncr_predict", predicted(scores, lesson.match, 0.2))
    for curve in ("linear", "exponential", "sin"):
        loss = folder.build(losses, "ncr", margin=0.2, curve=curve)
        yield Claim(f"ncr_train_{curve}", loss.hinge(scores, lesson.match, label))
