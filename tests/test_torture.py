"""The short form of every promise; `scripts/torture` makes thousands of tries."""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import forked_commands
import pytest
from tiers import long

import benchmarks.torture
from avow.core import folder
from benchmarks.quality import branches, mutants
from benchmarks.speed import server_health
from benchmarks.torture import _runner
from benchmarks.torture._batch import KEPT, Batch, added
from benchmarks.torture._history import History

LONG = 5 if os.environ.get("AVOW_LONG_TESTS") else 1
TRIES = {
    "bounded_files": 50,
    "damage": 8,
    "every_step": 14,
    "health": 5,
    "no_traceback": 10,
    "one_state": 90,
    "power_loss": 12,
    "shared_stores": 8,
    "strangers_files": 8,
    "whole_folders": 420,
}
"""How many tries are made here; of folders, one before every operation of each way."""
FORKS: dict[str, tuple[str, ...]] = {
    "whole_folders": (),
    "power_loss": (),
    "every_step": ("opinions", "delete"),
    "health": ("searches", "opinions"),
    "one_state": (),
}
"""Promises that start processes, each in one of its own, with what is tried here."""
ELSEWHERE = ("shared_stores",)
"""Promises whose short form is in `test_stores`, for every store that is there."""
REPEATED = ("damage", "strangers_files")
"""Whose short forms are `test_damage`, `test_damage_model` and `test_hostile`."""
linux = pytest.mark.skipif(sys.platform != "linux", reason="the proofs use what Linux has")


def test_every_promise_has_a_short_form_and_says_what_it_is():
    assert sorted(TRIES) == folder.names(benchmarks.torture)
    for name in TRIES:
        module = folder.find(benchmarks.torture, name)
        assert module.PROMISE.endswith(".") and module.PROOF.endswith(".")
        assert module.WANTED > TRIES[name] and module.BATCH > 0


@linux
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # a damaged picture or a torn file may warn as it likes
@pytest.mark.parametrize(
    "name",
    [long(name) if name in REPEATED else name for name in sorted(TRIES.keys() - ELSEWHERE)],
)
def test_a_promise_is_kept(tmp_path, name, monkeypatch):
    module, count = folder.find(benchmarks.torture, name), TRIES[name]
    count *= 1 if name in FORKS else LONG
    if name in FORKS:
        # on a disk in memory, where the system has one: thousands of syncs are made
        with tempfile.TemporaryDirectory(dir=_runner.MEMORY) as place:
            if name == "health":
                fill_little(Path(place) / name)
            if name != "whole_folders":  # hundreds of forks of a process that must be small
                monkeypatch.setattr(_runner.subprocess, "run", forked_commands.run)
            found = _runner.in_a_process(name, Path(place), 0, count, *FORKS[name])
    else:
        module.prepare(tmp_path)
        found = module.batch(tmp_path, 0, count)
    assert found.losses == [] and found.tracebacks == []
    assert found.tries == count
    CHECKS.get(name, lambda counts: None)(found.counts)


def fill_little(home: Path) -> None:
    """A smaller index than the proof makes, where it looks for the one it has made."""
    (home / "made").mkdir(parents=True)
    server_health.fill(home / "made", pictures=4, texts=1000)
    (home / "ready").touch()


def _told(counts):
    assert counts["index: told"] and counts["run: told"]


def _killed(counts):
    assert counts["killed before an operation"] > 200
    assert counts["old"] > 20 and counts["new"] > 20


def _acknowledged(counts):
    assert counts["with something acknowledged"] > 3


def _asked(counts):
    assert counts["answers of readers"] == 60 and counts["answers of servers"] == 30
    assert counts["kills"] and counts["states that readers saw"] > 1


CHECKS = {
    "damage": _told,
    "one_state": _asked,
    "power_loss": _acknowledged,
    "whole_folders": _killed,
}
"""That the tries did what they are there for."""


def test_batches_add_up_and_go_on_where_they_were(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_runner, "RESULTS", tmp_path / "torture.json")
    made = []

    def batch(name, place, first, count, *only):
        made.append((first, count))
        lost = [f"{first}: lost"] if first == 0 else []
        return Batch(count, lost, counts=Counter(seen=count), peaks={"high": float(first)})

    monkeypatch.setattr(_runner, "in_a_process", batch)
    for _ in range(2):
        assert _runner.main(["whole_folders", "--tries", "150"]) == 1, "a loss fails it"
    assert made == [(0, 100), (100, 50), (150, 100), (250, 50)]
    figures = _runner.kept()["promises"]["whole_folders"]
    assert (figures["tries"], figures["losses"], figures["next"]) == (300, 1, 300)
    assert figures["counts"] == {"seen": 300} and figures["peaks"] == {"high": 250.0}
    (here,) = figures["machines"]
    early, other = here | {"date": "2001-01-01"}, here | {"architecture": "another"}
    with _runner.results() as content:
        content["promises"]["whole_folders"]["machines"] = [early, other]
    assert _runner.main(["whole_folders", "--tries", "1"]) == 1
    assert _runner.kept()["promises"]["whole_folders"]["machines"] == [other, here]
    assert _runner.main(["whole_folders", "--again", "--tries", "1"]) == 1
    capsys.readouterr()
    assert _runner.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["promises"]["whole_folders"]["tries"] == 1


