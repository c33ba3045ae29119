"""The search half runs without torch: every command of it, where importing torch fails.

Each command runs in a process of its own, and the first import hook of all of them refuses
torch, transformers and accelerate, as in an environment with base dependencies only.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any

import pytest
from PIL import Image, ImageDraw

from avow.core.errors import TRAIN_PACKAGES

ROOT = Path(__file__).parent.parent
REFUSED = sorted({*TRAIN_PACKAGES, "torchvision"})
WITHOUT_TORCH = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {REFUSED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""
CALL = "from avow.cli import main; main()"
FORKS = f"""{WITHOUT_TORCH}
import json, os, traceback
import numpy, onnxruntime, PIL.Image, avow.cli, avow.retrieval.search, avow.retrieval.indexing
import avow.audit.pairs, avow.retrieval.calibrate, sklearn.linear_model

def ended(code):
    try:
        exec(code, {{"__name__": "__main__", "sys": sys}})
    except SystemExit as stop:
        return stop.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0

for line in sys.stdin:
    code, words, out, err = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv[1:] = words
        os._exit(ended(code))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs code, each in a process of its own; what nearly all of it needs is imported once."""
THINGS = ("circle", "ring")
COLOURS = ("red", "green", "blue", "yellow", "black")


def picture(thing: str, colour: str) -> Image.Image:
    image = Image.new("RGB", (96, 72), "grey")
    draw = ImageDraw.Draw(image)
    if thing == "circle":
        draw.ellipse((20, 10, 70, 60), fill=colour)
    else:
        draw.ellipse((20, 10, 70, 60), outline=colour, width=8)
    return image


def about(home: Path) -> dict[str, Any]:
    """How a process of `home` is started."""
    own = {"AVOW_HOME": str(home / "home"), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return {"text": True, "env": os.environ | own, "cwd": home}


def run(
    code: str, *words: str, home: Path, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Python without torch, forked from one that has imported other things."""
    asks, tells = forks(home)
    out, err = home / "out.txt", home / "err.txt"
    asks.write(json.dumps([code, words, str(out), str(err)]) + "\n")
    asks.flush()
    told = tells.readline()
    assert told, "the process that forks others has ended; what it said is above"
    ended = int(told)
    done = subprocess.CompletedProcess(words, ended, out.read_text(), err.read_text())
    assert not check or done.returncode == 0, done.stderr
    return done


