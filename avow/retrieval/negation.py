"""What a query asks to leave out: "a bathroom with no toilet" is a bathroom, without a toilet.

    words   a man    without        a shirt     riding a horse
            text     (connecting)   left out    text

An encoder of texts hardly reads "no": it looks for what stands behind it. What is left out ends
where a phrase of its own begins ("riding ...", "on ...", "and a ..."). Signs that say "no" stay
whole: "no parking sign".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from avow.retrieval.function_words import FUNCTION_WORDS

_MARKERS = frozenset(("without", "w/o", "minus", "no", "not"))
_SIGNS = frozenset(
    "parking smoking entry entrance exit trespassing stopping standing swimming diving fishing "
    "littering loitering vacancy outlet passing turn turns u-turn left right pets dumping "
    "skating skateboarding cycling hunting photography thoroughfare".split()
)
"""What signs forbid, in the words they have."""
_SIGN = frozenset(("sign", "signs", "symbol", "symbols", "sticker", "notice", "zone", "area"))
_NOT_LEFT_OUT = frozenset(
    "one longer matter doubt way idea problem more less other than man's hitter".split()
)
"""Words that "no" makes an expression with."""
_NOT_NEGATED = frozenset(
    "far very yet only so too quite much many all always just long even really fully as".split()
)
"""Words that "not" weakens, and leaves nothing out."""
_BEFORE = frozenset(
    "with but and or has have had having that which who where there is are was were does do "
    "contains containing shows showing wearing holding carrying it its in by while".split()
)
"""Words in front of "no" that connect it with what is there."""
_BEFORE_NO = frozenset(
    "with but has have had having is are was were contains showing wearing holding".split()
)
"""Words that make "no ... sign" a thing that is missing: "a street with no stop sign"."""
_ABLE = frozenset("can could will would may might do does did should must".split())
_VERBS = frozenset(
    "runs rides climbs walks jumps plays sits stands looks holds glides swims catches throws "
    "eats lies leans smiles watches poses skates surfs flies rests waits hangs sleeps leaps "
    "wears drives reads talks".split()
)
"""What somebody without something does: "a dog with no tail runs"."""
_BE = frozenset(("is", "are", "was", "were"))
_ARTICLES = frozenset("a an the any some his her their its".split())
_PREPOSITIONS = frozenset(
    "in on at near by next behind beside between through across along under over above below "
    "inside outside during against while with and but as that which who where is are was were "
    "from into onto around for to".split()
)
_EDGE = re.compile(r"^[^\w-]+|[^\w]+$")
MOST = 8
"""Things that one query can leave out; what follows is read as it stands."""


@dataclass(frozen=True)
class Split:
    """The words of a query that are looked for, and those that are left out."""

    text: str
    without: str | None = None
    nothing_left: str = ""
    """What is left out where a query says nothing else; then `text` is all of it."""


def split_negation(query: str) -> Split:
    """Take what is to be left out from a query; every word stays as it was written."""
    words = query.split()
    wanted: list[str] = []
    left_out: list[str] = []
    place = 0
    while place < len(words):
        end = _left_out(words, place) if len(left_out) < MOST else place
        if end == place:
            wanted.append(words[place])
            place += 1
            continue
        left_out.append(_object(words[place:end]))
        while wanted and _bare(wanted[-1]) in _BEFORE:
            wanted.pop()
        place = end + _is_particle(words, end)
    if not left_out:
        return Split(" ".join(words))
    while wanted and _bare(wanted[-1]) in FUNCTION_WORDS:
        wanted.pop()
    if not any(_is_content(word) for word in wanted):
        return Split(" ".join(words), nothing_left=", ".join(left_out))
    return Split(" ".join(wanted).rstrip(" ,;"), ", ".join(left_out))


def _left_out(words: Sequence[str], place: int) -> int:
    """Where what is left out ends, if it begins at this word; else the same place."""
    word = words[place].lower()
    if re.fullmatch(r"-[^\W\d_][\w'-]*[,.;]?", word):
        return place + 1
    if _bare(word) not in _MARKERS or place + 1 == len(words) or word.endswith((".", ":", "?")):
        return place
    following = [_bare(each) for each in words[place + 1 :]]
    before = _bare(words[place - 1]) if place else ""
    if _is_expression(_bare(word), before, following):
        return place
    end = place + 1 + _length(words[place + 1 :])
    if not before and end < len(words) and _bare(words[end]) in _BE:
        return place  # "no faces are shown": a sentence, of which nothing can be taken
    return end if any(_is_content(each) for each in words[place + 1 : end]) else place


def _is_expression(marker: str, before: str, following: Sequence[str]) -> bool:
    """Whether "no" or "not" belongs to a sign, a number or an expression."""
    first = following[0]
    if marker == "not":
        return first in _NOT_NEGATED or before in _ABLE
    if marker != "no":
        return before == "or" or first in _MARKERS or "doubt" in following[:2]
    if first in _NOT_LEFT_OUT or first in _SIGNS or first.isdigit():
        return True
    return before not in _BEFORE_NO and not _SIGN.isdisjoint(following[1:3])


def _length(words: Sequence[str]) -> int:
    """How many words belong to what is left out."""
    bare = [_bare(word) for word in words]
    begun = False
    for place, word in enumerate(bare):
        if begun and word in ("and", "or", "nor") and _goes_on(bare, place):
            continue
        stops = word in _PREPOSITIONS or word in _MARKERS or word in _VERBS
        if begun and (stops or _is_action(bare, place)):
            return place
        begun = begun or (_is_content(word) and not word.endswith("ing"))
        if words[place].endswith((",", ";")):
            return place + 1
    return len(words)


def _goes_on(bare: Sequence[str], place: int) -> bool:
    """Whether "and" or "or" joins another thing to leave out: "people and cars"."""
    if place + 1 == len(bare) or bare[place + 1] in _MARKERS:
        return False
    return bare[place] != "and" or (
        _ARTICLES.isdisjoint((bare[0], bare[place + 1]))
        and bare[place + 1] not in _PREPOSITIONS
        and not _is_action(bare, place + 1)
    )


def _is_action(bare: Sequence[str], place: int) -> bool:
    """A form in -ing that something follows: "riding a horse", but not "a building"."""
    word = bare[place]
    last = bare[place - 1] if place else ""
    return (
        word.endswith("ing")
        and len(word) > 5
        and place + 1 < len(bare)
        and last not in _ARTICLES
        and last not in ("and", "or")
    )


def _is_particle(words: Sequence[str], place: int) -> bool:
    """Whether this is the "on" of "with no shirt on", behind which nothing stands."""
    bare = [_bare(word) for word in words[place : place + 2]]
    if not bare or bare[0] != "on":
        return False
    return len(bare) == 1 or not bare[1] or bare[1] in _BE or bare[1].endswith("ing")


def _object(words: Sequence[str]) -> str:
    """What is left out, without the word that says so."""
    if words[0].startswith("-"):
        return _EDGE.sub("", words[0][1:])
    object_words = list(words[1:])
    while object_words and _bare(object_words[-1]) in FUNCTION_WORDS:
        object_words.pop()
    return _EDGE.sub("", " ".join(object_words))


def _bare(word: str) -> str:
    return _EDGE.sub("", word.lower()) if word.lower() != "w/o" else "w/o"


def _is_content(word: str) -> bool:
    bare = _bare(word)
    return any(letter.isalnum() for letter in bare) and bare not in FUNCTION_WORDS
