"""`avow import`: a checkpoint of a published system to a run of ours."""

import json
from pathlib import Path
from typing import Annotated

import typer

from avow.cli._options import AsJson

Vocabulary = Annotated[
    Path | None,
    typer.Option(help="Its vocabulary JSON; of a BERT model, the folder of that BERT."),
]


def import_(
    system: Annotated[str, typer.Argument(help="Which system saved it, such as scan or tcl.")],
    file: Annotated[Path, typer.Argument(help="Its checkpoint, such as model_best.pth.tar.")],
    out: Annotated[Path, typer.Option(help="Run folder to make.")],
    vocabulary: Vocabulary = None,
    as_json: AsJson = False,
) -> None:
    """Turn FILE, a checkpoint published by SYSTEM, into a run folder.

    Nothing inside the file is run: one that holds more than weights and options is
    refused. `avow evaluate` and `Model.from_pretrained` take the run as any other.
    """
    from avow.assembly.published import import_checkpoint
    from avow.core.errors import WrongCheckpoint

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise WrongCheckpoint(
            f"There is something in {str(out)!r} already. Expected a new folder for the "
            "run; choose another --out."
        )
    model = import_checkpoint(system, file, vocabulary)
    model.save_pretrained(out)
    weights = sum(weight.numel() for view in model.views for weight in view.parameters())
    report = {
        "run": str(out),
        "system": system,
        "method": model.recipe.method["name"],
        "views": len(model.views),
        "weights": weights,
        "words": model.tokeniser.size,
        "visual_dim": model.visual["dim"],
    }
    if as_json:
        typer.echo(json.dumps(report))
        return
    views = "one network" if len(model.views) == 1 else f"{len(model.views)} networks"
    typer.echo(f"{report['method']}, {views}, {weights:,} weights -> {out}")
