"""Does a search know which queries it does not understand?

    python -m benchmarks.quality.understanding [--split dev|test]

Makes queries that are not understood, and asks `avow.retrieval.understanding` about them and
about good ones:

    typing errors   two letters swapped, one dropped, doubled or replaced, in one content word
                    of five or more letters of object names, ImageNet's names, phrases and
                    captions; those that give a word of the vocabulary are counted apart
    other languages things, places and colours in six languages (understanding_words.json);
                    for test, queries in seven languages that were written after all cut-offs
    nonsense        random letters, keyboard mash, digits
    good            captions, phrases, names plain, with an article, as plural, as "photo of"
    a run           the same of a model that learnt the words of a dataset's train captions
                    and no others: its own captions and phrases, typing errors in them, and
                    names of things with a word that it never learnt

Prints the share told apart of each kind, the share of good queries called not understood, and
how often the first suggestion is the word that was meant. The cut-offs were chosen on dev of
Flickr8k; the test split was read once, at the end. A typing error in a caption is a hint, no
refusal, so its row counts errors that are reported. Names of things are words of the vocabulary
by construction.
"""

import argparse
import json
import string
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from avow.blocks.imagenet_names import imagenet_names
from avow.data.opening import dataset_file, open_dataset
from avow.data.vocabulary import Vocabulary
from avow.retrieval.function_words import FUNCTION_WORDS
from avow.retrieval.languages import languages_file, languages_of
from avow.retrieval.spelling import dictionary, mostly_english
from avow.retrieval.understanding import understand
from avow.study.short_queries import OBJECTS, phrases, read_objects, with_article
from benchmarks._report import RESULTS, keep, read

