"""`avow search`: ask an index of pictures, and hear how far to trust the answer."""

import shlex
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from avow.cli._formats import Format, Nul, chosen_layout, leave, print_result
from avow.cli._options import AllowCode, AsJson, Count, IndexFolder, ModelOfIndex, Where
from avow.cli._terminal import busy
from avow.cli._threads import limit_threads
from avow.core.places import index_folder
from avow.core.verdicts import EMPTY

if TYPE_CHECKING:
    from avow.retrieval.answer import SearchResult

Text = Annotated[str | None, typer.Argument(help="What to look for, in words.")]
Image = Annotated[
    Path | None,
    typer.Option(help="A picture or a clip to look for; with a text: both together."),
]
Risk = Annotated[
    float | None,
    typer.Option(
        help="Share of wrong answers that `Answer` may have; default: the calibration's."
    ),
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
    layout: Format = "table",
    as_json: AsJson = False,
    nul: Nul = False,
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
    layout = chosen_layout(layout, as_json, nul)
    index_folder(index)  # a missing one is told before anything slow is loaded
    with busy("Loading the model", quiet=layout != "table"):
        from avow.retrieval.search import Retriever

        # one question is too small to share out
        retriever = Retriever.open(index, model, threads=1, allow_code=allow_code)
        limit_threads(retriever.library)
        asked: dict[str, Any] = {"image": image, "without": without, "k": count}
        asked |= {"where": where, "kind": kind, "risk": risk}
        result = retriever.search(text, **asked)
        better, hint = _correction(result), None
        if text is not None and better is not None:
            hint = f"Searched for: {better}" if yes else f"Type: {_typed_again(text, better)}"
        if yes and better is not None:
            text, result = better, retriever.search(better, **asked)
    print_result(result, layout, hint)
    if clip is not None and result.verdict not in EMPTY:
        from avow.retrieval.clips import cut_best

        written = cut_best(result, clip)
        typer.echo(
            f"clip: {written.path} ({written.end - written.start:.1f} s)", err=layout != "table"
        )
    if show and result.hits:
        webbrowser.open(Path(result.hits[0].path).absolute().as_uri())
    leave(result)


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
