"""A caption has an end: texts that are too long, or no text, are refused with their place."""

import json

import pytest

from avow.core.errors import BadData
from avow.core.searching import LONGEST_TEXT
from avow.data.captions import TokenTable, check_caption
from avow.data.gather import Photograph, paired
from avow.data.readers import pairs, precomp
from avow.data.vocabulary import Vocabulary

LONG, HALF = "a" * (LONGEST_TEXT + 1), "a dog \ud800"
WRONG = [(LONG, f"has {LONGEST_TEXT + 1} characters"), (HALF, "holds half of a character")]


def rows(path, *captions):
    lines = [{"image": f"{n}.jpg", "caption": text} for n, text in enumerate(captions)]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return str(path)


@pytest.mark.parametrize("caption, words", WRONG)
def test_a_dataset_names_the_line(tmp_path, caption, words):
    file = rows(tmp_path / "pairs.jsonl", "a dog", caption, "a cat")
    with pytest.raises(BadData, match=rf"at line 2 of '.*pairs.jsonl' {words}"):
        pairs.build(root=file)


@pytest.mark.parametrize("caption, words", WRONG)
def test_a_dataset_names_the_image(tmp_path, caption, words):
    photograph = Photograph("dog", "train", ("a dog", caption), tmp_path / "dog.jpg")
    with pytest.raises(BadData, match=rf"A caption of the image 'dog' in .* {words}"):
        paired("dogs", tmp_path, [photograph], ["train"])


def test_a_list_of_captions_names_the_caption(tmp_path):
    (tmp_path / "dev_caps.txt").write_text(f"a dog\n{LONG}\n")
    with pytest.raises(BadData, match=r"Caption 2 of '.*dev_caps.txt' has 10001 characters"):
        precomp._listed(tmp_path, "dev")


def test_an_encoder_names_the_text():
    tokeniser = Vocabulary.from_captions(["a dog"])
    with pytest.raises(BadData, match="Text 2 has 10001 characters and begins 'aaa"):
        TokenTable.from_captions(tokeniser, ["a dog", LONG])
    assert len(TokenTable.from_captions(tokeniser, ["a " * (LONGEST_TEXT // 2)]).ids) == 1


def test_the_longest_caption_passes():
    check_caption("a" * LONGEST_TEXT, "This")
