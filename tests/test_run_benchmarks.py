"""Benchmarks of runs train their grid, go on where they stopped, and sum up what came out."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from samples import small_recipe, write_precomp
from test_training import as_toml
from typer.testing import CliRunner

from avow.assembly.evaluate_runs import open_splits
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scored_split import encode_split, score
from avow.assembly.scores import Blocks
from avow.cli import app
from avow.study.stochastic import dropped
from benchmarks.quality import model_averaging, noise, recipes, trust

ROOT = Path(__file__).parent.parent


@pytest.fixture
def toy(tmp_path) -> str:
    """A recipe that learns from a handful of vectors."""
    content = small_recipe(write_precomp(tmp_path / "toy_precomp"), epochs=1, batch=48)
    (tmp_path / "toy.toml").write_text(as_toml(content))
    return str(tmp_path / "toy.toml")


@pytest.fixture
def run(monkeypatch, capsys) -> Callable[..., str]:
    """Run a benchmark in this process, and its runs if they are `here`; give what it prints."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def go(script: ModuleType, *words: str, here: bool = True) -> str:
        asked = ["--device", "cpu", *(["--here"] if here else []), *words]
        monkeypatch.setattr(sys, "argv", [script.__name__, *asked])
        script.main()
        return capsys.readouterr().out

    return go


@pytest.mark.slow
def test_a_small_grid(tmp_path, toy, run):
    results = ROOT / "benchmarks" / "results" / "noise-test.json"
    words = [
        *("--noise", "0", "0.5", "--seeds", "0", "--runs", str(tmp_path / "runs")),
        *("--name", "noise-test", "--recipes", toy),
    ]
    try:
        run(noise, *words)
        # the second time nothing is trained, and what cannot be does not stop the rest
        told = run(noise, *words, f"{toy}+loss.tau=-1.0")
        found = json.loads(results.read_text())
        assert len(found["runs"]) == 2 and ": rSum" not in told
        assert "tau" in told and "2 of 4 runs are left" in told
        cells = found["summary"][toy]
        lost = cells["0"]["best"]["rsum"] - cells["0.5"]["best"]["rsum"]
        assert cells["0.5"]["lost"] == pytest.approx(lost, abs=0.01)
        assert f"| {toy} | both views | " in told
        assert "2 runs -> " in told
    finally:
        results.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "here", [True, pytest.param(False, marks=pytest.mark.long, id="each in a process")]
)
def test_seeds_are_added_to_earlier_ones(tmp_path, toy, run, here):
    results = ROOT / "benchmarks" / "results" / "recipes-test.json"
    short = f"{toy}+train.lr=0.01"
    words = ["--runs", str(tmp_path / "runs"), "recipes-test", short]
    try:
        assert "1 runs -> " in run(recipes, "--seeds", "0", *words, here=here)
        assert json.loads(results.read_text())["summary"][short]["seeds"] == [0]
        told = run(recipes, "--seeds", "1", *words)
        found = json.loads(results.read_text())["summary"][short]
        assert found["seeds"] == [0, 1] and len(found["both views"]["values"]) == 2
        assert short in told and " ± " in told and "2 runs -> " in told
    finally:
        results.unlink(missing_ok=True)


@pytest.fixture
def dropping(tmp_path) -> Path:
    """A trained run with dropout on the way of both kinds of queries."""
    content = small_recipe(write_precomp(tmp_path / "toy_precomp"), epochs=1, batch=48)
    content["method"] |= {"dropout_word": 0.2, "dropout_image": 0.2}
    (tmp_path / "dropping.toml").write_text(as_toml(content))
    asked = ["train", str(tmp_path / "dropping.toml"), "--out", str(tmp_path / "dropping")]
    done = CliRunner().invoke(app, [*asked, "--device", "cpu"])
    assert done.exit_code == 0, done.output
    return tmp_path / "dropping"


@pytest.mark.slow
def test_measures_of_drawn_models_are_written_and_then_read(
    tmp_path, dropping, monkeypatch, capsys
):
    """`model_averaging.py` writes what `trust.py` judges beside the other measures."""
    monkeypatch.setattr(model_averaging, "keep", lambda name, found: kept.append((name, found)))
    kept: list[tuple[str, dict]] = []
    words = ["averaging-test", str(dropping), "--scored", str(tmp_path), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["model_averaging.py", *words, "--models", "3"])
    model_averaging.main()
    ((name, found),) = kept
    assert name == "averaging_averaging-test" and found["models"] == 3
    (run,) = found["runs"]
    for query in ("text", "image"):
        assert [row["models"] for row in run[query]["averaged"]] == [1, 2, 3]
        assert set(run[query]["averaged"][0]["posterior"]) == {
            "0.001",
            "0.01",
            "0.1",
            "1",
            "10",
        }
    assert "by posteriors at T=10" in capsys.readouterr().out

    chosen = argparse.Namespace(runs=[dropping], scored=tmp_path)
    test = split_of(dropping)
    for query, count in (("text", len(test.captions)), ("image", len(test.image_ids))):
        read = trust.extra_measures(dropping, query, None, chosen)
        names = {"mc_dropout: feature uncertainty", "mc_dropout: posterior uncertainty"}
        assert names < set(read) and "mc_dropout: posterior uncertainty, T=10" in read
        assert all(values.shape == (count,) for values in read.values())
        # the same models, asked by the probe of the study
        model = Model.from_pretrained(dropping, "cpu")
        together = score(model, encode_split(model, test, Blocks()), None, Blocks())
        expected = dropped(model, test, 3).measure(together[query].asked(), query)
        for one in names:
            np.testing.assert_allclose(read[one], expected[one], rtol=1e-9)


def split_of(run: Path) -> FeaturedSplit:
    _, splits = open_splits(Model.from_pretrained(run, "cpu"), "", None, ["test"])
    return splits["test"]


@pytest.mark.slow
def test_a_run_without_dropout_has_no_models_to_draw(tmp_path, monkeypatch, toy):
    out = tmp_path / "plain"
    done = CliRunner().invoke(app, ["train", toy, "--out", str(out), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    words = ["averaging-test", str(out), "--scored", str(tmp_path), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["model_averaging.py", *words])
    with pytest.raises(SystemExit) as caught:
        model_averaging.main()
    assert str(caught.value) == (
        "plain: the method has no dropout above 0; left out. Expected a run with dropout, "
        "such as one of flickr8k/vsepp_hinge_dropout."
    )
