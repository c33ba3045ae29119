"""A probability that a pair is wrong, learnt from pairs that are wrong for certain.

A caption is wrong alone, or all captions of an image are wrong together. Pairs of both kinds
are made up, and trees learn how much likelier a pair is as one of them than as a right one;
each pair is judged by trees that did not see it. Some given pairs are wrong themselves, so the
given ones count as examples of right pairs only as far as they look right: by a single
measure at first, then by the trees. How common each kind of wrong pair is follows from all
given pairs together, and is part of the probability.

Papers: Elkan, Noto, "Learning Classifiers from Only Positive and Unlabeled Data", KDD 2008;
Saerens, Latinne, Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori
Probabilities", Neural Computation 2002 (how common each kind is).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp, ndtri
from sklearn.ensemble import HistGradientBoostingClassifier

from avow.audit.pair_features import FALLING, RISING, PairFeatures
from avow.core.errors import BadData
from avow.core.false_discovery import chance_of_right

PARTS = 3
BINS = 255
ROUNDS = 2
TREES = 80
_FEWEST = 1.0  # right pairs to learn from
_LEAF = 40  # examples in each leaf of a tree
_RAREST = 1e-4  # of each kind: what is never seen must stay possible


@dataclass(frozen=True)
class WrongPairEstimate:
    """What the audit believes of the given pairs."""

    probability: Float[np.ndarray, " pairs"]
    order: Float[np.ndarray, " pairs"]
    """Sorts pairs as the probability does, and those of equal probability too."""
    share: float
    """Estimated share of wrong pairs."""


def suspect(
    given: PairFeatures,
    wrong: Sequence[PairFeatures],
    group: Int[np.ndarray, " pairs"],
    seed: int = 0,
) -> WrongPairEstimate:
    """How likely each given pair is wrong, in any of the ways that were made up.

    wrong: one standing per kind, of as many pairs as are given and in their order.
    group: pairs of one image have one number; they are judged by the same trees.
    """
    names, table = list(given.measures), given.table()
    part = np.random.default_rng(seed).integers(PARTS, size=int(group.max()) + 1)[group]
    right = _at_first(given, wrong)
    if min(right[part != number].sum() for number in range(PARTS)) < _FEWEST:
        raise BadData(
            f"Of {len(right)} pairs none stands out from pairs that were made up, so that "
            "right and wrong ones cannot be told apart. Expected models that have learnt "
            "something: more epochs (--set train.epochs=...), another --recipe, or a --run."
        )
    order = np.zeros(len(table))
    for _ in range(ROUNDS):
        ratios = np.stack(
            [_ratio(names, table, kind.table(), right, part, seed) for kind in wrong]
        )
        shares = _shares(ratios)
        order = logsumexp(ratios + np.log(shares[1:, None]), axis=0) - np.log(shares[0])
        right = 1 / (1 + np.exp(np.clip(order, -50, 50)))
    return WrongPairEstimate(1 - right, order, float((1 - right).mean()))


def _at_first(
    given: PairFeatures, wrong: Sequence[PairFeatures]
) -> Float[np.ndarray, " pairs"]:
    """How likely each pair is right, by its share of the evidence both ways alone."""
    own = _two_way(given)
    others = np.sort(np.concatenate([_two_way(kind) for kind in wrong]))
    above = len(others) - np.searchsorted(others, own)
    scores = -ndtri((above + 0.5) / (len(others) + 1))
    return chance_of_right(scores)


def _two_way(standing: PairFeatures) -> Float[np.ndarray, " pairs"]:
    measures = standing.measures
    return (measures["share of image"] + measures["share of text"]).astype(np.float64)


def _ratio(
    names: list[str],
    given: Float[np.ndarray, "pairs measures"],
    wrong: Float[np.ndarray, "pairs measures"],
    right: Float[np.ndarray, " pairs"],
    part: Int[np.ndarray, " pairs"],
    seed: int,
) -> Float[np.ndarray, " pairs"]:
    """Logarithm of p(wrong) / p(right) for each given pair, by trees that did not see it."""
    out = np.zeros(len(given))
    for number in range(PARTS):
        in_training = part != number
        if in_training.all():
            continue
        weight = np.concatenate(
            [
                right[in_training] / right[in_training].sum(),
                np.full(in_training.sum(), 1 / in_training.sum()),
            ]
        )
        learnt = np.concatenate([given[in_training], wrong[in_training]])
        edges = [_edges(column, weight) for column in learnt.T]
        trees = _trees(names, len(learnt), seed).fit(
            _binned(learnt, edges),
            np.repeat([0, 1], in_training.sum()),
            sample_weight=weight * in_training.sum(),
        )
        out[~in_training] = trees.decision_function(_binned(given[~in_training], edges))
    return out


def _edges(
    column: Float[np.ndarray, " examples"], weight: Float[np.ndarray, " examples"]
) -> Float[np.ndarray, " edges"]:
    """What cuts a measure into bins of equal weight.

    The trees would find the same ones, but sort the column anew for each.
    """
    order = np.argsort(column, kind="stable")
    below = np.cumsum(weight[order])
    wanted = np.arange(1, BINS) / BINS * below[-1]
    return np.unique(column[order[np.searchsorted(below, wanted)]])


def _binned(
    table: Float[np.ndarray, "pairs measures"], edges: Sequence[Float[np.ndarray, " _"]]
) -> Float[np.ndarray, "pairs measures"]:
    """The bin of each number; trees cut between numbers, so its size does not matter."""
    bins = [np.searchsorted(cuts, column) for cuts, column in zip(edges, table.T, strict=True)]
    return np.stack(bins, 1).astype(np.float64)


def _trees(names: list[str], examples: int, seed: int) -> HistGradientBoostingClassifier:
    sense = [(name in RISING) - (name in FALLING) for name in names]
    return HistGradientBoostingClassifier(
        max_iter=TREES,
        learning_rate=0.1,
        max_leaf_nodes=8,
        min_samples_leaf=min(_LEAF, examples // 4),  # a few dozen pairs need a cut too
        l2_regularization=1.0,
        monotonic_cst=sense,
        early_stopping=False,  # type: ignore[arg-type]
        random_state=seed,
    )


def _shares(ratios: Float[np.ndarray, "kinds pairs"]) -> Float[np.ndarray, " kinds1"]:
    """How common right pairs and each kind of wrong ones are among those given."""
    logs = np.concatenate([np.zeros((1, ratios.shape[1])), ratios])
    shares = np.array([0.9, *([0.1 / len(ratios)] * len(ratios))])
    for _ in range(200):
        weighed = logs + np.log(shares[:, None])
        fresh = np.exp(weighed - logsumexp(weighed, axis=0)).mean(1)
        fresh = np.maximum(fresh, _RAREST) / np.maximum(fresh, _RAREST).sum()
        if np.abs(fresh - shares).max() < 1e-6:
            break
        shares = fresh
    return shares
