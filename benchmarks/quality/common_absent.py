"""Is a common thing that no picture shows told from one that some do?

    python -m benchmarks.quality.common_absent [--cache DIR] [--before POLICY]

Names that people seldom say are refused easily: how rare the word is gives them away. Here
the words are equally common on both sides:

    objects    COCO's objects over its dev photographs, whose objects are all annotated: each
               in galleries as they come that show it, and in galleries of the same size
               from which its photographs were taken. The policy was fitted with half of them,
               where they are there and where they are not, and has the levels of all
    names      COCO's nouns and objects over test photographs of Flickr8k, where no caption
               has a word of them ("an elephant"); they are absent
    captions   test captions of each dataset over test photographs of the other, of which at
               most one in twenty people would say that any fits
               (`avow.study.relevance_labels`), and those of which most would

Printed: how often the shipped policy answers and refuses each; for objects also the AUROC of
"it is there" by the policy's probability and by single scores. `--before` asks captions of
another policy, too. Nothing is fitted here.
"""

import argparse
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

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
from benchmarks._report import keep
from benchmarks.quality.first_answers import expert_curve, sentences
from benchmarks.quality.people import CUTS, first

PHOTOGRAPHS, SIZES, REPEATS, FEWEST, SEED = 1000, (100, 300, 800), 4, 3, 0
CAPTIONS, NOBODY, MOST = 2000, 0.05, 0.5
POLICY = "policy"


class Asked:
    """Names over the photographs of a dataset, scored once."""

    def __init__(self, lab: Lab, name: str, part: str, texts: list[str]):
        split = first(name, PHOTOGRAPHS, part)
        images = lab.photographs(name, list(split.files or ()), part)
        asked = [one_form(text) for text in texts]
        self.words, self.common = count_words(asked), commonness(asked)
        self.vectors = lab.texts(asked)
        similarity = lab.similarity(self.vectors, images)
        self.tau, self.usual, self.similarity = lab.encoder.tau, lab.usual(images), similarity

    def judged(
        self, policy: Policy, rows: np.ndarray, inside: np.ndarray
    ) -> tuple[Judgements, TopKSummary]:
        """Some names, each in a gallery of its own. inside: which photographs it has."""
        similarity = np.where(inside, self.similarity[:, rows], np.float32(-np.inf))
        scored = ScoredQueries(similarity, inside & False, 1, self.tau, "exp", self.usual)
        summary, _ = summarise(scored.asked())
        words, common, vectors = self.words[rows], self.common[rows], self.vectors[rows]
        judged = policy.judge(summary, words, common=common, vectors=vectors, strict=False)
        return judged, summary


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument("--before", type=Path, help="a policy to compare with")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policy = Policy.load(lab.encoder.home / "trust-text.json")
    objects = read_objects(dataset_file("coco", "objects_dev.json"))
    named = object_names(first("coco", PHOTOGRAPHS, "dev"), objects)[1]
    rows = [objects_row(lab, policy, list(named.queries), named.match, size) for size in SIZES]
    for row in rows:
        print(f"objects, {row}")
    nouns = noun_names(open_dataset("coco").splits["test"]).queries
    captions = first("flickr8k", PHOTOGRAPHS).captions
    away = absent_names(sorted({*nouns, *named.queries}), captions)
    elsewhere = names_row(lab, policy, away)
    print(f"names, {elsewhere}")
    policies = {"now": policy}
    policies |= {"before": Policy.load(chosen.before)} if chosen.before else {}
    said = [captions_row(lab, policies, *pair) for pair in permutations(("flickr8k", "coco"))]
    for row in said:
        print(f"captions, {row}")
    found = {"objects": rows, "names": elsewhere, "captions": said}
    found |= {"photographs": PHOTOGRAPHS, "seed": SEED}
    print(f"-> {keep('common_absent', found)}")


def objects_row(
    lab: Lab, policy: Policy, texts: list[str], match: np.ndarray, size: int
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
    judged, summary = Asked(lab, "coco", "dev", texts).judged(policy, rows, inside)
    first_hits = describe(summary)[:, 0]
    scores = {cut: first_hits[:, summary.names.index(cut)] for cut in CUTS}
    scores[POLICY] = judged.present
    told = {name: auroc(score[there], score[~there]) for name, score in scores.items()}
    kinds = {"present": there, "absent": ~there}
    said = {kind: shares(judged, which) for kind, which in kinds.items()}
    return {"size": size, "galleries": len(rows), "auroc": told, **said}


def names_row(lab: Lab, policy: Policy, texts: list[str]) -> dict[str, Any]:
    """Names that nothing shows, over all photographs."""
    asked, rows = Asked(lab, "flickr8k", "test", texts), np.arange(len(texts))
    inside = np.ones((len(rows), asked.similarity.shape[2]), bool)
    judged, _ = asked.judged(policy, rows, inside)
    return {"names": len(texts), **shares(judged, rows >= 0)}


def captions_row(
    lab: Lab, policies: dict[str, Policy], asked_of: str, shown: str
) -> dict[str, Any]:
    """Captions of one dataset over the photographs of another, by what people would say."""
    split, other = first(shown, PHOTOGRAPHS), first(asked_of, PHOTOGRAPHS)
    chosen = np.random.default_rng(SEED).permutation(len(other.captions))[:CAPTIONS]
    texts = [other.captions[row] for row in np.sort(chosen)]
    vectors = sentences(lab, texts, f"{asked_of}-some-")
    said = sentences(lab, list(split.captions), f"{shown}-all-")
    agreed = agreement(vectors, said, split.image_of, len(split.image_ids))
    best = expert_curve(lab)(agreed).max(1)
    kinds = {"absent": best < NOBODY, "present": best > MOST}
    asked, rows = Asked(lab, shown, "test", texts), np.arange(len(texts))
    inside = np.ones((len(rows), asked.similarity.shape[2]), bool)
    row: dict[str, Any] = {"captions": asked_of, "photographs": shown}
    row |= {kind: int(which.sum()) for kind, which in kinds.items()}
    for name, policy in policies.items():
        judged, _ = asked.judged(policy, rows, inside)
        row[name] = {kind: shares(judged, which) for kind, which in kinds.items()}
    return row


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
