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
    split: str | None = None,
    features: str | Path | None = None,
    out: str | Path | None = None,
    changes: Sequence[str] = (),
    device: str = "",
    allow_code: bool = False,
) -> Audit:
    """List the pairs of a dataset that are probably wrong, most suspect first.

    dataset: a name, folder or file. run: who judges: a trained run, "default" (the model that
    comes with Avow, on stored features), an encoder such as `avow.open("my-index").encoder`
    (reads the photographs, without torch), or None, which trains five fold models. split: one
    to judge; default: every pair, and for fold models the train split of a dataset that has
    splits of its own. features: a folder made by `avow features`. out: where the page, the
    lists and the summary are written; default audits/DATASET, with -SPLIT where one is named.
    changes: settings of the fold models, such as "train.batch=32". device: default: the best.

        >>> audit = avow.audit_pairs("animals", run="runs/animals", out="audits/animals")
        >>> len(audit.findings)
        360
        >>> first, last = audit.findings[0], audit.findings[-1]
        >>> first.probability >= last.probability
        True
    """
    home = Path(out) if out else usual_folder(dataset, split or "")
    place = None if features is None else Path(features)
    if isinstance(run, Encoder):
        judges = _encoder_judges(run, dataset, split or "", home)
    elif run is not None:
        with training_half("An audit by a run"):
            from avow.audit.prepare import run_as_judge
        judges = run_as_judge(Path(run), dataset, split or "", place, device, allow_code)
    elif split in (None, "train"):
        with training_half("An audit by fold models"):
            from avow.audit.folds import FoldPlan, folds_as_judges
        how = {"changes": changes, "device": device, "allow_code": allow_code}
        plan = FoldPlan(**how, split=split or "")
        judges = folds_as_judges(plan, dataset, place, home, lambda _: None, False)
    else:
        raise BadData(
            f"The split {split!r} cannot be judged by fold models. Expected 'train'; name a "
            "trained run for other splits."
        )
    shown = AuditPlan(judges.split, judges.seen, judges.judged_by, origins=judges.origins)
    parts = (judges.dataset, judges.whole, judges.parts)
    return audit_parts(*parts, shown, home, judges.device, False)[0]


def usual_folder(dataset: str, split: str) -> Path:
    """Where an audit goes when nobody says where."""
    return Path("audits") / f"{Path(dataset).stem}{split and '-'}{split}"


def _encoder_judges(encoder: Encoder, dataset: str, split: str, home: Path) -> Judges:
    from avow.assembly.photograph_vectors import photographs_of
    from avow.audit.shipped import encoder_as_judge

    opened = open_dataset(dataset)
    names = [split] if split else list(opened.splits)
    if any(photographs_of(opened, name) is None for name in names):
        raise BadData(
            f"The split {names[0]!r} of {dataset!r} has features and no photographs. Expected "
            "photographs, which the encoder reads; name a run trained on such features."
        )
    return encoder_as_judge(encoder, opened, split, home, progress=False)
