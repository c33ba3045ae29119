"""Compare texts with the patterns of `~` in a filter, quickly and in bounded time.

A pattern without * or ? is looked for anywhere in the text. The parts between stars are
looked for one after the other, each at its first place: that leaves most of the text for
the parts behind it, so no pattern makes the comparison go back.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

_SHORT = 4096  # characters of a text whose folded form is kept for the next comparison
Test = Callable[[str], bool]


def matches(text: str | None, pattern: str) -> bool:
    """Whether `text` contains `pattern`, or matches it as a whole where it has * or ?."""
    return text is not None and _compiled(pattern)(_fold(text))


def matches_any(text: str | None, patterns: str) -> bool:
    """The same for several patterns, as `listed` writes them: one of them is enough."""
    if text is None:
        return False
    folded = _fold(text)
    return any(test(folded) for test in _all_compiled(patterns))


def listed(*patterns: str) -> str:
    """Several patterns in one value of SQL."""
    return json.dumps(list(dict.fromkeys(patterns)))


@lru_cache(maxsize=64)
def _all_compiled(patterns: str) -> tuple[Test, ...]:
    return tuple(_compiled(pattern) for pattern in json.loads(patterns))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Test:
    """The test of a pattern, made once: a filter asks it of every item."""
    pattern = folded(pattern)
    if "*" not in pattern and "?" not in pattern:
        return lambda text: pattern in text
    parts = re.split(r"\*+", pattern)
    return _with_places(parts) if "?" in pattern else _between_stars(parts)


def _between_stars(parts: list[str]) -> Test:
    first, *middle, last = parts  # one star at least

    def test(text: str) -> bool:
        end = len(text) - len(last)
        if not (text.startswith(first) and text.endswith(last)) or end < len(first):
            return False
        place = len(first)
        for part in middle:
            place = text.find(part, place, end)
            if place < 0:
                return False
            place += len(part)
        return True

    return test


def _with_places(parts: list[str]) -> Test:
    """? stands for one character; atomic groups never go back."""
    first, *rest = [
        "".join("." if letter == "?" else re.escape(letter) for letter in part)
        for part in parts
    ]
    if rest:
        first += "".join(f"(?>.*?{part})" for part in rest[:-1]) + f".*{rest[-1]}"
    expression = re.compile(first, re.DOTALL)
    return lambda text: expression.fullmatch(text) is not None


def folded(text: str) -> str:
    """A text as it is compared: without case, each letter with its accents in one piece."""
    # macOS writes names with accents apart, everybody else together
    return unicodedata.normalize("NFC", text).casefold()


_folded_and_cached = lru_cache(maxsize=2048)(folded)


def _fold(text: str) -> str:
    return _folded_and_cached(text) if len(text) <= _SHORT else folded(text)
