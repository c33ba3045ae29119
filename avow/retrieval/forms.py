"""Forms of one question: "dog", "Dogs!", "show me photos of a dog" all ask for "a dog".

People type a name in many forms and mean the same; a model gives each another vector, and trust
another verdict. So a name is asked for in one form, with its article, in which trust was fitted
as well. Whatever is more than a name is asked for as it stands.
"""

import re
from collections.abc import Sequence

import numpy as np

from avow.core.shapes import Int64
from avow.retrieval.function_words import FUNCTION_WORDS
from avow.retrieval.spelling import dictionary

_WISH = re.compile(
    r"^(?:please\s+)?(?:(?:show|give|get|find)\s+(?:me|us)|find|(?:search|look(?:ing)?)\s+for|"
    r"i(?:'m| am) looking for|i want(?: to see)?)\s+",
    re.IGNORECASE,
)
_PICTURE = re.compile(
    r"^(?:(?:(?:an?|the|some|my|all|any|every)\s+)*"
    r"(?:photo|picture|image|photograph|pic|shot)s?\s+(?:of|with|showing|that shows?)\s+)+",
    re.IGNORECASE,
)
_MARKS = " \t.,;:!?\"'`\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
_ARTICLE = re.compile(r"^(?:an?|the|some|any)\s+", re.IGNORECASE)
_ARTICLES = frozenset({"a", "an", "the"})
_NAME = re.compile(r"[a-z]+(?: [a-z]+)?")
_IRREGULAR = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "feet": "foot",
    "teeth": "tooth",
    "geese": "goose",
    "mice": "mouse",
    "knives": "knife",
    "wolves": "wolf",
    "leaves": "leaf",
    "calves": "calf",
    "halves": "half",
    "loaves": "loaf",
    "scarves": "scarf",
    "shelves": "shelf",
}
_ALWAYS_S = frozenset(
    "glasses sunglasses scissors pants jeans shorts trousers skis stairs tennis grass bus "
    "dress glass cross news species series gymnastics binoculars goggles chess lens clothes "
    "eyeglasses leggings tongs aerobics woods vegas".split()
)


def one_form(text: str) -> str:
    """A name with its article; any other text without "show me" and "photo of"."""
    asked = _WISH.sub("", text).strip() or text
    rest = _PICTURE.sub("", asked).strip() or asked
    name = _ARTICLE.sub("", rest.strip(_MARKS)).lower().strip()
    if not _NAME.fullmatch(name) or any(word in FUNCTION_WORDS for word in name.split()):
        return rest
    *before, last = name.split()
    asked = " ".join((*before, singular(last)))
    return f"{'an' if asked[0] in 'aeiou' else 'a'} {asked}"


def singular(noun: str) -> str:
    """The singular of a plural whose singular is listed; any other word as it is."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if (
        len(noun) > 5
        and noun.endswith("men")
        and dictionary().rank(f"{noun[:-3]}man") is not None
    ):
        return f"{noun[:-3]}man"  # "fishermen"
    if noun in _ALWAYS_S or not noun.endswith("s") or noun.endswith("ss"):
        return noun
    forms = [noun[:-3] + "y"] if noun.endswith("ies") else []
    forms += [noun[:-1]]
    forms += [noun[:-2]] if noun.endswith(("shes", "ches", "xes", "ses", "oes")) else []
    ranks = {form: dictionary().rank(form) for form in forms if len(form) > 2}
    listed = {form: rank for form, rank in ranks.items() if rank is not None}
    # "hearses" gives "hearse" and "hears", which reads like a plural and is commoner
    forms = [form for form in listed if singular(form) == form] or list(listed)
    best = min(forms, key=lambda form: listed[form], default=noun)
    return _IRREGULAR.get(best, best)


def count_words(texts: Sequence[str]) -> Int64[np.ndarray, " texts"]:
    """How many words each text has without its articles: "a dog" has one, "brown dog" two.

    What is asked for by one word many pictures show, and trust reads that from this number.
    """
    every = [text.lower().split() for text in texts]
    without = [sum(word not in _ARTICLES for word in words) for words in every]
    return np.array(
        [count or min(1, len(words)) for count, words in zip(without, every, strict=True)],
        np.int64,
    )
