"""Which queries are understood, which words are unknown, what is to be left out."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import examples

from avow.retrieval import languages, spelling
from avow.retrieval.negation import split_negation
from avow.retrieval.spelling import Dictionary, dictionary, distances, from_bytes, to_bytes
from avow.retrieval.understanding import UnknownWord, understand

WORDS = re.compile(r"[^\W_]+")


# --- good queries ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "dog",
        "2 dogs",
        "number 42 jersey",
        "DOGS RUNNING",
        "the man's hat",
        "the dogs' ball",
        "a man who isn't smiling at the camera",
        "t-shirt",
        "a black-and-white photo of a dog",
        "New York at night",
        "Eiffel Tower",
        "Los Angeles",
        "la la land",
        "Rio de Janeiro beach",
        "en route",
        "café au lait",
        "crème brûlée",
        "a boeing 747",
        "f16",
        "4x4",
        "1950s car",
        "rock 'n' roll",
        "snowboarders",
        "a schnauzer, a corgi and a dachshund!",
        "selfie",
        "no parking sign",
        "a hiker near Ghurdak",  # written like a name: not known, and no mistake
        "an old man on the pier beside the lighthouse feeding seagulls with a kerflump",
    ],
)
def test_good_queries_are_understood(query):
    answer = understand(query)
    assert (answer.problem, answer.language) == (None, "en")


@pytest.mark.parametrize(
    "query, kind",
    [
        ("dog", "name"),
        ("a photo of the dog", "name"),
        ("a dog on a beach", "phrase"),
        ("two dogs run across wet sand", "phrase"),
        ("two brown dogs run across wet sand", "caption"),
        ("a bathroom with no toilet", "name"),
    ],
)
def test_the_kind_is_the_number_of_content_words(query, kind):
    assert understand(query).kind == kind


# --- unknown words --------------------------------------------------------------------


def test_a_misspelt_word_is_reported_with_what_was_meant():
    answer = understand("bycicle")
    assert answer.problem == "unknown_word" and not answer.understood
    assert answer.unknown[0].word == "bycicle"
    assert answer.unknown[0].suggestions[0] == "bicycle"
    assert answer.message == "I don't know 'bycicle'. Did you mean 'bicycle'?"
    assert answer.corrected == "bicycle"


def test_a_correction_keeps_the_rest_of_the_query():
    answer = understand("Skatebord, on a  red-hot BEACH!")
    assert answer.corrected == "Skateboard, on a red-hot BEACH!"


def test_two_misspelt_words_are_corrected_together():
    answer = understand("a dog playign with a freesbee")
    assert [about.word for about in answer.unknown] == ["playign", "freesbee"]
    assert answer.message == (
        "I don't know 'playign' or 'freesbee'. Did you mean 'a dog playing with a frisbee'?"
    )


def test_a_misspelt_word_in_a_caption_is_a_hint():
    answer = understand("a wodden bridge over a quiet river with two old boats below")
    assert answer.problem is None
    assert answer.message == "I don't know 'wodden'. Did you mean 'wooden'?"
    assert answer.corrected == "a wooden bridge over a quiet river with two old boats below"


def test_a_word_that_is_near_none_has_no_suggestion():
    answer = understand("a kerflumpous dog")
    assert answer.unknown == (UnknownWord("kerflumpous"),)
    assert answer.problem == "unknown_word" and answer.corrected is None
    assert answer.message == (
        "I don't know 'kerflumpous'. Check the spelling or use another word."
    )


def test_a_correction_that_would_not_be_understood_is_not_offered():
    answer = understand("xqzt blorp")
    assert answer.unknown[1].suggestions and not answer.unknown[0].suggestions
    assert answer.problem == "unknown_word" and answer.corrected is None
    assert answer.message == (
        "I don't know 'xqzt' or 'blorp'. Check the spelling or use another word."
    )
    long = "a wodden bridge over a quiet river with two old xqzt boats below"
    assert understand(long).corrected == long.replace("wodden", "wooden")


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("umbrela", "umbrella"),
        ("giraff", "giraffe"),
        ("elefant", "elephant"),
        ("moutnain", "mountain"),
        ("beeach", "beach"),
        ("kicthen", "kitchen"),
    ],
)
def test_suggestions(wrong, right):
    assert dictionary().suggestions(wrong)[0] == right


@pytest.mark.parametrize("word", ["x", "ox", "pneumonoultramicroscopics"])
def test_a_word_too_short_or_too_long_has_no_suggestions(word):
    assert dictionary().suggestions(word) == ()


@pytest.mark.parametrize(
    ("form", "known"),
    [
        ("berries", True),
        ("boxes", True),
        ("stoned", True),
        ("napping", True),
        ("snowy", True),
        ("snowyy", False),
        ("berryy", False),
        ("friendly", True),
        ("snowless", True),
        ("unfriend", True),
        ("unbox", False),  # so little of a word may be chance
        ("brries", False),
    ],
)
def test_forms_of_listed_words_are_known(form, known):
    words = ["berry", "box", "stone", "nap", "snow", "friend"]
    assert Dictionary.of(words, pictured=len(words)).knows(form) is known


def test_words_near_are_the_same_with_the_numpy_that_counts_no_bits(monkeypatch):
    near = dictionary().within("moutnain", 2)
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert dictionary().within("moutnain", 2) == near != {}


def plain_distance(one: str, other: str) -> int:
    """The textbook's table, cell by cell."""
    table = np.zeros((len(one) + 1, len(other) + 1), int)
    table[:, 0], table[0] = range(len(one) + 1), range(len(other) + 1)
    for i, a in enumerate(one, 1):
        for j, b in enumerate(other, 1):
            options = [table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a != b)]
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                options.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(options)
    return int(table[-1, -1])


