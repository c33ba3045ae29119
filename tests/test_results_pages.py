"""No figure of a results page or of the README is typed: all come from benchmarks/results."""

import ast
import json
import re
from pathlib import Path

import pytest
from every import every

from avow.assembly.recipe import Recipe
from benchmarks.pages import PAPERS, RESULTS, acmnet, figures, plots, readme, verdicts

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


def test_a_plot_shows_what_the_files_of_results_give():
    for plot in plots.every():
        assert plot.mark in plot.path.read_text("utf-8"), "run scripts/docs"
        paper = plot.path.name.partition("-")[0]
        assert plot.shown() in (ROOT / "docs" / "papers" / f"{paper}.md").read_text("utf-8")


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
    assert verdicts.Comparison("it helps", theirs, better, worse).verdict == verdict


def test_the_same_seeds_are_compared_seed_by_seed():
    """Seeds that differ much, and a difference that hardly does."""
    found = verdicts.Comparison("it helps", 5.0, [310.0, 280.0, 331.0], [300.0, 271.0, 320.0])
    assert found.spread == pytest.approx(1 / 3**0.5) and found.verdict == "agrees"
    apart = verdicts.Comparison("it helps", 5.0, [310.0, 280.0, 331.0], [300.0, 271.0], True)
    assert apart.verdict == "undecided: within the spread (2 seeds, unequal training)"


RECIPES = sorted(
    {
        recipe
        for items in verdicts.published("items").values()
        for item in items.values()
        for recipe in item["recipes"]
    }
)


def test_what_an_item_of_a_paper_needs_can_be_trained():
    def check(recipe: str) -> None:
        name, *changes = recipe.split("+")
        Recipe.open(name, changes).build_loss()

    every(RECIPES, check)


def rows_of(table: dict) -> dict[str, dict]:
    if "methods" not in table:
        return table.get("rows", {})
    return {
        f"{name}, {row}": entry
        for name, method in table["methods"].items()
        for row, entry in method.items()
    }


def test_what_a_paper_printed_adds_up_but_for_four_rows():
    """Rounding aside; IMRAM, SAF and SCAN as published do not, and the pages say so."""
    wrong, checked = [], 0
    for paper in ("tcl", "tcvse", "acmnet", "decl"):
        for name, table in verdicts.published(paper).items():
            for key, row in rows_of(table).items() if isinstance(table, dict) else ():
                assert (None in row["recalls"]) == (row["rsum"] is None)
                if row["rsum"] is not None:
                    checked += 1
                    if abs(sum(row["recalls"]) - row["rsum"]) > 0.15:
                        wrong.append(f"{paper}, {name}, {key}")
    assert checked > 130
    assert wrong == [
        "tcl, Table V, IMRAM, published",
        "tcl, Table V, SAF, published",
        "acmnet, Table 2, SCAN",
        "acmnet, Table 4, GI, SCAN i-t AVG",
    ]


EQUATIONS = [
    (paper, equation)
    for paper in ("tcl", "tcvse", "acmnet", "decl", "uncertainty")
    for equation in verdicts.published(paper)["equations"]
]


def test_an_equation_has_its_file_and_the_tests_that_meet_it():
    every(EQUATIONS, is_met)


def is_met(one: tuple[str, dict]) -> None:
    """Or says why not."""
    _, equation = one
    if not equation["where"]:
        assert equation["why"] and not equation["shown"]
        return
    assert (ROOT / equation["where"]).exists() and equation["shown"]
    for test in equation["shown"]:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text("utf-8")


def test_no_verdict_is_drawn_from_runs_that_were_trained_unequally():
    found = verdicts.unequal_training("flickr8k/acmnet_gt_hinge", "flickr8k/scan_t2i_hinge")
    assert found == "unequal batch (128 and 64)"
    even = "flickr8k/acmnet_gt_hinge+train.batch=64"
    assert verdicts.unequal_training(even, "flickr8k/scan_t2i_hinge") == ""
    claim = verdicts.Comparison("it helps", 5.0, [310.0], [300.0], barred=found)
    assert claim.verdict == f"no verdict: {found}" and claim.told == "+10.0"


def test_one_seed_is_judged_by_how_far_seeds_usually_are_apart():
    near = verdicts.Comparison("it helps", 5.0, [310.0], [304.0], usual=3.0)
    far = verdicts.Comparison("it helps", 5.0, [310.0], [300.0], usual=3.0)
    assert near.spread == pytest.approx(3 * 2**0.5)
    assert near.verdict == "undecided: within the spread (1 seed)"
    assert far.verdict == "agrees (1 seed)"


def test_what_was_not_run_says_how():
    missing = verdicts.not_yet("acmnet", "Table 4")
    claim = verdicts.Comparison("it helps", 5.0, None, [300.0], usual=3.0, otherwise=missing)
    assert claim.verdict == (
        "not run here yet: "
        '`python -m benchmarks.quality.papers acmnet "Table 4" --features DIR`'
    )
    assert claim.told == ""


def test_the_runs_that_a_page_prefers_are_those_of_its_items():
    """Otherwise what the printed command trains would never be shown."""
    items = verdicts.published("items")["acmnet"]
    listed = {run for name in ("Table 4", "Table 4, factors") for run in items[name]["recipes"]}
    assert {preferred for preferred, _, _ in acmnet.ROWS.values()} == listed


def test_a_page_shows_runs_at_equal_settings_once_they_are_there(monkeypatch):
    runs = verdicts.published("items")["acmnet"]["Table 4"]["recipes"]
    values = {runs[0]: [270.0, 271.0, 272.0], runs[1]: [280.0, 281.0, 282.0]}
    summary = {run: {"model": {"values": found}} for run, found in values.items()}
    loaded, there = figures.load, figures.exists
    monkeypatch.setattr(
        figures,
        "load",
        lambda name: {"summary": summary} if name == "papers/acmnet" else loaded(name),
    )
    monkeypatch.setattr(figures, "exists", lambda name: name == "papers/acmnet" or there(name))
    gate = acmnet.gates()[0]
    assert (gate.told, gate.verdict) == ("+10.0 ± 0.0", "agrees")


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


def test_no_figure_is_typed_into_a_page():
    keys = re.compile(r"0|0\.\d")  # shares of wrong pairs, as the files name them
    typed = [
        (path.name, text)
        for path in MODULES
        for text in sentences(path)
        if TYPED.search(text) and not keys.fullmatch(text)
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
