"""Would people agree with the trust of the default model?

    python -m benchmarks.quality.people [--cache DIR] [--before trust-text.json] \
        [--earlier people.json] [--only-experts]

Three galleries: Flickr8k test, as many of COCO's test photographs, and both together. Asked:
captions whose photograph is there, 100 nouns that five pictures or more show, in four forms,
and names that no caption has. Printed, with the policy of `--before` beside it where given:

    refused     of the captions, of the nouns; verdicts that all forms of a noun share
    absent      names refused where 2, 5 and 10 % of the present nouns are, by this policy and
                by the best cut on a single score
    experts     P of the hits shown beside what experts said of them, on the half of the
                judged images that nothing was fitted on; of each bin with a 95 % interval
    risk        200 random halves: how often the answers of one break a promise of the other

Nothing here is fitted but the promises of the last row. `--only-experts` measures what experts
said of the shipped policy's hits, and keeps all other figures.
"""

import argparse
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from avow.blocks.imagenet_names import imagenet_names
from avow.core.contracts import Split
from avow.core.groups import halves
from avow.core.places import avow_home
from avow.data.judgements import FILE, read_judgements
from avow.data.opening import dataset_file, open_dataset
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words, one_form
from avow.study.human_agreement import STRICT
from avow.study.human_hits import stands_for
from avow.study.measures import weighted_auroc
from avow.study.relevance_labels import expert_half
from avow.study.short_queries import absent_names, noun_names, with_article
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Judgements, Policy
from avow.trust.risk_control import promise
from avow.trust.top_k import TopKSummary, describe, summarise
from benchmarks._intervals import wilson
from benchmarks._lab import Lab
from benchmarks._report import keep, read

NOUNS, SPLITS, RISKS = 100, 200, (0.1, 0.2)
SHARES = (0.02, 0.05, 0.1)
CUTS = ("score", "relative", "unusual", "above bank", "softmax", "relative total", "apart")
BINS = (0, 0.1, 0.25, 0.5, 0.75, 1.01)


