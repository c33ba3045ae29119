"""Does P(relevant) of moments come true, and are absent moments refused as pictures are?

    python -m benchmarks.quality.video_trust --split dev [--cache DIR]
    python -m benchmarks.quality.video_trust [--cache DIR]

Videos of photographs of Flickr8k and COCO (`_video_trust`), and the same photographs as
pictures, in one index of the shipped model. The search itself is asked, in three galleries:
pictures alone, videos alone, both. Labels of captions are drawn from the agreement with a
photograph's captions, as those of the shipped policy are; names and phrases fit the photographs
whose captions have them; absent names are of ImageNet's classes that no caption has a word of.
A moment fits when one of the photographs does whose shot it overlaps by half.

Prints per gallery what is stated beside what is found, and the share of absent names refused,
beside a cut on similarity that refuses as many of what is there; and one line from stated to
true log-odds of pictures and of moments, to see whether moments need another one than pictures.
"""

import argparse
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from avow.core.logistic import expit, fit_logistic, logit
from avow.core.places import avow_home
from avow.metrics.rejection import auroc
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.search import Retriever
from avow.study.measures import calibration
from avow.trust.coherence import one_of_some
from benchmarks._report import RESULTS, keep, read
from benchmarks.quality._video_trust import (
    Known,
    Queries,
    all_queries,
    gallery,
    joined_moments,
)

