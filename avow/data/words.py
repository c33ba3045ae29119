"""Captions to words, as `nltk.word_tokenize` cuts them, without nltk or its data.

The published vocabularies were made with that function, so a word cut in another place
is a word the network has never seen. It works in two steps, and so does this file:

    text --sentences--> sentences --Penn Treebank rules--> words

Only a sentence's last full stop becomes a word of its own, so whether "st." ends a
sentence decides whether its full stop stays attached. nltk asks a trained model (Punkt,
Kiss and Strunk 2006); `ends_sentence` is that model's decision with its abbreviations,
and with a short list of words in place of its table of how words are capitalised.
"""

import re
from collections.abc import Iterator

Rule = tuple[re.Pattern[str], str]

# --- sentences ----------------------------------------------------------------------

_CURLY = r"\u2018\u2019\u201c\u201d\u00ab\u00bb"
_CANDIDATE = re.compile(rf"""[.?!](?=[)";}}\]*:@'({{\[!?{_CURLY}]|\s+(?P<next>\S+))""")
_CLOSING = re.compile(rf"""["')\]}}{_CURLY}]+?(?:\s+|(?=--)|$)""")
_LAST_WORD = re.compile(r"""[^\s)";}\]*:@({\[!?&#,`-][^\s)";}\]*:@({\[!?]*\.$""")
_LETTERS = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*\.")

_ABBREVIATIONS = frozenset(
    " ".join(
        [
            # people and ranks
            "mr mrs ms messrs dr prof jr sr sen rep reps gen col maj lt adm",
            # companies, measures, addresses
            "co cos corp inc ltd bros cie ft mg yr vs ct st ave ok sw chg",
            # months and days
            "jan feb aug sep sept oct nov dec tues wed fri",
            # states of the United States
            "ala ariz calif colo conn fla ga ill kan ky mich minn nev okla ore pa tenn",
            "va vt wash wis w.va n.c n.d n.h n.j n.m n.v n.y r.i s.c",
            # countries, cities, times, titles
            "u.k u.n u.s u.s.a u.s.s.r d.c l.a a.d a.m p.m ph.d m.b.a",
            # letters and initials of names
            "c d e f g h k l m n p r s t v w",
            "a.a a.c a.g a.h a.s a.t b.f b.v c.v d.h d.w e.f e.h e.l e.m f.g f.j g.d",
            "g.f g.k h.c h.f h.m j.b j.c j.j j.k j.p j.r l.f l.p m.j r.a r.h r.j r.k",
            "r.t s.a s.g s.s t.j w.c w.r w.w",
        ]
    ).split()
)

_OPENERS = frozenset(
    "a an the this that these those there here it its he she his her they their we "
    "you one two three several some many another both each all no not in on at from "
    "with under over near behind while as when where what who how if but so "
    "also is are was people man men woman women child children boy girl".split()
)


def sentences(text: str) -> Iterator[str]:
    """Cut `text` where a sentence ends; closing quotes stay with what they close."""
    start = 0
    for mark in _CANDIDATE.finditer(text):
        if mark.end() <= start or not _breaks(text, start, mark):
            continue
        end = after = mark.end()
        if mark["next"] is not None:
            after = mark.start("next")
        closing = _CLOSING.match(text, after)
        if closing:
            end, after = after + len(closing[0].rstrip()), closing.end()
        yield text[start:end]
        start = after
    if text[start:].rstrip():
        yield text[start:].rstrip()


def ends_sentence(word: str, following: str) -> bool:
    """Whether the full stop that ends `word` also ends a sentence.

    After an abbreviation it does only before a capitalised word that commonly opens
    sentences. Initials and numbers are judged by what follows them; any other word
    ends one always.
    """
    stem, first = word[:-1].lower(), following[:1]
    initial = len(stem) == 1 and stem.isalpha()
    if stem.rpartition("-")[2] in _ABBREVIATIONS or (initial and first.isupper()):
        return first.isupper() and _opening_word(following) in _OPENERS
    if initial or _NUMBER.fullmatch(word):
        return not (first.islower() or following == "." or first in set(",;:!?"))
    return True


