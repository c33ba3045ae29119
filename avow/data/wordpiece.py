"""Sub-words to numbers: the tokeniser of BERT and its kin.

Reads a Hugging Face `tokenizer.json`. The pieces of a word stay together, so that
augmentation hides or drops words rather than their pieces.
"""

from itertools import groupby
from operator import itemgetter
from pathlib import Path

from tokenizers import Tokenizer

from avow.core import seals
from avow.core.errors import WrongCheckpoint
from avow.core.tokeniser import Tokeniser

FILE = "tokenizer.json"
FIRST, LAST, MASK = "[CLS]", "[SEP]", "[MASK]"


class WordPieces(Tokeniser):
    """Several numbers per word; the network expects its own marks at both ends."""

    def __init__(self, tokenizer: Tokenizer, source: str):
        """`source` is the tokeniser's `tokenizer.json`, to be saved as it was."""
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._source = source
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        self._size = max(vocabulary.values()) + 1
        self._first, self._last = vocabulary[FIRST], vocabulary[LAST]
        self.mask = vocabulary[MASK]

    @classmethod
    def open(cls, path: Path | str) -> "WordPieces":
        """Read a `tokenizer.json`, or the one in the folder `path`."""
        place = Path(path)
        file = place / FILE if place.is_dir() else place
        if not file.is_file():
            raise _wrong(file, "is missing")
        try:
            source = seals.read_bytes(file).decode("utf-8")
            tokenizer = Tokenizer.from_str(source)
        except Exception:  # tokenizers raises nothing more precise
            raise _wrong(file, "is damaged or no tokeniser") from None
        for mark in (FIRST, LAST, MASK):
            if tokenizer.token_to_id(mark) is None:
                raise _wrong(file, f"has no {mark!r}")
        return cls(tokenizer, source)

    def save(self, folder: Path) -> None:
        (Path(folder) / FILE).write_text(self._source, "utf-8")

    @property
    def size(self) -> int:
        return self._size

    def own_words(self) -> tuple[str, ...]:
        return tuple(self._tokenizer.get_vocab(with_added_tokens=False))

    @property
    def fixed_ends(self) -> bool:
        return True

    def words(self, caption: str) -> list[list[int]]:
        encoding = self._tokenizer.encode(caption, add_special_tokens=False)
        pieces = zip(encoding.word_ids, encoding.ids, strict=True)
        inner = [[piece for _, piece in word] for _, word in groupby(pieces, itemgetter(0))]
        return [[self._first], *inner, [self._last]]


def _wrong(path: Path, what: str) -> WrongCheckpoint:
    return WrongCheckpoint(
        f"The tokeniser '{path}' {what}. Expected a Hugging Face tokenizer.json with "
        f"{FIRST}, {LAST} and {MASK}. Copy it again from where the run was made."
    )
