"""The noise benchmark runs its grid, goes on where it stopped, and sums up what was lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from samples import small_recipe, write_precomp
from test_training import as_toml

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_a_small_grid(tmp_path):
    data = write_precomp(tmp_path / "toy_precomp")
    content = small_recipe(data, epochs=2)
    (tmp_path / "toy.toml").write_text(as_toml(content))
    results = ROOT / "benchmarks" / "results" / "noise-test.json"
    toy = str(tmp_path / "toy.toml")
    command = [
        *(sys.executable, str(ROOT / "benchmarks" / "noise.py"), "--device", "cpu"),
        *("--noise", "0", "0.5", "--seeds", "0", "--runs", str(tmp_path / "runs")),
        *("--name", "noise-test", "--recipes", toy, f"{toy}+train.epochs=1"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    try:
        # the second time nothing is trained, and what cannot be does not stop the rest
        for more in ([], [f"{toy}+loss.tau=-1"]):
            done = subprocess.run(
                command + more, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
        found = json.loads(results.read_text())
        assert len(found["runs"]) == 4 and ": rSum" not in done.stdout
        assert "tau" in done.stdout and "2 of 6 runs are left" in done.stdout
        cells = found["summary"][toy]
        lost = cells["0"]["best"]["rsum"] - cells["0.5"]["best"]["rsum"]
        assert cells["0.5"]["lost"] == pytest.approx(lost, abs=0.01)
        assert f"| {toy} | both views | " in done.stdout
        assert "4 runs -> " in done.stdout
    finally:
        results.unlink(missing_ok=True)
