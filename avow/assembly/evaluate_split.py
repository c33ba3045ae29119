"""Evaluate one run on one split, in one call."""

from pathlib import Path

from avow.assembly.evaluate import Evaluation
from avow.assembly.evaluate_runs import EvaluationPlan, judge_run
from avow.core.device import chosen_device


def evaluate(
    run: str | Path,
    split: str = "test",
    *,
    data: str = "",
    features: str | Path | None = None,
    fold: int = 0,
    draws: int = 1000,
    device: str = "",
    allow_code: bool = False,
) -> Evaluation:
    """Recall of a run on a split, in both directions, per view and for their average.

    data: another dataset than the one it was trained on. features: a folder made by `avow
    features`. fold: average over folds of this many images. draws: bootstrap draws of the
    95 % intervals; 0: none. device: default: the best one.

        >>> evaluation = avow.evaluate("runs/animals", "test", draws=0)
        >>> [row.name for row in evaluation.rows]
        ['image view', 'text view', 'both views']
        >>> evaluation.best.recall.rsum
        152.5
    """
    plan = EvaluationPlan(
        split,
        data,
        None if features is None else Path(features),
        device=chosen_device(device),
        fold=fold,
        draws=draws,
        allow_code=allow_code,
    )
    return judge_run(Path(run), plan)
