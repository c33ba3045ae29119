"""The vocabulary counts, numbers, and reads and writes what was published."""

import json

import pytest
import torch
from samples import refusal

from avow.core.errors import WrongCheckpoint
from avow.data.captions import TokenTable
from avow.data.vocabulary import Vocabulary

CAPTIONS = ["A red kite.", "a RED gull .", "a kite; a boat"]


def vocabulary() -> Vocabulary:
    return Vocabulary.from_captions(CAPTIONS, at_least=2)


def test_words_are_listed_as_first_seen_between_the_marks():
    marks = ["<pad>", "<start>", "<end>", "<unk>"]
    assert vocabulary().listed == [*marks, "a", "red", "kite", ".", "<mask>"]


def test_a_word_seen_too_rarely_is_unknown():
    assert vocabulary().words("A red boat.") == [[1], [4], [5], [3], [7], [2]]


def test_mask_is_the_last_number():
    chosen = vocabulary()
    assert (chosen.mask, chosen.size, chosen.fixed_ends) == (8, 9, False)


def test_four_times_is_often_enough_by_default():
    chosen = Vocabulary.from_captions(["kite"] * 4 + ["gull"] * 3)
    assert chosen.listed[4:] == ["kite", "<mask>"]


def test_save_then_open_gives_the_same(tmp_path):
    Vocabulary.from_captions(["café kite"], at_least=1).save(tmp_path)
    again = Vocabulary.open(tmp_path / "vocabulary.json")
    assert again.listed[4:] == ["café", "kite", "<mask>"]


def published(words: list[str]) -> dict:
    return {
        "word2idx": {word: number for number, word in enumerate(words)},
        "idx2word": {str(number): word for number, word in enumerate(words)},
        "idx": len(words),
    }


def test_published_vocabulary_without_mask_gets_one(tmp_path):
    path = tmp_path / "f30k_vocab.json"
    words = ["<pad>", "<start>", "<end>", "<unk>", "kite"]
    path.write_text(json.dumps(published(words)))
    chosen = Vocabulary.open(path)
    assert (chosen.size, chosen.mask) == (6, 5)
    assert chosen.words("kite") == [[1], [4], [2]]


def test_saved_file_has_the_published_keys(tmp_path):
    vocabulary().save(tmp_path)
    content = json.loads((tmp_path / "vocabulary.json").read_text())
    assert content == published(vocabulary().listed)


@pytest.mark.parametrize(
    "text",
    [
        '{"word2idx": {"<pad>": 0, "<st',
        "[]",
        '{"word2idx": {"<pad>": 0}, "idx": 1}',
        json.dumps(published(["<start>", "<pad>", "<end>", "<unk>"])),
        json.dumps(published(["<pad>", "<start>", "<end>", "<unk>"]) | {"idx": 9}),
        '{"word2idx": {"<pad>":0,"<start>":1,"<end>":2,"<unk>":3,"a":5}, "idx": 5}',
    ],
)
def test_broken_vocabulary_is_refused(tmp_path, text):
    path = tmp_path / "v.json"
    path.write_text(text)
    assert refusal(lambda: Vocabulary.open(path), WrongCheckpoint) == (
        f"The vocabulary '{path}' is damaged or no vocabulary. Expected JSON with "
        "word2idx, idx2word and idx, numbered from <pad>. Copy it again from where the "
        "run was made."
    )


def test_missing_vocabulary_says_so(tmp_path):
    assert refusal(lambda: Vocabulary.open(tmp_path / "v.json"), WrongCheckpoint) == (
        f"The vocabulary '{tmp_path / 'v.json'}' is missing. Expected JSON with "
        "word2idx, idx2word and idx, numbered from <pad>. Copy it again from where the "
        "run was made."
    )


def test_table_pads_captions_and_numbers_their_words():
    table = TokenTable.from_captions(vocabulary(), ["a red kite.", "a"])
    assert table.ids.tolist() == [[1, 4, 5, 6, 7, 2], [1, 4, 2, 0, 0, 0]]
    assert table.word.tolist() == [[0, 1, 2, 3, 4, 5], [0, 1, 2, -1, -1, -1]]
    assert table.lengths.tolist() == [6, 3]
    assert (table.mask, table.size, table.fixed_ends) == (8, 9, False)


def test_tokens_are_cropped_to_the_longest_of_their_rows():
    table = TokenTable.from_captions(vocabulary(), ["a red kite.", "a", "red a"])
    tokens = table.tokens(torch.tensor([2, 1]))
    assert tokens.ids.tolist() == [[1, 5, 4, 2], [1, 4, 2, 0]]
    assert tokens.present.tolist() == [[True] * 4, [True, True, True, False]]
    assert tokens.lengths.tolist() == [4, 3]


def test_a_caption_that_is_too_long_keeps_its_end():
    table = TokenTable.from_captions(vocabulary(), ["a red kite."], longest=4)
    assert table.ids.tolist() == [[1, 4, 5, 2]]
    assert table.lengths.tolist() == [4]


def test_a_table_of_no_captions_gives_no_tokens():
    table = TokenTable.from_captions(vocabulary(), [])
    assert table.tokens(torch.tensor([], dtype=torch.long)).ids.shape == (0, 0)
