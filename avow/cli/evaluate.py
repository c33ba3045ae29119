"""`avow evaluate`: recall of a run, or of any vectors, as a table."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from avow.cli._options import AllowCode, Device, Features

if TYPE_CHECKING:
    from avow.assembly.evaluate import Evaluation
    from avow.assembly.evaluate_runs import EvaluationPlan
    from avow.core.datasets import PairedDataset

Runs = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Folder made by `avow train`, or 'default'; several are also averaged."
    ),
]
Average = Annotated[
    Literal["similarity", "evidence"],
    typer.Option(help="What of several runs is averaged."),
]
Data = Annotated[str, typer.Option(help="Another dataset than the one it was trained on.")]
Vectors = Annotated[
    Path | None,
    typer.Option(
        help="Instead of a run: a folder with images.npy, texts.npy and image_of.npy."
    ),
]
Fold = Annotated[
    int,
    typer.Option(help="Average over folds of this many images (COCO 1K: 1000)."),
]
Subset = Annotated[
    str, typer.Option(help="Only some images; human: those whose captions name people.")
]
TwoStage = Annotated[
    int,
    typer.Option(help="Compare parts only for the best K of each query; 0: for all."),
]
Shortlist = Annotated[
    Path | None,
    typer.Option(help="Run whose vectors find those K; default: pooled parts."),
]
Precision = Annotated[
    Literal["fp32", "tf32", "bf16", "fp16"],
    typer.Option(help="Of products; sums stay exact."),
]
AgainstFp32 = Annotated[
    bool, typer.Option("--against-fp32", help="Also tell what the precision changes.")
]
Rerank = Annotated[
    Literal["", "relative"],
    typer.Option(
        help="Also rank by relative evidence, with unlabelled training queries as bank."
    ),
]
Memory = Annotated[
    str, typer.Option(help="Host memory for scores; beyond it, a temporary file.")
]
Layout = Annotated[Literal["text", "json", "markdown", "latex"], typer.Option("--format")]
SameAsJson = Annotated[bool, typer.Option("--json", help="Same as --format json.")]


def evaluate(
    runs: Runs = None,
    average: Average = "similarity",
    split: Annotated[str, typer.Option(help="Which split to rank.")] = "test",
    data: Data = "",
    features: Features = None,
    vectors: Vectors = None,
    fold: Fold = 0,
    subset: Subset = "",
    two_stage: TwoStage = 0,
    shortlist: Shortlist = None,
    precision: Precision = "fp32",
    against_fp32: AgainstFp32 = False,
    rerank: Rerank = "",
    draws: Annotated[int, typer.Option(help="Bootstrap draws; 0: no intervals.")] = 1000,
    memory: Memory = "2GB",
    device: Device = "",
    allow_code: AllowCode = False,
    layout: Layout = "text",
    as_json: SameAsJson = False,
) -> None:
    """Rank every text for every image and back; print R@1, R@5, R@10, MedR and rSum.

    Views are reported one by one and averaged. A tie counts against the model.
    """
    from avow.assembly.evaluate_runs import EvaluationPlan
    from avow.assembly.scores import Blocks, read_size
    from avow.core.device import chosen_device

    layout = "json" if as_json else layout
    chosen = _Chosen(runs or [], vectors, average, two_stage, shortlist, rerank, against_fp32)
    chosen.check(fold, subset)
    plan = EvaluationPlan(
        split=split,
        data=data,
        features=features,
        blocks=Blocks(memory=read_size(memory), precision=precision),
        device=chosen_device(device),
        fold=fold,
        draws=draws,
        subset=subset,
        progress=layout != "json",
        allow_code=allow_code,
    )
    _print(chosen.judge(plan), layout, has_intervals=bool(draws and not fold))


@dataclass(frozen=True)
class _Chosen:
    """What is evaluated, and in which of the ways."""

    runs: list[Path]
    vectors: Path | None
    average: Literal["similarity", "evidence"]
    two_stage: int
    shortlist: Path | None
    rerank: str
    against_fp32: bool

    def check(self, fold: int, subset: str) -> None:
        """Refuse options that contradict each other."""
        single = len(self.runs) == 1
        refused = {
            "give either a run folder or --vectors FOLDER": bool(self.runs)
            == (self.vectors is not None),
            "--rerank ranks the whole split of one run": self.rerank
            and (not single or fold or self.two_stage or subset),
            "--two-stage ranks the whole split of one run": self.two_stage
            and (fold or not single),
            "--shortlist goes with --two-stage K": self.shortlist is not None
            and not self.two_stage,
            "--against-fp32 goes with one run that scores every pair": self.against_fp32
            and (self.two_stage or not single),
            "--average evidence goes with several runs": self.average == "evidence"
            and len(self.runs) < 2,
        }
        for sentence, applies in refused.items():
            if applies:
                raise typer.BadParameter(sentence)

    def judge(self, plan: "EvaluationPlan") -> "Evaluation":
        from avow.assembly import evaluate_runs as ways

        if self.vectors is not None:
            how = {"fold": plan.fold, "draws": plan.draws, "progress": plan.progress}
            return ways.judge_vectors(self.vectors, plan.blocks, **how)
        if self.rerank:
            from avow.study.rerank import judge_reranked

            return judge_reranked(self.runs[0], plan)
        if self.two_stage:
            return ways.judge_two_stage(self.runs[0], self.two_stage, self.shortlist, plan)
        if len(self.runs) > 1:
            return ways.judge_together(self.runs, plan, average=self.average)
        if (dataset := self._photographs(plan)) is not None:
            from avow.assembly.evaluate_photographs import judge_photographs
            from avow.retrieval.encoders.opening import open_encoder

            return judge_photographs(open_encoder(), dataset, plan)
        return ways.judge_run(self.runs[0], plan, against_fp32=self.against_fp32)

    def _photographs(self, plan: "EvaluationPlan") -> "PairedDataset | None":
        """What the model that comes with Avow can look at itself, without stored features."""
        from avow.assembly.opening import read_about
        from avow.assembly.photograph_vectors import photographs_of
        from avow.core.places import DEFAULT, packaged_folder
        from avow.data.opening import open_dataset

        shipped = self.runs == [Path(DEFAULT)] and not (self.runs[0] / "avow.json").is_file()
        if not shipped or plan.features is not None or self.against_fp32:
            return None
        data = plan.data or read_about(packaged_folder())["recipe"]["data"]["name"]
        dataset = open_dataset(data)
        return None if photographs_of(dataset, plan.split) is None else dataset


def _print(evaluation: "Evaluation", layout: str, has_intervals: bool) -> None:
    from avow.assembly.table import as_latex, as_markdown, as_text

    if layout == "json":
        typer.echo(json.dumps(evaluation.to_dict()))
        return
    drawn = {"text": as_text, "markdown": as_markdown, "latex": as_latex}[layout]
    typer.echo(drawn(evaluation))
    if layout == "text":
        typer.echo("\n".join(notes(evaluation.about, has_intervals)))


def notes(about: dict[str, Any], has_intervals: bool) -> list[str]:
    """What a reader of the table should know besides."""
    lines = [f"{about['images']} images, {about['texts']} texts, {about['protocol']}"]
    if about.get("subset"):
        lines[0] += f", subset {about['subset']}"
    if has_intervals:
        lines[0] += "; brackets: 95 % interval of rSum over redrawn images"
    if settings := about.get("evidence_settings"):
        listed = ", ".join(
            f"{setting['kind']} at tau {setting['tau']:g}" for setting in settings
        )
        lines.append(f"all runs: mean of their evidence ({listed})")
    if change := about.get("against_fp32"):
        lines.append(
            f"{about['precision']} against fp32: rSum {change['rsum']:+.2f}; another first "
            f"answer for {change['first_changed_image']:.2%} of images and "
            f"{change['first_changed_text']:.2%} of texts; largest difference of a "
            f"similarity {change['largest']:.1e}"
        )
    if rerank := about.get("rerank"):
        listed = ", ".join(f"{key} {value:g}" for key, value in rerank["strength"].items())
        lines.append(
            f"relative evidence: bank of {rerank['bank']}; strength per query chosen on "
            f"{rerank['strength_chosen_on']}: {listed}"
        )
    if stages := about.get("two_stage"):
        lines.append(
            f"shortlists of {stages['k']} by {stages['shortlist']}: {stages['share']:.1%} of "
            f"pairs compared in {stages['seconds']:.2f} s, every pair in "
            f"{stages['seconds_every_pair']:.2f} s; rSum lost {stages['rsum_lost']:.2f}"
        )
    return lines
