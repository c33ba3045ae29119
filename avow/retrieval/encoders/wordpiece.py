"""The tokeniser of the shipped model: BERT's sub-words, without a package for them.

    WordPieces.open(folder).words("Two dogs!")      [[101], [2048], [6077], [999], [102]]

It reads the `tokenizer.json` beside the model and gives the numbers that the package
tokenizers gives (`data.wordpiece`, which training uses), as the tests say for every caption
and character. That package brings a client of the model hub along, forty megabytes of it.
"""

import json
import re
import unicodedata
from functools import lru_cache
from pathlib import Path

from avow.core.documents import read_file
from avow.core.errors import WrongCheckpoint
from avow.core.tokeniser import Tokeniser

FILE = "tokenizer.json"
FIRST, LAST, MASK, UNKNOWN = "[CLS]", "[SEP]", "[MASK]", "[UNK]"
_NORMALIZER = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
_LONGEST_WORD = 100
_CACHED = 50_000
_CHINESE = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


class WordPieces(Tokeniser):
    """Several numbers per word; the network expects its own marks at both ends."""

    def __init__(self, vocabulary: dict[str, int], special: list[str], source: bytes):
        self._vocabulary, self._source = vocabulary, source
        self._first, self._last = vocabulary[FIRST], vocabulary[LAST]
        self.mask = vocabulary[MASK]
        self._special = re.compile("(" + "|".join(map(re.escape, special)) + ")")
        self._pieces = lru_cache(_CACHED)(self._cut)

    @classmethod
    def open(cls, folder: Path) -> "WordPieces":
        """Read the `tokenizer.json` in a folder."""
        path = folder / FILE
        try:
            source = read_file(path)
            content = json.loads(source)
            model = content["model"]
            if (model["type"], content["pre_tokenizer"]["type"]) != (
                "WordPiece",
                "BertPreTokenizer",
            ) or content["normalizer"] != _NORMALIZER:
                raise ValueError("it cuts words in another way")
            special = [token["content"] for token in content["added_tokens"]]
            return cls(model["vocab"], special, source)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise WrongCheckpoint(
                f"The tokeniser {str(path)!r} cannot be read ({error}). Expected the one that "
                "came with Avow; install Avow again."
            ) from error

    def save(self, folder: Path) -> None:
        (Path(folder) / FILE).write_bytes(self._source)

    @property
    def size(self) -> int:
        return max(self._vocabulary.values()) + 1

    @property
    def fixed_ends(self) -> bool:
        return True

    def words(self, caption: str) -> list[list[int]]:
        inner: list[list[int]] = []
        for place, part in enumerate(self._special.split(caption)):
            if place % 2:  # a mark that somebody typed stands for itself
                inner.append([self._vocabulary[part]])
            else:
                inner += [list(self._pieces(word)) for word in words_of(part)]
        return [[self._first], *inner, [self._last]]

    def _cut(self, word: str) -> tuple[int, ...]:
        """The longest pieces from the left; one number for a word that has none."""
        pieces: list[int] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self._vocabulary:
                    pieces.append(self._vocabulary[piece])
                    start = end
                    break
            else:
                return (self._vocabulary[UNKNOWN],)
        return tuple(pieces) if pieces else (self._vocabulary[UNKNOWN],)


def words_of(text: str) -> list[str]:
    """Words in lower case without accents; marks and Chinese characters are words."""
    spaced = "".join(map(_spaced, text))
    plain = (c for c in unicodedata.normalize("NFD", spaced) if unicodedata.category(c) != "Mn")
    lower = "".join(character.lower() for character in plain)  # of each alone: sigma is sigma
    return "".join(f" {c} " if _is_mark(c) else c for c in lower).split()


@lru_cache(4096)
def _spaced(character: str) -> str:
    """A character as a part of a word, a space, a word of its own, or nothing."""
    if character in "\t\n\r":
        return " "
    if character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co"):
        return ""
    if character.isspace():
        return " "
    code = ord(character)
    if any(first <= code <= last for first, last in _CHINESE):
        return f" {character} "
    return character


@lru_cache(4096)
def _is_mark(character: str) -> bool:
    """Punctuation, and every ASCII character that is neither letter, digit nor space."""
    if character.isascii():
        return not character.isalnum() and character.isprintable() and character != " "
    return unicodedata.category(character).startswith("P")
