"""When to answer, when to ask for a check, when to say "nothing found".

    summary of the top k --Policy.judge--> probability of every hit, verdict per query

A policy states the probability of every hit, that it is right or relevant (`event`), and the
probability that one of the first ten is. It keeps held-out answers, so that a promise can be
made for any risk: "at most one answer in ten without a relevant hit among the first ten".

The verdict rule, refusal first, on one number, which does not depend on how many are shown:

    log-odds of "one of the first ten" below the refusal threshold  ->  "nothing found"
    else, at or above the threshold of the promise, and one half    ->  "answer"
    else  ->  "check"
Names ("a dog") and descriptions have promises of their own (`trust.held_out`).

A policy for "right" (`fit_policy`), and those of earlier versions, have no `anything`: they
refuse by `present` and answer by the hits shown. One fitted with another model (`Conditions`)
is refused; other differences are reported as doubts.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from avow.core.background import Background
from avow.core.errors import WrongTrust
from avow.core.evidence import EvidenceKind, log_evidence, uncertainty
from avow.core.inputs import Scores, background_of, views_of
from avow.core.logistic import expit
from avow.core.queries import QueryBatch
from avow.core.renamed import renamed
from avow.core.shapes import Bool, Float, Int
from avow.trust.coherence import (
    TEN,
    Behind,
    Number,
    agree,
    log_odds,
    number,
    one_of_first,
    query_features,
)
from avow.trust.gallery_sampling import one_of, predict
from avow.trust.held_out import Asked, HeldOut, answered_by_kind, promise_once, usual_risk
from avow.trust.judgements import (
    Agreed,
    Conditions,
    Difference,
    Judgements,
    Reading,
    refuse_other_model,
    verdicts,
)
from avow.trust.level import Level
from avow.trust.probability import (
    LOG_WORDS,
    Line,
    Probability,
    given,
    kind_of,
    named,
    of_query,
)
from avow.trust.risk_control import Promise
from avow.trust.top_k import TopKSummary, describe, summarise

Ranking = Literal["similarity", "probability"]

SHOWN, DELTA = 10, 0.1
MAX_FALSE_REFUSALS = 0.02
"""Share of queries with a relevant hit among the first ten that may get "nothing found"."""
_ODD = 0.15  # share of features outside the fitted range that makes a query unusual


@dataclass(frozen=True, eq=False)  # hashed by identity: arrays have no hash
class Policy:
    """Fitted probabilities, the held-out answers they were checked with, their conditions.

    >>> avow.fit_policy(similarity, matches, risk=0.3).save("policy.json")
    >>> judged = avow.Policy.load("policy.json").judge(similarity[:2])
    >>> judged.probability.shape
    (2, 10)
    """

    conditions: Conditions
    probability: Probability
    present: Probability
    refuse: tuple[float, ...]
    """Refusal threshold on the log-odds of `present`: weights of `kind_of`."""
    held: HeldOut | None
    """None in files of an earlier format, whose `promise` cannot be made anew."""
    answer: tuple[tuple[float, float], ...]
    """Slope and offset from the log-odds of `one_of` to those of the confidence, for
    1, 2, … hits; as many as the galleries it was fitted on could show."""
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    """Range of each feature of a first hit, without extremes; empty if unknown."""
    promise: Promise | None = None
    """The promise of the risk chosen when fitting; None: every search chooses its risk."""
    among: int | None = None
    """How many first hits a promise concerns; None: as many as are shown."""
    ranking: Ranking = "probability"
    """How hits are ordered. The probability takes hubs into account, similarity does not."""
    tau: float = 0.05
    kind: EvidenceKind = "exp"
    anything: Probability | None = None
    """That one of the first ten is: the number that verdicts rest on (`trust.coherence`)."""
    tail: Probability | None = None
    """That a candidate behind the hits is; see `trust.coherence`."""
    spread: float = 1.0
    """The factor that the number of fitting items is known up to."""
    line: Line | None = None
    """What ticks of an index change in all of these (`retrieval.ticks`)."""
    anything_named: Probability | None = None
    """`anything` for names ("a dog"), where the policy was fitted with some."""
    level: Level | None = None
    """From the vector of a query to its level, where `anything_named` reads that."""
    larger: "Policy | None" = None
    """What judges galleries larger than any of this fit, where one was fitted for those."""

    @property
    def event(self) -> str:
        """ "right" (the annotated match) or "relevant" (a person would say that it fits)."""
        return self.probability.event

    @property
    def kinds(self) -> tuple[Asked, ...]:
        """Which kinds of queries have promises of their own."""
        return ("questions",) if self.held is None else self.held.kinds

    @cached_property
    def usual_risks(self) -> dict[Asked, float]:
        """Of each kind, the risk of searches that name none: that of the fit, if any."""
        if self.promise is not None:
            return dict.fromkeys(self.kinds, self.promise.alpha)
        promised = {kind: partial(self.promised, asked=kind) for kind in self.kinds}
        return {kind: usual_risk(promised[kind], kind) for kind in self.kinds}

    def for_size(self, gallery: int) -> "Policy":
        """What judges a gallery of so many items: this policy, or `larger` as ticks move it."""
        return self._larger if self.larger and gallery > self.conditions.largest else self

    @cached_property
    def _larger(self) -> "Policy":
        return replace(cast(Policy, self.larger), line=self.line)

    def promised(
        self,
        risk: float,
        shown: int = SHOWN,
        delta: float | None = None,
        size: int | None = None,
        asked: Asked = "questions",
    ) -> Promise:
        """The promise for a search that shows `shown` hits and accepts `risk`.

        size: of its gallery; where it is given, what is promised holds for galleries like it.
        asked: which queries it is about, one of `kinds`; or all together.
        """
        own = self.promise
        delta = delta or (DELTA if own is None else own.delta)
        if own is not None and (own.alpha, own.delta) == (risk, delta):
            return own
        if self.held is not None:
            among = self._concerned(shown)
            return promise_once(self.held, self.event, risk, among, delta, size, asked)
        assert own is not None, "a policy has held-out answers, or a promise"
        reason = f"the file of the policy keeps a promise for a risk of {own.alpha} only"
        return Promise(None, risk, delta, own.event, own.queries, own.groups, 0, 0, reason)

    def judge(
        self,
        answers: TopKSummary | Reading | Scores,
        words: Int[np.ndarray, " queries"] | None = None,
        *,
        common: Float[np.ndarray, " queries"] | None = None,
        vectors: Float[np.ndarray, "queries dim"] | None = None,
        bank: Scores | Background | None = None,
        shown: int = SHOWN,
        risk: float | None = None,
        strict: bool = True,
        **now: Any,
    ) -> Judgements:
        """Probabilities and verdicts.

        answers: similarities [queries, candidates] (or one such matrix per view), the
        summary of what an engine returned (`top_k.summarise_best`), or what `read` made of
        it. words: number of words of every query, common: how common its words are, vectors:
        of the queries; each needed if the policy was fitted with it. bank: similarities of
        the reference queries to the same candidates; needed if the policy was fitted with one.
        strict: refuse another model, instead of reporting a doubt. now: model, gallery or
        style of this search, to be compared with `conditions`.
        """
        if isinstance(answers, TopKSummary):
            answers = self.read(answers, words, common, vectors)
        if isinstance(answers, Reading):
            return self._judge(answers, shown, risk, strict, now)
        batch = QueryBatch(
            views_of(answers), 0, self.tau, self.kind, background_of(bank, self.tau)
        )
        summary, order = summarise(batch)
        reading = self.read(summary, words, common, vectors)
        judged = self._judge(reading, shown, risk, strict, {**now, "exact": True})
        evidence = log_evidence(batch.together, self.tau, self.kind)
        return replace(
            judged,
            candidates=np.take_along_axis(order, judged.order, axis=1),
            uncertainty=uncertainty(evidence),
            evidence={"K": int(summary.gallery.max()), "tau": self.tau, "evidence": self.kind},
        )

    def read(
        self,
        summary: TopKSummary,
        words: Int[np.ndarray, " queries"] | None = None,
        common: Float[np.ndarray, " queries"] | None = None,
        vectors: Float[np.ndarray, "queries dim"] | None = None,
        level: Float[np.ndarray, " queries"] | None = None,
    ) -> Reading:
        """What `judge` and `number` have in common. level: where a fit knows better."""
        features, words = self.features(summary, words, common)
        if self.level is None or level is None:
            level = None if self.level is None else self.level.of(vectors)
        stated = predict(self.probability, features, summary.gallery)
        agreed = None
        if self.anything is not None:
            best = -np.sort(-stated, axis=1)
            agreed = self.anything_of(features, best, summary.gallery, level)
        return Reading(summary, features, words, stated, agreed, level)

    def _judge(
        self,
        reading: Reading,
        shown: int,
        risk: float | None,
        strict: bool,
        now: dict[str, Any],
    ) -> Judgements:
        features, sizes, stated = reading.features, reading.summary.gallery, reading.stated
        different = self.conditions.differences(int(sizes.max()), **now)
        refuse_other_model(different if strict else [])
        order = np.broadcast_to(np.arange(stated.shape[1]), stated.shape)
        if self.ranking == "probability":
            order = np.argsort(-stated, axis=1, kind="stable")
        stated = np.take_along_axis(stated, order, axis=1)
        if self.anything is not None:
            return self._agreed(reading, stated, order, shown, risk, different)
        concerned = self._concerned(min(shown, stated.shape[1]))
        score = one_of(stated[:, :concerned])
        usual = next(iter(self.usual_risks.values()))
        pledge = self.promised(usual if risk is None else risk, concerned)
        present = self.present(features[:, 0], sizes)
        slope, offset = self.answer[concerned - 1]
        return Judgements(
            np.array(order[:, :shown]),
            stated[:, :shown],
            expit(slope * log_odds(score) + offset),
            present,
            verdicts(pledge.answers(score), self.refuses(present, sizes, reading.words)),
            [pledge] * len(stated),
            [str(one) for one in different],
            self._odd(features[:, 0]),
            self.event,
        )

    def _agreed(
        self,
        reading: Reading,
        stated: Float[np.ndarray, "queries shown"],
        order: Int[np.ndarray, "queries shown"],
        shown: int,
        risk: float | None,
        different: list[Difference],
    ) -> Judgements:
        """Judgements whose numbers agree. stated: of the hits, in the order they are shown."""
        sizes, words = reading.summary.gallery, reading.words
        if self.ranking == "probability" and reading.agreed is not None:
            hits, anything, rho = reading.agreed
        else:
            hits, anything, rho = self.anything_of(
                reading.features, stated, sizes, reading.level
            )
        if self.line is not None:
            hits, anything, rho = agree(self.line(hits, words), self.line(anything, words))
        each = one_of_first(hits, rho)
        made = [
            self.promised(usual if risk is None else risk, size=int(sizes.max()), asked=kind)
            for kind, usual in self.usual_risks.items()
        ]
        answered, promises = answered_by_kind(made, anything, words)
        return Judgements(
            np.array(order[:, :shown]),
            hits[:, :shown],
            each[:, min(shown, each.shape[1]) - 1],
            anything,
            verdicts(answered, self.refuses(anything, sizes, words)),
            promises,
            [str(one) for one in different],
            self._odd(reading.features[:, 0]),
            self.event,
            each,
        )

    def anything_of(
        self,
        features: Float[np.ndarray, "queries seen features"],
        stated: Float[np.ndarray, "queries stated"],
        sizes: Int[np.ndarray, " queries"],
        level: Float[np.ndarray, " queries"] | None = None,
    ) -> Agreed:
        """Hits, "one of the first ten" and rho of `coherence.agree`, before `line`.

        stated: of the most probable hits, best first. level: of the queries, where it is read.
        """
        assert self.anything is not None
        together = query_features(features, stated, self.probability.names)
        anything = self.anything(together, sizes)
        if self.anything_named is not None:
            names = named(features[:, 0], self.probability.names)
            if level is not None:
                together = np.column_stack([together, level])
            anything = np.where(names, self.anything_named(together, sizes), anything)
        return agree(stated, anything)

    def number(self, reading: Reading, behind: Behind) -> Number | None:
        """How many items of the gallery fit each query; None for policies that cannot say."""
        if reading.agreed is None or self.tail is None:
            return None
        hits, words, above = reading.agreed[0], reading.words, reading.above
        return number(hits, behind, self.tail, self.spread, words, self.line, above)

    def features(
        self,
        summary: TopKSummary,
        words: Int[np.ndarray, " queries"] | None,
        common: Float[np.ndarray, " queries"] | None = None,
    ) -> tuple[Float[np.ndarray, "queries shown features"], Int[np.ndarray, " queries"]]:
        """What the probabilities read, and the number of words of every query."""
        features, names, wanted = describe(summary), summary.names, self.probability.names
        if LOG_WORDS in wanted:
            names, features = of_query(names, features, *given(words, common, wanted), wanted)
        if names != wanted:
            raise WrongTrust(
                f"The policy reads {len(wanted)} numbers per hit and the "
                f"search gives {len(names)}. Expected the same bank of reference queries (or "
                "none) as when it was fitted; calibrate again."
            )
        return features, np.zeros(len(features), int) if words is None else words

    def _concerned(self, shown: int) -> int:
        if self.anything is not None:
            return TEN
        return min(shown if self.among is None else self.among, len(self.answer))

    def refuses(
        self,
        present: Float[np.ndarray, " queries"],
        sizes: Int[np.ndarray, " queries"],
        words: Int[np.ndarray, " queries"],
    ) -> Bool[np.ndarray, " queries"]:
        """Which queries get "nothing found". present: that one of the first ten fits."""
        bound = kind_of(sizes, words) @ self._bounds[0]
        if self.anything is not None:  # what is more likely than not is never refused
            bound = np.minimum(bound, 0)
        return log_odds(present) < bound

    def _odd(
        self, first: Float[np.ndarray, "queries features"]
    ) -> Float[np.ndarray, " queries"] | None:
        _, lowest, highest = self._bounds
        return ((first < lowest) | (first > highest)).mean(1) if len(lowest) else None

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`refuse`, `lowest` and `highest` as arrays."""
        return np.array(self.refuse), np.array(self.lowest), np.array(self.highest)

    @staticmethod
    def is_odd(share: float) -> bool:
        """Whether a query is unlike those the policy was fitted on."""
        return bool(share > _ODD)

    def save(self, path: str | Path) -> None:
        """Write one JSON file of plain numbers."""
        from avow.trust import policy_files

        policy_files.write(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        """Read a file of `save`, of this or an earlier version."""
        from avow.trust import policy_files

        return policy_files.read(Path(path))


__getattr__ = renamed(__name__, {"Held": "HeldOut", "Ruling": "Judgements"})
