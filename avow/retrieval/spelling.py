"""Which words are known, and which known words are near one that is not.

    words.txt.gz --> Dictionary --knows--> "bicycles": yes, "bycicle": no
                          `------suggestions--> "bycicle": bicycle

Words of captions and names of things come first in rank, most frequent first, then general
English; `scripts/vocabulary` wrote the file. Forms that are not listed are known when what they
are made of is: plurals, forms of verbs, two frequent words written as one.

The file has two lines for each length: how many words each level of ranks has, and the words,
by rank, with spaces between. A query needs the words of a few lengths only, and words of one
length are an array of letters as they stand: nothing has to be parsed.
"""

import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from avow.core.shapes import Float, Int, UInt8, UInt64

FILE = Path(__file__).with_name("words.txt.gz")
LONGEST = 22
"""Letters of the longest word in the file."""
_SURELY = 3000  # words of this rank or better may be parts of a compound
_A = ord("a")
_SHORT = 4  # two changed letters leave little of a word of this length
_DOUBLED = re.compile(r"[^aeiou][aeiou]([bdgklmnprtvz])\1$")  # as in "running", "wrapped"
MOSTLY = 0.75
"""The share of a model's words that English has, from which on it reads English."""
_FEWEST = 100  # words that say what language they are of
_LEVELS = 12  # levels from one rank to its double: a rank is kept to 6 %


@dataclass(frozen=True)
class WordsOfLength:
    """All words with the same number of letters, by rank."""

    codes: UInt8[np.ndarray, "words letters"]
    ranks: Int[np.ndarray, " words"]

    @cached_property
    def rank_of(self) -> dict[bytes, int]:
        length = self.codes.shape[1]
        words = np.ascontiguousarray(self.codes).view(f"S{length}").ravel()
        return dict(zip(words.tolist(), self.ranks.tolist(), strict=True))

    @cached_property
    def letters(self) -> UInt64[np.ndarray, " words"]:
        return _letter_bits(self.codes)


@dataclass(frozen=True)
class Dictionary:
    """Words by their length; those of a rank below `pictured` are of captions and names."""

    of_length: dict[int, WordsOfLength]
    pictured: int

    @classmethod
    def of(cls, words: Sequence[str], pictured: int) -> "Dictionary":
        """A dictionary of words that are given by rank."""
        grouped: dict[int, list[int]] = {}
        for rank, word in enumerate(words):
            grouped.setdefault(len(word), []).append(rank)
        groups = {}
        for length, ranks in grouped.items():
            letters = "".join(words[rank] for rank in ranks).encode()
            codes = np.frombuffer(letters, np.uint8).reshape(-1, length)
            groups[length] = WordsOfLength(codes, np.array(ranks))
        return cls(groups, pictured)

    def words(self) -> list[str]:
        """All words, by rank."""
        ranked = [
            (rank, word.decode())
            for group in self.of_length.values()
            for word, rank in group.rank_of.items()
        ]
        return [word for _, word in sorted(ranked)]

    def rank(self, word: str) -> int | None:
        """About how many words are more frequent; None for one that is not listed."""
        group = self.of_length.get(len(word))
        return group.rank_of.get(word.encode()) if group else None

    def knows(self, word: str) -> bool:
        """Whether a word of lower-case ASCII letters is listed, or made of listed ones."""
        return self.rank(word) is not None or self._is_form(word) or self._is_compound(word)

    def _is_form(self, word: str) -> bool:
        for base, anywhere in _bases(word):
            rank = self.rank(base) if len(base) > 2 else None
            if rank is not None and (anywhere or rank < self.pictured):
                return True
        return False

    def _is_compound(self, word: str) -> bool:
        return any(
            self._is_frequent(word[:cut]) and self._is_frequent(word[cut:])
            for cut in range(3, len(word) - 2)
        )

    def _is_frequent(self, word: str) -> bool:
        rank = self.rank(word)
        return rank is not None and rank < _SURELY

    # --- suggestions ----------------------------------------------------------------

    def suggestions(self, word: str, most: int = 3) -> tuple[str, ...]:
        """Known words at the smallest distance, of one or two changes; frequent ones first."""
        if not 2 < len(word) <= LONGEST:
            return ()
        near = self.within(word, 2 if len(word) > _SHORT else 1)
        for form in _sounding(word):
            rank = self.rank(form)
            if rank is not None:
                near[form] = (1, rank)
        least = min((distance for distance, _ in near.values()), default=0)
        order = {
            other: likely_first(word, other, rank)
            for other, (distance, rank) in near.items()
            if distance == least
        }
        return tuple(sorted(order, key=lambda other: order[other])[:most])

    def within(self, word: str, distance: int) -> dict[str, tuple[int, int]]:
        """Words at most so far from this one: how far they are, and their ranks."""
        own = np.uint64(_bits_of(word))
        longest = len(word) + distance
        groups: list[tuple[int, WordsOfLength, Int[np.ndarray, " places"]]] = []
        for length in range(len(word) - distance, longest + 1):
            if group := self.of_length.get(length):
                moved = 2 * distance - abs(length - len(word))  # letters that changes can move
                places = np.flatnonzero(_ones(group.letters ^ own) <= moved)
                groups.append((length, group, places))
        total = sum(len(places) for _, _, places in groups)
        codes, lengths = np.zeros((total, longest), np.uint8), np.zeros(total, np.uint8)
        ranks, start = np.zeros(total, np.int64), 0
        for length, group, places in groups:
            rows = slice(start, start + len(places))
            codes[rows, :length] = group.codes[places]
            lengths[rows], ranks[rows] = length, group.ranks[places]
            start = rows.stop
        far = distances(word, codes, lengths)
        near = far <= distance
        listed = codes[near].view(f"S{longest}").ravel().tolist()
        measured = zip(far[near].tolist(), ranks[near].tolist(), strict=True)
        return {other.decode(): pair for other, pair in zip(listed, measured, strict=True)}

    # --- what a word looks like -----------------------------------------------------

    @cached_property
    def _triples(self) -> Float[np.ndarray, "27 27 27"]:
        """Log-probability of a letter after two others; 0 stands before and after a word."""
        counts = np.full(27**3, 0.05)
        for group in self.of_length.values():
            frequent = group.codes[: np.searchsorted(group.ranks, _SURELY)].astype(np.int64)
            padded = np.pad(frequent - _A + 1, ((0, 0), (2, 1)))
            triples = (padded[:, :-2] * 27 + padded[:, 1:-1]) * 27 + padded[:, 2:]
            counts += np.bincount(triples.ravel(), minlength=27**3)
        table = counts.reshape(27, 27, 27)
        return np.log(table / table.sum(2, keepdims=True))

    def plausibility(self, word: str) -> float:
        """Mean log-probability of the letters, as English puts them one after another."""
        places = [0, 0, *(ord(letter) - _A + 1 for letter in word), 0]
        triples = self._triples
        total = sum(
            triples[a, b, c] for a, b, c in zip(places, places[1:], places[2:], strict=False)
        )
        return float(total) / (len(word) + 1)