def _opening_word(text: str) -> str:
    letters = _LETTERS.match(text)
    return letters[0].lower() if letters else ""


def _breaks(text: str, start: int, mark: re.Match[str]) -> bool:
    """Whether the sentence that begins at `start` ends at `mark`."""
    word = _LAST_WORD.search(text[start : mark.end()])
    if mark[0] != "." or word is None:
        return True
    if word[0].endswith(".."):
        return False  # an ellipsis is a word of its own with or without a sentence
    following = mark["next"] or text[mark.end()]
    # the model reads the following word too, and a break inside that one counts here
    within = (_breaks(following, 0, inner) for inner in _CANDIDATE.finditer(following))
    return ends_sentence(word[0], following) or any(within)


# --- words of one sentence ------------------------------------------------------------


def _rule(pattern: str, becomes: str) -> Rule:
    return re.compile(pattern), becomes


_ALONE = r" \g<0> "

_RULES: list[Rule] = [
    # opening quotes; a double quote opens at the start, after a space or a bracket
    _rule(r"``|[`\u00ab\u201c\u2018\u201e]", _ALONE),
    _rule(r'^"', " `` "),
    _rule(r"""(?<=[ (\[{<])(?:"|'')""", " `` "),
    _rule(r"(?i)(?<!\w)'(?=\w)(?!(?:re|ve|ll|m|t|s|d|n)\b)", "' "),
    # the last full stop, though closing marks may follow it
    _rule(r"""(?<=[^.])\.(?=[\])}>"'\u00bb\u201d\u2019 ]*\s*$)""", _ALONE),
    # commas and colons, but not those inside numbers
    _rule(r"([,:])(\D)", r" \1 \2"),
    _rule(r"[,:]$", _ALONE),
    # what is always a word of its own; an apostrophe before a space is one, too
    _rule(r"\.{2,}|[;@#$%&?!\u2012-\u2015]", _ALONE),
    _rule(r"(?<=[^'])'(?= )", " '"),
    _rule(r"--|[]\[(){}<>*]", _ALONE),
    # closing quotes: all the double quotes that are left
    _rule(r"[\u00bb\u201d\u2019]", _ALONE),
    _rule(r"""''|["]""", " '' "),
    _rule(r"^|\s+|$", " "),
    # clitics, which keep their apostrophe
    _rule(r"(?<=[^' ])'[sSmMdD]?(?= )", _ALONE),
    _rule(r"(?<=[^' ])(?:'(?:ll|LL|re|RE|ve|VE)|n't|N'T)(?= )", _ALONE),
    *[
        _rule(rf"(?i)\b({head})({tail})\b", r" \1 \2 ")
        for head, tail in [
            ("can", "not"),
            ("d", "'ye"),
            ("gim", "me"),
            ("gon", "na"),
            ("got", "ta"),
            ("lem", "me"),
            ("more", "'n"),
        ]
    ],
    _rule(r"(?i)\b(wan)(na)(?=\s)", r" \1 \2 "),
]


def sentence_words(sentence: str) -> list[str]:
    """The words of one sentence, by the rules of the Penn Treebank."""
    for pattern, becomes in _RULES:
        sentence = pattern.sub(becomes, sentence)
    return sentence.split()


_PLAIN = re.compile(
    r"(?!.*(?i:cannot|gimme|gonna|gotta|lemme|wanna))"
    r"[A-Za-z][A-Za-z ]*(?:-[A-Za-z ]+)*(?:\. *)?"
)
"""Letters, single hyphens and a last full stop: no rule cuts anything but that one."""


def word_tokenize(text: str) -> list[str]:
    """The words of a caption, in order; punctuation marks are words too."""
    if not _PLAIN.fullmatch(text):
        return by_rules(text)
    return text.replace(".", " .").split()


def by_rules(text: str) -> list[str]:
    """The same, sentence by sentence and rule by rule."""
    return [word for part in sentences(text) for word in sentence_words(part)]
