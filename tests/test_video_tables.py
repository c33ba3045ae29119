"""The tables of video retrieval: which runs they need, and where the frames come from."""

import subprocess
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.pages import figures, verdicts, videos
from benchmarks.quality import _frame_pairs, _video_queue


def rows_with(dev: dict[tuple[str, ...], float], recipe: str) -> dict[str, dict]:
    """Pilots of a recipe with these rSums; all others have 200."""
    return {
        entry.name: {
            "kind": "pilot",
            "recipe": entry.recipe,
            "changes": list(entry.changes),
            "dev_rsum": dev.get(entry.changes, 200.0),
        }
        for entry in _video_queue.queue()
        if entry.kind == "pilot" and entry.recipe == recipe
    }


def first(recipe: str) -> _video_queue.Entry:
    runs = [entry for entry in _video_queue.queue() if entry.kind == "run"]
    return next(entry for entry in runs if entry.recipe == recipe)


def test_both_losses_take_the_setting_that_is_best_for_both():
    words, own = _video_queue.WORDS, ("loss.tau=0.05",)
    tcl, hinge = "msvd/dual_encoding_tcl", "msvd/dual_encoding_hinge"
    done = rows_with({words: 210.0, own: 220.0}, tcl) | rows_with({words: 199.0}, hinge)
    assert _video_queue.chosen_changes(first(tcl), done) == (*own, *words)
    assert _video_queue.chosen_changes(first(hinge), done) == words
    done |= rows_with({words: 190.0}, hinge)  # as much worse for one as better for the other
    assert _video_queue.chosen_changes(first(hinge), done) == ()
    assert _video_queue.chosen_changes(first(tcl), done) == own


def test_without_pilots_a_recipe_stays_as_it_is():
    assert _video_queue.chosen_changes(first("msvd/dual_encoding_tcl"), {}) == ()


def test_every_entry_needs_only_what_is_in_the_queue():
    entries = _video_queue.queue()
    names = [entry.name for entry in entries]
    assert len(set(names)) == len(names)
    assert {name for entry in entries for name in entry.needs} <= set(names)
    pairs = [entry for entry in entries if entry.kind == "together"]
    assert len(pairs) == 6 and len({part for pair in pairs for part in pair.parts}) == 12


def test_table_three_adds_up():
    rows = [
        row
        for data in verdicts.published("tcl")["Table III"].values()
        for row in data.values()
        if "recalls" in row
    ]
    assert len(rows) == 10
    for row in rows:
        assert sum(row["recalls"]) == pytest.approx(row["rsum"], abs=0.05)


def test_the_gains_of_the_paper_are_those_of_its_rows():
    by_claim = {one.claim: one.theirs for one in videos.claims()}
    assert by_claim["MSVD: TCL adds to DE"] == pytest.approx(204.3 - 183.3)
    assert by_claim["MSR-VTT: TCL adds to DE"] == pytest.approx(167.5 - 148.6)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Two pairs of one video; the right frame of the first is the left one of the second."""
    folder = tmp_path / "all_concat" / "MSR-VTT-videoTestVideo_video7-shot2_0"
    folder.mkdir(parents=True)
    colours = {3: (250, 0, 0), 10: (0, 250, 0), 12: (0, 0, 250)}
    for one, other in ((3, 10), (10, 12)):
        both = Image.new("RGB", (64, 24))
        both.paste(colours[one], (0, 0, 32, 24))
        both.paste(colours[other], (32, 0, 64, 24))
        both.save(folder / f"concat_img{one}_img{other}.jpg", quality=95)
    asked = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], [*asked, "commit", "-qm", "pairs"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    return tmp_path


def test_frames_are_distinct_in_the_order_of_time_and_cut_out_of_their_pairs(clone):
    frames = _frame_pairs.listed_frames(clone)
    assert list(frames) == ["video7"]
    assert [frame.number for frame in frames["video7"]] == [3, 10, 12]
    pictures = list(_frame_pairs.opened(clone, frames["video7"]))
    assert [picture.size for picture in pictures] == [(32, 24)] * 3
    strongest = [
        max(range(3), key=picture.getpixel((16, 12)).__getitem__) for picture in pictures
    ]
    assert strongest == [0, 1, 2]


def test_frames_are_spread_out_and_repeated_where_there_are_too_few(clone):
    frames = _frame_pairs.listed_frames(clone)["video7"]
    assert [one.number for one in _frame_pairs.spread_out(frames, 2)] == [3, 12]
    assert [one.number for one in _frame_pairs.spread_out(frames[:2], 4)] == [3, 3, 10, 10]


def made_up(recipe: str, rsums: list[float], view: str, **more) -> list[dict]:
    """Runs of a recipe with these figures."""
    direction = dict.fromkeys(videos.CUTS, 1.0)
    side = dict.fromkeys(videos.DIRECTIONS, direction)
    about = {"kind": "run", "epochs": 5, "batches": 190, "changes": [], **more}
    return [
        {**about, "recipe": recipe, "seed": seed, "test": {view: {**side, "rsum": rsum}}}
        for seed, rsum in enumerate(rsums)
    ]


@pytest.fixture
def results(monkeypatch):
    """A file of results with three seeds of everything about MSVD."""
    hinge, tcl = "msvd/dual_encoding_hinge", "msvd/dual_encoding_tcl"
    runs = made_up(hinge, [130.0, 131.0, 132.0, 190.0], "model")
    runs += made_up(hinge, [138.0, 139.0, 140.0], "together", kind="together")
    runs += made_up(tcl, [150.0, 152.0, 151.0], "both views")
    monkeypatch.setattr(figures, "load", lambda name: {"runs": runs})
    return runs


def verdict_of(claims: list[verdicts.Comparison], claim: str) -> str:
    return next(one.verdict for one in claims if one.claim == claim)


def test_tcl_is_judged_against_one_network_and_against_two(results):
    assert verdict_of(videos.claims(), "MSVD: TCL adds to DE") == "agrees"
    gain = next(one.ours for one in videos.claims() if one.claim == "MSVD: TCL adds to DE")
    assert gain == pytest.approx(20.0), "a fourth seed belongs to the pairs alone"
    assert "two hinge networks | +12.0 ± 1.2 | holds |" in videos.equal_cost_table()
    results[-1]["test"]["both views"]["rsum"] = 100.0
    assert "| undecided: within the spread |" in videos.equal_cost_table()


def test_runs_that_learnt_for_different_times_get_no_verdict(results):
    for run in results:
        if run["recipe"].endswith("_tcl"):
            run["epochs"] = 8
    told = "no verdict: 5 of 190 batches against 8 of 190"
    assert verdict_of(videos.claims(), "MSVD: TCL adds to DE") == told
