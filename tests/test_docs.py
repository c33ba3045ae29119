"""What the documentation says can be typed, followed and run."""

import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from every import every
from samples import regions, tokens
from typer.main import get_command

from avow import methods
from avow.assembly.recipe import names as recipe_names
from avow.cli import app
from avow.core import folder

ROOT = Path(__file__).parent.parent
EVERY = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
PAGES = sorted(page for page in EVERY if page.is_file())
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"^\s*(?:\$ )?(?:\S+=\S+ )*(?:avow|(?:torchrun|python)\b.* -m avow) (.+)$")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, *kinds: str) -> Iterator[str]:
    """The fenced blocks of a page, all or those of some languages."""
    for kind, body in BLOCK.findall(page.read_text("utf-8")):
        if not kinds or kind in kinds:
            yield body


@cache
def commands(page: Path) -> list[tuple[str, ...]]:
    """The arguments of every `avow` command line; a backslash continues a line."""
    found = []
    for body in blocks(page):
        for line in body.replace("\\\n", " ").splitlines():
            if match := COMMAND.match(line):
                words = shlex.split(re.split(r"\s[|>&;]", match[1])[0], comments=True)
                found.append(tuple(words))
    return found


@cache
def program() -> Any:
    return get_command(app)


@cache
def parsed(arguments: tuple[str, ...]) -> dict[str, Any]:
    """What the program would understand of a command line, without running it."""
    known: dict[str, Any] = program().commands
    name, rest = arguments[0], arguments[1:]
    if name.startswith("--"):
        assert name in {option for one in program().params for option in one.opts}
        return {}
    assert name in known, f"there is no command {name!r}"
    return known[name].make_context(name, list(rest)).params


def test_there_are_pages_and_commands():
    assert len(PAGES) > 8
    assert sum(len(commands(page)) for page in PAGES) > 20


def test_commands_and_their_options_exist():
    every(PAGES, lambda page: [parsed(arguments) for arguments in commands(page)])


def test_a_wrong_option_would_be_found():
    with pytest.raises(Exception, match="No such option"):
        parsed(("train", "flickr8k/vse_infty_tcl", "--epochs", "3"))


def test_recipes_exist():
    known, missing = recipe_names(), []
    for page in PAGES:
        for arguments in commands(page):
            given = parsed(arguments)
            named = given.get("recipe")
            named = named or (given.get("name") if arguments[0] == "recipes" else "")
            if named and not named.endswith(".toml") and not named.isupper():
                missing += [(relative(page), named)] * (named not in known)
    assert missing == []


def test_recipes_named_in_the_text_exist():
    known = recipe_names()
    folders = {name.partition("/")[0] for name in known}
    recipe = re.compile(rf"`((?:{'|'.join(sorted(folders))})/\w+)`")
    named = {
        (relative(page), name)
        for page in PAGES
        for name in recipe.findall(page.read_text("utf-8"))
    }
    assert {(page, name) for page, name in named if name not in known} == set()


def test_links_lead_somewhere():
    lost = [
        (relative(page), target)
        for page in PAGES
        for target in LINK.findall(page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert lost == []


def files_named(page: Path) -> set[str]:
    """Files of the repository in the text, without those that a reader would write."""
    text = page.read_text("utf-8")
    named = set(re.findall(r"`((?:avow|benchmarks|tests|scripts)/[\w/.]+)`", text))
    return {name for name in named if "mine" not in name and "topmean" not in name}


def test_files_named_in_the_text_exist():
    named = {(relative(page), name) for page in PAGES for name in files_named(page)}
    assert {(page, name) for page, name in named if not (ROOT / name).exists()} == set()


def test_python_compiles():
    every(
        PAGES,
        lambda page: [
            compile(body, str(page), "exec") for body in blocks(page, "python", "py")
        ],
    )


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - {index}
    assert pages - linked == set()


def test_the_example_of_opinion_gives_the_figures_beside_it(capsys):
    page = ROOT / "docs" / "explanation" / "opinion.md"
    (body,) = blocks(page, "python")
    place: dict = {}
    exec(compile(body, str(page), "exec"), place)
    opinion, text = place["opinion"], page.read_text("utf-8")
    assert f"belief of {opinion.belief[0, 0]:.4f}" in text
    assert f"u is {opinion.uncertainty[0]:.4f}." in text
    assert capsys.readouterr().out


@pytest.fixture
def example(tmp_path, monkeypatch) -> Iterator[str]:
    """The method of add-a-method.md in a package of its own; its dotted name."""
    page = ROOT / "docs" / "how-to" / "add-a-method.md"
    (body,) = blocks(page, "python")
    home = tmp_path / "avowtest_shop"
    home.mkdir()
    (home / "__init__.py").touch()
    (home / "topmean.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield "avowtest_shop.topmean"
    for name in [name for name in sys.modules if name.startswith("avowtest_shop")]:
        del sys.modules[name]


def test_the_example_method_works(example):
    """Against a plain loop: the mean of the largest values that are present."""
    torch.manual_seed(0)
    chosen = {"visual_dim": 12, "vocabulary": 30, "dim": 8, "most": 2}
    method = folder.make(methods, example, chosen, allow_code=True)
    visual, text = regions([5, 3, 1]), tokens([7, 4])
    images, texts = method.encode_visual(visual), method.encode_text(text)
    scores = method.similarity(images, texts)
    assert scores.shape == (3, 2)
    parts = method.visual(visual.features)
    for row, count in enumerate([5, 3, 1]):
        mean = parts[row, :count].sort(0, descending=True).values[:2].mean(0)
        torch.testing.assert_close(images.parts[row, 0], mean / mean.norm())
    scores.sum().backward()
    gradients = [parameter.grad for parameter in method.parameters()]
    assert all(grad is not None and grad.isfinite().all() for grad in gradients)
