"""`avow features`: photographs to memory-mapped feature shards."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from avow.cli._options import AsJson, Dataset, Device

if TYPE_CHECKING:
    from avow.core.contracts import Backbone as Network
    from avow.data.features import FeatureStore

SHOWN = 20
"""Skipped photographs that are named."""

Backbone = Annotated[str, typer.Option(help="Pixel network; `avow methods` lists them.")]
Size = Annotated[int, typer.Option(help="Input pixels; 0: the network's own.")]
Name = Annotated[str, typer.Option(help="Folder or hub name, for backbones that take one.")]
Run = Annotated[
    str,
    typer.Option(
        help="Trained model ('default' too) whose pixel network, size and grid to use."
    ),
]
Out = Annotated[Path | None, typer.Option(help="Where to put them; default under AVOW_HOME.")]
Images = Annotated[str, typer.Option(help="Image folder, where it is not the dataset's own.")]
ReaderSettings = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value of the dataset's reader; repeatable."),
]
Splits = Annotated[list[str] | None, typer.Option(help="Only these splits; may be repeated.")]
Verify = Annotated[bool, typer.Option(help="Also read all features back and refuse NaN.")]


def features(
    dataset: Dataset,
    backbone: Backbone = "efficientnet_lite2",
    size: Size = 256,
    grid: Annotated[int, typer.Option(help="Cells per side after pooling.")] = 6,
    name: Name = "",
    run: Run = "",
    out: Out = None,
    images: Images = "",
    change: ReaderSettings = None,
    split: Splits = None,
    batch: Annotated[int, typer.Option(help="Photographs at once.")] = 128,
    workers: Annotated[int, typer.Option(help="Decoding threads; 0: one a core.")] = 0,
    device: Device = "",
    verify: Verify = False,
    as_json: AsJson = False,
) -> None:
    """Extract image features of DATASET, once, for every later step.

    Stop it at any time and run it again: finished shards are kept. Photographs that
    cannot be read are skipped and listed.
    """
    from avow import backbones
    from avow.assembly.features import Extraction, default_folder, extract
    from avow.assembly.recipe import read_settings
    from avow.core import folder
    from avow.core.device import chosen_device
    from avow.data.opening import open_dataset

    settings = read_settings(change or [])
    if images:
        settings["images"] = images
    opened = open_dataset(dataset, allow_code=True, **settings)
    if run:
        network, label, size, grid = _of_run(run)
    else:
        chosen: dict[str, Any] = {"size": size} if size else {}
        if name:
            chosen["name"] = name
        network = folder.make(backbones, backbone, chosen, allow_code=True)  # typed
        label = f"{backbone}-{name}" if name else backbone
    where = out or default_folder(opened.name, label, size, grid)
    started = time.monotonic()
    store = extract(
        opened,
        network,
        where,
        Extraction(grid, batch, workers or None, chosen_device(device)),
        splits=split,
        progress=not as_json,
    )
    took = time.monotonic() - started
    if verify:
        store.check_finite()
    _print(store, took, as_json)


def _of_run(run: str) -> "tuple[Network, str, int, int]":
    """The pixel network of a trained model, what its features are called, size and grid."""
    from avow.assembly.model import Model
    from avow.assembly.stores import features_label

    model = Model.from_pretrained(run)
    network, wanted = model.backbone, model.recipe.features
    assert wanted is not None, "a model with a backbone asks for features"
    label = features_label(wanted, model.own_backbone)
    return network, label, wanted.size, wanted.grid


def _print(store: "FeatureStore", took: float, as_json: bool) -> None:
    counts = {name: len(store.split(name)) for name in store.names}
    if as_json:
        report = {
            "folder": str(store.folder),
            "images": counts,
            "skipped": store.skipped,
            "seconds": round(took, 1),
            "images_per_second": round(sum(counts.values()) / max(took, 1e-9), 1),
        }
        typer.echo(json.dumps(report))
        return
    for image in store.skipped[:SHOWN]:
        typer.echo(f"skipped {image['id']}: {image['reason']}", err=True)
    more = len(store.skipped) - SHOWN
    if more > 0:
        typer.echo(f"… and {more} more, listed in the manifest", err=True)
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    typer.echo(f"{listed} images in {took:.1f} s -> {store.folder}")
