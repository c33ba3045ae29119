"""Do searches by picture state what is true, in galleries of what size?

    python -m benchmarks.quality.picture_queries --index INDEX [--before POLICY] [--cache DIR]

Photographs ask for others that show the same kind of thing: as far as the captions of one
describe the other with minor errors at most (`avow.study.relevance_labels`, a curve of half of
the experts' images). Asked over photographs that no policy was fitted on, of `Side.to_check`:
the test splits of Flickr8k and COCO, and half of COCO's train photographs that have four
captions or more, which the model was trained with. INDEX holds them (`avow index` of train2017
and Flickr8k). `--before`: the same by another policy.

Printed for every size of gallery: P of the first ten hits as stated and as the labels have it,
the calibration error over ten bins, the same for "one of the first ten", how many queries are
answered at the usual risk and how many of those answers hold nothing that fits, how many are
refused, and whether a doubt is stated. Nothing is fitted here.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from avow.core.contracts import Split
from avow.core.places import avow_home
from avow.metrics.calibration import expected_calibration_error
from avow.study import relevance_labels as fitting
from avow.study.human_agreement import LENIENT
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Policy
from avow.trust.top_k import summarise
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality._large_galleries import Known, Photographs, Side
from benchmarks.quality.first_answers import expert_curve, sentences

SIZES, QUERIES, TEN, BINS, SEED = (100, 300, 900, 3600), 500, 10, 10, 0


@dataclass(frozen=True)
class Asking:
    """Photographs that ask, and those that they are asked of."""

    queries: np.ndarray
    gallery: Photographs
    fits: Float[np.ndarray, "queries gallery"]
    """The probability that both show the same kind of thing."""
    match: Bool[np.ndarray, "queries gallery"]

    def of(self, size: int, rng: np.random.Generator) -> "Asking":
        """The same in a gallery of some of the photographs."""
        rows = np.sort(rng.permutation(self.fits.shape[1])[:size])
        return Asking(
            self.queries, self.gallery.only(rows), self.fits[:, rows], self.match[:, rows]
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--before", type=Path, help="a policy to show beside the shipped one")
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policies = {"now": Policy.load(lab.encoder.home / "trust-picture.json")}
    if chosen.before:
        policies["before"] = Policy.load(chosen.before)
    asking, rng = asked(lab, chosen.index), np.random.default_rng(SEED + 1)
    rows: dict[str, Any] = {}
    for size in SIZES:
        some = asking.of(size, rng)
        rows[str(size)] = {key: judged(lab, one, some) for key, one in policies.items()}
        for key, row in rows[str(size)].items():
            print(f"{size:>5} {key:<7} {row}", flush=True)
    fitted = policies["now"].conditions
    about = {"seed": SEED, "queries": QUERIES, "fitted on": [fitted.smallest, fitted.largest]}
    print(f"-> {keep('picture_queries', {**about, 'rows': rows})}")


def asked(lab: Lab, index: Path) -> Asking:
    split = Side.to_check().captioned
    order = np.random.default_rng(SEED).permutation(len(split.image_ids))
    asks, shown = np.sort(order[:QUERIES]), np.sort(order[QUERIES:][: max(SIZES)])
    known = Known(index, lab.encoder)
    vectors, gallery = (
        known.of([split.image_ids[row] for row in rows]) for rows in (asks, shown)
    )
    fits = same_kind(lab, split, asks, shown)
    return Asking(vectors.vectors, gallery, fits, fitting.drawn(fits, SEED))


def same_kind(
    lab: Lab, split: Split, asks: np.ndarray, shown: np.ndarray
) -> Float[np.ndarray, "asks shown"]:
    """The mean P over the captions of one photograph that they fit the other."""
    curve = expert_curve(lab, LENIENT)
    (asking, owner), (said, place) = (
        captions_of(lab, split, rows, kind)
        for rows, kind in ((asks, "asks-"), (shown, "shown-"))
    )
    total = np.zeros((len(asks), len(shown)))
    np.add.at(
        total, owner, np.asarray(curve(fitting.agreement(asking, said, place, len(shown))))
    )
    return total / np.bincount(owner)[:, None]


def captions_of(
    lab: Lab, split: Split, rows: np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Sentence vectors of the captions of some photographs, and which of these each is of."""
    place = np.full(len(split.image_ids), -1)
    place[rows] = np.arange(len(rows))
    theirs = np.flatnonzero(place[split.image_of] >= 0)
    texts = [split.captions[row] for row in theirs]
    return sentences(lab, texts, f"pictures-{kind}"), place[split.image_of[theirs]]


def judged(lab: Lab, policy: Policy, asking: Asking) -> dict[str, Any]:
    similarity = lab.similarity(asking.queries, asking.gallery.vectors)
    scored = ScoredQueries(
        similarity, asking.match, 1, lab.encoder.tau, "exp", asking.gallery.usual
    )
    summary, order = summarise(scored.asked())
    size, none = asking.fits.shape[1], np.zeros(len(asking.queries), int)
    found = policy.for_size(size).judge(summary, none, strict=False)
    first = np.take_along_axis(order, found.order[:, :TEN], 1)
    stated = found.probability[:, :TEN]
    true, drawn = (np.take_along_axis(one, first, 1) for one in (asking.fits, asking.match))
    any_fits, verdicts = np.asarray(drawn.any(1)), np.array(found.verdicts)
    answered = verdicts == "answer"
    return {
        "hits": {
            "stated": float(stated.mean()),
            "true": float(true.mean()),
            "ece": expected_calibration_error(stated.ravel(), drawn.ravel(), BINS),
        },
        "one of ten": {
            "stated": float(found.present.mean()),
            "true": float(any_fits.mean()),
            "ece": expected_calibration_error(found.present, any_fits, BINS),
        },
        "answered": float(answered.mean()),
        "answered wrong": float((~any_fits[answered]).mean()) if answered.any() else None,
        "refused": float((verdicts == "nothing found").mean()),
        "doubts": found.doubts,
    }


if __name__ == "__main__":
    main()
