"""A trust study as one page to look at: what a run's trust is worth, and what shows it.

    study.json of one or more seeds --write_report--> index.html, and figures/ beside it

The page stands alone: style, pictures and photographs are inside, nothing is asked of a
network, and no script runs. Parts that were not measured are left out. What is said around
the figures and tables stands in `templates/study.html`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from avow.core.files import new_folder, write_text
from avow.reports import tables
from avow.reports.drawing import Drawing, save
from avow.reports.figures import FIRST_DRAWN, draw_all
from avow.reports.findings import findings
from avow.reports.page import render
from avow.reports.seeds import Seeds, plain, span
from avow.reports.thumbnails import Pictures, embedded
from avow.reports.words import CHANCES, DIRECTIONS, SEARCHES, percent, setting_of_u

PAGE = "index.html"
PICTURES = "figures"
TABLES = (
    *(tables.calibration, tables.areas, tables.telling, tables.promises, tables.sets),
    *(tables.answered, tables.absent, tables.shift, tables.corruption, tables.gallery_sizes),
    *(tables.relevance, tables.human, tables.judged_hits),
)


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
    text = render(
        "study.html",
        title=f"What the trust of {_name(study)} is worth",
        facts=list(_facts(study)),
        findings=findings(study),
        tables={make.__name__: make(study) for make in TABLES},
        figures=_captioned(study, drawings),
        examples=list(_examples(study)),
        embedded=partial(embedded, pictures=pictures),
        measured=_measured(study),
        folder_of_figures=PICTURES,
        **_within_sentences(study),
    )
    write_text(folder / PAGE, text)
    return folder / PAGE


def _name(study: Seeds) -> str:
    about = study.at("about").first or {}
    return str(about.get("recipe") or about.get("run") or "this run")


def _facts(study: Seeds) -> Iterator[str]:
    """Which data, how many seeds, how good the ranking itself is."""
    about = study.at("about").first or {}
    if "dataset" in about:
        split = f", {about['split']} split" if "split" in about else ""
        yield f"{about['dataset']}{split}"
    counts = [f"{about[key]:,} {key}" for key in ("images", "texts") if key in about]
    if counts:
        yield " and ".join(counts)
    for direction, search in SEARCHES.items():
        if recall := study.at("directions", direction, "recall", "r1").number:
            yield f"R@1 {recall.text()} {search}"
    seeds = len(study.found)
    yield "one seed" if seeds == 1 else f"mean of {seeds} seeds, ± standard deviation"
    if "fitted_on" in about:
        yield f"trust fitted on {about['fitted_on']}"


def _captioned(
    study: Seeds, drawings: dict[str, Drawing]
) -> dict[str, list[tuple[Drawing, str]]]:
    """The drawings of every kind, text queries first; a kind that was not drawn has none."""
    found = defaultdict(list)
    for name, drawing in drawings.items():
        kind, _, direction = name.rpartition("-")
        caption = f"{DIRECTIONS[direction].capitalize()} ({SEARCHES[direction]})"
        setting = setting_of_u(study, direction) if kind == "corruption" else ""
        found[kind].append((drawing, f"{caption}; u with {setting}" if setting else caption))
    return found


def _examples(study: Seeds) -> Iterator[dict[str, Any]]:
    """Both ends of the order of trust, as the first seed has it."""
    for direction in DIRECTIONS:
        part = study.at("directions", direction)
        extremes, candidates = part.at("extremes").first or {}, part.at("candidates").number
        for key, title in (("most", "Most trusted"), ("least", "Least trusted")):
            if queries := extremes.get(key):
                shown = {"title": title, "direction": direction, "queries": queries}
                yield {**shown, "candidates": candidates}


def _measured(study: Seeds) -> dict[str, str]:
    """How it was measured: what the studies say about themselves, in words."""
    about = study.at("about")
    told: dict[str, str] = {}
    for key in about.names:
        values = [place[key] for place in about.found if key in place]
        said = list(dict.fromkeys(_said(value) for value in values))
        told[key.replace("_", " ")] = ", ".join(said)
    return told


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_said(count)} {name}" for name, count in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


# --- values within the sentences of the page ------------------------------------------


def _within_sentences(study: Seeds) -> dict[str, Any]:
    human = study.at("human")
    pairs, queries = human.at("pairs").number, human.at("queries").number
    told = (
        _fitting(human.at("wrong_but_fitting"), "text"),
        _fitting(human.at("wrong_but_fitting_image"), "image"),
    )
    return {
        "first_drawn": FIRST_DRAWN,
        "notes": dict.fromkeys(note for one in study.at("notes").found for note in one),
        "kept": study.at("directions", "text", "absent", "kept").number,
        "chances": _chances(study),
        "relevance_of": study.at("relevant", "about").first,
        "judged": (pairs, queries) if pairs and queries else None,
        "fitting": [sentence for sentence in told if sentence],
        "formed": _formed(study),
        "of_first": " Shown is the first of the seeds." if len(study.found) > 1 else "",
    }


def _chances(study: Seeds) -> str:
    """What was left to chance, in words."""
    known = (study.at("directions", side, "scatter", "by").first for side in DIRECTIONS)
    said = dict.fromkeys(CHANCES.get(name, "dropout") for name in known if name)
    return " and ".join(said) or "dropout"


def _fitting(found: Seeds, direction: str) -> str:
    """Whether an answer that only the annotation calls wrong is doubted less."""
    right = found.at("trust when people call it right").number
    wrong = found.at("when they call it wrong").number
    if not right or not wrong:
        return ""
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
    return f"{told}."


def _formed(study: Seeds) -> str:
    about = study.at("about").first or {}
    kind = about.get("evidence", about.get("kind"))
    if "tau" not in about or not kind:
        return ""
    return f"u is formed with {kind} evidence at τ = {about['tau']:g}."
