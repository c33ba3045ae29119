"""Imports only go down: each part of the package may use the floors below its own.

Not sideways between siblings, not up, and not even inside a function.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "avow"
FLOORS = [
    ["core"],
    ["blocks"],
    ["methods", "losses", "data", "backbones", "metrics", "uncertainty", "indexes"],
    ["assembly"],
    ["training", "trust"],
    ["retrieval"],
    ["api", "web"],
    ["cli"],
]
FLOOR_OF = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}


def imported_names(source: str) -> set[str]:
    """Every module that `source` imports, at its top or in a function."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            names |= {f"{start}.{alias.name}" for alias in node.names}
    return names


def imported_parts(source: str) -> set[str]:
    """The parts of the package among them."""
    ours = {name for name in imported_names(source) if name.startswith("avow.")}
    return {name.split(".")[1] for name in ours}


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*/**/*.py")), ids=relative)
def test_imports_only_go_down(path):
    part = path.relative_to(PACKAGE).parts[0]
    assert part in FLOOR_OF, f"{part!r} stands on no floor. Add it to FLOORS."
    for other in imported_parts(path.read_text("utf-8")) - {part}:
        assert other in FLOOR_OF, f"{part} imports {other!r}, which is on no floor"
        assert FLOOR_OF[other] < FLOOR_OF[part], f"{part} must not import {other}"


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("**/*.py")), ids=relative)
def test_imports_are_absolute(path):
    names = imported_names(path.read_text("utf-8"))
    assert not [name for name in names if name.startswith(".")]


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=relative)
def test_the_front_door_only_opens_the_house(path):
    """A module beside the floors names what is in them; it does nothing of its own."""
    standard = sys.stdlib_module_names
    for name in imported_names(path.read_text("utf-8")):
        root = name.partition(".")[0]
        assert root == "avow" or root in standard, f"{path.name} imports {name}"


def test_import_is_light():
    """Only the parts that need a heavy package import it, when they are used."""
    heavy = {"accelerate", "transformers", "skimage", "sklearn", "tensorboard", "nltk"}
    code = "import sys, avow; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not heavy & set(done.stdout.split())


def test_a_relative_or_hidden_import_is_seen():
    source = "from . import a\ndef f():\n    import avow.cli.x\n    from avow import api"
    assert imported_names(source) == {"..a", "avow.cli.x", "avow.api"}
    assert imported_parts(source) == {"cli", "api"}
