"""Indexes with videos: explain, ticks, calibrate, check, repair, rebuild, old indexes."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from encoders import ColourEncoder, picture
from moving import HOLIDAY, write_holiday, write_video
from typer.testing import CliRunner

from avow.cli import app
from avow.core.moments import Moment
from avow.retrieval.calibrate import calibrate
from avow.retrieval.indexing import index_folders
from avow.retrieval.labelled_queries import read_known, read_ticks
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.retrieval.store.inspection import inspect_index

pytest.importorskip("av")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = write_holiday(tmp_path / "files", "yellow")
    run(folder)
    return folder


def run(folder: Path, **more):
    return index_folders([folder], index=index_of(folder), encoder=ColourEncoder(), **more)


def index_of(folder: Path) -> Path:
    return folder.parent / "index"


def opened(folder: Path) -> Retriever:
    encoder = ColourEncoder()
    return Retriever(Library.open(index_of(folder), encoder), encoder)


def described(folder: Path) -> dict[tuple[str, str], int]:
    """Item numbers by name and part."""
    with Library.open(index_of(folder)) as library:
        items = library.items(library.find(None, "image"))
    return {(Path(item.path).name, item.part): item.id for item in items}


def best(folder: Path, text: str) -> int:
    result = opened(folder).search(text, k=1, where="kind=video")
    return (*result.hits, *result.near_misses)[0].id


def test_a_moment_is_explained_by_its_key_frame(place: Path):
    retriever = opened(place)
    number = best(place, "green")
    explanation = retriever.explain("green", number)
    frame = retriever.photograph(number)
    assert frame.size == (64, 48)
    vector = retriever.encoder.encode_images([frame])[0]
    query = retriever.encoder.encode_texts(["green"])[0]
    assert explanation.similarity == pytest.approx(float(vector @ query), abs=1e-5)


@pytest.mark.slow
def test_the_command_explains_a_frame(place: Path, tmp_path: Path):
    words = ["explain", "green grass", str(place / "holiday.mp4"), "--at", "0:06", "--json"]
    out = tmp_path / "heat.png"
    done = CliRunner().invoke(app, [*words, "--model", "default", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["words"]) == 2 and out.is_file()
    wrong = CliRunner().invoke(app, [*words[:-3], "--at", "soon", "--model", "default"])
    assert wrong.exit_code == 2 and "expected a time such as 75 or 1:15" in wrong.output


def test_ticks_of_moments_are_kept_and_read(place: Path):
    number = best(place, "green")
    retriever = opened(place)
    retriever.feedback("green", number, True)
    retriever.feedback("green", best(place, "red"), False)
    assert read_ticks(retriever.library) == {"green": {number: True, best(place, "red"): False}}
    run(place)
    assert read_ticks(opened(place).library)["green"][number] is True


def test_pairs_name_a_moment_by_its_time(place: Path):
    pairs = place.parent / "pairs.csv"
    film = place / "holiday.mp4"
    pairs.write_text(
        f"query,file\ngreen,{film}#t=6\nblue,holiday.mp4#t=0:11\nred,{film}\n"
        f"yellow,yellow.png\nwhite,{film}#t=99\n"
    )
    labelled = read_known(opened(place).library, pairs)
    assert labelled.right["green"] == {best(place, "green")}
    assert labelled.right["blue"] == {best(place, "blue")}
    assert set(labelled.right) == {"green", "blue", "yellow"}
    assert labelled.lost == [str(film), f"{film}#t=99"]


@pytest.mark.slow
def test_an_index_with_videos_is_calibrated(tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    names = ("red", "green", "blue", "yellow", "white")
    shades = [(name, number) for number in range(18) for name in names]
    write_video(folder / "film.mp4", [(name, 2) for name in names])
    for name, number in shades:
        picture(name, (40 + number, 30)).save(folder / f"{name}{number}.png")
    run(folder)
    pairs = tmp_path / "pairs.csv"
    lines = [f"{name} {number},{name}{number}.png" for name, number in shades]
    lines += [f"{name} film,film.mp4#t={2 * place + 1}" for place, name in enumerate(names)]
    pairs.write_text("query,file\n" + "\n".join(lines))
    retriever = opened(folder)
    calibrate(retriever, pairs)
    result = opened(folder).search("red", k=5)
    assert result.verdict != "unjudged"
    assert all(hit.p_relevant is not None for hit in (*result.hits, *result.near_misses))


def test_damage_to_a_moment_is_found_and_repaired(place: Path):
    before = described(place)
    ticked = best(place, "green")
    opened(place).feedback("green", ticked, True)
    assert inspect_index(index_of(place)) == []
    link = sqlite3.connect(index_of(place) / "catalogue.sqlite")
    link.execute(
        "UPDATE items SET part = '0.000-9.000 key 1.000 of 9.000' WHERE id = ?", [ticked]
    )
    link.commit()
    link.close()
    assert any(
        "damaged" in one.what or "changed" in one.what for one in inspect_index(index_of(place))
    )
    report = run(place, rebuild=True)
    assert report.repaired
    assert inspect_index(index_of(place)) == []
    assert described(place).keys() == before.keys()
    kept = {key: number for key, number in before.items() if number != ticked}
    assert kept.items() <= described(place).items()


def test_a_rebuild_keeps_the_numbers_of_moments(place: Path):
    before = described(place)
    run(place, rebuild=True)
    assert described(place) == before


def test_half_precision_and_compaction_keep_moments(tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(3):
        write_video(folder / f"{number}.mp4", [("red", 2), ("blue", 2)], noise=10 + number)
    run(folder, half=True)
    for number in range(2):
        (folder / f"{number}.mp4").unlink()
    run(folder)
    assert {name for name, _ in described(folder)} == {"2.mp4"}
    assert inspect_index(index_of(folder)) == []


def test_videos_join_an_index_of_format_1(tmp_path: Path):
    """An index without checksums is brought up to date, and takes videos in."""
    folder = tmp_path / "files"
    folder.mkdir()
    picture("yellow").save(folder / "yellow.png")
    run(folder)
    _as_format_1(index_of(folder))
    write_video(folder / "holiday.mp4", HOLIDAY)
    assert run(folder).new == 1
    assert inspect_index(index_of(folder)) == []
    parts = [Moment.parse(part) for name, part in described(folder) if name == "holiday.mp4"]
    assert len(parts) >= 3 and None not in parts


def _as_format_1(index: Path) -> None:
    """Take away what format 2 added."""
    from avow.retrieval.store.schema import FORMAT_1, FORMAT_2, statements

    old = sqlite3.connect(index / "catalogue.sqlite")
    new = sqlite3.connect(index / "old.sqlite")
    for statement in statements(FORMAT_1):
        new.execute(statement)
    added = [one.split()[2] for one in statements(FORMAT_2) if one.startswith("CREATE TABLE")]
    for (table,) in new.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
    ).fetchall():
        if table in added or table == "sqlite_sequence":
            continue
        columns = ", ".join(row[1] for row in new.execute(f"PRAGMA table_info({table})"))
        for row in old.execute(f"SELECT {columns} FROM {table}"):
            new.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    new.execute("PRAGMA user_version = 1")
    new.commit()
    for link in (old, new):
        link.close()
    for ending in ("", "-wal", "-shm"):
        (index / f"catalogue.sqlite{ending}").unlink(missing_ok=True)
    shutil.move(index / "old.sqlite", index / "catalogue.sqlite")


def test_trust_is_transferred_on_key_frames(place: Path):
    """A model without a policy is compared with the default one on what can be seen."""
    from avow.retrieval.transfer import _encoded

    encoder = ColourEncoder()
    with Library.open(index_of(place), encoder) as library:
        ids = library.find(None, "image")
        read, vectors = _encoded(ColourEncoder(), library, ids, lambda _: None)
        assert read.tolist() == ids.tolist() and len(read) > 3
        near = (vectors * library.vectors(ids)).sum(1)
    assert near.min() > 0.9  # a key frame is like the mean of its segment
