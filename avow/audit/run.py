"""An audit from trained models to the folder it leaves: scores, lists, page, summary.

Every part that a model judges is saved when it is done, so an audit that was stopped goes
on with the next part.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

import avow
from avow.audit.every_pair import restored
from avow.audit.files import load_judged, save_judged, write_findings
from avow.audit.judge import Audit, ErrorKind, audit, judge_part, steps
from avow.audit.page import write_page
from avow.audit.parts import Origins, PairedSplit, Part
from avow.core import checksums
from avow.core.datasets import PairedDataset
from avow.core.fingerprint import of_text
from avow.core.seals import write_document
from avow.data.believed_pairs import PAIRS, SUMMARY


@dataclass(frozen=True)
class AuditPlan:
    """What to judge, and how to show it."""

    split: str = "train"
    seen: Bool[np.ndarray, " captions"] | None = None
    """Which pairs the models have learnt from; None: none."""
    judged_by: str = "a trained run"
    worst: int = 100
    """Pairs on the page."""
    threshold: float = 0.5
    """Probability from which a pair counts as an issue."""
    gallery: int = 2000
    """Images that are compared with each other at once."""
    seed: int = 0
    error_kind: ErrorKind = "both"
    origins: Origins | None = None
    """Where each pair comes from, where all splits are judged as one."""


def audit_parts(
    dataset: PairedDataset,
    whole: PairedSplit,
    parts: Sequence[Part],
    plan: AuditPlan,
    out: Path,
    device: str,
    progress: bool = True,
) -> tuple[Audit, dict[str, Any]]:
    """Judge every part, write the folder, and return the findings and their summary."""
    out.mkdir(parents=True, exist_ok=True)
    judged = []
    for number, (part, advance) in enumerate(steps(parts, progress)):
        path = out / f"judged-{number}.npz"
        key = _fingerprint(dataset, part, plan)
        part_judged = load_judged(path, key)
        if part_judged is None:
            given = {"gallery": plan.gallery, "seed": plan.seed, "progress": advance}
            part_judged = judge_part(part, device, **given)
            save_judged(part_judged, path, key)
        else:
            advance((part.views + 1) * len(part.captions))
        judged.append(part_judged)
    result = audit(whole, plan.split, judged, plan.seen, plan.seed, plan.error_kind)
    if plan.origins is not None:
        result = restored(result, plan.origins)
    about = _about(dataset, whole, result, plan)
    write_findings(result, out, plan.threshold)
    files = dict(zip(split_ids(dataset, plan.split), _files(dataset, plan.split), strict=True))
    about["page"] = str(write_page(result.findings[: plan.worst], about, out, files.get))
    written = {PAIRS: checksums.of_file(out / PAIRS)}
    write_document(out / SUMMARY, {**about, "checksums": written}, indent=1)
    return result, about


def split_ids(dataset: PairedDataset, split: str) -> tuple[str, ...]:
    return dataset.splits[split].image_ids


def _files(dataset: PairedDataset, split: str) -> Sequence[Path | None]:
    chosen = dataset.splits[split]
    return chosen.files if chosen.files is not None else [None] * len(chosen.image_ids)


def _fingerprint(dataset: PairedDataset, part: Part, plan: AuditPlan) -> str:
    return of_text(
        [
            dataset.fingerprint,
            f"{plan.split} {plan.gallery} {plan.seed}",
            *part.identity(),
        ]
    )


def _about(
    dataset: PairedDataset, whole: PairedSplit, result: Audit, plan: AuditPlan
) -> dict[str, Any]:
    issues = sum(one.probability >= plan.threshold for one in result.findings)
    return {
        "dataset": dataset.name,
        "fingerprint": dataset.fingerprint,
        "split": plan.split,
        "pairs": len(result.findings),
        "images": len(whole.image_ids),
        "share": round(result.share, 4),
        "issues": issues,
        "threshold": plan.threshold,
        "in_sample": sum(one.in_sample for one in result.findings),
        "judged_by": plan.judged_by,
        "gallery": plan.gallery,
        "error_kind": plan.error_kind,
        "astray": plan.error_kind,  # its name in 0.1, for one more version
        "avow": avow.__version__,
        "date": datetime.date.today().isoformat(),
    }
