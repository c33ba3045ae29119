"""Galleries of thousands and tens of thousands of photographs: do the numbers come true?

    python -m benchmarks.quality.large_galleries INDEX [--cache DIR]

INDEX holds COCO's train2017, Flickr8k and ImageNet's validation photographs, as `avow index`
makes it with the default model. No policy was fitted on these photographs
(`benchmarks.quality._large_galleries`): the test splits, and the half of COCO's train
photographs that only checks. Captions are of the test splits, too. Names are not new: the 80
objects were asked over the other half when the policy was fitted, and ImageNet's when the
part for smaller galleries was; and the model was trained with both, with photographs of
that half, and with four of five of ImageNet's.

Asked: names of COCO's 80 objects, whose lists are complete, in galleries with what they name
and in the same galleries without it; names of ImageNet's classes that no training caption of
COCO has a word of, over photographs of COCO and with those of ImageNet among them; test
captions, whose labels are drawn by how well they agree with a picture's own captions; and
nouns and phrases of captions ("two dogs"), where five or more of the photographs show them by
their own captions. Each of three seeds draws other photographs. The shipped policy stands
beside itself without the part for large galleries, which is what judged them before.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from avow.blocks.imagenet_names import imagenet_names
from avow.core.contracts import Split
from avow.core.places import avow_home
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words, one_form
from avow.retrieval.library import Library
from avow.retrieval.sample_parts import Asked as SampleQueries
from avow.retrieval.sample_parts import number_by_parts
from avow.study import relevance_labels as fitting
from avow.study.short_queries import noun_names, object_names, phrases, with_article
from avow.trust.coherence import Number
from avow.trust.judgements import Judgements
from avow.trust.policy import Policy
from avow.trust.top_k import SHOWN
from benchmarks._lab import Lab
from benchmarks._report import commit, keep
from benchmarks.quality._large_galleries import (
    Answers,
    Known,
    Photographs,
    Side,
    absent_larger,
    ask,
)
from benchmarks.quality.first_answers import expert_curve, sentences

NAME = "large_galleries"
SIZES, SEEDS = (2500, 10_000, 50_000), (0, 1, 2)
CAPTION_SIZES, CAPTIONS = (2500, 10_000), 800
SHOWN_BY = 5
"""Photographs of a gallery that show what a noun or a phrase says, at least."""
WITHOUT = 2
"""Every second object is taken away, one at a time."""
IMAGENET = "ILSVRC2012_val_"
POLICIES = {"shipped": True, "without the part for large galleries": False}


@dataclass(frozen=True)
class Texts:
    """Queries as a search reads them."""

    vectors: np.ndarray
    words: np.ndarray
    common: np.ndarray

    @classmethod
    def of(cls, lab: Lab, texts: Sequence[str]) -> "Texts":
        asked = [one_form(text) for text in texts]
        return cls(lab.texts(asked), count_words(asked), commonness(asked))

    def only(self, rows: np.ndarray) -> "Texts":
        return Texts(self.vectors[rows], self.words[rows], self.common[rows])


@dataclass(frozen=True)
class Told:
    """What a policy states of some queries, and whether its first ten hits fit."""

    judged: Judgements
    number: Number
    fits: np.ndarray
    true: np.ndarray
    """How many of the gallery fit each query."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("index", type=Path)
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    shipped = Policy.load(lab.encoder.home / "trust-text.json")
    policies = {
        name: shipped if whole else replace(shipped, larger=None)
        for name, whole in POLICIES.items()
    }
    known, side = Known(chosen.index, lab.encoder), Side.to_check()
    rows = {
        "objects": objects(lab, policies, known, side),
        "rare": rare_names(lab, policies, known, side, chosen.index),
        "captions": captions(lab, policies, known, side.captioned),
        "nouns": said(lab, policies, known, side.captioned, "nouns"),
        "phrases": said(lab, policies, known, side.captioned, "phrases"),
    }
    for kind, cells in rows.items():
        for key, found in cells.items():
            print(kind, key, found, flush=True)
    print("->", keep(NAME, {"commit": commit(), "seeds": list(SEEDS), "rows": rows}))


