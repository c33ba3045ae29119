"""Queries that leave something out: "a bathroom without a toilet".

    P(a bathroom, and no toilet) = P(a bathroom) * (1 - P(a toilet))        of every hit

Each factor is a probability of a query that trust was fitted for, so the product can be judged,
which the difference of two vectors cannot. Hits depend on each other as those of the wanted
part do, and one of them fits as often as follows from that. No promise was fitted for such
queries: at best their verdict is "check".
"""

from dataclasses import replace

import numpy as np

from avow.core.shapes import Float, Int
from avow.trust.coherence import Behind, agree, each_behind, one_of_first
from avow.trust.judgements import Judgements, Verdict
from avow.trust.policy import Policy
from avow.trust.top_k import TopKSummary


def probability_of(
    policy: Policy,
    summary: TopKSummary,
    first: Int[np.ndarray, " hits"],
    items: Int[np.ndarray, " items"],
    evidence: Float[np.ndarray, " items"],
    query: tuple[Int[np.ndarray, " 1"], Float[np.ndarray, " 1"] | None],
    vector: Float[np.ndarray, " dim"],
) -> Float[np.ndarray, " items"]:
    """That each of some items fits a query, whether it is among the query's best or behind.

    summary, first: of the query's best items. evidence: the log-evidence of `items`, relative
    where the summary has it. query: its number of words, and how common it is. vector: the
    query's own.
    """
    assert policy.tail is not None
    reading = policy.read(summary, *query, vector[None])
    stated, words = reading.stated[0], reading.words
    best_evidence = summary.scores.mean(0)[0] / summary.tau
    if summary.relative is not None:
        best_evidence = summary.relative[0]
    gap = (best_evidence[-1] - evidence)[None]
    others = Behind(gap, np.full(gap.shape, True), summary.gallery - len(stated))
    hits = -np.sort(-stated)[None]
    behind = each_behind(hits, others, policy.tail, words, reading.above)[0]
    inside = items[:, None] == first[None]
    each = np.where(inside.any(1), stated[inside.argmax(1)], behind)
    return each if policy.line is None else policy.line(each[None], words)[0]


def leave_out(
    judged: Judgements,
    unwanted: Float[np.ndarray, " items"],
    policy: Policy,
    query: tuple[Int[np.ndarray, " 1"], Int[np.ndarray, " 1"]],
    shown: int,
) -> Judgements:
    """The judgements of one query, for hits without what is unwanted.

    judged: of all its hits. unwanted: the probability that each of them, by its place in the
    summary, shows what is to be left out. query: the size of its gallery, its number of words.
    """
    places = judged.order[0]
    left = judged.probability[0] * (1 - unwanted[places])
    order = np.argsort(-left, kind="stable")
    _, _, rho = agree(judged.probability, judged.present)
    hits = left[order][None]
    each = one_of_first(hits, rho)
    anything = each[:, -1]
    refused = bool(policy.refuses(anything, *query)[0])
    verdict: Verdict = "nothing found" if refused else "check"
    return replace(
        judged,
        order=places[order][None, :shown],
        probability=hits[:, :shown],
        confidence=each[:, min(shown, each.shape[1]) - 1],
        present=anything,
        verdicts=[verdict],
        one_of_first=each,
    )
