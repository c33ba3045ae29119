"""Words and letters that tell which language a text is in.

    "der Hund am Strand"   der, hund, am, strand     German

`languages.txt` lists for each language its words for "a", its function words (articles,
prepositions, pronouns, forms of "to be": a third of any text), the words people look for most
often in pictures, and letters that English lacks. The lists are the authors' own. Words that
English has too ("die", "in", "on") are listed as well: whoever asks weighs them against the
English words of the text.
"""

import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("languages.txt")
_NO_ACCENT = str.maketrans(
    {
        "ß": "ss",
        "\N{LATIN SMALL LETTER DOTLESS I}": "i",
        "ø": "o",
        "ł": "l",
        "æ": "ae",
        "œ": "oe",
    }
)
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def plain(word: str) -> str:
    """Without accents and in lower case: "niño" and "nino" are the same word."""
    if word.isascii():
        return word.lower()
    spread = unicodedata.normalize("NFKD", word.lower().translate(_NO_ACCENT))
    return "".join(letter for letter in spread if not unicodedata.combining(letter))


Owners = dict[str, frozenset[str]]
"""The languages that have a word or a letter."""


@dataclass(frozen=True)
class LanguageLists:
    """What `languages.txt` says: names of languages, and who has a word or letter."""

    names: dict[str, str]
    articles: Owners
    words: Owners
    letters: Owners


@cache
def languages_file() -> LanguageLists:
    """The lists that come with Avow."""
    names: dict[str, str] = {}
    tables: dict[str, dict[str, set[str]]] = {"article": {}, "words": {}, "letters": {}}
    language = ""
    for line in FILE.read_text("utf-8").splitlines():
        kind, _, rest = line.partition(" ")
        if kind.startswith("["):
            language = kind.strip("[]")
            names[language] = rest
            continue
        table = tables[kind if kind in tables else "words"]
        for word in rest.split():
            for form in {word} if kind == "letters" else _forms(word):
                table.setdefault(form, set()).add(language)
    frozen = [
        {key: frozenset(owners) for key, owners in table.items()} for table in tables.values()
    ]
    return LanguageLists(names, *frozen)


def _forms(word: str) -> set[str]:
    """As people type it: "über", "uber", "ueber"."""
    if word.isascii():
        return {word}
    return {word, plain(word), plain(word.translate(_UMLAUTS))}


def known_languages() -> tuple[str, ...]:
    """The listed languages, widely spoken ones first."""
    return tuple(languages_file().names)


def name_of(language: str) -> str:
    """ "German" for "de"."""
    return languages_file().names[language]


def languages_of(word: str) -> frozenset[str]:
    """The languages that list a lower-case word, as it is written or without its accents."""
    words = languages_file().words
    return words.get(word, frozenset()) | words.get(plain(word), frozenset())


def languages_of_article(word: str) -> frozenset[str]:
    """The languages in which the word is "a" or "an"."""
    return languages_file().articles.get(word, frozenset())


def languages_of_letters(word: str) -> frozenset[str]:
    """The languages that write with a letter of the word that English lacks."""
    table = languages_file().letters
    return frozenset().union(*(table.get(letter, ()) for letter in word))


def script_of(text: str) -> str | None:
    """The script of most letters, as Unicode names it ("cyrillic"); None for Latin ones."""
    if text.isascii():  # as most queries are: nothing to look up
        return None
    scripts = [unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha()]
    foreign = [script for script in scripts if script not in ("LATIN", "FULLWIDTH")]
    if 2 * len(foreign) <= len(scripts):
        return None
    return max(sorted(set(foreign)), key=foreign.count).lower()