def told(policy: Policy, seen: Answers, texts: Texts, match: np.ndarray, model: str) -> Told:
    """match: a row per query, a column per photograph of the gallery."""
    small, policy = policy, policy.for_size(int(seen.summary.gallery.max()))
    reading = policy.read(seen.summary, texts.words, texts.common, texts.vectors)
    judged = policy.judge(reading, shown=SHOWN, model=model)
    if policy is small:
        behind = seen.scores.behind(seen.summary, seen.gallery.usual)
        number = policy.number(reading, behind)
    else:
        words = SampleQueries(texts.vectors, texts.words, texts.common, small.tau)
        number = number_by_parts(small, reading, seen.gallery, seen.scores, words)
    assert number is not None
    first = np.take_along_axis(seen.ids, judged.order, 1)[:, :10]
    return Told(judged, number, np.take_along_axis(match, first, 1), match.sum(1))


def objects(lab: Lab, policies: dict[str, Policy], known: Known, side: Side) -> dict[str, Any]:
    """Names whose photographs are there, and the same where all of them were taken away."""
    listed = list(side.objects)
    _, named = object_names(Split(tuple(listed), (), np.zeros(0, int)), side.objects)
    every, texts = known.of(listed), Texts.of(lab, named.queries)
    away = np.arange(0, len(named.queries), WITHOUT)
    cells: dict[str, Any] = {}
    for size in SIZES:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in policies}
        for seed in SEEDS:
            rows = np.random.default_rng(seed).permutation(len(listed))[:size]
            match, seen = named.match[:, rows], ask_all(every.only(rows), texts, lab, seed)
            without = []
            for one in away.tolist():
                asked = texts.only(np.array([one]))
                others = every.only(rows[~match[one]])
                without.append((asked, ask_all(others, asked, lab, seed)))
            for name, policy in policies.items():
                there = told(policy, seen, texts, match, lab.encoder.fingerprint)
                nothing = [
                    told(
                        policy,
                        other,
                        one,
                        np.zeros((1, int(other.summary.gallery[0])), bool),
                        lab.encoder.fingerprint,
                    )
                    for one, other in without
                ]
                found[name].append(present(there) | absent(nothing))
        for name, cell in found.items():
            cells[f"{size} {name}"] = over_seeds(cell)
    return cells


def rare_names(
    lab: Lab, policies: dict[str, Policy], known: Known, side: Side, index: Path
) -> dict[str, Any]:
    """Names of ImageNet's classes, with their photographs and without."""
    number = {with_article(name): place for place, name in enumerate(imagenet_names())}
    names = absent_larger()[1::2]  # the others were for trials
    texts, classes = Texts.of(lab, names), np.array([number[name] for name in names])
    pictures = imagenet(index, lab)
    theirs, listed = known.of(list(pictures)), list(side.objects)
    match_there = classes[:, None] == np.array(list(pictures.values()))[None]
    cells: dict[str, Any] = {}
    for size in SIZES:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in policies}
        for seed in SEEDS:
            rows = np.random.default_rng(seed).permutation(len(listed))[:size]
            coco = known.of([listed[row] for row in rows])
            both = joined(coco, theirs)
            none = np.zeros((len(names), size), bool)
            seen = ask_all(coco, texts, lab, seed), ask_all(both, texts, lab, seed)
            for name, policy in policies.items():
                model = lab.encoder.fingerprint
                nothing = told(policy, seen[0], texts, none, model)
                match = np.concatenate([none, match_there], 1)
                there = told(policy, seen[1], texts, match, model)
                found[name].append(present(there) | absent([nothing]))
        for name, cell in found.items():
            cells[f"{size} {name}"] = over_seeds(cell)
    return cells


