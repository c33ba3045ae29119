"""A kill, a full disk or a second writer leaves the old content or the new one, whole."""

import errno
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from avow.core import files
from avow.core.errors import NoRoom

ROOT = Path(__file__).parent.parent
needs_fork = pytest.mark.skipif(os.name == "nt", reason="Windows has no fork and no SIGKILL")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are asked in other words")
def test_folders_are_exchanged_and_not_moved_here(tmp_path):
    """Without this the tests above would test the other ways twice."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not files.exchange(tmp_path / "one", tmp_path / "other"):
        pytest.skip("this file system cannot exchange two folders")
    assert (tmp_path / "one" / "other").exists() and (tmp_path / "other" / "one").exists()
    with pytest.raises(FileNotFoundError):
        files.exchange(tmp_path / "one", tmp_path / "missing")


def written(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir())


@pytest.mark.parametrize("moving", [False, True])
def test_what_was_in_the_folder_before_is_gone(tmp_path, monkeypatch, moving):
    if moving:
        monkeypatch.setattr(files, "exchange", lambda *_: False)
    for name in ("first", "second"):
        with files.new_folder(tmp_path / "above" / "run") as home:
            (home / name).write_text(name)
    assert written(tmp_path / "above" / "run") == ["second"]
    assert written(tmp_path / "above") == ["run"]


def test_a_folder_that_was_put_aside_comes_back(tmp_path):
    (tmp_path / ".run.kept").mkdir()
    (tmp_path / ".run.kept" / "old").touch()
    files.recover(tmp_path / "run")
    assert written(tmp_path / "run") == ["old"]
    files.recover(tmp_path / "run")
    assert written(tmp_path) == ["run"]


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with files.new_folder(tmp_path / "link") as home:
        (home / "new").touch()
    assert (tmp_path / "link").is_symlink()
    assert written(tmp_path / "real") == ["new"]
    assert written(tmp_path) == ["link", "real"]


def test_a_file_is_not_replaced_by_a_folder(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(NotADirectoryError), files.new_folder(tmp_path / "run"):
        pytest.fail("nothing is to be written")
    assert (tmp_path / "run").read_text() == "mine"


def test_an_error_while_filling_keeps_the_old_folder(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old").touch()
    with pytest.raises(NoRoom), files.new_folder(tmp_path / "run") as home:
        (home / "half").touch()
        raise OSError(errno.ENOSPC, "No space left on device")
    assert written(tmp_path) == ["run"] and written(tmp_path / "run") == ["old"]


def test_everything_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """The order of events is what a power cut needs; nobody can cut the power here."""
    events: list[str] = []
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def named(handle: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{handle}")).name.replace(".new", "")

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("this system does not tell the name of an open file")
    monkeypatch.setattr(os, "fsync", lambda f: (events.append(named(f)), fsync(f))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("named"), replace(a, b))[1])
    monkeypatch.setattr(os, "rename", lambda a, b: (events.append("named"), rename(a, b))[1])
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "1")
    files.write_text(tmp_path / "note", "text")
    files.save_array(tmp_path / "rows.npy", np.arange(3))
    with files.new_folder(tmp_path / "run") as home:
        (home / "inner").mkdir()
        (home / "inner" / "weights").touch()
    top = tmp_path.name
    assert events == [
        *(".note.1", "named", top),
        *(".rows.npy.1", "named", top),
        *("weights", "inner", ".run.1", "named", top),
    ]


@pytest.mark.parametrize("write", [files.write_text, lambda path, _: folder_at(path)])
def test_what_a_killed_writer_left_behind_is_removed(tmp_path, write):
    (tmp_path / ".note.4711.new").write_text("half")
    (tmp_path / ".note.abc.new").mkdir()
    (tmp_path / ".note.abc.new" / "half").touch()
    (tmp_path / ".note.other.4711.new").touch()  # of another name
    write(tmp_path / "note", "text")
    assert written(tmp_path) == [".note.other.4711.new", "note"]


def folder_at(path: Path) -> None:
    with files.new_folder(path):
        pass


def test_what_another_writer_is_writing_stays(tmp_path):
    with files.new_folder(tmp_path / "run") as one:
        with files.new_folder(tmp_path / "run") as other:
            (one / "one").touch()
            (other / "other").touch()
        assert written(tmp_path / "run") == ["other"]
    assert written(tmp_path / "run") == ["one"] and written(tmp_path) == ["run"]


def test_two_threads_write_one_file(tmp_path):
    texts = [str(number) * 5000 for number in range(4)]

    def write(text: str) -> None:
        for _ in range(20):
            files.write_text(tmp_path / "note", text)
            assert (tmp_path / "note").read_text() in texts

    failed: list[object] = []
    before, threading.excepthook = threading.excepthook, failed.append
    try:
        threads = [threading.Thread(target=write, args=[text]) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.excepthook = before
    assert not failed and written(tmp_path) == ["note"]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.uint64).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.float32(0.5),
        np.empty((0, 4), np.float16),
        np.array(["one", "two"]),
    ],
)
def test_arrays_are_read_as_they_were_saved(tmp_path, array):
    files.save_array(tmp_path / "rows.npy", array)
    stored = np.load(tmp_path / "rows.npy", allow_pickle=False)
    assert stored.dtype == np.asarray(array).dtype
    np.testing.assert_array_equal(stored, array, strict=True)


def test_arrays_of_objects_are_never_written(tmp_path):
    with pytest.raises(ValueError, match="never written"):
        files.save_array(tmp_path / "rows.npy", np.array([{}], object))
    assert written(tmp_path) == []


def test_a_full_disk_keeps_the_file_that_was_there(tmp_path, monkeypatch):
    path = tmp_path / "note"
    files.write_text(path, "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NoRoom) as caught:
        files.write_text(path, "new")
    assert str(caught.value) == (
        f"The disk is full while writing {str(path)!r}. Everything written before is kept. "
        "Free some space and run the same command again to continue."
    )
    assert path.read_text() == "old" and written(tmp_path) == ["note"]


@pytest.mark.parametrize(
    "words", ["inline_container.cc:664, unexpected pos", "I/O error: No space left on device"]
)
def test_a_full_disk_is_known_by_the_words_of_other_libraries(tmp_path, words):
    with pytest.raises(NoRoom), files.room_needed(tmp_path):
        raise RuntimeError(words)
    with pytest.raises(RuntimeError, match="another"), files.room_needed(tmp_path):
        raise RuntimeError("another")


def test_a_new_folder_lasts_with_all_above_it(tmp_path, monkeypatch):
    """A name is on the disk once the folder that holds it was synced."""
    synced: list[Path] = []
    monkeypatch.setattr(files, "_sync", synced.append)
    files.make_folder(tmp_path / "a" / "b")
    files.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir() and synced == [tmp_path, tmp_path / "a"]
    looked, asked = Path.is_dir, []

    def late(path):
        """Another process makes the folder after it was looked for."""
        asked.append(path)
        return len(asked) > 1 and looked(path)

    monkeypatch.setattr(Path, "is_dir", late)
    files.make_folder(tmp_path / "a" / "b")


def test_a_lock_is_waited_for(tmp_path):
    entered, order = threading.Event(), []

    def other():
        entered.set()
        with files.locked(tmp_path):
            order.append("other")

    with files.locked(tmp_path):
        waiting = threading.Thread(target=other)
        waiting.start()
        entered.wait()
        waiting.join(0.2)
        order.append("first")
    waiting.join()
    assert order == ["first", "other"]
