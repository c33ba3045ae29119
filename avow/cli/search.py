"""`avow search`: ask an index of pictures, and hear how far to trust the answer."""

import json
import shlex
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from avow.cli._options import AllowCode, AsJson, IndexFolder, ModelOfIndex
from avow.cli._terminal import bar, busy, console, printable
from avow.cli._threads import limit_threads

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from avow.retrieval.answer import Hit, SearchResult

NOTHING_FOUND = 3
_EMPTY = ("nothing_found", "not_understood")
_HEADS = {
    "answer": ("Answer", "bold green"),
    "check": ("Check", "bold yellow"),
    "nothing_found": ("Nothing found", "bold red"),
    "not_understood": ("Not understood", "bold magenta"),
    "unjudged": ("Not judged", "bold blue"),
}


Text = Annotated[str | None, typer.Argument(help="What to look for, in words.")]
Image = Annotated[
    Path | None,
    typer.Option(help="A picture or a clip to look for; with a text: both together."),
]
Count = Annotated[int, typer.Option("-k", min=1, help="Answers to show.")]
Risk = Annotated[
    float | None,
    typer.Option(
        help="Share of wrong answers that `Answer` may have; default: the calibration's."
    ),
]
Where = Annotated[
    str | None,
    typer.Option(help="Only items like this: 'taken>=2024 and path~\"holiday\"'."),
]
Kind = Annotated[
    Literal["image", "text"],
    typer.Option(help="Look for pictures and moments of videos, or for texts."),
]
ClipOut = Annotated[
    Path | None,
    typer.Option("--clip", help="Cut the best moment of a video out, to this file."),
]
Open = Annotated[
    bool, typer.Option("--open", help="Open the first hit in the system's viewer.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Take the suggested spelling.")]


def search(
    text: Text = None,
    image: Image = None,
    without: Annotated[str | None, typer.Option(help="What to leave out, in words.")] = None,
    count: Count = 10,
    risk: Risk = None,
    where: Where = None,
    kind: Kind = "image",
    index: IndexFolder = None,
    model: ModelOfIndex = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
    clip: ClipOut = None,
    show: Open = False,
    yes: Yes = False,
) -> None:
    """Find pictures and moments of videos by words, by a picture or a clip, or by both.

    Parts of a video that fit and follow one another are one answer, such as
    "holiday.mp4 1:12-1:20". --where kind=video leaves out the pictures.

    Exit code 0: something was found; 3: nothing was, or the words were not understood; 2: the
    command was misspelt; 1: it could not be done.
    """
    if text is None and image is None:
        raise typer.BadParameter("give a text, --image FILE, or both")
    with busy("Loading the model", quiet=as_json):
        from avow.retrieval.search import Retriever

        # one question is too small to share out
        retriever = Retriever.open(index, model, threads=1, allow_code=allow_code)
        limit_threads(retriever.library)
        asked = {"image": image, "without": without, "where": where, "kind": kind}
        asked |= {"k": count, "risk": risk}
        result = retriever.search(text, **asked)
        better, hint = _correction(result), None
        if text is not None and better is not None:
            hint = f"Searched for: {better}" if yes else f"Type: {_typed_again(text, better)}"
        if yes and better is not None:
            text, result = better, retriever.search(better, **asked)
    if as_json:
        answer = result.to_dict()
        # scripts get what was typed; a search by more than words gives all of its query
        answer["query"] = text if image is None and without is None else answer["query"]
        typer.echo(json.dumps(answer))
    else:
        show_result(result, console(), hint)
    if clip is not None and result.verdict not in _EMPTY:
        from avow.retrieval.clips import cut_best

        written = cut_best(result, clip)
        typer.echo(f"clip: {written.path} ({written.end - written.start:.1f} s)", err=as_json)
    if show and result.hits:
        webbrowser.open(Path(result.hits[0].path).absolute().as_uri())
    if result.verdict in _EMPTY and not result.written:
        raise typer.Exit(NOTHING_FOUND)


def show_result(result: "SearchResult", screen: "Console", hint: str | None = None) -> None:
    """Print the verdict, then the hits. hint: a line on what may have been meant."""
    from rich.text import Text

    head, style = _HEADS[result.verdict]
    line = Text(f"{head}.", style)
    if result.trust is not None and result.verdict not in _EMPTY:
        line = Text(f"{head}; that one of these fits: {100 * result.trust:.0f} %.", style)
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
    K = result.uncertainty.K
    screen.print(Text(f"{K} {'item' if K == 1 else 'items'} searched", "dim"))


def _correction(result: "SearchResult") -> str | None:
    """The corrected text of a query that is not understood; None where there is none."""
    understanding = result.understanding
    return (
        None if understanding is None or understanding.understood else understanding.corrected
    )


def _typed_again(text: str, better: str) -> str:
    """The command as it was typed, with a better text."""
    return shlex.join(
        ["avow", *(better if argument == text else argument for argument in sys.argv[1:])]
    )


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
