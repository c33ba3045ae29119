"""What a policy says of the best items of a search: verdict, probabilities, sentence, hits."""

from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from avow.core.searching import Encoder
from avow.core.shapes import Float
from avow.retrieval.answer import Hit, HowMany, Verdict, in_words
from avow.retrieval.gallery import QueryScores
from avow.retrieval.leaving_out import leave_out
from avow.retrieval.moments import has_videos, join_moments
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.request import Candidates, Request, shown_hits
from avow.trust.policy import Judgements, Policy
from avow.trust.top_k import SHOWN


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
    request: Request,
    candidates: Candidates,
    scores: QueryScores,
    library: OpenIndex,
    encoder: Encoder,
    unwanted: Float[np.ndarray, " items"] | None = None,
) -> Judged:
    """unwanted: the probability of each best item that it shows what is to be left out."""
    gallery, ids = candidates.gallery, candidates.ids
    usual = None if gallery.usual is None else library.usual(ids[:SHOWN])
    summary = scores.summary(encoder.tau, usual, gallery.usual)
    reading = policy.read(summary, request.words, request.common)
    stated = partial(policy.judge, reading, risk=request.wanted_risk, model=encoder.fingerprint)

    def first(shown: int) -> Judgements:
        if unwanted is None:
            return stated(shown=shown)
        about = (summary.gallery, request.words)
        return leave_out(stated(shown=SHOWN), unwanted, policy, about, shown)

    judgements, noun, joined = first(min(request.k, SHOWN, len(ids))), "picture", False
    number = policy.number(reading, scores.behind(summary, gallery.usual))
    hits = shown_hits(library, candidates, request.k, judgements)
    if has_videos(hits):
        moments = join_moments(library, candidates, request.k, first(SHOWN), judgements)
        hits, judgements = moments.hits, moments.judgements
        noun, joined = moments.noun, moments.joined
    verdict = cast(Verdict, judgements.verdicts[0].replace(" ", "_"))
    # segments are counted, and how many of them are one moment is known of the hits alone
    if number is None or unwanted is not None or joined:
        many = None
    else:
        many = HowMany.of(number)
    if request.understanding is not None and not request.understanding.understood:
        message = request.understanding.message or "This query is not understood."
        return Judged("not_understood", judgements, many, message, hits)
    odd = judgements.odd is not None and policy.is_odd(float(judgements.odd[0]))
    noun = noun if request.kind == "image" else "text"
    why = in_words(verdict, judgements, noun, many, odd, policy.conditions.transferred)
    return Judged(verdict, judgements, many, request.with_hint(why), hits)
