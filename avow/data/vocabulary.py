"""Words to numbers: the vocabulary of the word-level methods.

Numbers 0 to 3 are padding, start, end and unknown; then come the words that occur
often enough, in the order they were first seen; then the word that hides others.
Reads and writes the published JSON (keys word2idx, idx2word, idx).
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from avow.core import seals
from avow.core.errors import WrongCheckpoint
from avow.core.tokeniser import Tokeniser
from avow.data.words import word_tokenize

FILE = "vocabulary.json"
PAD, START, END, UNKNOWN, MASK = "<pad>", "<start>", "<end>", "<unk>", "<mask>"
MARKS = (PAD, START, END, UNKNOWN)


class Vocabulary(Tokeniser):
    """One number per word; captions are lowercased."""

    def __init__(self, listed: Iterable[str]):
        self.listed: list[str] = list(listed)
        """All words; the place of each is its number."""
        if MASK not in self.listed:
            self.listed.append(MASK)
        self._number = {word: number for number, word in enumerate(self.listed)}
        self.mask = self._number[MASK]

    @classmethod
    def from_captions(cls, captions: Iterable[str], at_least: int = 4) -> "Vocabulary":
        """The words that occur `at_least` so many times."""
        counts = Counter(
            word for caption in captions for word in word_tokenize(caption.lower())
        )
        return cls([*MARKS, *(word for word in counts if counts[word] >= at_least)])

    @classmethod
    def open(cls, path: Path | str) -> "Vocabulary":
        """Read a vocabulary file: one of ours, or as SCAN, VSE++ and TCL publish it."""
        try:
            content = seals.read_document(Path(path))
            listed = _listed(content["word2idx"])
            whole = content["idx"] == len(listed) and listed[: len(MARKS)] == [*MARKS]
        except FileNotFoundError:
            raise _wrong(path, "is missing") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise _wrong(path, "is damaged or no vocabulary") from None
        if not whole:
            raise _wrong(path, "is damaged or no vocabulary")
        return cls(listed)

    def save(self, folder: Path) -> None:
        content = {
            "word2idx": self._number,
            "idx2word": {str(number): word for word, number in self._number.items()},
            "idx": len(self.listed),
        }
        text = json.dumps(content, ensure_ascii=False)
        (Path(folder) / FILE).write_text(text, "utf-8")

    @property
    def size(self) -> int:
        return len(self.listed)

    def own_words(self) -> list[str]:
        return [word for word in self.listed if word not in (*MARKS, MASK)]

    @property
    def whole_words(self) -> bool:
        return True

    def words(self, caption: str) -> list[list[int]]:
        unknown = self._number[UNKNOWN]
        numbers = [[self._number.get(word, unknown)] for word in word_tokenize(caption.lower())]
        return [[self._number[START]], *numbers, [self._number[END]]]


def _listed(numbers: dict[str, Any]) -> list[str]:
    """The words in the order of their numbers, which must be 0, 1, 2 ..."""
    listed = sorted(numbers, key=lambda word: numbers[word])
    if [numbers[word] for word in listed] != list(range(len(listed))):
        raise ValueError("numbers are missing or repeated")
    return listed


def _wrong(path: Path | str, what: str) -> WrongCheckpoint:
    return WrongCheckpoint(
        f"The vocabulary '{path}' {what}. Expected JSON with word2idx, idx2word and idx, "
        f"numbered from {PAD}. Copy it again from where the run was made."
    )
