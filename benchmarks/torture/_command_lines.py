"""Command lines, recipes and environments that nobody would type, each in a process."""

import contextlib
import gc
import io
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import typer

from avow import cli
from avow.assembly.recipe import Recipe
from avow.core.errors import AvowError
from benchmarks.torture._batch import line_of

LONGEST = 5
"""Seconds after which a command is stopped; stopping is no loss."""
HANGS = 120
"""Seconds after which a process that did not stop is killed, which is one."""
BAD = ("traceback", "killed")
WAITING = ("serve", "mcp", "watch", "train", "features", "evaluate", "trust")
"""Commands that serve without end, or work for long; asked for help, or misspelt, only."""
VALUES = (
    *("", " ", "-", "--", "a red dog", "default", "missing", "pictures", "index", "notes.csv"),
    *("index/catalogue.sqlite", "pairs.csv", "model.pt", "pictures/red-000.png", "..", "."),
    *("0", "1", "-1", "3", "1e9", "nan", "inf", "0.1", "99999999999999999999", "0x10", "1,5"),
    *("\udcff", "\u202e", "name~x", "name~", "size>9KB and (", "tag=", "true", "None", "{}"),
    *("json", "csv", "table", "cpu", "cuda", "faiss", "exact", "gift.evil", "train.lr=x"),
    *("method.name=7", "x" * 5000, "%s%n", "$(id)", "~", "*", "a\nb", "text", "image"),
    *("postgres:archive", "milvus:", "mysql:x", "s3:", "file:///", "http://[", "a\0b"),
)
ENVIRONMENT = (
    *("AVOW_HOME", "AVOW_DATA", "AVOW_TOKEN", "COLUMNS", "NO_COLOR", "LANG", "TERM"),
    *("AVOW_DECODE_MB", "AVOW_DECODE_SECONDS", "AVOW_FETCH_PICTURES", "AVOW_UNTRUSTED"),
    *("AVOW_PRIVATE_ADDRESSES", "AVOW_PG_DSN", "AVOW_MILVUS_URI", "OMP_NUM_THREADS"),
)
LINES = ("name = 7", "[", "lr = 'x'", "dim = -1", "epochs = 0", "x = [1,", "tau = nan", "= 3")


@dataclass(frozen=True)
class Typed:
    """A command line with its environment, or else the text of a recipe."""

    shown: str
    words: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    recipe: str | None = None


Ended = tuple[str, str]
"""How something ended, and what is to be told of it where that is bad."""


class Stopped(Exception):
    """A command took too long."""


