"""`avow status`: what an index holds, which model made it, and how far trust reaches."""

import json
from typing import TYPE_CHECKING

import typer

from avow.cli._options import AllowCode, AsJson, IndexFolder, ModelOfIndex
from avow.cli._terminal import busy, printable
from avow.core.places import index_folder

if TYPE_CHECKING:
    from avow.retrieval.status import Status, TrustReach


def status(
    index: IndexFolder = None,
    model: ModelOfIndex = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Tell what is indexed, by which model, and how far the answers can be trusted."""
    index_folder(index)
    with busy("Reading the index", quiet=as_json):
        from avow.retrieval.search import Retriever
        from avow.retrieval.status import status_of

        found = status_of(Retriever.open(index, model, threads=1, allow_code=allow_code))
    typer.echo(json.dumps(found.to_dict()) if as_json else "\n".join(lines_of(found)))


def lines_of(found: "Status") -> list[str]:
    """The same for a person."""
    counts = {"pictures": found.pictures, "texts": found.texts}
    held = [f"{count:,} {name}" for name, count in counts.items() if count]
    if found.videos:
        held.append(f"{found.moments:,} moments of {found.videos:,} videos")
    engine = f"{found.engine}, {'every item' if found.exact else 'nearly every item'} compared"
    size = "" if found.bytes is None else f" ({found.bytes / 1e6:,.1f} MB)"
    lines = [
        f"Index:    {printable(found.folder)}{size}",
        *(f"Folder:   {printable(folder)}" for folder in found.folders),
        f"Holds:    {', '.join(held) or 'nothing'}",
        f"Model:    {printable(found.model)} ({found.fingerprint}); {engine}",
    ]
    if found.skipped:
        lines.append(
            f"Skipped:  {found.skipped:,} files, which `avow index` lists with reasons"
        )
    if found.ticks:
        lines.append(f"Ticks:    {found.ticks:,} answers were called good or not")
    return lines + [line for reach in found.trust for line in _told(reach)]


def _told(reach: "TrustReach") -> list[str]:
    lines = [f"Trust in searching {reach.search}: {reach.why}"]
    lines += [f"          {one.says}" for one in reach.usual]
    return lines + [f"          Careful: {doubt}." for doubt in reach.doubts]