LANGUAGES = Path(__file__).with_name("understanding_words.json")
DATASETS = ("flickr8k", "coco")
MOST = 400
"""Queries of one kind that typing errors are made in."""
KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
Draw = np.random.Generator
Words = frozenset[str] | None
"""All that a model learnt, where it reads no other words."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    split = parser.parse_args().split
    good = good_queries(split)
    rows = {
        "good": {kind: good_row(queries) for kind, queries in good.items()},
        "typing errors": error_rows(good),
        "other languages": language_rows(split),
        "nonsense": nonsense_rows(),
        "a run": {dataset: run_row(dataset, good) for dataset in DATASETS},
        "time": times(good),
    }
    show(rows)
    kept = read("understanding") if (RESULTS / "understanding.json").is_file() else {}
    kept = {part: kept[part] for part in ("dev", "test") if part in kept}
    print(f"-> {keep('understanding', kept | {split: rows})}")


# --- good queries ---------------------------------------------------------------------


def good_queries(split: str) -> dict[str, list[str]]:
    """By kind; names are the same for dev and test."""
    objects = read_objects(dataset_file("coco", OBJECTS))
    names = sorted({name for listed in objects.values() for name in listed})
    queries: dict[str, list[str]] = {}
    for dataset in DATASETS:
        part = open_dataset(dataset).splits[split]
        queries[f"captions of {dataset}"] = list(dict.fromkeys(part.captions))
        queries[f"phrases of {dataset}"] = list(phrases(part, names).queries)
    queries["object names"] = ways_to_name(names)
    queries["ImageNet's names"] = ways_to_name(imagenet_names())
    return queries


def ways_to_name(names: Iterable[str]) -> list[str]:
    return [
        query
        for name in names
        for query in (name, with_article(name), plural(name), f"photo of {with_article(name)}")
    ]


def plural(name: str) -> str:
    if name.endswith(("s", "x", "z", "ch", "sh")):
        return f"{name}es"
    return f"{name[:-1]}ies" if name[-1] == "y" and name[-2] not in "aeiou" else f"{name}s"


def good_row(queries: Sequence[str], vocabulary: Words = None) -> dict[str, Any]:
    answers = [understand(query, vocabulary) for query in queries]
    wrong = [answer for answer in answers if answer.problem]
    unknown = [about.word for answer in wrong for about in answer.unknown]
    return {
        "queries": len(queries),
        "not_understood": len(wrong) / len(queries),
        "unknown": unknown[:: max(1, len(unknown) // 20)][:20],
    }


# --- typing errors --------------------------------------------------------------------


def swapped(word: str, draw: Draw) -> str:
    places = [place for place in range(len(word) - 1) if word[place] != word[place + 1]]
    place = int(draw.choice(places))
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def dropped(word: str, draw: Draw) -> str:
    place = int(draw.integers(len(word)))
    return word[:place] + word[place + 1 :]


def doubled(word: str, draw: Draw) -> str:
    place = int(draw.integers(len(word)))
    return word[:place] + word[place] + word[place:]


def replaced(word: str, draw: Draw) -> str:
    place = int(draw.integers(len(word)))
    letter = draw.choice([one for one in string.ascii_lowercase if one != word[place]])
    return word[:place] + str(letter) + word[place + 1 :]


ERRORS: dict[str, Callable[[str, Draw], str]] = {
    "swap": swapped,
    "drop": dropped,
    "double": doubled,
    "wrong letter": replaced,
}


def error_rows(good: dict[str, list[str]]) -> dict[str, Any]:
    """For every source of queries and every kind of error."""
    return {
        f"{kind} in {source}": error_row(queries, change, "captions" in source)
        for source, queries in good.items()
        for kind, change in ERRORS.items()
    }


def error_row(
    queries: Sequence[str],
    change: Callable[[str, Draw], str],
    is_caption: bool,
    vocabulary: Words = None,
) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    chosen: list[int] = draw.permutation(len(queries))[:MOST].tolist()
    told, first, missed, unseen = [], [], [], 0
    for query in (queries[place] for place in chosen):
        word, wrong = one_error(query, change, draw)
        if not wrong:
            continue
        if dictionary().rank(wrong) is not None:
            unseen += 1
            continue
        typed = query.lower().replace(word, wrong, 1)
        answer = understand(typed, vocabulary)
        offers = {about.word: about.suggestions for about in answer.unknown}
        told.append(wrong in offers if is_caption else answer.problem is not None)
        first.append(offers.get(wrong, ())[:1] == (word,))
        if not told[-1]:
            missed.append(wrong)
    return {
        "queries": len(told),
        "told_apart": float(np.mean(told)),
        "first_suggestion_right": float(np.mean(first)),
        "gave_a_known_word": unseen / (unseen + len(told)),
        "missed": missed[:10],
    }


def one_error(
    query: str, change: Callable[[str, Draw], str], draw: Draw
) -> tuple[str, str | None]:
    """A word of the query, and the same with an error; None where no word is long enough."""
    words = [
        word
        for word in query.lower().split()
        if len(word) >= 5
        and word.isascii()
        and word.isalpha()
        and word not in FUNCTION_WORDS
        and dictionary().rank(word) is not None
    ]
    if not words:
        return "", None
    word = str(draw.choice(words))
    return word, change(word, draw)


# --- other languages and nonsense -----------------------------------------------------


def language_rows(split: str) -> dict[str, Any]:
    table = json.loads(LANGUAGES.read_text("utf-8"))[split]
    if split == "dev":
        return {
            language: language_row(language, asked(lists)) for language, lists in table.items()
        }
    return {language: language_row(language, {"any": some}) for language, some in table.items()}


def asked(lists: dict[str, list[str]]) -> dict[str, list[str]]:
    """Queries of four kinds from the things, places and colours of one language."""
    things, places = lists["things"], lists["places"]
    return {
        "one word": [thing.split(" ", 1)[1] for thing in things],
        "with article": things,
        "with place": [
            f"{thing} {places[number % len(places)]}" for number, thing in enumerate(things)
        ],
        "coloured": lists["coloured"],
    }


def language_row(language: str, queries: dict[str, list[str]]) -> dict[str, Any]:
    every = [query for some in queries.values() for query in some]
    unlisted = [
        query
        for query in every
        if not any(languages_of(word.lower()) for word in query.split())
    ]
    answers = {query: understand(query) for query in every}
    return {
        "queries": len(every),
        **{f"told_apart {kind}": told(some) for kind, some in queries.items()},
        "told_apart": told(every),
        "told_apart_without_a_listed_word": told(unlisted),
        "named_right": float(np.mean([answers[query].language == language for query in every])),
        "missed": [query for query in every if not answers[query].problem][:10],
    }


def told(queries: Sequence[str], vocabulary: Words = None) -> float:
    answers = [understand(query, vocabulary) for query in queries]
    return float(np.mean([answer.problem is not None for answer in answers]))


def nonsense_rows() -> dict[str, Any]:
    draw = np.random.default_rng(0)
    made = {
        "random letters": [letters(string.ascii_lowercase, draw) for _ in range(100)],
        "two or three random words": [
            " ".join(letters(string.ascii_lowercase, draw) for _ in range(draw.integers(2, 4)))
            for _ in range(100)
        ],
        "keyboard mash": [letters(KEYBOARD[number % 3], draw) for number in range(100)],
        "letters and digits": [
            letters(string.ascii_lowercase + string.digits * 3, draw, 6) for _ in range(100)
        ],
        "digits": [str(draw.integers(10 ** draw.integers(1, 9))) for _ in range(100)],
    }
    return {
        kind: {
            "queries": len(queries),
            "told_apart": told(queries),
            "missed": [query for query in queries if not understand(query).problem][:10],
        }
        for kind, queries in made.items()
    }


def letters(alphabet: str, draw: Draw, shortest: int = 4) -> str:
    return "".join(draw.choice(list(alphabet), draw.integers(shortest, 11)))


# --- a model with words of its own ------------------------------------------------------


def run_row(dataset: str, good: dict[str, list[str]]) -> dict[str, Any]:
    """What is understood for a run trained on one dataset, whose words are its vocabulary."""
    captions = open_dataset(dataset).splits["train"].captions
    words = frozenset(Vocabulary.from_captions(captions).own_words())
    own = {kind: good[f"{kind} of {dataset}"] for kind in ("captions", "phrases")}
    names = [name for name in good["object names"] if not name.startswith("photo of")]
    unlearnt = [name for name in names if is_unlearnt(name, words)]
    return {
        "vocabulary": len(words),
        "reads_english": mostly_english(words),
        "good": {kind: good_row(queries, words) for kind, queries in own.items()},
        "typing errors": {
            f"{error} in {kind}": error_row(queries, change, kind == "captions", words)
            for kind, queries in own.items()
            for error, change in ERRORS.items()
        },
        "names with a word it never learnt": {
            "queries": len(unlearnt),
            "told_apart": told(unlearnt, words),
        },
    }


def is_unlearnt(name: str, words: frozenset[str]) -> bool:
    parts = [part for part in name.lower().replace("-", " ").split() if len(part) >= 3]
    return any(part not in words and part not in FUNCTION_WORDS for part in parts)


# --- time and print -------------------------------------------------------------------


def times(good: dict[str, list[str]]) -> dict[str, float]:
    """Milliseconds of the first query, which loads words, and of others; medians."""
    typed = "a red bycicle"
    return {
        "first query": median_time([typed] * 10, forget=True),
        "caption": median_time(good["captions of flickr8k"][:300]),
        "typing error of one change": median_time(["a red bicycel"] * 50),
        "typing error of two changes": median_time([typed] * 50),
    }


def median_time(queries: Sequence[str], forget: bool = False) -> float:
    taken = []
    for query in queries:
        if forget:
            dictionary.cache_clear()
            languages_file.cache_clear()
        start = time.perf_counter()
        understand(query)
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)) * 1e3


def show(rows: dict[str, Any]) -> None:
    for kind, row in rows["good"].items():
        print(
            f"good: {kind:<24} {row['queries']:>6}  not understood {row['not_understood']:.2%}"
        )
    for part in ("typing errors", "other languages", "nonsense"):
        for kind, row in rows[part].items():
            first = row.get("first_suggestion_right", row.get("named_right"))
            more = "" if first is None else f", suggestion or language right {first:.1%}"
            print(f"{part}: {kind:<40} {row['queries']:>4}  told {row['told_apart']:.1%}{more}")
        total = sum(row["queries"] for row in rows[part].values())
        share = sum(row["queries"] * row["told_apart"] for row in rows[part].values()) / total
        print(f"{part}: all {total} told apart {share:.1%}")
    for dataset, row in rows["a run"].items():
        flagged = {kind: f"{one['not_understood']:.2%}" for kind, one in row["good"].items()}
        errors = [one["told_apart"] for one in row["typing errors"].values()]
        never = row["names with a word it never learnt"]
        print(
            f"a run on {dataset}: {row['vocabulary']} words; not understood {flagged}; typing "
            f"errors told {np.mean(errors):.1%}; never learnt {never['queries']}, told "
            f"{never['told_apart']:.1%}"
        )
    print(f"milliseconds: {rows['time']}")


if __name__ == "__main__":
    main()
