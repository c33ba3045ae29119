"""The command line: `avow search`, `avow train` and the rest; `avow --help` lists them.

Each command is one file; it parses, calls and prints. A mistake of the user ends in one
sentence on stderr and exit code 1 (2 where the command, a query or a filter was misspelt),
never in a traceback; AVOW_DEBUG=1 shows the traceback all the same.
"""

import gc
import os
import sys
from typing import Annotated

import typer

import avow
from avow.cli.audit import audit
from avow.cli.calibrate import calibrate
from avow.cli.check import check
from avow.cli.evaluate import evaluate
from avow.cli.explain import explain
from avow.cli.features import features
from avow.cli.import_ import import_
from avow.cli.index import index
from avow.cli.mcp import mcp
from avow.cli.methods import methods
from avow.cli.recipes import recipes
from avow.cli.search import search
from avow.cli.serve import serve
from avow.cli.similar import similar
from avow.cli.status import status
from avow.cli.train import train
from avow.cli.trust import trust
from avow.cli.watch import watch
from avow.core.errors import AvowError, BadQuery, training_half

app = typer.Typer(
    name="avow",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS = (
    *(index, search, similar, explain, serve, mcp, watch, status, calibrate, check),
    *(features, train, evaluate, trust, audit, import_, methods, recipes),
)
_MISSPELT = 2
for command in COMMANDS:
    app.command(command.__name__.rstrip("_"))(command)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"avow {avow.__version__}")
        raise typer.Exit
    return wanted


@app.callback(help="Visual-textual retrieval that tells you when to trust it.")
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
    if sys.argv[1:2] in (["search"], ["similar"], ["status"]):
        gc.disable()  # it ends soon: a collection would only walk over what was imported
    try:
        with training_half("This command"):
            app()
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