class Desk:
    """Where things are typed: a copy of a folder, made again when something has changed it."""

    def __init__(self, source: Path, work: Path):
        self._source, self._work = source, work
        self._before: object = None

    def __enter__(self) -> "Desk":
        for name in cli.COMMANDS:  # whatever is imported is imported before the forks
            import_module(f"avow.cli.{'import_' if name == 'import' else name}")
        for words in (["search", "a red dog", "--index", "index"], ["check", "index"]):
            self._fresh()
            with contextlib.chdir(self._work), contextlib.suppress(SystemExit):
                _call(words)
        _program()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._work, ignore_errors=True)

    def run(self, typed: Sequence[Typed]) -> list[Ended]:
        """How each of them ended, in forked processes; what kills one ends only itself."""
        ends: list[Ended] = []
        while len(ends) < len(typed):
            left = typed[len(ends) :]
            out, into = os.pipe()
            child = os.fork()
            if not child:
                os.close(out)
                try:
                    self._work_through(left, into)
                finally:
                    os._exit(0)
            os.close(into)
            with open(out, "rb") as pipe:
                lines = list(_lines(pipe, child))
            os.waitpid(child, 0)
            _import([name for *_, names in lines for name in names])
            ends += [(end, told) for end, told, _ in lines]
            if len(lines) < len(left):
                ends.append(("killed", "the process died"))
            self._before = None
        return ends

    def _work_through(self, typed: Sequence[Typed], into: int) -> None:
        surroundings = dict(os.environ)
        for one in typed:
            self._fresh()
            before = set(sys.modules)
            found = [*_here(one, self._work), sorted(set(sys.modules) - before)]
            os.write(into, json.dumps(found).encode("ascii", "replace") + b"\n")
            os.environ.clear()
            os.environ.update(surroundings)

    def run_anew(self, typed: Typed) -> Ended:
        """The same in a process that a shell could have started."""
        if typed.recipe is not None or "\0" in "".join(typed.words):
            return self.run([typed])[0]  # nobody can type that
        self._fresh()
        try:
            done = subprocess.run(
                [sys.executable, "-m", "avow", *typed.words],
                cwd=self._work,
                env={**os.environ, "AVOW_HOME": "home", **dict(typed.settings)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=HANGS,
            )
        except subprocess.TimeoutExpired:
            return "stopped", ""
        text = done.stderr.decode("utf-8", "replace")
        if done.returncode < 0 or "Traceback (most recent call last)" in text:
            return "traceback", f"exit {done.returncode}: {' '.join(text.split())[-300:]}"
        self._before = None
        return _exit(done.returncode), ""

    def _fresh(self) -> None:
        if self._before is None or _state(self._work) != self._before:
            shutil.rmtree(self._work, ignore_errors=True)
            shutil.copytree(self._source, self._work)
            self._before = _state(self._work)


def drawn(draw: random.Random) -> Typed:
    """Something to type."""
    if draw.random() < 0.15:
        return _recipe(draw)
    words = _words(draw)
    values = [one for one in VALUES if "\0" not in one and len(one) < 100]
    settings = {name: draw.choice(values) for name in ENVIRONMENT if draw.random() < 0.05}
    shown = f"{settings or ''} avow {' '.join(word[:60] for word in words)}".strip()
    return Typed(repr(shown), tuple(words), tuple(settings.items()))


def _lines(pipe: Any, child: int) -> Iterator[tuple[str, str, list[str]]]:
    """What a child says after each of its commands; one that is silent for long is killed."""
    rest = b""
    while True:
        if not select.select([pipe], [], [], HANGS)[0]:
            os.kill(child, signal.SIGKILL)
        data = os.read(pipe.fileno(), 1 << 20)
        *lines, rest = (rest + data).split(b"\n")
        yield from map(json.loads, lines)
        if not data:
            return


def _import(names: Sequence[str]) -> None:
    """What a child had to import, the next ones have."""
    for name in names:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module(name)
    if names:
        gc.freeze()  # else every child would copy what it only looks at


def _state(place: Path) -> list[tuple[str, int, int]]:
    listed = [
        (entry.path, entry.stat(follow_symlinks=False))
        for folder, _, _ in os.walk(place)
        for entry in os.scandir(folder)
    ]
    return sorted((path, about.st_size, about.st_mtime_ns) for path, about in listed)


def _here(typed: Typed, work: Path) -> Ended:
    os.chdir(work)
    offline = {"HF_HUB_OFFLINE": "1"}  # else a name of nobody is looked for, again and again
    os.environ.update({"AVOW_HOME": "home", **offline, **dict(typed.settings)})
    if typed.recipe is None:
        return _ended(lambda: _call(typed.words))
    path = work / "mine.toml"
    path.write_bytes(typed.recipe.encode("utf-8", "surrogatepass"))
    return _ended(lambda: _build(path))


def _build(path: Path) -> None:
    recipe = Recipe.open(str(path))
    json.dumps([recipe.to_dict(), recipe.whole_method])
    recipe.build_loss()


def _call(words: Any) -> None:
    before, sys.argv = sys.argv, ["avow", *words]
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")  # as strict as those of a terminal are
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    finally:
        sys.argv = before


def _ended(call: Callable[[], None]) -> Ended:
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST)
    try:
        call()
    except SystemExit as error:
        return _exit(error.code), ""
    except AvowError:
        return "a sentence", ""
    except Stopped:
        return "stopped", ""
    except BaseException as error:
        traceback.print_exception(error)
        return "traceback", line_of(error)
    finally:
        signal.alarm(0)
    return "done", ""


def _exit(code: object) -> str:
    return "done" if code in (0, None) else "exit with a sentence"


def _too_long(*_: object) -> None:
    raise Stopped


@cache
def _program() -> Any:
    return typer.main.get_command(cli.app)


def _words(draw: random.Random) -> list[str]:
    """A command with options of its own, of others and of nobody."""
    program = _program()
    name = draw.choice(list(program.commands))
    command: click.Command = program.commands[name]
    words = [name]
    for option in draw.sample(command.params, draw.randrange(min(4, len(command.params) + 1))):
        if option.param_type_name == "argument":
            words.append(draw.choice(VALUES))
            continue
        words.append(draw.choice(option.opts))
        if not getattr(option, "is_flag", False) or draw.random() < 0.1:
            words.append(draw.choice(VALUES))
    words += [draw.choice(VALUES) for _ in range(draw.choice((0, 1, 1, 2)))]
    if draw.random() < 0.1:
        words.insert(draw.randrange(len(words) + 1), draw.choice(("--nothing", "-z", "--json")))
    if name in WAITING:
        return [name, draw.choice(("--help", "--nothing", "--port=x", "--seed=x"))]
    if name == "index" and "--index" not in words:
        words += ["--index", "index"]
    return words


def _recipe(draw: random.Random) -> Typed:
    """A recipe with lines changed, lost, doubled or made up."""
    recipes = sorted((Path(cli.__file__).parents[1] / "recipes").rglob("*.toml"))
    source = draw.choice(recipes)
    lines = source.read_text("utf-8").splitlines()
    for _ in range(draw.choice((1, 1, 2, 4))):
        place = draw.randrange(len(lines))
        kind = draw.randrange(5)
        if kind == 0:
            del lines[place]
        elif kind == 1:
            lines.insert(place, draw.choice(LINES))
        elif kind == 2:
            lines.insert(place, lines[draw.randrange(len(lines))])
        elif "=" in lines[place]:
            value = draw.choice(VALUES)
            shown = value if kind == 3 else repr(value)
            lines[place] = f"{lines[place].partition('=')[0]}= {shown}"
        lines = lines or [""]
    told = f"recipe {source.name}: {draw.choice(lines)[:60]}"
    return Typed(told, recipe="\n".join(lines))
