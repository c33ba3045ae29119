"""`avow train`: a recipe to a trained run."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[str, typer.Argument(help="Recipe name or .toml file.")],
    features: Annotated[
        Path | None, typer.Option(help="Folder made by `avow features`.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; default runs/NAME.")] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="Another loss than the recipe's, with its defaults."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed than the recipe's.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="part.key=value, such as loss.tau=0.1; repeatable."),
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on where the run was stopped.")] = False,
    device: Annotated[str, typer.Option(help="cpu or empty for the best one.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, for scripts.")
    ] = False,
) -> None:
    """Train RECIPE; the best checkpoint by dev rSum is kept in the run folder.

    Several GPUs: torchrun --nproc-per-node N -m avow train RECIPE.
    """
    from avow.assembly.recipe import Recipe
    from avow.training.course import enrol, open_data, open_features
    from avow.training.loop import train as run_training
    from avow.training.state import check_run, open_run

    changes = list(change or [])
    if seed is not None:
        changes.append(f"train.seed={seed}")
    chosen = Recipe.open(recipe, changes, loss)
    run = out or Path("runs") / _run_name(recipe, loss, seed)
    first = os.environ.get("RANK", "0") == "0"  # set by torchrun
    if first:
        check_run(run, chosen, resume)
    dataset = open_data(chosen)
    store = open_features(chosen, dataset, features)
    model, course = enrol(chosen, dataset, store)
    if first:
        open_run(run, chosen, resume)  # what is refused before leaves nothing behind
    reached = run_training(
        model, course, run, resume=resume, progress=not as_json, device=device or None
    )
    if not first:
        return
    report = {
        "run": str(run),
        "epochs": reached.epoch,
        "best_epoch": reached.best_epoch,
        "dev_rsum": reached.best,
    }
    if as_json:
        typer.echo(json.dumps(report))
    else:
        typer.echo(
            f"best dev rSum {reached.best:.1f} after epoch {reached.best_epoch} -> {run}"
        )


def _run_name(recipe: str, loss: str | None, seed: int | None) -> str:
    parts = [recipe.removesuffix(".toml").replace("/", "-").lstrip(".-")]
    parts += [loss] if loss else []
    parts += [f"seed{seed}"] if seed is not None else []
    return "-".join(parts)
