"""Imports only go down: each part of the package may use the floors below its own.

Not sideways between siblings, not up, and not even inside a function.
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "avow"
FLOORS = [
    ["core"],
    ["blocks"],
    ["methods", "losses", "data", "backbones", "metrics", "uncertainty", "indexes", "trust"],
    ["assembly"],
    ["training", "reports"],
    ["retrieval", "study", "audit"],
    ["api", "web"],
    ["cli"],
]
FLOOR_OF = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}


@cache
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


def modules(pattern: str) -> list[tuple[Path, str]]:
    """Files of the package with their sources."""
    return [(path, path.read_text("utf-8")) for path in sorted(PACKAGE.glob(pattern))]


def wrong_imports(part: str, source: str) -> list[str]:
    """What a file of `part` imports from its own floor or from above."""
    others = sorted(imported_parts(source) - {part})
    return [other for other in others if FLOOR_OF.get(other, len(FLOORS)) >= FLOOR_OF[part]]


def borrowed(path: Path, source: str) -> list[str]:
    """Modules and names with a leading underscore that belong to another folder."""
    home = ["avow", *path.relative_to(PACKAGE).parts[:-1]]
    found = []
    for name in imported_names(source):
        parts = name.split(".")
        private = [place for place, part in enumerate(parts) if part.startswith("_")]
        dunder = [place for place in private if parts[place].startswith("__")]
        if parts[0] == "avow" and private != dunder and parts[: private[0]] != home:
            inside = (PACKAGE.parent / Path(*parts[: private[0]])).with_suffix(".py")
            if inside != path:
                found.append(name)
    return found


def test_imports_only_go_down():
    files = modules("*/**/*.py")
    parts = {path.relative_to(PACKAGE).parts[0] for path, _ in files}
    assert parts - FLOOR_OF.keys() == set(), "these folders stand on no floor: add them"
    found = {
        relative(path): wrong_imports(path.relative_to(PACKAGE).parts[0], source)
        for path, source in files
    }
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_a_wrong_import_would_be_found():
    assert wrong_imports("core", "def f():\n    from avow.trust import policy") == ["trust"]
    assert wrong_imports("trust", "from avow.core import files\nimport avow.indexes") == [
        "indexes"
    ]


def test_private_modules_stay_in_their_folder():
    found = {relative(path): borrowed(path, source) for path, source in modules("**/*.py")}
    assert {path: names for path, names in found.items() if names} == {}


def test_imports_are_absolute():
    found = {
        relative(path): [name for name in imported_names(source) if name.startswith(".")]
        for path, source in modules("**/*.py")
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_the_front_door_only_opens_the_house():
    """A module beside the floors names what is in them; it does nothing of its own."""
    allowed = sys.stdlib_module_names | {"avow"}
    for path, source in modules("*.py"):
        roots = {name.partition(".")[0] for name in imported_names(source)}
        assert roots - allowed == set(), f"{path.name} imports {roots - allowed}"


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
