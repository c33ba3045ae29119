"""The reference is complete: every public name, variable, route and file has its entry."""

import csv
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from encoders import ColourEncoder, picture

import avow
from avow.retrieval.calibrate import FEWEST
from avow.retrieval.indexing import index_folders

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
CODE = ("avow", "scripts", "tests")


def text_of(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def test_every_variable_of_the_code_is_on_its_page_and_no_other():
    files = [path for place in CODE for path in (ROOT / place).rglob("*") if path.is_file()]
    ours = {Path(__file__), ROOT / "scripts" / "pages" / "environment.py"}
    names = {
        name
        for path in [*files, ROOT / "Makefile"]
        if path not in ours and path.suffix in ("", ".py", ".js", ".html")
        for name in re.findall(r"\bAVOW_[A-Z_]*[A-Z]\b", path.read_text("utf-8", "replace"))
    }
    listed = set(re.findall(r"^\| `(AVOW_[A-Z_]+)`", text_of("environment.md"), re.MULTILINE))
    assert listed == names
    assert len(names) >= 6


def test_every_public_name_is_on_its_page_and_no_other():
    headings = re.findall(r"^## avow\.(\w+)$", text_of("python.md"), re.MULTILINE)
    assert headings == list(avow.__all__)


def test_every_route_is_on_its_page_and_no_other():
    route = re.compile(r"@router\.(get|post|put|delete)\(\s*[\"']([^\"']*)")
    prefix = re.compile(r"APIRouter\([^)]*prefix=[\"']([^\"']+)")
    routes = set()
    for path in (ROOT / "avow" / "api").glob("*.py"):
        source = path.read_text("utf-8")
        before = prefix.search(source)
        routes |= {
            f"{method.upper()} {before[1] if before else ''}{place}"
            for method, place in route.findall(source)
        }
    headings = set(re.findall(r"^## ([A-Z]+ /\S+)$", text_of("http-api.md"), re.MULTILINE))
    assert headings == routes
    assert len(routes) > 5


def test_every_recipe_has_one_line():
    recipes = ROOT / "avow" / "recipes"
    names = {p.relative_to(recipes).with_suffix("").as_posix() for p in recipes.rglob("*.toml")}
    rows = re.findall(r"^\| `([^`]+)` \| [^|]+ \|", text_of("recipes.md"), re.MULTILINE)
    assert len(rows) == len(names)
    assert set(rows) == names


def test_every_file_of_an_index_is_described(tmp_path):
    photographs, index = tmp_path / "photographs", tmp_path / "index"
    photographs.mkdir()
    picture("red").save(photographs / "red.png")
    index_folders([photographs], index=index, encoder=ColourEncoder())
    described = text_of("formats.md").partition("## Run folder")[0]
    named = set(re.findall(r"`(?:models/FINGERPRINT/)?([\w.-]+)`", described))
    found = {
        re.sub(r"\.\d+$", ".N", path.name)
        for path in index.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }
    assert found - named == set()
    assert "catalogue.sqlite" in found and "vectors.N" in found


def test_where_is_what_answers_the_twelve_tasks():
    page = (ROOT / "docs" / "explanation" / "where-is-what.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+)\. [^|]+ \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, 13))
    assert all("`avow/" in now for _, _, now in rows)


@pytest.fixture
def demo_pairs() -> list[dict[str, str]]:
    with (ROOT / "docs" / "tutorial" / "demo-pairs.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_pairs_of_the_tutorial_need_the_ticks(demo_pairs):
    """The tutorial says: too few by themselves, enough with the eight good answers."""
    queries = {row["query"] for row in demo_pairs}
    page = (ROOT / "docs" / "tutorial" / "search-and-tick.md").read_text("utf-8")
    ticked = set(re.findall(r'^    "([^"]+)": "[\w.]+",$', page, re.MULTILINE))
    assert len(ticked) == 10
    assert len(queries) < FEWEST <= len(queries | ticked) - 2


def test_the_pairs_of_the_tutorial_name_photographs_of_the_demo(demo_pairs):
    names = set()
    for package, inside in (("skimage", "data"), ("sklearn", "datasets/images")):
        found = find_spec(package)
        assert found is not None and found.submodule_search_locations
        names |= {
            path.name for path in Path(found.submodule_search_locations[0], inside).iterdir()
        }
    assert {row["file"] for row in demo_pairs} - names == set()
