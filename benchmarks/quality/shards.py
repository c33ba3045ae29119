"""One gallery in 1 to 1,000 shards: is the judgement the same, and what sample is enough?

    python -m benchmarks.quality.shards [--items 40000] [--queries 100] [--cache DIR]

Vectors: the photographs of Flickr8k test and, beyond, vectors drawn around them; captions of
the test split ask. Items are dealt to shards at random. Every shard returns its best 32 and its
smallest hashed ids; they merge, and one judgement follows. Beside it stands what happens where
every shard judges by itself and the surest answer is taken. For the sampling error the sample
is drawn again and again. A sample of so many items out of 10^9 errs as much as one out of
these, but for the share of the gallery that it is. Prints how far P moves and how often the
verdict changes.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.background import Background
from avow.core.places import avow_home
from avow.core.vector_forms import CutBytes
from avow.data.opening import open_dataset
from avow.retrieval.commonness import commonness
from avow.retrieval.encoders import projections
from avow.retrieval.forms import count_words, one_form
from avow.retrieval.merged_shards import merge_best, merge_samples, smallest_hashes
from avow.retrieval.store.model_folder import TOP
from avow.trust.policy import Policy
from avow.trust.top_k import SHOWN, hub_statistics, summarise_best
from benchmarks._lab import Lab
from benchmarks._report import commit, keep

SHARDS = (1, 10, 100, 1000)
SAMPLES = (256, 1024, 2048, 8192, 16384)
DRAWS = 5
AT_ONCE = 1000
ALONE = 6
NEAR = 0.6
"""How much of a drawn vector is noise."""


@dataclass(frozen=True)
class Setting:
    """What every judgement needs: similarities of each query to all items, per view."""

    policy: Policy
    tau: float
    scores: np.ndarray
    """Views, queries, items."""
    usual: Background
    words: np.ndarray
    common: np.ndarray
    vectors: np.ndarray

    def judge(
        self, query: int, best: np.ndarray, sample: np.ndarray, gallery: int
    ) -> tuple[float, str]:
        """P of the first hit shown, and the verdict."""
        mean = self.scores[:, query].mean(0)
        summary = summarise_best(
            self.scores[:, query, None][..., best],
            mean[None, sample],
            ~np.isin(sample, best)[None],
            gallery,
            self.tau,
            usual_best=hub_statistics(self.usual, best[None]),
            usual_sample=self.usual.log_mean[:, sample].mean(0),
        )
        one = slice(query, query + 1)
        words, common, vectors = self.words[one], self.common[one], self.vectors[one]
        policy = self.policy.for_size(gallery)
        told = policy.judge(summary, words, common=common, vectors=vectors, strict=False)
        return float(told.probability[0, 0]), str(told.verdicts[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=40_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    chosen = parser.parse_args()
    setting = prepared(Lab(chosen.cache), chosen.items, chosen.queries)
    figures: dict[str, Any] = {"commit": commit(), "items": chosen.items}
    figures |= {"queries": chosen.queries, "sample": 2048, "draws": DRAWS}
    figures["shards"] = [dealt(setting, count) for count in SHARDS]
    figures["samples"] = [sampled(setting, size) for size in SAMPLES]
    for row in (*figures["shards"], *figures["samples"]):
        print(row)
    print("->", keep("shards", figures))


def prepared(lab: Lab, items: int, queries: int) -> Setting:
    split = open_dataset("flickr8k").splits["test"]
    images = lab.photographs("flickr8k", list(split.files or ()))
    asked = [one_form(caption) for caption in split.captions]
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.choice(len(asked), queries, replace=False))
    vectors = lab.texts(asked)[chosen]
    form = CutBytes(projections.fitted(lab.encoder))
    gallery = drawn_around(form.turn(images), items, rng)
    views = lab.encoder.views
    scores = per_view(vectors, gallery, form, views)
    usual = [
        Background.from_scores([per_view(lab.bank, some, form, views)], lab.encoder.tau, TOP)
        for some in np.array_split(gallery, -(-items // AT_ONCE))
    ]
    texts = [asked[n] for n in chosen]
    return Setting(
        Policy.load(lab.encoder.home / "trust-text.json"),
        lab.encoder.tau,
        scores,
        _joined(usual),
        count_words(texts),
        commonness(texts),
        vectors,
    )


def drawn_around(real: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """The real vectors, and others: a real one with noise of the gallery's own shape."""
    more = max(0, count - len(real))
    middle = real.mean(0)
    first, second = real[rng.integers(0, len(real), (2, more))]
    mixed = np.sqrt(1 - NEAR**2) * (first - middle) + NEAR * (second - middle)
    made = middle + mixed + 0.02 * real.std() * rng.standard_normal(mixed.shape, np.float32)
    return np.concatenate([real, made])[:count].astype(np.float32)


