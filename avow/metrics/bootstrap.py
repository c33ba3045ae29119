"""Placeholder."""

import numpy as np


def interval(statistic, groups, draws=1000, level=0.95, seed=0):
    names, g = np.unique(groups, return_inverse=True)
    order = np.argsort(g, kind="stable")
    starts = np.searchsorted(g[order], np.arange(len(names) + 1))
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(draws):
        pick = rng.integers(0, len(names), len(names))
        out.append(statistic(np.concatenate([order[starts[i] : starts[i + 1]] for i in pick])))
    return tuple(np.nanquantile(out, ((1 - level) / 2, (1 + level) / 2)))
