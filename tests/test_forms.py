"""Forms of one name: one question, whatever form was typed."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from avow.retrieval.forms import count_words, one_form, singular
from avow.retrieval.spelling import dictionary


@pytest.mark.parametrize(
    "typed",
    [
        "dog",
        "dogs",
        "Dogs",
        "a dog",
        "the dog",
        "some dogs",
        "photo of a dog",
        "a photo of a dog",
        "pictures of dogs",
        "Images of the dog",
        "a picture of photos of dogs",
        "Dogs!",
        '"dog"',
        "show me dogs",
        "please find me some dogs",
        "find pictures of a dog",
        "I'm looking for dogs",
        "all photos with dogs",
    ],
)
def test_every_form_of_a_name_asks_for_the_same(typed):
    assert one_form(typed) == "a dog"


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("children", "a child"),
        ("women", "a woman"),
        ("knives", "a knife"),
        ("fishermen", "a fisherman"),
        ("omen", "an omen"),
        ("las vegas", "a las vegas"),
        ("calves", "a calf"),
        ("elephants", "an elephant"),
        ("apple", "an apple"),
        ("hot dogs", "a hot dog"),
        ("buses", "a bus"),
        ("boxes", "a box"),
        ("churches", "a church"),
        ("cherries", "a cherry"),
        ("tomatoes", "a tomato"),
        ("horses", "a horse"),
        ("lenses", "a lens"),
        ("hearses", "a hearse"),
    ],
)
def test_plurals_become_singular(typed, asked):
    assert one_form(typed) == asked


@pytest.mark.parametrize(
    "noun",
    "glasses sunglasses grass bus tennis dress scissors jeans lens clothes cactus".split(),
)
def test_nouns_that_end_in_s_keep_it(noun):
    assert singular(noun) == noun
    assert one_form(noun).split()[1:] == [noun]


def test_a_word_that_no_list_has_keeps_its_s():
    assert singular("qwzxjs") == "qwzxjs"


@pytest.mark.parametrize(
    "typed",
    [
        "two dogs",
        "a dog on a beach",
        "dogs and cats",
        "2 dogs",
        "the man's hats",
        "Dogs playing in the snow",
        "big brown dogs",
    ],
)
def test_what_is_more_than_a_name_is_asked_for_as_it_stands(typed):
    assert one_form(typed) == typed


def test_photo_of_is_left_out_of_a_caption():
    assert one_form("a photo of two dogs on a Beach") == "two dogs on a Beach"


PIECES = st.sampled_from(
    "a an the some photo photos picture pictures of dogs dog children grass two on my".split()
)


@given(st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=7).map(" ".join)))
@example("a photo of a photo of a dog")
@example("photo of")
@example("")
def test_a_form_is_its_own_form(text):
    assert one_form(one_form(text)) == one_form(text)


def test_a_singular_is_its_own_singular():
    plurals = [word for word in dictionary().words() if word.endswith("s") and word.isalpha()]
    assert len(plurals) > 1000
    assert [word for word in plurals if singular(singular(word)) != singular(word)] == []


def test_articles_are_not_counted_as_words():
    texts = ["a dog", "brown dog", "A brown dog", "the man on an island", "the", ""]
    assert count_words(texts).tolist() == [1, 2, 2, 3, 1, 0]


@given(st.sampled_from(["dog", "dogs", "a dog", "the dog", "photo of a dog"]))
def test_every_form_of_a_name_has_as_many_words_as_it_is_asked_with(typed):
    assert count_words([one_form(typed)]).tolist() == [1]
