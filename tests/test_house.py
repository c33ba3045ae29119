"""The house rules that a machine can check."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import avow

ROOT = Path(__file__).parent.parent
LONGEST = 400
LONGEST_FUNCTION = 60
MOST_PARAMETERS = 8
A_PLACE_OF_ONE_MACHINE = re.compile(rb"(?<![\w.~}])/(?:work|root|opt/pypi)/")

FIRST_LINE = re.compile(r'(?:#[^\n]*\n|\s)*r?"""(.*?)(?:"""|\n)')
"""Of a docstring behind comments: to parse every file takes seconds."""


def is_python(path: Path) -> bool:
    if path.suffix:
        return path.suffix == ".py"
    with path.open("rb") as stream:
        first = stream.readline()
    return first.startswith(b"#!") and b"python" in first


def python_files() -> list[Path]:
    folders = ("avow", "scripts", "benchmarks", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return sorted(path for path in files if path.is_file() and is_python(path))


def tracked_files() -> list[Path]:
    """What git keeps or would keep; every file when this is no clone."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is not a git clone")
    files = [ROOT / name for name in done.stdout.split("\0") if name]
    return [path for path in files if path.is_file()]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def declared_version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_first_line_says_what_the_file_is_for():
    found = {}
    for path in python_files():
        begins = FIRST_LINE.match(path.read_text("utf-8"))
        if begins is None or not begins[1].rstrip().endswith((".", "?")):
            found[relative(path)] = begins and begins[1]
    assert found == {}, "these files do not begin with a sentence"


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{relative(path)}: {node.name}", node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_no_function_is_long():
    """Kernels are one piece each, and the training loop is there to be read in one."""
    found = {
        name: node.end_lineno - node.lineno + 1
        for path in sorted((ROOT / "avow").rglob("*.py"))
        for name, node in functions(path)
        if node.end_lineno is not None and node.end_lineno - node.lineno >= LONGEST_FUNCTION
        if "_kernels.py" not in name and "training/loop.py" not in name
    }
    assert found == {}


def test_no_function_takes_many_parameters():
    """What a user chooses is a keyword each: commands, `build` and what `build` forwards."""
    found = {
        name: parameters(node)
        for path in sorted((ROOT / "avow").rglob("*.py"))
        for name, node in functions(path)
        if parameters(node) > MOST_PARAMETERS
        if not name.startswith("avow/cli/") and node.name != "build"
        if "_kernels.py" not in name
    }
    assert found == {}


def test_no_file_of_the_package_is_long():
    files = [path for path in (ROOT / "avow").rglob("*") if path.is_file()]
    lengths = {
        relative(path): len(path.read_bytes().splitlines())
        for path in files
        if path.suffix in (".py", ".css", ".js", ".html", ".toml")
    }
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_no_drawer_for_everything():
    """A helper lives where its subject lives; `utils` is no subject."""
    names = {"utils", "util", "helpers", "common", "misc"}
    assert [relative(path) for path in python_files() if path.stem in names] == []


def test_no_file_knows_the_machine_it_was_written_on():
    found = []
    for path in tracked_files():
        content = path.read_bytes()
        # a plain search is many times faster, and most of what is here are weights
        if not any(b"/%b/" % name in content for name in (b"work", b"root", b"opt/pypi")):
            continue
        if place := A_PLACE_OF_ONE_MACHINE.search(content):
            found.append(f"{relative(path)}: {place[0].decode()}")
    assert found == []


def test_changelog_begins_with_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    noted = re.findall(r"^## \[(\d[^\]]*)\]", changelog, flags=re.MULTILINE)
    assert noted[0] == declared_version()


def test_package_has_this_version():
    assert avow.__version__ == declared_version()


def test_citation_has_this_version():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [declared_version()]


def test_commands_of_the_readme_exist():
    readme = (ROOT / "README.md").read_text("utf-8")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"(?:^|`|&& )make ([a-z]+)", readme, re.MULTILINE))
    assert named, "the README names no make command"
    assert named - set(targets) == set()
    scripts = set(re.findall(r"(?<![\w/])scripts/[a-z]+", readme))
    assert [name for name in scripts if not (ROOT / name).is_file()] == []


def test_torchvision_is_not_asked_for():
    """Beside some builds of torch it breaks the import of transformers."""
    for name in ("pyproject.toml", "constraints.txt"):
        assert "torchvision" not in (ROOT / name).read_text("utf-8")


def test_constraints_are_plain_pins():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert "torch==2.13.0" in pins
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []


def test_every_file_of_the_package_is_in_the_wheel():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    patterns = settings["setuptools"]["package-data"]["avow"]
    packed = {path for pattern in patterns for path in (ROOT / "avow").glob(pattern)}
    files = {path for path in tracked_files() if ROOT / "avow" in path.parents}
    missing = {relative(path) for path in files - packed if path.suffix != ".py"}
    assert missing == set()
