"""The public names: each loads by itself, and its example runs on real data."""

import doctest
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import ANIMALS, write_precomp
from search_samples import ColourEncoder, colours_of, save_pictures

import avow
from avow.data.readers import sample

ROOT = Path(__file__).parent.parent
EARLIER = ROOT / "tests" / "fixtures" / "version-0.1"
NAMES = [name for name in avow.__all__ if name != "__version__"]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """What the examples name: photographs and an index, a dataset, a recipe and a run."""
    home = tmp_path_factory.mktemp("public")
    photographs = home / "photos"
    photographs.mkdir()
    files = sample.build().splits["test"].files
    assert files is not None
    for file in files:
        shutil.copy(file, photographs)
    avow.index([photographs], home / "my-index")
    write_precomp(home / "animals", images=24)
    (home / "animals.toml").write_text(ANIMALS)
    shutil.copytree(EARLIER / "run", home / "runs" / "animals")
    return home


@pytest.fixture(scope="module")
def given() -> dict[str, object]:
    """Variables that the examples use: similarities of some model, and the right candidates."""
    rng = np.random.default_rng(0)
    similarity = 0.1 * rng.standard_normal((120, 120), np.float32)
    np.fill_diagonal(similarity, similarity.diagonal() + 0.3 * rng.random(120))
    return {
        "avow": avow,
        "torch": torch,
        "similarity": similarity.clip(-1, 1),
        "matches": np.arange(120),
    }


def test_the_list_is_complete_and_sorted():
    assert list(avow.__all__) == sorted(avow.__all__)
    assert len(avow.__all__) == 15
    headings = re.findall(
        r"^## avow\.(\w+)$", (ROOT / "docs/reference/python.md").read_text(), re.MULTILINE
    )
    assert headings == list(avow.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(name, place, given, monkeypatch):
    monkeypatch.chdir(place)
    documented = inspect.getdoc(getattr(avow, name)) or ""
    assert len(documented.partition("\n\n")[0]) > 20
    test = doctest.DocTestParser().get_doctest(documented, dict(given), name, None, 0)
    assert test.examples, f"avow.{name} has no example"
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=output.append)
    assert runner.failures == 0, "".join(output)


def test_an_example_that_is_wrong_would_fail(given):
    test = doctest.DocTestParser().get_doctest(">>> len([1])\n2\n", dict(given), "x", None, 0)
    runner = doctest.DocTestRunner()
    runner.run(test, out=lambda _: None)
    assert runner.failures == 1


def test_no_name_is_loaded_before_it_is_used():
    code = (
        "import sys, avow\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('torch', 'numpy', 'PIL')])\n"
        "avow.AvowError\n"
        "print([m for m in sys.modules if m.startswith('avow.') and m.count('.') == 1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "['avow.core']"]


def test_pages_name_no_deep_paths():
    """How-tos use public names; writing a part of Avow needs its contracts and blocks."""
    pages = [ROOT / "README.md", *(ROOT / "docs" / "how-to").glob("*.md")]
    pages += (ROOT / "docs" / "tutorial").glob("*.md")
    deep = re.compile(r"(?:from|import) (avow\.(?!blocks|core\.contracts)[\w.]+)")
    for page in pages:
        assert not deep.findall(page.read_text("utf-8")), page.name


def test_an_encoder_audits_photographs_without_stored_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = ["image,caption,split"]
    for number, path in enumerate(save_pictures(tmp_path / "pictures", 30)):
        main, other = colours_of(number)
        for caption in (f"{main} over {other}", f"a {main} one", f"{main} and {other}"):
            rows.append(f"pictures/{path.name},{caption},train")
    rows[1] = rows[1].replace("red over red", "blue over green")
    (tmp_path / "pairs.csv").write_text("\n".join(rows) + "\n")
    audit = avow.audit_pairs("pairs.csv", run=ColourEncoder(), out="audit")
    assert len(audit.findings) == 90
    assert audit.findings[0].caption == "blue over green"
    assert avow.check("audit") == []


def test_audits_that_cannot_be_made_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_precomp(tmp_path / "animals", images=24)
    with pytest.raises(avow.AvowError) as refused:
        avow.audit_pairs("animals", run=ColourEncoder())
    assert str(refused.value) == (
        "The split 'train' of 'animals' has features and no photographs. Expected "
        "photographs, which the encoder reads; name a run trained on such features."
    )
    with pytest.raises(avow.AvowError) as refused:
        avow.audit_pairs("animals", split="test")
    assert str(refused.value) == (
        "The split 'test' cannot be judged by fold models. Expected 'train'; name a trained "
        "run for other splits."
    )


@pytest.mark.usefixtures("few_trees")
@pytest.mark.slow
def test_fold_models_audit_a_dataset_of_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_precomp(tmp_path / "animals", images=24)
    small = ["method.name=vsepp", "method.dim=8", "train.batch=16", "train.epochs=1"]
    audit = avow.audit_pairs("animals", changes=small, device="cpu")
    assert len(audit.findings) == 120
    assert not any(finding.in_sample for finding in audit.findings)
    assert (tmp_path / "audits" / "animals" / "index.html").is_file()
