"""Audit a dataset from Python, in one call."""

from collections.abc import Sequence
from pathlib import Path

from avow.audit.judge import Audit
from avow.audit.parts import Judges
from avow.audit.run import AuditPlan, audit_parts
from avow.core.errors import BadData, training_half
from avow.core.searching import Encoder
from avow.data.opening import open_dataset


def audit_pairs(
    dataset: str,
    *,
    run: str | Path | Encoder | None = None,
    split: str = "train",
    features: str | Path | None = None,
    out: str | Path | None = None,
    changes: Sequence[str] = (),
    device: str = "",
    allow_code: bool = False,
) -> Audit:
    """List the pairs of a dataset that are probably wrong, most suspect first.

    dataset: a name, folder or file. run: who judges: a trained run, "default" (the model that
    comes with Avow, on stored features), an encoder such as `avow.open("my-index").encoder`
    (reads the photographs, without torch), or None, which trains five fold models. features:
    a folder made by `avow features`. out: where the page, the lists and the summary are
    written; default audits/DATASET-SPLIT. changes: settings of the fold models, such as
    "train.batch=32". device: default: the best one.

        >>> audit = avow.audit_pairs("animals", run="runs/animals", out="audits/animals")
        >>> len(audit.findings)
        120
        >>> first, last = audit.findings[0], audit.findings[-1]
        >>> first.probability >= last.probability
        True
    """
    home = Path(out) if out else Path("audits") / f"{Path(dataset).stem}-{split}"
    place = None if features is None else Path(features)
    if isinstance(run, Encoder):
        judges = _encoder_judges(run, dataset, split, home)
    elif run is not None:
        with training_half("An audit by a run"):
            from avow.audit.prepare import run_as_judge
        judges = run_as_judge(Path(run), dataset, split, place, device, allow_code)
    elif split == "train":
        with training_half("An audit by fold models"):
            from avow.audit.folds import FoldPlan, folds_as_judges
        plan = FoldPlan(changes=changes, device=device, allow_code=allow_code)
        judges = folds_as_judges(plan, dataset, place, home, lambda _: None, False)
    else:
        raise BadData(
            f"The split {split!r} cannot be judged by fold models. Expected 'train'; name a "
            "trained run for other splits."
        )
    shown = AuditPlan(split, judges.seen, judges.judged_by)
    parts = (judges.dataset, judges.whole, judges.parts)
    return audit_parts(*parts, shown, home, judges.device, False)[0]


def _encoder_judges(encoder: Encoder, dataset: str, split: str, home: Path) -> Judges:
    from avow.audit.shipped import encoder_as_judge, photographs_of

    opened = open_dataset(dataset)
    if photographs_of(opened, split) is None:
        raise BadData(
            f"The split {split!r} of {dataset!r} has features and no photographs. Expected "
            "photographs, which the encoder reads; name a run trained on such features."
        )
    return encoder_as_judge(encoder, opened, split, home, progress=False)
