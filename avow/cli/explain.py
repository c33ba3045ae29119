"""`avow explain`: which words and which parts of a picture or a frame make them match."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from avow.cli._options import AllowCode, AsJson
from avow.cli._terminal import busy, console, printable

if TYPE_CHECKING:
    from PIL.Image import Image

    from avow.core.searching import Encoder
    from avow.retrieval.explain import Explanation


Out = Annotated[Path | None, typer.Option(help="Write the picture with its heat map here.")]
Replace = Annotated[bool, typer.Option(help="Write over a file that is at --out already.")]
At = Annotated[str, typer.Option(help="The time of the frame in a video: 75 or 1:15.")]
IndexOrDefault = Annotated[
    Path | None, typer.Option(help="Index whose model to use; default under AVOW_HOME.")
]


def explain(
    text: Annotated[str, typer.Argument(help="The query, in words.")],
    file: Annotated[Path, typer.Argument(help="The picture, or a video with --at.")],
    out: Out = None,
    replace: Replace = False,
    at: At = "0",
    index: IndexOrDefault = None,
    model: Annotated[str | None, typer.Option(help="Another model than the index's.")] = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Hide words and parts of the picture in many ways, and see what each of them adds.

    A weight is the part's share of what the similarity falls by without it and others near it,
    or for a word without it and one other word. Words such as "of" have no weight.
    """
    _check_out(out, file, replace)
    with busy("Loading the model", quiet=as_json):
        from avow.retrieval import explain as explaining
        from avow.retrieval.question import ask

        query = ask(text).text or ""
        photograph = _opened(file, at)
        encoder = _encoder(index, model, allow_code)
        explanation = explaining.explain(encoder, query, photograph)
        if out is not None:
            _save(explaining.heat_map(photograph, explanation.cells), out)
    if as_json:
        typer.echo(
            json.dumps({**explanation.to_dict(), "out": None if out is None else str(out)})
        )
        return
    _show(explanation)
    if out is not None:
        typer.echo(f"heat map: {out}")


def _check_out(out: Path | None, file: Path, replace: bool) -> None:
    """Refuse to write over a file that nobody said may go; the picture itself never may."""
    if out is None or not out.exists():
        return
    from avow.core.errors import BadData

    if file.exists() and out.samefile(file):
        raise BadData(
            f"The heat map would overwrite the picture {str(out)!r} itself. Expected another "
            "file in --out."
        )
    if not replace:
        raise BadData(
            f"There is a file {str(out)!r} already. Expected a new name in --out for the heat "
            "map; name another, or add --replace."
        )


def _opened(file: Path, at: str) -> "Image":
    """A picture, or the frame of a video that is shown at a time."""
    from PIL.Image import fromarray

    from avow.core.formats import is_video
    from avow.core.moments import seconds_of
    from avow.core.photographs import open_photograph
    from avow.core.videos import frame_at

    if not is_video(file.suffix.lower()):
        return open_photograph(file)
    seconds = seconds_of(at)
    if seconds is None:
        raise typer.BadParameter(f"--at is {at!r}; expected a time such as 75 or 1:15")
    return fromarray(frame_at(file, seconds).image)


def _encoder(index: Path | None, model: str | None, allow_code: bool) -> "Encoder":
    """The model that was named, else the index's, else the default one."""
    from avow.core.places import DEFAULT, avow_home
    from avow.retrieval.encoders.opening import open_encoder
    from avow.retrieval.search import Retriever

    if model is not None:
        return open_encoder(model, allow_code=allow_code)
    if index is None and not (avow_home() / "index").is_dir():
        return open_encoder(DEFAULT)
    return Retriever.open(index, allow_code=allow_code).encoder


def _save(picture: "Image", out: Path) -> None:
    from avow.core.errors import BadData

    try:
        picture.save(out)
    except (OSError, ValueError) as error:
        raise BadData(
            f"The heat map cannot be written to {str(out)!r} ({error}). Expected a file name "
            "that ends in .png or .jpg, in a folder that exists."
        ) from error


def _show(explanation: "Explanation") -> None:
    from rich.table import Table
    from rich.text import Text

    screen = console()
    screen.print(Text(f"similarity {explanation.similarity:.3f}", "bold"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("word")
    table.add_column("adds", justify="right")
    for word, weight in explanation.words:
        if weight is None:
            continue
        table.add_row(Text(printable(word)), f"{weight:+.3f}")
    screen.print(table)
    rows, columns = explanation.cells.shape
    row, column = divmod(int(explanation.cells.argmax()), columns)
    screen.print(
        Text(
            f"The part of the picture that counts most is row {row + 1} of {rows}, column "
            f"{column + 1} of {columns}: it adds {explanation.cells.max():.3f} to the "
            "similarity."
        )
    )
