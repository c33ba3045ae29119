"""The tables of a report: every measure, what was promised, galleries, people's judgement."""

import re
from collections.abc import Sequence
from itertools import product

from avow.reports.findings import allowed_share
from avow.reports.page import Row, Table, strong
from avow.reports.seeds import NOTHING, Number, Seeds, best, plain, span, text, value
from avow.reports.words import (
    DIRECTIONS,
    EVENTS,
    KINDS,
    OURS,
    is_ours,
    ordered,
    percent,
    setting_of_u,
)

CUTS = {"r1": "R@1 ↑", "r5": "R@5 ↑", "r10": "R@10 ↑", "median_rank": "Med r ↓"}
_PAPER_ORDER = {"image": "Caption retrieval", "text": "Image retrieval"}
_TELLING = {
    "AUROC ↑": ("auroc", False),
    "95 % interval": ("interval", False),
    "AURC ↓": ("aurc", True),
    "excess ↓": ("excess_aurc", True),
    "nAUC ↑": ("nauc", False),
}
_GALLERY: dict[str, tuple[str, int, int]] = {
    "distractors": ("distractors", 0, 1),
    "queries": ("queries", 0, 1),
    "R@1": ("r1", 1, 1),
    "ECE ↓": ("ece", 1, 100),
    "floor": ("floor", 1, 100),
    "AUROC ↑": ("auroc", 3, 1),
    "mean u": ("mean_u", 3, 1),
    "trust": ("mean_trust", 3, 1),
}
"""Heads, and what stands under them: key, digits, scale."""


def areas(study: Seeds) -> Table:
    """Area under the rejection curve, as Table 2 of Hama et al. lays it out."""
    sides = [side for side in _PAPER_ORDER if study.at("directions", side, "measures")]
    names = _all_measures(study, sides)
    columns, chance = [], []
    for side, cut in product(sides, CUTS):
        part = study.at("directions", side)
        found = [part.at("measures", name, "area", cut).number for name in names]
        columns.append(_column(found, lowest=cut == "median_rank"))
        chance.append(text(part.at("chance", cut).number))
    return Table(
        "Area under the rejection curve. Recalls in per cent, the best of each column in "
        "bold; chance level is what rejecting at random gives.",
        ["measure", *list(CUTS.values()) * len(sides)],
        [Row("chance level", chance), *_by_measure(names, columns)],
        [(_PAPER_ORDER[side], len(CUTS)) for side in sides],
    )


def telling(study: Seeds) -> Table:
    """How well each measure tells right from wrong first answers."""
    rows: list[Row | str] = []
    for side in _measured(study, "measures"):
        measures = study.at("directions", side, "measures")
        names = ordered(measures)
        columns = []
        for key, lowest in _TELLING.values():
            entries = [measures.at(name, key) for name in names]
            if key == "interval":
                columns.append([_interval(entry) for entry in entries])
            else:
                columns.append(_column([entry.number for entry in entries], 3, lowest=lowest))
        rows += [DIRECTIONS[side].capitalize(), *_by_measure(names, columns)]
    return Table(
        "Right first answers told from wrong ones. AUROC with the interval of drawing "
        "photographs again, area under the risk-coverage curve and its excess over an "
        "oracle, and the normalised area (0 is chance, 1 an oracle).",
        ["measure", *_TELLING],
        rows,
    )


_ERRORS = ("measure", "ECE ↓", "floor", "debiased ↓")
"""Columns of `_errors_and_scores` before its scores."""


def _errors_and_scores(part: Seeds, *scores: str) -> list[str]:
    """Three errors of calibration in percentage points, then scores as they are."""
    points = [text(part.at(key).number, 1, 100) for key in ("ece", "floor", "debiased")]
    return [*points, *(text(part.at(key).number, 3) for key in scores)]


