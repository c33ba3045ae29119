"""What surrounds the code: workflows, templates, hooks, the site, the version, completion."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import avow

ROOT = Path(__file__).parent.parent
WORKFLOWS = ROOT / ".github" / "workflows"
YAML = sorted(
    [
        *WORKFLOWS.glob("*.yml"),
        *(ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"),
        ROOT / ".pre-commit-config.yaml",
        ROOT / "mkdocs.yml",
    ]
)
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def read(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def commands(workflow: Path) -> list[str]:
    jobs = read(workflow)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_can_be_read(path):
    assert read(path)


def test_the_tests_run_where_avow_is_used():
    (job,) = read(WORKFLOWS / "test.yml")["jobs"].values()
    systems, pythons = job["strategy"]["matrix"]["system"], job["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12", "3.13"]
    assert any(name.startswith("macos") for name in systems)
    assert any(name.endswith("-arm") for name in systems)
    assert any(name.startswith("ubuntu") and not name.endswith("-arm") for name in systems)
    assert commands(WORKFLOWS / "test.yml") == ["make test PYTHON=python"]


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_calls_make_and_nothing_else(path):
    for command in commands(path):
        program, target, *_ = command.split()
        assert program == "make"
        assert target in TARGETS
    assert read(path)["permissions"] == {"contents": "read"}


def test_wheel_and_site_are_built():
    assert {command.split()[1] for command in commands(WORKFLOWS / "build.yml")} == {
        "wheel",
        "site",
    }


@pytest.mark.parametrize("name", ["bug.yml", "idea.yml"])
def test_an_issue_template_has_what_a_form_needs(name):
    form = read(ROOT / ".github" / "ISSUE_TEMPLATE" / name)
    assert {"name", "description", "body"} <= set(form)
    identifiers = [part["id"] for part in form["body"]]
    assert len(identifiers) == len(set(identifiers))
    assert all(part["attributes"]["label"] for part in form["body"])


def test_hooks_download_nothing_and_name_files_that_exist():
    repositories = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    hooks = repositories[0]["hooks"]
    assert {"ruff", "ruff-format"} <= {hook["id"] for hook in hooks}
    for hook in hooks:
        assert hook["language"] == "system"
        for word in hook["entry"].split():
            if word.startswith(("scripts/", "tests/")):
                assert (ROOT / word).is_file()


def test_the_site_asks_no_other_host():
    theme = read_mkdocs()["theme"]
    assert theme["font"] is False
    assert not {"extra_javascript", "extra_css"} & set(read_mkdocs())


def test_the_site_is_built_strictly():
    """--quiet would hide from --strict the warnings that it counts."""
    (line,) = re.findall(r"mkdocs build [^\n]*", (ROOT / "scripts" / "site").read_text("utf-8"))
    assert "--strict" in line
    assert not {"--quiet", "-q"} & set(line.split())


def read_mkdocs() -> dict[str, Any]:
    return read(ROOT / "mkdocs.yml")


def places(entry: Any) -> list[str]:
    """The files in a navigation, however deep."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [place for part in parts for place in places(part)]


def test_every_page_is_in_the_navigation():
    named = {
        place for place in places(read_mkdocs()["nav"]) if not place.startswith("repository/")
    }
    pages = {
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    assert named == pages


def test_a_link_to_a_page_outside_docs_stays_a_link():
    from scripts.pages.site import CODE_OR_LINK, linked

    def rewritten(text: str) -> str:
        place = "explanation/where-is-what.md"
        return CODE_OR_LINK.sub(lambda found: linked(found, f"docs/{place}", place), text)

    assert rewritten("[a](../../ARCHITECTURE.md)") == "[a](../repository/architecture.md)"
    assert rewritten("[a](trust.md#what)") == "[a](trust.md#what)"
    assert rewritten("[a](../../avow/cli/index.py)") == "a (`avow/cli/index.py`)"
    assert rewritten("[`avow/cli/`](../../avow/cli/)") == "`avow/cli`"
    assert rewritten("`[a](../../ARCHITECTURE.md)`") == "`[a](../../ARCHITECTURE.md)`"
    assert rewritten("[a](gone.md)") == "[a](gone.md)"
    assert rewritten("[a](https://example.org)") == "[a](https://example.org)"


def test_extras_named_in_the_documentation_exist():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for listed in re.findall(r"avow\[([\w,]+)\]", page.read_text("utf-8")):
            assert set(listed.split(",")) <= set(extras["optional-dependencies"]), page


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | more
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment
    )


def test_the_version_is_printed_without_loading_torch():
    code = (
        "import sys; sys.argv = ['avow', '--version']\n"
        "from avow.cli import app\n"
        "app(standalone_mode=False, prog_name='avow')\n"
        "heavy = {'torch', 'numpy', 'transformers', 'PIL'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"avow {avow.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_ask_for_completions(shell):
    words = {"bash": {"COMP_WORDS": "avow se", "COMP_CWORD": "1"}}.get(
        shell, {"_TYPER_COMPLETE_ARGS": "avow se", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    )
    code = "from avow.cli import app; app(prog_name='avow')"
    done = run("-c", code, _AVOW_COMPLETE=f"complete_{shell}", **words)
    assert "search" in done.stdout and "serve" in done.stdout
    assert "train" not in done.stdout


def step(name: str) -> str:
    """A function of scripts/check."""
    source = (ROOT / "scripts" / "check").read_text("utf-8")
    function = re.search(rf"^{name}\(\) \{{.*?^\}}", source, re.DOTALL | re.MULTILINE)
    assert function
    return function[0]


def same_version(folder: Path, changelog: str) -> subprocess.CompletedProcess[str]:
    """The step of scripts/check alone, over a changelog of our own."""
    (folder / "pyproject.toml").write_text('version = "1.2.0"\n')
    (folder / "CHANGELOG.md").write_text(changelog)
    return subprocess.run(
        ["bash", "-euc", f"{step('same_version')}\nsame_version"],
        cwd=folder,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "changelog, accepted",
    [
        ("## [1.2.0] - 2026-11-15\n", True),
        ("## [Unreleased]\n\n## [1.2.0] - 2026-11-15\n", True),
        ("## [Unreleased]\n\n## [1.1.0] - 2026-11-15\n", False),
        ("## [Unreleased]\n", False),
    ],
)
def test_the_changelog_may_begin_with_what_is_unreleased(tmp_path, changelog, accepted):
    assert (same_version(tmp_path, changelog).returncode == 0) is accepted


@pytest.mark.parametrize("check, test", [(0, 0), (0, 3), (1, 0), (1, 3)])
def test_checks_and_tests_run_side_by_side_and_either_can_fail(tmp_path, check, test):
    (tmp_path / "scripts").mkdir()
    for name, body in (
        ("verify", (ROOT / "scripts" / "verify").read_text("utf-8")),
        ("check", f"#!/bin/sh\necho begun >begun\necho checked\nexit {check}\n"),
        # the tests are over only when the checks have begun
        ("test", f"#!/bin/sh\nuntil test -s begun; do :; done\necho tested $1\nexit {test}\n"),
    ):
        (tmp_path / "scripts" / name).write_text(body)
        (tmp_path / "scripts" / name).chmod(0o755)
    done = subprocess.run(
        [tmp_path / "scripts" / "verify", "-x"], capture_output=True, text=True
    )
    assert done.stdout == "tested -x\nchecked\n", done.stderr
    assert (done.returncode == 0) is (check == test == 0)


def test_there_is_a_place_for_what_is_unreleased():
    headings = re.findall(
        r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    assert headings[0] == "Unreleased"