def test_only_some_losses_are_kept_as_texts_but_all_are_counted():
    figures = None
    for _ in range(3):
        figures = added(figures, Batch(10, losses=[f"{n}: lost" for n in range(10)]))
    assert figures is not None
    assert figures["losses"] == 30 and len(figures["told"]) == KEPT


@linux
def test_a_process_that_dies_is_a_loss(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    found = _runner.in_a_process("damage", tmp_path, 7, 3)
    assert found.tries == 0 and found.losses[0].startswith("7: the process of the tries ended")


TRACED = """
import os, sys
from pathlib import Path
from benchmarks.torture._steps import Recording, traced

home = Path(sys.argv[1])

def work():
    os.stat(home)
    (home / "a").write_text("one")
    os.rename(home / "a", home / "b")
    os.unlink(home / "b")

recording = Recording()
print(traced(work, home, record=recording), [change.kind for change in recording.changes])
for at in (1, 2, 3, 4):
    print(traced(work, home, kill_at=at), [(p.name, p.read_text()) for p in home.iterdir()])
"""


@linux
def test_a_traced_writer_is_killed_before_each_change_of_a_file(tmp_path):
    """In a process of its own, as threads of this one would not be forked."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED, tmp_path],
        env=os.environ | {"PYTHONPATH": str(_runner.ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "(4, False) ['create', 'write', 'rename', 'remove']",
        "(1, True) []",
        "(2, True) [('a', '')]",
        "(3, True) [('a', 'one')]",
        "(4, True) [('b', 'one')]",
    ], done.stderr


def test_a_history_that_no_store_could_have_is_told():
    def lines(*read, start=25, partial=False):
        said = [
            {"what": "write", "who": "w", "at": 10, "files": {"a": 1}},
            {"what": "acknowledged", "who": "w", "at": 20},
            {"what": "write", "who": "w", "at": 30, "files": {"a": 2}},
            {"what": "opinion", "who": "r", "at": 11, "text": "mine"},
            {"what": "acknowledged", "who": "r", "at": 12},
        ]
        files, opinions = read
        seen = {"files": files, "opinions": opinions, "partial": partial, "wrong": []}
        said += [{"what": "read", "who": "r", "start": start, "at": 40, **seen}]
        return History.of(map(json.dumps, said)).losses()

    assert lines({"a": [1]}, ["mine"]) == lines({"a": [2]}, ["mine"]) == []
    assert lines({"a": [1]}, ["mine"], start=15) == lines({}, ["mine"], start=15) == []
    assert lines({}, ["mine"]) == ["r saw [-1] of a, not one of [1, 2]"]
    assert lines({}, ["mine"], partial=True) == []
    assert lines({"a": [1, 2]}, ["mine"]) == ["r saw [1, 2] of a, not one of [1, 2]"]
    assert lines({"a": [3]}, ["mine"]) == ["r saw [3] of a, not one of [1, 2]"]
    assert lines({"a": [2], "b": [1]}, ["mine"]) == ["r saw b"]
    assert lines({"a": [2]}, []) == ["r saw the opinion mine 0 times"]
    assert lines({"a": [2]}, ["mine"] * 2) == ["r saw the opinion mine 2 times"]


def test_every_mutant_is_another_module(monkeypatch, tmp_path):
    path = tmp_path / "one.py"
    path.write_text("def f(x: int = 1) -> int:\n    if x < 2 and x:\n        return x + 1\n")
    monkeypatch.setattr(mutants, "source", lambda _: path)
    places = range(len(mutants.described("one")))
    texts = [ast.unparse(mutants.mutated("one", place)) for place in places]
    assert mutants.described("one") == [
        "line 1, 15: 1 becomes 2",
        "line 2, 4: if not x < 2 and x",
        "line 2, 7: x < 2 and x, and/or",
        "line 2, 7: x < 2, LtE",
        "line 2, 11: 2 becomes 3",
        "line 3, 8: return None for x + 1",
        "line 3, 15: x + 1, Sub",
        "line 3, 19: 1 becomes 2",
    ]
    assert len({ast.unparse(ast.parse(path.read_text())), *texts}) == 9
    for text in texts:
        compile(text, "one.py", "exec")
    held = {(site.kind, site.name, site.lines) for site in mutants.sites("one")}
    assert held == {("default", "f", (2, 3)), ("body", "f", (2, 2)), ("body", "f", (3, 3))}


def test_branches_are_counted_room_by_room():
    def summary(lines, branches):
        names = ("num_statements", "covered_lines", "num_branches", "covered_branches")
        told = dict(zip(names, (lines, lines - 1, branches, branches - 2), strict=True))
        return {"summary": {**told, "missing_branches": 2}}

    report = {"files": {"avow/api/a.py": summary(9, 4), "avow/api/b.py": summary(5, 6)}}
    found = branches.rooms(report)
    wanted = {"lines": 14, "lines_reached": 12, "branches": 10, "branches_reached": 6}
    assert found["api"] == wanted and found["trust"]["lines"] == 0
    assert branches.worst(report, 1) == {"avow/api/a.py": 2}
