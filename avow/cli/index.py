"""`avow index`: folders of photographs, videos and texts to an index that can be searched."""

import json
import os
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from avow.cli._options import AllowCode, AsJson

if TYPE_CHECKING:
    from avow.core.searching import Encoder
    from avow.retrieval.encoders.lazy import Deferred
    from avow.retrieval.store.report import Report

_SHOWN = 20
_FEWEST = 50  # `retrieval.transfer.FEWEST`, whose module is slow to import


Folders = Annotated[
    list[str],
    typer.Argument(
        help="Folders, tables of captions (.csv, .jsonl), URLs (s3, gs, http, hf), or "
        "shards (.tar, .parquet)."
    ),
]
Where = Annotated[
    Path | None,
    typer.Option(
        "--index", help="A folder, postgres:NAME or milvus:NAME; default under AVOW_HOME."
    ),
]
ModelName = Annotated[
    str, typer.Option(help="default, a run's folder, or a name of the model hub.")
]
Rebuild = Annotated[
    bool, typer.Option("--rebuild", help="Encode everything anew, or with another model.")
]
Prune = Annotated[
    bool,
    typer.Option("--prune", help="Delete missing files even if they are most of a folder."),
]
Engine = Annotated[
    str,
    typer.Option(help="exact, faiss, pgvector; of a store exact, hnsw; default: as it is."),
]
Half = Annotated[
    bool | None,
    typer.Option("--half/--full", hidden=True, help="Earlier names of float16 and float32."),
]
Vectors = Annotated[
    str,
    typer.Option(
        help="How vectors are kept: float32, float16, int8 or int8x256; default: as they are."
    ),
]
Fps = Annotated[
    float | None,
    typer.Option(help="Frames a second looked at in videos; default: as it is, else 1."),
]
Ocr = Annotated[
    bool | None,
    typer.Option(
        "--ocr/--no-ocr",
        help="Recognise text in pictures, to search it too (avow[ocr]); default: as it is.",
    ),
]
EncoderDevice = Annotated[
    str, typer.Option(help="cpu, cuda, …; default: best, for the default model cpu.")
]


Ray = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Encode on a Ray cluster: auto, host:6379, ray://host:10001, local.",
    ),
]
Untrusted = Annotated[
    bool,
    typer.Option(
        "--untrusted",
        help="Decode pictures in processes of their own, with limits of time and memory, and "
        "no videos; the same as AVOW_UNTRUSTED=1.",
    ),
]
Transfer = Annotated[
    int,
    typer.Option(
        help="Pictures that trust is transferred on, for a model that has none; 0: not at all."
    ),
]


