"""Words are cut where `nltk.word_tokenize` cuts them."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import opened_once

from avow.core.fingerprint import of_text
from avow.data.opening import data_home
from avow.data.words import by_rules, sentence_words, sentences, word_tokenize

FROZEN = json.loads(
    (Path(__file__).parent.parent / "frozen" / "word_tokenize.json").read_text("utf-8")
)

LONG = bool(os.environ.get("AVOW_LONG_TESTS"))
SIGNS = "ab1.,:;'\"`()[]<>?!*&-sdtnlme \n\u2013\u00e9\u2018\u2019\u201c\u201d\u00ab\u00bb"


def test_words_are_those_nltk_gave():
    given = {row["text"]: row["words"] for row in FROZEN}
    assert {text: word_tokenize(text) for text in given} == given


def test_frozen_rows_cover_the_rules():
    """Each rule leaves a mark that at least one frozen row must show."""
    words = {word for row in FROZEN for word in row["words"]}
    marks = {"``", "''", "...", "--", "'s", "n't", "'ve", "gon", "not", "tis", "st."}
    assert marks | {",", ":", ";", "?", "!", "(", "&", "#", "t.v", "u.s."} <= words


@settings(max_examples=500 if LONG else 150, deadline=None)
@given(st.text(alphabet=SIGNS, max_size=12))
def test_one_sentence_is_cut_as_nltk_cuts_it(text):
    nltk = pytest.importorskip("nltk.tokenize")
    assert sentence_words(text) == nltk.NLTKWordTokenizer().tokenize(text)


@given(st.text(alphabet="ab .?!\"')", max_size=20))
def test_sentences_lose_nothing_but_spaces(text):
    joined = "".join(sentences(text))
    assert joined.replace(" ", "") == text.replace(" ", "")


def test_sentences_end_at_a_stop_but_not_after_an_abbreviation():
    text = 'A bus on Main St. in the U.S. waits. It says "Go." Mr. Smith left. The end'
    assert list(sentences(text)) == [
        "A bus on Main St. in the U.S. waits.",
        'It says "Go."',
        "Mr. Smith left.",
        "The end",
    ]


def test_an_abbreviation_ends_a_sentence_before_a_word_that_opens_one():
    assert list(sentences("He lives on Main St. The bus waits.")) == [
        "He lives on Main St.",
        "The bus waits.",
    ]


def texts_of(name: str) -> list[str]:
    """All different captions of a dataset, lowercased."""
    home = data_home()
    if home is None or not (home / name).is_dir():
        pytest.skip(f"there is no {name} in the data home; set AVOW_DATA")
    splits = opened_once(name).splits.values()
    return sorted({text.lower() for split in splits for text in split.captions})


@pytest.mark.data
def test_captions_are_cut_as_nltk_cuts_them():
    """Those whose only full stop is the last: nltk needs no trained model for them.

    Every eighth; that all are cut so is what the next test asks.
    """
    nltk = pytest.importorskip("nltk.tokenize")
    texts = texts_of("flickr8k")[::8]
    plain = [t for t in texts if not set(".?!") & set(t.rstrip(" .").rstrip())]
    assert len(plain) > 4_500
    cut = nltk.NLTKWordTokenizer().tokenize
    assert [t for t in plain if word_tokenize(t) != cut(t)] == []


@settings(max_examples=500 if LONG else 150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["a", "st.", "T-shirt", "Gonna", "cannot", ".", "-", " ", "  ", "--", "!"]
        )
    ).map("".join)
)
def test_plain_captions_are_cut_as_the_rules_cut_them(text):
    assert word_tokenize(text) == by_rules(text)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "frozen"),
    [
        ("flickr8k", "cb275434d988c8a7"),
        pytest.param("coco", "1bb967e6779cf9be", marks=pytest.mark.long),
    ],
)
def test_every_caption_is_cut_as_nltk_cut_it(name, frozen):
    """Captions of several sentences, too: what nltk 3.10.4 and punkt_tab gave."""
    assert of_text(" ".join(word_tokenize(t)) for t in texts_of(name)) == frozen
