"""The command line as people and scripts use it: similar, status, watch, formats, exits."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from encoders import ColourEncoder
from PIL import Image
from search_samples import picture, save_pictures, save_toy
from serving import wait_until
from starlette.testclient import TestClient
from test_cli import command

import avow
from avow.api import create_app
from avow.core.errors import MissingExtra
from avow.retrieval.encoders.lazy import Deferred
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.store.lock import only_writer
from avow.retrieval.tables import COLUMNS
from avow.retrieval.watching import watch_folders

__all__ = ["command"]  # the fixture


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Twelve pictures, one with an awkward name, indexed by the model that ships with Avow."""
    home = tmp_path_factory.mktemp("command line")
    paths = save_pictures(home / "pictures", 11)
    paths[0].rename(home / "pictures" / 'a "red"\nwall, wet.png')
    index_folders([home / "pictures"], index=home / "index", encoder=open_encoder())
    return home


# --- formats ---------------------------------------------------------------------------------


def test_json_is_the_same_object_as_the_servers(command, place):
    _, out, _ = command("search", "a red wall", "-k", 3, "--index", place / "index", "--json")
    with TestClient(
        create_app(avow.open(place / "index")), base_url="http://127.0.0.1"
    ) as client:
        served = client.get("/api/search", params={"text": "a red wall", "k": 3}).json()
    assert json.loads(out) == served


@pytest.fixture(scope="module")
def unjudged(tmp_path_factory):
    """An index whose model has no policy: every search shows its hits."""
    home = tmp_path_factory.mktemp("unjudged")
    save_toy(home / "model")
    save_pictures(home / "pictures", 10)
    awkward = home / "pictures" / 'a "red"\nwall, wet.png'
    picture(40).save(awkward)
    encoder = open_encoder(str(home / "model"))
    index_folders([home / "pictures"], index=home / "index", encoder=encoder)
    return home


def test_format_jsonl_is_an_object_per_hit_with_the_verdict(command, unjudged):
    asked = ("search", "a red dog", "-k", 4, "--index", unjudged / "index")
    code, out, err = command(*asked, "--format", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    whole = json.loads(command(*asked, "--format", "json")[1])
    assert (code, err, len(rows)) == (0, "", 4)
    assert [{**hit, "verdict": "unjudged", "trust": None} for hit in whole["hits"]] == rows


def test_format_csv_reads_back(command, unjudged):
    asked = ("search", "a red dog", "-k", 11, "--index", unjudged / "index")
    _, out, _ = command(*asked, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out, newline="")))
    whole = json.loads(command(*asked, "--json")[1])
    assert tuple(rows[0]) == COLUMNS
    assert [row["path"] for row in rows] == [hit["path"] for hit in whole["hits"]]
    assert any("\n" in row["path"] for row in rows)


def test_paths0_keeps_any_file_name(command, unjudged):
    asked = ("search", "a red dog", "-k", 11, "--index", unjudged / "index")
    whole = json.loads(command(*asked, "--json")[1])
    for option in (("-0",), ("--format", "paths0")):
        code, out, _ = command(*asked, *option)
        assert code == 0 and out.endswith("\0")
        assert out.split("\0")[:-1] == [hit["path"] for hit in whole["hits"]]
        assert all(Path(path).is_file() for path in out.split("\0")[:-1])


@pytest.mark.parametrize("layout", ["jsonl", "csv", "paths0"])
def test_nothing_found_gives_no_rows_and_says_why_on_stderr(command, unjudged, layout):
    asked = ("search", "dog", "--where", 'name="none"', "--index", unjudged / "index")
    code, out, err = command(*asked, "--format", layout)
    assert code == 3 and err == "Nothing found. No picture passes the filter.\n"
    assert out == (",".join(COLUMNS) + "\n" if layout == "csv" else "")


