"""Check and convert what users pass: similarities, reference queries, matches, tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.background import Background
from avow.core.documents import read_file
from avow.core.errors import BadData, BadRecipe
from avow.core.shapes import Bool, Float

Scores = Any
"""Arrays or tensors of numbers [queries, candidates], one or a sequence with one per view, or
one of [views, queries, candidates]."""


def table_text(path: Path, what: str, expected: str) -> str:
    """The text of a table that a person wrote or saved, without a byte order mark."""
    try:
        return read_file(path).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        why = error.strerror or error if isinstance(error, OSError) else error
        raise BadData(
            f"The {what} {str(path)!r} cannot be read ({why}). Expected {expected}."
        ) from error


def views_of(similarity: Scores) -> Float[np.ndarray, "views queries candidates"]:
    """One matrix or several as one array. Raises BadData for any other shape."""
    several = isinstance(similarity, Sequence)
    try:
        parts = [np.asarray(one, np.float32) for one in similarity] if several else similarity
        stacked = np.asarray(parts, np.float32)
    except (TypeError, ValueError) as error:
        raise BadData(
            f"The similarity cannot be read as numbers of one shape ({error}). Expected "
            "[queries, candidates], or one such matrix per view."
        ) from error
    views = stacked[None] if stacked.ndim == 2 else stacked
    if views.ndim != 3 or 0 in views.shape:
        raise BadData(
            f"The similarity has shape {tuple(stacked.shape)}. Expected [queries, candidates] "
            "or [views, queries, candidates], with at least one of each."
        )
    if not np.isfinite(views).all():
        raise BadData(
            "The similarity holds NaN or infinite numbers. Expected finite ones; leave such "
            "queries and candidates out."
        )
    return views


def background_of(bank: Scores | Background | None, tau: float) -> Background | None:
    """Statistics of the reference queries, computed unless they are given."""
    if bank is None or isinstance(bank, Background):
        return bank
    return Background.from_scores([views_of(bank)], tau)


def mask_of(
    matches: np.ndarray, shape: Sequence[int]
) -> Bool[np.ndarray, "queries candidates"]:
    """Matches as a mask. Raises BadData for a wrong shape or position."""
    matches = np.asarray(matches)
    if matches.dtype == bool and matches.shape == tuple(shape):
        return matches
    whole = matches.dtype.kind in "iu" and matches.shape == (shape[0],)
    if whole and matches.min() >= 0 and matches.max() < shape[1]:
        return matches[:, None] == np.arange(shape[1])[None]
    raise BadData(
        f"The matches have shape {matches.shape} and type {matches.dtype}. Expected a mask of "
        f"shape {tuple(shape)}, or the position (0 to {shape[1] - 1}) of the right candidate "
        "of every query."
    )


def probabilities_of(
    given: np.ndarray, shape: Sequence[int]
) -> Float[np.ndarray, "queries candidates"]:
    """Probabilities of every query and candidate. Raises BadData for anything else."""
    probabilities = np.asarray(given, np.float64)
    if (
        probabilities.shape != tuple(shape)
        or not ((probabilities >= 0) & (probabilities <= 1)).all()
    ):
        raise BadData(
            f"The probabilities have shape {probabilities.shape} and go from "
            f"{probabilities.min():.3g} to {probabilities.max():.3g}. Expected shape "
            f"{tuple(shape)} and numbers from 0 to 1: that each candidate fits each query."
        )
    return probabilities


def check_shares(**shares: float) -> None:
    """Refuse a level that is no share: a user who means 5 % may well write 5."""
    for name, share in shares.items():
        if not 0 < share < 1:
            raise BadRecipe(
                f"{name} is '{share}'. Expected a share between 0 and 1: 0.05 for 5 %."
            )
