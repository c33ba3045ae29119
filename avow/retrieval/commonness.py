"""How common a query is in words: what hardly a picture stands out for, or hardly any shows.

A man is in a third of all photographs, so no picture stands out for "a man", as none does for
a thing that is not there. What tells them apart is known beforehand: how often people name the
thing. The rarest content word of a name or a phrase decides; of a whole caption no single word
tells how many pictures fit, so captions all have the same number.
"""

import math
import re
from collections.abc import Sequence

import numpy as np

from avow.core.shapes import Float64
from avow.retrieval.function_words import FUNCTION_WORDS
from avow.retrieval.spelling import dictionary

UNLISTED = 65_536
"""The rank of a word that no list has."""
_PHRASE = 4  # content words; a query with more reads like a caption
_OF_A_CAPTION = -6.0  # about the mean of rarest words
_WORD = re.compile(r"[a-z]+")


def commonness(texts: Sequence[str]) -> Float64[np.ndarray, " texts"]:
    """From 0 for the commonest words down: the logarithm of the rarest one's rank."""
    return np.array([_of_text(text) for text in texts])


def _of_text(text: str) -> float:
    words = [word for word in _WORD.findall(text.lower()) if word not in FUNCTION_WORDS]
    rarest = max((_of_word(word) for word in words), default=UNLISTED)
    return -math.log1p(rarest) if len(words) <= _PHRASE else _OF_A_CAPTION


def _of_word(word: str) -> int:
    """The better rank of a word and its singular."""
    listed = dictionary()
    forms = (word, word[:-1] if word.endswith("s") else word)
    ranks = [listed.rank(form) for form in forms]
    return min((rank for rank in ranks if rank is not None), default=UNLISTED)
