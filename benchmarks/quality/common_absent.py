"""Is a common thing that no picture shows told from one that some do?

    python -m benchmarks.quality.common_absent [--cache DIR]
    python -m benchmarks.quality.common_absent --index INDEX [--before POLICY]

Names that people seldom say are refused easily: how rare the word is gives them away. Here
the words are equally common on both sides:

    objects    COCO's objects over its dev photographs, whose objects are all annotated: each
               in galleries as they come that show it, and in galleries of the same size
               from which its photographs were taken. The policy was fitted with half of them,
               where they are there and where they are not, and has the levels of all
    others     the same over 5,000 of COCO's train photographs, with `--index`: INDEX holds them
               (`avow index` of train2017). No policy was fitted on them; the model was trained
               with them, and the policy asked the same objects over others. `--before`: the
               same by another policy. Without `--index` the figures of an earlier call stay
    names      COCO's nouns and objects over test photographs of Flickr8k, where no caption
               has a word of them ("an elephant"); they are absent
    captions   test captions of each dataset over test photographs of the other, of which at
               most one in twenty people would say that any fits
               (`avow.study.relevance_labels`), and those of which most would

Printed: how often the shipped policy answers and refuses each; for objects also the AUROC of
"it is there" by the policy's probability and by single scores. Nothing is fitted here.
"""

import argparse
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.contracts import Split
from avow.core.places import avow_home
from avow.data.opening import dataset_file, open_dataset
from avow.metrics.rejection import auroc
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words, one_form
from avow.study.relevance_labels import agreement
from avow.study.short_queries import absent_names, noun_names, object_names, read_objects
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Judgements, Policy
from avow.trust.top_k import TopKSummary, describe, summarise
from benchmarks._lab import Lab
from benchmarks._report import keep, read
from benchmarks.quality._large_galleries import Known, Side
from benchmarks.quality.first_answers import expert_curve, sentences
from benchmarks.quality.people import CUTS, first

NAME = "common_absent"
PHOTOGRAPHS, SIZES, REPEATS, FEWEST, SEED = 1000, (100, 300, 800), 4, 3, 0
OTHERS, OTHER_SIZES = 5000, (100, 300, 800, 1800)
CAPTIONS, NOBODY, MOST = 2000, 0.05, 0.5
POLICY, BEFORE = "policy", "before"


class Asked:
    """Names over the photographs of a dataset, scored once."""

    def __init__(self, lab: Lab, images: np.ndarray, texts: list[str]):
        asked = [one_form(text) for text in texts]
        self.words, self.common = count_words(asked), commonness(asked)
        self.vectors = lab.texts(asked)
        similarity = lab.similarity(self.vectors, images)
        self.tau, self.usual, self.similarity = lab.encoder.tau, lab.usual(images), similarity

    def judged(
        self, policy: Policy, rows: np.ndarray, inside: np.ndarray
    ) -> tuple[Judgements, TopKSummary, np.ndarray]:
        """Some names, each in a gallery of its own, and which photographs are their hits.

        inside: which photographs each gallery has.
        """
        similarity = np.where(inside, self.similarity[:, rows], np.float32(-np.inf))
        scored = ScoredQueries(similarity, inside & False, 1, self.tau, "exp", self.usual)
        summary, best = summarise(scored.asked())
        words, common, vectors = self.words[rows], self.common[rows], self.vectors[rows]
        judged = policy.judge(summary, words, common=common, vectors=vectors, strict=False)
        return judged, summary, best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument("--index", type=Path, help="of COCO's train photographs")
    parser.add_argument("--before", type=Path, help="a policy to compare with")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policies = {POLICY: Policy.load(lab.encoder.home / "trust-text.json")}
    if chosen.index:
        if chosen.before:
            policies[BEFORE] = Policy.load(chosen.before)
        found = read(NAME) | {"others": others(lab, policies, chosen.index)}
    else:
        found = dev_and_test(lab, policies)
        found |= {"others": read(NAME)["others"]} if "others" in read(NAME) else {}
    print(f"-> {keep(NAME, found)}")


def dev_and_test(lab: Lab, policies: dict[str, Policy]) -> dict[str, Any]:
    policy = policies[POLICY]
    objects = read_objects(dataset_file("coco", "objects_dev.json"))
    named = object_names(first("coco", PHOTOGRAPHS, "dev"), objects)[1]
    asked = Asked(lab, photographs(lab, "coco", "dev"), list(named.queries))
    rows = [objects_row(asked, policies, named.match, size) for size in SIZES]
    for row in rows:
        print(f"objects, {row}")
    nouns = noun_names(open_dataset("coco").splits["test"]).queries
    captions = first("flickr8k", PHOTOGRAPHS).captions
    away = absent_names(sorted({*nouns, *named.queries}), captions)
    elsewhere = names_row(lab, policy, away)
    print(f"names, {elsewhere}")
    said = [captions_row(lab, policy, *pair) for pair in permutations(("flickr8k", "coco"))]
    for row in said:
        print(f"captions, {row}")
    found = {"objects": rows, "names": elsewhere, "captions": said}
    return found | {"photographs": PHOTOGRAPHS, "seed": SEED}


