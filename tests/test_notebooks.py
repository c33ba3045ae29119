"""The notebooks of the documentation are those of their sources, run, and without a mistake."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from samples import load_script

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "notebooks"
SOURCES = sorted(FOLDER.glob("*.py"))


@pytest.fixture(scope="module")
def script():
    return load_script(ROOT / "scripts" / "notebooks")


def test_there_is_one_per_audience_and_each_is_on_the_page():
    page = (FOLDER / "README.md").read_text("utf-8")
    assert len(SOURCES) == 3
    assert all(f"({source.stem}.ipynb)" in page for source in SOURCES)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_has_the_cells_of_its_source_and_what_they_showed(source, script):
    """Mend it with `scripts/notebooks`."""
    notebook = json.loads(source.with_suffix(".ipynb").read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert cells == script.cells_of(source)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    shown = [output for cell in code for output in cell["outputs"]]
    assert shown and not [one for one in shown if one["output_type"] == "error"]
    assert not re.search(r"/tmp/|Traceback", json.dumps(shown))
    if formatter := importlib.util.find_spec("nbformat"):
        assert formatter is not None
        import nbformat

        nbformat.validate(nbformat.from_dict(notebook))


def test_the_runner_shows_what_a_notebook_would(script):
    names: dict = {}
    said, value = script.outputs("print('a')\nx = 2\nx + 1", names, 1)
    assert said["text"] == ["a\n"] and value["data"]["text/plain"] == ["3"]
    assert script.outputs("y = x", names, 2) == []
    with pytest.raises(ZeroDivisionError):
        script.outputs("1 / 0", names, 3)


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_notebooks_run_from_top_to_bottom(source, script):
    assert script.run(source)["cells"]
