"""No figure of a results page or of the README is typed: all come from benchmarks/results."""

import ast
import json
import re
from pathlib import Path

import pytest

from avow.assembly.recipe import Recipe
from benchmarks.pages import PAPERS, RESULTS, figures, papers, readme

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
MODULES = sorted((ROOT / "benchmarks" / "pages").glob("*.py"))
# A decimal, or a whole number with a unit; "95 % interval" is a convention and no result.
TYPED = re.compile(r"(?<![\w=])\d*\.\d+|(?<![\w=.])\d+(?= ?(?:%(?! interval)|ms\b|s\b|GB|/s))")


@pytest.mark.parametrize("name", RESULTS)
def test_a_page_is_what_the_files_of_results_give(name):
    page = ROOT / "docs" / "results" / f"{name}.md"
    assert page.read_text("utf-8") == RESULTS[name](), "run scripts/docs"


@pytest.mark.parametrize("name", PAPERS)
def test_a_page_of_a_paper_is_what_the_files_give(name):
    page = ROOT / "docs" / "papers" / f"{name}.md"
    assert page.read_text("utf-8") == PAPERS[name](), "run scripts/docs"


@pytest.mark.parametrize(
    "theirs, better, worse, verdict",
    [
        (5.0, [310.0, 312.0, 311.0], [300.0, 301.0, 299.0], "agrees"),
        (5.0, [290.0, 292.0, 291.0], [300.0, 301.0, 299.0], "disagrees"),
        (-5.0, [290.0, 292.0, 291.0], [300.0, 301.0, 299.0], "agrees"),
        (5.0, [310.0, 290.0, 311.0], [300.0, 301.0, 299.0], "undecided: within the spread"),
        (5.0, [310.0], [300.0, 301.0, 299.0], "agrees (1 seed)"),
        (5.0, [310.0, 311.0], [300.0, 301.0], "agrees (2 seeds)"),
        (5.0, None, [300.0], "not run here yet"),
    ],
)
def test_a_verdict_follows_from_signs_and_seeds(theirs, better, worse, verdict):
    assert papers.Comparison("it helps", theirs, better, worse).verdict == verdict


def test_the_same_seeds_are_compared_seed_by_seed():
    """Seeds that differ much, and a difference that hardly does."""
    found = papers.Comparison("it helps", 5.0, [310.0, 280.0, 331.0], [300.0, 271.0, 320.0])
    assert found.spread == pytest.approx(1 / 3**0.5) and found.verdict == "agrees"
    apart = papers.Comparison("it helps", 5.0, [310.0, 280.0, 331.0], [300.0, 271.0], True)
    assert apart.verdict == "undecided: within the spread (2 seeds, unequal epochs)"


RECIPES = sorted(
    {
        recipe
        for items in papers.published("items").values()
        for item in items.values()
        for recipe in item["recipes"]
    }
)


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_an_item_of_a_paper_needs_can_be_trained(recipe):
    name, *changes = recipe.split("+")
    Recipe.open(name, changes).build_loss()


def test_what_a_paper_printed_adds_up_but_for_two_rows():
    """Rounding aside; IMRAM and SAF as published do not, and the page says so."""
    wrong = []
    for paper in ("tcl", "tcvse"):
        for table in papers.published(paper).values():
            if not isinstance(table, dict):
                continue
            rows = table.get("rows") or {
                f"{name}, {row}": entry
                for name, method in table["methods"].items()
                for row, entry in method.items()
            }
            wrong += [k for k, v in rows.items() if abs(sum(v["recalls"]) - v["rsum"]) > 0.15]
    assert wrong == ["IMRAM, published", "SAF, published"]


def test_the_table_of_the_readme_is_what_the_files_of_results_give():
    assert readme.fill(README) == README, "run scripts/docs"


def test_another_figure_in_a_file_changes_page_and_readme(monkeypatch):
    document = json.loads((ROOT / "benchmarks/results/default_model.json").read_text())
    document["rows"]["flickr8k"]["shown"]["text_to_image"][0] = 12.34
    kept = figures.load
    monkeypatch.setattr(
        figures, "load", lambda name: document if name == "default_model" else kept(name)
    )
    assert "| 12.3 |" in RESULTS["recall"]()
    assert "| 12.3, " in readme.fill(README)
    assert readme.fill(README) != README


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 130
    table = readme.BETWEEN.findall(README)[0]
    assert 1 <= len([line for line in table.splitlines() if line.startswith("| ")]) - 2 <= 8


def test_the_readme_has_figures_in_its_table_alone():
    text = readme.BETWEEN.sub("", README)
    text = re.sub(r"^```.*?^```|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    versions = {"3.11", "2.0", "2025"}  # Python, Apache, and the year of a paper
    assert {found.rstrip(".,") for found in re.findall(r"\d[\d.,]*", text)} <= versions


def test_the_readme_without_its_marks_is_refused():
    with pytest.raises(ValueError, match="needs one"):
        readme.fill("# Avow\n")


def sentences(path: Path) -> list[str]:
    """Every piece of text in a module that is neither a docstring nor a format."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.FormattedValue) and node.format_spec
        for part in ast.walk(node.format_spec)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node):
            statement = node.body[0]
            assert isinstance(statement, ast.Expr)
            skipped.add(id(statement.value))
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in skipped
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_no_figure_is_typed_into_a_page(path):
    keys = re.compile(r"0|0\.\d")  # shares of wrong pairs, as the files name them
    typed = [
        text for text in sentences(path) if TYPED.search(text) and not keys.fullmatch(text)
    ]
    assert typed == []


def test_a_typed_figure_would_be_noticed():
    for text in ("R@1 is 47.0 here", "took 158 s", "refuses 93 % of them", "AUROC .778"):
        assert TYPED.search(text)


@pytest.mark.parametrize(
    "value, digits, text",
    [
        (34.5, 0, "35"),
        (26.4, 0, "26"),
        (0.75, 1, "0.8"),
        (1000, 0, "1,000"),
        (47.05, 1, "47.0"),
    ],
)
def test_numbers_round_half_up(value, digits, text):
    assert figures.number(value, digits) == text


def test_spread_is_that_of_the_seeds():
    assert figures.several([1.0, 2.0, 3.0]) == "2.0 ± 1.0"
    assert figures.several([2.04]) == "2.0"
