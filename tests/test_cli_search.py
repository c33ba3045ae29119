"""`avow search` and `avow explain`: what they print, and how they exit."""

import json
import shlex
import webbrowser

import pytest
from PIL import Image
from search_samples import save_pictures, save_toy
from test_cli import command

import avow
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders

__all__ = ["command"]  # the fixture
HIT = {"rank", "path", "p_relevant", "similarity", "id"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A toy model, and an index of twelve pictures made with it."""
    home = tmp_path_factory.mktemp("command line")
    save_toy(home / "model")
    save_pictures(home / "pictures", 12)
    encoder = open_encoder(str(home / "model"))
    index_folders([home / "pictures"], index=home / "index", encoder=encoder)
    return home


def test_json_is_one_object_and_nothing_else(command, place):
    code, out, err = command("search", "a red dog", "--index", place / "index", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert list(found) == [
        *("query", "verdict", "heading", "trust", "searched", "uncertainty", "why"),
        *("understanding", "how_many", "hits", "near_misses", "written"),
    ]
    assert found["query"]["text"] == "a red dog"
    assert found["verdict"] == "unjudged" and found["trust"] is None
    assert list(found["uncertainty"]) == ["u", "K", "tau", "evidence"]
    assert len(found["hits"]) == 10 and set(found["hits"][0]) >= HIT
    assert found["near_misses"] == []
    assert found["understanding"] is None  # its model may read other languages


def test_a_person_reads_words_and_a_table(command, place):
    code, out, _ = command("search", "a red dog", "-k", "3", "--index", place / "index")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "Not judged. This kind of search is not calibrated yet."
    assert lines[1].split() == ["similarity", "path"]
    assert [line.split()[0] for line in lines[2:5]] == ["1", "2", "3"]
    assert lines[2].rstrip().endswith(".png") and lines[-1] == "12 items searched"


def test_nothing_found_exits_with_3(command, place):
    arguments = ("search", "dog", "--where", 'name="none"', "--index", place / "index")
    code, out, _ = command(*arguments)
    assert code == 3
    assert out.splitlines() == [
        "Nothing found. No picture passes the filter.",
        "0 items searched",
    ]
    code, out, _ = command(*arguments, "--json")
    assert code == 3 and json.loads(out)["verdict"] == "nothing_found"


@pytest.fixture(scope="module")
def shipped(place):
    """An index of the same pictures, made with the model that ships with Avow."""
    index_folders([place / "pictures"], index=place / "shipped", encoder=open_encoder())
    return place / "shipped"


def test_a_misspelt_word_is_told_with_the_command_to_type(command, shipped):
    typed = ("-k", "2", "--index", shipped, "--where", "name~'*.png'")
    code, out, _ = command("search", "a red bycicle", *typed)
    lines = out.splitlines()
    assert code == 3
    assert lines[0] == "Not understood. I don't know 'bycicle'. Did you mean 'bicycle'?"
    assert lines[1].startswith("Type: avow search 'a red bicycle' ")
    assert lines[2] == "What came nearest:"
    # what is offered can be typed: it is understood, and has the options that were typed
    code, out, _ = command(*shlex.split(lines[1].removeprefix("Type: avow ")), "--json")
    found = json.loads(out)
    assert found["query"]["text"] == "a red bicycle" and found["verdict"] != "not_understood"
    assert len(found["hits"] or found["near_misses"]) == 2
    assert not {"Type:", "Searched"} & set(command("search", "a bicycle", *typed)[1].split())


def test_yes_takes_the_suggested_spelling(command, shipped):
    typed = ("search", "a red bycicle", "-k", "2", "--index", shipped)
    code, out, _ = command(*typed, "--json")
    told = json.loads(out)
    assert (code, told["verdict"], told["hits"]) == (3, "not_understood", [])
    assert told["understanding"]["corrected"] == "a red bicycle"
    _, out, _ = command(*typed, "--yes", "--json")
    taken = json.loads(out)
    _, out, _ = command("search", "a red bicycle", *typed[2:], "--json")
    assert taken == json.loads(out) and taken["query"]["text"] == "a red bicycle"
    _, out, _ = command(*typed, "--yes")
    assert "Not understood" not in out
    assert out.splitlines()[1] == "Searched for: a red bicycle"


def test_another_language_is_told_and_has_no_spelling_to_take(command, shipped):
    typed = ("search", "ein Hund am Strand", "--index", shipped)
    for more in ((), ("--yes",)):
        code, out, _ = command(*typed, *more)
        first, second, *_ = out.splitlines()
        said = "Not understood. This model reads English; this looks like German."
        assert (code, first, second) == (3, said, "What came nearest:")


def test_what_the_words_leave_out_is_told(command, shipped):
    _, out, _ = command("search", "a red wall with no door", "--index", shipped)
    assert out.splitlines()[1] == "Left out: door"
    # where somebody says what to leave out, the words stay as they were typed
    _, out, _ = command(
        *("search", "a red wall with no door", "--without", "paint", "--index", shipped)
    )
    assert "Left out" not in out


def test_a_search_for_nothing_is_misspelt(command):
    code, out, err = command("search")
    assert (code, out) == (2, "") and "give a text, --image FILE, or both" in err


def test_no_answers_are_misspelt(command):
    assert command("search", "dog", "-k", "0")[0] == 2


def test_an_index_that_is_not_there(command, tmp_path):
    code, out, err = command("search", "dog", "--index", tmp_path, "--json")
    assert (code, out) == (1, "")
    assert err.startswith(f"avow: There is no index in {str(tmp_path)!r}.")


def test_an_empty_query(command, place):
    code, out, err = command("search", " ", "--index", place / "index")
    assert (code, out) == (2, "") and err.startswith("avow: The query '' has no words.")


def test_another_model_is_refused(command, place, tmp_path):
    other = save_toy(tmp_path / "other", seed=1)
    code, _, err = command("search", "dog", "--index", place / "index", "--model", other)
    assert code == 1 and "`avow index --rebuild`" in err


def test_a_picture_may_ask(command, place):
    picture = place / "pictures" / "red-000.png"
    code, out, _ = command(
        "search", "--image", picture, "-k", "1", "--index", place / "index", "--json"
    )
    found = json.loads(out)
    assert code == 0 and found["hits"][0]["path"] == str(picture)
    assert found["query"]["image"] == str(picture)


def test_the_first_hit_is_opened(command, place, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    picture = place / "pictures" / "blue-002.png"
    command("search", "--image", picture, "--open", "--index", place / "index")
    assert opened == [picture.as_uri()]


def test_a_file_name_cannot_command_the_terminal(command, tmp_path):
    save_toy(tmp_path / "model")
    (tmp_path / "p").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "p" / "a\x1b[2Jb[red].png")
    encoder = open_encoder(str(tmp_path / "model"))
    index_folders([tmp_path / "p"], index=tmp_path / "index", encoder=encoder)
    _, out, _ = command("search", "dog", "--index", tmp_path / "index")
    assert "\x1b" not in out and "a [2Jb[red].png" in out


def test_a_program_searches_in_one_line(place):
    found = avow.open(place / "index").search("a red dog", k=2)
    assert isinstance(found, avow.SearchResult) and len(found.hits) == 2


# --- explain ------------------------------------------------------------------------------


def test_explain_shows_words_and_writes_a_picture(command, place, tmp_path):
    picture, out = place / "pictures" / "red-000.png", tmp_path / "heat.png"
    code, shown, _ = command(
        "explain", "a red dog", picture, "--out", out, "--index", place / "index"
    )
    assert code == 0
    lines = shown.splitlines()
    assert lines[0].startswith("similarity ")
    assert [line.split()[0] for line in lines[2:4]] == ["red", "dog"]
    assert "of 2, column" in lines[4] and lines[-1] == f"heat map: {out}"
    with Image.open(out) as heat:
        assert heat.size == (64, 64)


def test_explain_overwrites_nothing_that_it_was_not_told_to(command, place, tmp_path):
    picture, out = tmp_path / "red.png", tmp_path / "why.png"
    out.write_text("somebody's")
    before = (place / "pictures" / "red-000.png").read_bytes()
    picture.write_bytes(before)
    asked = ("explain", "red dog", picture, "--model", place / "model", "--out")
    code, _, err = command(*asked, out)
    assert (code, out.read_text()) == (1, "somebody's")
    assert err == (
        f"avow: There is a file {str(out)!r} already. Expected a new name in --out for the "
        "heat map; name another, or add --replace.\n"
    )
    code, shown, _ = command(*asked, out, "--replace")
    assert code == 0 and shown.splitlines()[-1] == f"heat map: {out}"
    with Image.open(out) as heat:
        assert heat.size == (64, 64)
    code, _, err = command(*asked, picture, "--replace")
    assert (code, picture.read_bytes()) == (1, before)
    assert err == (
        f"avow: The heat map would overwrite the picture {str(picture)!r} itself. Expected "
        "another file in --out.\n"
    )


def test_explain_as_json(command, place):
    picture = place / "pictures" / "red-000.png"
    code, out, err = command(
        "explain", "red dog", picture, "--model", place / "model", "--json"
    )
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert [one["word"] for one in found["words"]] == ["red", "dog"]
    assert len(found["cells"]) == len(found["cells"][0]) == 2 and found["out"] is None


def test_explain_into_no_folder(command, place, tmp_path):
    picture, out = place / "pictures" / "red-000.png", tmp_path / "none" / "heat.png"
    code, _, err = command("explain", "dog", picture, "--out", out, "--model", place / "model")
    assert code == 1
    assert err.startswith(f"avow: The heat map cannot be written to {str(out)!r} (")


def test_explain_without_a_picture(command, place, tmp_path):
    code, _, err = command("explain", "dog", tmp_path / "a.png", "--model", place / "model")
    assert code == 1 and "cannot be read" in err
