"""Tars, Parquet and folders in units to a shared store: the items that a folder would have."""

import sys
from functools import partial

import pyarrow
import pyarrow.parquet
import pytest
from databases import store_on
from encoders import ColourEncoder
from test_sources import web_folder

from avow.core.errors import MissingExtra
from avow.retrieval.indexing import index_folders
from avow.retrieval.item_pictures import open_item
from avow.retrieval.opening import open_library
from avow.retrieval.sharding import plan
from avow.retrieval.sharding.cluster import Cluster
from benchmarks.quality._equal_indexes import png, write_folder, write_tar

__all__ = ["web_folder"]  # the fixture


@pytest.fixture(params=["postgres", pytest.param("milvus", marks=pytest.mark.long)])
def both(request, tmp_path, monkeypatch):
    """Indexes to a folder and to a store, and tells what the two report and hold."""
    with store_on(request.param, request, monkeypatch) as place:

        def run(names, **options):
            runs = [
                index_folders(names, index=index, encoder=ColourEncoder(), **options)
                for index in (tmp_path / "index", place)
            ]
            reports = [(r.new, r.changed, r.deleted, r.unchanged, r.skipped) for r in runs]
            assert reports[0] == reports[1]
            assert contents(tmp_path / "index") == contents(place)
            return reports[0]

        run.store = place
        yield run


def contents(index):
    """Every item by its place: what is known of it, the bytes of its vector; and the rest."""
    with open_library(index) as library:
        ids = library.find()
        items = {
            f"{item.path}|{item.part}": (item.kind, item.content, item.width, vector.tobytes())
            for item, vector in zip(library.items(ids), library.vectors(ids), strict=True)
        }
        assert len(items) == len(ids)
        return items, [(one.path, one.why) for one in library.skipped()]


def test_a_tar_and_its_changes(both, tmp_path):
    tars = tmp_path / "tars"
    members = {f"{number:04}.png": png(number) for number in range(6)}
    write_tar(tars / "0.tar", members | {"0000.txt": b"a caption", "bad.png": b"nothing"})
    write_tar(tars / "1.tar", {"a/b.png": png(77)})
    assert both([f"{tars}/*.tar"])[:4] == (7, 0, 0, 0)
    assert both([f"{tars}/*.tar"])[:4] == (0, 0, 0, 7)
    with open_library(both.store) as library:
        [item] = [one for one in library.items(library.find()) if one.path.endswith("a/b.png")]
        assert open_item(item).size == (32, 32)
    del members["0001.png"]
    write_tar(tars / "0.tar", members | {"0002.png": png(55), "new.png": png(56)})
    assert both([f"{tars}/*.tar"]) == (1, 1, 1, 5, [])
    data = (tars / "1.tar").read_bytes()
    (tars / "1.tar").unlink()
    assert both([f"webdataset:{tars}"])[:4] == (0, 0, 1, 6)
    (tars / "1.tar").write_bytes(data)  # as it was, and yet to be read again
    assert both([f"webdataset:{tars}"])[:4] == (1, 0, 0, 6)


def test_sources_side_by_side_delete_nothing_of_each_other(both, tmp_path):
    write_tar(tmp_path / "x" / "0.tar", {"a.png": png(1)})
    rows = {"key": ["a", "b", None], "jpg": [png(1), png(2), None]}
    pyarrow.parquet.write_table(pyarrow.table(rows), tmp_path / "x" / "0.parquet")
    write_folder(tmp_path / "x", 3)
    assert both([f"{tmp_path}/x/0.tar"])[0] == 1
    assert both([f"{tmp_path}/x/0.parquet"])[0] == 2
    assert both([f"{tmp_path}/x"])[0] == 3
    assert both([f"webdataset:{tmp_path}/x"])[:4] == (0, 0, 0, 1)


def test_a_broken_tar_is_read_again_when_it_is_whole(both, tmp_path):
    whole = tmp_path / "0.tar"
    write_tar(whole, {f"{number}.png": png(number) for number in range(4)})
    data = whole.read_bytes()
    whole.write_bytes(data[:1300])
    new, *_, [(path, why)] = both([str(whole)])
    assert new == 1 and path == str(whole) and why.startswith("a broken shard (")
    whole.write_bytes(data)
    assert both([str(whole)]) == (3, 0, 0, 1, [])


def test_a_run_that_is_killed_goes_on_and_encodes_nothing_twice(both, tmp_path, monkeypatch):
    photos = write_folder(tmp_path / "photos", 23)
    (photos / "broken.png").write_bytes(b"nothing")
    monkeypatch.setattr(plan, "FILES_AT_ONCE", 4)
    encoder = ColourEncoder()
    run = partial(index_folders, [photos], index=both.store, encoder=encoder, in_units=True)

    class Killed(BaseException):
        pass

    finished = plan.Plan.finished

    def dies(self, number):
        if number:
            raise Killed
        finished(self, number)

    monkeypatch.setattr(plan.Plan, "finished", dies)
    for _ in range(2):
        with pytest.raises(Killed):
            run()
    monkeypatch.setattr(plan.Plan, "finished", finished)
    assert encoder.photographs == 16  # two units, and two more
    assert not run().stopped and encoder.photographs == 23
    index_folders([photos], index=tmp_path / "index", encoder=ColourEncoder())
    assert both([photos], in_units=True)[4] == [
        (str(photos / "broken.png"), "not a picture of a known format")
    ]


def test_a_run_that_is_stopped_says_so_and_forgets_nothing(both, tmp_path, monkeypatch):
    photos, seen = write_folder(tmp_path / "photos", 9), []
    monkeypatch.setattr(plan, "FILES_AT_ONCE", 4)
    run = partial(index_folders, [photos], index=both.store, encoder=ColourEncoder())
    run(in_units=True)
    (photos / "00000.png").unlink()
    for number in range(20, 29):
        (photos / f"{number}.png").write_bytes(png(number))
    stopped = run(in_units=True, progress=seen.append, stop=lambda: len(seen) > 6)
    assert stopped.stopped and stopped.deleted == 0
    at_once = run(in_units=True, stop=lambda: True)
    assert at_once.stopped and (at_once.new, at_once.deleted) == (0, 0)
    assert (seen[0].done, seen[0].total) == (0, 9)
    report = run(in_units=True)
    assert not report.stopped and (report.deleted, report.new + report.unchanged) == (1, 17)


def test_files_of_which_a_server_tells_no_change_are_read_again(
    both, web_folder, tmp_path, monkeypatch
):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    url = f"{web_folder}/00000.png"
    assert both([url])[:4] == (1, 0, 0, 0)
    assert both([url])[:4] == (0, 0, 0, 1)
    (tmp_path / "web" / "00000.png").write_bytes(png(5))
    assert both([url])[:4] == (0, 1, 0, 0)


def test_without_ray_the_extra_is_named(both, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    write_tar(tmp_path / "0.tar", {"a.png": png(1)})
    with pytest.raises(MissingExtra, match=r"pip install 'avow\[ray\]'"):
        index_folders(
            [f"{tmp_path}/0.tar"],
            index=both.store,
            encoder=ColourEncoder(),
            cluster=Cluster("auto", "default"),
        )
