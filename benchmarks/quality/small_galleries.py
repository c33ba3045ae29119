"""Does a search refuse what is not there among a few dozen pictures?

    python -m benchmarks.quality.small_galleries [--cache DIR]

Galleries of 30 and of 100 photographs, drawn from Flickr8k test and from COCO test. Asked in
each: nouns that some picture of it shows, and two kinds of names that none shows:

    rare      names of ImageNet's classes that no caption of the dataset has, some in each
    common    nouns that the captions of other photographs say, and no caption of these

Printed: the share of absent names refused where 2, 5 and 10 % of the present nouns are, by the
shipped policy and by cuts on single scores, with the standard error over redrawn names. How
common a word is in captions is one of these cuts: it tells rare names from what is there
without a look at any picture, and common ones hardly. Nothing is fitted here.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from avow.blocks.imagenet_names import imagenet_names
from avow.core.places import avow_home
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words, one_form
from avow.study.short_queries import absent_names, noun_names, with_article
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Policy
from avow.trust.top_k import describe, summarise
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality.people import CUTS, SHARES, first, refused

SIZES, TOGETHER, SEED, DRAWS = (30, 100), 900, 0, 200
"""Galleries are drawn until they hold `TOGETHER` photographs."""
FEWEST, NOUNS, RARE, TEN = 5, 300, 100, 10
COMMON, POLICY = "how common", "policy"
KINDS = ("rare", "common")


class Names:
    """Nouns and rare names over all photographs of a dataset, scored once."""

    def __init__(self, lab: Lab, name: str, photographs: int):
        split = first(name, photographs)
        images = lab.photographs(name, list(split.files or ()))
        said = noun_names(split, at_least=FEWEST, most=NOUNS)
        away = absent_names(imagenet_names(), split.captions)
        texts = [one_form(text) for text in (*said.queries, *map(with_article, away))]
        nowhere = np.zeros((len(away), len(images)), bool)
        self.nouns = len(said.queries)
        self.match = np.concatenate([said.match, nowhere])
        self.words, self.common = count_words(texts), commonness(texts)
        self.vectors = lab.texts(texts)
        similarity = lab.similarity(self.vectors, images)
        usual = lab.usual(images)
        self.scored = ScoredQueries(similarity, self.match, 1, lab.encoder.tau, "exp", usual)

    def ask(
        self, policy: Policy, photographs: np.ndarray, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Names in one gallery: their scores, verdicts, and which kind each is of."""
        rare = self.nouns + rng.permutation(len(self.match) - self.nouns)[:RARE]
        asked = np.concatenate([np.arange(self.nouns), np.sort(rare)])
        fits = self.match[np.ix_(asked, photographs)]
        summary, order = summarise(self.scored.asked(asked, photographs))
        common, vectors = self.common[asked], self.vectors[asked]
        judged = policy.judge(
            summary, self.words[asked], common=common, vectors=vectors, strict=False
        )
        shown = np.take_along_axis(order, judged.order, 1)
        found = np.take_along_axis(fits, shown, 1).any(1)
        noun = np.where(asked < self.nouns, "common", "rare")
        kind = np.where(found, "present", noun)
        described = describe(summary)[:, :TEN].max(1)
        rows = {cut: described[:, summary.names.index(cut)] for cut in CUTS}
        rows |= {POLICY: judged.present, COMMON: common, "kind": kind}
        rows |= {"verdict": np.array(judged.verdicts), "name": asked}
        # a noun that a picture shows and no hit does is neither present nor absent
        kept = found | ~fits.any(1)
        return {key: values[kept] for key, values in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument("--photographs", type=int, default=1000)
    rows = all_sizes(**vars(parser.parse_args()))
    for row in rows:
        for kind in KINDS:
            print(f"{row['dataset']:<9} {row['size']:>3} {kind:<7} {sentence(row[kind])}")
    print(f"-> {keep('small_galleries', {'seed': SEED, 'rows': rows})}")


def all_sizes(cache: Path, photographs: int) -> list[dict[str, Any]]:
    """Both datasets in galleries of every size."""
    lab = Lab(cache)
    policy = Policy.load(lab.encoder.home / "trust-text.json")
    rows = []
    for dataset in ("flickr8k", "coco"):
        names = Names(lab, dataset, photographs)
        rows += [{"dataset": dataset, **measured(names, policy, size)} for size in SIZES]
    return rows


def measured(names: Names, policy: Policy, size: int) -> dict[str, Any]:
    rng, count = np.random.default_rng(SEED), names.match.shape[1]
    drawn = [np.sort(rng.permutation(count)[:size]) for _ in range(max(3, TOGETHER // size))]
    parts = [names.ask(policy, photographs, rng) for photographs in drawn]
    whole = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    present = whole["kind"] == "present"
    row: dict[str, Any] = {
        "size": size,
        "galleries": len(drawn),
        "present": int(present.sum()),
        "present_refused": refused(whole["verdict"][present].tolist()),
    }
    for kind in KINDS:
        absent = whole["kind"] == kind
        row[kind] = {
            "absent": int(absent.sum()),
            "absent_refused": refused(whole["verdict"][absent].tolist()),
            "at": {
                score: at_shares(whole[score], whole["name"], present, absent)
                for score in (POLICY, COMMON, *CUTS)
            },
        }
    return row


def at_shares(
    score: np.ndarray, name: np.ndarray, present: np.ndarray, absent: np.ndarray
) -> dict[str, list[float]]:
    """Share of absent names refused at each share of present ones, with its standard error.

    A name is asked in many galleries, so names are redrawn and not answers.
    """
    order = np.flatnonzero(present)[np.argsort(score[present], kind="stable")]
    rng, count = np.random.default_rng(SEED), int(name.max()) + 1
    once = np.ones(count, int)
    drawn = [
        np.bincount(rng.integers(count, size=count), minlength=count) for _ in range(DRAWS)
    ]

    def at(share: float, times: np.ndarray) -> float:
        below = np.cumsum(times[name[order]])
        cut = score[order[np.searchsorted(below, share * below[-1])]]
        return float(np.average(score[absent] < cut, weights=times[name[absent]]))

    return {
        f"{share:g}": [at(share, once), float(np.std([at(share, times) for times in drawn]))]
        for share in SHARES
    }


def sentence(row: dict[str, Any]) -> str:
    parts = []
    for share in (f"{each:g}" for each in SHARES):
        ours = row["at"][POLICY][share]
        cut = max(
            (each for each in row["at"] if each != POLICY),
            key=lambda each: row["at"][each][share],
        )
        best = row["at"][cut][share]
        parts.append(
            f"at {share}: {ours[0]:.3f} ± {ours[1]:.3f}, best single cut {best[0]:.3f} "
            f"({cut}; x{ours[0] / max(best[0], 1e-9):.2f})"
        )
    return "; ".join(parts)


if __name__ == "__main__":
    main()
