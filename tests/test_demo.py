"""The demo answers and refuses; the sample trains, and claims nothing."""

import os
import re
import runpy
import sys
from pathlib import Path

import forked_commands
import pytest
from typer.testing import CliRunner

from avow.cli import app

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^both views +\|((?: +[\d.]+){4}) +\|((?: +[\d.]+){4}) +\|", re.MULTILINE)
TRUST = re.compile(r"uncertainty u = ([\d.]+) \(K = 18, tau = 0\.05, exp evidence\)")
CHANCE = 100 / 18


def run(script: str, home: Path, *words: str, **variables: str) -> str:
    environment = os.environ | {"AVOW_HOME": str(home), "CUDA_VISIBLE_DEVICES": ""} | variables
    command = [sys.executable, str(ROOT / "scripts" / script), *words]
    done = forked_commands.run(command, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_demo_answers_and_refuses(tmp_path, monkeypatch):
    told = run("demo", tmp_path, SERVE="0")
    parts = told.split("$ avow search ")[1:]
    assert len(parts) == 5
    names = ("coffee", "chelsea", "motorcycle", "bikes.mp4 0:0")
    for part, name in zip(parts, names, strict=False):
        assert part.splitlines()[1].startswith(("Answer", "Check")), part
        first = next(line for line in part.splitlines() if line.startswith("1 "))
        assert name in first
    assert "Nothing found." in parts[4] and "What came nearest:" in parts[4]
    monkeypatch.setenv("AVOW_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    places = runpy.run_path(str(ROOT / "scripts" / "demo"))["places"]()
    found = CliRunner().invoke(app, ["index", *places, "--index", str(tmp_path / "index")])
    assert re.search(r"^3\d unchanged, 1 skipped in", found.output, re.MULTILINE), found.output


@pytest.mark.long
def test_the_sample_trains(tmp_path, monkeypatch, capsys):
    """In this process, which has torch already."""
    script = str(ROOT / "scripts" / "train_sample")
    monkeypatch.setenv("AVOW_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert runpy.run_path(script)["main"]() == 0
    told = capsys.readouterr().out
    row = ROW.search(told)
    assert row, told
    for direction in row.groups():
        assert float(direction.split()[0]) > 5 * CHANCE
    shown, not_shown = (float(found) for found in TRUST.findall(told))
    assert shown < not_shown
    assert "Nothing is claimed from 18 photographs" in told
    assert (tmp_path / "runs" / "demo" / "best").is_file()
