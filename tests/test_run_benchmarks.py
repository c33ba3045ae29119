"""Benchmarks of runs train their grid, go on where they stopped, and sum up what came out."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from samples import small_recipe, write_precomp
from test_training import as_toml

ROOT = Path(__file__).parent.parent


@pytest.fixture
def toy(tmp_path) -> str:
    """A recipe that learns from a handful of vectors."""
    content = small_recipe(write_precomp(tmp_path / "toy_precomp"), epochs=1, batch=48)
    (tmp_path / "toy.toml").write_text(as_toml(content))
    return str(tmp_path / "toy.toml")


@pytest.fixture
def run(monkeypatch, capsys) -> Callable[..., str]:
    """Run a benchmark and its runs in this process; give what it prints."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def go(script: str, *words: str) -> str:
        monkeypatch.setattr(sys, "argv", [script, "--device", "cpu", "--here", *words])
        importlib.import_module(script.removesuffix(".py")).main()
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
        run("noise.py", *words)
        # the second time nothing is trained, and what cannot be does not stop the rest
        told = run("noise.py", *words, f"{toy}+loss.tau=-1.0")
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
def test_each_command_has_a_process_and_seeds_are_added_to_earlier_ones(tmp_path, toy, run):
    results = ROOT / "benchmarks" / "results" / "recipes-test.json"
    short = f"{toy}+train.lr=0.01"
    words = ["--runs", str(tmp_path / "runs"), "recipes-test", short]
    try:
        done = subprocess.run(
            [
                *(sys.executable, str(ROOT / "benchmarks" / "recipes.py"), "--device", "cpu"),
                *("--seeds", "0", *words),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert "1 runs -> " in done.stdout
        assert json.loads(results.read_text())["summary"][short]["seeds"] == [0]
        told = run("recipes.py", "--seeds", "1", *words)
        found = json.loads(results.read_text())["summary"][short]
        assert found["seeds"] == [0, 1] and len(found["both views"]["values"]) == 2
        assert short in told and " ± " in told and "2 runs -> " in told
    finally:
        results.unlink(missing_ok=True)