def calibration(study: Seeds) -> Table:
    """Errors of stated probabilities, ours and those of single measures."""
    rows: list[Row | str] = []
    for side in _measured(study, "calibration"):
        part = study.at("directions", side, "calibration")
        baselines = part.at("baselines")
        rows.append(DIRECTIONS[side].capitalize())
        for name in [OURS, *baselines.names]:
            entry = part if name == OURS else baselines.at(name)
            cells = _errors_and_scores(entry, "brier", "brier_skill")
            rows.append(Row(name, cells, name == OURS))
    about = (
        "Calibration. ECE, its floor and its debiased value in percentage points; a measure "
        "that is no probability was made one by a logistic curve of its own."
    )
    return Table(about, [*_ERRORS, "Brier ↓", "skill ↑"], rows)


def answered(study: Seeds) -> Table | None:
    """What share each measure could answer at a risk, were the best threshold known."""
    sides = _measured(study, "coverage")
    if not sides:
        return None
    names = _all_measures(study, sides, "coverage")
    keys = study.at("directions", sides[0], "coverage", names[0]).names
    columns = []
    for side, key in product(sides, keys):
        part = study.at("directions", side, "coverage")
        found = [part.at(name, key).number for name in names]
        columns.append(_column(found, 1, 100, lowest=key.startswith("risk")))
    return Table(
        "Answered in hindsight. Per cent of the queries at a risk, and per cent wrong at a "
        "coverage, with the threshold that suits the test queries best.",
        ["measure", *[re.sub(r"(?<=\d)%", " %", key) for key in keys] * len(sides)],
        _by_measure(names, columns),
        [(DIRECTIONS[side], len(keys)) for side in sides],
    )


def promises(study: Seeds) -> Table:
    """What was promised, how often it was broken, and how much was answered."""
    rows: list[Row | str] = []
    for side, event in product(_measured(study, "guarantee"), EVENTS):
        made = study.at("directions", side, "guarantee", event).rows("alpha")
        if made:
            rows.append(f"{DIRECTIONS[side].capitalize()}: {EVENTS[event]}")
        rows += [_promise(row) for row in made]
    return Table(
        "Promises and what became of them. Calibrated on one half of the queries and "
        "counted on the other, many times over; the best baseline is the one that answers "
        "most of those that kept the promise. Surely broken is what the chance of a finite "
        "half does not explain.",
        ["promise", "broken, %", "surely, %", "allowed", "answered, % ↑", "best baseline, %"],
        rows,
    )


def _promise(row: Seeds) -> Row:
    alpha, exceeded = row.at("alpha").number, row.at("exceeded").number
    broken = text(exceeded, 1, 100)
    if value(exceeded) > allowed_share(row):
        broken = strong(f"too often: {broken}")
    surely = text(row.at("surely").number, 1, 100)
    allowed = plain(100 * allowed_share(row), 1)
    coverage = strong(text(row.at("coverage").number, 1, 100))
    cells = [broken, surely, allowed, coverage, _best_baseline(row)]
    return Row(f"at most {percent(alpha)} wrong", cells)


def _best_baseline(row: Seeds) -> str:
    baselines, allowed = row.at("baselines"), allowed_share(row)
    kept = [
        name
        for name in baselines.names
        if not value(baselines.at(name, "exceeded").number) > allowed
    ]
    place = best(baselines.at(name, "coverage").number for name in kept)
    if place is None:
        return "none kept it" if baselines else NOTHING
    coverage = baselines.at(kept[place], "coverage").number
    if value(coverage) == 0:
        return "none answers"
    return f"{kept[place]} {text(coverage, 1, 100)}"


def sets(study: Seeds) -> Table:
    """How long result sets are that hold a right item as often as promised."""
    rows: list[Row | str] = []
    for side in _measured(study, "sets"):
        rows.append(DIRECTIONS[side].capitalize())
        for row in study.at("directions", side, "sets").rows("alpha"):
            baselines = row.at("baselines")
            sizes = {name: baselines.at(name, "size").number for name in baselines.names}
            place = best(sizes.values(), lowest=True)
            name = None if place is None else baselines.names[place]
            other = f"{name} {text(sizes[name])}" if name else NOTHING
            held = text(row.at("held").number, 1, 100)
            size = strong(text(row.at("size").number))
            wanted = percent(1 - value(row.at("alpha").number))
            rows.append(Row(f"right item in {wanted}", [held, size, other]))
    return Table(
        "Result sets. Per cent of the sets that hold a right item, and how many items they "
        "have on average; beside it the shortest baseline.",
        ["promise", "held, %", "mean size ↓", "shortest baseline"],
        rows,
    )


