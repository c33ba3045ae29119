"""`avow calibrate`: fit trust to one index, from queries whose right pictures are known."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from avow.cli._options import AllowCode, AsJson, IndexFolder, ModelOfIndex
from avow.cli._terminal import busy

if TYPE_CHECKING:
    from avow.retrieval.calibrate import Calibration, Measured
    from avow.retrieval.search import Retriever


Pairs = Annotated[
    Path | None,
    typer.Argument(help="A .csv or .jsonl file with a query and a right file per line."),
]
Forget = Annotated[
    bool,
    typer.Option("--forget", help="Go back to the calibration that came with the model."),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Use what was fitted even where it is worse."),
]
Show = Annotated[bool, typer.Option("--show", help="Only say what is calibrated already.")]


def calibrate(
    pairs: Pairs = None,
    index: IndexFolder = None,
    model: ModelOfIndex = None,
    show: Show = False,
    forget: Forget = False,
    force: Force = False,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Learn from PAIRS, and from what people said of answers, how far to trust this index.

    Half of the queries are held back, so that what is promised has been tried. Exits with 3
    where the trust that there is proves better, and stays.
    """
    with busy("Calibrating", quiet=as_json):
        from avow.retrieval.calibrate import FILE
        from avow.retrieval.calibrate import calibrate as fit
        from avow.retrieval.search import Retriever

        retriever = Retriever.open(index, model, allow_code=allow_code)
        if forget:
            retriever.library.detach(FILE)
        facts = _state(retriever) if show or forget else None
        calibration = None if facts is not None else fit(retriever, pairs, force=force)
    if facts is not None:
        typer.echo(json.dumps(facts) if as_json else _in_words(facts))
        return
    assert calibration is not None
    typer.echo(json.dumps(calibration.to_dict()) if as_json else _report(calibration))
    if not calibration.used:
        raise typer.Exit(3)


def _state(retriever: "Retriever") -> dict[str, Any]:
    """What text searches of this index are judged by."""
    from avow.retrieval.calibrate import FEWEST, FILE, RISKS
    from avow.retrieval.labelled_queries import read_known
    from avow.trust.policy import SHOWN

    policy = retriever.policy("text")
    if policy is not None:
        policy = policy.for_size(retriever.library.count(None, "image"))
    own = (retriever.model_folder / FILE).is_file()
    facts: dict[str, Any] = {
        "calibrated": None if policy is None else "index" if own else "model",
        "adjusted_by_ticks": policy is not None and policy.line is not None,
        "transferred_from": None if policy is None else policy.conditions.transferred or None,
        "known_from_feedback": len(read_known(retriever.library, None)),
        "needed": FEWEST,
    }
    if policy is not None:
        facts["usual_risks"] = policy.usual_risks
        facts["galleries"] = [policy.conditions.smallest, policy.conditions.largest]
        facts["answered"] = {
            kind: {
                str(risk): policy.promised(risk, SHOWN, asked=kind).coverage for risk in RISKS
            }
            for kind in policy.kinds
        }
    return facts


def _in_words(facts: dict[str, Any]) -> str:
    if facts["calibrated"] is None:
        first = "Text searches of this index are not calibrated."
    else:
        place = "for this index" if facts["calibrated"] == "index" else "with the model"
        if facts["adjusted_by_ticks"]:
            place = "with the model and adjusted by ticks"
        if facts["transferred_from"] and facts["calibrated"] == "model":
            place = f"by transfer from the {facts['transferred_from']} model"
        answered = ", ".join(
            f"{share:.0%} of {kind} at a risk of {float(risk):.0%}"
            for kind, shares in facts["answered"].items()
            for risk, share in shares.items()
        )
        small, large = facts["galleries"]
        first = (
            f"Text searches were calibrated {place}, for galleries of {small} to {large} "
            f"pictures. Answered: {answered}."
        )
    count, needed = facts["known_from_feedback"], facts["needed"]
    return f"{first}\nQueries known from feedback: {count}; a calibration needs {needed}."


def _report(calibration: "Calibration") -> str:
    where = f" -> {calibration.path}" if calibration.used else ""
    lines = [f"{calibration.queries} queries with known pictures{where}"]
    if calibration.lost:
        lost = ", ".join(calibration.lost[:3])
        lines.append(
            f"{len(calibration.lost)} files are not in the index and were left out: {lost}"
        )
    if calibration.passed_over:
        rows = "row" if calibration.passed_over == 1 else "rows"
        lines.append(
            f"{calibration.passed_over} {rows} of feedback held no usable query: left out"
        )
    if calibration.ticks is not None:
        lines = [f"{calibration.ticks.in_words()} -> {calibration.path}"]
    if calibration.before is not None:
        lines.append(_line("before", calibration.before))
    if calibration.after is not None:
        lines.append(_line("after", calibration.after))
    if not calibration.used:
        lines.append(
            "What was fitted tells these queries worse than the trust there is, which stays. "
            "More queries help; --force uses it anyway."
        )
    return "\n".join(lines)


def _line(when: str, measured: "Measured") -> str:
    shares = []
    for risk, share in measured.answered.items():
        wrong = measured.wrong[risk]
        of_those = "" if wrong is None else f" ({wrong:.0%} of them wrong)"
        shares.append(f"answers {share:.0%}{of_those} at a risk of {risk:.0%}")
    return f"{when:7} ECE {measured.ece:.3f}, Brier {measured.brier:.3f}; {'; '.join(shares)}"
