"""Neighbouring segments of one video that fit become one answer, with one probability.

    segments   0:00-0:04  P .2 | 0:04-0:09  P .9 | 0:09-0:13  P .7      of one video
    answers    0:04-0:13  P(one of both fits)    | 0:00-0:04  P .2

Two segments that touch are joined where both are more likely to fit than not, or where the
lesser fits as well as the better (`answer.ALIKE`). The probability of the moment is that one of
its segments fits, by the rule of `trust.coherence` and the dependence of this query's hits;
neighbours need no other one (benchmarks/quality/video_trust.py). Verdict and refusal are those
of the segments.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from avow.retrieval.answer import ALIKE, Hit
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.request import Candidates, shown_hits
from avow.trust.coherence import TEN, agree, one_of_some
from avow.trust.judgements import Judgements

LIKELY = 0.5


@dataclass(frozen=True)
class Moments:
    """The answers of a search with videos, and what is stated of them."""

    hits: tuple[Hit, ...]
    judgements: Judgements
    counted_again: float
    """By how much the expected number of items that fit is more than that of answers, because
    several segments are one of them."""
    noun: str
    """What the answers are that fit as well as the first, for a sentence."""


def has_videos(hits: tuple[Hit, ...]) -> bool:
    return any(hit.kind == "video" for hit in hits)


def join_moments(
    library: OpenIndex, candidates: Candidates, k: int, every: Judgements, shown: Judgements
) -> Moments:
    """The k best answers, each a picture or a moment of one or more segments.

    every: of all candidates that the policy looked at. shown: of those on one page.
    """
    hits = shown_hits(library.items, candidates, len(candidates.ids), every)
    rho, anything = 0.0, float(every.present[0])
    if every.one_of_first is not None:
        rho = float(agree(every.probability, every.present)[2][0])
    answers = [_answer(group, rho, anything) for group in _groups(hits)]
    # behind the judged ones, in the order of their similarity, are those without probability
    answers.sort(key=lambda hit: 0.0 if hit.p_relevant is None else -1 - hit.p_relevant)
    answers = [replace(hit, rank=rank) for rank, hit in enumerate(answers, start=1)]
    stated = np.array([hit.p_relevant for hit in answers if hit.p_relevant is not None])
    again = sum(hit.p_relevant or 0.0 for hit in hits) - float(stated.sum())
    confidence = np.maximum(shown.confidence, stated[:1])
    order = np.arange(len(stated))[None]
    judgements = replace(shown, order=order, probability=stated[None], confidence=confidence)
    return Moments(tuple(answers[:k]), judgements, again, _noun(answers, judgements))


def _noun(answers: list[Hit], judgements: Judgements) -> str:
    """answers: all, whatever page of them is shown; a refusal is about the first ten."""
    if judgements.verdicts[0] == "nothing found":
        moments = all(hit.kind == "video" for hit in answers[:TEN])
        return "moment" if moments else "picture or moment"
    least = ALIKE * (answers[0].p_relevant or 0.0)
    kinds = {hit.kind for hit in answers if (hit.p_relevant or 0.0) >= least}
    if len(kinds) > 1:
        return "answer"
    return "moment" if "video" in kinds else "picture"


def _groups(hits: tuple[Hit, ...]) -> list[list[Hit]]:
    """Hits that are one answer, in the order of the best of each group."""
    leader = {hit.id: hit.id for hit in hits}
    by_video: dict[str, list[Hit]] = {}
    for hit in hits:
        if hit.moment is not None and hit.p_relevant is not None:
            by_video.setdefault(hit.path, []).append(hit)
    for segments in by_video.values():
        segments.sort(key=lambda hit: hit.start or 0.0)
        for before, after in pairwise(segments):
            if _belong(before, after):
                leader[after.id] = leader[before.id]
    groups: dict[int, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(leader[hit.id], []).append(hit)
    return list(groups.values())


def _belong(before: Hit, after: Hit) -> bool:
    first, second = before.moment, after.moment
    if first is None or second is None or not first.touches(second):
        return False
    less, more = sorted((before.p_relevant or 0.0, after.p_relevant or 0.0))
    return less >= LIKELY or less >= ALIKE * more


def _answer(group: list[Hit], rho: float, anything: float) -> Hit:
    """One hit for a group: the best segment, over the span of all."""
    best = group[0]
    if len(group) == 1:
        return best
    stated = np.array([hit.p_relevant for hit in group], np.float64)
    return replace(
        best,
        p_relevant=one_of_some(stated, rho, anything),
        start=min(hit.start for hit in group if hit.start is not None),
        end=max(hit.end for hit in group if hit.end is not None),
    )
