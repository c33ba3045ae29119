"""Which pairs of a dataset are probably wrong, what would suit better, and why.

    models --scores--> standing of every pair --suspicion--> probability --> findings

Every pair is judged within a gallery of images and all their captions. A model that never
saw the pairs gives the fair answer; pairs it was trained on are marked, and calibrated by
themselves, because a model may have learnt a wrong pair by heart.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from tqdm import tqdm

from avow.assembly.evaluate import encode_captions
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks, batches, compare, encode
from avow.core.contracts import Encoded
from avow.core.errors import BadData
from avow.data._captions import TokenTable
from avow.trust._standing import Standing, given_pairs, made_up_pairs, standing
from avow.trust._suspicion import Suspicion, suspect

FEWEST = 50
KINDS = ("given", "alone", "together")
Astray = Literal["both", "alone", "together"]
"""Whether a caption may be wrong for itself, with all others of its image, or either."""


@dataclass(frozen=True)
class Finding:
    """One pair, and what was found about it."""

    pair: int
    """Its place among the captions of the split, those without features counted too."""
    split: str
    image: str
    caption: str
    probability: float
    """That the pair is wrong."""
    in_sample: bool
    """Whether the model had learnt from the pair."""
    similarity: float
    images_above: int
    """Images that suit the caption at least as well."""
    captions_above: int
    """Captions of other images that suit the image at least as well."""
    better_image: str
    """The one of its gallery that suits best, where the pair's own does not."""
    better_caption: str
    why: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Audit:
    """All pairs of a split, most suspect first."""

    findings: tuple[Finding, ...]
    share: float
    """Estimated share of wrong pairs."""


@dataclass(frozen=True)
class Part:
    """Images and captions of a split that one model judges."""

    model: Model
    split: FeaturedSplit
    captions: Int[np.ndarray, " captions"]
    """For each caption, its place in the whole split."""


@dataclass(frozen=True)
class Judged:
    """How the pairs of one part stand, and the best other answer to each."""

    captions: Int[np.ndarray, " pairs"]
    given: Standing
    alone: Standing
    """The same captions astray one by one: made up, and wrong for certain."""
    together: Standing
    """And all captions of an image astray together."""
    better_image: list[str]
    better_caption: list[str]


def parted(split: FeaturedSplit, images: Sequence[str], model: Model) -> Part:
    """What one model judges of a split: some of its images, by name."""
    wanted = set(images)
    kept = np.array([name in wanted for name in split.image_ids], bool)
    captions = np.flatnonzero(kept[split.image_of])
    place = np.cumsum(kept) - 1
    inside = FeaturedSplit(
        split.source,
        tuple(name for name in split.image_ids if name in wanted),
        split.rows[kept],
        tuple(split.captions[n] for n in captions),
        place[split.image_of[captions]],
        split.boxes,
    )
    return Part(model, inside, captions)


def audit(
    split: FeaturedSplit,
    name: str,
    judged: Sequence[Judged],
    seen: Bool[np.ndarray, " captions"] | None = None,
    seed: int = 0,
    astray: Astray = "both",
) -> Audit:
    """Probabilities over all parts together, and the findings in order.

    seen: the pairs that the models have learnt from; none where nothing is said. astray: what
    wrong pairs are taken to look like. Where all captions of an image stand out together it
    is mostly an unusual image, and "alone" passes those over.
    """
    refuse_too_few(split, name)
    order = np.concatenate([part.captions for part in judged])
    learnt = np.zeros(len(order), bool) if seen is None else seen[order]
    kinds = KINDS[1:] if astray == "both" else (astray,)
    given, wrong = _joined(judged, "given"), [_joined(judged, kind) for kind in kinds]
    found = _suspected(given, wrong, split.image_of[order], learnt, seed)
    images = [name for part in judged for name in part.better_image]
    captions = [text for part in judged for text in part.better_caption]
    rows = []
    for place in np.argsort(-found.order, kind="stable"):
        caption = int(order[place])
        measures = {key: float(value[place]) for key, value in given.measures.items()}
        rows.append(
            _finding(
                split,
                name,
                caption,
                float(found.probability[place]),
                bool(learnt[place]),
                measures,
                images[place],
                captions[place],
            )
        )
    return Audit(tuple(rows), found.share)


def refuse_too_few(split: FeaturedSplit, name: str) -> None:
    """Stop before anything is trained for a split that cannot be judged."""
    if len(split.image_ids) < 2:
        raise BadData(
            f"There is one image to judge in split {name!r}. Expected at least two, which are "
            "rivals; audit a larger split."
        )
    if len(split.captions) < FEWEST:
        raise BadData(
            f"There are {len(split.captions)} pairs to judge in split {name!r}. Expected at "
            f"least {FEWEST}, from which to learn what is usual; audit a larger split."
        )


def _suspected(
    given: Standing,
    wrong: Sequence[Standing],
    group: Int[np.ndarray, " pairs"],
    seen: Bool[np.ndarray, " pairs"],
    seed: int,
) -> Suspicion:
    """Pairs that were learnt from among themselves, and all others among themselves.

    Where either are too few to say what is usual, all are looked at together.
    """
    if min(seen.sum(), (~seen).sum()) < FEWEST:
        return suspect(given, wrong, group, seed)
    probability, order = np.zeros(len(seen)), np.zeros(len(seen))
    for side in (seen, ~seen):
        kinds = [kind.some(side) for kind in wrong]
        found = suspect(given.some(side), kinds, group[side], seed)
        probability[side], order[side] = found.probability, found.order
    return Suspicion(probability, order, float(probability.mean()))


