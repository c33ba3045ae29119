"""Moments of videos as answers: joined neighbours, one ranking with pictures, filters."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from encoders import ColourEncoder, picture
from moving import HOLIDAY, write_video
from test_calibrate import stated
from typer.testing import CliRunner

from avow.cli import app
from avow.core import formats
from avow.core.errors import BadQuery, MissingExtra
from avow.core.videos import probe
from avow.retrieval import moments as joining
from avow.retrieval.answer import Hit
from avow.retrieval.clips import cut_best
from avow.retrieval.indexing import index, index_folders
from avow.retrieval.library import Library
from avow.retrieval.named_items import item_named
from avow.retrieval.search import Retriever
from avow.retrieval.where import Where
from avow.trust.coherence import agree, one_of_first, one_of_some

pytest.importorskip("av")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with two videos and two pictures, and its index beside it."""
    folder = tmp_path_factory.mktemp("search") / "files"
    folder.mkdir()
    write_video(folder / "holiday.mp4", HOLIDAY)
    write_video(folder / "long.webm", [("black", 30), ("white", 40)])
    picture("yellow").save(folder / "yellow.png")
    picture("red").save(folder / "red.png")
    index_folders([folder], index=folder.parent / "index", encoder=ColourEncoder())
    return folder


@pytest.fixture(scope="module")
def retriever(place: Path) -> Retriever:
    encoder = ColourEncoder()
    return Retriever(Library.open(place.parent / "index", encoder), encoder)


def names(result) -> list[str]:
    return [Path(hit.path).name for hit in (*result.hits, *result.near_misses)]


def test_pictures_and_moments_stand_in_one_ranking(retriever: Retriever):
    first, second = retriever.search("red", k=2).hits
    assert {first.kind, second.kind} == {"image", "video"}
    video = first if first.kind == "video" else second
    assert Path(video.path).name == "holiday.mp4"
    assert video.start == pytest.approx(0, abs=0.2) and video.end == pytest.approx(4, abs=0.5)
    assert 0 <= video.key_frame <= 4 and video.duration == pytest.approx(13, abs=0.2)
    still = first if first.kind == "image" else second
    assert (still.start, still.end, still.key_frame, still.duration) == (None,) * 4


@pytest.mark.parametrize(
    "where, expected",
    [
        ("kind=video", {"holiday.mp4", "long.webm"}),
        ("kind:video", {"holiday.mp4", "long.webm"}),
        ("kind=picture", {"yellow.png", "red.png"}),
        ("kind=image", {"yellow.png", "red.png"}),
        ("kind!=picture", {"holiday.mp4", "long.webm"}),
        ("duration>1min", {"long.webm"}),
        ("duration<=0:20", {"holiday.mp4"}),
        ("duration:13 or duration<14s and kind:video", {"holiday.mp4"}),
        ("duration!=13 and name:red.png", {"red.png"}),
        ("path~holiday", {"holiday.mp4"}),
    ],
)
def test_filters_know_videos(retriever: Retriever, where: str, expected: set[str]):
    items = retriever.library.items(retriever.library.find(Where.parse(where), "image"))
    assert {Path(item.path).name for item in items} == expected


def test_a_wrong_length_is_refused():
    with pytest.raises(BadQuery) as caught:
        Where.parse("duration>soon")
    assert "at character 10 at 'soon': expected a length such as 90, 90s, 2min or 1:30." in str(
        caught.value
    )


def test_a_time_that_is_none_is_told(retriever: Retriever, place: Path):
    with pytest.raises(BadQuery) as caught:
        item_named(retriever.library, str(place / "holiday.mp4"), "noon")
    assert str(caught.value) == (
        "The time is 'noon'. Expected one such as 75 or 1:15; write it so."
    )


def test_a_clip_without_the_package_for_videos_is_told(retriever, tmp_path, monkeypatch):
    clip = write_video(tmp_path / "clip.mkv", [("blue", 1)])
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"Searching with a clip.*'av'.*avow\[video\]"):
        retriever.search(image=clip)


def test_a_notebook_shows_key_frames_and_texts(retriever: Retriever, place: Path):
    shown = retriever.search("red", k=1, where="kind=video")._repr_html_()
    assert "holiday.mp4" in shown and shown.count("<img ") == 1
    (place.parent / "texts").mkdir()
    (place.parent / "texts" / "note.txt").write_text("a red thing")
    encoder, index = ColourEncoder(), place.parent / "texts-index"
    index_folders([place.parent / "texts"], index=index, encoder=encoder)
    with Library.open(index, encoder) as library:
        shown = Retriever(library, encoder).search("red", kind="text")._repr_html_()
    assert "note.txt" in shown and "<img" not in shown