def corruption(study: Seeds) -> Table:
    rows: list[Row | str] = []
    for side in _measured(study, "corruption"):
        kinds = study.at("directions", side, "corruption", "kinds")
        setting = setting_of_u(study, side)
        for kind in [kind for kind in KINDS if kinds.at(kind)]:
            rows.append(f"{DIRECTIONS[side].capitalize()}, {KINDS[kind]} (u: {setting})")
            rows += [_hidden(row) for row in kinds.at(kind).rows("ratio")]
    heads = ["hidden", "R@1", "mean u", "mean trust"]
    return Table("Means under corruption.", heads, rows)


def _hidden(row: Seeds) -> Row:
    means = [text(row.at(measure, "mean").number, 3) for measure in ("u", "trust")]
    return Row(percent(row.at("ratio").number), [text(row.at("r1").number), *means])


def gallery_sizes(study: Seeds) -> Table:
    """The same as the picture in figures; columns that no study has are left out."""
    sides = {
        side: study.at("directions", side, "sizes").rows("candidates", "distractors")
        for side in _measured(study, "sizes")
    }
    every = [row for rows in sides.values() for row in rows]
    columns = {
        head: how for head, how in _GALLERY.items() if any(row.at(how[0]) for row in every)
    }
    rows: list[Row | str] = []
    for side, galleries in sides.items():
        rows.append(DIRECTIONS[side].capitalize())
        for row in galleries:
            cells = [text(row.at(k).number, digits, x) for k, digits, x in columns.values()]
            rows.append(Row(text(row.at("candidates").number, 0), cells))
    return Table(
        "Galleries of many sizes. ECE and floor in percentage points; trust is the mean of "
        "the calibrated one.",
        ["K", *columns],
        rows,
    )


def absent(study: Seeds) -> Table:
    """Queries without an answer: how many are refused, how well they are told apart."""
    sides = _measured(study, "absent")
    names = _all_measures(study, sides, "absent", "refused")
    columns = []
    for side in sides:
        part = study.at("directions", side, "absent")
        for key, digits, scale in (("refused", 1, 100), ("auroc", 3, 1)):
            columns.append(_column([part.at(key, n).number for n in names], digits, scale))
    return Table(
        "Queries whose answer is not in the gallery. Per cent refused, and AUROC against "
        "answerable ones.",
        ["measure", *["refused, % ↑", "AUROC ↑"] * len(sides)],
        _by_measure(names, columns),
        [(DIRECTIONS[side], 2) for side in sides],
    )


def shift(study: Seeds) -> list[Table]:
    parts = []
    for side in _measured(study, "shift"):
        measured = study.at("directions", side, "shift")
        names = sorted(measured.names, key=lambda name: not is_ours(name))
        others = dict.fromkeys(other for name in names for other in measured.at(name).names)
        columns = [
            _column([measured.at(n, other).number for n in names], 3) for other in others
        ]
        caption = (
            f"Queries from elsewhere, {DIRECTIONS[side]}. AUROC of telling them from the "
            "study's own."
        )
        parts.append(Table(caption, ["measure", *others], _by_measure(names, columns)))
    return parts


def human(study: Seeds) -> Table | None:
    """Agreement with people's judgement, each figure with its interval."""
    found = study.at("human")
    keys = [("kendall_tau_c", "Kendall's τ-c ↑"), ("auroc", "AUROC ↑")]
    keys = [(key, head) for key, head in keys if found.at(key)]
    names = list(dict.fromkeys(name for key, _ in keys for name in found.at(key).names))
    if not names:
        return None
    names.sort(key=lambda name: not is_ours(name))
    rows = []
    for name in names:
        cells: list[str] = []
        for key, _ in keys:
            entry = found.at(key, name)
            cells += _with_interval(entry)
        rows.append(Row(name, cells, is_ours(name)))
    heads = [part for _, head in keys for part in (head, "95 % interval")]
    return Table("Agreement with people.", ["measure", *heads], rows)