LETTERS = st.text("abc", min_size=1, max_size=8)


@given(LETTERS, st.lists(LETTERS, min_size=1, max_size=6))
@example("ab", ["ba"])
@example("abcab", ["bacba", "ca", "a"])
def test_distances_are_those_of_the_textbook(word, others):
    codes = np.array([other.encode() for other in others], "S8").view(np.uint8)
    lengths = np.array([len(other) for other in others], np.uint8)
    measured = distances(word, codes.reshape(len(others), 8), lengths)
    assert measured.tolist() == [plain_distance(word, other) for other in others]


def test_no_nearer_word_is_overlooked():
    """Against every word of the dictionary, for words that need one and two changes."""
    listed = [word for word in dictionary().words() if 5 <= len(word) <= 9][:4000:40]
    some = Dictionary.of(listed, len(listed))
    for word in ("bycicle", "moutain", "skatebord", "kicthen", "xwmaz"):
        near = {other: plain_distance(word, other) for other in listed}
        best = min(near.values())
        expected = {other for other in near if near[other] == best and best <= 2}
        assert set(some.suggestions(word, len(listed))) == expected


# --- other languages, numbers, nonsense -----------------------------------------------


LANGUAGES = {
    "de German": ("der Hund am Strand", "Fahrrad", "ein Maedchen mit Regenschirm"),
    "fr French": ("un chien noir sur la plage", "l'homme dans la rue"),
    "es Spanish": ("perro negro", "NIÑA con una pelota"),
    "it Italian": ("una donna che legge un libro",),
    "pt Portuguese": ("menina na praia",),
    "nl Dutch": ("een vrouw op de fiets",),
    "sv Swedish": ("en kvinna och en häst",),
    "pl Polish": ("kobieta z psem na plaży",),
    "tr Turkish": ("k\u0131rm\u0131z\u0131 araba",),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_other_languages_are_named(language):
    code, name = language.split()
    for query in LANGUAGES[language]:
        answer = understand(query)
        assert (answer.language, answer.problem) == (code, "other_language"), query
        assert answer.message == f"This model reads English; this looks like {name}."
        assert answer.text == query and answer.corrected is None


def test_a_word_of_several_languages_names_them():
    assert understand("una mela").message == (
        "This model reads English; this looks like Spanish or Italian."
    )


@pytest.mark.parametrize("query", ["собака на пляже", "海滩上的狗", "σκύλος", "犬", "كلب"])
def test_other_scripts(query):
    answer = understand(query)
    assert (answer.language, answer.problem) == ("?", "other_language")
    assert answer.message == "This model reads English; this is in another script."


@pytest.mark.parametrize("query", ["42", "3.14", "12 34", "-5", "$100", "the 42"])
def test_a_number_is_no_description(query):
    answer = understand(query)
    assert answer.problem == "number"
    assert answer.message == f"'{query}' is a number; describe what the picture shows."


@pytest.mark.parametrize("query", ["asdfghjkl", "xqzvwk", "x7f9q2", "q", "zxcv bnmq"])
def test_nonsense(query):
    answer = understand(query)
    assert answer.problem == "nonsense"
    assert answer.message == f"'{query}' has no word I know; describe what the picture shows."


@pytest.mark.parametrize("query", ["the of", "a", "🐶", "?!", "show me a picture"])
def test_a_query_that_names_nothing(query):
    answer = understand(query)
    assert answer.problem == "empty"
    assert answer.message == f"'{query}' names nothing; describe what the picture shows."


def test_an_empty_query():
    answer = understand("  ")
    assert (answer.text, answer.problem) == ("", "empty")
    assert answer.message == "The query is empty; describe what the picture shows."


# --- negation -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query, text, without",
    [
        ("a bathroom with no toilet", "a bathroom", "toilet"),
        ("a bathroom without a toilet", "a bathroom", "a toilet"),
        ("a beach but no people", "a beach", "people"),
        ("a beach and no umbrellas", "a beach", "umbrellas"),
        ("a house that has no windows", "a house", "windows"),
        ("street no cars", "street", "cars"),
        ("cat not dog", "cat", "dog"),
        ("beach minus people", "beach", "people"),
        ("beach -people", "beach", "people"),
        ("beach -people -umbrellas", "beach", "people, umbrellas"),
        ("a man with no shirt", "a man", "shirt"),
        ("a man with no shirt on", "a man", "shirt"),
        ("a boy without a shirt on is jumping", "a boy is jumping", "a shirt"),
        ("a man wearing no shirt climbs a cliff", "a man climbs a cliff", "shirt"),
        ("a man without a shirt riding a horse", "a man riding a horse", "a shirt"),
        ("a dog with no tail runs on grass", "a dog runs on grass", "tail"),
        ("a room with no windows and no doors", "a room", "windows, doors"),
        ("a street without cars or people", "a street", "cars or people"),
        ("a street without cars and people", "a street", "cars and people"),
        ("a man without a hat and a dog", "a man and a dog", "a hat"),
        ("people who are not wearing hats", "people", "wearing hats"),
        ("A Dog, No Leash", "A Dog", "Leash"),
        ("a street with no stop sign", "a street", "stop sign"),
        ("a beach without people, a dog", "a beach a dog", "people"),
    ],
)
def test_negation(query, text, without):
    answer = understand(query)
    assert (answer.text, answer.without) == (text, without)
    assert answer.problem is None and answer.message is None


