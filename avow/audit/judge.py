"""Which pairs of a dataset are probably wrong, what would suit better, and why.

    models --scores--> standing of every pair --suspicion--> probability --> findings

Every pair is judged within a gallery of images and all their captions. A model that never
saw the pairs gives the fair answer; pairs it was trained on are marked, and calibrated by
themselves, because a model may have learnt a wrong pair by heart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from tqdm import tqdm

from avow.audit.pair_features import PairFeatures, given_pairs, made_up_pairs, standing
from avow.audit.parts import PairedSplit, Part, Progress
from avow.audit.wrong_pairs import WrongPairEstimate, suspect
from avow.core.errors import BadData

FEWEST = 50
KINDS = ("given", "alone", "together")
ErrorKind = Literal["both", "alone", "together"]
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
class Judged:
    """How the pairs of one part stand, and the best other answer to each."""

    captions: Int[np.ndarray, " pairs"]
    given: PairFeatures
    alone: PairFeatures
    """The same captions, each moved to another image: known to be wrong."""
    together: PairFeatures
    """All captions of an image moved to another one together."""
    better_image: list[str]
    better_caption: list[str]


def audit(
    split: PairedSplit,
    name: str,
    judged: Sequence[Judged],
    seen: Bool[np.ndarray, " captions"] | None = None,
    seed: int = 0,
    error_kind: ErrorKind = "both",
) -> Audit:
    """Probabilities over all parts together, and the findings in order.

    seen: the pairs that the models have learnt from; None: none. error_kind: how
    wrong pairs are made up to learn from. Where all captions of an image stand out together it
    is mostly an unusual image, and "alone" passes those over.
    """
    refuse_too_few(split, name)
    order = np.concatenate([part.captions for part in judged])
    learnt = np.zeros(len(order), bool) if seen is None else seen[order]
    kinds = KINDS[1:] if error_kind == "both" else (error_kind,)
    given, wrong = _joined(judged, "given"), [_joined(judged, kind) for kind in kinds]
    estimate = _suspected(given, wrong, split.image_of[order], learnt, seed)
    images = [name for part in judged for name in part.better_image]
    captions = [text for part in judged for text in part.better_caption]
    rows = []
    for place in np.argsort(-estimate.order, kind="stable"):
        caption = int(order[place])
        measures = {key: float(value[place]) for key, value in given.measures.items()}
        rows.append(
            _finding(
                split,
                name,
                caption,
                float(estimate.probability[place]),
                bool(learnt[place]),
                measures,
                images[place],
                captions[place],
            )
        )
    return Audit(tuple(rows), estimate.share)


def refuse_too_few(split: PairedSplit, name: str) -> None:
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
    given: PairFeatures,
    wrong: Sequence[PairFeatures],
    group: Int[np.ndarray, " pairs"],
    seen: Bool[np.ndarray, " pairs"],
    seed: int,
) -> WrongPairEstimate:
    """Pairs that were learnt from among themselves, and all others among themselves.

    Where either are too few to say what is usual, all are looked at together.
    """
    if min(seen.sum(), (~seen).sum()) < FEWEST:
        return suspect(given, wrong, group, seed)
    probability, order = np.zeros(len(seen)), np.zeros(len(seen))
    for side in (seen, ~seen):
        kinds = [kind.some(side) for kind in wrong]
        estimate = suspect(given.some(side), kinds, group[side], seed)
        probability[side], order[side] = estimate.probability, estimate.order
    return WrongPairEstimate(probability, order, float(probability.mean()))


def judge_part(
    part: Part,
    device: str,
    *,
    gallery: int = 2000,
    seed: int = 0,
    progress: Progress = lambda pairs: None,
) -> Judged:
    """Score the pairs of a part in galleries of at most so many images."""
    compare, split = part.encode(device, progress), part.split
    count = len(split.image_ids)
    pieces = np.array_split(  # of two images or more, which are rivals
        np.random.default_rng(seed).permutation(count),
        max(1, min(-(-count // gallery), count // 2)),
    )
    judged: list[Judged] = []
    for images in pieces:
        texts = np.flatnonzero(np.isin(split.image_of, images))
        place = np.zeros(count, np.int64)
        place[images] = np.arange(len(images))
        image_of = place[split.image_of[texts]]
        scores = compare(images, texts)
        best = _others(np.mean(scores, 0), image_of)
        given, alone, together = looked_at(scores, image_of, part.tau, seed)
        judged.append(
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
        np.concatenate([one.captions for one in judged]),
        _joined(judged, "given"),
        _joined(judged, "alone"),
        _joined(judged, "together"),
        [name for one in judged for name in one.better_image],
        [text for one in judged for text in one.better_caption],
    )


def looked_at(
    scores: Sequence[Float[np.ndarray, "images texts"]],
    image_of: Int[np.ndarray, " texts"],
    tau: float,
    seed: int,
) -> tuple[PairFeatures, PairFeatures, PairFeatures]:
    """Features of the given pairs, and of the same captions moved alone and together."""
    pairs = (
        given_pairs(image_of),
        made_up_pairs(image_of, seed),
        made_up_pairs(image_of, seed + 1, together=True),
    )
    given, alone, together = (standing(scores, chosen, tau) for chosen in pairs)
    return given, alone, together


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


def _joined(judged: Sequence[Judged], kind: str) -> PairFeatures:
    parts = [getattr(part, kind).measures for part in judged]
    return PairFeatures({key: np.concatenate([one[key] for one in parts]) for key in parts[0]})


# --- in words -------------------------------------------------------------------------


def _finding(
    split: PairedSplit,
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
    clauses = [
        f"{images_above} other images suit the caption at least as well"
        if images_above
        else "no other image suits the caption as well",
        f"{captions_above} captions of other images suit the image at least as well"
        if captions_above
        else "no caption of another image suits the image as well",
    ]
    alike = measures.get("like its siblings", 0.0)
    if alike and alike < 0.2:
        clauses.append("it likes other images than the other captions of this image do")
    if measures.get("views apart", 0.0) > 6:
        clauses.append("the two views disagree about it")
    return "; ".join(clauses)


def steps(parts: Sequence[Part], shown: bool) -> Iterator[tuple[Part, Progress]]:
    """The parts one by one, under one bar for all of them."""
    total = sum((part.views + 1) * len(part.captions) for part in parts)
    with tqdm(total=total, desc="auditing", unit=" pairs", disable=not shown) as bar:
        for part in parts:
            yield part, bar.update
