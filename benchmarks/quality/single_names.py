"""How far off is "about N pictures fit" for a single name, and would a mixture mend it?

    python -m benchmarks.quality.single_names [--cache DIR] [--before trust-text.json]

Dev photographs only; nothing of it is in a search. Nouns of Flickr8k's and of COCO's dev
captions and COCO's object names, each asked in galleries with its usual share (all photographs,
100 and 30 drawn) and in galleries made so that it has a share of 1, 4, 20 and 50 %. The true
number is what captions or objects say. Beside the shipped policy (half of these names fitted
it), and an earlier one where `--before` names it:

    mixture    share of the name by a mixture of two densities (`_name_mixture`), whose
               levels are told by how common the word is
    bank       the levels told by the name's similarities to the model's reference queries too
    pictures   and by training photographs of Flickr8k whose captions say it

Each then states P of every picture by a logistic regression over the policy's log-odds and the
mixture's at three powers, learnt on galleries with random sizes and shares; "about N" is the
sum. Five folds over names: what is measured is of names that nothing was learnt from.
"""

import argparse
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from avow.blocks.imagenet_names import imagenet_names
from avow.core.background import Background
from avow.core.logistic import expit, fit_logistic
from avow.core.places import avow_home
from avow.data.opening import dataset_file, open_dataset
from avow.data.words import word_tokenize
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words, one_form
from avow.study.short_queries import (
    absent_names,
    content_stems,
    noun_names,
    object_names,
    read_objects,
    with_article,
)
from avow.trust.coherence import each_behind
from avow.trust.counting import behind
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Policy
from avow.trust.top_k import relative_evidence, summarise
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality._name_galleries import fixed_galleries, random_galleries
from benchmarks.quality._name_mixture import KnownName, Mixture

FOLDS, SEED, TEN, ABSENT, TRAINING = 5, 0, 10, 200, 2400
POWERS = (0.1, 0.3, 1.0)
VARIANTS = ("mixture", "bank", "pictures")
STRENGTH, ABSENT_WEIGHT, BEHIND, HEAVIEST = 0.05, 0.3, 15, 5.0


@dataclass(frozen=True)
class Names:
    """Names of one kind over the photographs of one dataset."""

    texts: list[str]
    match: np.ndarray
    vectors: np.ndarray
    similarity: np.ndarray
    usual: Background
    evidence: np.ndarray
    about: dict[str, np.ndarray]
    """What is known of each name itself, per variant."""

    @property
    def fold(self) -> np.ndarray:
        """By the noun, so that a name is in one fold whatever it is asked over."""
        stems = [" ".join(sorted(content_stems(text.split()[1:]))) for text in self.texts]
        return np.array([int(hashlib.md5(s.encode()).hexdigest(), 16) % FOLDS for s in stems])

    def known(self, variant: str) -> list[KnownName]:
        return [
            KnownName(self.about[variant][row], values[match], values[~match])
            for row, (values, match) in enumerate(zip(self.evidence, self.match, strict=True))
        ]


@dataclass(frozen=True)
class Asked:
    """One name in one gallery, with what the shipped policy states."""

    text: str
    kind: str
    fold: int
    evidence: np.ndarray
    match: np.ndarray
    hits: np.ndarray
    stated: np.ndarray
    """P of every picture; "about N" is the sum."""
    ends: tuple[float, float]
    common: float
    words: int
    present: float
    about: dict[str, np.ndarray]
    absent: bool
    """Whether no photograph of the dataset shows it, in this gallery or another."""

    @property
    def ten(self) -> np.ndarray:
        return self.hits[:TEN]