@pytest.mark.parametrize(
    "query",
    [
        "no parking sign",
        "a no smoking sign on a wall",
        "no entry",
        "a bowl with nothing in it",
        "a house not far from the sea",
        "with or without you",
        "No. 5 bus",
        "a beach with no one on it",
        "a black-and-white dog",
        "a dog - a cat",
        "no dogs sign",
        "a train that can not be boarded",
        "a knot",
        "no faces are shown",
    ],
)
def test_what_only_looks_like_a_negation(query):
    answer = understand(query)
    assert (answer.text, answer.without) == (query, None)


@pytest.mark.parametrize("query", ["without people", "no people", "-people", "not a dog"])
def test_only_what_to_leave_out_cannot_be_searched(query):
    answer = understand(query)
    assert (answer.text, answer.without, answer.problem) == (query, None, "only_left_out")
    left_out = "a dog" if "dog" in query else "people"
    assert answer.message == (
        f"'{query}' says only what to leave out; say what the picture shows as well, such as "
        f"'a street without {left_out}'."
    )


@pytest.mark.parametrize("query", ["ten dogs", "100 people", "a table with four chairs"])
def test_that_nothing_is_counted_is_a_hint(query):
    answer = understand(query)
    assert (answer.text, answer.problem) == (query, None)
    assert answer.message == "How many there are is hardly read: this model does not count."


