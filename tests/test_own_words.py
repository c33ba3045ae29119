"""A run knows the words it was trained with, and says so of what else is asked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_samples import save_pictures, save_two_towers, toy_model

from avow.core.searching import Encoder
from avow.data.vocabulary import MARKS, MASK, Vocabulary
from avow.data.wordpiece import WordPieces
from avow.retrieval.encoders.hub import HubEncoder
from avow.retrieval.encoders.onnx import OnnxEncoder
from avow.retrieval.encoders.run import ModelEncoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.retrieval.spelling import MOSTLY, dictionary, mostly_english
from avow.retrieval.understanding import understand

ENGLISH = [word for word in dictionary().words() if len(word) > 2][:400]
LEARNT = frozenset(
    ["dog", "dogs", "beach", "bicycle", "red", "toilet", "bathroom", "runs", "snow", "corgidor"]
)


@pytest.fixture(scope="module")
def english() -> ModelEncoder:
    sentences = [" ".join(ENGLISH[start : start + 10]) for start in range(0, 400, 10)] * 4
    return ModelEncoder(toy_model(sentences=[*sentences, *["a dog on a bicycle"] * 4]), "run")


# --- what a model says of itself ------------------------------------------------------


def test_a_run_with_english_words_reads_english_and_no_other_words(english):
    assert english.english and english.vocabulary is not None
    assert {"dog", "bicycle"} <= english.vocabulary
    assert english.vocabulary.isdisjoint({*MARKS, MASK})


def test_words_of_the_vocabulary_are_those_that_change_a_vector(english):
    unread = english.encode_texts(["zebroid"])
    for word in ("dog", "bicycle", ENGLISH[17]):
        assert word in english.vocabulary
        assert not np.allclose(english.encode_texts([word]), unread)
    assert "quarkish" not in english.vocabulary
    np.testing.assert_array_equal(english.encode_texts(["quarkish"]), unread)


def test_a_run_with_few_words_says_nothing_of_its_language():
    assert not ModelEncoder(toy_model(), "run").english


def test_a_run_with_words_of_another_language_does_not_read_english():
    words = [f"{word}ungsheit" for word in ENGLISH]
    sentences = [" ".join(words[start : start + 10]) for start in range(0, 400, 10)] * 4
    assert not ModelEncoder(toy_model(sentences=sentences), "run").english


def test_pieces_of_words_leave_the_dictionary_to_decide(tmp_path):
    assert OnnxEncoder.english and OnnxEncoder.vocabulary is None
    save_two_towers("clip", tmp_path / "clip")
    towers = HubEncoder.open(str(tmp_path / "clip"))
    assert not towers.english and towers.vocabulary is None
    assert not Encoder.english and Encoder.vocabulary is None


def test_a_tokeniser_of_pieces_lists_them_and_reads_more(shipped_tokeniser):
    assert mostly_english(shipped_tokeniser.own_words())
    assert not shipped_tokeniser.whole_words
    assert Vocabulary([*MARKS, "dog"]).whole_words


@pytest.fixture(scope="module")
def shipped_tokeniser() -> WordPieces:
    from avow.assembly.model import packaged_folder

    return WordPieces.open(packaged_folder())


@given(st.integers(0, 300))
def test_a_model_reads_english_where_most_of_its_words_are_english(others: int):
    words = [*ENGLISH[:300], *(f"{word}xqz" for word in ENGLISH[:others])]
    assert mostly_english(words) == (300 >= MOSTLY * (300 + others))
    assert mostly_english(reversed(words)) == mostly_english(words)


# --- what is understood of a query ----------------------------------------------------


@pytest.mark.parametrize("query", ["dog", "two dogs on the beach", "a red bicycle", "Corgidor"])
def test_words_that_were_learnt_are_understood(query):
    assert understand(query, LEARNT).understood


def test_a_word_of_english_that_was_never_learnt_is_told():
    answer = understand("a submarine", LEARNT)
    assert answer.problem == "unknown_word"
    assert answer.message == "This model never learnt 'submarine'; say it in other words."
    assert [(one.word, one.suggestions) for one in answer.unknown] == [("submarine", ())]
    assert understand("a submarine").understood


def test_only_words_that_were_learnt_are_offered():
    assert understand("bycicle", LEARNT).corrected == "bicycle"
    assert understand("bycicle", LEARNT - {"bicycle"}).corrected is None
    assert understand("bycicle").corrected == "bicycle"


def test_an_unlearnt_word_among_others_is_a_hint():
    answer = understand("a red dog runs on the beach with a submarine", LEARNT)
    assert answer.understood and "'submarine'" in (answer.message or "")
    half = understand("a red submarine", LEARNT)
    assert half.problem == "unknown_word"
    third = understand("a red dog and a submarine", LEARNT)
    assert third.understood


def test_a_misspelt_word_counts_as_much_as_ever():
    assert understand("a red dog and a bycicle", LEARNT).problem == "unknown_word"


def test_negations_and_languages_are_read_as_ever():
    assert understand("a bathroom with no toilet", LEARNT).without == "toilet"
    assert understand("ein Hund am Strand", LEARNT).problem == "other_language"


@given(st.lists(st.sampled_from(sorted(LEARNT)), min_size=1, max_size=6))
def test_what_is_made_of_learnt_words_is_always_understood(words: list[str]):
    assert understand(" ".join(words), LEARNT).understood


# --- a search -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def searched(english, tmp_path_factory) -> Retriever:
    place = tmp_path_factory.mktemp("own-words")
    save_pictures(place / "pictures", 12)
    index_folders([place / "pictures"], index=place / "index", encoder=english)
    return Retriever(Library.open(place / "index", english), english)


def test_a_search_says_what_the_run_never_learnt(searched):
    result = searched.search("a submarine", k=3)
    assert result.understanding is not None
    assert result.understanding.problem == "unknown_word"
    assert "'submarine'" in (result.understanding.message or "")
    understood = searched.search("a dog on a bicycle", k=3)
    assert understood.understanding is not None and understood.understanding.understood


def test_forms_of_a_name_are_one_question(searched):
    first = searched.search("dog", k=5)
    for form in ("a dog", "Dog"):
        again = searched.search(form, k=5)
        assert [(hit.id, hit.similarity) for hit in again.hits] == [
            (hit.id, hit.similarity) for hit in first.hits
        ]
