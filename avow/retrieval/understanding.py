"""Is the query understood? What of it is searched, what is left out, which words are unknown.

    query --negation--> text, without
          --script, words of other languages--> language
          --dictionary--> unknown words, suggestions
                              |
                              `--> problem (a code), message (a sentence), corrected

A search that finds nothing says that nothing is there. For "bycicle" or "Fahrrad" that would be
untrue: the model did not understand the question. Whether a query is understood is decided by
the share of its content words that are unknown: a rare word in a long caption does no harm.

Needs no model: numpy and two files of words beside this module.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from avow.retrieval.function_words import CONTRACTIONS, FUNCTION_WORDS
from avow.retrieval.languages import (
    known_languages,
    languages_of,
    languages_of_article,
    languages_of_letters,
    name_of,
    plain,
    script_of,
)
from avow.retrieval.negation import Split, split_negation
from avow.retrieval.spelling import dictionary

Kind = Literal["name", "phrase", "caption"]
Problem = Literal[
    "unknown_word", "other_language", "nonsense", "number", "empty", "only_left_out", "file"
]

UNKNOWN_SHARE = 0.25
"""From this share of unknown content words on, a query is not understood."""
UNLEARNT = 0.5
"""What a word of English that the model never learnt counts among them. As much as any other,
and 8 % of the captions of a run's own dataset would not be understood."""
IMPLAUSIBLE = -3.8
"""Mean log-probability of letters, below which an unknown word is no word of English."""
COMMON_RANK, COMMON, GENERAL = 3000, 0.8, 0.4
"""What common words of captions and all other known words count for English. Words of other
languages that English has too ("die", "in", "chat") count the rest for these."""
SELDOM_RANK = 20_000
"""Words beyond this rank that another language lists are of that language."""
ARTICLE, LETTER = 0.5, 0.3
"""What the first word counts for languages where it is "a", and letters English lacks."""
MOST_SUGGESTED = 3
"""Unknown words that suggestions are looked up for."""
_TOKEN = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W_]+)*")
_APOSTROPHE = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]")
_ENDINGS = frozenset(("s", "t", "d", "ll", "re", "ve", "m", "n"))
_PHRASE = 4  # content words; a query with more reads like a caption
_SHORTEST = 3  # letters; shorter words are sizes, initials, abbreviations
_MANY = re.compile(
    r"(?:\b(?:four|five|six|seven|eight|nine|ten|eleven|twelve|dozens?|hundreds?)|^(?:[4-9]|\d{2,3}))"
    r"\s+[^\W\d]",
    re.IGNORECASE,
)
"""More things than captions tell apart reliably."""
_FILE = re.compile(
    r"\S+\.(?:jpe?g|png|gif|webp|heic|tiff?|bmp|mp4|mov|avi|mkv|webm)", re.IGNORECASE
)
_MODEL = re.compile(r"[a-z]{1,4}\d{1,4}|\d{1,4}[a-z]{1,3}|\d[a-z]\d")
"""What people call things by letters and digits: "f16", "1950s", "4x4"."""


@dataclass(frozen=True)
class UnknownWord:
    """A word that is in no list, as it was written, and known words near it, best first."""

    word: str
    suggestions: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"word": self.word, "suggestions": list(self.suggestions)}


@dataclass(frozen=True)
class Understanding:
    """What a query asks for, and whether it can be searched as it stands."""

    text: str
    """What is to be searched."""
    without: str | None = None
    """What a negation in the query asks to leave out."""
    unknown: tuple[UnknownWord, ...] = ()
    language: str = "en"
    """"en", another guessed language such as "de", or "?" for another script."""
    kind: Kind = "phrase"
    """By the number of content words: one, two to four, more."""
    problem: Problem | None = None
    """Why the query is not understood; None where it is."""
    message: str | None = None
    """A sentence for people. Without a problem it is a hint."""
    corrected: str | None = None
    """The whole query with the first suggestion for each unknown word."""

    @property
    def understood(self) -> bool:
        return self.problem is None

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "without": self.without,
            "unknown": [word.to_dict() for word in self.unknown],
            "language": self.language,
            "kind": self.kind,
            "problem": self.problem,
            "message": self.message,
            "corrected": self.corrected,
        }


