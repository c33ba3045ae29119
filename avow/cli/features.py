"""`avow features`: photographs to memory-mapped feature shards."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer


def features(
    dataset: Annotated[str, typer.Argument(help="Dataset name, folder or file.")],
    backbone: Annotated[
        str, typer.Option(help="Pixel network; `avow methods` lists them.")
    ] = "efficientnet_lite2",
    size: Annotated[int, typer.Option(help="Input pixels; 0: the network's own.")] = 256,
    grid: Annotated[int, typer.Option(help="Cells per side after pooling.")] = 6,
    name: Annotated[
        str, typer.Option(help="Folder or hub name, for backbones that take one.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Where to put them; default under AVOW_HOME.")
    ] = None,
    images: Annotated[
        str, typer.Option(help="Image folder, where it is not the dataset's own.")
    ] = "",
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value of the dataset's reader; repeatable."),
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option(help="Only these splits; may be repeated.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Photographs at once.")] = 128,
    workers: Annotated[int, typer.Option(help="Decoding threads; 0: one a core.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, …; default: best.")] = "",
    verify: Annotated[
        bool, typer.Option(help="Also read all features back and refuse NaN.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, for scripts.")
    ] = False,
) -> None:
    """Extract image features of DATASET, once, for every later step.

    Stop it at any time and run it again: finished shards are kept. Photographs that
    cannot be read are skipped and listed.
    """
    from avow import backbones
    from avow.assembly.features import default_folder, extract
    from avow.assembly.recipe import read_settings
    from avow.core import folder
    from avow.core.device import chosen_device
    from avow.data._open import open_dataset

    settings = read_settings(change or [])
    if images:
        settings["images"] = images
    opened = open_dataset(dataset, **settings)
    chosen: dict[str, Any] = {"size": size} if size else {}
    if name:
        chosen["name"] = name
    network = folder.build(backbones, backbone, **chosen)
    label = f"{backbone}-{name}" if name else backbone
    where = out or default_folder(opened.name, label, size, grid)
    started = time.monotonic()
    store = extract(
        opened,
        network,
        where,
        grid=grid,
        splits=split,
        batch=batch,
        workers=workers or None,
        device=chosen_device(device),
        progress=not as_json,
    )
    took = time.monotonic() - started
    if verify:
        store.check_finite()
    counts = {name: len(store.split(name)) for name in store.names}
    report = {
        "folder": str(where),
        "images": counts,
        "skipped": store.skipped,
        "seconds": round(took, 1),
        "images_per_second": round(sum(counts.values()) / max(took, 1e-9), 1),
    }
    if as_json:
        typer.echo(json.dumps(report))
        return
    for image in store.skipped[:20]:
        typer.echo(f"skipped {image['id']}: {image['reason']}", err=True)
    if len(store.skipped) > 20:
        typer.echo(f"… and {len(store.skipped) - 20} more, listed in the manifest", err=True)
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    typer.echo(f"{listed} images in {took:.1f} s -> {where}")