# --- usage errors and a missing index ------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("search",),
        ("search", " "),
        ("search", "dog", "-k", "0"),
        ("search", "dog", "--risk", "7"),
        ("search", "dog", "--where", "size>"),
        ("search", "dog", "--format", "yaml"),
        ("search", "dog", "--json", "-0"),
        ("search", "dog", "--nonsense"),
        ("similar",),
        ("similar", "99999"),
        ("watch",),
        ("serch", "dog"),
    ],
    ids=" ".join,
)
def test_usage_errors_exit_2(command, unjudged, monkeypatch, arguments):
    monkeypatch.setenv("AVOW_HOME", str(unjudged))
    code, out, err = command(*arguments)
    assert (code, out) == (2, "") and err


@pytest.mark.parametrize(
    "arguments",
    [("search", "dog"), ("similar", "a.png"), ("status",), ("check",)],
    ids=lambda arguments: arguments[0],
)
def test_a_missing_index_is_told_before_anything_slow_is_loaded(tmp_path, arguments):
    """How long that takes: docs/results/product.md. Here, that nothing slow is imported."""
    slow = (
        "numpy",
        "PIL.Image",
        "onnxruntime",
        "sklearn",
        "torch",
        "fastapi",
        "avow.retrieval",
    )
    script = (
        f"import sys; sys.argv = ['avow', *{arguments!r}]\n"
        "import avow.cli\n"
        "try: avow.cli.main()\n"
        "except SystemExit as stop: code = stop.code\n"
        f"print(code, [name for name in {slow!r} if name in sys.modules])\n"
        "print(*(name for name in avow.cli.COMMANDS if 'avow.cli.' + name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "AVOW_HOME": str(tmp_path)},
    )
    told, loaded = done.stdout.splitlines()
    assert told == "1 []", done.stderr
    others = {"audit", "serve", "train"}  # no command waits for the options of the others
    assert arguments[0] in loaded.split() and not others & set(loaded.split())
    assert done.stderr.startswith(f"avow: There is no index in {str(tmp_path / 'index')!r}.")


# --- similar ---------------------------------------------------------------------------------


def test_similar_by_the_file_and_by_the_number(command, unjudged, monkeypatch):
    index, pictures = unjudged / "index", unjudged / "pictures"
    code, out, _ = command(
        "similar", pictures / "red-000.png", "-k", 3, "--index", index, "--json"
    )
    by_file = json.loads(out)
    assert code == 0 and len(by_file["hits"]) == 3
    assert str(pictures / "red-000.png") not in [hit["path"] for hit in by_file["hits"]]
    number = by_file["query"]["similar_to"]
    assert (
        json.loads(command("similar", number, "-k", 3, "--index", index, "--json")[1])
        == by_file
    )
    monkeypatch.chdir(pictures)  # a path as people type it
    _, out, _ = command("similar", "red-000.png", "-k", 3, "--index", index, "--json")
    assert json.loads(out) == by_file
    _, out, _ = command(
        "similar", 'a "red"\nwall, wet.png', "-k", 1, "--index", index, "--json"
    )
    assert json.loads(out)["query"]["similar_to"] != number


def test_similar_to_a_picture_outside_the_index(command, unjudged, tmp_path):
    shutil.copy(unjudged / "pictures" / "red-000.png", tmp_path / "elsewhere.png")
    code, out, _ = command(
        "similar", tmp_path / "elsewhere.png", "--index", unjudged / "index", "-0"
    )
    assert code == 0 and out.split("\0")[0] == str(unjudged / "pictures" / "red-000.png")
    code, _, err = command("similar", tmp_path / "no.png", "--index", unjudged / "index")
    assert code == 1 and "no.png" in err


