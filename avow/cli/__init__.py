"""The command line: `avow search`, `avow train` and the rest; `avow --help` lists them.

Each command is one file; it parses, calls and prints. A mistake of the user ends in one
sentence on stderr and exit code 1 (2 where the command, a query or a filter was misspelt),
never in a traceback; AVOW_DEBUG=1 shows the traceback all the same.
"""

import gc
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated

import typer

import avow
from avow.cli._plain_values import PlainCommand, PlainGroup
from avow.core.errors import AvowError, BadQuery, training_half
from avow.core.priority import SCAN, step_back

COMMANDS = (
    *("index", "search", "similar", "explain", "serve", "mcp", "watch", "status", "calibrate"),
    *("check", "features", "train", "evaluate", "trust", "audit", "import", "methods"),
    "recipes",
)
"""A command is the function of its file, in the order of `avow --help`."""
_PYTHON_WORDS = ("import",)  # no name of a module: the file is `import_.py`
_MISSPELT = 2


def _program(names: Sequence[str]) -> typer.Typer:
    """The program with some of its commands; each costs its imports and its options."""
    program = typer.Typer(
        name="avow",
        cls=PlainGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        callback=root,
        help="Visual-textual retrieval that tells you when to trust it.",
    )
    for name in names:
        file = f"{name}_" if name in _PYTHON_WORDS else name
        command = getattr(import_module(f"avow.cli.{file}"), file)
        program.command(name, cls=PlainCommand)(command)
    return program


@cache
def _whole() -> typer.Typer:
    return _program(COMMANDS)


def __getattr__(name: str) -> typer.Typer:
    """`avow.cli.app`: the program with all commands, made when it is first asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _whole()


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"avow {avow.__version__}")
        raise typer.Exit
    return wanted


def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options of the program itself; every command has its own."""


def main() -> None:
    """Run the command line; the console script points here."""
    collecting = gc.isenabled()
    typed = sys.argv[1:2]
    if typed in (["search"], ["similar"], ["status"]):
        gc.disable()  # it ends soon: a collection would only walk over what was imported
    if typed == ["watch"]:
        step_back(SCAN)  # a server beside it goes first
    try:
        with training_half("This command"):
            known = bool(typed) and typed[0] in COMMANDS
            (_program(typed) if known else _whole())()
    except AvowError as error:
        if os.environ.get("AVOW_DEBUG"):
            raise
        print(f"avow: {error}", file=sys.stderr)
        raise SystemExit(_MISSPELT if isinstance(error, BadQuery) else 1) from None
    except OSError as error:
        if os.environ.get("AVOW_DEBUG") or error.filename is None:
            raise
        print(
            f"avow: '{error.filename}' cannot be used ({error.strerror}). Expected a place "
            "that may be read and written; choose another, or change who may use it.",
            file=sys.stderr,
        )
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print("avow: stopped; what was finished is kept.", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        if collecting:
            gc.enable()
