"""Galleries for one name: with its usual share of the pictures, and with others."""

import numpy as np

SHARES = (0.01, 0.04, 0.2, 0.5)


def fixed_galleries(
    match: np.ndarray, rng: np.random.Generator
) -> list[tuple[str, np.ndarray]]:
    drawn = [("all", np.arange(len(match)))]
    drawn += [(f"{size} drawn", rng.permutation(len(match))[:size]) for size in (100, 30)]
    for share in SHARES if match.any() else ():
        made = with_share(match, share, 500, rng)
        if len(made) >= 60 and match[made].sum() >= 2:
            drawn.append((f"share {share:g}", made))
    return drawn


def random_galleries(
    match: np.ndarray, rng: np.random.Generator
) -> list[tuple[str, np.ndarray]]:
    whole = len(match)
    drawn = [np.arange(whole)]
    for _ in range(2):
        drawn.append(rng.permutation(whole)[: int(np.exp(rng.uniform(*np.log([25, whole]))))])
    for _ in range(3) if match.any() else ():
        share, size = np.exp(rng.uniform(*np.log([[0.004, 40], [0.6, 0.9 * whole]])))
        made = with_share(match, share, int(size), rng)
        if len(made) >= 30:
            drawn.append(made)
    return [("", one) for one in drawn]


def with_share(
    match: np.ndarray, share: float, size: int, rng: np.random.Generator
) -> np.ndarray:
    """A gallery of at most `size` pictures in which so many fit."""
    fits, others = np.flatnonzero(match), np.flatnonzero(~match)
    size = min(size, int(len(fits) / share), int(len(others) / (1 - share)))
    count = max(1, round(size * share))
    return np.r_[rng.permutation(fits)[:count], rng.permutation(others)[: size - count]]
