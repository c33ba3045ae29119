"""How common a query is in words: what hardly a picture stands out for, or hardly any shows.

A man is in a third of all photographs, so no picture stands out for "a man", as none does for
a thing that is not there. What tells them apart is known beforehand: how often people name the
thing. The rarest content word of a query decides, the less the more words there are: of a whole
caption no single word tells how many pictures fit.
"""

import math
import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from avow.retrieval.function_words import FUNCTION_WORDS
from avow.retrieval.spelling import dictionary

UNLISTED = 65_536
"""The rank of a word that no list has."""
_WORD = re.compile(r"[a-z]+")


def commonness(texts: Sequence[str]) -> Float64[np.ndarray, " texts"]:
    """From 0 for the commonest word down; the logarithm of a rank over the number of words."""
    return np.array([_of_text(text) for text in texts])


def _of_text(text: str) -> float:
    words = [word for word in _WORD.findall(text.lower()) if word not in FUNCTION_WORDS]
    rarest = max((_of_word(word) for word in words), default=UNLISTED)
    return -math.log1p(rarest) / max(len(words), 1)


def _of_word(word: str) -> int:
    """The better rank of a word and its singular."""
    listed = dictionary()
    forms = (word, word[:-1] if word.endswith("s") else word)
    ranks = [listed.rank(form) for form in forms]
    return min((rank for rank in ranks if rank is not None), default=UNLISTED)
