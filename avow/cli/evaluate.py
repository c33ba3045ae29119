"""`avow evaluate`: recall of a run, or of any vectors, as a table."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer


def evaluate(
    run: Annotated[Path | None, typer.Argument(help="Folder made by `avow train`.")] = None,
    split: Annotated[str, typer.Option(help="Which split to rank.")] = "test",
    data: Annotated[
        str, typer.Option(help="Another dataset than the one it was trained on.")
    ] = "",
    features: Annotated[
        Path | None, typer.Option(help="Folder made by `avow features`.")
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a run: a folder with images.npy, texts.npy and image_of.npy."
        ),
    ] = None,
    fold: Annotated[
        int,
        typer.Option(help="Average over folds of this many images (COCO 1K: 1000)."),
    ] = 0,
    rerank: Annotated[
        Literal["", "relative"],
        typer.Option(
            help="Also rank by relative evidence, with unlabelled training queries as bank."
        ),
    ] = "",
    draws: Annotated[int, typer.Option(help="Bootstrap draws; 0: no intervals.")] = 1000,
    memory: Annotated[
        str, typer.Option(help="Host memory for scores; beyond it, a temporary file.")
    ] = "2GB",
    device: Annotated[str, typer.Option(help="cpu, cuda, …; default: best.")] = "",
    layout: Annotated[
        Literal["text", "json", "markdown", "latex"], typer.Option("--format")
    ] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Rank every text for every image and back; print R@1, R@5, R@10, MedR and rSum.

    Views are reported one by one and averaged. A tie counts against the model.
    """
    from avow.assembly.judge import judge_run, judge_vectors
    from avow.assembly.scores import Blocks, read_size
    from avow.assembly.table import as_latex, as_markdown, as_text
    from avow.core.device import best_device
    from avow.trust.rerank import judge_reranked

    if (run is None) == (vectors is None):
        raise typer.BadParameter("give either a run folder or --vectors FOLDER")
    if rerank and (run is None or fold):
        raise typer.BadParameter("--rerank needs a run folder and the whole split (no --fold)")
    layout = "json" if as_json else layout
    blocks = Blocks(memory=read_size(memory))
    quiet = layout == "json"
    if vectors is not None:
        found = judge_vectors(vectors, blocks, fold=fold, draws=draws, progress=not quiet)
    elif rerank:
        assert run is not None
        place = device or best_device()
        found = judge_reranked(
            run, split, data, features, blocks, place, draws=draws, progress=not quiet
        )
    else:
        assert run is not None
        found = judge_run(
            run,
            split,
            data,
            features,
            blocks,
            device or best_device(),
            fold=fold,
            draws=draws,
            progress=not quiet,
        )
    if layout == "json":
        typer.echo(json.dumps(found.to_dict()))
        return
    shown = {"text": as_text, "markdown": as_markdown, "latex": as_latex}[layout]
    typer.echo(shown(found))
    if layout == "text":
        facts = found.about
        if rerank:
            told = facts["rerank"]
            said = ", ".join(f"{key} {value:g}" for key, value in told["strength"].items())
            typer.echo(
                f"relative evidence: bank of {told['bank']}; strength per query chosen on "
                f"{told['strength_chosen_on']}: {said}"
            )
        typer.echo(
            f"{facts['images']} images, {facts['texts']} texts, {facts['protocol']}; "
            "brackets: 95 % interval of rSum over redrawn images"
            if draws and not fold
            else f"{facts['images']} images, {facts['texts']} texts, {facts['protocol']}"
        )
