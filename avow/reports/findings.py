"""What a run's trust is worth, in a few sentences made from the study's own figures.

A sentence claims no more than its figures do: a lead that lies inside the interval is
called none, a calibration error is read beside its floor, a promise beside how often it
was broken.
"""

import math
from dataclasses import dataclass
from statistics import fmean

from markupsafe import Markup

from avow.reports.page import strong
from avow.reports.seeds import Number, Seeds, plain, value
from avow.reports.words import (
    DIRECTIONS,
    OURS,
    PRESENT,
    both,
    each,
    is_ours,
    percent,
    rivals,
)

RISK = 0.1
"""What the promise on the first screen allows to be wrong, where it was made."""
EVENTS = {
    "first answer": "of the first answers are wrong",
    "one of ten": "of the lists of ten hold nothing right",
}


@dataclass(frozen=True)
class Finding:
    """One sentence or two, and the few words above them."""

    title: str
    sentence: Markup


def findings(study: Seeds) -> list[Finding]:
    """What can be said of the study; parts it lacks say nothing."""
    parts = {
        direction: study.at("directions", direction)
        for direction in DIRECTIONS
        if study.at("directions", direction)
    }
    told = [_telling(parts), _coming_true(parts), _promising(parts), _refusing(parts)]
    return [finding for finding in told if finding is not None]


# --- right from wrong -----------------------------------------------------------------


def _telling(parts: dict[str, Seeds]) -> Finding | None:
    ours = _numbers(parts, "measures", OURS, "auroc")
    if not ours:
        return None
    known = _of_measures(parts, ("measures",), ("auroc",))
    times = each(_strong(ours), " of the time", "with")
    sentence = Markup(
        "Calibrated trust is higher for a right first answer than for a wrong one {}{}. {}"
    ).format(times, _beside(known, OURS), _no_lead(parts, known))
    return Finding("Right from wrong", sentence.strip())


def _no_lead(parts: dict[str, Seeds], known: dict[str, dict[str, Number]]) -> str:
    """Where another measure is as good, as far as the study can tell."""
    near = {
        f"{name} with {DIRECTIONS[direction]}"
        for name, numbers in known.items()
        for direction, number in numbers.items()
        if not is_ours(name) and not _is_ahead(parts[direction], name, number)
    }
    if not near:
        return ""
    listed = sorted(near)
    some = f"{' or '.join(listed[:2])}{' among others' if len(listed) > 2 else ''}"
    return f"It has no clear lead over {some}."


def _is_ahead(part: Seeds, name: str, other: Number) -> bool:
    """By the interval of the difference where it is known, else by that of ours."""
    if low := part.at("ahead", name, "low").number:
        return low.mean > 0
    interval = part.at("measures", OURS, "interval")
    if interval:
        return other.mean < float(interval.lines().mean(0)[0])
    return other.mean < value(part.at("measures", OURS, "auroc").number)


# --- what is stated -------------------------------------------------------------------


def _coming_true(parts: dict[str, Seeds]) -> Finding | None:
    errors = _numbers(parts, "calibration", "ece")
    floors = _numbers(parts, "calibration", "floor")
    known = [direction for direction in errors if direction in floors]
    if not known:
        return None
    true = [name for name in known if errors[name].mean <= floors[name].mean]
    off = {name: strong(plain(100 * errors[name].mean, 1)) for name in known}
    chance = both(plain(100 * floors[name].mean, 1) for name in known)
    if len(true) == len(known):
        opening = "Stated probabilities come true, as far as this many queries can tell"
    elif not true:
        opening = "Stated probabilities are further off than chance explains"
    else:
        rest = next(name for name in known if name not in true)
        opening = (
            f"Stated probabilities come true for {DIRECTIONS[true[0]]} and are off for "
            f"{DIRECTIONS[rest]}"
        )
    sentence = Markup(
        "{}: the mean gap is {}, where a perfect forecaster would mostly stay below {}."
    ).format(opening, each(off, " percentage points", "for"), chance)
    return Finding("Stated probabilities", sentence)


# --- what can be promised -------------------------------------------------------------


def _promising(parts: dict[str, Seeds]) -> Finding | None:
    told = []
    for event, wrong in EVENTS.items():
        rows = _promises(parts, event)
        if answered := _numbers(rows, "coverage"):
            sure = "" if told else _confidence(rows)
            told.append(_promise(rows, answered, f"{wrong}{sure}"))
    return Finding("What can be promised", Markup(" ").join(told)) if told else None