def others(lab: Lab, policies: dict[str, Policy], index: Path) -> list[dict[str, Any]]:
    """Objects over train photographs that no policy was fitted on."""
    objects = Side.few(1, OTHERS)
    split = Split(tuple(objects), (), np.zeros(0, int))
    named = object_names(split, objects)[1]
    images = Known(index, lab.encoder).of(list(objects)).vectors
    asked, rows = Asked(lab, images, list(named.queries)), []
    for size in OTHER_SIZES:
        rows.append(objects_row(asked, policies, named.match, size))
        print(f"objects over others, {rows[-1]}")
    return rows


def photographs(lab: Lab, name: str, part: str) -> np.ndarray:
    return lab.photographs(name, list(first(name, PHOTOGRAPHS, part).files or ()), part)


def objects_row(
    asked: Asked, policies: dict[str, Policy], match: np.ndarray, size: int
) -> dict[str, Any]:
    """Objects in galleries that show them, and in as many that do not."""
    rng = np.random.default_rng(SEED)
    rows = np.repeat(np.flatnonzero(match.sum(1) >= FEWEST), REPEATS)
    luck = rng.random((len(rows), match.shape[1]))
    usual = np.argsort(np.argsort(luck, axis=1), axis=1) < size
    without = np.argsort(np.argsort(np.where(match[rows], 2, luck), axis=1), axis=1) < size
    shows = (usual & match[rows]).any(1)
    rows, inside = np.r_[rows[shows], rows], np.r_[usual[shows], without & ~match[rows]]
    there = np.arange(len(rows)) < shows.sum()
    kinds = {"present": there, "absent": ~there}
    scores, said = {}, {}
    for name, policy in policies.items():
        judged, summary, _ = asked.judged(policy, rows, inside)
        first_hits = describe(summary)[:, 0]
        scores |= {cut: first_hits[:, summary.names.index(cut)] for cut in CUTS}
        scores[name] = judged.present
        said[name] = {kind: shares(judged, which) for kind, which in kinds.items()}
    told = {name: auroc(score[there], score[~there]) for name, score in scores.items()}
    row = {"size": size, "galleries": len(rows), "auroc": told, **said.pop(POLICY)}
    return row | said


def names_row(lab: Lab, policy: Policy, texts: list[str]) -> dict[str, Any]:
    """Names that nothing shows, over all photographs."""
    asked = Asked(lab, photographs(lab, "flickr8k", "test"), texts)
    rows = np.arange(len(texts))
    inside = np.ones((len(rows), asked.similarity.shape[2]), bool)
    judged, _, _ = asked.judged(policy, rows, inside)
    return {"names": len(texts), **shares(judged, rows >= 0)}


def captions_row(lab: Lab, policy: Policy, asked_of: str, shown: str) -> dict[str, Any]:
    """Captions of one dataset over the photographs of another, by what people would say."""
    split, other = first(shown, PHOTOGRAPHS), first(asked_of, PHOTOGRAPHS)
    chosen = np.random.default_rng(SEED).permutation(len(other.captions))[:CAPTIONS]
    texts = [other.captions[row] for row in np.sort(chosen)]
    vectors = sentences(lab, texts, f"{asked_of}-some-")
    said = sentences(lab, list(split.captions), f"{shown}-all-")
    agreed = agreement(vectors, said, split.image_of, len(split.image_ids))
    best = expert_curve(lab)(agreed).max(1)
    kinds = {"absent": best < NOBODY, "present": best > MOST}
    asked, rows = Asked(lab, photographs(lab, shown, "test"), texts), np.arange(len(texts))
    inside = np.ones((len(rows), asked.similarity.shape[2]), bool)
    row: dict[str, Any] = {"captions": asked_of, "photographs": shown}
    row |= {kind: int(which.sum()) for kind, which in kinds.items()}
    judged, _, _ = asked.judged(policy, rows, inside)
    return row | {"now": {kind: shares(judged, which) for kind, which in kinds.items()}}


def shares(judged: Judgements, which: np.ndarray) -> dict[str, float]:
    """Of some queries: answered, refused, and the mean of "one of the first ten fits"."""
    verdicts = np.array(judged.verdicts)[which]
    return {
        "answered": float((verdicts == "answer").mean()),
        "refused": float((verdicts == "nothing found").mean()),
        "stated": float(judged.present[which].mean()),
    }


if __name__ == "__main__":
    main()
