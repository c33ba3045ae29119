"""What is known of a query itself: how many words it has, and how common they are.

features of hits --of_query--> the same, and their products with both numbers
gallery size, words --kind_of--> what a refusal threshold is linear in
"""

import numpy as np
from jaxtyping import Float, Int, Num

LOG_WORDS, COMMON = "log words", "common"


def with_words(
    features: Float[np.ndarray, "queries shown features"], words: Int[np.ndarray, " queries"]
) -> Float[np.ndarray, "queries shown more"]:
    """Append the logarithm of the query length, and its product with every feature.

    A short query has many relevant pictures, so the same features mean something else.
    """
    length = np.log1p(words.astype(np.float32))[:, None, None]
    wide = np.broadcast_to(length, (*features.shape[:2], 1))
    return np.concatenate([features, wide, features * length], axis=2, dtype=np.float32)


def names_with_words(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the features of `with_words`."""
    return (*names, LOG_WORDS, *(f"{name} x {LOG_WORDS}" for name in names))


def of_query(
    names: tuple[str, ...],
    features: Float[np.ndarray, "queries shown features"],
    words: Int[np.ndarray, " queries"],
    common: Float[np.ndarray, " queries"] | None,
) -> tuple[tuple[str, ...], Float[np.ndarray, "queries shown more"]]:
    """Append what is known of the query itself, and its product with every feature.

    Hardly any picture stands out for what many show ("a dog", "man"), as none does for what is
    not there; the same features mean more where people name a thing often.
    """
    wide, wide_names = with_words(features, words), names_with_words(names)
    if common is None:
        return wide_names, wide
    column = common.astype(np.float32)[:, None, None]
    alone = np.broadcast_to(column, (*features.shape[:2], 1))
    return (
        (*wide_names, COMMON, *(f"{name} x {COMMON}" for name in names)),
        np.concatenate([wide, alone, features * column], axis=2, dtype=np.float32),
    )


def kind_of(
    sizes: Int[np.ndarray, " queries"], words: Num[np.ndarray, " queries"]
) -> Float[np.ndarray, "queries 4"]:
    """What the refusal threshold is linear in: log gallery size, log query length."""
    size, length = np.log(sizes) - 5, np.log1p(words) - 1.5
    return np.stack([np.ones(len(size)), size, length, size * length], 1)