def index(
    folders: Folders,
    where: Where = None,
    model: ModelName = "default",
    rebuild: Rebuild = False,
    dedupe: Annotated[bool, typer.Option("--dedupe", help="Group near-duplicates.")] = False,
    prune: Prune = False,
    engine: Engine = "",
    vectors: Vectors = "",
    half: Half = None,
    batch: Annotated[int, typer.Option(help="Items encoded at once.")] = 64,
    workers: Annotated[int, typer.Option(help="Reading threads; 0: one a core.")] = 0,
    fps: Fps = None,
    ocr: Ocr = None,
    device: EncoderDevice = "",
    ray: Ray = "",
    transfer: Transfer = 1000,
    untrusted: Untrusted = False,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Index photographs, videos and texts below FOLDERS, to be searched by `avow search`.

    A video becomes moments of a few seconds. The index remembers --fps; another one than before
    reads all videos again. Animated GIF and WebP files count as pictures: their first frame.
    --vectors int8 needs a quarter of the room of float32, int8x256 a tenth; it is remembered.
    --ocr is remembered too: it reads all pictures that were not read. --no-ocr keeps what was.

    Run it again after changes: only what is new, changed, moved or deleted is looked at.
    Stop it at any time: what was finished is kept. Files that cannot be read are skipped
    and listed. Where more than half of a folder is missing, as when its disk is not mounted,
    nothing of it is deleted without --prune, and the exit code is 3. Where no file could be
    read, the exit code is 1. A model without a policy gets one by comparison with the default
    model, on --transfer pictures of the index.

    A name that ends in .tar is WebDataset, one in .parquet a table with pictures or their URLs;
    its last part may be a pattern, as in 's3://bucket/data/*.tar'.

    --untrusted is for pictures of strangers: one that makes its decoder crash, hang or need too
    much memory is skipped and listed, and nothing else is lost.
    """
    from avow.retrieval.encoders.lazy import Deferred, unchanged

    if untrusted:
        os.environ["AVOW_UNTRUSTED"] = "1"
    opened = partial(open_named, device=device, allow_code=allow_code)
    chosen = Deferred.named(model, cache(opened))
    plain = not (rebuild or dedupe or engine or vectors or ray) and (half, ocr) == (None, None)
    report = unchanged(folders, where, chosen, fps) if plain else None
    if report is None:
        how: dict[str, Any] = {"rebuild": rebuild, "dedupe": dedupe, "prune": prune}
        how |= {"half": half, "vectors": vectors or None, "batch": batch, "workers": workers}
        how |= {"fps": fps, "ocr": ocr, "allow_code": allow_code, "engine": engine or None}
        how |= {"cluster": _cluster(ray, model, device, allow_code)}
        report = _indexed(folders, where, chosen, as_json, **how)
    enough = report.new or report.changed or report.unchanged >= _FEWEST
    if model != "default" and not report.stopped and enough:
        report.trust = _transferred(where, chosen, transfer, allow_code, as_json)
    tell(report, as_json)
    _end(report)


def _end(report: "Report") -> None:
    """With an exit code by which a script can tell what went wrong."""
    if report.absent:
        raise typer.Exit(3)
    if report.nothing_readable:
        typer.echo(f"avow: {report.nothing_readable}", err=True)
        raise typer.Exit(1)


def _indexed(
    folders: list[str], where: Path | None, model: "Deferred", quiet: bool, **how: Any
) -> "Report":
    from avow.cli._progress import bar
    from avow.retrieval.indexing import index_folders

    with bar(hidden=quiet) as progress:
        return index_folders(folders, index=where, encoder=model, progress=progress, **how)


def _cluster(address: str, model: str, device: str, allow_code: bool) -> Any:
    if not address:
        return None
    from avow.retrieval.sharding.cluster import Cluster

    return Cluster(address, model, device, allow_code)


def open_named(name: str, device: str, allow_code: bool) -> "Encoder":
    from avow.core.places import DEFAULT
    from avow.retrieval.encoders.opening import open_encoder

    if name == DEFAULT and not device:
        return open_encoder(name)
    from avow.core.device import chosen_device  # with torch

    return open_encoder(name, chosen_device(device), allow_code=allow_code)


def _transferred(
    where: Path | None, model: "Deferred", most: int, allow_code: bool, quiet: bool
) -> str:
    from avow.cli._progress import bar
    from avow.retrieval.transfer import trust_after_indexing

    with bar(hidden=quiet) as progress:
        return trust_after_indexing(
            where, model, most=most, progress=progress, allow_code=allow_code
        )


def tell(report: "Report", as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.to_dict()))
        return
    for sentence in (*report.repaired, report.frame_rate):
        if sentence:
            typer.echo(sentence, err=True)
    for path, why in report.unreadable[:_SHOWN]:
        typer.echo(f"skipped {path}: {why}", err=True)
    if len(report.unreadable) > _SHOWN:
        more = len(report.unreadable) - _SHOWN
        typer.echo(f"… and {more} more; --json lists them all", err=True)
    if report.videos_left_out:
        typer.echo(report.videos_left_out, err=True)
    for folder in report.absent:
        typer.echo(str(folder), err=True)
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
    if report.trust:
        typer.echo(report.trust)