def test_a_still_finds_its_moment(retriever: Retriever):
    result = retriever.search(image=picture("green"), k=1, where="kind=video")
    assert names(result) == ["holiday.mp4"]
    [hit] = result.hits
    assert hit.start == pytest.approx(4, abs=0.5)


def test_a_clip_finds_its_moment(retriever: Retriever, tmp_path: Path):
    clip = write_video(tmp_path / "clip.mkv", [("blue", 2)])
    [hit] = retriever.search(image=clip, k=1).hits
    assert Path(hit.path).name == "holiday.mp4" and hit.start == pytest.approx(9, abs=0.5)


def test_a_missing_clip_is_refused(retriever: Retriever, tmp_path: Path):
    with pytest.raises(BadQuery) as caught:
        retriever.search(image=tmp_path / "none.mp4")
    assert str(caught.value) == (
        f"There is no file {str(tmp_path / 'none.mp4')!r}. Expected a clip to search with; "
        "check its name."
    )


def test_items_like_a_moment_are_found(retriever: Retriever):
    [moment] = retriever.search("red", k=1, where="kind=video").hits
    similar = retriever.similar(moment.id, k=1)
    assert names(similar) == ["red.png"]


def test_the_best_moment_is_cut_out(retriever: Retriever, tmp_path: Path):
    result = retriever.search("green", k=3)
    clip = cut_best(result, tmp_path / "green.mp4")
    assert clip.start <= 4.5 and 8.5 <= clip.end <= 9.6
    assert probe(tmp_path / "green.mp4").duration == pytest.approx(5, abs=1.1)


def test_without_a_moment_there_is_nothing_to_cut(retriever: Retriever, tmp_path: Path):
    result = retriever.search("green", where="kind=picture")
    with pytest.raises(BadQuery, match="no moment of a video among the answers"):
        cut_best(result, tmp_path / "none.mp4")


def hit(number: int, start: float, p: float, path: str = "a.mp4") -> Hit:
    start = float(start)
    more = {"start": start, "end": start + 5, "key_frame": start + 1, "duration": 60.0}
    return Hit(number, path, p, 0.5, number, "video", **more)


def grouped(*hits: Hit) -> list[list[int]]:
    best_first = tuple(sorted(hits, key=lambda one: -(one.p_relevant or 0)))
    return [sorted(one.id for one in group) for group in joining._groups(best_first)]


def test_neighbours_that_fit_are_one_answer():
    a, b, c = hit(1, 0, 0.9), hit(2, 5, 0.6), hit(3, 10, 0.8)
    assert grouped(a, b, c) == [[1, 2, 3]]


def test_a_neighbour_that_does_not_fit_stays_alone():
    assert grouped(hit(1, 0, 0.9), hit(2, 5, 0.1), hit(3, 10, 0.8)) == [[1], [3], [2]]


def test_neighbours_that_fit_equally_little_are_one_answer():
    assert grouped(hit(1, 0, 0.2), hit(2, 5, 0.18), hit(3, 10, 0.1)) == [[1, 2], [3]]


def test_segments_of_other_videos_or_times_are_no_neighbours():
    assert grouped(hit(1, 0, 0.9), hit(2, 5, 0.9, "b.mp4"), hit(3, 20, 0.9)) == [[1], [2], [3]]


def test_a_moment_is_between_its_best_segment_and_their_sum():
    group = [hit(1, 5, 0.5), hit(2, 0, 0.4)]
    joined = joining._answer(group, rho=2.0, anything=0.95)
    assert (joined.id, joined.start, joined.end, joined.key_frame) == (1, 0, 10, 6)
    assert joined.p_relevant == pytest.approx(0.9)
    assert joining._answer(group, rho=1.0, anything=0.95).p_relevant == pytest.approx(0.7)
    assert joining._answer(group, rho=2.0, anything=0.6).p_relevant == pytest.approx(0.6)
    assert joining._answer(group, rho=0.0, anything=0.6).p_relevant == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("kinds", "noun"),
    [(["video"], "moment"), (["image"], "picture"), (["image", "video"], "answer")],
)
def test_an_answer_is_called_what_it_is(kinds, noun):
    hits = [replace(hit(n, 5 * n, 0.8), kind=kind) for n, kind in enumerate(kinds)]
    doubtful = [replace(hit(9, 50, 0.1), kind="video")]
    assert joining._noun(hits + doubtful, stated([0.8, 0.1])) == noun


