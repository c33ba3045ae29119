"""The tokeniser of the shipped model gives the numbers of the package that training uses."""

import json
import os
import shutil
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from avow.core.errors import WrongCheckpoint
from avow.core.places import packaged_folder
from avow.data.wordpiece import WordPieces as PackagePieces
from avow.retrieval.encoders.bank import texts
from avow.retrieval.encoders.wordpiece import FILE, WordPieces

LONG = bool(os.environ.get("AVOW_LONG_TESTS"))
LAST = sys.maxunicode if LONG else 0x2FFFF
STEP = 64 if LONG else 1024
ALL_BELOW = 0xFFFF if LONG else 0x3100  # then ideographs, thousands of them alike
"""Of rare characters, which are looked at in blocks of 64; most have no meaning yet."""
TYPED = [
    "",
    "   ",
    "Two dogs, on a beach!",
    "naïve café déjà-vu Ångström İstanbul ΣΊΣΥΦΟΣ Straße ﬁne",
    "it's 5 o'clock... don't (really) \"quote\" a/b_c `x` ~ ^ $5 + 3 < 4 | 2 = 2",
    "[MASK] a [CLS]dog[SEP] [UNK] [mask] [ MASK ]",
    "中文字 日本語 한국어 до́лги ไทย 👍🏽 e\u0301 \u200b zero\u200dwidth \ufeff",
    "tab\tnew\nline\rreturn\x0bvertical\x0cfeed\x1cseparator\x85next\xa0hard\u2028line",
    "antidisestablishmentarianism " + "a" * 100 + " " + "b" * 101 + " x" + "y" * 300,
    "\x00null \ufffd replacement \ue000 private",
]


@pytest.fixture(scope="module")
def ours() -> WordPieces:
    return WordPieces.open(packaged_folder())


@pytest.fixture(scope="module")
def package() -> PackagePieces:
    return PackagePieces.open(packaged_folder())


def test_its_marks_and_size(ours, package, tmp_path):
    assert (ours.mask, ours.size, ours.fixed_ends) == (package.mask, package.size, True)
    ours.save(tmp_path)
    assert (tmp_path / FILE).read_bytes() == (packaged_folder() / FILE).read_bytes()


@pytest.mark.parametrize("text", TYPED)
def test_what_people_type(ours, package, text):
    assert ours.words(text) == package.words(text)


def test_every_reference_query(ours, package):
    queries = texts(packaged_folder())
    assert len(queries) > 1000
    assert [ours.words(query) for query in queries] == [package.words(one) for one in queries]


@given(st.text(st.characters(max_codepoint=0x24F), max_size=60))
def test_any_latin_text(ours, package, text):
    assert ours.words(text) == package.words(text)


def test_every_character_alone_and_inside_a_word(ours, package):
    """Marks and accents that came after the package's Unicode (7) are the only exceptions."""
    wrong = set()
    for first in range(0, LAST + 1, 64):
        if first > ALL_BELOW and first % STEP:
            continue
        codes = [code for code in range(first, first + 64) if not 0xD800 <= code < 0xE000]
        alone = [f"a{chr(code)}b {chr(code)}" for code in codes]
        if ours.words(" ".join(alone)) != package.words(" ".join(alone)):
            wrong |= {text[1] for text in alone if ours.words(text) != package.words(text)}
    assert len(wrong) < LAST / 300 and min(wrong) > "\u0600"  # of Arabic script and later ones
    assert {unicodedata.category(one)[0] for one in wrong} <= {"M", "P", "C", "S"}
    content = json.loads((packaged_folder() / FILE).read_bytes())
    assert not wrong & set("".join(content["model"]["vocab"]))


@pytest.mark.parametrize("damage", ["missing", "cut", "another"])
def test_another_tokeniser_is_refused(tmp_path, damage):
    path = tmp_path / FILE
    if damage != "missing":
        shutil.copy(packaged_folder() / FILE, path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:300])
    if damage == "another":
        content = json.loads(path.read_text("utf-8"))
        content["normalizer"]["lowercase"] = False
        path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(
        WrongCheckpoint, match=r"The tokeniser .* cannot be read .*install Avow"
    ):
        WordPieces.open(tmp_path)
