"""DivE: sets of vectors, three ways to compare them, and what training adds."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from parity_systems._claims import Claim
from parity_systems._oracle import Oracle
from parity_systems._steps import gradient_norm, see
from torch import Tensor, nn
from torch.nn.functional import pad

from avow.assembly.published import Imported
from avow.core.contracts import Tokens
from avow.losses.hinge import violation

PREFIXES = ("dive_",)
KINDS = ("smooth_chamfer", "chamfer", "max")
MORE_PADDING = 5


def recompute(oracle: Oracle) -> Iterator[Claim]:
    imported = oracle.imported("dive", faithful=True)
    view: Any = imported.views[0]
    problem = oracle.problem
    seen = see(view, problem.visual, problem.text)
    yield Claim("img_set", seen.images.parts)
    yield Claim("cap_set", seen.texts.parts)
    for kind in KINDS:
        view.kind = kind
        yield Claim(f"sims_{kind}", view.score(seen.images, seen.texts))
    view.kind = KINDS[0]
    text = problem.text
    padded = Tokens(pad(text.ids, (0, MORE_PADDING)), pad(text.present, (0, MORE_PADDING)))
    yield Claim("cap_set_extra_padding", see(view, problem.visual, padded).texts.parts)
    for name, module, encoded in (
        ("img_residual", view.visual_slots, lambda: view.encode_visual(problem.visual)),
        ("cap_residual", view.text_slots, lambda: view.encode_text(problem.text)),
    ):
        yield Claim(name, said(module, encoded))
    yield Claim("train_gradnorm", gradient_norm(imported, problem.batch()))
    yield from trained(oracle, imported)


@torch.no_grad()
def said(module: nn.Module, run: Callable[[], object]) -> Tensor:
    """What `module` gives while something runs."""
    heard: list[Tensor] = []

    def listen(_: nn.Module, given: object, out: Any) -> None:
        heard.append(out)

    hook = module.register_forward_hook(listen)
    run()
    hook.remove()
    return heard[0]


@torch.no_grad()
def trained(oracle: Oracle, imported: Imported) -> Iterator[Claim]:
    """The parts of the loss on one batch, in training mode; nothing is updated."""
    view: Any = copy.deepcopy(imported.views[0]).train()
    batch = oracle.problem.batch()
    images, texts = view.encode_visual(batch.visual), view.encode_text(batch.text)
    scores, match = view.similarity(images, texts), batch.lesson.match
    value = next(iter(imported.recipe.build_loss().steps(lambda: [scores], batch.lesson)))
    yield Claim("train_loss", value + view.regulariser(images, texts))
    margin = float(oracle.options["margin"])
    for name, table in (("i2t", scores), ("t2i", scores.T)):
        hardest = violation(table, match, margin).amax(-1).mean()
        yield Claim(f"train_{name}_loss", hardest)
    for name, weights in (("mmd", (1.0, 0.0)), ("unif", (0.0, 1.0))):
        view.together_weight, view.apart_weight = weights
        yield Claim(f"train_{name}_loss", view.regulariser(images, texts))