@pytest.mark.parametrize("query", ["three dogs", "a bus at 10 pm", "route 66", "1950s cars"])
def test_not_every_number_counts_things(query):
    assert understand(query).message is None


@pytest.mark.parametrize("query", ["IMG_1234.jpg", "holiday/beach.PNG", "clip.mp4"])
def test_the_name_of_a_file_is_told(query):
    answer = understand(query)
    assert (answer.text, answer.problem, answer.corrected) == (query, "file", None)
    assert f'filter by name="{query}"' in (answer.message or "")


# --- any text -------------------------------------------------------------------------

QUERIES = st.one_of(
    st.text(max_size=2000),
    st.lists(
        st.sampled_from(
            "a dog no not without with but -cat w/o minus and or that has is on the bycicle "
            "hund der 42 x7 isn't l'eau no. , sign parking riding - doubt Paris".split()
        ),
        max_size=30,
    ).map(" ".join),
)


@given(QUERIES)
@examples(75, 300)
def test_nothing_is_added_to_what_was_asked(query):
    answer = understand(query)
    asked = set(WORDS.findall(query))
    assert set(WORDS.findall(answer.text)) <= asked
    assert set(WORDS.findall(answer.without or "")) <= asked
    assert {about.word for about in answer.unknown} <= asked
    assert (answer.problem is None) or answer.message
    assert answer.to_dict()["text"] == answer.text


@given(QUERIES)
@examples(50, 200)
def test_a_query_is_never_made_empty(query):
    split = split_negation(query)
    assert bool(split.text) == bool(query.split())
    assert split.without is None or split.without.strip()


# --- the files ------------------------------------------------------------------------


def test_the_vocabulary():
    words = dictionary()
    listed = words.words()
    assert spelling.FILE.stat().st_size <= 400_000
    assert len(set(listed)) == len(listed) > 40_000
    assert max(map(len, listed)) <= spelling.LONGEST
    assert all(word.isascii() and word.isalpha() and word.islower() for word in listed)
    assert listed[0] == "a" and listed.index("dog") < listed.index("schnauzer")
    assert {"bycicle", "recieve", "hund", "perro"}.isdisjoint(listed)


def test_a_file_of_words_keeps_words_and_about_their_ranks():
    listed = [word for word in dictionary().words() if len(word) < 7][:3000]
    again = from_bytes(to_bytes(Dictionary.of(listed, 1234)))
    assert again.pictured == 1234 and sorted(again.words()) == sorted(listed)
    for rank, word in enumerate(listed):
        assert again.rank(word) == pytest.approx(rank, rel=0.07, abs=1)


def test_every_language_has_its_words():
    listed = languages.known_languages()
    assert len(listed) >= 10 and "en" not in listed
    assert languages.languages_of("über") == languages.languages_of("ueber") == {"de"}
    assert "es" in languages.languages_of("nino")


def test_neither_torch_nor_another_heavy_package_is_loaded():
    code = (
        "import sys; from avow.retrieval.understanding import understand\n"
        "understand('a red bycicle')\n"
        "heavy = {'torch', 'scipy', 'sklearn', 'onnxruntime', 'PIL'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent.parent, capture_output=True
    )
    assert done.returncode == 0, done.stderr