class Reference:
    """What the model's reference queries and training photographs tell of a name."""

    def __init__(self, lab: Lab):
        self.lab = lab
        split = open_dataset("flickr8k").splits["train"]
        rows = np.random.default_rng(0).permutation(len(split.image_ids))[:TRAINING]
        rows = np.sort(rows)
        place = {row: number for number, row in enumerate(rows.tolist())}
        assert split.files is not None
        self.images = lab.photographs("flickr8k", [split.files[row] for row in rows], "train")
        self.said: list[set[str]] = [set() for _ in rows]
        for caption, image in zip(split.captions, split.image_of.tolist(), strict=True):
            if image in place:
                self.said[place[image]] |= content_stems(word_tokenize(caption.lower()))
        self.usual = lab.usual(self.images)

    def about(self, texts: list[str]) -> dict[str, np.ndarray]:
        asked = [one_form(text) for text in texts]
        vectors, tau = self.lab.texts(asked), self.lab.encoder.tau
        plain = np.c_[commonness(asked), count_words(asked) == 1].astype(float)
        near = np.sort(self.lab.similarity(vectors, self.lab.bank).mean(0) / tau)
        columns = [near[:, -top:].mean(1) for top in (5, 8, 20, 100)]
        bank = np.c_[near.mean(1), near.std(1), np.stack(columns, 1), plain]
        seen = self.lab.similarity(vectors, self.images)
        evidence = relative_evidence(seen, self.usual, tau)
        rows = [
            self._pictures(text, values) for text, values in zip(texts, evidence, strict=True)
        ]
        return {"mixture": plain, "bank": bank, "pictures": np.c_[np.array(rows), bank]}

    def _pictures(self, text: str, evidence: np.ndarray) -> list[float]:
        """The training photographs that fit count for more, the more there are."""
        wanted = content_stems(text.lower().split()[1:])
        fits = np.array([wanted <= said for said in self.said])
        count, best = int(fits.sum()), float(np.sort(evidence)[-20:].mean())
        above = evidence[fits].mean() - best if count > 1 else 0.0
        return [
            above * count / (count + 3),
            float(count > 1),
            np.log1p(count),
            float(np.median(evidence)),
            float(evidence.std()),
            best,
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument("--before", type=Path, help="a policy to show beside the shipped one")
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policy = Policy.load(lab.encoder.home / "trust-text.json")
    kinds = every_name(lab, Reference(lab))
    rng = np.random.default_rng(SEED)
    learn = asked_in_all(kinds, policy, rng, learning=True)
    state, rows, absent = rng.bit_generator.state, {}, {}
    if chosen.before:
        measure = asked_in_all(kinds, Policy.load(chosen.before), rng)
        there = [one for one in measure if one.match.any()]
        rows["before"] = by_gallery(there, today(there))
        absent["before"] = of_absent(measure, [one.stated for one in measure])
    rng.bit_generator.state = state  # both policies are asked in the same galleries
    measure = asked_in_all(kinds, policy, rng)
    there = [one for one in measure if one.match.any()]
    rows["today"] = by_gallery(there, today(there))
    absent["today"] = of_absent(measure, [one.stated for one in measure])
    seconds: dict[str, float] = {}
    for variant in VARIANTS:
        stated, spread, seconds[variant] = held_out(kinds, learn, measure, variant)
        kept = [place for place, one in enumerate(measure) if one.match.any()]
        rows[variant] = by_gallery(
            there, [with_ends(stated[place], spread[measure[place].fold]) for place in kept]
        )
        absent[variant] = of_absent(measure, stated)
    for name, row in rows.items():
        print(name, *(f"{kind}: {told}" for kind, told in row.items()), sep="\n  ", flush=True)
    names = sum(names.match.any(1).sum() for names in kinds)
    figures = {"names": int(names), "rows": rows, "absent": absent, "ms": seconds}
    print(f"absent: {absent}\n-> {keep('single_names', {**figures, 'seed': SEED})}")


def every_name(lab: Lab, reference: Reference) -> list[Names]:
    """Nouns, COCO's objects, and names that no caption has."""
    found = []
    for name in ("flickr8k", "coco"):
        split = open_dataset(name).splits["dev"]
        images = lab.photographs(name, list(split.files or ()), "dev")
        usual = lab.usual(images)
        said = noun_names(split, at_least=5, most=400)
        away = [with_article(one) for one in absent_names(imagenet_names(), split.captions)]
        away = sorted(np.random.default_rng(0).permutation(away)[:ABSENT].tolist())
        asked = [
            (list(said.queries), said.match),
            (away, np.zeros((len(away), len(images)), bool)),
        ]
        if name == "coco":
            held = object_names(split, read_objects(dataset_file("coco", "objects_dev.json")))[
                1
            ]
            often = held.match.sum(1) >= 3
            texts = [text for text, yes in zip(held.queries, often, strict=True) if yes]
            asked.append((texts, held.match[often]))
        for texts, match in asked:
            vectors = lab.texts([one_form(text) for text in texts])
            similarity = lab.similarity(vectors, images)
            evidence = relative_evidence(similarity, usual, lab.encoder.tau)
            about = reference.about(texts)
            found.append(Names(texts, match, vectors, similarity, usual, evidence, about))
    return found


def asked_in_all(
    kinds: list[Names], policy: Policy, rng: np.random.Generator, learning: bool = False
) -> list[Asked]:
    """Every name in its galleries: to learn from, of random sizes and shares."""
    draw = random_galleries if learning else fixed_galleries
    asked = []
    for names in kinds:
        for row, match in enumerate(names.match):
            for kind, chosen in draw(match, rng):
                asked.append(ask(names, policy, row, kind, np.sort(chosen)))
    return asked


def ask(names: Names, policy: Policy, row: int, kind: str, chosen: np.ndarray) -> Asked:
    text, match = names.texts[row], names.match[row : row + 1, chosen]
    similarity = names.similarity[:, row : row + 1][:, :, chosen]
    scored = ScoredQueries(similarity, match, 1, policy.tau, "exp", names.usual.of(chosen))
    summary, order = summarise(scored.asked())
    words, common = count_words([text]), commonness([text])
    reading = policy.read(summary, words, common, names.vectors[row : row + 1])
    judged = policy.judge(reading, shown=order.shape[1], strict=False)
    others = behind(scored, order)
    number = policy.number(reading, others)
    assert policy.tail is not None and number is not None
    stated = each_behind(judged.probability, others, policy.tail, words, reading.above)[0]
    hits = order[0][judged.order[0]]
    stated[hits] = judged.probability[0]
    return Asked(
        text,
        kind,
        int(names.fold[row]),
        names.evidence[row, chosen],
        match[0],
        hits,
        stated,
        (float(number.low[0]), float(number.high[0])),
        float(common[0]),
        int(words[0]),
        float(judged.present[0]),
        {variant: about[row] for variant, about in names.about.items()},
        not names.match[row].any(),
    )


def held_out(
    kinds: list[Names], learn: list[Asked], measure: list[Asked], variant: str
) -> tuple[list[np.ndarray], list[float], float]:
    """P of every picture, the factor of the interval per fold, and milliseconds a name."""
    stated: list[np.ndarray] = [np.empty(0)] * len(measure)
    spreads, spent = [], 0.0
    known = [(one, names.fold) for names in kinds for one in [names.known(variant)]]
    for fold in range(FOLDS):
        others = [
            one for some, of in known for one, at in zip(some, of, strict=True) if at != fold
        ]
        mixture = Mixture.learn(others)
        seen = [one for one in learn if one.fold != fold]
        described = [describe(mixture, one, variant) for one in seen]
        model = fit_pictures(seen, described)
        off = [
            abs(np.log((model(rows).sum() + 0.5) / (one.match.sum() + 0.5)))
            for one, rows in zip(seen, described, strict=True)
            if one.match.any()
        ]
        spreads.append(float(np.exp(np.quantile(off, 0.8))))
        begun = time.perf_counter()
        for place, one in enumerate(measure):
            if one.fold == fold:
                stated[place] = model(describe(mixture, one, variant))
        spent += time.perf_counter() - begun
    return stated, spreads, 1000 * spent / len(measure)


def describe(mixture: Mixture, asked: Asked, variant: str) -> np.ndarray:
    """What P of each picture is read from."""
    size = len(asked.match)
    said = mixture.believe(asked.evidence, asked.about[variant], POWERS)
    odds = np.stack(
        [log_odds(one) for one in (asked.stated, *(b.probability for b in said))], 1
    )
    scale, common = (np.log(size) - 6) / 2, asked.common / 4
    shares = [np.log((n + 0.5) / size) for n in (asked.stated.sum(), *(b.median for b in said))]
    widths = [np.log((b.high + 0.5) / (b.low + 0.5)) for b in said]
    level = mixture.fits(asked.about[variant]) - mixture.others(asked.about[variant])
    first = log_odds(np.array(asked.present)) / 3
    query = np.array([scale, common, asked.words == 1, first, *shares, *widths, level])
    query = np.r_[query, np.outer(query, query)[np.triu_indices(len(query))]]
    bends = [np.maximum(odds[:, [0, 2]] - at, 0) for at in (-4, -2, 0, 2)]
    products = [odds * scale, odds[:, [0, 2]] * common, odds * shares[0], odds * shares[2]]
    both = odds[:, :1] * odds[:, 2:3]
    whole = np.broadcast_to(query, (size, len(query)))
    return np.concatenate([odds, *products, *bends, both, whole], 1, dtype=np.float32)


def log_odds(stated: np.ndarray) -> np.ndarray:
    kept = np.clip(stated, 1e-5, 1 - 1e-5)
    return np.log(kept / (1 - kept))


def fit_pictures(seen: list[Asked], described: list[np.ndarray]) -> Any:
    """A logistic regression over the first ten hits and some pictures behind them."""
    rng = np.random.default_rng(SEED)
    rows, fits, weights = [], [], []
    for one, features in zip(seen, described, strict=True):
        rest = np.setdiff1d(np.arange(len(one.match)), one.ten)
        some = rng.permutation(rest)[:BEHIND]
        weight = ABSENT_WEIGHT if one.absent else 1.0
        heavy = min(len(rest) / max(len(some), 1), HEAVIEST)
        rows += [features[one.ten], features[some]]
        fits += [one.match[one.ten], one.match[some]]
        weights += [np.full(len(one.ten), weight), np.full(len(some), weight * heavy)]
    table = np.concatenate(rows)
    centre, scale = table.mean(0), table.std(0) + 1e-6
    found = fit_logistic(
        (table - centre) / scale, np.concatenate(fits), np.concatenate(weights), STRENGTH
    )
    return lambda features: expit((features - centre) / scale @ found[:-1] + found[-1])


Statement = tuple[np.ndarray, float, float]


def today(asked: list[Asked]) -> list[Statement]:
    return [(one.stated, *one.ends) for one in asked]


def with_ends(stated: np.ndarray, factor: float) -> Statement:
    number = stated.sum() + 0.5
    return stated, number / factor - 0.5, number * factor - 0.5


def by_gallery(asked: list[Asked], said: list[Statement]) -> dict[str, dict[str, float]]:
    """The figures of every kind of gallery, and of all together."""
    rows = {}
    for kind in ("every", *dict.fromkeys(one.kind for one in asked)):
        pairs = zip(asked, said, strict=True)
        some = [pair for pair in pairs if kind in ("every", pair[0].kind)]
        rows[kind] = measured([one for one, _ in some], [told for _, told in some])
    return rows


def of_absent(asked: list[Asked], stated: list[np.ndarray]) -> dict[str, float]:
    """What is stated of names that no photograph shows."""
    gone = [place for place, one in enumerate(asked) if one.absent]
    number = [stated[place].sum() for place in gone]
    ten = [stated[place][asked[place].ten].mean() for place in gone]
    return {
        "galleries": len(gone),
        "number": float(np.median(number)),
        "nine_in_ten": float(np.quantile(number, 0.9)),
        "ten": float(np.mean(ten)),
    }


def measured(asked: list[Asked], said: list[Statement]) -> dict[str, float]:
    true = np.array([one.match.sum() for one in asked])
    number, low, high = np.array([(p.sum(), low, high) for p, low, high in said]).T
    off = np.log2((number + 0.5) / (true + 0.5))
    ten = np.concatenate([p[one.ten] for one, (p, _, _) in zip(asked, said, strict=True)])
    fits = np.concatenate([one.match[one.ten] for one in asked])
    kept = np.clip(ten, 1e-4, 1 - 1e-4)
    each = np.array([
        abs(p[one.ten].mean() - one.match[one.ten].mean())
        for one, (p, _, _) in zip(asked, said, strict=True)
    ])  # fmt: skip
    return {
        "galleries": len(asked),
        "median": float(np.median(abs(off))),
        "nine_in_ten": float(np.quantile(abs(off), 0.9)),
        "bias": float(off.mean()),
        "inside": float(((low <= true) & (true <= high)).mean()),
        "log_loss": float(-np.log(np.where(fits, kept, 1 - kept)).mean()),
        "apart": float(each.mean()),
    }


if __name__ == "__main__":
    main()
