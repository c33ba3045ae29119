"""Kill a process that replaces a folder, and see whether the old or the new folder is whole.

First at every point: the process ends by SIGKILL before its n-th file operation, for every
n that there is, in each of the ways in which `new_folder` replaces a folder. Then at random
moments. After each kill `recover` is called, as everyone who opens such a folder does, and
all of the folder's files are compared.
"""

import errno
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from avow.core import files
from benchmarks.torture._batch import Batch

PROMISE = "Folders are whole: the old one or the new one."
PROOF = (
    "A process that replaces a folder is killed before each of its file operations, then at "
    "random moments, in each of the three ways in which folders are replaced. Afterwards all "
    "files of one generation must be there, and nothing else."
)
WANTED, BATCH = 1000, 100
OPERATIONS = 160
"""More than there are to be killed before, in the way that has most of them."""

WAYS = ("exchange", "moving", "copying")
FILES = ("avow.json", "weights-00001.safetensors", "parts/config.json", "parts/deep/list.npy")
LENGTH = 20_000
_RENAME = os.rename
_OPERATIONS = ("os.", "open", "shutil.", "ctypes.")


def batch(place: Path, first: int, count: int) -> Batch:
    seen = Batch(tries=count)
    with tempfile.TemporaryDirectory(dir=place) as name:
        paths = {way: Path(name) / way / "folder" for way in WAYS}
        for path in paths.values():
            path.parent.mkdir()
            replace(path, 0)
        for number in range(first, first + count):
            way = WAYS[number % len(WAYS)]
            if (told := killed_once(paths[way], way, number, seen)) is not None:
                seen.losses.append(f"{number} {way}: {told}")
                replace(paths[way], 0)
        for way, path in paths.items():
            replace(path, 0)
            if left := sorted(set(os.listdir(path.parent)) - {path.name}):
                seen.losses.append(f"{first} {way}: left behind: {left}")
    return seen


def killed_once(path: Path, way: str, number: int, seen: Batch) -> str | None:
    """Kill once: before an operation, or at a moment where no operation is left."""
    before = generation(path)
    assert before is not None
    at, new = number // len(WAYS) + 1, before + 1
    if at <= OPERATIONS and in_a_child(lambda: replace(path, new, way, at), None):
        allowed = range(before, new + 1)
        seen.counts["killed before an operation"] += 1
    else:
        pause = 0.05 * random.Random(f"folders {number}").random()
        in_a_child(lambda: over_and_over(path, new, way), pause)
        allowed = range(before, 10**9)
        seen.counts["killed at a moment"] += 1
    files.recover(path)
    after = generation(path)
    if after is None or after not in allowed:
        return f"generation {before} was replaced, and {after} is there"
    seen.counts["old" if after == before else "new"] += 1
    return None


def replace(path: Path, number: int, way: str = "exchange", kill_at: int = 0) -> None:
    """Replace the folder by one of generation `number`; die before operation `kill_at`."""
    hinder(way, path)
    if kill_at:
        sys.addaudithook(killer(kill_at))
    with files.new_folder(path) as home:
        for name in FILES:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(content(name, number))


def over_and_over(path: Path, newest: int, way: str) -> None:
    while True:
        newest += 1
        replace(path, newest, way)


def hinder(way: str, path: Path) -> None:
    """Take away what the system can do: the exchange, or moving the old folder at all."""
    if way != "exchange":
        setattr(files, "exchange", lambda *_: False)  # noqa: B010
    if way == "copying":

        def refusing(source: Path, target: Path) -> None:
            if Path(source) == Path(os.path.realpath(path)):
                raise OSError(errno.EXDEV, "cannot be moved")
            _RENAME(source, target)

        os.rename = refusing  # type: ignore[assignment]


def killer(at: int) -> Callable[[str, tuple], None]:
    seen = 0

    def hook(event: str, _: tuple) -> None:
        nonlocal seen
        if event.startswith(_OPERATIONS):
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


def in_a_child(work: Callable[[], None], seconds: float | None) -> bool:
    """Run `work` in a forked process, killed after `seconds`; whether it was killed."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    if os.waitstatus_to_exitcode(status):
        raise SystemExit("replacing a folder failed without having been killed")
    return False


def content(name: str, number: int) -> bytes:
    return f"{name} {number} ".encode() * (LENGTH // (len(name) + 2))


def generation(path: Path) -> int | None:
    """The number of the folder that is there, whole; None for anything else."""
    try:
        number = int((path / FILES[0]).read_bytes().split()[1])
        whole = all((path / name).read_bytes() == content(name, number) for name in FILES)
    except (OSError, ValueError, IndexError):
        return None
    listed = {one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file()}
    return number if whole and listed == set(FILES) else None
