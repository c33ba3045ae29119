"""A trust study as one page to look at: what a run's trust is worth, and what shows it.

    study.json of one or more seeds --write_report--> index.html, and figures/ beside it

The page stands alone: style, pictures and photographs are inside, nothing is asked of a
network, and no script runs. Parts that were not measured are left out.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from avow.core.files import new_folder, write_text
from avow.reports import tables
from avow.reports.drawing import Drawing, save
from avow.reports.examples import Pictures, examples
from avow.reports.figures import FIRST_DRAWN, draw_all
from avow.reports.findings import findings, first_screen
from avow.reports.page import Html, Section, element, figures, folded, joined, page
from avow.reports.seeds import Seeds, plain, span
from avow.reports.words import CHANCES, DIRECTIONS, SEARCHES, percent, setting_of_u

PAGE = "index.html"
PICTURES = "figures"


def write_report(
    studies: Sequence[dict[str, Any]],
    folder: Path,
    pictures: Pictures | None = None,
) -> Path:
    """Write the page and its figures into `folder`; returns where the page is.

    studies: the content of study.json, one per seed of one recipe. pictures: where the
    photograph of an image id lies, or None where there is none.
    """
    study = Seeds.of(studies)
    drawings = draw_all(studies)
    folder.mkdir(parents=True, exist_ok=True)
    with new_folder(folder / PICTURES) as fresh:
        for drawing in drawings.values():
            save(drawing, fresh)
    sections = list(_sections(study, drawings, pictures))
    named = f"What the trust of {_name(study)} is worth"
    path = folder / PAGE
    write_text(path, page(named, _top(study, named), sections, _foot(study)))
    return path


def _sections(
    study: Seeds, drawings: dict[str, Drawing], pictures: Pictures | None
) -> Iterator[Section]:
    """Every section the study has something for, in order."""
    for make in (_calibration, _rejection, _measures, _promises, _absent, _corruption):
        yield from make(study, drawings)
    for make in (_doubts, _galleries, _relevance, _human):
        yield from make(study, drawings)
    shown = joined(examples(study, direction, pictures) for direction in DIRECTIONS)
    if shown:
        yield Section(
            "examples",
            "Examples",
            "Most and least trusted queries",
            "Both ends of the order of trust, each with its first answers and the "
            "probability stated for them. A tick marks what is right. "
            f"{_formed(study)}{_of_first(study)}",
            shown,
        )


# --- the first screen and the last ----------------------------------------------------


def _name(study: Seeds) -> str:
    about = study.at("about").first or {}
    return str(about.get("recipe") or about.get("run") or "this run")


def _top(study: Seeds, named: str) -> Html:
    return joined(
        [
            element("p", "Avow trust study", class_="kind"),
            element("h1", named),
            element("p", _facts(study), class_="facts"),
            first_screen(findings(study)),
        ]
    )


def _facts(study: Seeds) -> str:
    """Which data, how many seeds, how good the ranking itself is."""
    about = study.at("about").first or {}
    parts = []
    if "dataset" in about:
        split = f", {about['split']} split" if "split" in about else ""
        parts.append(f"{about['dataset']}{split}")
    counts = [f"{about[key]:,} {key}" for key in ("images", "texts") if key in about]
    if counts:
        parts.append(" and ".join(counts))
    for direction, search in SEARCHES.items():
        if recall := study.at("directions", direction, "recall", "r1").number:
            parts.append(f"R@1 {recall.text()} {search}")
    seeds = len(study.found)
    parts.append("one seed" if seeds == 1 else f"mean of {seeds} seeds, ± standard deviation")
    if "fitted_on" in about:
        parts.append(f"trust fitted on {about['fitted_on']}")
    return " · ".join(parts)


def _foot(study: Seeds) -> Html:
    about = study.at("about")
    told: dict[str, str] = {}
    for key in about.names:
        values = [place[key] for place in about.found if key in place]
        said = list(dict.fromkeys(_said(value) for value in values))
        told[key.replace("_", " ")] = ", ".join(said)
    pairs = [
        part
        for key, words in told.items()
        for part in (element("dt", key), element("dd", words))
    ]
    return joined(
        [
            element("p", f"The figures of this page lie beside it in {PICTURES}/."),
            folded("How this was measured", element("dl", *pairs)),
        ]
    )


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_said(count)} {name}" for name, count in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


# --- sections -------------------------------------------------------------------------


def _calibration(study: Seeds, drawings: dict[str, Drawing]) -> Iterator[Section]:
    if _has(study, "calibration"):
        yield Section(
            "calibration",
            "Calibration",
            "Do stated probabilities come true?",
            "Of all first answers stated to be right with 70 %, seven in ten should be. "
            "Points inside the band are as near to that as a perfect forecaster would be "
            "with as many queries.",
            joined([_drawn(drawings, "reliability", _title), tables.calibration(study)]),
        )


def _rejection(study: Seeds, drawings: dict[str, Drawing]) -> Iterator[Section]:
    if _has(study, "curves"):
        yield Section(
            "rejection",
            "Rejection",
            "What is gained by answering only what is trusted",
            "Queries are sorted by trust and the least trusted are not answered. The more a "
            "curve rises to the left, the better its measure knows what it does not know. "
            f"Curves begin at {percent(FIRST_DRAWN)}: fewer queries say too little.",
            joined(
                [
                    _drawn(drawings, "rejection-r1", _title),
                    folded("The same for R@10", _drawn(drawings, "rejection-r10", _title)),
                ]
            ),
        )


def _measures(study: Seeds, drawings: dict[str, Drawing]) -> Iterator[Section]:
    if _has(study, "measures"):
        yield Section(
            "measures",
            "All measures",
            "Every measure side by side",
            "All on the same queries and the same ranking. Calibrated trust is the "
            "combination that was fitted; the others are read off directly.",
            joined([tables.areas(study), tables.telling(study), *_notes(study)]),
        )


def _notes(study: Seeds) -> Iterator[Html]:
    """What the run could not be asked, and how passes were made; each sentence once."""
    told = dict.fromkeys(note for one in study.at("notes").found for note in one)
    yield from (element("p", f"{note}.") for note in told)


def _promises(study: Seeds, drawings: dict[str, Drawing]) -> Iterator[Section]:
    content = joined(
        [
            tables.promises(study) if _has(study, "guarantee") else Html(""),
            tables.sets(study) if _has(study, "sets") else Html(""),
            folded("With the threshold known in hindsight", tables.answered(study)),
        ]
    )
    if content:
        yield Section(
            "promises",
            "Promises",
            "What can be promised, and how much is then answered",
            "A promise that is kept by never answering is worth nothing, so the share that "
            "is answered stands beside it. A set grows until it holds a right item as often "
            "as wanted: short sets are good.",
            content,
        )


def _absent(study: Seeds, drawings: dict[str, Drawing]) -> Iterator[Section]:
    content = joined(
        [
            tables.absent(study) if _has(study, "absent") else Html(""),
            tables.shift(study),
        ]
    )
    if content:
        kept = study.at("directions", "text", "absent", "kept").number
        price = f" The threshold keeps {percent(kept)} of answerable queries." if kept else ""
        yield Section(
            "absent",
            "No answer",
            "Queries that cannot be answered",
            "What they ask for is not in the gallery, or they come from elsewhere; the right "
            f"thing to say is that nothing was found.{price}",
            content,
        )


def _corruption(study: Seeds, drawings: dict[str, Drawing]) -> Iterator[Section]:
    if _has(study, "corruption"):
        yield Section(
            "corruption",
            "Corruption",
            "What hidden words and regions do to u",
            "With part of the evidence hidden there is more to doubt, and u should move to "
            "the right.",
            joined(
                [
                    _drawn(drawings, "corruption", lambda side: _title_with_u(study, side)),
                    folded("The means in figures", tables.corruption(study)),
                ]
            ),
        )


def _doubts(study: Seeds, drawings: dict[str, Drawing]) -> Iterator[Section]:
    if _has(study, "scatter"):
        yield Section(
            "doubts",
            "Two doubts",
            "Two kinds of doubt",
            f"Under {_chances(study)}, how far the query's own vector moves (feature) and how "
            "far the probabilities of its answers do (posterior). The two need not agree: "
            f"what is familiar can still be hard to tell apart.{_of_first(study)}",
            _drawn(drawings, "scatter", _title),
        )


def _chances(study: Seeds) -> str:
    """What was left to chance, in words."""
    known = (study.at("directions", side, "scatter", "by").first for side in DIRECTIONS)
    said = dict.fromkeys(CHANCES.get(name, "dropout") for name in known if name)
    return " and ".join(said) or "dropout"


def _galleries(study: Seeds, drawings: dict[str, Drawing]) -> Iterator[Section]:
    if _has(study, "sizes"):
        yield Section(
            "galleries",
            "Gallery size",
            "Galleries of many sizes",
            "u = K/S depends on the number of candidates K, so no fixed limit on it means "
            "the same in two galleries. A calibrated probability should stay true in all.",
            joined(
                [
                    _drawn(drawings, "sizes", _title),
                    folded("The same in figures", tables.gallery_sizes(study)),
                ]
            ),
        )


def _relevance(study: Seeds, drawings: dict[str, Drawing]) -> Iterator[Section]:
    if study.at("relevant", "styles"):
        about = study.at("relevant", "about").first
        yield Section(
            "relevance",
            "Relevance",
            "Queries with many good answers",
            f"Over the {about['split']} photographs of {about['dataset']}. A name is true of "
            "many photographs, so the question is whether a hit is relevant, not whether it "
            "is the one annotated. What nobody wrote down counts as not relevant. Every "
            "style of query has a fit of its own.",
            tables.relevance(study),
        )


def _human(study: Seeds, drawings: dict[str, Drawing]) -> Iterator[Section]:
    found = study.at("human")
    if not found:
        return
    pairs, queries = found.at("pairs").number, found.at("queries").number
    counted = ""
    if pairs and queries:
        counted = f"{plain(pairs.mean, 0)} pairs of {plain(queries.mean, 0)} queries. "
    yield Section(
        "people",
        "People",
        "Does trust agree with people?",
        f"{counted}People judged whether a caption fits a photograph. A wrong answer may fit "
        "all the same: the annotation knows one match, people see others.",
        joined(
            [
                _fitting(found.at("wrong_but_fitting"), "text"),
                _fitting(found.at("wrong_but_fitting_image"), "image"),
                tables.human(study),
                tables.judged_hits(study),
            ]
        ),
    )


def _fitting(found: Seeds, direction: str) -> Html:
    """Whether an answer that only the annotation calls wrong is doubted less."""
    right = found.at("trust when people call it right").number
    wrong = found.at("when they call it wrong").number
    if not right or not wrong:
        return Html("")
    told = (
        f"First answers to {DIRECTIONS[direction]} that the annotation calls wrong: those "
        f"that people call right have a mean trust of {percent(right)}, the others "
        f"{percent(wrong)}"
    )
    if found.at("auroc"):
        middle, low, high = (number.mean for number in found.at("auroc").numbers())
        told += f" (AUROC {plain(middle, 3)}, interval {span(low, high)})"
    if found.at("n"):
        first, second = (plain(number.mean, 0) for number in found.at("n").numbers())
        told += f"; there are {first} and {second} of them"
    return element("p", f"{told}.")


# --- shared ---------------------------------------------------------------------------


def _has(study: Seeds, part: str) -> bool:
    return any(study.at("directions", direction, part) for direction in DIRECTIONS)


def _drawn(drawings: dict[str, Drawing], name: str, caption: Callable[[str], str]) -> Html:
    """The pictures called `name`, one per direction that has it."""
    return figures(
        [
            (drawings[f"{name}-{direction}"], caption(direction))
            for direction in DIRECTIONS
            if f"{name}-{direction}" in drawings
        ]
    )


def _title(direction: str) -> str:
    return f"{DIRECTIONS[direction].capitalize()} ({SEARCHES[direction]})"


def _title_with_u(study: Seeds, direction: str) -> str:
    setting = setting_of_u(study, direction)
    return f"{_title(direction)}; u with {setting}" if setting else _title(direction)


def _formed(study: Seeds) -> str:
    about = study.at("about").first or {}
    kind = about.get("evidence", about.get("kind"))
    if "tau" not in about or not kind:
        return ""
    return f"u is formed with {kind} evidence at τ = {about['tau']:g}."


def _of_first(study: Seeds) -> str:
    return " Shown is the first of the seeds." if len(study.found) > 1 else ""
