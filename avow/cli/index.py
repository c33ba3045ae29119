"""`avow index`: folders of photographs and texts to an index that can be searched."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from avow.core.searching import Encoder
    from avow.retrieval.report import Report

_SHOWN = 20


def index(
    folders: Annotated[
        list[str], typer.Argument(help="Folders, or tables of captions (.csv, .jsonl).")
    ],
    where: Annotated[
        Path | None, typer.Option("--index", help="The index; default under AVOW_HOME.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="default, a run's folder, or a name of the model hub.")
    ] = "default",
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Encode everything anew, or with another model.")
    ] = False,
    dedupe: Annotated[bool, typer.Option("--dedupe", help="Group near-duplicates.")] = False,
    engine: Annotated[
        str, typer.Option(help="exact, faiss or pgvector; default: as it is, else exact.")
    ] = "",
    half: Annotated[
        bool | None,
        typer.Option("--half/--full", help="Bits per number: 16 or 32; default: as it is."),
    ] = None,
    batch: Annotated[int, typer.Option(help="Items encoded at once.")] = 64,
    workers: Annotated[int, typer.Option(help="Reading threads; 0: one a core.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, …; default: best.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, for scripts.")
    ] = False,
) -> None:
    """Index the photographs and texts below FOLDERS, to be searched by `avow search`.

    Run it again after changes: only what is new, changed, moved or deleted is looked at.
    Stop it at any time: what was finished is kept. Files that cannot be read are skipped
    and listed.
    """
    from avow.retrieval.deferred import Deferred, unchanged

    def open_encoder(name: str) -> "Encoder":
        from avow.core.device import chosen_device
        from avow.retrieval.encoder import open_encoder

        return open_encoder(name, chosen_device(device))

    chosen = Deferred.named(model, open_encoder)
    plain = not (rebuild or dedupe or engine or half is not None)
    report = unchanged(folders, where, chosen) if plain else None
    if report is None:
        from avow.cli._progress import bar
        from avow.retrieval.indexing import index_folders

        with bar(hidden=as_json) as progress:
            report = index_folders(
                folders,
                index=where,
                encoder=chosen,
                rebuild=rebuild,
                dedupe=dedupe,
                engine=engine or None,
                half=half,
                batch=batch,
                workers=workers,
                progress=progress,
            )
    _tell(report, as_json)


def _tell(report: "Report", as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.to_dict()))
        return
    for path, why in report.skipped[:_SHOWN]:
        typer.echo(f"skipped {path}: {why}", err=True)
    if len(report.skipped) > _SHOWN:
        more = len(report.skipped) - _SHOWN
        typer.echo(f"… and {more} more; --json lists them all", err=True)
    counts = {
        "new": report.new,
        "changed": report.changed,
        "moved": report.moved,
        "deleted": report.deleted,
        "unchanged": report.unchanged,
        "skipped": len(report.skipped),
        "alike": report.alike,
    }
    listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    typer.echo(f"{listed or 'nothing'} in {report.seconds:.1f} s")
