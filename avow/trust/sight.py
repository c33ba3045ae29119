"""What is seen of an answer: its best candidates, and a few sums over all the others.

    similarity [views, queries, candidates] --look--> Sight --describe--> numbers per hit

A `Sight` has the same size whatever the gallery: the `shown` best candidates of every query
with their scores, what is usual for each of them (`Background`), and sums over the whole
gallery, exact or estimated from a sample. Everything trust is made of is read from it, so
an engine that returns only its best k can be trusted too.

*Relative* evidence is what mends the uncertainty u. u sums the evidence of all candidates;
over a large gallery that sum is made of many weak scores and of hubs, and says how common a
query is rather than whether its first answer is right. Dividing each candidate's evidence
by what it usually gets from reference queries takes the hubs out:

    log e(q, c) = s(q, c) / tau - log mean over the bank of exp(s(b, c) / tau)
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from avow.core.background import Background
from avow.core.contracts import Asked

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
class Sight:
    """The best candidates of some queries, and sums over their whole gallery."""

    gallery: Int[Tensor, " queries"]
    """K, how many candidates there were."""
    tau: float
    scores: Float[Tensor, "views queries shown"]
    """Best first by the mean of the views."""
    mean: Float[Tensor, " queries"]
    """Mean and standard deviation of the averaged score over the gallery."""
    spread: Float[Tensor, " queries"]
    log_sum: Float[Tensor, " queries"]
    """Logarithm of the sum of exp(s / tau) over the gallery."""
    relative: Float[Tensor, "queries shown"] | None = None
    """Relative log-evidence of the candidates shown."""
    relative_sums: Float[Tensor, "temperatures queries"] | None = None
    """Per temperature T, the logarithm of the sum of exp(relative / T)."""
    above: Float[Tensor, "queries shown"] | None = None
    """Score less the eighth best of the bank."""
    unusual: Float[Tensor, "queries shown"] | None = None
    """Score in standard deviations above what the candidate usually gets."""
    hub: Float[Tensor, "queries shown"] | None = None
    """The logarithm of the evidence it usually gets."""

    @property
    def names(self) -> tuple[str, ...]:
        """What `describe` gives, in order."""
        return PLAIN if self.relative is None else (*PLAIN, *RELATIVE)


def look(asked: Asked, shown: int = SHOWN) -> tuple[Sight, Int[Tensor, "queries shown"]]:
    """What is seen of queries whose whole rows are known, and which candidates are shown.

    A candidate with a similarity of minus infinity is not in that query's gallery.
    """
    together = asked.together
    fewest = int(together.isfinite().sum(-1).min())
    order = together.topk(min(shown, fewest), -1).indices
    return _seen(asked, order), order


def describe_one(
    asked: Asked, chosen: Int[Tensor, " queries"], shown: int = SHOWN
) -> Float[Tensor, "queries features"]:
    """The numbers of `Sight.names` for one candidate of each query, wherever it ranks.

    A candidate among those shown is described as it always is. Any other one stands below
    them, with all of them for rivals and with its true rank.
    """
    sight, order = look(asked, shown)
    inside = order == chosen[:, None]
    place = inside.to(torch.uint8).argmax(-1)
    rows = torch.arange(len(order), device=order.device)
    known = describe(sight)[rows, place]
    below = describe(_seen(asked, torch.cat([order, chosen[:, None]], -1)))[:, -1]
    together = asked.together
    above = (together > together[rows, chosen][:, None]).sum(-1)
    # candidates as good as the last one shown may have been left out
    rank = above.clamp(min=order.shape[1]) + 1
    below[:, PLAIN.index("log rank")] = rank.to(below).log()
    return torch.where(inside.any(-1, keepdim=True), known, below)


def _seen(asked: Asked, order: Int[Tensor, "queries shown"]) -> Sight:
    """What is seen of queries when the candidates `order` are shown."""
    together = asked.together
    present = together.isfinite()
    count = present.sum(-1)
    scores = asked.similarity.gather(-1, order.expand(len(asked.similarity), -1, -1))
    mean = together.masked_fill(~present, 0).sum(-1) / count
    apart = (together - mean[:, None]).masked_fill(~present, 0)
    sight = Sight(
        count,
        asked.tau,
        scores,
        mean,
        (apart.square().sum(-1) / count).sqrt(),
        (together / asked.tau).logsumexp(-1),
    )
    if asked.background is None:
        return sight
    usual = asked.background
    relative = relative_evidence(asked.similarity, usual, asked.tau)
    sums = torch.stack([(relative / t).logsumexp(-1) for t in TEMPERATURES])
    return with_background(sight, usual_of(usual, order), relative.gather(-1, order), sums)


def relative_evidence(
    similarity: Float[Tensor, "views queries candidates"], usual: Background, tau: float
) -> Float[Tensor, "queries candidates"]:
    """Logarithm of the evidence over what the candidate usually gets, mean of the views."""
    return (similarity / tau - usual.log_mean[:, None]).mean(0)


@dataclass(frozen=True)
class Usual:
    """What is usual for the candidates shown, per query."""

    log_mean: Float[Tensor, "views queries shown"]
    mean: Float[Tensor, "views queries shown"]
    spread: Float[Tensor, "views queries shown"]
    eighth: Float[Tensor, "views queries shown"]

    @classmethod
    def of_one(cls, background: Background) -> "Usual":
        """Of one query, when the candidates are those it is shown, in order."""
        return cls(
            background.log_mean[:, None],
            background.mean[:, None],
            background.spread[:, None],
            background.top[:, None, :, _eighth(background)],
        )


def usual_of(background: Background, order: Tensor) -> Usual:
    """The background of chosen candidates, one choice per query."""
    return Usual(
        background.log_mean[:, order],
        background.mean[:, order],
        background.spread[:, order],
        background.top[:, order, _eighth(background)],
    )


def _eighth(background: Background) -> int:
    """Which of the best scores that are kept; the last where there are fewer."""
    return min(_EIGHTH, background.top.shape[-1] - 1)


def with_background(
    sight: Sight,
    usual: Usual,
    relative: Float[Tensor, "queries shown"],
    sums: Float[Tensor, "temperatures queries"],
) -> Sight:
    """The same sight, with how far each candidate shown is out of its usual."""
    return Sight(
        sight.gallery,
        sight.tau,
        sight.scores,
        sight.mean,
        sight.spread,
        sight.log_sum,
        relative,
        sums,
        (sight.scores - usual.eighth).mean(0),
        ((sight.scores - usual.mean) / (usual.spread + _TINY)).mean(0),
        usual.log_mean.mean(0),
    )


def describe(sight: Sight) -> Float[Tensor, "queries shown features"]:
    """The numbers of `sight.names`, for every candidate shown."""
    score = sight.scores.mean(0)
    log_rank, first = _places(score.shape[1], score.dtype, score.device)
    kinds = _kinds(sight, score)
    leads, clears = _lead(kinds), _clear(kinds)
    columns = [
        log_rank.expand_as(score),
        first.expand_as(score),
        score,
        (score - sight.mean[:, None]) / (sight.spread[:, None] + _TINY),
        score / sight.tau - sight.log_sum[:, None],
        leads[0],
        clears[0],
        (sight.scores.amax(0) - sight.scores.amin(0)),
        _agreed(sight.scores),
    ]
    if sight.relative is not None:
        columns += _relative_columns(sight, leads[1:], clears[1:])
    return torch.stack(columns, -1)


@lru_cache(maxsize=64)
def _places(shown: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Logarithm of the rank, and 1 for the first: the same for every query."""
    with torch.inference_mode(False):
        place = torch.arange(1, shown + 1, dtype=dtype, device=device)
        return place.log(), (place == 1).to(dtype)


