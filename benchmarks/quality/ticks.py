"""How many ticks does it take until trust fits another person's pictures?

    python -m benchmarks.quality.ticks [--cache DIR] [--repetitions 200]

Judgements that nothing was fitted on play the ticks of a user, over Flickr8k test:

    captions    hits shown for captions, as experts judged them; only images of the half that
                the curve of the labels was not fitted on
    names       hits shown for 100 nouns; good where a caption of the picture names the noun
    both        of either kind as many

A user ticks some of the hits: those of captions as often as experts' pairs stand for hits
shown, those of names three in ten. Queries are drawn at random, each with its ticks, until
there are 3, 10, 30, … The shipped policy
is adjusted by these (`avow/retrieval/ticks.py`), and its error is measured on the judgements
of all other queries, beside that of the policy without any tick. The same with a policy whose
log-odds are all too low, or too high, by 1.5: pictures and people that it does not know.
Beside them a policy of the index's own, fitted on as many known queries as `avow calibrate`
needs. The prior was chosen among eight over COCO test photographs, with nouns as names and with
captions that are good where they share three quarters of their words. A run on the judgements
here, with a fit that did not converge, had been seen before that.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.contracts import Split
from avow.core.logistic import expit
from avow.core.places import avow_home
from avow.retrieval.calibrate import FEWEST
from avow.retrieval.ticks import Ticks, fit_line, known_to
from avow.study.human_hits import weighted_errors
from avow.study.relevance_labels import expert_half
from avow.study.short_queries import noun_names
from avow.trust.coherence import log_odds
from avow.trust.fitting import CalibrationQueries, fit_search_policy
from avow.trust.policy import Policy
from avow.trust.probability import is_name
from benchmarks._lab import Lab
from benchmarks._report import keep
from benchmarks.quality.people import NOUNS, Asked, ExpertHits, first

COUNTS = (0, 3, 10, 30, 50, 100)
SHIFTS = {"shipped": 0.0, "too low": -1.5, "too high": 1.5}
TICKED = 0.3
"""Of the hits of a name, how many a user ticks."""
OWN_FITS, SEED = 5, 0


@dataclass(frozen=True)
class Judged:
    """Hits that somebody judged."""

    ticks: Ticks
    weight: np.ndarray
    """How many hits shown each stands for."""
    chance: np.ndarray
    """That a user ticks it, once its query is drawn."""
    candidate: np.ndarray

    def __len__(self) -> int:
        return len(self.ticks)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument("--repetitions", type=int, default=200)
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    policy = Policy.load(lab.encoder.home / "trust-text.json")
    split = first("flickr8k", 1000)
    images = lab.photographs("flickr8k", list(split.files or ()))
    captions, by_experts = expert_ticks(lab, split, images, policy)
    names, by_captions = name_ticks(lab, split, images, policy)
    sets = {
        "captions": by_experts,
        "names": by_captions,
        "both": together(by_experts, by_captions),
    }
    rows = {
        name: {
            label: simulated(shifted(one, shift), chosen.repetitions)
            for label, shift in SHIFTS.items()
        }
        for name, one in sets.items()
    }
    own = {
        "captions": own_fits(captions, by_experts),
        "names": own_fits(names, by_captions),
    }
    kept = {
        "seed": SEED,
        "repetitions": chosen.repetitions,
        "own_fits": OWN_FITS,
        "needed": FEWEST,
        "shift": max(SHIFTS.values()),
        "judgements": {
            name: [len(one), len(np.unique(one.ticks.query))] for name, one in sets.items()
        },
        "rows": rows,
        "own": own,
    }
    for line in lines(rows, own):
        print(line)
    print(f"-> {keep('ticks', kept)}")


def expert_ticks(
    lab: Lab, split: Split, images: np.ndarray, policy: Policy
) -> tuple[Asked, Judged]:
    """Hits of captions that experts judged, on images that nothing was fitted on."""
    hits = ExpertHits.of(lab, split, images, policy, ~expert_half(len(images)))
    ticks = Ticks(hits.stated, hits.fits, hits.text, hits.asked.words[hits.text])
    return hits.asked, Judged(ticks, hits.weight, hits.weight / hits.weight.max(), hits.image)


def name_ticks(
    lab: Lab, split: Split, images: np.ndarray, policy: Policy
) -> tuple[Asked, Judged]:
    """Hits of nouns, good where a caption of the picture names the noun."""
    said = noun_names(split, at_least=5, most=NOUNS)
    asked = Asked(lab, list(said.queries), images, said.match)
    judged = asked.judged(policy)
    shown = np.take_along_axis(asked.order, judged.order, 1)
    query = np.repeat(np.arange(len(shown)), shown.shape[1])
    good = asked.fits(judged).ravel()
    ticks = Ticks(judged.probability.ravel(), good, query, asked.words[query])
    alike = np.ones(len(ticks))
    return asked, Judged(ticks, alike, TICKED * alike, shown.ravel())


def together(one: Judged, other: Judged) -> Judged:
    """Both kinds, each with half of the weight and of the ticks."""
    a, b = one.ticks, other.ticks
    ticks = Ticks(
        np.concatenate([a.stated, b.stated]),
        np.concatenate([a.good, b.good]),
        np.concatenate([a.query, b.query + a.query.max() + 1]),
        np.concatenate([a.words, b.words]),
    )
    weight = [part.weight / part.weight.sum() for part in (one, other)]
    fewest = min(part.chance.sum() for part in (one, other))
    chance = [part.chance * fewest / part.chance.sum() for part in (one, other)]
    candidate = np.concatenate([one.candidate, other.candidate])
    return Judged(ticks, np.concatenate(weight), np.concatenate(chance), candidate)


def shifted(judged: Judged, by: float) -> Judged:
    """As a policy states them whose log-odds are off."""
    ticks = judged.ticks
    wrong = Ticks(expit(log_odds(ticks.stated) + by), ticks.good, ticks.query, ticks.words)
    return replace(judged, ticks=wrong)


def simulated(judged: Judged, repetitions: int) -> dict[str, dict[str, float]]:
    """Per number of ticks, the errors on other queries before and after."""
    rows: dict[str, list[dict[str, float]]] = {str(count): [] for count in COUNTS}
    for seed in range(SEED, SEED + repetitions):
        for count, drawn in draws(judged, np.random.default_rng(seed)):
            rows[str(count)].append(once(judged, drawn))
    return {count: summed(found) for count, found in rows.items()}


def draws(judged: Judged, rng: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
    """Which judgements are ticks: those of queries in random order, until there are enough."""
    _, which = np.unique(judged.ticks.query, return_inverse=True)
    turn = rng.permutation(which.max() + 1)[which]
    order = np.lexsort((rng.random(len(which)), turn))
    order = order[rng.random(len(order)) < judged.chance[order]]
    for count in COUNTS:
        drawn = np.zeros(len(which), bool)
        drawn[order[:count]] = True
        assert drawn.sum() == count, "there are too few judgements"
        yield count, drawn


def once(judged: Judged, drawn: np.ndarray) -> dict[str, float]:
    ticks = judged.ticks.only(drawn)
    other = ~np.isin(judged.ticks.query, ticks.query)
    unseen, weight = judged.ticks.only(other), judged.weight[other]
    line, covariance = fit_line(ticks)
    after = line(unseen.stated, unseen.words)
    # the same ticks as if all queries were of one kind
    alone, _ = fit_line(Ticks(ticks.stated, ticks.good, ticks.query, np.full(len(ticks), 9)))
    plain = alone(unseen.stated, np.full(len(unseen), 9))
    found = {
        f"{name} {when}": value
        for when, stated in (("before", unseen.stated), ("after", after), ("one kind", plain))
        for name, value in errors(stated, unseen.good, weight).items()
    }
    found["known to"] = known_to(unseen, line, covariance)
    found["better"] = float(found["brier after"] < found["brier before"])
    return found


def errors(stated: np.ndarray, good: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    gap = float(np.average(stated - good, weights=weight))
    return {
        "brier": float(np.average(np.square(stated - good), weights=weight)),
        "ece": float(weighted_errors(stated, good, weight[None])[0]),
        "gap": gap,
        "size of gap": abs(gap),
    }


def summed(found: list[dict[str, float]]) -> dict[str, float]:
    rows = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
    rows["ratio"] = rows["brier after"] / rows["brier before"]
    rows["ratio one kind"] = rows["brier one kind"] / rows["brier before"]
    return rows


def own_fits(asked: Asked, judged: Judged) -> dict[str, float]:
    """The errors of a policy of the index's own, by as many known queries as that needs."""
    found = []
    for seed in range(OWN_FITS):
        queries = np.arange(len(asked.texts))
        known = np.sort(np.random.default_rng(seed).permutation(queries)[:FEWEST])
        if is_name(asked.words).all():  # few: no query is both known and judged
            others = ~np.isin(judged.ticks.query, known)
        else:
            known = np.sort(
                np.random.default_rng(seed).permutation(
                    np.setdiff1d(queries, judged.ticks.query)
                )[:FEWEST]
            )
            others = np.ones(len(judged), bool)
        learnt = CalibrationQueries("text", asked.scored, asked.words, asked.common).only(known)
        policy = fit_search_policy([learnt], model="")
        said = policy.judge(
            asked.summary, asked.words, common=asked.common, shown=32, strict=False
        )
        place = np.take_along_axis(asked.order, said.order, 1)
        inside = place[judged.ticks.query] == judged.candidate[:, None]
        stated = said.probability[judged.ticks.query, inside.argmax(1)]
        assert inside.any(1).all()
        weight = judged.weight[others]
        found.append(errors(stated[others], judged.ticks.good[others], weight))
    return {key: float(np.mean([one[key] for one in found])) for key in found[0]}


def lines(rows: dict[str, Any], own: dict[str, Any]) -> Iterator[str]:
    head = ("ticks of", "policy", "ticks", "Brier", "ratio", "better in", "ECE", "gap", "known")
    yield "{:10} {:9} {:>6} {:>7} {:>6} {:>9} {:>6} {:>7} {:>6}".format(*head)
    for name, by_policy in rows.items():
        for label, by_count in by_policy.items():
            for count, row in by_count.items():
                yield (
                    f"{name:10} {label:9} {count:>6} {row['brier after']:7.4f} "
                    f"{row['ratio']:6.3f} {row['better']:9.0%} {row['ece after']:6.3f} "
                    f"{row['gap after']:+7.3f} {row['known to']:6.3f}"
                )
        if name in own:
            row = own[name]
            yield (
                f"{name:10} its own policy, {FEWEST} known queries: Brier {row['brier']:.4f}, "
                f"ECE {row['ece']:.3f}, gap {row['gap']:+.3f}"
            )


if __name__ == "__main__":
    main()
