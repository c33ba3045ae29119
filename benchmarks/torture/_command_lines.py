"""Command lines, recipes and environments that nobody would type, run in this process."""

import contextlib
import io
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import typer

from avow import cli
from avow.assembly.recipe import Recipe
from avow.core.errors import AvowError

LONGEST = 5
"""Seconds after which a command is stopped; stopping is no loss."""
WAITING = ("serve", "mcp", "watch", "train", "features", "evaluate", "trust")
"""Commands that serve without end, or work for long; asked for help, or misspelt, only."""
VALUES = (
    *("", " ", "-", "--", "a red dog", "default", "missing", "pictures", "index", "notes.csv"),
    *("index/catalogue.sqlite", "pairs.csv", "model.pt", "pictures/red-000.png", "..", "."),
    *("0", "1", "-1", "3", "1e9", "nan", "inf", "0.1", "99999999999999999999", "0x10", "1,5"),
    *("\ud800", "\u202e", "name~x", "name~", "size>9KB and (", "tag=", "true", "None", "{}"),
    *("json", "csv", "table", "cpu", "cuda", "faiss", "exact", "gift.evil", "train.lr=x"),
    *("method.name=7", "x" * 5000, "%s%n", "$(id)", "~", "*", "a\nb", "text", "image"),
)
ENVIRONMENT = ("AVOW_HOME", "AVOW_DATA", "AVOW_TOKEN", "COLUMNS", "NO_COLOR", "LANG", "TERM")
LINES = ("name = 7", "[", "lr = 'x'", "dim = -1", "epochs = 0", "x = [1,", "tau = nan", "= 3")


class Stopped(Exception):
    """A command took too long."""


def run(place: Path, draw: random.Random) -> tuple[str, str, BaseException | None]:
    """Run something drawn in a copy of `place`; what it was, how it ended, and with what."""
    work = place.parent / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(place, work)
    if draw.random() < 0.15:
        return _recipe(work, draw)
    words = _words(draw)
    settings = {
        name: draw.choice([one for one in VALUES if "\ud800" not in one and len(one) < 100])
        for name in ENVIRONMENT
        if draw.random() < 0.05
    }
    shown = f"{settings or ''} avow {' '.join(word[:60] for word in words)}".strip()
    with _surroundings(work, {"AVOW_HOME": "home", **settings}):
        return (repr(shown), *_ended(lambda: _call(words)))


def _call(words: list[str]) -> None:
    before = sys.argv
    sys.argv = ["avow", *words]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            cli.main()
    finally:
        sys.argv = before


def _ended(call: Any) -> tuple[str, BaseException | None]:
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST)
    try:
        call()
    except SystemExit as error:
        return f"exit {error.code}", None
    except AvowError:
        return "a sentence", None
    except Stopped:
        return "stopped", None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        traceback.print_exception(error)
        return "traceback", error
    finally:
        signal.alarm(0)
    return "done", None


def _too_long(*_: object) -> None:
    raise Stopped


@contextlib.contextmanager
def _surroundings(work: Path, settings: dict[str, str]) -> Iterator[None]:
    folder, before = Path.cwd(), dict(os.environ)
    os.chdir(work)
    os.environ.update({name: value.replace("\0", "") for name, value in settings.items()})
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)


def _words(draw: random.Random) -> list[str]:
    """A command with options of its own, of others and of nobody."""
    program: Any = typer.main.get_command(cli.app)
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


def _recipe(work: Path, draw: random.Random) -> tuple[str, str, BaseException | None]:
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
    path = work / "mine.toml"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))

    def build() -> None:
        Recipe.open(str(path)).build_loss()

    with _surroundings(work, {}):
        return (f"recipe {source.name}: {draw.choice(lines)[:60]}", *_ended(build))
