"""An audit from trained models to the folder it leaves: scores, lists, page, summary.

Every part that a model judges is saved when it is done, so an audit that was stopped goes
on with the next part.
"""

import datetime
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

import avow
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks, batches
from avow.core.contracts import PairedDataset
from avow.core.files import write_text
from avow.core.fingerprint import of_bytes, of_text
from avow.data._believed import SUMMARY
from avow.trust._audit_files import load_judged, save_judged, write_findings
from avow.trust._audit_page import write_page
from avow.trust.audit import Astray, Audit, Part, audit, judge_part, steps


@dataclass(frozen=True)
class AuditPlan:
    """What to judge, and how to show it."""

    split: str = "train"
    seen: Bool[np.ndarray, " captions"] | None = None
    """Which pairs the models have learnt from; none where nothing is said."""
    judged_by: str = "a trained run"
    worst: int = 100
    """Pairs on the page."""
    threshold: float = 0.5
    """Probability from which a pair counts as an issue."""
    gallery: int = 2000
    """Images that are compared with each other at once."""
    seed: int = 0
    astray: Astray = "both"


def audit_parts(
    dataset: PairedDataset,
    whole: FeaturedSplit,
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
        found = load_judged(path, key)
        if found is None:
            given = {"gallery": plan.gallery, "seed": plan.seed, "progress": advance}
            found = judge_part(part, device, **given)
            save_judged(found, path, key)
        else:
            advance((len(part.model.views) + 1) * len(part.captions))
        judged.append(found)
    found = audit(whole, plan.split, judged, plan.seen, plan.seed, plan.astray)
    about = _about(dataset, whole, found, plan)
    write_findings(found, out, plan.threshold)
    files = dict(zip(split_ids(dataset, plan.split), _files(dataset, plan.split), strict=True))
    about["page"] = str(write_page(found.findings[: plan.worst], about, out, files.get))
    write_text(out / SUMMARY, json.dumps(about, indent=1))
    return found, about


def split_ids(dataset: PairedDataset, split: str) -> tuple[str, ...]:
    return dataset.splits[split].image_ids


def _files(dataset: PairedDataset, split: str) -> Sequence[Path | None]:
    chosen = dataset.splits[split]
    return chosen.files if chosen.files is not None else [None] * len(chosen.image_ids)


def _fingerprint(dataset: PairedDataset, part: Part, plan: AuditPlan) -> str:
    return of_text(
        [
            dataset.fingerprint,
            part.model.fingerprint,
            *part.split.image_ids,
            f"{plan.split} {plan.gallery} {plan.seed}",
            *_of_features(part.split),
        ]
    )


def _of_features(split: FeaturedSplit) -> Iterator[str]:
    """Names of the features' content, block by block: photographs may be read anew."""
    for images in batches(len(split.rows), Blocks().encode):
        yield of_bytes(split.features(images).numpy().tobytes())


def _about(
    dataset: PairedDataset, whole: FeaturedSplit, found: Audit, plan: AuditPlan
) -> dict[str, Any]:
    issues = sum(one.probability >= plan.threshold for one in found.findings)
    return {
        "dataset": dataset.name,
        "fingerprint": dataset.fingerprint,
        "split": plan.split,
        "pairs": len(found.findings),
        "images": len(whole.image_ids),
        "share": round(found.share, 4),
        "issues": issues,
        "threshold": plan.threshold,
        "in_sample": sum(one.in_sample for one in found.findings),
        "judged_by": plan.judged_by,
        "gallery": plan.gallery,
        "astray": plan.astray,
        "avow": avow.__version__,
        "date": datetime.date.today().isoformat(),
    }
