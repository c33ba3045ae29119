"""`avow train`: a recipe to a trained run."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from avow.cli._options import AsJson

Loss = Annotated[
    str | None,
    typer.Option(help="Another loss than the recipe's, with its defaults."),
]
RecipeSettings = Annotated[
    list[str] | None,
    typer.Option("--set", help="part.key=value, such as loss.tau=0.1; repeatable."),
]


def train(
    recipe: Annotated[str, typer.Argument(help="Recipe name or .toml file.")],
    features: Annotated[
        str | None, typer.Option(help="Folder made by `avow features`, or its URL (s3, gs, …).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; default runs/NAME.")] = None,
    loss: Loss = None,
    seed: Annotated[int | None, typer.Option(help="Another seed than the recipe's.")] = None,
    change: RecipeSettings = None,
    resume: Annotated[bool, typer.Option(help="Go on where the run was stopped.")] = False,
    device: Annotated[str, typer.Option(help="cpu or empty for the best one.")] = "",
    as_json: AsJson = False,
) -> None:
    """Train RECIPE; the best checkpoint by dev rSum is kept in the run folder.

    Several GPUs: torchrun --nproc-per-node N -m avow train RECIPE.
    """
    from avow.training.from_recipe import run_name
    from avow.training.from_recipe import train as train_recipe

    changes = list(change or [])
    if seed is not None:
        changes.append(f"train.seed={seed}")
    named = run_name(recipe, loss, None if seed is None else f"seed{seed}")
    trained = train_recipe(
        recipe,
        out=out or Path("runs") / named,
        features=features,
        changes=changes,
        loss=loss,
        resume=resume,
        progress=not as_json,
        device=device,
    )
    if os.environ.get("RANK", "0") != "0":  # set by torchrun
        return
    if as_json:
        typer.echo(json.dumps(trained.to_dict()))
    else:
        typer.echo(
            f"best dev rSum {trained.dev_rsum:.1f} after epoch {trained.best_epoch} "
            f"-> {trained.run}"
        )
