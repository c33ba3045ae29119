"""`avow evaluate`: recall of a run, or of any vectors, as a table."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer


def evaluate(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Folder made by `avow train`; several are also averaged."),
    ] = None,
    average: Annotated[
        Literal["similarity", "evidence"],
        typer.Option(help="What of several runs is averaged."),
    ] = "similarity",
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
    subset: Annotated[
        str, typer.Option(help="Only some images; human: those whose captions name people.")
    ] = "",
    two_stage: Annotated[
        int,
        typer.Option(help="Compare parts only for the best K of each query; 0: for all."),
    ] = 0,
    shortlist: Annotated[
        Path | None,
        typer.Option(help="Run whose vectors find those K; default: pooled parts."),
    ] = None,
    precision: Annotated[
        Literal["fp32", "tf32", "bf16", "fp16"],
        typer.Option(help="Of products; sums stay exact."),
    ] = "fp32",
    against_fp32: Annotated[
        bool, typer.Option("--against-fp32", help="Also tell what the precision changes.")
    ] = False,
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
    from avow.assembly.judge import judge_run, judge_together, judge_two_stage, judge_vectors
    from avow.assembly.scores import Blocks, read_size
    from avow.assembly.table import as_latex, as_markdown, as_text
    from avow.core.device import chosen_device

    given = runs or []
    if bool(given) == (vectors is not None):
        raise typer.BadParameter("give either a run folder or --vectors FOLDER")
    if rerank and (len(given) != 1 or fold or two_stage or subset):
        raise typer.BadParameter("--rerank ranks the whole split of one run")
    if two_stage and (fold or len(given) != 1):
        raise typer.BadParameter("--two-stage ranks the whole split of one run")
    if shortlist is not None and not two_stage:
        raise typer.BadParameter("--shortlist goes with --two-stage K")
    if against_fp32 and (two_stage or len(given) != 1):
        raise typer.BadParameter("--against-fp32 goes with one run that scores every pair")
    if average == "evidence" and len(given) < 2:
        raise typer.BadParameter("--average evidence goes with several runs")
    layout = "json" if as_json else layout
    blocks = Blocks(memory=read_size(memory), precision=precision)
    quiet = layout == "json"
    where = (split, data, features, blocks, chosen_device(device))
    if vectors is not None:
        found = judge_vectors(vectors, blocks, fold=fold, draws=draws, progress=not quiet)
    elif rerank:
        from avow.trust.rerank import judge_reranked

        found = judge_reranked(given[0], *where, draws=draws, progress=not quiet)
    elif two_stage:
        found = judge_two_stage(
            given[0],
            two_stage,
            shortlist,
            *where,
            draws=draws,
            subset=subset,
            progress=not quiet,
        )
    elif len(given) > 1:
        found = judge_together(
            given,
            *where,
            fold=fold,
            draws=draws,
            subset=subset,
            average=average,
            progress=not quiet,
        )
    else:
        found = judge_run(
            given[0],
            *where,
            fold=fold,
            draws=draws,
            subset=subset,
            against_fp32=against_fp32,
            progress=not quiet,
        )
    if layout == "json":
        typer.echo(json.dumps(found.to_dict()))
        return
    shown = {"text": as_text, "markdown": as_markdown, "latex": as_latex}[layout]
    typer.echo(shown(found))
    if layout == "text":
        typer.echo("\n".join(notes(found.about, bool(draws and not fold))))


def notes(about: dict[str, Any], has_intervals: bool) -> list[str]:
    """What a reader of the table should know besides."""
    lines = [f"{about['images']} images, {about['texts']} texts, {about['protocol']}"]
    if about.get("subset"):
        lines[0] += f", subset {about['subset']}"
    if has_intervals:
        lines[0] += "; brackets: 95 % interval of rSum over redrawn images"
    if settings := about.get("evidence_settings"):
        said = ", ".join(f"{one['kind']} at tau {one['tau']:g}" for one in settings)
        lines.append(f"all runs: mean of their evidence ({said})")
    if change := about.get("against_fp32"):
        lines.append(
            f"{about['precision']} against fp32: rSum {change['rsum']:+.2f}; another first "
            f"answer for {change['first_changed_image']:.2%} of images and "
            f"{change['first_changed_text']:.2%} of texts; largest difference of a "
            f"similarity {change['largest']:.1e}"
        )
    if told := about.get("rerank"):
        said = ", ".join(f"{key} {value:g}" for key, value in told["strength"].items())
        lines.append(
            f"relative evidence: bank of {told['bank']}; strength per query chosen on "
            f"{told['strength_chosen_on']}: {said}"
        )
    if stages := about.get("two_stage"):
        lines.append(
            f"shortlists of {stages['k']} by {stages['shortlist']}: {stages['share']:.1%} of "
            f"pairs compared in {stages['seconds']:.2f} s, every pair in "
            f"{stages['seconds_every_pair']:.2f} s; rSum lost {stages['rsum_lost']:.2f}"
        )
    return lines
