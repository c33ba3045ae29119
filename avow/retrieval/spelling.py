"""Which words are known, and which known words are near one that is not.

    words.txt.gz --> Dictionary --knows--> "bicycles": yes, "bycicle": no
                          `------suggestions--> "bycicle": bicycle

The file has words of captions and names of things first, most frequent first, then an empty
line, then general English; `scripts/vocabulary` wrote it. Forms that are not listed are known
when what they are made of is: plurals, forms of verbs, two frequent words written as one.
"""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt8, UInt64

FILE = Path(__file__).with_name("words.txt.gz")
LONGEST = 22
"""Letters of the longest word in the file."""
_SURELY = 3000  # words as frequent as these may be parts of a compound
_A = ord("a")
_SHORT = 4  # two changed letters leave little of a word of this length


@dataclass(frozen=True)
class Dictionary:
    """Words by frequency; the first `pictured` of them are words of captions and names."""

    words: tuple[str, ...]
    pictured: int

    @cached_property
    def rank(self) -> dict[str, int]:
        return dict(zip(self.words, range(len(self.words)), strict=True))

    def knows(self, word: str) -> bool:
        """Whether a word of lower-case ASCII letters is listed, or made of listed ones."""
        return word in self.rank or self._is_form(word) or self._is_compound(word)

    def _is_form(self, word: str) -> bool:
        return any(
            len(base) > 2 and self.rank.get(base, len(self.words)) < limit
            for base, anywhere in _bases(word)
            for limit in [len(self.words) if anywhere else self.pictured]
        )

    def _is_compound(self, word: str) -> bool:
        rank = self.rank
        return any(
            rank.get(word[:cut], _SURELY) < _SURELY and rank.get(word[cut:], _SURELY) < _SURELY
            for cut in range(3, len(word) - 2)
        )

    # --- suggestions ----------------------------------------------------------------

    @cached_property
    def _codes(self) -> UInt8[np.ndarray, "words letters"]:
        listed = np.array("\n".join(self.words).encode().split(b"\n"), f"S{LONGEST}")
        return listed.view(np.uint8).reshape(len(listed), LONGEST)

    @cached_property
    def _lengths(self) -> UInt8[np.ndarray, " words"]:
        return (self._codes > 0).sum(1, dtype=np.uint8)

    @cached_property
    def _of_length(self) -> dict[int, Int[np.ndarray, " places"]]:
        """The places of all words with so many letters."""
        order = np.argsort(self._lengths, kind="stable")
        lengths, starts = np.unique(self._lengths[order], return_index=True)
        parts = np.split(order, starts[1:])
        return dict(zip(lengths.tolist(), parts, strict=True))

    @cached_property
    def _letters(self) -> dict[int, UInt64[np.ndarray, " places"]]:
        """The letters of the words of each length; filled when a length is asked for."""
        return {}

    def _letters_of_length(self, length: int) -> UInt64[np.ndarray, " places"]:
        if length not in self._letters:
            self._letters[length] = _letter_bits(self._codes[self._of_length[length], :length])
        return self._letters[length]

    def suggestions(self, word: str, most: int = 3) -> tuple[str, ...]:
        """Known words at the smallest distance, of one or two changes; frequent ones first."""
        if not 2 < len(word) <= LONGEST:
            return ()
        for distance in (1, 2) if len(word) > _SHORT else (1,):
            near = self._within(word, distance)
            if distance == 1:
                alike = [self.rank[form] for form in _sounding(word) if form in self.rank]
                near = np.unique(np.append(near, alike).astype(np.int64))
            if near.size:
                other_start = self._codes[near, 0] != ord(word[0])
                order = np.argsort((near + 20) * np.where(other_start, 10, 1), kind="stable")
                return tuple(self.words[place] for place in near[order[:most]])
        return ()

    def _within(self, word: str, distance: int) -> Int[np.ndarray, " found"]:
        """Places of words so far from this one; a change moves at most two of its letters."""
        own = _letter_bits(np.frombuffer(word.encode(), np.uint8)[None])
        found = [np.zeros(0, np.int64)]
        for length in range(len(word) - distance, len(word) + distance + 1):
            if length in self._of_length:
                moved = 2 * distance - abs(length - len(word))  # letters that changes can move
                near = _ones(self._letters_of_length(length) ^ own) <= moved
                found.append(self._of_length[length][near])
        places = np.concatenate(found)
        codes = self._codes[places, : len(word) + distance]
        return places[distances(word, codes, self._lengths[places]) <= distance]

    # --- what a word looks like -----------------------------------------------------

    @cached_property
    def _triples(self) -> Float[np.ndarray, "27 27 27"]:
        """Log-probability of a letter after two others; 0 stands before and after a word."""
        codes = self._codes[:_SURELY].astype(np.int64)
        padded = np.pad(np.where(codes > 0, codes - _A + 1, 0), ((0, 0), (2, 1)))
        inside = np.arange(LONGEST + 1) <= self._lengths[:_SURELY, None]
        number = (padded[:, :-2] * 27 + padded[:, 1:-1]) * 27 + padded[:, 2:]
        counts = np.bincount(number[inside], minlength=27**3).reshape(27, 27, 27) + 0.05
        return np.log(counts / counts.sum(2, keepdims=True))

    def plausibility(self, word: str) -> float:
        """Mean log-probability of the letters, as English puts them one after another."""
        places = [0, 0, *(ord(letter) - _A + 1 for letter in word), 0]
        triples = self._triples
        total = sum(
            triples[a, b, c] for a, b, c in zip(places, places[1:], places[2:], strict=False)
        )
        return float(total) / (len(word) + 1)


