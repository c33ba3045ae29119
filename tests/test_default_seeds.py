"""Figures of other seeds are read from where they were measured, and from nowhere else."""

import json
import shutil

import pytest

from benchmarks._report import RESULTS
from benchmarks.quality import default_seeds

ROOT = RESULTS.parents[1]


@pytest.fixture
def clone(tmp_path):
    """As much of a copy of the repository as is read, with results that differ."""
    weights, results = tmp_path / "avow/weights/default", tmp_path / "benchmarks/results"
    weights.mkdir(parents=True)
    results.mkdir(parents=True)
    for name in ("avow.json", "encoder.json"):
        shutil.copy(ROOT / "avow/weights/default" / name, weights)
    for name in {one.file for one in default_seeds.figures()}:
        content = json.loads((RESULTS / f"{name}.json").read_text())
        (results / f"{name}.json").write_text(json.dumps(content | {"machine": "another"}))
    return tmp_path


def test_every_figure_is_read_of_each_seed(clone):
    path = clone / "benchmarks/results/refusal.json"
    content = json.loads(path.read_text())
    content["rows"]["mixed"]["nouns"] -= 0.25
    path.write_text(json.dumps(content))
    seeds = [default_seeds.found(one) for one in (ROOT, clone)]
    rows = [default_seeds.summary(one, seeds) for one in default_seeds.figures()]
    assert len({row["what"] for row in rows}) == len(rows)
    differing = [row for row in rows if row["spread"]]
    assert [row["what"] for row in differing] == [
        "nouns with the right picture first among 1,030, %"
    ]
    assert differing[0]["values"][0] - differing[0]["values"][1] == pytest.approx(25)


def test_results_that_were_not_measured_anew_are_refused(clone):
    shutil.copy(RESULTS / "people.json", clone / "benchmarks/results/people.json")
    with pytest.raises(SystemExit, match=r"'people' of .* is the shipped model's"):
        default_seeds.found(clone)
