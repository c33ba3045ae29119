"""Trust in answers, for any similarity: fit once, judge every search.

    trust = avow.trust.fit(similarity, matches, bank=reference)     # held-out queries
    judgement = trust.judge(similarity, bank=reference)             # new queries
    judgement.verdicts        "answer", "check" or "nothing found", per query
    judgement.probability     that each answer shown is right

`similarity` may come from any model: one matrix [queries, candidates], or one per view.
A fitted `Trust` remembers what it was fitted for, and says so when it is used for something
else: probabilities of another model or another kind of query would be invented.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from avow.core.background import Background
from avow.core.contracts import Asked
from avow.core.errors import BadData, WrongTrust
from avow.core.files import write_text
from avow.core.opinion import EvidenceKind, Opinion
from avow.trust.galleries import (
    SIZES,
    Scored,
    draw_sizes,
    fit_hits,
    fit_present,
    one_of,
    see,
    state,
)
from avow.trust.probability import Probability
from avow.trust.promise import Promise, promise
from avow.trust.sight import Sight, describe, look

Verdict = Literal["answer", "check", "nothing found"]
Scores = Tensor | np.ndarray | Sequence[np.ndarray] | Sequence[Tensor]

FORMAT = 1
REFUSED_IN_VAIN = 0.05
"""Share of right answers that may be withheld as "nothing found"."""
_PLENTY = 4.0  # galleries this many times larger than any fitted one are flagged


@dataclass(frozen=True)
class Conditions:
    """What a trust was fitted for; probabilities hold for this and nothing else."""

    model: str = ""
    """Fingerprint of the model whose similarities it reads."""
    gallery: str = ""
    """Fingerprint of the gallery, where it was fitted on one in particular."""
    style: str = "caption"
    """What the queries are like: captions, object names, photographs."""
    smallest: int = 0
    largest: int = 0
    exact: bool = True
    """Whether whole rows of similarities were seen, or only the best and a sample."""

    def doubts(self, gallery_size: int, **now: Any) -> list[str]:
        """Sentences on what is different now; empty where nothing is."""
        found = [
            f"fitted for {key} {getattr(self, key)!r}, used for {value!r}"
            for key, value in now.items()
            if value is not None and getattr(self, key) not in ("", value)
        ]
        if gallery_size > _PLENTY * self.largest or gallery_size * _PLENTY < self.smallest:
            found.append(
                f"fitted on galleries of {self.smallest} to {self.largest}, used on one "
                f"of {gallery_size}"
            )
        return found


@dataclass(frozen=True)
class Judgement:
    """What may be said of the answers of some queries."""

    candidates: Int[np.ndarray, "queries shown"]
    """The best candidates of every query, best first."""
    probability: Float[np.ndarray, "queries shown"]
    """That each of them is right (or relevant: `event`)."""
    event: str
    verdicts: list[Verdict]
    uncertainty: Float[np.ndarray, " queries"]
    """u = K / S; it means nothing without `evidence`."""
    evidence: dict[str, Any]
    """K, tau and the evidence function u was formed with."""
    doubts: list[str] = field(default_factory=list)
    """Why the probabilities may not hold here; empty where they should."""

    @property
    def trust(self) -> Float[np.ndarray, " queries"]:
        """The probability of the first answer."""
        return self.probability[:, 0]


@dataclass(frozen=True)
class Trust:
    """Fitted probabilities, the promise that rests on them, and what they were fitted for."""

    conditions: Conditions
    probability: Probability
    promise: Promise
    present: Probability
    """That the gallery holds a match at all."""
    refuse_below: float
    """Below this probability of a match the verdict is "nothing found"."""
    tau: float = 0.05
    kind: EvidenceKind = "exp"
    among: int = 1
    """The promise is that one of the first `among` answers is right."""

    def judge(
        self,
        similarity: Scores,
        *,
        bank: Scores | Background | None = None,
        shown: int = 10,
        model: str | None = None,
        gallery: str | None = None,
        style: str | None = None,
        strict: bool = True,
    ) -> Judgement:
        """Verdicts and probabilities for queries (rows) over candidates (columns).

        bank: scores of the reference queries with the same candidates, needed where the
        trust was fitted with one. strict: refuse another model or query style instead of
        noting a doubt.
        """
        asked = Asked(
            views_of(similarity), 0, self.tau, self.kind, background_of(bank, self.tau)
        )
        sight, order = look(asked)
        opinion = Opinion.from_similarity(asked.together, self.tau, self.kind)
        return self.judge_sight(
            sight,
            order.numpy(),
            opinion.uncertainty.numpy(),
            shown=shown,
            strict=strict,
            model=model,
            gallery=gallery,
            style=style,
            exact=True,
        )

    def judge_sight(
        self,
        sight: Sight,
        candidates: Int[np.ndarray, "queries seen"],
        uncertainty: Float[np.ndarray, " queries"],
        *,
        shown: int = 10,
        strict: bool = True,
        **now: Any,
    ) -> Judgement:
        """The same from what an engine has seen: its best candidates and a few sums."""
        if sight.names != self.probability.names:
            raise WrongTrust(
                f"The trust reads {len(self.probability.names)} numbers per answer and the "
                f"search gives {len(sight.names)}. Expected the same bank of reference "
                "queries (or none) as when it was fitted; pass `bank`, or fit again."
            )
        size = int(sight.gallery.max())
        doubts = self.conditions.doubts(size, **now)
        if strict and any(doubt.startswith(("fitted for model",)) for doubt in doubts):
            raise WrongTrust(
                f"This trust was {doubts[0]}. Expected the model it was fitted with; fit a "
                "trust for this one with `avow.trust.fit`."
            )
        features = describe(sight)[:, :shown].numpy()
        sizes = sight.gallery.numpy()
        stated = state(self.probability, features, sizes)
        return Judgement(
            candidates[:, :shown],
            stated,
            self.probability.event,
            self.verdicts(one_of(stated[:, : self.among]), self.present(features[:, 0], sizes)),
            uncertainty,
            {"K": size, "tau": self.tau, "evidence": self.kind},
            doubts,
        )

    def verdicts(
        self,
        confidence: Float[np.ndarray, " queries"],
        present: Float[np.ndarray, " queries"],
    ) -> list[Verdict]:
        """What the promise allows is answered; what is hardly there is refused."""
        answered = self.promise.answers(confidence)
        refused = present < self.refuse_below
        return [
            "answer" if yes else "nothing found" if no else "check"
            for yes, no in zip(answered, refused, strict=True)
        ]

    def save(self, path: str | Path) -> None:
        """One JSON file of plain numbers."""
        content = {
            "format": FORMAT,
            "conditions": asdict(self.conditions),
            "probability": self.probability.to_dict(),
            "promise": asdict(self.promise),
            "present": self.present.to_dict(),
            "refuse_below": self.refuse_below,
            "tau": self.tau,
            "kind": self.kind,
            "among": self.among,
        }
        write_text(Path(path), json.dumps(content, indent=1))

    @classmethod
    def load(cls, path: str | Path) -> "Trust":
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise ValueError("another format")
            return cls(
                Conditions(**content.pop("conditions")),
                Probability.from_dict(content.pop("probability")),
                Promise(**content.pop("promise")),
                Probability.from_dict(content.pop("present")),
                **content,
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WrongTrust(
                f"The trust file {str(path)!r} cannot be read ({error}). Expected a file "
                "written by `Trust.save`; fit it again."
            ) from error


def fit(
    similarity: Scores,
    matches: Bool[np.ndarray, "queries candidates"] | Int[np.ndarray, " queries"],
    *,
    bank: Scores | Background | None = None,
    event: str = "right",
    risk: float = 0.1,
    delta: float = 0.1,
    among: int = 1,
    sizes: Sequence[int] = SIZES,
    model: str = "",
    gallery: str = "",
    style: str = "caption",
    tau: float = 0.05,
    seed: int = 0,
) -> Trust:
    """Trust in the answers of any similarity, from held-out queries with known matches.

    matches: a mask, or the position of the one right candidate of every query. bank: scores
    of reference queries (training captions, say) with the same candidates; it helps much.
    Half of the queries fit the probability, the other half the promise that at most `risk`
    of the answers are wrong, with confidence 1 - `delta`. among: an answer is wrong when none
    of its first `among` hits is right; 1 for the first alone.
    """
    views = views_of(similarity)
    match = mask_of(matches, views.shape[1:])
    scored = Scored(views, match, 0, tau, "exp", background_of(bank, tau))
    first, second = _halves(scored, seed)
    learnt = scored.queries(first)
    fitted = draw_sizes(learnt, sizes, seed=seed)
    probability = fit_hits(event, fitted)
    present = fit_present(fitted, draw_sizes(learnt, sizes, seed=seed, keep=1, absent=True))
    held = see(scored, second, keep=among)
    right = held.right[:, 0]
    where = "the first answer is" if among == 1 else f"none of {among} answers is"
    promised = promise(
        one_of(state(probability, held.features, held.gallery)),
        np.asarray(~held.right.any(1)),
        risk,
        delta,
        event=f"{where} {'not ' if among == 1 else ''}{event}",
        groups=held.groups,
    )
    there = present(held.first[right], held.gallery[right])
    refuse_below = float(np.quantile(there, REFUSED_IN_VAIN)) if right.any() else 0.0
    conditions = Conditions(
        model, gallery, style, int(fitted.gallery.min()), int(fitted.gallery.max())
    )
    return Trust(conditions, probability, promised, present, refuse_below, tau, among=among)


def views_of(similarity: Scores) -> Float[Tensor, "views queries candidates"]:
    """One matrix or several, as one tensor; anything else is named."""
    stacked = (
        torch.stack([torch.as_tensor(one) for one in similarity])
        if isinstance(similarity, Sequence)
        else torch.as_tensor(similarity)
    ).float()
    views = stacked[None] if stacked.ndim == 2 else stacked
    if views.ndim != 3 or 0 in views.shape:
        raise BadData(
            f"The similarity has shape {tuple(stacked.shape)}. Expected [queries, candidates] "
            "or [views, queries, candidates], with at least one of each."
        )
    if not torch.isfinite(views).all():
        raise BadData(
            "The similarity holds NaN or infinite numbers. Expected finite ones; leave such "
            "queries and candidates out."
        )
    return views


def background_of(bank: Scores | Background | None, tau: float) -> Background | None:
    if bank is None or isinstance(bank, Background):
        return bank
    return Background.from_scores([views_of(bank)], tau)


def mask_of(
    matches: np.ndarray, shape: Sequence[int]
) -> Bool[np.ndarray, "queries candidates"]:
    """Matches as a mask; a shape or position that does not fit is named."""
    matches = np.asarray(matches)
    if matches.dtype == bool and matches.shape == tuple(shape):
        return matches
    whole = matches.dtype.kind in "iu" and matches.shape == (shape[0],)
    if whole and matches.min() >= 0 and matches.max() < shape[1]:
        return matches[:, None] == np.arange(shape[1])[None]
    raise BadData(
        f"The matches have shape {matches.shape} and type {matches.dtype}. Expected a mask of "
        f"shape {tuple(shape)}, or the position (0 to {shape[1] - 1}) of the right candidate "
        "of every query."
    )


def _halves(
    scored: Scored, seed: int
) -> tuple[Int[np.ndarray, " first"], Int[np.ndarray, " second"]]:
    """Two halves of the queries; what belongs together stays together."""
    groups = np.unique(scored.groups)
    chosen = np.random.default_rng(seed).permutation(groups)[: (len(groups) + 1) // 2]
    inside = np.isin(scored.groups, chosen)
    return np.flatnonzero(inside), np.flatnonzero(~inside)