class Asked:
    """Queries over one gallery, as a search would see them."""

    def __init__(self, lab: Lab, texts: list[str], items: np.ndarray, match: np.ndarray):
        self.texts, self.match = texts, match
        asked = [one_form(text) for text in texts]
        self.vectors = lab.texts(asked)
        similarity = lab.similarity(self.vectors, items)
        usual = lab.usual(items)
        scored = ScoredQueries(similarity, match, 1, lab.encoder.tau, "exp", usual)
        self.scored = scored
        self.summary, self.order = summarise(scored.asked())
        self.words = count_words(asked)
        self.common = commonness(asked)

    def judged(self, policy: Policy, risk: float | None = None) -> Judgements:
        return policy.for_size(self.match.shape[1]).judge(
            self.summary,
            self.words,
            common=self.common,
            vectors=self.vectors,
            risk=risk,
            strict=False,
        )

    def fits(self, judged: Judgements) -> np.ndarray:
        shown = np.take_along_axis(self.order, judged.order, 1)
        return np.take_along_axis(self.match, shown, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument("--before", type=Path, help="a policy to show beside the shipped one")
    parser.add_argument("--earlier", type=Path, help="this benchmark's file of another model")
    parser.add_argument("--only-experts", action="store_true")
    parser.add_argument("--photographs", type=int, default=1000)
    parser.add_argument("--captions", type=int, default=1500)
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policies = {"now": Policy.load(lab.encoder.home / "trust-text.json")}
    if chosen.before:
        policies["before"] = Policy.load(chosen.before)
    if chosen.only_experts:
        split = first("flickr8k", chosen.photographs)
        images = lab.photographs("flickr8k", list(split.files or ()))
        kept = {key: value for key, value in read("people").items() if key != "machine"}
        kept["experts"]["now"] = judged_by_experts(lab, split, images, policies["now"])
        print(f"experts: {kept['experts']['now']}\n-> {keep('people', kept)}")
        return
    splits = {name: first(name, chosen.photographs) for name in ("flickr8k", "coco")}
    items = {
        name: lab.photographs(name, list(split.files or ())) for name, split in splits.items()
    }
    rows: dict[str, Any] = {}
    for names in (("flickr8k",), ("coco",), ("flickr8k", "coco")):
        split = together([splits[name] for name in names])
        images = np.concatenate([items[name] for name in names])
        rows["+".join(names)] = gallery(lab, split, images, policies, chosen.captions)
    split, images = splits["flickr8k"], items["flickr8k"]
    experts = {
        name: judged_by_experts(lab, split, images, one) for name, one in policies.items()
    }
    if chosen.earlier:
        beside(json.loads(chosen.earlier.read_text()), rows, experts)
    path = keep("people", {"galleries": rows, "experts": experts, "seed": 0})
    print(f"experts: {experts}")
    print(f"-> {path}")


def beside(earlier: dict[str, Any], rows: dict[str, Any], experts: dict[str, Any]) -> None:
    """Keep what an earlier model and its policies reached beside the figures of now."""
    names = {"now": "earlier", "before": "before"}
    for name, kept in names.items():
        for key, row in earlier["galleries"].items():
            if name in row:
                rows[key][kept] = row[name]
        if name in earlier["experts"]:
            experts[kept] = earlier["experts"][name]


def first(name: str, photographs: int, part: str = "test") -> Split:
    """The first photographs of a split, with their captions."""
    split = open_dataset(name).splits[part]
    kept = split.image_of < photographs
    captions = [text for text, yes in zip(split.captions, kept, strict=True) if yes]
    files = None if split.files is None else split.files[:photographs]
    return Split(split.image_ids[:photographs], tuple(captions), split.image_of[kept], files)


def together(splits: list[Split]) -> Split:
    starts = np.cumsum([0, *(len(split.image_ids) for split in splits)])[:-1]
    return Split(
        tuple(image for split in splits for image in split.image_ids),
        tuple(caption for split in splits for caption in split.captions),
        np.concatenate([one.image_of + at for one, at in zip(splits, starts, strict=True)]),
    )


def gallery(
    lab: Lab, split: Split, images: np.ndarray, policies: dict[str, Policy], most: int
) -> dict[str, Any]:
    rows = np.sort(np.random.default_rng(0).permutation(len(split.captions))[:most])
    own = split.image_of[rows][:, None] == np.arange(len(images))[None]
    captions = Asked(lab, [split.captions[row] for row in rows], images, own)
    said = noun_names(split, at_least=5, most=NOUNS)
    forms = [form for name in said.queries for form in forms_of(name)]
    nouns = Asked(lab, forms, images, np.repeat(said.match, 4, axis=0))
    away = [with_article(one) for one in absent_names(imagenet_names(), split.captions)]
    absent = Asked(lab, away, images, np.zeros((len(away), len(images)), bool))
    found = {
        name: measured(policy, captions, nouns, absent) for name, policy in policies.items()
    }
    found["single cuts"] = single_cuts(nouns, absent)
    for name, row in found.items():
        print(f"{len(images)} photographs, {name}: {row}", flush=True)
    return {"photographs": len(images), "absent": len(away), **found}


def forms_of(name: str) -> tuple[str, ...]:
    """ "a dog" as people type it."""
    bare = name.split(" ", 1)[1]
    plural = {"man": "men", "woman": "women", "child": "children", "person": "people"}
    many = plural.get(bare, bare + ("es" if bare.endswith(("s", "sh", "ch", "x")) else "s"))
    return bare, name, many, f"photo of {name}"


def measured(policy: Policy, captions: Asked, nouns: Asked, absent: Asked) -> dict[str, Any]:
    verdicts = np.array(nouns.judged(policy).verdicts).reshape(-1, 4)
    judged, gone = nouns.judged(policy), absent.judged(policy)
    there = nouns.fits(judged).any(1)
    score = score_of(judged)
    return {
        "captions_refused": refused(captions.judged(policy).verdicts),
        "nouns_refused": refused(verdicts.ravel().tolist()),
        "forms_alike": float((verdicts == verdicts[:, :1]).all(1).mean()),
        "absent_refused": refused(gone.verdicts),
        "nouns_stated": float(judged.probability.mean()),
        "nouns_true": float(nouns.fits(judged).mean()),
        "absent_at": at_shares(score[there], score_of(gone)),
        "risk_broken": {
            kind: broken(asked, policy)
            for kind, asked in (("captions", captions), ("nouns", nouns))
        },
    }


def score_of(judged: Judgements) -> np.ndarray:
    """What a refusal is decided by."""
    return judged.present


def refused(verdicts: list[Any]) -> float:
    return float(np.mean([verdict == "nothing found" for verdict in verdicts]))


def at_shares(present: np.ndarray, absent: np.ndarray) -> dict[str, list[float]]:
    """Share of absent names refused at each share of present ones, with its standard error."""
    rng = np.random.default_rng(0)
    rows = {}
    for share in SHARES:
        drawn = []
        for _ in range(200):
            cut = np.quantile(rng.choice(present, len(present)), share)
            drawn.append((rng.choice(absent, len(absent)) < cut).mean())
        whole = float((absent < np.quantile(present, share)).mean())
        rows[f"{share:g}"] = [whole, float(np.std(drawn))]
    return rows


def single_cuts(nouns: Asked, absent: Asked) -> dict[str, Any]:
    """The same for cuts on the largest of one score among the first ten hits."""
    there = nouns.match[np.arange(len(nouns.match))[:, None], nouns.order[:, :10]].any(1)
    rows = {}
    for name in CUTS:
        one, other = (best(asked.summary, name) for asked in (nouns, absent))
        rows[name] = at_shares(one[there], other)
    return rows


def best(summary: TopKSummary, name: str) -> np.ndarray:
    return describe(summary)[:, :10, summary.names.index(name)].max(1)


def broken(asked: Asked, policy: Policy) -> dict[str, float]:
    """Per risk, in which share of random halves the answers break the promise of the other."""
    judged = asked.judged(policy)
    wrong, score = np.asarray(~asked.fits(judged).any(1)), score_of(judged)
    names = [one_form(text) for text in asked.texts]
    groups = np.unique(names, return_inverse=True)[1]
    rows = {}
    for risk in RISKS:
        fails = 0
        for seed in range(SPLITS):
            one, other = halves(groups, seed)
            made = promise(score[one], wrong[one], risk, 0.1, groups=groups[one])
            said = made.answers(score[other])
            fails += bool(said.any() and wrong[other][said].mean() > risk)
        rows[f"{risk:g}"] = fails / SPLITS
    return rows


@dataclass(frozen=True)
class ExpertHits:
    """Hits of Flickr8k captions that experts judged, with what the policy states of them."""

    asked: Asked
    image: np.ndarray
    text: np.ndarray
    stated: np.ndarray
    fits: np.ndarray
    weight: np.ndarray
    """For how many hits of its rank each stands."""

    @classmethod
    def of(
        cls, lab: Lab, split: Split, images: np.ndarray, policy: Policy, among: np.ndarray
    ) -> "ExpertHits":
        """among: which images may be judged."""
        own = split.image_of[:, None] == np.arange(len(images))[None]
        asked = Asked(lab, list(split.captions), images, own)
        judged = asked.judged(policy)
        shown = np.take_along_axis(asked.order, judged.order, 1)
        pairs = read_judgements(dataset_file("flickr8k", FILE)).within(
            split.image_ids, split.image_of
        )
        inside = shown[pairs.text] == pairs.image[:, None]
        kept = np.flatnonzero(inside.any(1) & among[pairs.image])
        place, text = inside[kept].argmax(1), pairs.text[kept]
        stated = judged.probability[text, place]
        weight = stands_for(asked.fits(judged), place, pairs.own[kept])
        return cls(asked, pairs.image[kept], text, stated, pairs.called(STRICT)[kept], weight)


def judged_by_experts(
    lab: Lab, split: Split, images: np.ndarray, policy: Policy
) -> dict[str, Any]:
    hits = ExpertHits.of(lab, split, images, policy, np.ones(len(images), bool))
    stated, said, weight = hits.stated, hits.fits, hits.weight
    held = ~expert_half(len(images))[hits.image]
    rows = {}
    for name, rows_of in (("all", np.ones(len(held), bool)), ("held back", held)):
        p, yes, heavy = stated[rows_of], said[rows_of], weight[rows_of]
        rows[name] = {
            "pairs": int(rows_of.sum()),
            "stated": float(np.average(p, weights=heavy)),
            "judged": float(np.average(yes, weights=heavy)),
            "auroc": float(weighted_auroc(p, yes, heavy[None])[0]),
            "bins": [
                expert_bin(p[some], yes[some], heavy[some])
                for low, high in itertools.pairwise(BINS)
                for some in [(p >= low) & (p < high)]
                if some.any()
            ],
        }
    return rows


def expert_bin(stated: np.ndarray, fits: np.ndarray, weight: np.ndarray) -> list[float]:
    """How many hits, mean stated, share that fits, and the ends of its 95 % interval.

    Wilson's interval for as many hits as their weights are worth; it has a width where all fit.
    """
    share = float(np.average(fits, weights=weight))
    count = float(weight.sum() ** 2 / np.square(weight).sum())
    mean = float(np.average(stated, weights=weight))
    return [len(fits), mean, share, *wilson(share, count)]


if __name__ == "__main__":
    main()