def _kinds(
    sight: Sight, score: Float[Tensor, "queries shown"]
) -> Float[Tensor, "kinds queries shown"]:
    """Everything in which candidates are rivals, as one: few calls for many small sums."""
    if sight.relative is None:
        return score[None]
    assert sight.above is not None and sight.unusual is not None
    return torch.stack([score, sight.relative, sight.above, sight.unusual])


def _relative_columns(
    sight: Sight,
    leads: Float[Tensor, "3 queries shown"],
    clears: Float[Tensor, "3 queries shown"],
) -> list[Tensor]:
    relative, sums = sight.relative, sight.relative_sums
    above, unusual, hub = sight.above, sight.unusual, sight.hub
    assert relative is not None and sums is not None
    assert above is not None and unusual is not None and hub is not None
    soft = [
        relative / temperature - total[:, None]
        for temperature, total in zip(TEMPERATURES, sums, strict=True)
    ]
    share = soft[TEMPERATURES.index(1.0)].exp()
    return [
        *soft,
        (share + _TINY).log() - (1 - share + _TINY).log(),
        relative,
        leads[0],
        clears[0],
        above,
        leads[1],
        clears[1],
        unusual,
        leads[2],
        hub,
        sums[TEMPERATURES.index(1.0)][:, None].expand_as(relative),
    ]


def _lead(values: Float[Tensor, "*kinds shown"]) -> Float[Tensor, "*kinds shown"]:
    """Each value less the best of the others; 0 where there is no other."""
    if values.shape[-1] < 2:
        return torch.zeros_like(values)
    best = values.topk(2, -1)
    first = torch.arange(values.shape[-1], device=values.device) == best.indices[..., :1]
    return values - torch.where(first, best.values[..., 1:], best.values[..., :1])


def _clear(values: Float[Tensor, "*kinds shown"]) -> Float[Tensor, "*kinds shown"]:
    """Each value less the mean of the five that stand first among the others."""
    count = min(_OTHERS + 1, values.shape[-1])
    if count < 2:
        return torch.zeros_like(values)
    front = values[..., :count]
    inside = torch.arange(values.shape[-1], device=values.device) < count
    # a candidate outside the front has the front's first five for rivals
    own = torch.where(inside, values, front[..., -1:])
    return values - (front.sum(-1, keepdim=True) - own) / (count - 1)


def _agreed(scores: Float[Tensor, "views queries shown"]) -> Float[Tensor, "queries shown"]:
    """Which share of the views puts each candidate first of those shown."""
    first = scores.argmax(-1, keepdim=True)
    place = torch.arange(scores.shape[-1], device=scores.device)
    return (first == place).to(scores.dtype).mean(0)