def _promise(rows: dict[str, Seeds], answered: dict[str, Number], wrong: str) -> str:
    alpha = next(iter(rows.values())).at("alpha").number
    limit = f"at most {percent(alpha)} {wrong}"
    if not any(number.mean > 0 for number in answered.values()):
        return f"No query can be answered with the promise that {limit}."
    made = each(_strong(answered))
    return Markup("Answering {}, {}. {}").format(made, limit, _broken(rows)).strip()


def _confidence(rows: dict[str, Seeds]) -> str:
    delta = next(iter(rows.values())).at("delta").number
    return f", with {percent(1 - delta.mean)} confidence" if delta else ""


def _promises(parts: dict[str, Seeds], event: str) -> dict[str, Seeds]:
    """The promise at 10 % risk, or the strictest that was made."""
    found = {}
    for direction, part in parts.items():
        rows = part.at("guarantee", event).rows("alpha")
        near = [row for row in rows if math.isclose(row.first["alpha"], RISK)]
        if rows:
            strictest = min(rows, key=lambda row: row.first["alpha"])
            found[direction] = near[0] if near else strictest
    alphas = {row.first["alpha"] for row in found.values()}
    # one sentence has room for one risk
    return {k: row for k, row in found.items() if row.first["alpha"] == min(alphas)}


def _broken(rows: dict[str, Seeds]) -> str:
    """Promises that were broken more often than they may be."""
    told = []
    for direction, row in rows.items():
        exceeded, allowed = value(row.at("exceeded").number), allowed_share(row)
        if exceeded > allowed:
            told.append(
                f"The promise was broken in {percent(exceeded)} of the trials for "
                f"{DIRECTIONS[direction]}, where {percent(allowed)} are allowed."
            )
    return " ".join(told)


def allowed_share(row: Seeds) -> float:
    """How often a promise may be broken: as the study says, or its delta."""
    return value(row.at("allowed").number or row.at("delta").number)


# --- what is refused ------------------------------------------------------------------


def _refusing(parts: dict[str, Seeds]) -> Finding | None:
    known = _of_measures(parts, ("absent", "refused"))
    name = PRESENT if PRESENT in known else OURS
    if name not in known:
        return None
    kept = _numbers(parts, "absent", "kept")
    price = (
        f" while {percent(next(iter(kept.values())))} of the right answers are kept"
        if kept
        else ""
    )
    sentence = Markup(
        "Of queries whose answer is not in the gallery, {} are refused{}{}."
    ).format(each(_strong(known[name])), price, _beside(known, name))
    return Finding("No answer in the gallery", sentence)


# --- shared ---------------------------------------------------------------------------


def _numbers(parts: dict[str, Seeds], *path: str) -> dict[str, Number]:
    found = {direction: part.at(*path).number for direction, part in parts.items()}
    return {direction: number for direction, number in found.items() if number}


def _of_measures(
    parts: dict[str, Seeds], within: tuple[str, ...], figure: tuple[str, ...] = ()
) -> dict[str, dict[str, Number]]:
    """A figure of every measure found `within` a direction, per direction."""
    names = dict.fromkeys(name for part in parts.values() for name in part.at(*within).names)
    return {name: _numbers(parts, *within, name, *figure) for name in names}


def _beside(known: dict[str, dict[str, Number]], ours: str) -> str:
    """The same of u, of the softmax, and of the best other measure."""
    shown = rivals(known)
    others = {name: numbers for name, numbers in known.items() if not is_ours(name)}
    if others:
        best = max(others, key=lambda name: _mean(others[name]))
        if best not in shown.values():
            shown[f"the best of the others ({best})"] = best
    told = [
        f"{said} {both(percent(number) for number in known[name].values())}"
        for said, name in shown.items()
        if name != ours and known[name]
    ]
    return f"; for comparison, {', '.join(told)}" if told else ""


def _mean(numbers: dict[str, Number]) -> float:
    return fmean(number.mean for number in numbers.values()) if numbers else -math.inf


def _strong(numbers: dict[str, Number]) -> dict[str, str]:
    return {name: strong(percent(number)) for name, number in numbers.items()}