# --- the file -------------------------------------------------------------------------


@cache
def dictionary() -> Dictionary:
    """The words that come with Avow."""
    return from_bytes(FILE.read_bytes())


def mostly_english(words: Iterable[str]) -> bool:
    """Whether the words that a model has are of English; not where there are few of them."""
    lower = [word for word in words if len(word) > 2 and word.isalpha() and word.islower()]
    known = sum(word.isascii() and dictionary().knows(word) for word in lower)
    return len(lower) >= _FEWEST and known >= MOSTLY * len(lower)


def to_bytes(words: Dictionary) -> bytes:
    """The content of the file."""
    lines = [str(words.pictured)]
    for _, group in sorted(words.of_length.items()):
        levels = (np.log2(group.ranks + 1) * _LEVELS).astype(int)
        lines.append(" ".join(map(str, np.bincount(levels).tolist())))
        lines.append(" ".join(row.tobytes().decode() for row in group.codes))
    return gzip.compress("\n".join(lines).encode(), 9, mtime=0)


def from_bytes(content: bytes) -> Dictionary:
    first, *lines = gzip.decompress(content).split(b"\n")
    groups = {}
    for counts, listed in zip(lines[::2], lines[1::2], strict=True):
        length = listed.find(b" ") if b" " in listed else len(listed)
        rows = np.frombuffer(listed + b" ", np.uint8).reshape(-1, length + 1)
        levels = np.repeat(*_levels(counts))
        groups[length] = WordsOfLength(rows[:, :-1], levels)
    return Dictionary(groups, int(first))


def _levels(counts: bytes) -> tuple[Int[np.ndarray, " levels"], Int[np.ndarray, " levels"]]:
    """The rank that each level begins with, and how many words it has."""
    sizes = np.array(counts.split(), dtype=np.int64)
    return (2 ** (np.arange(len(sizes)) / _LEVELS) - 1).round().astype(np.int64), sizes


def likely_first(word: str, other: str, rank: int) -> tuple[int, str]:
    """Order words of one distance: frequent ones first; the first letter is seldom wrong."""
    return (rank + 20) * (1 if other[0] == word[0] else 10), other


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
    for letters, other in (("f", "ph"), ("x", "ks"), ("kw", "qu"), ("k", "ch"), ("sh", "ti")):
        for old, new in ((letters, other), (other, letters)):
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


def _bits_of(word: str) -> int:
    """The same for one word."""
    once = twice = 0
    for letter in word:
        bit = 1 << (ord(letter) - _A)
        twice |= once & bit
        once |= bit
    return once | twice << 26


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
            if ending != "y" or stem[-1] != "y":
                yield stem, False
            yield stem + "e", False
            if _DOUBLED.search(stem):
                yield stem[:-1], False
    for ending in ("like", "less", "ly", "ful"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            yield word[: -len(ending)], False
    if word.startswith("un") and len(word) > 6:
        yield word[2:], False