def test_some_of_the_first_ten_agree_with_all_of_them():
    stated = np.sort(np.random.default_rng(0).uniform(0, 0.6, (5, 10)))[:, ::-1]
    hits, anything, rho = agree(stated, np.linspace(0.7, 0.9, 5))
    for query in range(5):
        together = one_of_some(hits[query], float(rho[query]), float(anything[query]))
        assert together == pytest.approx(float(one_of_first(hits, rho)[query, -1]))


# --- with the shipped model, whose policy judges -------------------------------------------


@pytest.fixture(scope="module")
def judged(tmp_path_factory, place: Path) -> Path:
    """An index of the shipped model: a video of two photographs, and pictures."""
    pytest.importorskip("skimage")
    from skimage import data

    folder = tmp_path_factory.mktemp("judged") / "files"
    folder.mkdir()
    from PIL import Image

    scenes = {"cat": data.chelsea(), "coffee": data.coffee(), "rocket": data.rocket()}
    _film(folder / "clips.mp4", [(scenes["coffee"], 6), (scenes["cat"], 6)])
    Image.fromarray(scenes["rocket"]).save(folder / "rocket.jpg")
    for name in ("red", "yellow", "blue"):
        picture(name, (200, 150)).save(folder / f"{name}.png")
    index([folder], folder.parent / "index")
    return folder.parent / "index"


def _film(path: Path, scenes: list[tuple[np.ndarray, int]]) -> None:
    """Photographs, each slowly moving for some seconds."""
    import av
    from PIL import Image

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for pixels, seconds in scenes:
            image = Image.fromarray(pixels).resize((360, 270))
            for step in range(10 * seconds):
                shift = step * 30 // (10 * seconds)
                part = image.crop((shift, shift // 2, shift + 320, shift // 2 + 240))
                container.mux(stream.encode(av.VideoFrame.from_image(part)))
        container.mux(stream.encode())


def test_a_moment_is_judged_and_printed_with_its_time(judged: Path):
    run = CliRunner().invoke(app, ["search", "a cat", "--index", str(judged), "-k", "3"])
    assert run.exit_code == 0, run.output
    first = next(line for line in run.output.splitlines() if "clips.mp4" in line)
    assert "0:06\N{EN DASH}0:12" in first or "0:05\N{EN DASH}0:12" in first
    assert "%" in first


def test_json_carries_start_end_and_kind(judged: Path, tmp_path: Path):
    out = tmp_path / "cat.mp4"
    asked = ["search", "a cat", "--index", str(judged), "--json", "--clip", str(out)]
    run = CliRunner().invoke(app, asked)
    answer = json.loads(run.stdout)
    assert answer["verdict"] in ("answer", "check")
    best = answer["hits"][0]
    assert best["kind"] == "video"
    assert 5 <= best["start"] <= 7 and best["end"] == pytest.approx(12, abs=0.3)
    assert 0.5 < best["p_relevant"] <= 1 and answer["trust"] >= best["p_relevant"] - 1e-9
    assert "The first moment fits" in answer["why"]
    assert probe(out).duration == pytest.approx(6, abs=1.5)


def test_what_no_video_shows_is_refused(judged: Path):
    result = Retriever.open(judged).search("a submarine under the ice", where="kind=video")
    assert result.verdict == "nothing_found" and not result.hits
    assert "no moment here fits" in result.why


def test_how_many_fit_does_not_hang_on_how_many_are_shown(tmp_path: Path):
    """It is stated where segments that are one answer hardly count, and of no page alone."""
    pytest.importorskip("skimage")
    from PIL import Image
    from skimage import data

    (folder := tmp_path / "files").mkdir()
    cat = data.chelsea()
    nearer = cat[40:260, 260:40:-1]
    _film(folder / "cats.mp4", [(data.coffee(), 6), (cat, 6), (nearer, 6)])
    Image.fromarray(data.rocket()).save(folder / "rocket.jpg")
    index([folder], tmp_path / "index")
    retriever = Retriever.open(tmp_path / "index")
    stated = {}
    for query in ("a rocket", "coffee", "a cat"):
        shown = {k: retriever.search(query, k=k) for k in (1, 2, 3, 20)}
        assert len({result.how_many for result in shown.values()}) == 1, query
        stated[query] = shown[1].how_many is not None
    assert shown[1].hits[0].end == pytest.approx(18, abs=0.5)  # two segments
    assert stated == {"a rocket": True, "coffee": True, "a cat": False}


def test_pictures_alone_are_judged_as_before(judged: Path):
    result = Retriever.open(judged).search("a rocket", where="kind=picture")
    assert result.hits[0].path.endswith("rocket.jpg") and result.how_many is not None
