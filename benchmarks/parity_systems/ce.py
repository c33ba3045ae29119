"""Collaborative Experts and TeachText: experts of a video, and teachers of similarities."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from parity_systems._claims import Bounds, Claim, When, inputs
from parity_systems._oracle import Oracle
from parity_systems._video import Given
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from avow import losses, methods
from avow.assembly.recipe import Training
from avow.core import folder
from avow.core.contracts import Experts, Lesson, TextFeatures
from avow.losses.hinge import violation
from avow.losses.teachtext import Teacher, TeachText
from avow.metrics.video import video_recall
from avow.training.optim import build_optimiser

PREFIXES = ("ce_",)
TOLERANCE = {"start": 1e-5, "after": 1e-5}
"""Of files that come without tolerance.json: RAdam begins with steps of plain momentum."""
NOTES = ("experts", "dim", "margin", "text_clusters", "ghost", "query_masks", "text")
GIVEN = ("feat_", "ind_", "clusters_", "teacher_")
NAMES = {
    "text_pooling.": "pool.",
    "pooling.": "visual.pools.",
    "ce.moe_fc.": "text_experts.weigh.",
    "ce.video_dim_reduce.": "visual.reduce.",
    "ce.g_reason_1.": "visual.reasoning.first.",
    "ce.g_reason_shared.": "visual.reasoning.rest.",
    "ce.video_GU.": "visual.gates.",
    "ce.text_GU.": "text_experts.gates.",
}


@dataclass(frozen=True)
class Sizes:
    """What the recorded network was built with."""

    experts: str
    dim: int
    margin: float
    clusters: int
    ghosts: int

    @property
    def names(self) -> list[str]:
        return [one.partition(":")[0].strip() for one in self.experts.split(",")]


@dataclass(frozen=True)
class Recorded:
    """The inputs of one network."""

    oracle: Oracle

    @cached_property
    def given(self) -> Given:
        return Given(self.oracle)

    @cached_property
    def sizes(self) -> Sizes:
        arrays = self.oracle.arrays
        if "experts" not in arrays:
            return self._from_settings()
        listed = [
            self._named(name, arrays.get(f"clusters_{name}")) for name in arrays["experts"]
        ]
        numbers = (int(arrays[key]) for key in ("text_clusters", "ghost"))
        return Sizes(", ".join(listed), int(arrays["dim"]), float(arrays["margin"]), *numbers)

    def _from_settings(self) -> Sizes:
        told = self.oracle.options
        listed = [
            self._named(name, int(size.split()[1]) if isinstance(size, str) else None)
            for name, size in told["experts"].items()
        ]
        numbers = (int(told[key]) for key in ("text_vlad", "ghost"))
        return Sizes(
            ", ".join(listed), int(told["shared_dim"]), float(told["margin"]), *numbers
        )

    def _named(self, name: str, clusters: Any) -> str:
        width = self.given.arrays[f"feat_{name}"].shape[-1]
        return f"{name}:{width}" + ("" if clusters is None else f"/{int(clusters)}")

    @cached_property
    def experts(self) -> Experts:
        features, present = {}, {}
        for name in self.sizes.names:
            found = self.given.tensor(f"feat_{name}")
            found = found[:, None] if found.ndim == 2 else found
            there = self.given.tensor(f"ind_{name}").bool()
            features[name] = found.nan_to_num(0.0)
            present[name] = there[:, None].expand(found.shape[:2])
        return Experts(features, present)

    @cached_property
    def words(self) -> Tensor:
        """[videos, captions, words, dim]."""
        return self.given.tensor("text")

    @cached_property
    def masks(self) -> np.ndarray:
        """Which captions there are, [videos, captions]."""
        arrays = self.given.arrays
        every = np.ones(self.words.shape[:2], bool)
        return arrays["query_masks"].astype(bool) if "query_masks" in arrays else every

    @cached_property
    def teachers(self) -> tuple[Teacher, ...]:
        """By the name of the teacher; the vectors of its experts one after the other."""
        arrays = self.oracle.arrays
        names = {
            key.split("_vid_")[0]
            for key in arrays
            if key.startswith("teacher_") and "_vid_" in key
        }
        made = []
        for name in sorted(names):
            experts = [
                key.removeprefix(f"{name}_vid_")
                for key in arrays
                if key.startswith(f"{name}_vid_")
            ]
            videos = np.concatenate([arrays[f"{name}_vid_{one}"] for one in experts], 1)
            texts = np.concatenate([arrays[f"{name}_txt_{one}"][:, 0] for one in experts], 1)
            place = torch.arange(len(videos))
            made.append(Teacher(torch.from_numpy(videos), torch.from_numpy(texts), place, name))
        return tuple(made)

    def network(self) -> Any:
        """Ours, with the recorded weights."""
        sizes = self.sizes
        view = folder.build(
            methods,
            "ce",
            experts=sizes.experts,
            dim=sizes.dim,
            text_dim=self.words.shape[-1],
            text_features=True,
            clusters=sizes.clusters,
            ghosts=sizes.ghosts,
            faithful=True,
        )
        view.load_state_dict(translated(self.oracle.published.models["model"]))
        return view


def translated(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Published names of weights in ours."""
    out = {}
    for name, tensor in state.items():
        old = next(key for key in NAMES if name.startswith(key))
        new = NAMES[old] + name.removeprefix(old)
        new = new.replace("clusters2", "centres").replace(".clusters", ".belonging")
        if "visual.reduce." in new:
            new = new.replace(".fc.", ".")
        elif "visual.gates." in new:
            new = new.replace(".cg.fc.", ".own.").replace(".cg.batch_norm2.", ".norm.")
            new = new.replace(".cg.batch_norm.", ".request_norm.")
        elif "text_experts.gates." in new:
            new = new.replace(".cg.fc.", ".own.").replace(".cg.batch_norm.", ".norm.")
            if ".fc." in new:
                new = new.replace(".gates.", ".project.").replace(".fc.", ".")
        else:
            new = new.replace(".batch_norm.", ".norm.")
        out[new] = tensor[0] if new.endswith("centres") else tensor
    return out


