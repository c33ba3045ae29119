"""Open models and indexes that an attacker has changed: does anything of theirs happen?

    python -m benchmarks.quality.hostile [--count 2000] [--seed 0]

Every file of a small model, a model of transformers, a run, and an index is changed by a seed,
and what was changed is opened and used as `avow` does it. Python reports what happens meanwhile
(`sys.addaudithook`): importing a module from outside, running its code, starting a process,
connecting to a machine, or writing outside the user's own folder is an event. Every opening
ends in a result or in a sentence (an AvowError); everything else is a traceback.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import sysconfig
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import torch  # noqa: E402
from search_samples import save_pictures, save_toy, save_two_towers  # noqa: E402

import avow  # noqa: E402
from avow.assembly.model import Model  # noqa: E402
from avow.core.errors import AvowError  # noqa: E402
from avow.retrieval.encoders.opening import open_encoder  # noqa: E402
from avow.retrieval.indexing import index_folders  # noqa: E402
from avow.retrieval.library import Library  # noqa: E402
from avow.training.optim import build_optimiser  # noqa: E402
from avow.training.state import Progress, load_state, save_state  # noqa: E402
from avow.trust.policy import Policy  # noqa: E402
from benchmarks._mutations import mutate  # noqa: E402

EVIL = 'from pathlib import Path\nPath(__file__).with_name("ran").touch()\n'
LONGEST = 20  # seconds for one opening; only a reader that waits without end takes so long
PROCESSES = ("subprocess.", "os.system", "os.exec", "os.fork", "os.spawn", "os.posix_spawn")
NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib.", "http.")
PLACES = (
    *(sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(ROOT)),
    *(sysconfig.get_path("platstdlib") + "/lib-dynload", sysconfig.get_path("stdlib")),
)
"""Where packages lie; the first that fits counts."""
WRITES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.link", "os.symlink")


class Watch:
    """What happens while files of a stranger are open."""

    def __init__(self) -> None:
        self.on = False
        self.events: list[str] = []
        self.roots: frozenset[str] = frozenset()
        """Packages that may be imported from: those in use before anything hostile was."""
        self.home = self.hostile = ""
        sys.addaudithook(self)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        self.on = False  # what follows is our own doing
        try:
            what = self._harm(event, args)
            if what:
                self.events.append(f"{event}: {what[:200]}")
        finally:
            self.on = True

    def _harm(self, event: str, args: tuple[Any, ...]) -> str:
        if event == "import":
            return "" if str(args[0]).partition(".")[0] in self.roots else str(args[0])
        if event in ("exec", "compile"):
            return self._foreign_code(event, args)
        if event.startswith(PROCESSES + NETWORK):
            return repr(args)
        if event == "open":
            writes = isinstance(args[1], str) and set(args[1]) & set("wax+")
            flags = args[2] if isinstance(args[2], int) else 0
            changes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            return self._outside(args[0]) if writes or changes else ""
        if event in WRITES or event.startswith("shutil."):
            return self._outside(args[0])
        return ""

    def _foreign_code(self, event: str, args: tuple[Any, ...]) -> str:
        """The file of code that is run and not of a package in use.

        `importlib.import_module` is no event of its own, but running the module is.
        """
        file = str(args[1] if event == "compile" else getattr(args[0], "co_filename", ""))
        if file.startswith(self.hostile):
            return file
        if event == "compile" or getattr(args[0], "co_name", "") != "<module>":
            return ""
        home = next((one for one in PLACES if file.startswith(one)), None)
        if home is None:
            return "" if file.startswith("<") else file
        return "" if Path(file[len(home) + 1 :]).parts[0].split(".")[0] in self.roots else file

    def _outside(self, path: Any) -> str:
        named = isinstance(path, str | bytes | Path)
        text = os.path.abspath(os.fsdecode(path)) if named else ""
        return "" if not text or text.startswith((self.home, "/dev/null")) else text

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self.on = True
        try:
            yield
        finally:
            self.on = False


WATCH = Watch()


def main() -> None:
    from benchmarks._report import keep

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one number again, with its traceback")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        figures = attack(Path(name), chosen.count, chosen.seed, chosen.only)
    _print(figures)
    if chosen.only is None:
        print("->", keep("hostile", figures))
    raise SystemExit(bool(figures["events"] or figures["tracebacks"]))


def attack(
    place: Path,
    count: int,
    seed: int = 0,
    only: int | None = None,
    kinds: Sequence[str] = (),
) -> dict[str, Any]:
    """Change and open so many; what happened, kind by kind. kinds: of TARGETS; default: all."""
    made, work = place / "made", place / "work"
    build(made)
    opened = Counter[str]()
    told = Counter[str]()
    events: list[str] = []
    tracebacks: list[str] = []
    slowest = 0.0
    sys.dont_write_bytecode = True  # else every late import would be a file that is written
    with _surroundings(place, made):
        kinds = kinds or list(TARGETS)
        for kind in kinds:  # everything that is ever imported is imported now
            with contextlib.suppress(AvowError):
                TARGETS[kind](made / kind)
        roots = {name.partition(".")[0] for name in sys.modules} | {"equinox", "wadler_lindig"}
        WATCH.roots = frozenset(roots - {"gift"})  # both for a message of jaxtyping's
        before = _memory()
        for number in range(count) if only is None else [only]:
            draw = random.Random(f"{seed} {number}")
            kind = draw.choice(kinds)
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(made / kind, work / kind, symlinks=True)
            change = f"{number} {kind}: {mutate(work / kind, draw)}"
            started = time.monotonic()
            end = _open(TARGETS[kind], work / kind)
            took = time.monotonic() - started
            slowest = max(slowest, took)
            if took > LONGEST / 4:
                print(f"{took:.1f} s for {change}", file=sys.stderr)
            opened[kind] += 1
            if isinstance(end, AvowError):
                told[kind] += 1
            elif end is not None:
                tracebacks.append(f"{change}: {_line(end)}")
                print(tracebacks[-1], file=sys.stderr)
                if only is not None:
                    traceback.print_exception(end)
            if only is not None:
                print(change, "->", repr(end))
            if number % 100 == 99:
                print(f"{number + 1} opened", file=sys.stderr)
            events += [f"{change}: {event}" for event in WATCH.events]
            WATCH.events.clear()
    events += [f"{ran} was written" for ran in place.rglob("ran")]
    return {
        "seed": seed,
        "opened": dict(opened),
        "refused in a sentence": dict(told),
        "events": events,
        "tracebacks": tracebacks,
        "slowest, seconds": round(slowest, 2),
        "more memory than before, MB": round(_memory() - before),
    }


def _open(opening: Callable[[Path], None], place: Path) -> BaseException | None:
    """How opening ended: with nothing to say, or with this."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST)
    try:
        with WATCH.watching():
            opening(place)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error
    finally:
        signal.alarm(0)
    return None