@dataclass(frozen=True)
class _Word:
    """A piece of a query between spaces, hyphens and apostrophes."""

    written: str
    plain: str
    start: int
    first: bool
    """Whether the query begins with it; then a capital letter says nothing."""

    @property
    def is_content(self) -> bool:
        return self.plain not in FUNCTION_WORDS and not self.written.isdigit()

    @property
    def is_known(self) -> bool:
        word = self.plain
        if self.is_code:
            return True
        return word in CONTRACTIONS or dictionary().knows(word)

    def is_known_to(self, vocabulary: Collection[str] | None) -> bool:
        """Whether a model with these words, or with any of English, can read it."""
        if vocabulary is None or self.is_code:
            return self.is_known
        return self.written.lower() in vocabulary or self.plain in vocabulary

    @property
    def is_code(self) -> bool:
        """An initial, a size or a model ("xl", "f16"), which no list can have."""
        word = self.plain
        return any(map(str.isdigit, word)) or (
            len(word) < _SHORTEST and (len(word) == 1 or dictionary().rank(word) is None)
        )

    @cached_property
    def englishness(self) -> float:
        """How far it speaks for English: 1 if it is common in captions."""
        rank = 0 if self.plain in FUNCTION_WORDS else dictionary().rank(self.plain)
        if rank is None:
            return GENERAL if len(self.plain) >= _SHORTEST and self.is_known else 0.0
        return COMMON if rank < COMMON_RANK else GENERAL

    @cached_property
    def foreignness(self) -> float:
        """How far it speaks for a language that has it: the more, the rarer in English."""
        rank = dictionary().rank(self.plain)
        return 1.0 if rank is not None and rank > SELDOM_RANK else 1 - self.englishness

    @property
    def is_name(self) -> bool:
        """Written like a name; of names we know only the frequent ones."""
        return not self.first and self.written[:1].isupper() and not self.written.isupper()


def understand(text: str, vocabulary: Collection[str] | None = None) -> Understanding:
    """What a query asks for, and what of it is not understood.

    vocabulary: all words that the model has; default: any word of English.

    >>> understand("a bathroom with no toilet").without
    'toilet'
    >>> understand("a red bycicle").message
    "I don't know 'bycicle'. Did you mean 'bicycle'?"
    """
    split = split_negation(text)
    words = _words(text)
    content = [word for word in words if word.is_content]
    wanted = words if split.text == text else _words(split.text)
    kind = _kind(sum(word.is_content for word in wanted))
    if _FILE.fullmatch(text.strip()):
        return _file(text, kind)
    if not content:
        return _without_content(text, words, kind)
    if script_of(text):
        return _other_language(text, ("?",), kind)
    unknown = [word for word in content if not word.is_known_to(vocabulary)]
    if languages := _languages(words, unknown):
        return _other_language(text, languages, kind, unknown)
    if _is_noise(content, unknown):
        return Understanding(
            split.text,
            split.without,
            tuple(UnknownWord(word.written) for word in unknown),
            kind=kind,
            problem="nonsense",
            message=f"{_quoted(text)} has no word I know; describe what the picture shows.",
        )
    return _english(text, split, kind, content, unknown, vocabulary)


def _english(
    text: str,
    split: Split,
    kind: Kind,
    content: Sequence[_Word],
    unknown: Sequence[_Word],
    vocabulary: Collection[str] | None,
) -> Understanding:
    """Decide by the share of unknown words; names that are not known are no mistakes."""
    lower = any(word.written.islower() for word in content)
    odd = [word for word in unknown if not (lower and word.is_name)]
    looked_up = {word.plain for word in odd[:MOST_SUGGESTED]}
    listed = tuple(
        UnknownWord(
            word.written, _suggestions(word, vocabulary) if word.plain in looked_up else ()
        )
        for word in unknown
    )
    offered = {about.word for about in listed if about.suggestions}
    most = UNKNOWN_SHARE * len(content)
    left = _misread([word for word in odd if word.written not in offered])
    corrected = None if left >= most else _corrected(text, unknown, listed)
    problem: Problem | None = None
    message = _unknown_message(odd, listed, corrected)
    if _misread(odd) >= most:
        problem = "unknown_word"
    elif message is None and _MANY.search(text):
        message = "How many there are is hardly read: this model does not count."
    if split.nothing_left and problem is None:
        problem = "only_left_out"
        message = (
            f"{_quoted(text)} says only what to leave out; say what the picture shows as well, "
            f"such as {_quoted(f'a street without {split.nothing_left}')}."
        )
    return Understanding(
        split.text,
        split.without,
        listed,
        kind=kind,
        problem=problem,
        message=message,
        corrected=corrected,
    )


def _misread(words: Sequence[_Word]) -> float:
    return sum((UNLEARNT if word.is_known else 1.0 for word in words), 0.0)


def _without_content(text: str, words: Sequence[_Word], kind: Kind) -> Understanding:
    clean = " ".join(text.split())
    if any(word.written.isdigit() for word in words):
        message = f"{_quoted(clean)} is a number; describe what the picture shows."
        return Understanding(clean, kind=kind, problem="number", message=message)
    about = f"{_quoted(clean)} names nothing" if clean else "The query is empty"
    message = f"{about}; describe what the picture shows."
    return Understanding(clean, kind=kind, problem="empty", message=message)


def _file(text: str, kind: Kind) -> Understanding:
    clean = text.strip()
    message = (
        f"{_quoted(clean)} looks like the name of a file; describe what the picture shows, or "
        f"filter by name={_quoted(clean).replace(chr(39), chr(34))}."
    )
    return Understanding(clean, kind=kind, problem="file", message=message)