def recompute(oracle: Oracle) -> Iterator[Claim]:
    recorded = Recorded(oracle)
    arrays = oracle.arrays
    taught = ("teacher_sims",) if recorded.teachers else ()
    given = [key for key in arrays if key.startswith(GIVEN) and key not in taught]
    yield from inputs(*NOTES, *given, *oracle.weights)
    view = recorded.network()
    yield from after(recorded, view, "init_", "start")
    if recorded.teachers:
        pairs = torch.arange(len(recorded.words))
        yield Claim(
            "teacher_sims", TeachText(hinge(recorded), recorded.teachers, 1.0).taught(pairs).T
        )
    yield from trained(recorded, view)


@torch.no_grad()
def after(recorded: Recorded, view: Any, prefix: str, when: When) -> Iterator[Claim]:
    """All captions in evaluation; older files have no prefix and other names."""
    oracle, words = recorded.oracle, recorded.words
    prefix = prefix if f"{prefix}sims" in oracle.arrays else ""
    view.eval()
    captions = whole(words.flatten(0, 1))
    videos, texts = view.encode_visual(recorded.experts), view.encode_text(captions)
    scores = view.similarity(videos, texts)
    yield Claim(f"{prefix}sims" if prefix else "sims_eval", scores.T, when)
    pooled = view.pooled_text(captions)
    vectors, weights = view.text_experts(pooled)
    gated = view.visual(recorded.experts)
    for place, name in enumerate(recorded.sizes.names):
        yield Claim(f"{prefix}vid_{name}", gated[:, place], when)
        yield Claim(f"{prefix}txt_{name}", vectors[:, place], when)
    if prefix:
        yield Claim(f"{prefix}text_pooled", pooled, when)
        yield Claim(f"{prefix}weights", weights, when)
        yield from ranked(recorded, scores, prefix, when)


