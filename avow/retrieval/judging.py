"""What a policy says of the best items of searches: verdict, probabilities, sentence, hits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from avow.core.searching import Encoder
from avow.core.shapes import Float
from avow.core.verdicts import EMPTY
from avow.retrieval.answer import (
    Hit,
    HowMany,
    SearchResult,
    Uncertainty,
    Verdict,
    at_least,
    in_words,
)
from avow.retrieval.gallery import QueryScores
from avow.retrieval.leaving_out import leave_out
from avow.retrieval.moments import has_videos, join_moments
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.ranking import Ranked
from avow.retrieval.request import (
    Candidates,
    ReadItems,
    Request,
    of_queries,
    shown_hits,
    shown_places,
)
from avow.retrieval.sample_parts import Asked, number_by_parts
from avow.trust.coherence import TEN
from avow.trust.policy import Judgements, Policy
from avow.trust.top_k import SHOWN

_Part = tuple[Request, Candidates, Judgements, Judgements, HowMany | None]


ROUNDING = 0.1
"""What a stated number of items may count more than once, as a share of it."""
PARTIAL = "Part of the index did not answer, so this answer is partial and not judged."


@dataclass(frozen=True)
class Judged:
    """The hits of a search with what is stated of them."""

    verdict: Verdict
    judgements: Judgements | None
    """None where nothing is calibrated."""
    how_many: HowMany | None
    why: str
    hits: tuple[Hit, ...]


def judge(
    policy: Policy,
    requests: Sequence[Request],
    ranked: Ranked,
    scores: QueryScores,
    library: OpenIndex,
    encoder: Encoder,
    unwanted: Sequence[Float[np.ndarray, " items"] | None],
) -> list[Judged]:
    """What is stated of some queries of one style; the numbers of all are computed at once.

    unwanted: the probability of each best item of a query that it shows what it leaves out.
    """
    gallery, small = ranked.gallery, policy
    policy = small.for_size(len(gallery))
    usual = None if gallery.usual is None else library.usual(ranked.first.ravel())
    summary = scores.summary(encoder.tau, usual, gallery.usual)
    vectors = np.stack([request.vector for request in requests])
    words, common = of_queries(requests)
    reading = policy.read(summary, words, common, vectors)
    risk, shown = requests[0].wanted_risk, min(requests[0].page.k, SHOWN, ranked.ids.shape[1])
    stated = partial(policy.judge, reading, risk=risk, model=encoder.fingerprint)
    every = stated(shown=SHOWN)
    # a policy without `one_of_first` judges by how many are shown
    page = stated(shown=shown) if every.one_of_first is None else every.among(shown)
    if policy is small:
        number = policy.number(reading, scores.behind(summary, gallery.usual))
    else:
        asked = Asked(vectors, words, common, encoder.tau)
        number = number_by_parts(small, reading, gallery, scores, asked, ranked.left_out)
    parts = []
    for place, request in enumerate(requests):
        both = every.of(place), page.of(place)
        likely = float(every.present[place])
        many = None if number is None else HowMany.of(number, place, likely)
        if (left_out := unwanted[place]) is not None:
            about = (summary.gallery[place : place + 1], request.words)
            one = leave_out(both[0], left_out, policy, about, SHOWN)
            both, many = (one, one.among(shown)), None
        parts.append((request, ranked.of(place), *both, many))
    read = _read_at_once(library, parts)
    return [_judged(policy, library, read, *part) for part in parts]


def unjudged(
    library: OpenIndex, requests: Sequence[Request], ranked: Ranked, why: str
) -> list[Judged]:
    """The hits alone, and why nothing is stated of them."""
    why = " ".join((why, *ranked.missing))
    judged = []
    for place, request in enumerate(requests):
        hits = shown_hits(library.items, ranked.of(place), request.k, None)
        judged.append(Judged("unjudged", None, None, request.with_hint(why), hits))
    return judged


def partial_answers(
    library: OpenIndex, requests: Sequence[Request], ranked: Ranked
) -> list[SearchResult]:
    """What there is while part of the index does not answer: hits, and nothing stated of them.

    That there is nothing is not stated either.
    """
    about, count = library.manifest, len(ranked.gallery)
    nobody = Uncertainty(None, count, about["tau"], about["kind"])
    judged = unjudged(library, requests, ranked, PARTIAL)
    return [result_of(*pair, nobody, {}) for pair in zip(requests, judged, strict=True)]


def nothing_there(library: OpenIndex, request: Request) -> SearchResult:
    """What is said where no item can be an answer, because there is none or by a filter."""
    what = "picture" if request.kind == "image" else "text"
    why = (
        f"There is no {what} in this index yet; `avow index FOLDER` adds some."
        if request.where is None or not library.count(None, request.kind)
        else f"No {what} passes the filter."
    )
    nobody = Uncertainty(None, 0, library.manifest["tau"], library.manifest["kind"])
    understanding = request.understanding
    return SearchResult(
        request.query, "nothing_found", None, nobody, why, understanding=understanding
    )


def _read_at_once(library: OpenIndex, parts: list[_Part]) -> ReadItems:
    """Gives items that all queries together have been read for."""
    wanted = [
        candidates.ids[shown_places(candidates, _read_of(request), every)]
        for request, candidates, every, _, _ in parts
    ]
    every_one = sorted({*np.concatenate(wanted).tolist()})  # np.unique imports masked arrays
    items = {item.id: item for item in library.items(every_one)}
    return lambda ids: [items[number] for number in ids.tolist()]


def _judged(
    policy: Policy,
    library: OpenIndex,
    read: ReadItems,
    request: Request,
    candidates: Candidates,
    every: Judgements,
    page: Judgements,
    many: HowMany | None,
) -> Judged:
    """every: of all hits that are judged. page: of those shown at once."""
    hits, noun = shown_hits(read, candidates, _read_of(request), every), "picture"
    if has_videos(hits):
        moments = join_moments(library, candidates, request.k, every, page)
        hits, page, noun = moments.hits, moments.judgements, moments.noun
        every = page
        # segments are counted, and how many of them are one moment is known of these alone
        some = many is not None and has_videos(hits[:TEN])
        if some and moments.counted_again > ROUNDING * many.expected:
            many = None
    verdict = cast(Verdict, page.verdicts[0].replace(" ", "_"))
    if request.understanding is not None and not request.understanding.understood:
        message = request.understanding.message or "This query is not understood."
        return Judged("not_understood", page, many, message, hits[: request.k])
    odd = page.odd is not None and policy.is_odd(float(page.odd[0]))
    noun = noun if request.kind == "image" else "text"
    source, leaves_out = policy.conditions.transferred, request.leaving is not None
    why = in_words(verdict, every, noun, many, odd, source, leaves_out)
    return Judged(verdict, page, many, request.with_hint(why), hits[: request.k])


def _read_of(request: Request) -> int:
    """How many hits are read: what is said of all must not depend on how many are shown."""
    return max(request.k, TEN)


def result_of(
    request: Request, judged: Judged, evidence: Uncertainty, seconds: dict[str, float]
) -> SearchResult:
    """One query's answers, on their page."""
    empty = judged.verdict in EMPTY
    result = SearchResult(
        request.query,
        judged.verdict,
        None if judged.judgements is None else _trust(judged.judgements, empty),
        evidence,
        judged.why,
        () if empty else judged.hits,
        judged.hits if empty else (),
        seconds,
        request.understanding,
        judged.how_many,
    )
    least = None if request.where is None else request.where.least
    if least is not None:
        result = at_least(result, least)
        if result.hits and judged.judgements is not None:
            trust = _trust_of_first(judged.judgements, len(result.hits))
            result = replace(result, trust=trust)
    start = request.page.offset
    if not start:
        return result
    return replace(result, hits=result.hits[start:], near_misses=result.near_misses[start:])


def _trust(judgements: Judgements, empty: bool) -> float:
    """That the answer is good; where nothing is shown, that there was anything to show."""
    return float((judgements.present if empty else judgements.confidence)[0])


def _trust_of_first(judgements: Judgements, shown: int) -> float:
    """That one of the first hits fits, where a filter leaves fewer than were asked for."""
    among, stated = judgements.one_of_first, float(judgements.confidence[0])
    if among is None or shown >= among.shape[1]:
        return stated
    # a moment of several segments is surer than each of them
    fewer = max(float(among[0, shown - 1]), float(judgements.probability[0, 0]))
    return min(fewer, stated)
