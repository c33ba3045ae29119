"""How the commands that search print what they found: for a person, or for a program."""

import csv
import io
import json
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from avow.cli._terminal import bar, console, printable
from avow.core.verdicts import EMPTY, HEADS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from avow.retrieval.answer import Hit, SearchResult

Layout = Literal["table", "json", "jsonl", "csv", "paths0"]
Format = Annotated[
    Layout,
    typer.Option(
        "--format",
        help="table; json: one object; jsonl: an object per hit; csv; paths0: file names, "
        "each ended by a NUL, for `xargs -0`.",
    ),
]
Nul = Annotated[bool, typer.Option("-0", help="The same as --format paths0.")]

NOTHING_FOUND = 3
"""The exit code where there are no hits."""
_STYLES = {
    "answer": "bold green",
    "check": "bold yellow",
    "nothing_found": "bold red",
    "not_understood": "bold magenta",
    "unjudged": "bold blue",
}


def chosen_layout(layout: Layout, as_json: bool, nul: bool) -> Layout:
    """The format that three options name together; two different ones are refused."""
    short: dict[str, Layout] = {"--json": "json"} if as_json else {}
    if nul:
        short["-0"] = "paths0"
    named: set[Layout] = {*short.values()}
    if layout != "table":
        named.add(layout)
    if len(named) > 1:
        options = [*short, *([f"--format {layout}"] if layout != "table" else [])]
        raise typer.BadParameter(f"{' and '.join(options)} are two formats; give one")
    return named.pop() if named else "table"


def print_result(result: "SearchResult", layout: Layout, hint: str | None = None) -> None:
    """Print an answer to stdout; what only a person reads goes to stderr where it must."""
    if layout == "table":
        show_result(result, console(), hint)
        return
    if layout == "json":
        typer.echo(json.dumps(result.to_dict()))
        return
    if result.verdict in EMPTY:  # there is no line to say it in
        typer.echo(f"{HEADS[result.verdict]}. {printable(result.why)}", err=True)
    from avow.retrieval.tables import rows_of

    if layout == "jsonl":
        for row in rows_of(result):
            typer.echo(json.dumps(row))
    elif layout == "csv":
        typer.echo(_as_csv(rows_of(result)), nl=False)
    else:
        for path in dict.fromkeys(row["path"] for row in rows_of(result)):
            typer.echo(os.fsencode(path) + b"\0", nl=False)


def leave(result: "SearchResult") -> None:
    """End with the exit code of a search."""
    if result.verdict in EMPTY and not result.written:
        raise typer.Exit(NOTHING_FOUND)


def show_result(result: "SearchResult", screen: "Console", hint: str | None = None) -> None:
    """Print the verdict, then the hits. hint: a line on what may have been meant."""
    from rich.text import Text

    line = Text(f"{result.heading}.", _STYLES[result.verdict])
    screen.print(line, Text(printable(result.why)))
    if result.understanding is not None and result.understanding.without is not None:
        screen.print(Text(f"Left out: {printable(result.understanding.without)}"))
    if hint is not None:
        screen.print(Text(printable(hint)))
    if result.hits:
        screen.print(_table(result.hits, screen))
    elif result.near_misses:
        screen.print(Text("What came nearest:", "dim"))
        screen.print(_table(result.near_misses, screen, "dim"))
    if result.written:
        screen.print(Text("With these words written in them:", "bold"))
        screen.print(_table(result.written, screen))
    many = result.searched
    screen.print(Text(f"{many} {'item' if many == 1 else 'items'} searched", "dim"))


def _as_csv(rows: list[dict[str, Any]]) -> str:
    from avow.retrieval.tables import COLUMNS

    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _table(hits: "tuple[Hit, ...]", screen: "Console", style: str = "") -> "Table":
    from rich.table import Table
    from rich.text import Text

    stated = any(hit.p_relevant is not None for hit in hits)
    table = Table(box=None, style=style, pad_edge=False, header_style="dim")
    table.add_column("", justify="right")
    if stated:
        table.add_column("P(relevant)", no_wrap=True)
    table.add_column("similarity", justify="right")
    table.add_column("path", overflow="fold")
    for hit in hits:
        cells = [str(hit.rank)]
        if stated:
            stated_here = hit.p_relevant is not None
            cells.append(bar(hit.p_relevant, screen) if stated_here else "")  # type: ignore[arg-type]
        cells.append(f"{hit.similarity:.3f}")
        place = printable(hit.path)
        if hit.moment is not None:
            place = f"{place} {hit.moment}"
        if hit.text and (hit.kind == "text" or hit.by == "text"):
            place = f"{place}: {printable(hit.text)[:200]}"
        table.add_row(*(Text(cell, style) for cell in [*cells, place]))
    return table