def captions(
    lab: Lab, policies: dict[str, Policy], known: Known, split: Split
) -> dict[str, Any]:
    """Test captions; the own photograph of most is not in a smaller gallery."""
    every, images = known.of(split.image_ids), len(split.image_ids)
    tests = Side.test_photographs()
    own = np.array([name in tests for name in split.image_ids])
    test = np.flatnonzero(own[split.image_of])
    chosen = np.sort(np.random.default_rng(0).permutation(test)[:CAPTIONS])
    said = sentences(lab, list(split.captions), "large-")
    agreed = fitting.agreement(said[chosen], said, split.image_of, images)
    labels = fitting.labels(agreed, expert_curve(lab), split.image_of[chosen])
    texts = Texts.of(lab, [split.captions[row] for row in chosen])
    cells: dict[str, Any] = {}
    for size in CAPTION_SIZES:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in policies}
        for seed in SEEDS:
            rows = np.random.default_rng(seed).permutation(images)[:size]
            seen = ask_all(every.only(rows), texts, lab, seed)
            match = fitting.drawn(labels, seed)[:, rows]
            for name, policy in policies.items():
                found[name].append(
                    present(told(policy, seen, texts, match, lab.encoder.fingerprint))
                )
        for name, cell in found.items():
            cells[f"{size} {name}"] = over_seeds(cell)
    return cells


def said(
    lab: Lab, policies: dict[str, Policy], known: Known, split: Split, kind: str
) -> dict[str, Any]:
    """Nouns or phrases of captions, which the photographs show whose captions say them."""
    named = noun_names(split, most=300) if kind == "nouns" else phrases(split, at_least=3)
    every, texts = known.of(split.image_ids), Texts.of(lab, named.queries)
    cells: dict[str, Any] = {}
    for size in CAPTION_SIZES:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in policies}
        for seed in SEEDS:
            rows = np.random.default_rng(seed).permutation(len(split.image_ids))[:size]
            match = named.match[:, rows]
            common = np.flatnonzero(match.sum(1) >= SHOWN_BY)
            asked = texts.only(common)
            seen = ask_all(every.only(rows), asked, lab, seed)
            for name, policy in policies.items():
                model = lab.encoder.fingerprint
                found[name].append(present(told(policy, seen, asked, match[common], model)))
        for name, cell in found.items():
            cells[f"{size} {name}"] = over_seeds(cell)
    return cells


def ask_all(photographs: Photographs, texts: Texts, lab: Lab, seed: int) -> Answers:
    return ask(photographs, texts.vectors, lab.encoder, seed)


def joined(one: Photographs, other: Photographs) -> Photographs:
    usual = type(one.usual)(
        one.usual.queries,
        one.usual.tau,
        *(
            np.concatenate([getattr(one.usual, key), getattr(other.usual, key)], 1)
            for key in ("log_mean", "mean", "spread", "top")
        ),
    )
    return Photographs(np.concatenate([one.vectors, other.vectors]), usual)


def imagenet(index: Path, lab: Lab) -> dict[str, int]:
    """Class numbers of ImageNet's photographs of an index, by file name."""
    with Library.open(index, lab.encoder) as library:
        paths = [Path(item.path) for item in library.items(library.find())]
    return {path.name: int(path.parent.name) for path in paths if IMAGENET in path.name}


def present(one: Told) -> dict[str, float]:
    verdicts = np.array(one.judged.verdicts)
    answered, right = verdicts == "answer", np.asarray(one.fits.any(1))
    stated, true, count = one.judged.probability[:, :10], one.true, one.number
    off = np.log((1 + count.expected) / (1 + true))
    return {
        "answered": float(answered.mean()),
        "refused": float((verdicts == "nothing found").mean()),
        "wrong": float(1 - right[answered].mean()) if answered.any() else 0.0,
        "stated": float(stated.mean()),
        "true": float(one.fits.mean()),
        "stated_of_ten": float(one.judged.present.mean()),
        "true_of_ten": float(right.mean()),
        "number_ratio": float(np.exp(off.mean())),
        "number_held": float(((count.low <= true) & (true <= count.high)).mean()),
    }


def absent(several: Sequence[Told]) -> dict[str, float]:
    verdicts = np.concatenate([np.array(one.judged.verdicts) for one in several])
    stated = np.concatenate([one.judged.present for one in several])
    return {
        "absent_answered": float((verdicts == "answer").mean()),
        "absent_refused": float((verdicts == "nothing found").mean()),
        "absent_of_ten": float(stated.mean()),
    }


def over_seeds(cells: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Mean and standard deviation."""
    return {
        key: [
            round(float(np.mean([cell[key] for cell in cells])), 4),
            round(float(np.std([cell[key] for cell in cells])), 4),
        ]
        for key in cells[0]
    }


if __name__ == "__main__":
    main()
