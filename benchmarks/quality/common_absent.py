"""Is a common thing that no picture shows told from one that some do?

    python -m benchmarks.quality.common_absent [--cache DIR]

Names that people seldom say are refused easily: how rare the word is gives them away. Here
the words are equally common on both sides:

    objects    COCO's objects over its dev photographs, whose objects are all annotated: each
               in galleries as they come that show it, and in galleries of the same size
               from which its photographs were taken. The policy was fitted with half of them,
               where they are there and where they are not
    names      COCO's nouns and objects over test photographs of Flickr8k, where no caption
               has a word of them ("an elephant"); they are absent

Printed: how often the shipped policy answers and refuses each; for objects also the AUROC of
"it is there" by the policy's probability and by single scores. Nothing is fitted here.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.places import avow_home
from avow.data.opening import dataset_file, open_dataset
from avow.metrics.rejection import auroc
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words, one_form
from avow.study.short_queries import absent_names, noun_names, object_names, read_objects
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Judgements, Policy
from avow.trust.top_k import TopKSummary, describe, summarise
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality.people import CUTS, first

PHOTOGRAPHS, SIZES, REPEATS, FEWEST, SEED = 1000, (100, 300, 800), 4, 3, 0
POLICY = "policy"


class Asked:
    """Names over the photographs of a dataset, scored once."""

    def __init__(self, lab: Lab, name: str, part: str, texts: list[str]):
        split = first(name, PHOTOGRAPHS, part)
        images = lab.photographs(name, list(split.files or ()), part)
        asked = [one_form(text) for text in texts]
        self.words, self.common = count_words(asked), commonness(asked)
        similarity = lab.similarity(lab.texts(asked), images)
        self.tau, self.usual, self.similarity = lab.encoder.tau, lab.usual(images), similarity

    def judged(
        self, policy: Policy, rows: np.ndarray, inside: np.ndarray
    ) -> tuple[Judgements, TopKSummary]:
        """Some names, each in a gallery of its own. inside: which photographs it has."""
        similarity = np.where(inside, self.similarity[:, rows], np.float32(-np.inf))
        scored = ScoredQueries(similarity, inside & False, 1, self.tau, "exp", self.usual)
        summary, _ = summarise(scored.asked())
        common = self.common[rows]
        return policy.judge(summary, self.words[rows], common=common, strict=False), summary


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    lab = Lab(parser.parse_args().cache)
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
    found = {"objects": rows, "names": elsewhere, "photographs": PHOTOGRAPHS, "seed": SEED}
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
