"""Figures are marked as older where the code of their run has changed, and only there."""

import shutil
from pathlib import Path

import pytest

from benchmarks import _code_age
from benchmarks.pages import figures

TCL, HINGE = "flickr8k/vse_infty_tcl", "flickr8k/vse_infty_hinge"


@pytest.fixture
def copy(tmp_path, monkeypatch) -> Path:
    """A copy of the code that can be changed."""
    for room in (*_code_age.ROOMS, "core"):
        ignored = shutil.ignore_patterns("__pycache__", "*.txt")
        shutil.copytree(_code_age.PACKAGE / room, tmp_path / room, ignore=ignored)
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    shutil.copytree(_code_age.PACKAGE / "recipes" / "flickr8k", recipes / "flickr8k")
    monkeypatch.setattr(_code_age, "PACKAGE", tmp_path)
    return tmp_path


def numbers() -> tuple[str | None, str | None]:
    _code_age._imported.cache_clear()
    _code_age._meaning.cache_clear()
    return _code_age.code_of(TCL), _code_age.code_of(HINGE)


@pytest.fixture(autouse=True)
def forget():
    yield
    _code_age._imported.cache_clear()
    _code_age._meaning.cache_clear()


def add(file: Path, line: str) -> None:
    file.write_text(f"{file.read_text('utf-8')}\n{line}\n", "utf-8")


def test_only_code_that_a_run_uses_makes_it_older(copy):
    before = numbers()
    add(copy / "losses" / "selhn.py", "changed = True")
    assert numbers() == before
    add(copy / "losses" / "tcl.py", '# a comment\n"""and a text"""')
    assert numbers() == before
    add(copy / "losses" / "tcl.py", "changed = True")
    tcl, hinge = numbers()
    assert tcl != before[0] and hinge == before[1]
    add(copy / "blocks" / "rank_pooling.py", "changed = True")  # imported by way of pooling
    assert numbers()[1] != before[1]
    before = numbers()
    add(copy / "core" / "gamma.py", "changed = True")  # the arithmetic of opinions
    assert numbers()[0] != before[0]


def test_a_transformer_counts_where_it_is_asked(copy):
    asking = f"{TCL}+method.text=adapted", f"{TCL}+loss.others=graded"
    before, asked = numbers(), [_code_age.code_of(one) for one in asking]
    add(copy / "blocks" / "lora_text.py", "changed = True")
    assert numbers() == before
    assert all(_code_age.code_of(one) not in asked for one in asking)


def test_changes_of_a_recipe_keep_its_number_and_strangers_have_none():
    assert _code_age.code_of(f"{TCL}+loss.tau=0.1") == _code_age.code_of(TCL)
    assert _code_age.code_of(f"{TCL}+loss.name=hinge") != _code_age.code_of(TCL)
    assert _code_age.code_of("somewhere/else") is None


def test_a_page_names_the_runs_that_are_older_than_their_code():
    new = {"recipe": HINGE, "commit": "abc", "code": _code_age.code_of(HINGE)}
    old = {"recipe": TCL, "commit": "abc", "code": "earlier"}
    unknown = {"recipe": TCL, "commit": "def"}
    assert figures.age([new]) == "Runs by commit: abc (1)."
    told = figures.age([new, old, unknown])
    assert told.startswith("Runs by commit: abc (2), def (1).")
    assert told.endswith(f"Older than the code they depend on: 1 of 2 runs (`{TCL}`).")
    assert figures.age([{"recipe": TCL}]) == ""