def judge_part(
    part: Part,
    device: str,
    *,
    gallery: int = 2000,
    seed: int = 0,
    progress: Callable[[int], Any] = lambda pairs: None,
) -> Judged:
    """Score the pairs of a part in galleries of at most so many images."""
    views = _encoded(part, device, progress)
    model, split = part.model, part.split
    tau = float(model.evidence_settings["tau"])
    count = len(split.image_ids)
    pieces = np.array_split(  # of two images or more, which are rivals
        np.random.default_rng(seed).permutation(count),
        max(1, min(-(-count // gallery), count // 2)),
    )
    found: list[Judged] = []
    for images in pieces:
        texts = np.flatnonzero(np.isin(split.image_of, images))
        place = np.zeros(count, np.int64)
        place[images] = np.arange(len(images))
        image_of = place[split.image_of[texts]]
        scores = [_compared(model, n, views, images, texts, device) for n in range(len(views))]
        best = _others(np.mean(scores, 0), image_of)
        given, alone, together = looked_at(scores, image_of, tau, seed)
        found.append(
            Judged(
                part.captions[texts],
                given,
                alone,
                together,
                [split.image_ids[images[n]] for n in best[0]],
                [split.captions[texts[n]] for n in best[1]],
            )
        )
        progress(len(texts))
    return Judged(
        np.concatenate([one.captions for one in found]),
        _joined(found, "given"),
        _joined(found, "alone"),
        _joined(found, "together"),
        [name for one in found for name in one.better_image],
        [text for one in found for text in one.better_caption],
    )


def looked_at(
    scores: Sequence[Float[np.ndarray, "images texts"]],
    image_of: Int[np.ndarray, " texts"],
    tau: float,
    seed: int,
) -> tuple[Standing, Standing, Standing]:
    """How the given pairs stand, and the same captions astray alone and together."""
    pairs = (
        given_pairs(image_of),
        made_up_pairs(image_of, seed),
        made_up_pairs(image_of, seed + 1, together=True),
    )
    given, alone, together = (standing(scores, chosen, tau) for chosen in pairs)
    return given, alone, together


def _encoded(
    part: Part, device: str, progress: Callable[[int], Any]
) -> list[tuple[Encoded, Encoded]]:
    """Every image and caption of the part by every view, in host memory."""
    split, block = part.split, Blocks().encode
    table = TokenTable.from_captions(part.model.tokeniser, split.captions)
    out = []
    for view in part.model.views:
        view.eval()
        regions = (split.regions(images) for images in batches(len(split.rows), block))
        visual = encode(view.encode_visual, regions, device)
        out.append((visual, encode_captions(view, table, device, block)))
        progress(len(split.captions))
    return out


def _compared(
    model: Model,
    number: int,
    views: Sequence[tuple[Encoded, Encoded]],
    images: Int[np.ndarray, " images"],
    texts: Int[np.ndarray, " texts"],
    device: str,
) -> Float[np.ndarray, "images texts"]:
    visual, text = views[number]
    return compare(
        model.views[number],
        visual.rows(torch.from_numpy(images)),
        text.rows(torch.from_numpy(texts)),
        device,
        Blocks(),
        len(views),
    )


def _others(
    scores: Float[np.ndarray, "images texts"], image_of: Int[np.ndarray, " texts"]
) -> tuple[Int[np.ndarray, " texts"], Int[np.ndarray, " texts"]]:
    """For each pair the best other image, and the best caption of another image."""
    texts = np.arange(scores.shape[1])
    masked = np.array(scores)
    masked[image_of, texts] = -np.inf
    best_image = masked.argmax(0)
    best_text = masked.argmax(1)[image_of]
    return best_image, best_text


def _joined(judged: Sequence[Judged], kind: str) -> Standing:
    parts = [getattr(part, kind).measures for part in judged]
    return Standing({key: torch.cat([one[key] for one in parts]) for key in parts[0]})


# --- in words -------------------------------------------------------------------------


def _finding(
    split: FeaturedSplit,
    name: str,
    caption: int,
    probability: float,
    in_sample: bool,
    measures: dict[str, float],
    better_image: str,
    better_caption: str,
) -> Finding:
    above = {side: round(np.expm1(measures[f"rank of {side}"])) for side in ("image", "text")}
    return Finding(
        caption if split.kept is None else int(split.kept[caption]),
        name,
        split.image_ids[split.image_of[caption]],
        split.captions[caption],
        round(probability, 4),
        in_sample,
        round(measures["similarity"], 4),
        above["image"],
        above["text"],
        better_image if above["image"] else "",
        better_caption if above["text"] else "",
        reasons(measures, above["image"], above["text"]),
    )


def reasons(measures: dict[str, float], images_above: int, captions_above: int) -> str:
    """What speaks for and against a pair, in one line."""
    said = [
        f"{images_above} other images suit the caption at least as well"
        if images_above
        else "no other image suits the caption as well",
        f"{captions_above} captions of other images suit the image at least as well"
        if captions_above
        else "no caption of another image suits the image as well",
    ]
    alike = measures.get("like its siblings", 0.0)
    if alike and alike < 0.2:
        said.append("it likes other images than the other captions of this image do")
    if measures.get("views apart", 0.0) > 6:
        said.append("the two views disagree about it")
    return "; ".join(said)


def steps(parts: Sequence[Part], shown: bool) -> Iterator[tuple[Part, Callable[[int], Any]]]:
    """The parts one by one, under one bar for all of them."""
    total = sum((len(p.model.views) + 1) * len(p.captions) for p in parts)
    with tqdm(total=total, desc="auditing", unit=" pairs", disable=not shown) as bar:
        for part in parts:
            yield part, bar.update
