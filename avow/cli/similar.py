"""`avow similar`: what looks like a picture or a moment of a video."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from avow.cli._formats import Format, Nul, chosen_layout, leave, print_result
from avow.cli._options import AllowCode, AsJson, Count, IndexFolder, Where
from avow.cli._terminal import busy
from avow.cli._threads import limit_threads
from avow.core.places import index_folder

if TYPE_CHECKING:
    from avow.retrieval.answer import SearchResult
    from avow.retrieval.search import Retriever

Which = Annotated[str, typer.Argument(help="A file, or the number of an item.")]
At = Annotated[str | None, typer.Option(help="The time of the moment in a video: 75 or 1:15.")]


def similar(
    which: Which,
    at: At = None,
    count: Count = 10,
    where: Where = None,
    index: IndexFolder = None,
    allow_code: AllowCode = False,
    layout: Format = "table",
    as_json: AsJson = False,
    nul: Nul = False,
) -> None:
    """Find what looks like a picture or a moment, or reads like a text, of the index.

    A picture that is not in the index is looked at, and compared as `avow search --image` does.
    The exit codes are those of `avow search`.
    """
    layout = chosen_layout(layout, as_json, nul)
    index_folder(index)
    with busy("Loading the model", quiet=layout != "table"):
        from avow.retrieval.search import Retriever

        retriever = Retriever.open(index, threads=1, allow_code=allow_code)
        limit_threads(retriever.library)
        result = _alike(retriever, which, at, count, where)
    print_result(result, layout)
    leave(result)


def _alike(
    retriever: "Retriever", which: str, at: str | None, count: int, where: str | None
) -> "SearchResult":
    from avow.retrieval.named_items import item_named

    number = item_named(retriever.library, which, at)
    if number is not None:
        return retriever.similar(number, k=count, where=where)
    return retriever.search(image=Path(which).expanduser(), k=count, where=where)
