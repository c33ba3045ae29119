"""`avow audit`: which pairs of a dataset are probably wrong."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from avow.cli._options import AllowCode, AsJson, Dataset, Device, Features

if TYPE_CHECKING:
    from avow.audit.judge import Audit, Finding
    from avow.audit.parts import Judges

FOLDS = 5
SHOWN = 10
EXPORTS = ("fiftyone", "datasets")
"""Pairs in the terminal; the page and the list have more."""


Run = Annotated[
    Path | None,
    typer.Option(
        help="A trained run that judges, or 'default', the model that comes with Avow; "
        "without it fold models are trained."
    ),
]
Recipe = Annotated[
    str,
    typer.Option(
        help="Recipe of the fold models; default audit/light, and with CUDA "
        "DATASET/vse_infty_tcl_decl where there is one."
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(min=2, help="Fold models, each judging what it never saw; default 5."),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder to write; default audits/DATASET, or audits/DATASET-SPLIT."),
]
Threshold = Annotated[
    float,
    typer.Option(min=0, max=1, help="Probability from which a pair counts as an issue."),
]
ErrorKind = Annotated[
    Literal["both", "alone", "together"],
    typer.Option(
        "--error-kind",
        "--astray",  # its name in 0.1
        help="What wrong captions look like: one of an image alone, all of it together, "
        "or both; alone passes over images that are merely unusual.",
    ),
]
Gallery = Annotated[int, typer.Option(min=2, help="Images compared with each other at once.")]
FoldSettings = Annotated[
    list[str] | None,
    typer.Option("--set", help="part.key=value of the fold recipe; repeatable."),
]
JudgedSplit = Annotated[
    str,
    typer.Option(
        help="Which split to judge; default: every pair, and with fold models the train split "
        "of a dataset that has splits of its own."
    ),
]
Apply = Annotated[
    Path | None,
    typer.Option(help="Instead: a decisions.csv; writes a cleaned dataset to --out."),
]
Exports = Annotated[
    list[str] | None,
    typer.Option(
        "--export",
        help="Also write the findings for FiftyOne (fiftyone.jsonl) or for Hugging Face "
        "`datasets` (pairs.parquet); repeatable.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Of the folds, galleries and made-up pairs.")]


def audit(
    dataset: Dataset,
    run: Run = None,
    recipe: Recipe = "",
    folds: Folds = None,
    split: JudgedSplit = "",
    features: Features = None,
    out: Out = None,
    worst: Annotated[int, typer.Option(min=0, help="Pairs on the page.")] = 100,
    threshold: Threshold = 0.5,
    error_kind: ErrorKind = "both",
    gallery: Gallery = 2000,
    change: FoldSettings = None,
    apply: Apply = None,
    export: Exports = None,
    seed: Seed = 0,
    device: Device = "",
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """List the pairs of DATASET that are probably wrong, with a page to look at and tick.

    Stop it at any time and run it again: what was trained and scored is kept. DATASET itself
    is never changed; --apply writes a cleaned copy of its list of pairs.
    """
    if unknown := set(export or ()) - set(EXPORTS):
        raise typer.BadParameter(f"--export {min(unknown)}: expected {' or '.join(EXPORTS)}")
    if apply is not None:
        _apply(dataset, apply, out, as_json)
        return
    from avow.audit.pairs import usual_folder
    from avow.audit.run import AuditPlan, audit_parts

    home = out or usual_folder(dataset, split)
    _check_home(home, dataset)
    chosen = _Judged(dataset, split, features, home, device, allow_code, not as_json)
    if run is not None:
        _refuse_training({"--recipe": recipe, "--folds": folds, "--set": change})
        judges = chosen.by_run(run)
    else:
        judges = chosen.by_folds(recipe, change or [], folds or FOLDS, seed)
    shown = (worst, threshold, gallery, seed, error_kind)
    plan = AuditPlan(judges.split, judges.seen, judges.judged_by, *shown, judges.origins)
    place = (home, judges.device, not as_json)
    findings, about = audit_parts(judges.dataset, judges.whole, judges.parts, plan, *place)
    about["exports"] = _exported(export or [], findings, judges, home)
    if as_json:
        typer.echo(json.dumps(about))
    else:
        _print(findings.findings[:SHOWN], about)


def _exported(
    kinds: "Sequence[Any]", findings: "Audit", judges: "Judges", home: Path
) -> dict[Any, str]:
    from avow.audit.exports import write_exports

    split = judges.dataset.splits[judges.split]
    files = dict(zip(split.image_ids, split.files or (), strict=bool(split.files)))
    return write_exports(kinds, findings.findings, files, home)


@dataclass(frozen=True)
class _Judged:
    """What is judged, and where the judges write."""

    dataset: str
    split: str
    features: Path | None
    home: Path
    device: str
    allow_code: bool
    progress: bool

    def by_run(self, run: Path) -> "Judges":
        if str(run) == "default" and self.features is None and self.device in ("", "cpu"):
            judges = self._by_shipped_model()
            if judges is not None:
                return judges
        from avow.audit.prepare import run_as_judge

        asked = (self.dataset, self.split, self.features, self.device, self.allow_code)
        return run_as_judge(run, *asked)

    def by_folds(self, recipe: str, changes: list[str], count: int, seed: int) -> "Judges":
        if self.split not in ("", "train"):
            raise typer.BadParameter(
                "fold models judge the train split; name a --run for others"
            )
        from avow.audit.folds import FoldPlan, folds_as_judges

        plan = FoldPlan(recipe, changes, count, seed, self.device, self.allow_code, self.split)
        told = (self.home, partial(typer.echo, err=True), self.progress)
        return folds_as_judges(plan, self.dataset, self.features, *told)

    def _by_shipped_model(self) -> "Judges | None":
        """Judge photographs without torch; None where the dataset has only features."""
        from avow.assembly.photograph_vectors import photographs_of
        from avow.audit.shipped import encoder_as_judge
        from avow.data.opening import open_dataset
        from avow.retrieval.encoders.opening import open_encoder

        opened = open_dataset(self.dataset)
        names = [self.split] if self.split else list(opened.splits)
        if any(photographs_of(opened, name) is None for name in names):
            return None
        encoder = open_encoder()
        return encoder_as_judge(encoder, opened, self.split, self.home, progress=self.progress)


def _apply(dataset: str, decisions: Path, out: Path | None, as_json: bool) -> None:
    """Write a cleaned copy of the list of pairs."""
    from avow.audit.files import read_decisions, write_cleaned
    from avow.data.opening import open_dataset

    if out is None:
        raise typer.BadParameter("--apply needs --out, a new folder for the cleaned pairs")
    done = write_cleaned(open_dataset(dataset), read_decisions(decisions), out)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **done}))
        return
    typer.echo(
        f"{done['wrong']} pairs left out, {done['move']} moved, "
        f"{done['kept'] + done['right']} kept -> {out / 'pairs.jsonl'}"
    )


def _check_home(home: Path, dataset: str) -> None:
    from avow.audit.files import LISTS

    if home.exists() and not home.is_dir():
        raise typer.BadParameter(f"--out {str(home)!r} is a file; name a folder")
    if "\0" in dataset:  # of no file, and told as an unknown dataset
        return
    if any(Path(dataset).resolve() == (home / name).resolve() for name in LISTS):
        raise typer.BadParameter(f"--out {str(home)!r} would overwrite {dataset!r}")


def _print(worst: "Sequence[Finding]", about: dict[str, Any]) -> None:
    """The worst pairs, then the totals."""
    from avow.cli._terminal import printable

    for finding in worst:
        shown = printable(f"{finding.image}  {finding.caption}")
        typer.echo(f"{finding.probability:6.1%}  {shown}")
    learnt = about["in_sample"]
    note = f" The model has learnt from {learnt}; fold models judge more fairly." * (learnt > 0)
    typer.echo(
        f"{about['issues']} of {about['pairs']} pairs are wrong with {about['threshold']:.0%} "
        f"or more; estimated share of wrong pairs {about['share']:.1%}.{note}"
    )
    for kind, place in about["exports"].items():
        typer.echo(f"for {kind}: {place}")
    typer.echo(f"page: {about['page']}")


def _refuse_training(options: dict[str, Any]) -> None:
    """Refuse options about training: with --run, the judging model is trained already."""
    for option, value in options.items():
        if value:
            raise typer.BadParameter(
                f"{option} is about fold models, and with --run none are trained; leave out one"
            )
