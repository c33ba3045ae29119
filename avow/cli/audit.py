"""`avow audit`: which pairs of a dataset are probably wrong."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

FOLDS = 5


def audit(
    dataset: Annotated[str, typer.Argument(help="Dataset name, folder or file.")],
    run: Annotated[
        Path | None,
        typer.Option(
            help="A trained run that judges, or 'default', the model that comes with Avow; "
            "without it fold models are trained."
        ),
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            help="Recipe of the fold models; default audit/light, and with CUDA "
            "DATASET/vse_infty_tcl_decl where there is one."
        ),
    ] = "",
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="Fold models, each judging what it never saw; default 5."),
    ] = None,
    split: Annotated[str, typer.Option(help="Which split to judge.")] = "train",
    features: Annotated[
        Path | None, typer.Option(help="Folder made by `avow features`.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; default audits/DATASET-SPLIT.")
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="Pairs on the page.")] = 100,
    threshold: Annotated[
        float,
        typer.Option(min=0, max=1, help="Probability from which a pair counts as an issue."),
    ] = 0.5,
    astray: Annotated[
        Literal["both", "alone", "together"],
        typer.Option(
            help="What wrong captions look like: one of an image alone, all of it together, "
            "or both; alone passes over images that are merely unusual."
        ),
    ] = "both",
    gallery: Annotated[
        int, typer.Option(min=2, help="Images compared with each other at once.")
    ] = 2000,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="part.key=value of the fold recipe; repeatable."),
    ] = None,
    apply: Annotated[
        Path | None,
        typer.Option(help="Instead: a decisions.csv; writes a cleaned dataset to --out."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the folds, galleries and made-up pairs.")
    ] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, …; default: best.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, for scripts.")
    ] = False,
) -> None:
    """List the pairs of DATASET that are probably wrong, with a page to look at and tick.

    Stop it at any time and run it again: what was trained and scored is kept. DATASET itself
    is never changed; --apply writes a cleaned copy of its list of pairs.
    """
    import numpy as np

    from avow.assembly.judge import open_splits
    from avow.assembly.model import Model
    from avow.assembly.pairs import FeaturedSplit
    from avow.cli._terminal import printable
    from avow.core.device import chosen_device
    from avow.data._noise import with_noise
    from avow.data._open import open_dataset
    from avow.training.course import drawn_noise, fold_recipe, open_features
    from avow.training.folds import FEW_STEPS, fold_steps, train_folds
    from avow.training.learnt import seen_before
    from avow.trust._audit_files import LISTS, read_decisions, write_cleaned
    from avow.trust.audit import parted, refuse_too_few
    from avow.trust.auditing import AuditPlan, audit_parts

    if apply is not None:
        if out is None:
            raise typer.BadParameter("--apply needs --out, a new folder for the cleaned pairs")
        done = write_cleaned(open_dataset(dataset), read_decisions(apply), out)
        if as_json:
            typer.echo(json.dumps({"out": str(out), **done}))
        else:
            typer.echo(
                f"{done['wrong']} pairs left out, {done['move']} moved, "
                f"{done['kept'] + done['right']} kept -> {out / 'pairs.jsonl'}"
            )
        return
    where, count = chosen_device(device), folds or FOLDS
    home = out or Path("audits") / f"{Path(dataset).stem}-{split}"
    if home.exists() and not home.is_dir():
        raise typer.BadParameter(f"--out {str(home)!r} is a file; name a folder")
    if any(Path(dataset).resolve() == (home / name).resolve() for name in LISTS):
        raise typer.BadParameter(f"--out {str(home)!r} would overwrite {dataset!r}")
    if run is not None:
        _refuse_training({"--recipe": recipe, "--folds": folds, "--set": change})
        model = Model.from_pretrained(run, where)
        opened, splits = open_splits(model, dataset, features, [split])
        whole = splits[split]
        refuse_too_few(whole, split)
        parts = [parted(whole, whole.image_ids, model)]
        seen = seen_before(run, whole)
        if seen is None and split == "train" and model.learnt_from(opened):
            seen = np.ones(len(whole.captions), bool)  # as far as the name of the data tells
        told = f"judged by {_named(run)}"
    else:
        if split != "train":
            raise typer.BadParameter(
                "fold models judge the train split; name a --run for others"
            )
        opened = open_dataset(dataset)
        chosen = fold_recipe(recipe, dataset, opened, change or [], seed, where)
        store = open_features(chosen, opened, features)
        noise = drawn_noise(chosen, opened)
        if noise is not None:  # the pairs are judged as they are then, not noised per fold
            opened, chosen = with_noise(opened, noise), replace(chosen, noise=None)
        whole = FeaturedSplit.join(opened, split, store)
        refuse_too_few(whole, split)
        typer.echo(f"{count} fold models by the recipe {chosen.name} on {where}", err=True)
        steps = fold_steps(chosen, len(whole.captions), count)
        if steps < FEW_STEPS:
            typer.echo(
                f"Each learns in {steps} steps, which is little: what they say may be worth "
                "little too. --run default judges without training; more epochs or smaller "
                f"batches learn more (--set train.epochs={10 * chosen.train.epochs}).",
                err=True,
            )
        trained = train_folds(
            chosen,
            opened,
            store,
            home / "folds",
            count,
            progress=not as_json,
            device=device or None,
        )
        parts = [
            parted(whole, fold.images, Model.from_pretrained(fold.run, where))
            for fold in trained
        ]
        told = f"judged by {count} models ({chosen.name}) that had not seen them"
        seen = None
    plan = AuditPlan(split, seen, told, worst, threshold, gallery, seed, astray)
    found, about = audit_parts(opened, whole, parts, plan, home, where, not as_json)
    if as_json:
        typer.echo(json.dumps(about))
        return
    for finding in found.findings[:10]:
        shown = printable(f"{finding.image}  {finding.caption}")
        typer.echo(f"{finding.probability:6.1%}  {shown}")
    learnt = about["in_sample"]
    note = f" The model has learnt from {learnt}; fold models judge more fairly." * (learnt > 0)
    typer.echo(
        f"{about['issues']} of {about['pairs']} pairs are wrong with {threshold:.0%} or more; "
        f"estimated share of wrong pairs {about['share']:.1%}.{note}"
    )
    typer.echo(f"page: {about['page']}")


def _refuse_training(given: dict[str, Any]) -> None:
    """A run that judges was trained already; what says how to train one would do nothing."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter(
                f"{option} is about fold models, and with --run none are trained; leave out one"
            )


def _named(run: Path) -> str:
    return "the model that comes with Avow" if str(run) == "default" else run.name
