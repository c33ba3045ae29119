"""Words and letters that tell which language a text is in.

    "der Hund am Strand"   der, hund, am, strand     German

`languages.txt` lists for each language its function words (articles, prepositions, pronouns,
forms of "to be": a third of any text), the words people look for most often in pictures, and
letters that English lacks. The lists are the authors' own. Words that English has too ("die",
"in", "on") are listed as well: whoever asks weighs them against the English words of the text.
"""

import unicodedata
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


@cache
def _listed() -> tuple[dict[str, str], dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    names: dict[str, str] = {}
    words: dict[str, set[str]] = {}
    letters: dict[str, set[str]] = {}
    language = ""
    for line in FILE.read_text("utf-8").splitlines():
        kind, _, rest = line.partition(" ")
        if kind.startswith("["):
            language = kind.strip("[]")
            names[language] = rest
        elif kind == "letters":
            for letter in rest.split():
                letters.setdefault(letter, set()).add(language)
        else:
            for word in rest.split():
                for form in _forms(word):
                    words.setdefault(form, set()).add(language)
    return names, _frozen(words), _frozen(letters)


def _forms(word: str) -> set[str]:
    """As people type it: "über", "uber", "ueber"."""
    if word.isascii():
        return {word}
    return {word, plain(word), plain(word.translate(_UMLAUTS))}


def _frozen(table: dict[str, set[str]]) -> dict[str, frozenset[str]]:
    return {key: frozenset(languages) for key, languages in table.items()}


def known_languages() -> tuple[str, ...]:
    """The listed languages, widely spoken ones first."""
    return tuple(_listed()[0])


def name_of(language: str) -> str:
    """ "German" for "de"."""
    return _listed()[0][language]


def languages_of(word: str) -> frozenset[str]:
    """The languages that list a lower-case word, as it is written or without its accents."""
    return _listed()[1].get(word, frozenset()) | _listed()[1].get(plain(word), frozenset())


def languages_of_letters(word: str) -> frozenset[str]:
    """The languages that write with a letter of the word that English lacks."""
    table = _listed()[2]
    return frozenset().union(*(table.get(letter, ()) for letter in word))


def script_of(text: str) -> str | None:
    """The script of most letters, as Unicode names it ("cyrillic"); None for Latin ones."""
    scripts = [unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha()]
    others = [script for script in scripts if script not in ("LATIN", "FULLWIDTH")]
    if 2 * len(others) <= len(scripts):
        return None
    return max(sorted(set(others)), key=others.count).lower()
