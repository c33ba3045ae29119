"""Queries with many right answers: object names, phrases cut from captions, captions.

    objects per photograph  --names-->    "dog", "a dog"        the photographs that hold one
    captions per photograph --phrases-->  "man riding a wave"   a caption of theirs says it all

People do not search with captions. A short query is true of many photographs, so its event
is *relevant*, not *right*, and the two are never mixed. Relevance read from annotations is a
lower bound: what nobody wrote down of a photograph may still be there.

Nouns are those of `avow.data.nouns`; object names are nouns anyway. Everything is counted
and sorted: the same captions give the same queries.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from avow.assembly.pairs import FeaturedSplit
from avow.core.contracts import Split
from avow.core.errors import BadData
from avow.data.gather import read_json, strings_of
from avow.data.nouns import (
    FUNCTION,
    OFTEN,
    PLACES,
    is_content,
    noun_like,
    stem,
    with_article,
)
from avow.data.opening import dataset_file
from avow.data.words import word_tokenize

OBJECTS = "objects_dev.json"
LENGTHS = (2, 3, 4)


@dataclass(frozen=True)
class QuerySet:
    """Queries of one style, and which photographs each is true of."""

    style: str
    queries: tuple[str, ...]
    match: Bool[np.ndarray, "queries images"]

    @classmethod
    def of(
        cls, style: str, queries: Sequence[str], match: Bool[np.ndarray, "queries images"]
    ) -> "QuerySet":
        """Queries that are true of no photograph are left out."""
        chosen = np.flatnonzero(match.any(1)).tolist()
        return cls(style, tuple(queries[place] for place in chosen), match[chosen])


def query_sets(
    split: Split | FeaturedSplit,
    objects: Mapping[str, Iterable[str]] | None = None,
    *,
    at_least: int = 3,
    most: int | None = None,
) -> tuple[QuerySet, ...]:
    """Captions, object names plain and with an article, and phrases, over a split's images.

    objects: what each photograph holds, by its id; those of COCO's dev split where none are
    given. at_least, most: see `phrases`.
    """
    held = read_objects(dataset_file("coco", OBJECTS)) if objects is None else objects
    names = {name for listed in held.values() for name in listed}
    return (
        whole_captions(split),
        *object_names(split, held),
        phrases(split, names, at_least=at_least, most=most),
    )


def whole_captions(split: Split | FeaturedSplit) -> QuerySet:
    """Every caption as a query.

    Relevant are its own photograph and those whose captions together say all its content
    words, singular or plural.
    """
    caption_words = [
        {stem(word) for word in _content(word_tokenize(caption.lower()))}
        for caption in split.captions
    ]
    spoken: list[set[str]] = [set() for _ in split.image_ids]
    for words, image in zip(caption_words, split.image_of.tolist(), strict=True):
        spoken[image] |= words
    number = {word: place for place, word in enumerate(sorted(set().union(*caption_words)))}
    asks = _incidence(caption_words, number)
    match = asks @ _incidence(spoken, number).T >= np.maximum(asks.sum(1, keepdims=True), 1)
    match[np.arange(len(caption_words)), split.image_of] = True
    return QuerySet.of("caption", split.captions, match)


def read_objects(path: Path) -> dict[str, tuple[str, ...]]:
    """A file {"image.jpg": ["dog", ...], ...}: what each photograph holds."""
    content = read_json(path)
    return {image: strings_of(content, image, path) for image in content}


def object_names(
    split: Split | FeaturedSplit, objects: Mapping[str, Iterable[str]]
) -> tuple[QuerySet, QuerySet]:
    """Every object name as a query: "dog", and "a dog".

    A photograph that `objects` does not list holds none of them.
    """
    place = {image: number for number, image in enumerate(split.image_ids)}
    names = sorted({name for listed in objects.values() for name in listed})
    row = {name: number for number, name in enumerate(names)}
    match = np.zeros((len(names), len(place)), bool)
    for image, listed in objects.items():
        if image in place:
            match[[row[name] for name in listed], place[image]] = True
    if not match.any():
        raise BadData(
            f"None of the {len(objects)} images with objects is in the split, which has "
            f"{len(place)} images. Expected objects of the same images. Check which split "
            "they are of."
        )
    return (
        QuerySet.of("object name", names, match),
        QuerySet.of("a and object name", [with_article(name) for name in names], match),
    )


def noun_names(
    split: Split | FeaturedSplit,
    *,
    at_least: int = 5,
    agreed: float = 1.5,
    most: int | None = None,
    often: int = OFTEN,
) -> QuerySet:
    """The nouns of the captions as queries: "a dog"; true of photographs whose captions say it.

    at_least: photographs that it is true of. agreed: how many captions of such a photograph
    say it on average; what only one of five mentions ("air", "hand") is in many photographs
    whose captions do not say so. most: the most frequent are kept. often: times that a word is
    said before it is called a noun.
    """
    captions = [word_tokenize(caption.lower()) for caption in split.captions]
    nouns = sorted(noun for noun in noun_like(captions, often) if noun == stem(noun))
    number = {noun: place for place, noun in enumerate(nouns)}
    spoken = [{stem(word) for word in words} & number.keys() for words in captions]
    mentions = _incidence(spoken, number)
    times = np.zeros((len(split.image_ids), len(nouns)), np.float32)
    np.add.at(times, split.image_of, mentions)
    match = times.T > 0
    count = match.sum(1)
    common = (count >= at_least) & (times.sum(0) >= agreed * np.maximum(count, 1))
    chosen = np.flatnonzero(common)[np.argsort(-count[common], kind="stable")][:most]
    return QuerySet.of("name", [with_article(nouns[place]) for place in chosen], match[chosen])


def phrases(
    split: Split | FeaturedSplit,
    names: Iterable[str] = (),
    *,
    at_least: int = 3,
    most: int | None = None,
) -> QuerySet:
    """Two to four words of captions that begin with a content word and end in a noun.

    They stand so in captions of `at_least` this many photographs; the `most` frequent are
    kept, one for each set of content words. True of every photograph with a caption that
    has all of these, in any order, singular or plural.
    """
    captions = [word_tokenize(caption.lower()) for caption in split.captions]
    nouns = noun_like(captions) | {name.split()[-1] for name in names}
    images_of: dict[str, set[int]] = {}
    for words, image in zip(captions, split.image_of.tolist(), strict=True):
        for phrase in _cut(words, nouns):
            images_of.setdefault(phrase, set()).add(image)
    counts = {phrase: len(images) for phrase, images in images_of.items()}
    ordered = sorted(
        (phrase for phrase, count in counts.items() if count >= at_least),
        key=lambda phrase: (-counts[phrase], phrase),
    )
    first: dict[frozenset[str], str] = {}
    for phrase in ordered:
        first.setdefault(frozenset(map(stem, _content(phrase.split()))), phrase)
    wanted = list(first)[:most]
    return QuerySet.of(
        "phrase", [first[words] for words in wanted], _said(split, captions, wanted)
    )


def absent_names(names: Sequence[str], captions: Sequence[str]) -> list[str]:
    """The names none of whose words any caption has: what they mean is hardly there."""
    there = {stem(word) for text in captions for word in word_tokenize(text.lower())}
    there -= FUNCTION
    return [
        name
        for name in names
        if there.isdisjoint(stem(word) for word in word_tokenize(name.lower()))
    ]


def _cut(words: Sequence[str], nouns: set[str]) -> set[str]:
    """All phrases of one caption; none ends inside a longer name or holds a mark."""
    return {
        " ".join(part)
        for length in LENGTHS
        for start in range(len(words) - length + 1)
        for part in [words[start : start + length]]
        if part[-1] in nouns
        and nouns.isdisjoint(words[start + length : start + length + 1])
        and is_content(part[0])
        and all(map(str.isalpha, part))
        and PLACES.isdisjoint(part)
    }


def _said(
    split: Split | FeaturedSplit,
    captions: Sequence[Sequence[str]],
    wanted: Sequence[frozenset[str]],
) -> Bool[np.ndarray, "phrases images"]:
    """Of which photographs some caption has all the wanted words."""
    number = {word: place for place, word in enumerate(sorted(set().union(*wanted)))}
    spoken = [{stem(word) for word in words} & number.keys() for words in captions]
    asks = _incidence(wanted, number)
    whole = asks @ _incidence(spoken, number).T >= asks.sum(1, keepdims=True)
    phrase, caption = np.nonzero(whole)
    match = np.zeros((len(wanted), len(split.image_ids)), bool)
    match[phrase, split.image_of[caption]] = True
    return match


def _incidence(
    rows: Sequence[Iterable[str]], number: Mapping[str, int]
) -> Float[np.ndarray, "rows words"]:
    """1 where the row has the word."""
    listed = [[number[word] for word in row] for row in rows]
    owner = np.repeat(np.arange(len(listed)), [len(row) for row in listed])
    table = np.zeros((len(listed), len(number)), np.float32)
    table[owner, [place for row in listed for place in row]] = 1
    return table


def _content(words: Iterable[str]) -> list[str]:
    return [word for word in words if is_content(word)]


def content_stems(words: Iterable[str]) -> set[str]:
    """The content words of a text, singular and plural as one."""
    return {stem(word) for word in words if is_content(word)}
