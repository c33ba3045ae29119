"""Summarise the top k candidates of every query, and describe each of them by features.

    similarity [views, queries, candidates] --summarise--> TopKSummary --describe--> features
    top k and a sample of the gallery --summarise_best--'

A `TopKSummary` does not grow with the gallery: it holds the scores of the `shown` best
candidates of every query, how often each of them is retrieved by reference queries
(`Background`), and sums over the whole gallery, exact or estimated from a sample. All
features of the trust models are computed from it, so an engine that returns only its top k
is enough.

*Relative* evidence corrects the uncertainty u for hubs. u sums the evidence of all
candidates; in a large gallery that sum consists of many weak scores and of hubs, and
measures how common a query is rather than whether its first answer is right. So each
candidate's evidence is divided by its mean evidence over a bank of reference queries:

    log e(q, c) = s(q, c) / tau - log mean over the bank of exp(s(b, c) / tau)

`summarise_best` costs the same for every gallery: sums are exact for the top k, and use the
mean of the sample for all others. With the whole gallery as sample the summary is exact;
`core.evidence_sum` bounds the error otherwise.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from avow.core.background import Background
from avow.core.evidence import logsumexp, top_positions
from avow.core.queries import QueryBatch
from avow.core.shapes import Bool, Float, Int

SHOWN = 32
TEMPERATURES = (0.5, 1.0, 2.0)
_OTHERS = 5  # how many rivals make up "the next ones"
_EIGHTH = 7  # which of the bank's best scores a good one must beat
_TINY = 1e-6

PLAIN = ("log rank", "first", "score", "apart", "softmax", "lead", "clear", "split", "agreed")
RELATIVE = (
    *(f"relative softmax {temperature:g}" for temperature in TEMPERATURES),
    "relative odds",
    "relative",
    "relative lead",
    "relative clear",
    "above bank",
    "above bank lead",
    "above bank clear",
    "unusual",
    "unusual lead",
    "hub",
    "relative total",
)


@dataclass(frozen=True)
class TopKSummary:
    """The top k candidates of some queries, and sums over their whole gallery."""

    gallery: Int[np.ndarray, " queries"]
    """K, how many candidates there were."""
    tau: float
    scores: Float[np.ndarray, "views queries shown"]
    """Best first by the mean of the views."""
    mean: Float[np.ndarray, " queries"]
    """Mean and standard deviation of the averaged score over the gallery."""
    spread: Float[np.ndarray, " queries"]
    log_sum: Float[np.ndarray, " queries"]
    """Logarithm of the sum of exp(s / tau) over the gallery."""
    relative: Float[np.ndarray, "queries shown"] | None = None
    """Relative log-evidence of the candidates shown."""
    relative_sums: Float[np.ndarray, "temperatures queries"] | None = None
    """Per temperature T, the logarithm of the sum of exp(relative / T)."""
    above: Float[np.ndarray, "queries shown"] | None = None
    """Score less the eighth best of the bank."""
    unusual: Float[np.ndarray, "queries shown"] | None = None
    """Score in standard deviations above what the candidate usually gets."""
    hub: Float[np.ndarray, "queries shown"] | None = None
    """The logarithm of the evidence it usually gets."""

    @property
    def names(self) -> tuple[str, ...]:
        """What `describe` gives, in order."""
        return PLAIN if self.relative is None else (*PLAIN, *RELATIVE)


def summarise(
    asked: QueryBatch, shown: int = SHOWN
) -> tuple[TopKSummary, Int[np.ndarray, "queries shown"]]:
    """Summary of queries with whole rows of similarities, and the columns of the top k.

    A candidate with a similarity of minus infinity is not in that query's gallery.
    """
    together = asked.together
    fewest = int(np.isfinite(together).sum(-1).min())
    order = top_positions(together, min(shown, fewest))
    return _summary_of(asked, order), order


def describe_one(
    asked: QueryBatch, chosen: Int[np.ndarray, " queries"], shown: int = SHOWN
) -> Float[np.ndarray, "queries features"]:
    """The features `TopKSummary.names` of one candidate per query, whatever its rank.

    A candidate among those shown is described as it always is. Any other one stands below
    them, with all of them for rivals and with its true rank.
    """
    summary, order = summarise(asked, shown)
    inside = order == chosen[:, None]
    rows = np.arange(len(order))
    shown_features = describe(summary)[rows, inside.argmax(-1)]
    below = describe(_summary_of(asked, np.concatenate([order, chosen[:, None]], -1)))[:, -1]
    together = asked.together
    above = (together > together[rows, chosen][:, None]).sum(-1)
    # candidates as good as the last one shown may have been left out
    rank = np.maximum(above, order.shape[1]) + 1
    below[:, PLAIN.index("log rank")] = np.log(rank)
    return np.where(inside.any(-1, keepdims=True), shown_features, below)


def _summary_of(asked: QueryBatch, order: Int[np.ndarray, "queries shown"]) -> TopKSummary:
    """Summary of queries whose candidates `order` are shown."""
    together = asked.together
    present = np.isfinite(together)
    count = present.sum(-1)
    number = count.astype(together.dtype)
    scores = np.take_along_axis(asked.similarity, order[None], -1)
    mean = np.where(present, together, 0).sum(-1) / number
    apart = np.where(present, together - mean[:, None], 0)
    summary = TopKSummary(
        count,
        asked.tau,
        scores,
        mean,
        np.sqrt(np.square(apart).sum(-1) / number),
        logsumexp(together / asked.tau),
    )
    if asked.background is None:
        return summary
    usual = asked.background
    relative = relative_evidence(asked.similarity, usual, asked.tau)
    sums = np.stack([logsumexp(relative / t) for t in TEMPERATURES])
    front = np.take_along_axis(relative, order, -1)
    return with_background(summary, hub_statistics(usual, order), front, sums)


def relative_evidence(
    similarity: Float[np.ndarray, "views queries candidates"], usual: Background, tau: float
) -> Float[np.ndarray, "queries candidates"]:
    """Log-evidence less the candidate's log mean over the bank, averaged over the views."""
    return (similarity / tau - usual.log_mean[:, None]).mean(0)


