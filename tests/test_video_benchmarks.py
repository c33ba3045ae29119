"""What the benchmarks of videos rest on: the list of filmed clips, and the tests they name."""

import ast
from pathlib import Path

import pytest

pytest.importorskip("av")
from benchmarks.quality import _strung_clips as strung
from benchmarks.quality import video_cases
from benchmarks.quality._moments import Moment

ROOT = Path(__file__).parent.parent


def test_every_query_names_clips_that_are_listed_and_times_in_order():
    listed = strung.listed()
    names = [clip["name"] for clip in listed["clips"]]
    assert len(names) == len(set(names))
    assert len({(clip["from"], clip["path"]) for clip in listed["clips"]}) == len(names)
    for query in listed["queries"]:
        assert query["moments"], query
        for moment in query["moments"]:
            assert moment["clip"] in names
            assert moment.get("start", 0.0) < moment.get("end", float("inf"))
    asked = [query["text"] for query in listed["queries"]] + listed["absent"]
    assert len(asked) == len(set(asked))


def test_without_the_clips_it_says_what_to_fetch(tmp_path: Path):
    with pytest.raises(SystemExit) as caught:
        strung.check(tmp_path)
    told = str(caught.value)
    assert f"clips are not in {tmp_path}. Fetch them first:" in told
    place = tmp_path / "opencv+opencv"
    assert f"  git clone --depth 1 https://github.com/opencv/opencv {place}" in told


def test_true_moments_that_touch_are_one():
    placed = {clip["name"]: strung.Placed(0, 0.0, 9.0) for clip in strung.listed()["clips"]}
    names = [f"sign {name}" for name in ("book", "learn", "school", "walk")]
    times = ((0, 0.0), (0, 4.0), (0, 20.0), (1, 8.0))
    placed |= {
        name: strung.Placed(video, start, start + 4.0)
        for name, (video, start) in zip(names, times, strict=True)
    }
    [found] = [q for q in strung.queries(placed) if q.text == "a woman in a yellow sweater"]
    assert found.moments == [
        Moment(0, (0.0, 8.0)),
        Moment(0, (20.0, 24.0)),
        Moment(1, (8.0, 12.0)),
    ]


def test_the_tests_of_every_case_exist():
    for case, _, file, tests in video_cases.CASES:
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert tests and set(tests) <= defined, case
