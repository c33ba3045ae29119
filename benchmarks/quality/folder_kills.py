"""Kill a process that replaces a folder, and see whether the old or the new folder is whole.

    python -m benchmarks.quality.folder_kills [--kills 1000]

First at every point: the process ends by SIGKILL before its n-th file operation, for every
n that there is, in each of the ways in which `new_folder` replaces a folder. Then at random
moments. After each kill `recover` is called, as everyone who opens such a folder does, and
all of the folder's files are compared.
"""

import argparse
import errno
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from avow.core import files

WAYS = ("exchange", "moving", "copying")
FILES = ("avow.json", "weights-00001.safetensors", "parts/config.json", "parts/deep/list.npy")
LENGTH = 20_000
_RENAME = os.rename
_OPERATIONS = ("os.", "open", "shutil.", "ctypes.")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--print", action="store_true", help="keep nothing, print the figures")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = {
            "at_every_operation": {way: at_every_operation(Path(name), way) for way in WAYS},
            "at_random": {
                way: at_random(Path(name), way, chosen.kills // len(WAYS), chosen.seed)
                for way in WAYS
            },
        }
    if chosen.print:
        print(json.dumps(figures))
        return
    from benchmarks._report import keep

    print(f"{json.dumps(figures, indent=1)}\n-> {keep('folder_kills', figures)}")


def at_every_operation(place: Path, way: str) -> dict[str, int]:
    """Kill before the first, second, third … operation, until the folder gets replaced."""
    path = place / f"every-{way}" / "folder"
    path.parent.mkdir()
    figures: dict[str, int] = {"kills": 0, "old": 0, "new": 0, "broken": 0, "left_over": 0}
    replace(path, 0)
    for number in range(1, 10_000):
        before = generation(path)
        assert before is not None
        killed = in_a_child(lambda n=number: replace(path, n, way, n), None)
        files.recover(path)
        after = generation(path)
        if not killed:
            break
        count(figures, before, number, after)
        if after is None:
            replace(path, 0)
    figures["left_over"] = len(os.listdir(path.parent)) - 1
    return figures


def at_random(place: Path, way: str, kills: int, seed: int) -> dict[str, int]:
    """Kill a process that replaces a folder over and over."""
    path = place / f"random-{way}" / "folder"
    path.parent.mkdir()
    figures: dict[str, int] = {"kills": 0, "old_or_new": 0, "broken": 0, "left_over": 0}
    replace(path, 0)
    draw = random.Random(seed)
    for _ in range(kills):
        newest = generation(path) or 0
        in_a_child(lambda n=newest: over_and_over(path, n, way), 0.05 * draw.random())
        files.recover(path)
        figures["kills"] += 1
        figures["broken" if generation(path) is None else "old_or_new"] += 1
        if generation(path) is None:
            replace(path, 0)
    replace(path, 0)
    figures["left_over"] = len(os.listdir(path.parent)) - 1
    return figures


def count(figures: dict[str, int], before: int, new: int, after: int | None) -> None:
    figures["kills"] += 1
    state = "old" if after == before else "new" if after == new else "broken"
    figures[state] += 1


def replace(path: Path, number: int, way: str = "exchange", kill_at: int = 0) -> None:
    """Replace the folder by one of generation `number`; die before operation `kill_at`."""
    prepare(way, path)
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


def prepare(way: str, path: Path) -> None:
    """Take away what the system can do: the exchange, or moving the old folder at all."""
    if way != "exchange":
        files.exchange = lambda *_: False
    if way == "copying":

        def refusing(source: Path, target: Path) -> None:
            if Path(source) == Path(os.path.realpath(path)):
                raise OSError(errno.EXDEV, "cannot be moved")
            _RENAME(source, target)

        os.rename = refusing


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


if __name__ == "__main__":
    main()
