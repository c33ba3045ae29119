"""`avow check`: whether an index or a model is as Avow wrote it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from avow.cli._options import AsJson, IndexFolder
from avow.core.places import index_folder


def check(
    place: Annotated[
        Path | None,
        typer.Argument(help="An index, run, model, audit or features; default: the index."),
    ] = None,
    index: IndexFolder = None,
    as_json: AsJson = False,
) -> None:
    """Verify every checksum of a folder, and say what is damaged and how to repair it.

    Reads every file, so it takes as long as that. Exit code 0: intact; 1: damaged.
    """
    if place is not None and index is not None:
        raise typer.BadParameter("give one folder: as it is, or with --index")
    folder = place or index_folder(index)
    from avow.retrieval.checking import check as damage_of

    damage = damage_of(folder)
    if as_json:
        listed = [entry.to_dict() for entry in damage]
        typer.echo(json.dumps({"place": str(folder), "intact": not damage, "damage": listed}))
    else:
        for entry in damage:
            typer.echo(f"{entry.file}: {entry.what}")
        for command in dict.fromkeys(entry.run for entry in damage):
            typer.echo(f"To repair it, run: {command}")
        if not damage:
            typer.echo(f"{folder} is intact")
    raise SystemExit(1 if damage else 0)