def _too_long(*_: object) -> None:
    raise TimeoutError(f"it took more than {LONGEST} seconds")


def _line(error: BaseException) -> str:
    """Where an error came from, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "/avow/" in one.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{type(error).__name__} at {where}: {' '.join(str(error).split())[:120]}"


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.contextmanager
def _surroundings(place: Path, made: Path) -> Iterator[None]:
    """In the folder of the gift, which Python searches for modules, as with `python -m`."""
    home, before = place / "home", os.environ.get("AVOW_HOME")
    home.mkdir()
    os.environ["AVOW_HOME"] = str(home)
    WATCH.home, WATCH.hostile = str(home), str(place)
    folder = Path.cwd()
    os.chdir(made)
    sys.path.insert(0, str(made))
    try:
        yield
    finally:
        sys.path.remove(str(made))
        os.chdir(folder)
        if before is None:
            del os.environ["AVOW_HOME"]
        else:
            os.environ["AVOW_HOME"] = before


# --- what is changed, and how it is opened ---------------------------------------------------


def build(made: Path) -> None:
    """A model, a model of transformers, a run, a policy, and an index, all small."""
    gift = save_toy(made / "gift", bank=["a red dog", "the blue sea"])
    (gift / "evil.py").write_text(EVIL)
    save_two_towers("clip", made / "towers")
    (made / "towers" / "evil.py").write_text(EVIL)
    run = made / "run"
    shutil.copytree(gift, run / "best-00001")
    (run / "best").write_text("best-00001")
    model = Model.from_pretrained(gift)
    optimiser = build_optimiser(model.views, model.recipe.train)
    save_state(run, model.views, optimiser, Progress(1, 0, 5.0, 1))
    (made / "policy").mkdir()
    shutil.copy(Path(avow.__file__).parent / "weights/default/trust-text.json", made / "policy")
    save_pictures(made / "photos", 6)
    encoder = open_encoder(str(gift))
    index_folders([made / "photos"], index=made / "index", encoder=encoder)
    index_folders([made / "photos"], index=made / "faiss", encoder=encoder, engine="faiss")


def open_model(place: Path) -> None:
    model = Model.from_pretrained(place)
    features = torch.zeros(2, 4, model.visual["dim"])
    model.opinion(features, ["a red dog", "the blue sea"])
    _ = model.backbone
    encoder = open_encoder(str(place))
    encoder.encode_texts(["a red dog"])
    encoder.packed_bank()


def open_towers(place: Path) -> None:
    open_encoder(str(place)).encode_texts(["a red dog"])


def open_run(place: Path) -> None:
    encoder = open_encoder(str(place))
    model: Model = encoder.model  # type: ignore[attr-defined]
    load_state(place, model.views, build_optimiser(model.views, model.recipe.train))


def open_policy(place: Path) -> None:
    policy = Policy.load(place / "trust-text.json")
    policy.promised(0.1, 8)


def open_index(place: Path) -> None:
    with Library.open(place) as library:
        library.items(library.find(None, "image"))
        json.dumps([len(library.skipped()), len(library.feedback()), library.folders()])
    found = avow.open(place).search("a red dog", k=3)
    json.dumps(found.to_dict())


TARGETS: dict[str, Callable[[Path], None]] = {
    "gift": open_model,
    "run": open_run,
    "towers": open_towers,
    "policy": open_policy,
    "index": open_index,
    "faiss": open_index,
}


def _print(figures: dict[str, Any]) -> None:
    print(f"{'what':10}{'opened':>10}{'refused':>10}")
    for kind, count in sorted(figures["opened"].items()):
        print(f"{kind:10}{count:>10}{figures['refused in a sentence'].get(kind, 0):>10}")
    print(f"{'all':10}{sum(figures['opened'].values()):>10}")
    print(f"events: {len(figures['events'])}, tracebacks: {len(figures['tracebacks'])}")
    for line in [*figures["events"], *figures["tracebacks"]]:
        print(" ", line)
    print(f"slowest: {figures['slowest, seconds']} s")
    print(f"more memory than before: {figures['more memory than before, MB']} MB")


if __name__ == "__main__":
    main()