def test_similar_to_a_moment_of_a_video(command, tmp_path):
    videos = pytest.importorskip("tiny_videos")
    (tmp_path / "films").mkdir()
    scenes = [np.asarray(picture(n)) for n in (0, 2)]

    def paint(time, width, height):
        return scenes[int(time >= 5)][:height, :width]

    times = np.arange(0, 10, 0.2)
    videos.write(tmp_path / "films" / "film.mp4", times, size=(64, 64), paint=paint)
    index_folders(
        [tmp_path / "films"], index=tmp_path / "index", encoder=open_encoder(), fps=2.0
    )
    asked = (
        "similar",
        tmp_path / "films" / "film.mp4",
        "--index",
        tmp_path / "index",
        "--json",
    )
    numbers = {}
    for at in ("0", "0:07"):
        code, out, err = command(*asked, "--at", at)
        assert code in (0, 3), err
        numbers[at] = json.loads(out)["query"]["similar_to"]
    assert numbers["0"] != numbers["0:07"]
    code, _, err = command(*asked, "--at", "9:00")
    assert code == 2 and err.startswith("avow: The time is 540 s, and the video ends at ")


# --- status -----------------------------------------------------------------------------------


def test_status_says_what_is_indexed_by_which_model_and_how_far_trust_reaches(command, place):
    (place / "pictures" / "broken.jpg").write_bytes(b"no picture")
    index_folders([place / "pictures"], index=place / "index", encoder=open_encoder())
    code, out, err = command("status", "--index", place / "index", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["pictures"], found["videos"], found["texts"]) == (11, 0, 0)
    assert found["folders"] == [str(place / "pictures")] and found["skipped"] == 1
    assert found["model"] == "default" and found["engine"] == "exact"
    by_words, by_picture, _ = found["trust"]
    assert by_words["judged"] and 0 < by_words["usual"][0]["coverage"] <= 1
    assert [one["asked"] for one in by_words["usual"]] == ["names", "descriptions"]
    assert "this one has 11" in by_words["why"] and by_picture["judged"]
    assert by_words["doubts"] == ["fitted on galleries of 20 to 1894, used on one of 11"]
    assert by_words["usual"][0]["says"].startswith(
        "At most 6 % wrong: nothing was measured over about 11 pictures; over 20 "
    )
    assert by_picture["usual"][0]["risk"] == 0.1  # as searches with a picture have it
    assert by_picture["search"] == "pictures by a picture"
    lines = command("status", "--index", place / "index")[1].splitlines()
    assert lines[2] == "Holds:    11 pictures"
    assert any(line.startswith("Trust in searching pictures by words: ") for line in lines)


@pytest.mark.parametrize("name", ["postgres:a-b", "milvus:", "postgres:a b"])
def test_a_store_that_cannot_be_called_like_that_becomes_no_folder(command, place, name):
    code, _, err = command("index", place / "pictures", "--index", name)
    assert code == 1 and f"A store cannot be called {name!r}." in err
    assert not Path(name).exists()


def test_status_of_a_model_without_a_policy(command, unjudged):
    found = json.loads(command("status", "--index", unjudged / "index", "--json")[1])
    assert [one["judged"] for one in found["trust"]] == [False] * 3
    assert found["trust"][0]["why"] == "Nothing is calibrated; answers are only ranked."


# --- evaluate and trust of the model that comes with Avow ----------------------------------


def write_list(place: Path, count: int) -> Path:
    """Pictures of colours and what they show, all in the test split."""
    save_pictures(place / "pictures", count)
    files = sorted((place / "pictures").iterdir())
    rows = [f"pictures/{file.name},a {file.stem.split('-')[0]} wall,test" for file in files]
    (place / "mine.csv").write_text("\n".join(["image,caption,split", *rows]) + "\n")
    return place / "mine.csv"