def _other_language(
    text: str, languages: Sequence[str], kind: Kind, unknown: Sequence[_Word] = ()
) -> Understanding:
    """The text stays whole: what English says with "no" or "not", others say otherwise."""
    look = "is in another script"
    if languages[0] != "?":
        look = f"looks like {' or '.join(map(name_of, languages[:3]))}"
    return Understanding(
        " ".join(text.split()),
        unknown=tuple(UnknownWord(word.written) for word in unknown),
        language=languages[0],
        kind=kind,
        problem="other_language",
        message=f"This model reads English; this {look}.",
    )


# --- words ----------------------------------------------------------------------------


def _words(text: str) -> list[_Word]:
    """The pieces of a query; endings such as "'s" are left away."""
    words: list[_Word] = []
    for match in _TOKEN.finditer(text):
        start = match.start()
        for number, piece in enumerate(_APOSTROPHE.split(match[0])):
            if not number or piece.lower() not in _ENDINGS:
                words.append(_Word(piece, plain(piece), start, not words))
            start += len(piece) + 1
    return words


def _kind(content: int) -> Kind:
    if content <= 1:
        return "name"
    return "phrase" if content <= _PHRASE else "caption"


def _languages(words: Sequence[_Word], unknown: Sequence[_Word]) -> tuple[str, ...]:
    """The languages that agree best with the words; none unless they outweigh English ones."""
    distinct = {word.plain: word for word in words}.values()
    listed = [(word, languages_of(word.written.lower())) for word in distinct]
    if not any(owners for _, owners in listed):
        return ()
    hinted = [languages_of_letters(word.written.lower()) for word in unknown]
    begins = languages_of_article(words[0].written.lower())
    leads = dict.fromkeys(known_languages(), 0.0)
    for language in leads:
        mine = sum(word.foreignness for word, owners in listed if language in owners)
        mine += ARTICLE * (language in begins)
        mine += LETTER * sum(language in owners for owners in hinted)
        if mine >= 1:
            others = (word.englishness for word, owners in listed if language not in owners)
            leads[language] = mine - sum(others)
    best = max(leads.values())
    return tuple(name for name, lead in leads.items() if lead > best - 1e-6) if best > 0 else ()


def _is_noise(content: Sequence[_Word], unknown: Sequence[_Word]) -> bool:
    """Whether nothing in the query is a word, or looks like one."""
    codes = [word.plain for word in content if word.is_code]
    if len(codes) + len(unknown) < len(content):
        return False
    if any(_MODEL.fullmatch(code) for code in codes) or any(word.is_name for word in unknown):
        return False
    spelt = [word.plain for word in unknown if _is_spelt(word.plain)]
    return all(_is_implausible(word) for word in spelt)


def _is_spelt(word: str) -> bool:
    return word.isascii() and word.isalpha()


def _is_implausible(word: str) -> bool:
    words = dictionary()
    return words.plausibility(word) < IMPLAUSIBLE and not words.suggestions(word)


def _suggestions(word: _Word, vocabulary: Collection[str] | None) -> tuple[str, ...]:
    """Known words near it; none for a word of English that the model alone does not know."""
    spelt = word.plain
    if not _is_spelt(spelt) or (vocabulary is not None and word.is_known):
        return ()
    near = dictionary().suggestions(spelt)
    return near if vocabulary is None else tuple(one for one in near if one in vocabulary)


def _corrected(
    text: str, unknown: Sequence[_Word], listed: Sequence[UnknownWord]
) -> str | None:
    """The query with first suggestions in place; None where there is none."""
    corrected = text
    for word, about in reversed(list(zip(unknown, listed, strict=True))):
        if about.suggestions:
            better = about.suggestions[0]
            better = better.capitalize() if word.written[0].isupper() else better
            end = word.start + len(word.written)
            corrected = corrected[: word.start] + better + corrected[end:]
    return " ".join(corrected.split()) if corrected != text else None


def _unknown_message(
    odd: Sequence[_Word], listed: Sequence[UnknownWord], corrected: str | None
) -> str | None:
    if not odd:
        return None
    names = " or ".join(_quoted(word.written) for word in odd[:MOST_SUGGESTED])
    if all(word.is_known for word in odd):
        return f"This model never learnt {names}; say it in other words."
    if corrected is None:
        return f"I don't know {names}. Check the spelling or use another word."
    offers = {about.word: about.suggestions for about in listed}
    meant = offers[odd[0].written][0] if len(odd) == 1 else corrected
    return f"I don't know {names}. Did you mean {_quoted(meant)}?"


def _quoted(text: str) -> str:
    """Short enough for a sentence."""
    clean = " ".join(text.split())
    return f"'{clean if len(clean) <= 60 else clean[:59] + '…'}'"