@cache
def forks(home: Path) -> tuple[IO[str], IO[str]]:
    """What is asked of a process that forks others, and what it says; it ends with this one."""
    command = [sys.executable, "-c", FORKS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    started = subprocess.Popen(command, **pipes, **about(home))
    assert started.stdin and started.stdout
    _STARTED.append(started)
    return started.stdin, started.stdout


_STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Iterator[Path]:
    """Ten pictures, five captions of each, and an index that was made without torch."""
    home = tmp_path_factory.mktemp("halves")
    (home / "pictures").mkdir()
    lines, queries = [], []
    for thing in THINGS:
        for colour in COLOURS:
            name = f"{colour}-{thing}.png"
            picture(thing, colour).save(home / "pictures" / name)
            named = f"{colour} {thing}"
            asked = [f"{word} {named}" for word in ("a", "one", "the", "some", "this", "my")]
            asked += [f"a {thing} that is {colour}", named]
            for words in asked:
                queries.append({"query": words, "file": str(home / "pictures" / name)})
            for caption in (named, f"{named} on grey", *asked[:3]):
                lines.append(
                    {"image": f"pictures/{name}", "caption": caption, "split": "train"}
                )
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (home / "mine.jsonl").write_text(text)
    with (home / "queries.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["query", "file"])
        writer.writeheader()
        writer.writerows(queries)
    done = run(CALL, "index", "pictures", "--index", "index", "--json", home=home)
    assert json.loads(done.stdout)["new"] == 10
    yield home
    while _STARTED:
        _STARTED.pop().communicate()  # the end of what it is asked is its own


def test_search_by_words_and_by_a_picture(home):
    found = run(
        CALL, "search", "a red circle", "--index", "index", "--json", home=home, check=False
    )
    assert found.returncode in (0, 3), found.stderr
    assert json.loads(found.stdout)["uncertainty"]["K"] == 10
    shown = run(
        *(CALL, "search", "--image", "pictures/red-circle.png", "--index", "index"),
        home=home,
        check=False,
    )
    assert shown.returncode in (0, 3) and "The first is the same picture" in shown.stdout, (
        shown.stderr
    )


def test_one_search_imports_only_what_it_needs(home):
    """Each of these takes a tenth of a cold search, or more."""
    listed = (
        f"import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {CALL}"
    )
    words = ["search", "a red circle", "--index", "index"]
    alone = [sys.executable, "-c", WITHOUT_TORCH + listed, *words]
    done = subprocess.run(alone, capture_output=True, **about(home))
    modules = {*done.stderr.split()}
    imported = {name.partition(".")[0] for name in modules}
    assert {"numpy", "onnxruntime", "avow"} <= imported
    heavy = {"scipy", "sklearn", "jaxtyping", "asyncio", "unittest", "fastapi", "uvicorn"}
    heavy |= {"jinja2", "markupsafe", "pydantic", "pydantic_core", "opentelemetry", "av"}
    assert not heavy & imported
    assert not {"importlib.metadata", "numpy.ma", "multiprocessing.pool"} & modules


@pytest.mark.long  # indexed and searched by the same modules as above, in other numbers
def test_half_precision_rows(home):
    (home / "few").mkdir()
    for thing in THINGS[:3]:
        picture(thing, "red").save(home / "few" / f"{thing}.png")
    run(CALL, "index", "few", "--index", "small", "--half", home=home)
    found = run(CALL, "search", "a ring", "--index", "small", "--json", home=home, check=False)
    assert found.returncode in (0, 3), found.stderr


def test_explain_check_and_version(home):
    told = run(CALL, "explain", "a ring", "pictures/red-ring.png", "--json", home=home)
    assert len(json.loads(told.stdout)["words"]) == 2
    assert "is intact" in run(CALL, "check", "index", home=home).stdout
    assert run(CALL, "--version", home=home).stdout.startswith("avow ")


def test_calibrate(home):
    shutil.copytree(home / "index", home / "own")
    once = "import avow.trust.probability as fit; fit._best_strength = lambda *a: a[-1][1]"
    command = ("calibrate", "queries.csv", "--index", "own", "--json", "--force")
    done = run(f"{once}; {CALL}", *command, home=home)  # most of a fit is trying strengths
    assert json.loads(done.stdout)["queries"] == 80
    done = run(CALL, "calibrate", "--show", "--index", "own", "--json", home=home)
    assert json.loads(done.stdout)["calibrated"] == "index"


AUDIT = ["audit", "mine.jsonl", "--run", "default", "--worst", "3"]


def test_audit_by_the_shipped_model(home):
    few = "import avow.audit.wrong_pairs as trees; trees.TREES = 5"  # good ones take seconds
    done = run(f"{few}; {CALL}", *AUDIT, "--json", home=home)
    about = json.loads(done.stdout.splitlines()[-1])
    assert about["pairs"] == 50 and about["judged_by"].endswith("comes with Avow")
    kept = home / "audits" / "mine"
    assert "is intact" in run(CALL, "check", str(kept), home=home).stdout


SERVE = """
import importlib, threading, urllib.request
serve = importlib.import_module("avow.cli.serve")  # the module; the command has its name
from avow.api import Limits, create_app
from avow.api.connections import server_of

listening = serve.listen("127.0.0.1", 0)
limits = Limits(seconds=600)
retriever = serve.open_index("index", None)
app = create_app(retriever, token=None, hosts=["127.0.0.1"], limits=limits)
server = server_of(app)
threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
address = f"http://127.0.0.1:{listening.getsockname()[1]}"
answer = urllib.request.urlopen(address + "/api/search?text=a+red+ring", timeout=600)
print(answer.read().decode())
server.should_exit = True
"""


def test_serve(home):
    told = run(SERVE, home=home)
    assert json.loads(told.stdout.splitlines()[0])["uncertainty"]["K"] == 10


@pytest.mark.parametrize(
    "words",
    [
        ["train", "flickr8k/vse_infty_tcl"],
        ["methods"],
        ["index", "pictures", "--model", "clip"],
    ],
)
def test_a_command_that_needs_torch_names_the_line_that_installs_it(home, words):
    done = run(CALL, *words, home=home, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "pip install 'avow[train]'" in done.stderr


def test_so_does_the_python_interface(home):
    code = (
        "import avow\ntry:\n    avow.Model\n"
        "except avow.AvowError as error:\n    print(type(error).__name__, error)"
    )
    told = run(code, home=home).stdout
    assert told.startswith("MissingExtra") and "pip install 'avow[train]'" in told
