"""Queries that leave something out: does a search keep it away?

    python -m benchmarks.quality.negation [--home DIR]

Indexes the dev photographs of COCO with the default model. For pairs of objects A and B that
are often in one photograph, asks "A without B", "A with no B" and "A but no B" as the search
rewrites them and as they stand, and counts which of the first five hits hold A and not B, by
the list of objects. Prints precision at five of both and their ratio, and how often the verdict
was "answer" while all five showed B. Beside them what a search would reach that knew which of
its best hits show B, and a trial: the log-odds of A and of B brought together by weights that
are fitted on every second object A, against P(A) * (1 - P(B)), on the other objects.
"""

import argparse
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from avow.core.logistic import expit, fit_logistic
from avow.core.places import avow_home
from avow.data.opening import dataset_file, open_dataset
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.question import only_text
from avow.retrieval.request import Page, Request
from avow.retrieval.search import Retriever
from avow.study.short_queries import read_objects, with_article
from avow.trust.coherence import log_odds
from avow.trust.top_k import SHOWN as LOOKED_AT
from benchmarks._report import keep

FEWEST, OFTEN, SELDOM, EACH, SHOWN = 15, 0.25, 0.75, 4, 5
SHARES = ("left_out", "plain", "knowing")
FORMS = ("{a} without {b}", "{a} with no {bare}", "{a} but no {bare}")

Hits = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of the best hits of one query: P(A), P(B), and which hold A and not B."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", type=Path, default=avow_home() / "benchmarks" / "negation")
    chosen = parser.parse_args()
    objects = read_objects(dataset_file("coco", "objects_dev.json"))
    retriever = Retriever.open(build_index(chosen.home, objects))
    rows = [
        asked(retriever, objects, one, other, FORMS[place % len(FORMS)])
        for place, (one, other) in enumerate(tqdm(pairs(objects)))
    ]
    tried = trial([row.pop("trial") for row in rows], [row["wanted"] for row in rows])
    shares = {key: float(np.mean([row[key] for row in rows])) for key in SHARES}
    wrong = sum(row["answered_wrong"] for row in rows)
    known = sum(row["rewritten"] for row in rows)
    print(
        f"{len(rows)} queries, {known} read as negations: of the first five hold A and not B "
        f"{shares['left_out']:.3f}, as they stand {shares['plain']:.3f} "
        f"(x{shares['left_out'] / max(shares['plain'], 1e-9):.2f}), knowing B "
        f"{shares['knowing']:.3f}; answered while all five show B: {wrong}"
    )
    print(f"fitted weights, on other objects: {tried}")
    counts = {"queries": len(rows), "read": known, "answered_wrong": wrong}
    print(f"-> {keep('negation', {**counts, **shares, 'trial': tried, 'rows': rows})}")


def trial(hits: list[Hits], wanted: list[str]) -> dict[str, Any]:
    """Weights fitted on every second object, and precision and stated P on the others."""
    chosen = set(sorted(set(wanted))[::2])
    learnt = [each for each, name in zip(hits, wanted, strict=True) if name in chosen]
    line = fitted(learnt)
    held = [each for each, name in zip(hits, wanted, strict=True) if name not in chosen]
    ways: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
        "product": lambda one, other: one * (1 - other),
        "weights": lambda one, other: np.minimum(
            expit(line[0] * log_odds(one) + line[1] * log_odds(other) + line[2]),
            np.minimum(one, 1 - other),
        ),
    }
    rows: dict[str, Any] = {"queries": len(held), "fitted_on": len(learnt), "line": line}
    for name, way in ways.items():
        stated = [way(one, other) for one, other, _ in held]
        first = [np.argsort(-each, kind="stable")[:SHOWN] for each in stated]
        right = [hit[2][place].mean() for hit, place in zip(held, first, strict=True)]
        said = [each[place].mean() for each, place in zip(stated, first, strict=True)]
        rows[name] = {"precision": float(np.mean(right)), "stated": float(np.mean(said))}
    return rows


def fitted(hits: list[Hits]) -> list[float]:
    """Weights of both log-odds and an offset, to the truth of "A and not B"."""
    wanted, unwanted, right = (np.concatenate(part) for part in zip(*hits, strict=True))
    features = np.stack([log_odds(wanted), log_odds(unwanted)], 1)
    return fit_logistic(features, right, np.ones(len(right)), 1e4).tolist()


def build_index(home: Path, objects: dict[str, tuple[str, ...]]) -> Path:
    folder = home / "photographs"
    split = open_dataset("coco").splits["dev"]
    if not folder.is_dir():
        folder.mkdir(parents=True)
        for file in split.files or ():
            if file.name in objects:
                shutil.copy(file, folder / file.name)
    index_folders([str(folder)], index=home / "index", encoder=open_encoder())
    return home / "index"


def pairs(objects: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    """Objects that many photographs hold, each with others that are often beside it."""
    count = Counter(name for held in objects.values() for name in set(held))
    found = []
    for name in sorted(one for one, number in count.items() if number >= FEWEST):
        beside = Counter(
            other for held in objects.values() if name in held for other in set(held) - {name}
        )
        often = [
            other
            for other, number in sorted(beside.items(), key=lambda item: (-item[1], item[0]))
            if OFTEN <= number / count[name] <= SELDOM
            and not set(other.split()) & set(name.split())
        ]
        found += [(name, other) for other in often[:EACH]]
    return found


def asked(
    retriever: Retriever, objects: dict[str, tuple[str, ...]], one: str, other: str, form: str
) -> dict[str, Any]:
    text = form.format(a=with_article(one), b=with_article(other), bare=other)
    left = retriever.search(text, k=SHOWN)
    plain = retriever.search(text, k=SHOWN, rewrite=False)
    held = [objects[Path(hit.path).name] for hit in left.hits or left.near_misses]
    before = [objects[Path(hit.path).name] for hit in plain.hits or plain.near_misses]
    wanted, unwanted, names = both(retriever, with_article(one), with_article(other))
    holds = [objects[name] for name in names]
    right = np.array([one in some and other not in some for some in holds])
    knowing = np.argsort(-wanted + [other in some for some in holds], kind="stable")[:SHOWN]
    return {
        "query": text,
        "wanted": one,
        "rewritten": left.query["without"] is not None,
        "verdict": left.verdict,
        "left_out": float(np.mean([one in names and other not in names for names in held])),
        "plain": float(np.mean([one in names and other not in names for names in before])),
        "knowing": float(right[knowing].mean()),
        "answered_wrong": left.verdict == "answer" and all(other in names for names in held),
        "trial": (wanted, unwanted, right),
    }


def both(
    retriever: Retriever, one: str, other: str
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """P of the best hits for the one, P that each shows the other, and their file names."""
    found = retriever.search(one, k=LOOKED_AT)
    hits = found.hits or found.near_misses
    policy, question = retriever.policy("text"), only_text(other)
    assert policy is not None
    vector = question.vector(retriever.encoder)
    request = Request({}, "text", vector, "image", Page(LOOKED_AT), asked=question.asked)
    ids = np.array([hit.id for hit in hits], np.int64)
    wanted = np.array([hit.p_relevant for hit in hits], float)
    return (
        wanted,
        retriever.probability(policy, request, ids),
        [Path(hit.path).name for hit in hits],
    )


if __name__ == "__main__":
    main()