@dataclass(frozen=True)
class HubStatistics:
    """Statistics of the candidates shown over the bank of reference queries.

    A hub is a candidate that scores high for many queries.
    """

    log_mean: Float[np.ndarray, "views queries shown"]
    mean: Float[np.ndarray, "views queries shown"]
    spread: Float[np.ndarray, "views queries shown"]
    eighth: Float[np.ndarray, "views queries shown"]


def hub_statistics(
    background: Background, order: Int[np.ndarray, "queries shown"]
) -> HubStatistics:
    """Statistics of the candidates at `order`, per query."""
    return HubStatistics(
        background.log_mean[:, order],
        background.mean[:, order],
        background.spread[:, order],
        background.top[:, order, _eighth(background)],
    )


def _eighth(background: Background) -> int:
    """Position of the eighth best score, or of the last if fewer are kept."""
    return min(_EIGHTH, background.top.shape[-1] - 1)


def with_background(
    summary: TopKSummary,
    usual: HubStatistics,
    relative: Float[np.ndarray, "queries shown"],
    sums: Float[np.ndarray, "temperatures queries"],
) -> TopKSummary:
    """Add the features that compare each candidate with its statistics over the bank."""
    return TopKSummary(
        summary.gallery,
        summary.tau,
        summary.scores,
        summary.mean,
        summary.spread,
        summary.log_sum,
        relative,
        sums,
        (summary.scores - usual.eighth).mean(0),
        ((summary.scores - usual.mean) / (usual.spread + _TINY)).mean(0),
        usual.log_mean.mean(0),
    )


def summarise_best(
    best: Float[np.ndarray, "views queries k"],
    sampled: Float[np.ndarray, "queries sample"],
    left: Bool[np.ndarray, "queries sample"],
    gallery: int,
    tau: float = 0.05,
    *,
    usual_best: HubStatistics | None = None,
    usual_sample: Float[np.ndarray, "*queries sample"] | None = None,
    shown: int = SHOWN,
) -> TopKSummary:
    """Summary of queries of which only the top k and a sample are known.

    best: in order of their mean over views. sampled: that mean, for the sample. left: which
    sampled items are not among the best. usual_best, usual_sample: what is usual for them,
    where the gallery keeps it; of the sample, of all queries or of each, the usual
    log-evidence, mean of the views.
    """
    queries, k = best.shape[1:]
    mean, spread = sampled.mean(-1), sampled.std(-1)
    front, behind = best.mean(0)[None] / tau, sampled[None] / tau
    apart = None
    if usual_best is not None and usual_sample is not None:
        # all sums at once: at this size a call costs more than what it computes
        apart = front[0] - usual_best.log_mean.mean(0)
        heat = np.array(TEMPERATURES, best.dtype)[:, None, None]
        front = np.concatenate([front, apart / heat])
        behind = np.concatenate([behind, (behind[0] - usual_sample) / heat])
    sums = _totals(front, behind, left, gallery)
    sizes = np.full(queries, gallery)
    summary = TopKSummary(sizes, tau, best[..., :shown], mean, spread, sums[0])
    if apart is None or usual_best is None:
        return summary
    cut = HubStatistics(
        usual_best.log_mean[..., :shown],
        usual_best.mean[..., :shown],
        usual_best.spread[..., :shown],
        usual_best.eighth[..., :shown],
    )
    return with_background(summary, cut, apart[:, : min(shown, k)], sums[1:])


