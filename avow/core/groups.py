"""Queries that come in groups, such as the captions of one image.

Members of a group succeed and fail together, so five captions say less than five
independent queries. Whatever takes `groups` means one label per
query; without labels every query is a group of its own.
"""

from collections.abc import Iterator

import numpy as np

from avow.core.shapes import Float, Int


def numbered(groups: Int[np.ndarray, " queries"] | None, queries: int) -> np.ndarray:
    """The group of every query, counted from 0 without gaps."""
    if groups is None:
        return np.arange(queries)
    if len(groups) != queries:
        raise ValueError(
            f"There are {len(groups)} group labels for {queries} queries. Expected one each."
        )
    return np.unique(groups, return_inverse=True)[1]


def one_of_each(groups: Int[np.ndarray, " queries"], seed: int) -> Int[np.ndarray, " groups"]:
    """The positions of one query per group, drawn at random, in their old order."""
    luck = np.random.default_rng(seed).permutation(len(groups))
    order = luck[np.argsort(groups[luck], kind="stable")]
    first = np.concatenate([[True], np.diff(groups[order]) != 0])
    return np.sort(order[first])


def halves(
    groups: Int[np.ndarray, " queries"],
    rng: np.random.Generator | int,
    larger_first: bool = False,
) -> tuple[Int[np.ndarray, " one"], Int[np.ndarray, " other"]]:
    """The positions of two random halves; members of a group stay together.

    Halves are counted in groups. larger_first: which half gets the odd group.
    """
    names, group = np.unique(groups, return_inverse=True)
    count = (len(names) + larger_first) // 2
    chosen = np.zeros(len(names), bool)
    chosen[np.random.default_rng(rng).permutation(len(names))[:count]] = True
    return np.flatnonzero(chosen[group]), np.flatnonzero(~chosen[group])


def running_sums(
    values: Float[np.ndarray, " queries"], groups: Int[np.ndarray, " queries"]
) -> Float[np.ndarray, " queries"]:
    """For each query, the sum of the values of its own group up to and with it."""
    order = np.argsort(groups, kind="stable")
    ordered = values[order]
    total = np.cumsum(ordered)
    begins = np.concatenate([[True], np.diff(groups[order]) != 0])
    before = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    within = total - total[before] + ordered[before]
    sums = np.empty(len(order))
    sums[order] = within
    return sums


def folds(
    groups: Int[np.ndarray, " queries"], count: int
) -> Iterator[tuple[Int[np.ndarray, " fitted"], Int[np.ndarray, " held"]]]:
    """The positions outside and inside each of `count` folds; groups stay together.

    The largest group comes first, and each goes where there is least: sklearn's GroupKFold.
    """
    group = np.unique(groups, return_inverse=True)[1]
    sizes = np.bincount(group)
    fold, filled = np.zeros(len(sizes), int), np.zeros(count)
    for name in np.argsort(sizes, kind="stable")[::-1]:
        fold[name] = filled.argmin()
        filled[fold[name]] += sizes[name]
    for number in range(count):
        held = fold[group] == number
        yield np.flatnonzero(~held), np.flatnonzero(held)
