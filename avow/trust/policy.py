"""When to answer, when to say "look yourself", when to say "nothing found": for a search.

    what was seen of the answers --Policy.judge--> probability of every hit, verdict

A policy is fitted once, on queries of several kinds over galleries of many sizes: whole
captions, short phrases, names of things, and a quarter of them with nothing to find. It
states, for every hit, the probability that a person would call it relevant; for the answer,
the probability that one of those shown is; and it keeps the held-out answers it was checked with, so that any risk may be asked for: "at
most one answer in ten with nothing relevant among those shown". What the gallery hardly
holds at all is refused.

How many words a query has says what kind it is: a name fits many pictures, a caption one.
Hits are shown in the order of their probability, which knows of hubs where similarity does
not: of the best candidates by similarity, the most probable come first.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from avow.core.errors import BadData, WrongTrust
from avow.core.files import write_text
from avow.trust.galleries import SIZES, Hits, Scored, draw_sizes, one_of, see
from avow.trust.judge import Conditions, Verdict
from avow.trust.probability import Probability, fit_probability
from avow.trust.promise import Promise, promise
from avow.trust.sight import SHOWN as CANDIDATES
from avow.trust.sight import Sight, describe

FORMAT = 1
SHOWN = 10
DELTA = 0.1
RISKS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
REFUSED_IN_VAIN = 0.1
"""Share of right first answers that may be withheld as "nothing found"."""
NOTHING_THERE = 0.25
"""Share of queries with nothing to find that the probability of a hit is fitted for."""
LEARNT, HELD = 2000, 4000
"""Queries of each kind that are learnt from, and of all kinds kept to check with."""
_FAR = 0.001
_ODD = 0.15  # share of numbers outside what was ever seen that makes a query unlike the rest
_LEAST = 1e-6


@dataclass(frozen=True)
class Asking:
    """Queries of one kind over one gallery, with what is known to be relevant.

    Where nothing is relevant to any of them, they teach what to refuse and nothing else.
    """

    style: str
    scored: Scored
    words: Int[np.ndarray, " queries"]
    """How many words each query has; 0 for a photograph."""


@dataclass(frozen=True)
class Held:
    """Answers that were not learnt from: what was stated of them, and what was true."""

    stated: Float[np.ndarray, "queries shown"]
    relevant: Bool[np.ndarray, "queries shown"]
    groups: Int[np.ndarray, " queries"]


@dataclass(frozen=True)
class Ruling:
    """What may be said of the answers of some queries."""

    order: Int[np.ndarray, "queries shown"]
    """Which of the candidates seen to show, the most probable first."""
    probability: Float[np.ndarray, "queries shown"]
    """That each of these is relevant."""
    confidence: Float[np.ndarray, " queries"]
    """That one of those shown is."""
    present: Float[np.ndarray, " queries"]
    """That the gallery holds anything relevant, were that as likely as not."""
    verdicts: list[Verdict]
    promise: Promise
    doubts: list[str] = field(default_factory=list)
    odd: Float[np.ndarray, " queries"] | None = None
    """Share of what is seen that lies outside everything the policy was fitted on."""


@dataclass(frozen=True, eq=False)  # arrays have no hash, and promises are remembered
class Policy:
    """Fitted probabilities, the answers they were checked with, and what they are for."""

    conditions: Conditions
    probability: Probability
    present: Probability
    refuse: tuple[float, ...]
    """Where to refuse, in log-odds of `present`: by size of the gallery and words asked."""
    held: Held
    answer: tuple[tuple[float, float], ...]
    """Per number shown, slope and offset from `one_of` to a probability, in log-odds."""
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    """The range of each number that describes a first hit, extremes left out."""

    @cached_property
    def default_risk(self) -> float:
        """The lowest risk at which at least half of the held answers may be given."""
        for risk in RISKS:
            if self.promised(risk, SHOWN).coverage >= 0.5:
                return risk
        return RISKS[-1]

    def promised(self, risk: float, among: int, delta: float = DELTA) -> Promise:
        """The promise that one of `among` hits is relevant in all but `risk` of the answers."""
        return _promised(self, risk, min(among, SHOWN), delta)

    def judge(
        self,
        sight: Sight,
        words: Int[np.ndarray, " queries"],
        *,
        shown: int = SHOWN,
        risk: float | None = None,
        delta: float = DELTA,
        model: str | None = None,
        style: str | None = None,
    ) -> Ruling:
        """Probabilities and verdicts for what a search has seen of its answers."""
        features = described(describe(sight).numpy(), words)
        if features.shape[-1] != len(self.probability.names):
            raise WrongTrust(
                f"The policy reads {len(self.probability.names)} numbers per hit and the "
                f"search gives {features.shape[-1]}. Expected the same bank of reference "
                "queries (or none) as when it was fitted; calibrate again."
            )
        sizes = sight.gallery.numpy()
        doubts = self.conditions.doubts(int(sizes.max()), model=model, style=style)
        if any(doubt.startswith("fitted for model") for doubt in doubts):
            raise WrongTrust(
                f"The policy was {doubts[0]}. Expected the model it was fitted with; "
                "calibrate with `avow calibrate`."
            )
        stated = stated_for(self.probability, features, sizes)
        order = np.argsort(-stated, axis=1, kind="stable")[:, :shown]
        stated = np.take_along_axis(stated, order, axis=1)
        kept = min(stated.shape[1], SHOWN)
        there = self.present(features[:, 0], sizes)
        chosen = self.promised(self.default_risk if risk is None else risk, kept, delta)
        score = one_of(stated[:, :kept])
        return Ruling(
            order,
            stated,
            self._answered(score, kept),
            there,
            self._verdicts(chosen.answers(score), there, sizes, words),
            chosen,
            doubts,
            self._odd(features[:, 0]),
        )

    def _verdicts(
        self,
        answered: Bool[np.ndarray, " queries"],
        there: Float[np.ndarray, " queries"],
        sizes: Int[np.ndarray, " queries"],
        words: Int[np.ndarray, " queries"],
    ) -> list[Verdict]:
        refused = _log_odds(there) < _kind_of(sizes, words) @ np.array(self.refuse)
        return [
            "nothing found" if low else "answer" if yes else "check"
            for yes, low in zip(answered, refused, strict=True)
        ]

    def _answered(
        self, score: Float[np.ndarray, " queries"], kept: int
    ) -> Float[np.ndarray, " queries"]:
        slope, offset = self.answer[kept - 1]
        return 1 / (1 + np.exp(-(slope * _log_odds(score) + offset)))

    def _odd(
        self, first: Float[np.ndarray, "queries features"]
    ) -> Float[np.ndarray, " queries"]:
        outside = (first < np.array(self.lowest)) | (first > np.array(self.highest))
        return outside.mean(1)

    @staticmethod
    def is_odd(share: float) -> bool:
        """Whether a query is unlike everything the policy was fitted on."""
        return bool(share > _ODD)

    def save(self, path: str | Path) -> None:
        """One JSON file of plain numbers."""
        content = {
            "format": FORMAT,
            "conditions": asdict(self.conditions),
            "probability": self.probability.to_dict(),
            "present": self.present.to_dict(),
            "refuse": self.refuse,
            "answer": self.answer,
            "lowest": self.lowest,
            "highest": self.highest,
            "held": {
                "stated": np.round(self.held.stated, 4).tolist(),
                "relevant": self.held.relevant.astype(int).tolist(),
                "groups": self.held.groups.tolist(),
            },
        }
        write_text(Path(path), json.dumps(content))

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise ValueError("another format")
            held = content["held"]
            return cls(
                Conditions(**content["conditions"]),
                Probability.from_dict(content["probability"]),
                Probability.from_dict(content["present"]),
                tuple(map(float, content["refuse"])),
                Held(
                    np.array(held["stated"], float),
                    np.array(held["relevant"], bool),
                    np.array(held["groups"], int),
                ),
                tuple((float(slope), float(offset)) for slope, offset in content["answer"]),
                tuple(map(float, content["lowest"])),
                tuple(map(float, content["highest"])),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WrongTrust(
                f"The policy {str(path)!r} cannot be read ({error}). Expected a file written "
                "by `Policy.save`; calibrate again with `avow calibrate`."
            ) from error


def fit_policy(
    askings: Sequence[Asking],
    *,
    model: str = "",
    gallery: str = "",
    style: str = "",
    sizes: Sequence[int] = SIZES,
    refused_in_vain: float = REFUSED_IN_VAIN,
    seed: int = 0,
) -> Policy:
    """A policy from held-out queries of one or several kinds.

    One half of each kind's queries fits the probabilities; the other half states how far an
    answer holds, and every promise rests on it. Each kind counts the same however many
    queries it has.
    """
    first, second, empty = [], [], []
    for number, asking in enumerate(askings):
        one, other = _halves(asking, seed + number)
        if asking.scored.match.any():
            first.append(_see(one, sizes, seed, 2 * number))
            second.append(_see(other, sizes, seed, 2 * number + 1, keep=CANDIDATES))
        empty.append(_see(one, sizes, seed, 2 * number, absent=True))
    if not second:
        raise BadData("No query has a relevant item. Expected some; give right answers.")
    fitted, held, nothing = _even(first), _even(second, HELD // len(second)), _even(empty)
    probability = _fit_hits(Hits.join([fitted, _share(nothing, fitted)]))
    present = _fit_present(fitted, nothing)
    stated, relevant = _shown(probability, held)
    right = held.right[:, 0]
    if not right.any():
        raise BadData(
            "No held-out query has a relevant first answer. Expected some; give more queries."
        )
    largest, smallest = int(fitted.gallery.max()), int(fitted.gallery.min())
    return Policy(
        Conditions(model, gallery, style, smallest, largest),
        probability,
        present,
        _refuse(present, held.only(np.flatnonzero(right)), refused_in_vain),
        Held(stated, relevant, held.groups),
        _answers(stated, relevant),
        tuple(np.quantile(fitted.first, _FAR, axis=0).tolist()),
        tuple(np.quantile(fitted.first, 1 - _FAR, axis=0).tolist()),
    )


def described(
    features: Float[np.ndarray, "queries shown features"], words: Int[np.ndarray, " queries"]
) -> Float[np.ndarray, "queries shown more"]:
    """What is seen of hits, and of what kind the query is.

    A short query has many relevant pictures, so the same sight of it means something else:
    beside the number of words stand its products with how far the first hits stand out.
    """
    length = np.log1p(words.astype(np.float32))[:, None, None]
    wide = np.broadcast_to(length, (*features.shape[:2], 1))
    return np.concatenate([features, wide, features * length], axis=2, dtype=np.float32)


def stated_for(
    probability: Probability,
    features: Float[np.ndarray, "queries shown features"],
    gallery: Int[np.ndarray, " queries"],
) -> Float[np.ndarray, "queries shown"]:
    """The probability of every hit."""
    queries, shown, count = features.shape
    flat = probability(features.reshape(-1, count), np.repeat(gallery, shown))
    return flat.reshape(queries, shown)


def _halves(asking: Asking, seed: int) -> tuple[Asking, Asking]:
    """Queries at random in two halves; what belongs to one picture alone stays together."""
    keys = _together(asking.scored.groups)
    unique = np.unique(keys)
    chosen = np.random.default_rng(seed).permutation(unique)[: (len(unique) + 1) // 2]
    inside = np.isin(keys, chosen)
    return _some(asking, np.flatnonzero(inside)), _some(asking, np.flatnonzero(~inside))


def _together(groups: Int[np.ndarray, " queries"]) -> Int[np.ndarray, " queries"]:
    """Which queries succeed and fail together: the captions of one picture.

    Names and phrases share pictures all over the gallery, which ties everything to
    everything; each of them is then a question of its own.
    """
    largest = np.unique(groups, return_counts=True)[1].max()
    return np.arange(len(groups)) if largest > max(20, len(groups) / 50) else groups


def _some(asking: Asking, queries: Int[np.ndarray, " some"]) -> Asking:
    return Asking(asking.style, asking.scored.queries(queries), asking.words[queries])


def _shown(
    probability: Probability, hits: Hits
) -> tuple[Float[np.ndarray, "queries shown"], Bool[np.ndarray, "queries shown"]]:
    """The hits that would be shown, most probable first, and which of them are relevant."""
    stated = stated_for(probability, hits.features, hits.gallery)
    order = np.argsort(-stated, axis=1, kind="stable")[:, :SHOWN]
    right = np.take_along_axis(hits.right, order, axis=1)
    return np.take_along_axis(stated, order, axis=1), right


def _see(
    asking: Asking,
    sizes: Sequence[int],
    seed: int,
    offset: int,
    absent: bool = False,
    keep: int = SHOWN,
) -> Hits:
    """Hits in galleries of many sizes; `absent`: with everything relevant taken away."""
    scored = asking.scored
    if scored.match.any():
        hits = draw_sizes(scored, sizes, seed=seed, keep=keep, absent=absent)
    else:
        hits = _anywhere(scored, sizes, seed)
    words = asking.words[hits.queries]
    # groups of different kinds must not be taken for the same
    groups = _together(scored.groups)[hits.queries].astype(np.int64) + offset * 10_000_000
    features = described(hits.features, words)
    return Hits(_names(hits.names), features, hits.right, hits.gallery, groups, hits.queries)


def _anywhere(scored: Scored, sizes: Sequence[int], seed: int) -> Hits:
    """Hits of queries that nothing is relevant to, each in one gallery of every size."""
    queries, candidates = scored.match.shape
    rng = np.random.default_rng(seed)
    parts = []
    for size in [*(size for size in sizes if size < 0.8 * candidates), candidates]:
        galleries = np.array_split(rng.permutation(candidates), max(1, candidates // size))
        where = rng.integers(len(galleries), size=queries)
        parts += [
            see(scored, np.flatnonzero(where == number), np.sort(gallery), keep=SHOWN)
            for number, gallery in enumerate(galleries)
            if (where == number).any()
        ]
    return Hits.join(parts)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return (*names, "log words", *(f"{name} x log words" for name in names))


def _share(nothing: Hits, fitted: Hits) -> Hits:
    """As many queries without a match as make up their share of all."""
    wanted = round(len(fitted.gallery) * NOTHING_THERE / (1 - NOTHING_THERE))
    kept = np.random.default_rng(0).permutation(len(nothing.gallery))[:wanted]
    return nothing.only(np.sort(kept))


def _even(parts: Sequence[Hits], most: int = LEARNT) -> Hits:
    """The same number of queries of every kind, as far as there are so many."""
    rng = np.random.default_rng(0)
    chosen = []
    for part in parts:
        kept = rng.permutation(len(part.gallery))[:most]
        chosen.append(part.only(np.sort(kept)))
    return Hits.join(chosen)


def _fit_hits(hits: Hits) -> Probability:
    queries, shown, count = hits.features.shape
    return fit_probability(
        "relevant",
        hits.names,
        hits.features.reshape(queries * shown, count),
        hits.right.reshape(-1),
        np.repeat(hits.gallery, shown),
        np.repeat(hits.groups, shown),
    )


def _fit_present(there: Hits, empty: Hits) -> Probability:
    right = there.right[:, 0]
    return fit_probability(
        "present",
        there.names,
        np.concatenate([there.first[right], empty.first]),
        np.concatenate([np.ones(right.sum(), bool), np.zeros(len(empty.first), bool)]),
        np.concatenate([there.gallery[right], empty.gallery]),
        np.concatenate([there.groups[right], empty.groups]),
        balanced=True,
    )


def _refuse(present: Probability, right: Hits, share: float) -> tuple[float, ...]:
    """The line below which `share` of the right first answers lie, whatever the gallery's
    size and however long the query: what would be withheld in vain.

    A name and a caption, twenty pictures and ten thousand leave different traces, so one
    number for all of them would refuse most of one kind and nothing of another.
    """
    from sklearn.linear_model import QuantileRegressor  # slow to import; a search needs none

    there = _log_odds(present(right.first, right.gallery))
    words = np.expm1(right.first[:, right.names.index("log words")]).round()
    # a small penalty: where all queries are alike, nothing is read into their kind
    line = QuantileRegressor(quantile=share, alpha=0.002)
    line.fit(_kind_of(right.gallery, words)[:, 1:], there)
    return (float(line.intercept_), *line.coef_.tolist())


def _kind_of(
    sizes: Int[np.ndarray, " queries"], words: Num[np.ndarray, " queries"]
) -> Float[np.ndarray, "queries 4"]:
    """Size of the gallery and number of words, as a plane can be laid through."""
    size, length = np.log(sizes) - 5, np.log1p(words) - 1.5
    return np.stack([np.ones(len(size)), size, length, size * length], 1)


def _answers(
    stated: Float[np.ndarray, "queries shown"], relevant: Bool[np.ndarray, "queries shown"]
) -> tuple[tuple[float, float], ...]:
    """From the score of "one of those shown" to its probability, for 1, 2, … shown."""
    from sklearn.linear_model import LogisticRegression

    found = []
    for shown in range(1, stated.shape[1] + 1):
        score = _log_odds(one_of(stated[:, :shown]))[:, None]
        happened = relevant[:, :shown].any(1)
        if happened.all() or not happened.any():
            found.append((1.0, 0.0))
            continue
        model = LogisticRegression(C=100.0).fit(score, happened)
        found.append((float(model.coef_[0, 0]), float(model.intercept_[0])))
    return tuple(found)


def _log_odds(share: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    inside = np.clip(share, _LEAST, 1 - _LEAST)
    return np.log(inside / (1 - inside))


@lru_cache(maxsize=512)
def _promised(policy: Policy, risk: float, among: int, delta: float) -> Promise:
    held = policy.held
    return promise(
        one_of(held.stated[:, :among]),
        ~held.relevant[:, :among].any(1),
        risk,
        delta,
        event=f"none of {among} hits is relevant" if among > 1 else "the hit is not relevant",
        groups=held.groups,
        starts=3,  # one early mistake among the surest must not end everything
    )