def per_view(
    queries: np.ndarray, gallery: np.ndarray, form: CutBytes, views: int
) -> np.ndarray:
    """Similarities in each view; a query without its other views asks one view alone."""
    parts = np.zeros((views, *queries.shape), np.float32)
    width = queries.shape[1] // views
    for view in range(views):
        inside = slice(view * width, (view + 1) * width)
        parts[view, :, inside] = queries[:, inside]
    turned = form.turn(parts.reshape(-1, queries.shape[1])) * np.float32(views)
    return (turned @ gallery.T).reshape(views, len(queries), -1)


def dealt(setting: Setting, shards: int) -> dict[str, Any]:
    """Merged shards beside one store, and beside shards that judge by themselves."""
    queries, items = setting.scores.shape[1:]
    home, everyone = np.random.default_rng(shards).integers(0, shards, items), np.arange(items)
    parts = [everyone[home == shard] for shard in range(shards)]
    sample = merge_samples([smallest_hashes(part, 2048) for part in parts], 2048)
    whole = smallest_hashes(everyone, 2048)
    moved, changed, alone_moved, alone_changed = [], [], [], []
    for query in range(queries):
        mean = setting.scores[:, query].mean(0)
        p, verdict = setting.judge(
            query, np.argsort(-mean, kind="stable")[:SHOWN], whole, items
        )
        firsts = [part[np.argsort(-mean[part], kind="stable")[:SHOWN]] for part in parts]
        best, _ = merge_best([(first, mean[first]) for first in firsts], SHOWN)
        told = setting.judge(query, best, sample, items)
        moved.append(abs(told[0] - p))
        changed.append(told[1] != verdict)
        if query < ALONE:  # a thousand judgements a query
            own = [
                setting.judge(query, first, smallest_hashes(part, 2048), len(part))
                for first, part in zip(firsts, parts, strict=True)
                if len(part) > SHOWN
            ] or [(p, verdict)]
            surest = max(own)
            alone_moved.append(abs(surest[0] - p))
            alone_changed.append(surest[1] != verdict)
    return {
        "shards": shards,
        "largest_difference": float(np.max(moved)),
        "verdicts_changed": float(np.mean(changed)),
        "judged_alone_difference": float(np.mean(alone_moved)),
        "judged_alone_verdicts_changed": float(np.mean(alone_changed)),
    }


def sampled(setting: Setting, size: int) -> dict[str, Any]:
    """How far P moves from one sample to another of the same size."""
    queries, items = setting.scores.shape[1:]
    rng = np.random.default_rng(size)
    stated, verdicts = np.empty((queries, DRAWS)), []
    for query in range(queries):
        best = np.argsort(-setting.scores[:, query].mean(0), kind="stable")[:SHOWN]
        told = [
            setting.judge(query, best, np.sort(rng.choice(items, size, False)), items)
            for _ in range(DRAWS)
        ]
        stated[query] = [p for p, _ in told]
        verdicts.append(len({verdict for _, verdict in told}) > 1)
    spread = stated.std(1, ddof=1)
    deviation = float(np.sqrt((spread**2).mean()))
    return {
        "sample": size,
        "deviation": deviation,
        "deviation_unbounded": deviation / (1 - size / items) ** 0.5,
        "deviation_90": float(np.quantile(spread, 0.9)),
        "verdicts_that_vary": float(np.mean(verdicts)),
    }


def _joined(parts: list[Background]) -> Background:
    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts], 1)

    names = ("log_mean", "mean", "spread", "top")
    return Background(parts[0].queries, parts[0].tau, *map(joined, names))


if __name__ == "__main__":
    main()
