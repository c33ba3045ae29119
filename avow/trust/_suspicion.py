"""A probability that a pair is wrong, learnt from pairs that are wrong for certain.

Given pairs are mostly right; made-up pairs are all wrong. Trees learn to tell the two kinds
apart, each pair judged by trees that did not see it. That gives the ratio of densities
p(made up) / p(given). A share of the given pairs is wrong and looks like the made-up ones, so

    P(wrong) = share * p(made up) / p(given)

and the share is the largest for which, nowhere, more are wrong than there are.

Paper on the share: Blanchard, Lee, Scott, "Semi-Supervised Novelty Detection", JMLR 2010.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.isotonic import IsotonicRegression

from avow.trust._standing import FALLING, RISING, Standing

PARTS = 5
_LEAST_MASS = 0.02  # of the made-up pairs, below which a ratio of counts says little


@dataclass(frozen=True)
class Suspicion:
    """What the audit believes of the given pairs."""

    probability: Float[np.ndarray, " pairs"]
    order: Float[np.ndarray, " pairs"]
    """Sorts pairs as the probability does, and those of equal probability too."""
    share: float
    """Estimated share of wrong pairs."""


def suspect(
    given: Standing, made_up: Standing, group: Int[np.ndarray, " pairs"], seed: int = 0
) -> Suspicion:
    """How likely each given pair is wrong.

    group: pairs of one image have one number; they are judged by the same trees.
    """
    names = list(given.measures)
    tables = given.table(), made_up.table()
    part = np.random.default_rng(seed).integers(PARTS, size=int(group.max()) + 1)[group]
    scores = [np.zeros(len(table)) for table in tables]
    for number in range(PARTS):
        learnt = [table[part != number] for table in tables]
        trees = _trees(names, seed).fit(
            np.concatenate(learnt), np.repeat([0, 1], [len(table) for table in learnt])
        )
        for score, table in zip(scores, tables, strict=True):
            if (part == number).any():
                score[part == number] = trees.decision_function(table[part == number])
    return _probability(scores[0], scores[1])


def _trees(names: list[str], seed: int) -> HistGradientBoostingClassifier:
    sense = [(name in RISING) - (name in FALLING) for name in names]
    return HistGradientBoostingClassifier(
        max_iter=120,
        learning_rate=0.1,
        max_leaf_nodes=15,
        min_samples_leaf=40,
        l2_regularization=1.0,
        monotonic_cst=sense,
        early_stopping=False,
        random_state=seed,
    )


def _probability(
    given: Float[np.ndarray, " pairs"], made_up: Float[np.ndarray, " others"]
) -> Suspicion:
    share = _share(given, made_up)
    weight = np.repeat([1 / len(given), 1 / len(made_up)], [len(given), len(made_up)])
    curve = IsotonicRegression(y_min=1e-6, y_max=1 - 1e-6, out_of_bounds="clip").fit(
        np.concatenate([given, made_up]),
        np.repeat([0.0, 1.0], [len(given), len(made_up)]),
        sample_weight=weight,
    )
    chance = curve.predict(given)
    ratio = chance / (1 - chance)
    return Suspicion(np.clip(share * ratio, 0, 1), given, share)


def _share(given: Float[np.ndarray, " pairs"], made_up: Float[np.ndarray, " others"]) -> float:
    """The smallest ratio of given to made-up pairs beyond any score.

    One standard deviation is added to every ratio, so that the smallest is not merely the
    unluckiest.
    """
    ends = np.quantile(made_up, np.linspace(0, 1 - _LEAST_MASS, 50))
    theirs = (made_up[None] >= ends[:, None]).mean(1)
    ours = (given[None] >= ends[:, None]).mean(1)
    doubt = np.sqrt(np.maximum(ours * (1 - ours), 1 / len(given)) / len(given))
    return float(np.clip(((ours + doubt) / theirs).min(), 0, 1))
