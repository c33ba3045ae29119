"""The most suspect pairs as a page to look at and tick; the ticks are saved as a file.

The page stands alone: style, script and photographs are inside, and nothing is asked of a
network.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from avow.audit.judge import Finding
from avow.core.files import write_text
from avow.reports.examples import Pictures, photograph
from avow.reports.page import Html, Section, element, joined, page
from avow.reports.words import percent

PAGE = "index.html"
_HERE = Path(__file__)
CHOICES = {"": "not decided", "right": "right", "wrong": "wrong: leave out"}


def write_page(
    findings: Sequence[Finding], about: dict[str, Any], folder: Path, pictures: Pictures | None
) -> Path:
    """Write the page into `folder`; returns where it is."""
    named = f"Pairs of {about['dataset']} that are probably wrong"
    style = element("style", Html(_HERE.with_name("audit.css").read_text("utf-8")))
    script = element("script", Html(_HERE.with_name("audit.js").read_text("utf-8")))
    button = element("button", "Save decisions.csv", id="save", type="button")
    count = element("span", "", id="decided", aria_live="polite")
    cards = [_card(finding, pictures) for finding in findings]
    section = Section(
        "suspects",
        "Suspects",
        f"The {len(cards)} most suspect pairs",
        "Look at each, decide, and save. Then `avow audit DATASET --apply decisions.csv --out "
        "FOLDER` writes a new dataset without what you found wrong; this one stays as it is.",
        joined(
            [
                element("ol", *cards, class_="suspects"),
                element("p", button, Html(" "), count, class_="deciding"),
            ]
        ),
    )
    top = joined(
        [
            element("p", "Avow audit", class_="kind"),
            element("h1", named),
            element("p", _facts(about), class_="facts"),
        ]
    )
    path = folder / PAGE
    text = page(named, top, [section], joined([style, script]))
    write_text(path, text.replace("<main>", f'<main data-audit="{about["fingerprint"]}">'))
    return path


def _facts(about: dict[str, Any]) -> str:
    parts = [
        f"{about['dataset']}, {about['split']} split",
        f"{about['pairs']:,} pairs of {about['images']:,} images",
        f"estimated share of wrong pairs {percent(about['share'])}",
        about["judged_by"],
    ]
    if about["in_sample"]:
        parts.append(
            f"the model has learnt from {about['in_sample']:,} of these pairs, and may have "
            "learnt wrong ones"
        )
    return " · ".join(parts)


def _card(finding: Finding, pictures: Pictures | None) -> Html:
    given = element(
        "div",
        photograph(finding.image, "Photograph", "", pictures),
        element("blockquote", finding.caption),
        class_="side",
    )
    better = []
    if finding.better_image:
        better.append(photograph(finding.better_image, "Better photograph", "", pictures))
        better.append(element("p", f"suits the caption better: {finding.better_image}"))
    if finding.better_caption:
        better.append(element("blockquote", finding.better_caption))
        better.append(element("p", "suits the photograph better"))
    told = element("p", element("strong", f"wrong with {percent(finding.probability)}"))
    return element(
        "li",
        element("div", given, element("div", *better, class_="side"), class_="sides"),
        told,
        element("p", f"{finding.image}: {finding.why}", class_="said"),
        _choices(finding),
        class_="suspect",
        data_split=finding.split,
        data_pair=str(finding.pair),
        data_image=finding.image,
        data_caption=finding.caption,
        data_better=finding.better_image,
    )


def _choices(finding: Finding) -> Html:
    name = f"{finding.split}-{finding.pair}"
    choices = dict(CHOICES)
    if finding.better_image:
        choices["move"] = "wrong: give the caption to the better photograph"
    boxes = []
    for value, words in choices.items():
        given = {"type": "radio", "name": name, "value": value}
        checked = {} if value else {"checked": "checked"}
        box = element("input", **given, **checked).removesuffix("</input>")
        boxes.append(element("label", Html(box), f" {words}"))
    return element("fieldset", element("legend", f"Decide about {finding.image}"), *boxes)