def relevance(study: Seeds) -> Table:
    """P(relevant) per style of query, ours and that of the similarity alone."""
    rows: list[Row | str] = []
    styles = study.at("relevant", "styles")
    for style in styles.names:
        one = styles.at(style)
        if not one.at("ece"):
            rows.append(f"{style.capitalize()}: {one.at('left_out').first}")
            continue
        counted = f"{text(one.at('queries').number, 0)} queries"
        share = percent(one.at("relevant").number)
        rows.append(f"{style.capitalize()} ({counted}, {share} of ten hits relevant)")
        for name, part in (("P(relevant)", one), ("similarity alone", one.at("similarity"))):
            cells = _errors_and_scores(part, "auroc", "brier_skill")
            rows.append(Row(name, cells, name == "P(relevant)"))
    about = (
        "Relevant hits. Half of the queries are stated by a fit on the other half, and the "
        "other way round; ECE, its floor and its debiased value in percentage points."
    )
    return Table(about, [*_ERRORS, "AUROC ↑", "skill ↑"], rows)


def judged_hits(study: Seeds) -> Table | None:
    """What was stated of hits that people judged, and what they said."""
    found = study.at("human", "hits")
    if not found:
        return None
    rows: list[Row | str] = []
    for rule in ("strict", "lenient"):
        called = found.at(rule, "called").numbers()[0]
        rows.append(f"{rule.capitalize()}: people call {percent(called)} of the hits right")
        measures = found.at(rule, "measures")
        for name in measures.names:
            one = measures.at(name)
            mean = text(one.at("stated").number, 1, 100)
            error = [part.text(1, 100) for part in one.at("ece").numbers()[:1]]
            cells = [mean, *error, *_with_interval(one.at("auroc"))]
            rows.append(Row(name, cells, name == "P(relevant)"))
    pairs = text(found.at("pairs").number, 0)
    return Table(
        f"Hits that people judged ({pairs}), each standing for all hits of its rank. Mean "
        "stated probability and calibration error in percentage points.",
        ["measure", "stated", "ECE ↓", "AUROC ↑", "95 % interval"],
        rows,
    )


# --- shared ---------------------------------------------------------------------------


def _measured(study: Seeds, part: str) -> list[str]:
    """The directions that have `part`."""
    return [side for side in DIRECTIONS if study.at("directions", side, part)]


def _all_measures(study: Seeds, sides: Sequence[str], *path: str) -> list[str]:
    """Every measure of every direction: ours first, then from good to bad."""
    where = path or ("measures",)
    listed: dict[str, None] = {}
    for side in sides:
        known = study.at("directions", side, *where).names
        ranked = ordered(study.at("directions", side, "measures"))
        listed |= dict.fromkeys([name for name in ranked if name in known])
        listed |= dict.fromkeys(known)
    return sorted(listed, key=lambda name: not is_ours(name))


def _column(
    found: Sequence[Number | None], digits: int = 1, scale: int = 1, lowest: bool = False
) -> list[str]:
    """Numbers as they are printed, the best of them in bold."""
    shown = [text(number, digits, scale) for number in found]
    leader = best(found, lowest)
    return [strong(one) if place == leader else one for place, one in enumerate(shown)]


def _by_measure(names: Sequence[str], columns: Sequence[Sequence[str]]) -> list[Row]:
    return [
        Row(name, [column[place] for column in columns], is_ours(name))
        for place, name in enumerate(names)
    ]


def _interval(entry: Seeds) -> str:
    if not entry:
        return NOTHING
    low, high = entry.lines().mean(0)
    return span(low, high)


def _with_interval(entry: Seeds) -> list[str]:
    """A figure given as value, low and high."""
    if not entry:
        return [NOTHING, NOTHING]
    middle, low, high = entry.numbers()
    return [middle.text(3), span(low.mean, high.mean)]
