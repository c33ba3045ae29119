"""The queue of the papers' runs: sound, worked through side by side, resumed, and merged."""

import argparse
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest
from every import every
from samples import small_recipe, write_precomp
from test_training import as_toml

from avow.assembly.recipe import Recipe
from benchmarks import _report, _runs
from benchmarks._code_age import code_of
from benchmarks.pages import verdicts
from benchmarks.quality import paper_queue as module
from benchmarks.quality import recipes

ROOT = Path(__file__).parent.parent
ENTRIES = json.loads((ROOT / "benchmarks/published/queue.json").read_text("utf-8"))["runs"]
STEPS = {"people", "averaging", "shift", "doubts", "corruption", "answers"}


def test_every_recipe_of_the_queue_can_be_opened():
    named = {entry["recipe"] for entry in ENTRIES if "together" not in entry}
    every(sorted(named), lambda name: Recipe.open(*verdicts.split_changes(name)))


def test_the_queue_names_every_run_once_and_averages_only_its_own():
    runs = [(e["file"], e["recipe"], seed) for e in ENTRIES for seed in e["seeds"]]
    assert len(set(runs)) == len(runs)
    for entry in ENTRIES:
        assert set(entry.get("then", ())) <= STEPS
        for part in entry.get("together", ()):
            assert all((entry["file"], part, seed) in runs for seed in entry["seeds"])


@pytest.mark.parametrize(
    "one, other",
    [
        ("vsepp_hinge_dropout", "vse0_hinge_dropout"),
        ("saf_hinge", "sgr_decl"),
        ("sgr_hinge", "sgr_ncr"),
        ("scan_t2i_hinge", "acmnet_gt_hinge"),
    ],
)
def test_what_is_compared_is_trained_alike(one, other):
    files = {"papers/dropout", "papers/decl", "papers/acmnet"}
    names = [
        next(e["recipe"] for e in ENTRIES if e["file"] in files and part in e["recipe"])
        for part in (one, other)
    ]
    assert verdicts.unequal_training(*names) == ""


@pytest.fixture
def queue(tmp_path) -> Path:
    """Two small runs and their average, and one that cannot be trained."""
    content = small_recipe(write_precomp(tmp_path / "toy_precomp"), epochs=1, batch=48)
    (tmp_path / "toy.toml").write_text(as_toml(content))
    toy = str(tmp_path / "toy.toml")
    parts = [f"{toy}+train.lr=0.01", f"{toy}+train.lr=0.02"]
    runs = [
        {"file": "queue-test", "recipe": "both", "seeds": [0], "together": parts},
        {"file": "queue-test", "recipe": parts[0], "seeds": [0], "then": ["doubts"]},
        {"file": "queue-test", "recipe": parts[1], "seeds": [0]},
        {"file": "queue-test", "recipe": f"{toy}+loss.tau=-1.0", "seeds": [0]},
    ]
    (tmp_path / "queue.json").write_text(json.dumps({"runs": runs}))
    return tmp_path / "queue.json"


class Here:
    """What the queue asks of the process of a run, for one that is made at once in this one."""

    def __init__(self, words: list[str], stdout: BinaryIO, stderr: BinaryIO, env: dict):
        self.returncode, before = 0, sys.argv
        assert words[:2] == [sys.executable, "-m"] and env["OMP_NUM_THREADS"] == "1"
        sys.argv = words[2:]
        try:
            module.main()
        except BaseException:
            self.returncode = 1
            stderr.write(traceback.format_exc().encode())
        finally:
            sys.argv = before

    def poll(self) -> int:
        return self.returncode


@pytest.fixture
def work(queue, monkeypatch, capsys) -> Iterator[Callable[..., str]]:
    """Call the command in this process; the runs that it starts have processes of their own.

    here: the runs too, unless this is the long form.
    """
    ended = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def call(*words: str, here: bool = False) -> str:
        places = ["--runs", str(queue.parent / "runs"), "--out", str(queue.parent / "out")]
        given = ["--queue", str(queue), "--device", "cpu", *places, *words]
        if here and not os.environ.get("AVOW_LONG_TESTS"):
            made_here = SimpleNamespace(Popen=Here, TimeoutExpired=TimeoutError)
            monkeypatch.setattr(module, "subprocess", made_here)
        monkeypatch.setattr(sys, "argv", ["paper_queue", *given])
        module.main()
        return capsys.readouterr().out

    yield call
    signal.signal(signal.SIGTERM, ended)


@pytest.mark.slow
def test_a_queue_is_worked_through_once_and_merged(work, queue, monkeypatch, tmp_path):
    told = work("--until", "0", "--jobs", "2")
    assert "4 of 4 runs are left" in told and not list((tmp_path / "out").iterdir())
    told = work("--jobs", "2", here=True)
    assert "FAILED" in told and "tau" in told and "1 runs are left" in told
    assert told.index("both-seed0: rSum") > told.index("lr=0.02-seed0: rSum")
    assert "1 of 4 runs are left" in work("--until", "0")

    for one in (module, recipes, _report, _runs):
        monkeypatch.setattr(one, "RESULTS", tmp_path / "results")
    module.merge(tmp_path / "out")
    found = json.loads((tmp_path / "results" / "queue-test.json").read_text())
    assert len(found["runs"]) == 3 and found["summary"]["both"]["model"]["rsum"] > 0
    (after,) = (run["afterwards"] for run in found["runs"] if run["afterwards"])
    for measured in (after["doubts"]["text"], after["doubts"]["image"]):
        assert 0 < measured["evidential: u"]["auroc"] < 1 and "scores: probability" in measured
    assert module.left(module.read_queue(queue), _chosen(tmp_path / "nothing")) == [3]


@pytest.mark.slow
def test_runs_with_changes_for_a_trial_are_no_results(work, tmp_path):
    work("--one", "1", "--set", "train.batch=24")
    with pytest.raises(SystemExit, match="it is no result"):
        module.merge(tmp_path / "out")


def _chosen(out: Path) -> argparse.Namespace:
    return argparse.Namespace(only="", out=out, older=False)


def test_parts_of_an_average_are_run_again_where_their_weights_are_gone(
    queue, monkeypatch, tmp_path
):
    average, first, *_ = wanted = module.read_queue(queue)
    monkeypatch.setattr(module, "in_results", lambda one, _: one != average)
    chosen = argparse.Namespace(
        only="", out=tmp_path / "out", runs=tmp_path / "runs", older=False
    )
    assert module.left(wanted, chosen) == [0, 1, 2]
    (chosen.runs / first.task.folder).mkdir(parents=True)
    (chosen.runs / first.task.folder / "tested").touch()
    assert module.left(wanted, chosen) == [0, 2]


def test_runs_of_older_code_are_left_where_that_is_asked(monkeypatch, tmp_path):
    wanted = module.Wanted("queue-test", _runs.Task("flickr8k/vse_infty_hinge", 0))
    run = {"recipe": wanted.task.recipe, "seed": 0, "code": code_of(wanted.task.recipe)}
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    path = tmp_path / f"{wanted.file}.json"
    for code, is_current in ((run["code"], True), ("another", False)):
        path.write_text(json.dumps({"runs": [{**run, "code": code}]}))
        assert module.in_results(wanted)
        assert module.in_results(wanted, of_this_code=True) == is_current
