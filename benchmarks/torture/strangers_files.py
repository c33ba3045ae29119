"""Open models and indexes that an attacker has changed: does anything of theirs happen?

Every file of a small model, a model of transformers, a run, a policy, a published checkpoint,
an audit and an index is changed, and what was changed is opened and used as `avow` does it.
Python reports what happens meanwhile (`sys.addaudithook`): importing a module from outside,
running its code, starting a process, connecting to a machine, or writing outside the user's own
folder is an event. Every opening ends in a result or in a sentence (an AvowError); everything
else is a traceback.
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
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from search_samples import save_pictures, save_toy, save_two_towers  # noqa: E402

import avow  # noqa: E402
from avow.assembly.model import Model  # noqa: E402
from avow.assembly.published_checkpoint import read_checkpoint  # noqa: E402
from avow.audit.files import (  # noqa: E402
    COLUMNS,
    load_judged,
    read_decisions,
    save_judged,
    write_cleaned,
)
from avow.audit.judge import Judged  # noqa: E402
from avow.audit.pair_features import PairFeatures  # noqa: E402
from avow.core.errors import AvowError  # noqa: E402
from avow.data.opening import open_dataset  # noqa: E402
from avow.retrieval.encoders.opening import open_encoder  # noqa: E402
from avow.retrieval.indexing import index_folders  # noqa: E402
from avow.retrieval.library import Library  # noqa: E402
from avow.training.optim import build_optimiser  # noqa: E402
from avow.training.state import Progress, load_state, save_state  # noqa: E402
from avow.trust.policy import Policy  # noqa: E402
from benchmarks.torture._batch import Batch, line_of  # noqa: E402
from benchmarks.torture._mutations import mutate  # noqa: E402

PROMISE = "A file of a stranger never imports or executes anything."
PROOF = (
    "One file of a model, a run, a policy, a published checkpoint, an audit or an index is "
    "changed as an attacker would, and what it belongs to is opened. An audit hook of Python "
    "reports imports, code that runs, processes, connections, and files opened for writing "
    "outside the user's own folder: each is a loss."
)
WANTED, BATCH = 10_000, 250

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


def prepare(place: Path) -> None:
    build(place / "made")


def batch(place: Path, first: int, count: int, only: Sequence[str] = ()) -> Batch:
    """Change and open so many; only: of TARGETS; default: all."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    made, work = place / "made", place / "work"
    seen = Batch(tries=count)
    sys.dont_write_bytecode = True  # else every late import would be a file that is written
    with _surroundings(place, made):
        kinds = list(only or TARGETS)
        for kind in kinds:  # everything that is ever imported is imported now
            with contextlib.suppress(AvowError):
                TARGETS[kind](made / kind)
        roots = {name.partition(".")[0] for name in sys.modules} | {"equinox", "wadler_lindig"}
        WATCH.roots = frozenset(roots - {"gift"})  # both for a message of jaxtyping's
        before = _memory()
        for number in range(first, first + count):
            draw = random.Random(f"0 {number}")
            kind = draw.choice(kinds)
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(made / kind, work / kind, symlinks=True)
            change = f"{number} {kind}: {mutate(work / kind, draw)}"
            started = time.monotonic()
            end = _open(TARGETS[kind], work / kind)
            seen.peak("slowest, seconds", round(time.monotonic() - started, 2))
            seen.counts[f"opened: {kind}"] += 1
            if isinstance(end, AvowError):
                seen.counts["refused in a sentence"] += 1
            elif end is not None:
                seen.tracebacks.append(f"{change}: {line_of(end)}")
                traceback.print_exception(end)
            seen.losses += [f"{change}: {event}" for event in WATCH.events]
            WATCH.events.clear()
        seen.peak("more memory than before, MB", round(_memory() - before))
    seen.losses += [f"{ran} was written" for ran in place.rglob("ran")]
    return seen


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


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.contextmanager
def _surroundings(place: Path, made: Path) -> Iterator[None]:
    """In the folder of the gift, which Python searches for modules, as with `python -m`."""
    home, before = place / "home", os.environ.get("AVOW_HOME")
    home.mkdir(exist_ok=True)
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
    build_checkpoint(made / "checkpoint")
    build_audit(made / "audit")
    save_pictures(made / "photos", 6)
    encoder = open_encoder(str(gift))
    index_folders([made / "photos"], index=made / "index", encoder=encoder)
    index_folders([made / "photos"], index=made / "faiss", encoder=encoder, engine="faiss")


def build_checkpoint(place: Path) -> None:
    place.mkdir()
    options = argparse.Namespace(embed_size=8, word_dim=6, vocab_size=9)
    states = [{"fc.weight": torch.ones(8, 6)}, {"embed.weight": torch.ones(9, 6)}]
    torch.save({"epoch": 3, "model": states, "opt": options}, place / "model.pt")


def build_audit(place: Path) -> None:
    """Pairs, a person's decisions about them, and what the judge left to go on from."""
    place.mkdir()
    pairs = [{"image": f"{n}.png", "caption": f"a thing {n}", "split": "train"} for n in (0, 1)]
    (place / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    for pair in pairs:
        Image.new("RGB", (8, 8)).save(place / pair["image"])
    row = "train,0,0.png,a thing 0,wrong,\n"
    (place / "decisions.csv").write_text(",".join(COLUMNS) + "\n" + row)
    features = PairFeatures({"rank": np.zeros(2), "score": np.ones(2)})
    judged = Judged(np.arange(2), features, features, features, ["1.png"] * 2, ["a"] * 2)
    save_judged(judged, place / "judged.npz", "0" * 16)


def open_checkpoint(place: Path) -> None:
    read_checkpoint(place / "model.pt")


def open_audit(place: Path) -> None:
    load_judged(place / "judged.npz", "0" * 16)
    decisions = read_decisions(place / "decisions.csv")
    dataset = open_dataset(str(place / "pairs.jsonl"))
    write_cleaned(dataset, decisions, Path(os.environ["AVOW_HOME"]) / "cleaned")


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
    "checkpoint": open_checkpoint,
    "audit": open_audit,
    "index": open_index,
    "faiss": open_index,
}
