"""Recall of the model that ships with Avow, as it is and as its search orders hits.

    python -m benchmarks.quality.default_model [DATASET ...] [--cache DIR]

Flickr8k test and COCO test (whole and in folds of 1,000 photographs). A search shows hits
in the order of their probability, which takes the bank of reference queries into account;
`shown` is that order among the 32 best by similarity, for texts that ask for photographs.
Prints recalls, and the ratio of R@1 as shown to R@1 by similarity. A dataset that is not asked
for keeps its row.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import trange

from avow.assembly.evaluate import evaluate
from avow.core.places import avow_home
from avow.core.queries import QueryBatch
from avow.data.opening import open_dataset
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words, one_form
from avow.trust.policy import Policy
from avow.trust.top_k import summarise
from benchmarks._lab import Lab
from benchmarks._report import RESULTS, keep

AT_ONCE = 500
FOLD = 1000
CUTS = (1, 5, 10)
NAME = "default_model"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=["flickr8k", "coco"])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policy = Policy.load(lab.encoder.home / "trust-text.json")
    path = RESULTS / f"{NAME}.json"
    rows: dict[str, Any] = json.loads(path.read_text())["rows"] if path.exists() else {}
    for name in chosen.datasets:
        rows[name] = judge(lab, policy, name)
        for label, row in rows[name].items():
            print(f"{name:<9} {label:<10} {json.dumps(row)}")
        ratio = (
            rows[name]["shown"]["text_to_image"][0] / rows[name]["plain"]["text_to_image"][0]
        )
        print(f"{name:<9} R@1 as shown / by similarity: x{ratio:.2f}")
    print(f"-> {keep(NAME, {'model': lab.encoder.fingerprint, 'rows': rows})}")


def judge(lab: Lab, policy: Policy, name: str) -> dict[str, Any]:
    split = open_dataset(name).splits["test"]
    images = lab.photographs(name, list(split.files or ()))
    asked = [one_form(caption) for caption in split.captions]
    texts = lab.texts(asked)
    scores = list(lab.similarity(images, texts))
    found = {"plain": as_row(scores, split.image_of)}
    queries = Queries(asked, texts, split.image_of)
    ranks = shown(lab, policy, images, queries)
    found["shown"] = {"text_to_image": recalls(ranks)}
    if len(images) > 2 * FOLD:
        found["1K folds"] = as_row(scores, split.image_of, fold=FOLD)
        ranks = shown_in_folds(lab, policy, images, queries)
        found["1K folds, shown"] = {"text_to_image": recalls(ranks)}
    return found


def recalls(ranks: np.ndarray) -> list[float]:
    return [round(100 * float((ranks < cut).mean()), 2) for cut in CUTS]


@dataclass(frozen=True)
class Queries:
    """Captions as they are asked, their vectors, and the photograph of each."""

    asked: list[str]
    vectors: np.ndarray
    image_of: np.ndarray

    def some(self, rows: np.ndarray, first: int) -> "Queries":
        """Those of some rows; photographs are counted from `first` on."""
        asked = [self.asked[row] for row in rows]
        return Queries(asked, self.vectors[rows], self.image_of[rows] - first)


def shown_in_folds(
    lab: Lab, policy: Policy, images: np.ndarray, queries: Queries
) -> np.ndarray:
    """The same with every thousand photographs as a gallery of its own, the rest left out."""
    found = []
    for first in range(0, len(images) - FOLD + 1, FOLD):
        inside = (queries.image_of >= first) & (queries.image_of < first + FOLD)
        own = queries.some(np.flatnonzero(inside), first)
        found.append(shown(lab, policy, images[first : first + FOLD], own))
    return np.concatenate(found)


def as_row(scores: list[np.ndarray], image_of: np.ndarray, fold: int = 0) -> dict[str, Any]:
    recall = evaluate(scores, image_of, fold=fold, draws=0).rows[-1].recall
    return {
        "image_to_text": [round(one, 2) for one in recall.image_to_text.recalls],
        "text_to_image": [round(one, 2) for one in recall.text_to_image.recalls],
        "rsum": round(recall.rsum, 2),
    }


def shown(lab: Lab, policy: Policy, images: np.ndarray, queries: Queries) -> np.ndarray:
    """Where the right photograph stands as a search shows it; 999 beyond the 32 best."""
    found, usual, asked = [], lab.usual(images), queries.asked
    words, common = count_words(asked), commonness(asked)
    for start in trange(0, len(asked), AT_ONCE, desc="shown", leave=False):
        part = slice(start, start + AT_ONCE)
        similarity = lab.similarity(queries.vectors[part], images)
        summary, order = summarise(QueryBatch(similarity, 1, lab.encoder.tau, "exp", usual))
        judged = policy.judge(
            summary,
            words[part],
            common=common[part],
            vectors=queries.vectors[part],
            shown=order.shape[1],
            strict=False,
        )
        places = np.take_along_axis(order, judged.order, 1)
        right = places == queries.image_of[part][:, None]
        found.append(np.where(right.any(1), right.argmax(1), 999))
    return np.concatenate(found)


if __name__ == "__main__":
    main()
