"""The demo runs from an empty folder to an opinion, and claims nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^both views +\|((?: +[\d.]+){4}) +\|((?: +[\d.]+){4}) +\|", re.MULTILINE)
TRUST = re.compile(r"uncertainty u = ([\d.]+) \(K = 18, tau = 0\.05, exp evidence\)")
CHANCE = 100 / 18


@pytest.mark.slow
def test_demo(tmp_path):
    environment = os.environ | {"AVOW_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    demo = [sys.executable, str(ROOT / "scripts" / "demo")]
    done = subprocess.run(demo, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    row = ROW.search(done.stdout)
    assert row, done.stdout
    for direction in row.groups():
        assert float(direction.split()[0]) > 5 * CHANCE
    shown, not_shown = (float(found) for found in TRUST.findall(done.stdout))
    assert shown < not_shown
    assert "Nothing is claimed from 18 photographs" in done.stdout
    assert (tmp_path / "runs" / "demo" / "best").is_file()
