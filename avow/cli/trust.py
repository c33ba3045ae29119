"""`avow trust`: how far the answers of a run can be trusted, measured and shown."""

import json
from pathlib import Path
from typing import Annotated

import typer

from avow.cli._options import AllowCode, Device, Features
from avow.core.places import DEFAULT

Runs = Annotated[
    list[Path],
    typer.Argument(
        help="Folders made by `avow train`, or 'default'; several are seeds of one recipe."
    ),
]
FittedOn = Annotated[str, typer.Option(help="Split the probabilities are fitted on.")]
Bank = Annotated[str, typer.Option(help="Split whose queries tell what is usual.")]
DataFeatures = Annotated[
    Path | None, typer.Option(help="Features of --data, where it is given.")
]
Judgements = Annotated[
    Path | None, typer.Option(help="What people said of pairs of the split (JSON).")
]
Passes = Annotated[
    int,
    typer.Option(help="Passes with dropout on and with drawn batch statistics; 0: none."),
]
FromPixels = Annotated[
    bool,
    typer.Option(help="Also draw the backbone's batch statistics, from photographs."),
]
PixelsMost = Annotated[
    int, typer.Option(help="Photographs asked from pixels, at random; 0: all.", min=0)
]
Relevant = Annotated[
    str, typer.Option(help="Dataset to fit P(relevant) on, per query style: coco, …")
]
RelevantFeatures = Annotated[
    Path | None, typer.Option(help="Features of --relevant, where it is given.")
]
Objects = Annotated[
    Path | None, typer.Option(help="What photographs of --relevant hold (JSON).")
]
Corruption = Annotated[
    bool, typer.Option(help="Also take words and regions away, and look again.")
]
WordChanges = Annotated[
    str,
    typer.Option(help="What corruption does to words: mask, replace, delete, swap."),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Where to write; default: `trust` in the first run, or trust/default."),
]
PrintJson = Annotated[bool, typer.Option("--json", help="Print the study as one JSON object.")]


def trust(
    runs: Runs,
    split: Annotated[str, typer.Option(help="Which split to judge.")] = "test",
    fitted_on: FittedOn = "dev",
    bank: Bank = "train",
    data: Annotated[str, typer.Option(help="Another dataset to judge: a shift.")] = "",
    features: Features = None,
    data_features: DataFeatures = None,
    judgements: Judgements = None,
    passes: Passes = 0,
    from_pixels: FromPixels = False,
    pixels_most: PixelsMost = 0,
    relevant: Relevant = "",
    relevant_split: Annotated[str, typer.Option(help="Which split of --relevant.")] = "dev",
    relevant_features: RelevantFeatures = None,
    objects: Objects = None,
    corruption: Corruption = True,
    word_changes: WordChanges = "mask,replace,delete",
    splits: Annotated[int, typer.Option(help="Splits that promises are counted on.")] = 200,
    out: Out = None,
    device: Device = "",
    memory: Annotated[str, typer.Option(help="Host memory for scores.")] = "2GB",
    allow_code: AllowCode = False,
    as_json: PrintJson = False,
) -> None:
    """Measure how far answers can be trusted; write a page to look at.

    Probabilities are fitted on one split and judged on another. The folder gets study.json,
    a fitted trust for each direction, figures, and index.html. Features of pictures come from
    `avow features DATASET --run RUN`; 'default' is studied on Flickr8k, its training set.
    """
    from avow.assembly.scores import Blocks, read_size
    from avow.core.device import chosen_device
    from avow.study.plan import Plan
    from avow.study.run import study_runs

    plan = Plan(
        split=split,
        fitted_on=fitted_on,
        bank=bank,
        data=data,
        features=features,
        data_features=data_features,
        passes=passes,
        pixels=from_pixels,
        pixels_most=pixels_most,
        relevant=relevant,
        relevant_split=relevant_split,
        relevant_features=relevant_features,
        objects=objects,
        corruption=corruption,
        word_changes=_word_changes(word_changes),
        judgements=judgements,
        splits=splits,
        allow_code=allow_code,
    )
    blocks, place = Blocks(memory=read_size(memory)), out or _place(runs[0])
    how = (place, chosen_device(device), blocks)
    studies, page = study_runs(runs, plan, *how, progress=not as_json)
    _print(studies, page, as_json)


def _place(run: Path) -> Path:
    """Beside the run; the packaged model may lie where nothing can be written."""
    if run == Path(DEFAULT) and not run.exists():
        return Path("trust") / DEFAULT
    return run / "trust"


def _word_changes(listed: str) -> tuple[str, ...]:
    from avow.data.corruption import KINDS

    words = tuple(word.strip() for word in listed.split(","))
    if unknown := [word for word in words if word not in KINDS]:
        raise typer.BadParameter(
            f"There is no way to change words called {unknown[0]!r}. Expected some of "
            f"{', '.join(KINDS)}, with commas between them."
        )
    return words


def _print(studies: list[dict], page: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"studies": studies, "page": str(page)}))
        return
    for study in studies:
        typer.echo(summary(study))
    typer.echo(f"page: {page}")


def summary(study: dict) -> str:
    """A few lines of one study, for the terminal."""
    lines = [
        f"{study['about']['run']} on {study['about']['dataset']} {study['about']['split']}"
    ]
    for query, other in (("text", "image"), ("image", "text")):
        direction = study["directions"][query]
        ours = direction["measures"]["calibrated trust"]
        u = direction["measures"]["evidential: u"]
        soft = direction["measures"]["scores: probability"]
        calibration = direction["calibration"]
        lines.append(
            f"  {query} -> {other}: tells right from wrong with AUROC {ours['auroc']:.3f} "
            f"[{ours['interval'][0]:.3f}, {ours['interval'][1]:.3f}] "
            f"(u {u['auroc']:.3f}, softmax {soft['auroc']:.3f}); "
            f"ECE {calibration['ece']:.3f} (floor {calibration['floor']:.3f})"
        )
    return "\n".join(lines)
