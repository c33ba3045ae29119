"""The folder is the registry, and says in whole sentences what it does not have."""

import importlib
import sys
from types import ModuleType

import pytest

from avow.core import folder
from avow.core.errors import AvowError, BadRecipe, CodeNotAllowed, UnknownName

HAMMER = '''"""A hammer."""


def build(*, weight: float = 1.0, handle: str = "ash") -> tuple[float, str]:
    return weight, handle
'''
STONE = '''"""A stone, which has no settings."""


def build() -> str:
    return "stone"
'''


@pytest.fixture
def tools(tmp_path, monkeypatch) -> ModuleType:
    """A package of two parts and one shared file, reached through sys.path."""
    files = {
        "avowtest_tools/__init__.py": "",
        "avowtest_tools/hammer.py": HAMMER,
        "avowtest_tools/stone.py": STONE,
        "avowtest_tools/_shared.py": "",
        "avowtest_elsewhere/__init__.py": "",
        "avowtest_elsewhere/mallet.py": HAMMER,
        "avowtest_elsewhere/broken.py": "import avowtest_nothing\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("avowtest_tools")
    for name in [name for name in sys.modules if name.startswith("avowtest_")]:
        del sys.modules[name]


def test_names_are_the_files_without_importing_them(tools):
    assert folder.names(tools) == ["hammer", "stone"]
    assert "avowtest_tools.hammer" not in sys.modules


def test_build_passes_the_settings_on(tools):
    assert folder.build(tools, "hammer", weight=2.0) == (2.0, "ash")
    assert folder.build(tools, "stone") == "stone"


def test_settings_come_from_the_signature(tools):
    settings = folder.settings(tools, "hammer")
    assert {name: setting.default for name, setting in settings.items()} == {
        "weight": 1.0,
        "handle": "ash",
    }


def test_unknown_name_says_what_you_meant(tools):
    with pytest.raises(UnknownName) as caught:
        folder.build(tools, "hamer")
    assert str(caught.value) == (
        "There is no 'hamer' in avowtest_tools. Did you mean 'hammer'? "
        "There are: hammer, stone."
    )


def test_unknown_name_without_a_neighbour_lists_all(tools):
    with pytest.raises(UnknownName) as caught:
        folder.build(tools, "xylophone")
    assert str(caught.value) == (
        "There is no 'xylophone' in avowtest_tools. There are: hammer, stone."
    )


def test_a_shared_file_is_not_a_name(tools):
    with pytest.raises(UnknownName) as caught:
        folder.build(tools, "_shared")
    assert str(caught.value).endswith("There are: hammer, stone.")


def test_unknown_setting_lists_the_real_ones(tools):
    with pytest.raises(BadRecipe) as caught:
        folder.build(tools, "hammer", wieght=2.0)
    assert str(caught.value) == (
        "'hammer' in avowtest_tools has no setting 'wieght'. Did you mean 'weight'? "
        "It has: weight, handle."
    )


def test_unknown_setting_of_a_part_without_settings(tools):
    with pytest.raises(BadRecipe) as caught:
        folder.build(tools, "stone", weight=2.0)
    assert str(caught.value) == (
        "'stone' in avowtest_tools has no setting 'weight'. It has: none."
    )


def test_a_dotted_name_reaches_outside(tools):
    name = "avowtest_elsewhere.mallet"
    made = folder.make(tools, name, {"handle": "oak"}, allow_code=True)
    assert made == (1.0, "oak")
    assert folder.make(tools, name, {}, allow_code=[name]) == (1.0, "ash")


def test_a_dotted_name_is_not_imported_unless_it_is_allowed(tools):
    name = "avowtest_elsewhere.mallet"
    for allowed in (False, [], ["avowtest_elsewhere.other"]):
        with pytest.raises(CodeNotAllowed, match=r"'avowtest_elsewhere\.mallet'.*--allow-code"):
            folder.make(tools, name, {}, allow_code=allowed)
    assert "avowtest_elsewhere" not in sys.modules


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", ".hammer", "hammer.", "avowtest_tools..hammer", "../hammer"),
        *("a/b.c", "hammer.py:x", "os.system('x')", "avowtest_elsewhere.mallet\n", "\ud800"),
        *("a.b" * 100, "e\u0301.b"),
    ],
)
@pytest.mark.parametrize("allowed", [False, True])
def test_a_name_that_is_no_name_is_refused_in_words(tools, name, allowed):
    before = set(sys.modules)
    with pytest.raises(AvowError, match=r"Expected|There are"):
        folder.make(tools, name, {}, allow_code=allowed)
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("avowtest_elsewhere.absent", "avowtest_elsewhere.absent"),
        ("avowtest_elsewhere.broken", "avowtest_nothing"),
        ("avowtest_nowhere.mallet", "avowtest_nowhere"),
    ],
)
def test_a_dotted_name_that_cannot_be_imported(tools, name, missing):
    with pytest.raises(BadRecipe) as caught:
        folder.make(tools, name, {}, allow_code=True)
    assert str(caught.value) == (
        f"The module {name!r} cannot be imported (No module named {missing!r}). "
        "A dotted name is a Python module with a `build` function; install it or "
        "check its spelling."
    )
