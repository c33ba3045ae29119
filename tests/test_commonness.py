"""How common the words of a query are."""

import math

import numpy as np
import pytest

from avow.retrieval.commonness import UNLISTED, commonness
from avow.retrieval.spelling import dictionary

CAPTIONS = [
    "a man in a red shirt and blue jeans walks past a store",
    "two dogs run along the beach near the blue water",
    "an xylophonist qwzxj plays loud music for children under old bridges",
]


def test_common_things_stand_before_rare_ones():
    man, elephant, unlisted = commonness(["a man", "an elephant", "a qwzxj"])
    assert 0 > man > elephant > unlisted
    assert unlisted == -math.log1p(UNLISTED)


def test_it_is_the_logarithm_of_the_rank():
    rank = dictionary().rank("elephant")
    assert rank is not None
    assert commonness(["the elephant"])[0] == -math.log1p(rank)


def test_the_rarest_content_word_decides():
    alone, together, reversed_ = commonness(
        ["elephant", "a man with an elephant", "elephant man"]
    )
    assert alone == together == reversed_


@pytest.mark.parametrize("forms", [("dog", "dogs", "a dog", "the Dogs"), ("cat", "CATS")])
def test_forms_of_a_name_are_as_common(forms):
    assert len(set(commonness(forms).tolist())) == 1


def test_captions_share_one_number():
    found = commonness(CAPTIONS)
    assert len(set(found.tolist())) == 1
    assert commonness(["a man"])[0] > found[0] > commonness(["a qwzxj"])[0]


def test_a_query_without_content_words_is_unlisted():
    np.testing.assert_array_equal(commonness(["the", "", "42"]), -math.log1p(UNLISTED))


def test_no_query_no_number():
    assert commonness([]).shape == (0,)