def _totals(
    front: Float[np.ndarray, "sums queries k"],
    sampled: Float[np.ndarray, "sums queries sample"],
    left: Bool[np.ndarray, "queries sample"],
    gallery: int,
) -> Float[np.ndarray, "sums queries"]:
    """Log sums over the gallery: exact for the top k, the mean of the sample for the rest."""
    first = logsumexp(front)
    rest = gallery - front.shape[-1]
    if rest <= 0:
        return first
    count = np.maximum(left.sum(-1), 1).astype(front.dtype)
    tail = logsumexp(np.where(left, sampled, np.float32(-np.inf)))
    return np.logaddexp(first, tail + np.float32(math.log(rest)) - np.log(count))


def describe(summary: TopKSummary) -> Float[np.ndarray, "queries shown features"]:
    """The features `summary.names` of every candidate shown."""
    score = summary.scores.mean(0)
    log_rank, first = _places(score.shape[1])
    kinds = _kinds(summary, score)
    leads, clears = _lead(kinds), _clear(kinds)
    columns = [
        np.broadcast_to(log_rank, score.shape),
        np.broadcast_to(first, score.shape),
        score,
        (score - summary.mean[:, None]) / (summary.spread[:, None] + _TINY),
        score / summary.tau - summary.log_sum[:, None],
        leads[0],
        clears[0],
        summary.scores.max(0) - summary.scores.min(0),
        _agreed(summary.scores),
    ]
    if summary.relative is not None:
        columns += _relative_columns(summary, leads[1:], clears[1:])
    return np.stack(columns, -1)


@lru_cache(maxsize=64)
def _places(shown: int) -> tuple[np.ndarray, np.ndarray]:
    """Logarithm of the rank, and 1 for the first: the same for every query."""
    place = np.arange(1, shown + 1, dtype=np.float32)
    return np.log(place), (place == 1).astype(np.float32)


def _kinds(
    summary: TopKSummary, score: Float[np.ndarray, "queries shown"]
) -> Float[np.ndarray, "kinds queries shown"]:
    """All quantities whose leads are features, stacked: few calls for many small sums."""
    if summary.relative is None:
        return score[None]
    assert summary.above is not None and summary.unusual is not None
    return np.stack([score, summary.relative, summary.above, summary.unusual])


def _relative_columns(
    summary: TopKSummary,
    leads: Float[np.ndarray, "3 queries shown"],
    clears: Float[np.ndarray, "3 queries shown"],
) -> list[np.ndarray]:
    relative, sums = summary.relative, summary.relative_sums
    above, unusual, hub = summary.above, summary.unusual, summary.hub
    assert relative is not None and sums is not None
    assert above is not None and unusual is not None and hub is not None
    soft = [
        relative / temperature - total[:, None]
        for temperature, total in zip(TEMPERATURES, sums, strict=True)
    ]
    share = np.exp(soft[TEMPERATURES.index(1.0)])
    return [
        *soft,
        np.log(share + _TINY) - np.log(1 - share + _TINY),
        relative,
        leads[0],
        clears[0],
        above,
        leads[1],
        clears[1],
        unusual,
        leads[2],
        hub,
        np.broadcast_to(sums[TEMPERATURES.index(1.0)][:, None], relative.shape),
    ]


def _lead(values: Float[np.ndarray, "*kinds shown"]) -> Float[np.ndarray, "*kinds shown"]:
    """Each value less the best of the others; 0 where there is no other."""
    if values.shape[-1] < 2:
        return np.zeros_like(values)
    best = np.partition(values, -2, axis=-1)[..., -2:]
    first = np.arange(values.shape[-1]) == values.argmax(-1)[..., None]
    return values - np.where(first, best[..., :1], best[..., 1:])


def _clear(values: Float[np.ndarray, "*kinds shown"]) -> Float[np.ndarray, "*kinds shown"]:
    """Each value less the mean of the five first others."""
    count = min(_OTHERS + 1, values.shape[-1])
    if count < 2:
        return np.zeros_like(values)
    front = values[..., :count]
    inside = np.arange(values.shape[-1]) < count
    # a candidate outside the front has the front's first five for rivals
    own = np.where(inside, values, front[..., -1:])
    return values - (front.sum(-1, keepdims=True) - own) / (count - 1)


def _agreed(
    scores: Float[np.ndarray, "views queries shown"],
) -> Float[np.ndarray, "queries shown"]:
    """Which share of the views puts each candidate first of those shown."""
    first = scores.argmax(-1)[..., None]
    return (first == np.arange(scores.shape[-1])).mean(0, dtype=scores.dtype)