NAME = "video_trust"
GALLERIES = {"pictures": "kind=picture", "moments": "kind=video", "both": None}
BINS = (0, 0.1, 0.25, 0.5, 0.75, 1.01)
DRAWS = 200
THERE = ("captions", "names", "phrases")
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of rho, compared on dev for moments of several segments: whether neighbours depend on each
other more than any hits do. All of it was best."""
SHOWN = 10


@dataclass(frozen=True)
class Answers:
    """What a search said of the queries of one kind."""

    stated: np.ndarray
    """Of every hit, of all queries."""
    fits: np.ndarray
    joined: np.ndarray
    """Whether a hit overlaps several shots."""
    query: np.ndarray
    """The query of every hit."""
    verdicts: list[str]
    similar: np.ndarray
    """The largest similarity among the hits of each query."""
    groups: np.ndarray

    @property
    def first(self) -> np.ndarray:
        """Rows of the first hits."""
        return np.unique(self.query, return_index=True)[1]

    @property
    def refused(self) -> float:
        return float(np.mean([verdict == "nothing_found" for verdict in self.verdicts]))


def answers(retriever: Retriever, known: Known, queries: Queries, where: str | None) -> Answers:
    stated, fits, joined, query = [], [], [], []
    verdicts, similar = list[str](), list[float]()
    for number, text in enumerate(tqdm(queries.texts, desc=f"{queries.kind}, {where}")):
        found = retriever.search(text, k=SHOWN, where=where)
        hits = found.hits or found.near_misses
        verdicts.append(found.verdict)
        similar.append(max(hit.similarity for hit in hits))
        for hit in hits:
            shown = known.photographs(hit)
            stated.append(hit.p_relevant)
            fits.append(bool(queries.fits[number, shown].any()))
            joined.append(len(shown) > 1)
            query.append(number)
    return Answers(
        np.array(stated, float), np.array(fits), np.array(joined), np.array(query), verdicts,
        np.array(similar), queries.groups,
    )  # fmt: skip


def measured(found: Answers, rows: np.ndarray | None = None) -> dict[str, Any]:
    """Stated against true, over all hits or some."""
    rows = np.arange(len(found.stated)) if rows is None else rows
    stated, fits = found.stated[rows], found.fits[rows]
    groups = found.groups[found.query[rows]]
    told = calibration(stated, fits, groups, DRAWS)
    bins = [
        [int(some.sum()), float(stated[some].mean()), float(fits[some].mean())]
        for low, high in itertools.pairwise(BINS)
        for some in [(stated >= low) & (stated < high)]
        if some.any()
    ]
    return {
        "hits": len(rows),
        "stated": float(stated.mean()),
        "true": float(fits.mean()),
        "auroc": float(auroc(stated[fits], stated[~fits])),
        "bins": bins,
        **{key: told[key] for key in ("ece", "interval", "floor", "debiased")},
    }


def judged(found: dict[str, Answers]) -> dict[str, Any]:
    """One gallery: calibration per kind of query, and refusals."""
    out: dict[str, Any] = {}
    for kind in THERE:
        out[kind] = {
            "queries": len(found[kind].verdicts),
            "refused": found[kind].refused,
            "all": measured(found[kind]),
            "first": measured(found[kind], found[kind].first),
        }
        several = np.flatnonzero(found[kind].joined)
        if len(several) > 50:
            out[kind]["joined"] = measured(found[kind], several)
    absent = found["absent"]
    present = np.concatenate([found[kind].similar for kind in THERE])
    verdicts = [verdict for kind in THERE for verdict in found[kind].verdicts]
    share = float(np.mean([verdict == "nothing_found" for verdict in verdicts]))
    cut = np.quantile(present, share)
    answered = [
        bool(found[kind].fits[found[kind].query == number].any())
        for kind in THERE
        for number, verdict in enumerate(found[kind].verdicts)
        if verdict == "answer"
    ] + [False for verdict in absent.verdicts if verdict == "answer"]
    return out | {
        "present_refused": share,
        "absent": len(absent.verdicts),
        "absent_refused": absent.refused,
        "absent_refused_by_cut": float((absent.similar < cut).mean()),
        "answered": len(answered),
        "answered_wrong": float(1 - np.mean(answered)) if answered else 0.0,
    }


def line_of(kept: Path) -> dict[str, float]:
    """Slope and offset from stated to true log-odds, over all hits of what is there."""
    with np.load(kept) as content:
        stated, fits = content["stated"], content["fits"]
    odds = logit(np.clip(stated, 1e-6, 1 - 1e-6))
    slope, offset = fit_logistic(odds[:, None], fits, np.ones(len(fits)), 1e6)
    moved = expit(slope * odds + offset)
    return {
        "slope": float(slope),
        "offset": float(offset),
        "ece_before": calibration(stated, fits)["ece"],
        "ece_after": calibration(moved, fits)["ece"],
    }


def by_share(retriever: Retriever, known: Known, queries: list[Queries]) -> dict[str, Any]:
    """What moments of several segments would be stated with, for every share of rho."""
    joined = [one for some in queries for one in joined_moments(retriever, known, some)]
    fits = np.array([one.fits for one in joined])
    rows = {}
    for share in SHARES:
        stated = np.array([
            one_of_some(one.stated, share * one.rho, one.anything) for one in joined
        ])  # fmt: skip
        right = np.clip(np.where(fits, stated, 1 - stated), 1e-6, 1)
        rows[f"{share:g}"] = {
            "stated": float(stated.mean()),
            "log_loss": float(-np.log(right).mean()),
        }
    return {"moments": len(joined), "true": float(fits.mean()), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "videos")
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    chosen = parser.parse_args()
    known = gallery(chosen.split, chosen.cache)
    index = known.folder / "index"
    folders = [known.folder / place for place in ("videos", "pictures")]
    index_folders(folders, index=index, encoder=open_encoder())
    retriever = Retriever.open(index)
    queries = all_queries(known)
    figures: dict[str, Any] = {
        "photographs": len(known.shown),
        "seconds": known.seconds,
        "items": len(retriever.library),
        "edges": BINS,
    }
    names = list(GALLERIES)[: 2 if chosen.split == "dev" else None]
    for name, where in [(name, GALLERIES[name]) for name in names]:
        found = {one.kind: answers(retriever, known, one, where) for one in queries}
        figures[name] = judged(found)
        print(name, json.dumps(figures[name]), flush=True)
        np.savez(
            known.folder / f"{name}.npz",
            stated=np.concatenate([found[kind].stated for kind in THERE]),
            fits=np.concatenate([found[kind].fits for kind in THERE]),
        )
    if chosen.split == "dev":
        there = [one for one in queries if one.kind in THERE]
        figures["joined"] = by_share(retriever, known, there)
    figures["lines"] = {name: line_of(known.folder / f"{name}.npz") for name in names}
    kept = read(NAME) if (RESULTS / f"{NAME}.json").exists() else {}
    kept.pop("machine", None)
    kept[chosen.split] = figures
    print(figures["lines"])
    print(f"-> {keep(NAME, kept)}")


if __name__ == "__main__":
    main()