@cache
def dictionary() -> Dictionary:
    """The words that come with Avow."""
    pictured, general = gzip.decompress(FILE.read_bytes()).decode().split("\n\n")
    first = pictured.split()
    return Dictionary((*first, *general.split()), len(first))


def distances(
    word: str, codes: UInt8[np.ndarray, "words letters"], lengths: UInt8[np.ndarray, " words"]
) -> Int[np.ndarray, " words"]:
    """Letters to add, drop, replace or swap with the next to get each word of `codes`.

    A letter that was swapped is not changed again ("optimal string alignment").
    """
    steps = np.arange(codes.shape[1] + 1, dtype=np.int8)
    before = last = np.tile(steps, (len(codes), 1))
    letters = np.frombuffer(word.encode(), np.uint8)
    for row, letter in enumerate(letters):
        now = last + np.int8(1)
        np.minimum(now[:, 1:], last[:, :-1] + (codes != letter).view(np.int8), out=now[:, 1:])
        if row:
            swapped = (codes[:, :-1] == letter) & (codes[:, 1:] == letters[row - 1])
            turned = np.where(swapped, before[:, :-2] + np.int8(1), np.int8(LONGEST * 2))
            np.minimum(now[:, 2:], turned, out=now[:, 2:])
        now = np.minimum.accumulate(now - steps, axis=1) + steps  # letters that are added
        before, last = last, now
    return last[np.arange(len(codes)), lengths]


def _sounding(word: str) -> Iterator[str]:
    """Other ways to write the same sounds; each counts as one change."""
    for one, other in (("f", "ph"), ("x", "ks"), ("kw", "qu"), ("k", "ch"), ("sh", "ti")):
        for old, new in ((one, other), (other, one)):
            if old in word:
                yield word.replace(old, new, 1)


def _letter_bits(codes: UInt8[np.ndarray, "words letters"]) -> UInt64[np.ndarray, " words"]:
    """Which of the 26 letters each word has, as 26 bits; which of them twice, as 26 more."""
    bits = np.zeros(256, np.uint64)
    bits[_A : _A + 26] = np.uint64(1) << np.arange(26, dtype=np.uint64)
    once = np.zeros(len(codes), np.uint64)
    twice = np.zeros(len(codes), np.uint64)
    for column in np.ascontiguousarray(codes.T):
        letter = bits[column]
        twice |= once & letter
        once |= letter
    return once | (twice << np.uint64(26))


def _ones(numbers: UInt64[np.ndarray, " words"]) -> UInt8[np.ndarray, " words"]:
    """How many bits are set."""
    if hasattr(np, "bitwise_count"):  # from numpy 2
        return np.bitwise_count(numbers)
    bits = np.unpackbits(numbers.view(np.uint8).reshape(-1, 8), axis=1)
    return bits.sum(1, dtype=np.uint8)


def _bases(word: str) -> Iterator[tuple[str, bool]]:
    """What a word may be a form of, and whether any listed word will do as its base."""
    if word.endswith("s") and not word.endswith("ss"):
        yield word[:-1], True
        if word.endswith("ies"):
            yield word[:-3] + "y", True
        elif word.endswith(("ses", "xes", "zes", "ches", "shes", "oes")):
            yield word[:-2], True
    for ending in ("ing", "ed", "er", "ers", "y"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            stem = word[: -len(ending)]
            yield stem, False
            yield stem + "e", False
            if stem[-1] == stem[-2]:
                yield stem[:-1], False
    for ending in ("like", "less", "ly", "ful"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            yield word[: -len(ending)], False
    if word.startswith("un") and len(word) > 6:
        yield word[2:], False