def ranked(recorded: Recorded, scores: Tensor, prefix: str, when: When) -> Iterator[Claim]:
    """Recall of the recorded scores, and of ours up to scores that may swap."""
    there = recorded.masks.flatten()
    video_of = np.repeat(np.arange(len(recorded.masks)), recorded.masks.shape[1])[there]
    theirs = recorded.oracle.arrays[f"{prefix}sims"].T[:, there]
    ours = scores.numpy()[:, there]
    slack = 2 * TOLERANCE[when] * float(np.abs(ours).max())
    own = video_of[None] == np.arange(len(ours))[:, None]
    ends = [video_recall(np.where(own, ours + gap, ours), video_of) for gap in (slack, -slack)]
    for name, side in (("t2v", "text_to_video"), ("v2t", "video_to_text")):
        rows = np.array([getattr(end, side).row for end in ends])
        yield Claim(f"{prefix}{name}", Bounds(rows.min(0), rows.max(0)), when)
        table = getattr(video_recall(theirs, video_of), side).row
        yield Claim(f"{prefix}{name}", np.array(table), when, note=f"of {prefix}sims")


def whole(words: Tensor) -> TextFeatures:
    return TextFeatures(words, torch.ones(words.shape[:2], dtype=torch.bool))


# --- in training --------------------------------------------------------------------------


def hinge(recorded: Recorded) -> Any:
    """Over all negatives, averaged over them."""
    margin = recorded.sizes.margin
    return folder.build(losses, "hinge", margin=margin, hardest=False, reduce="pairs")


def trained(recorded: Recorded, view: Any) -> Iterator[Claim]:
    arrays = recorded.oracle.arrays
    settings = Training(optimiser="radam", lr=1e-3, weight_decay=1e-5)
    optimiser = build_optimiser([view], settings)
    steps = [key for key in arrays if key.startswith("train_sims_")]
    for step in range(1, max(len(steps), 1) + 1):
        when: When = "start" if step == 1 else "after"
        found, total = losses_of(recorded, view)
        optimiser.zero_grad()
        total.backward()
        squares = [p.grad.square().sum() for p in view.parameters() if p.grad is not None]
        found["gradnorm"] = torch.stack(squares).sum().sqrt()
        for name, value in found.items():
            array = f"train_{name}_{step}" if steps else OLDER.get(name, "")
            yield Claim(array, value.detach(), when)
        if step == 1:
            yield from gradients(recorded, view)
        if steps:
            optimiser.step()
            yield from after(recorded, view, f"after{step}_", "after")
    norm = view.visual.reasoning.rest[0]
    yield Claim("after_running_mean_g", norm.running_mean, "after")


OLDER = {
    "sims": "train_sims",
    "rank": "train_loss",
    "distil": "tt_smoothl1",
    "gradnorm": "gradnorm",
}


def losses_of(recorded: Recorded, view: Any) -> tuple[dict[str, Tensor], Tensor]:
    """The first caption of every video, in training; what is recorded of it, and the sum."""
    view.train()
    videos = view.encode_visual(recorded.experts)
    texts = view.encode_text(whole(recorded.words[:, 0]))
    scores = view.similarity(videos, texts)
    lesson = Lesson.paired(len(scores))
    base = hinge(recorded)
    rank = next(base.steps(lambda: [scores], lesson))
    loss = TeachText(base, recorded.teachers, 1.0)
    total = next(loss.steps(lambda: [scores], lesson))
    if not recorded.teachers:  # an older file has similarities of no teacher in particular
        taught = torch.from_numpy(recorded.oracle.arrays["teacher_sims"])
        total = total + smooth_l1_loss(scores, taught.T)
    kept = [violation(t, lesson.match, base.margin) for t in (scores, scores.T)]
    kept = [table + base.margin * lesson.match for table in kept]
    found = {"sims": scores.T, "rank": rank, "distil": total - rank}
    return {**found, "rank_nofix": torch.stack(kept).mean()}, total


def gradients(recorded: Recorded, view: Any) -> Iterator[Claim]:
    found = {name: parameter.grad for name, parameter in view.named_parameters()}
    prefix = "train_grad_1_"
    for array in [key for key in recorded.oracle.arrays if key.startswith(prefix)]:
        (ours,) = translated({array.removeprefix(prefix): torch.zeros(1)})
        yield Claim(array, found[ours])