def test_evaluate_default_looks_at_the_photographs(command, tmp_path):
    listed = write_list(tmp_path, 10)
    code, out, err = command("evaluate", "default", "--data", listed, "--draws", 0, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["about"]["run"] == "default" and found["about"]["images"] == 10
    # the same ranks by a plain loop over the vectors of the encoder
    encoder = open_encoder()
    files = sorted((tmp_path / "pictures").iterdir())
    prepared = np.stack([encoder.prepare(Image.open(file)) for file in files])
    images = encoder.encode_prepared(prepared)
    texts = encoder.encode_texts([f"a {file.stem.split('-')[0]} wall" for file in files])
    scores = images @ texts.T
    first = sum(
        all(scores[n, n] > scores[other, n] for other in range(10) if other != n)
        for n in range(10)
    )
    assert found["rows"][-1]["text_to_image"]["r1"] == pytest.approx(100 * first / 10)


@pytest.mark.parametrize("name", ["evaluate", "trust"])
def test_default_is_a_model_even_beside_a_folder_of_that_name(
    command, tmp_path, monkeypatch, name
):
    """`avow trust default` made such a folder itself, and then found no model in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "default" / "trust").mkdir(parents=True)
    monkeypatch.setenv("AVOW_DATA", str(tmp_path))
    code, _, err = command(name, "default")
    assert code == 1 and "There is no model" not in err
    assert err.startswith("avow: There is no dataset 'flickr8k'.")


def test_trust_of_default_makes_no_folder_that_hides_the_model(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AVOW_DATA", str(tmp_path))
    assert command("trust", "default")[0] == 1
    assert not (tmp_path / "default").exists()


# --- watch ------------------------------------------------------------------------------------


def test_watch_keeps_an_index_current(tmp_path):
    pytest.importorskip("watchfiles")
    pictures = tmp_path / "pictures"
    save_pictures(pictures, 3)
    encoder, reports, stop = ColourEncoder(), [], threading.Event()
    deferred = Deferred("colours", "", lambda: encoder)
    thread = threading.Thread(
        target=watch_folders,
        args=[[pictures]],
        kwargs={
            "index": pictures / "index",  # inside: its own changes must not start it again
            "encoder": deferred,
            "tell": reports.append,
            "stop": stop,
            "quiet": 50,
        },
    )
    thread.start()
    try:
        wait_until(lambda: len(reports) == 1)
        assert reports[0].new == 3
        time.sleep(0.2)  # nothing happens, and nothing is told
        assert len(reports) == 1
        (pictures / "deep").mkdir()
        picture(7).save(pictures / "deep" / "new.png")
        wait_until(lambda: sum(report.new for report in reports) == 4)
        (pictures / "deep" / "new.png").unlink()
        wait_until(lambda: sum(report.deleted for report in reports) == 1)
    finally:
        stop.set()
        thread.join()
    assert all(report.new or report.deleted for report in reports)


def test_watch_waits_for_an_index_that_another_process_writes(tmp_path):
    pytest.importorskip("watchfiles")
    save_pictures(tmp_path / "pictures", 1)
    index, encoder, reports, stop = tmp_path / "index", ColourEncoder(), [], threading.Event()
    index_folders([tmp_path / "pictures"], index=index, encoder=encoder)
    picture(7).save(tmp_path / "pictures" / "new.png")
    tried = threading.Event()

    def opened():
        return tried.set() or encoder

    def watched():
        deferred = Deferred("colours", "", opened)
        how = {"index": index, "encoder": deferred, "tell": reports.append, "quiet": 20}
        watch_folders([tmp_path / "pictures"], stop=stop, **how)

    with only_writer(index):
        thread = threading.Thread(target=watched)
        thread.start()
        time.sleep(0.2)
        stop.set()
        thread.join()
    assert reports == [] and not tried.is_set()


def test_watch_without_its_package_says_what_to_install(command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    code, _, err = command("watch", tmp_path, "--index", tmp_path / "index")
    assert (code, err) == (1, f"avow: {MissingExtra('`avow watch`', 'watchfiles', 'watch')}\n")


def test_watching_no_folder(command, tmp_path):
    pytest.importorskip("watchfiles")
    code, _, err = command("watch", tmp_path / "none", "--index", tmp_path / "index")
    assert code == 1 and err.startswith(f"avow: There is no folder {str(tmp_path / 'none')!r}.")
