"""Text that is written in pictures, recognised by RapidOCR (`pip install 'avow[ocr]'`).

The package brings its networks and runs them with onnxruntime: nothing is downloaded. A picture
takes a second or more, so that it is read only where somebody asked for it.
"""

import importlib.util
import re
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

import numpy as np
from PIL import Image

from avow.core.errors import MissingExtra
from avow.core.photographs import upright_rgb

LONGEST = 10_000
"""Characters that are kept of one picture."""
SURE = 0.6
"""Lines that the engine is less sure of are noise more often than text."""
LARGEST_EDGE = 2000
"""Larger pictures are made smaller first; letters of a page are legible at this size."""

ReadText = Callable[[Image.Image], str]
"""Gives what is written in a picture, one line a line; empty where nothing is."""


def open_reader(remembered: bool = False) -> ReadText:
    """Load the engine, which takes seconds; a sentence where it is not installed.

    remembered: an earlier run asked for it, and not the one that is told what is missing.
    """
    if importlib.util.find_spec("rapidocr") is None:
        what = "Reading text in pictures"
        if remembered:
            what += ", as this index does until --no-ocr is given,"
        raise MissingExtra(what, "rapidocr", "ocr")
    from rapidocr import RapidOCR

    engine = RapidOCR(params={"Global.log_level": "critical"})
    one_at_a_time = Lock()  # its steps keep what they found in themselves

    def read(photograph: Image.Image) -> str:
        picture = upright_rgb(photograph)
        picture.thumbnail((LARGEST_EDGE, LARGEST_EDGE))
        with one_at_a_time:
            found: Any = engine(np.ascontiguousarray(np.asarray(picture)[..., ::-1]))
        lines = zip(found.txts or (), found.scores or (), strict=True)
        sure = [line.strip() for line, score in lines if float(score) >= SURE]
        return "\n".join(filter(None, sure))[:LONGEST]

    return read


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared: without case and without marks."""
    return re.findall(r"\w+", text.casefold())


def place_in(wanted: list[str], written: str) -> int | None:
    """How far a text is from holding some words: 0 as they stand, 1 in any order; None: not.

    wanted: from `words_of`.
    """
    there = words_of(written)
    if not wanted or not set(wanted) <= set(there):
        return None
    width = len(wanted)
    starts = range(len(there) - width + 1)
    return 0 if any(there[start : start + width] == wanted for start in starts) else 1


class WrittenTexts:
    """Texts of pictures, found by their words without reading every text."""

    def __init__(self, rows: Iterable[tuple[int, str]] = ()):
        """rows: the number of each picture, and what is written in it."""
        self._texts = dict(rows)
        self._by_word: dict[str, set[int]] = {}
        for number, text in self._texts.items():
            for word in words_of(text):
                self._by_word.setdefault(word, set()).add(number)

    def find(self, text: str) -> list[int]:
        """Pictures with all words of a text: as they stand first, then the shorter texts."""
        wanted = words_of(text)
        holders = [self._by_word.get(word, set()) for word in wanted]
        found = set.intersection(*holders) if holders else set()

        def order(number: int) -> tuple[int, int, int]:
            written = self._texts[number]
            return place_in(wanted, written) or 0, len(written), number

        return sorted(found, key=order)
