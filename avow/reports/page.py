"""The elements a report page is made of: sections, tables, figures, and the page itself.

Text is escaped wherever it enters; what is already HTML says so by its type.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from avow.reports.drawing import Drawing

STYLE = Path(__file__).with_name("report.css")


class Html(str):
    """Text that is HTML already."""


def safe(text: str) -> Html:
    return text if isinstance(text, Html) else Html(escape(text, quote=True))


def joined(parts: Iterable[str]) -> Html:
    return Html("\n".join(safe(part) for part in parts if part))


def element(tag: str, *content: str, **attributes: str) -> Html:
    """One element; `class_` stands for class, and text inside is escaped."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value, quote=True)}"'
        for key, value in attributes.items()
    )
    return Html(f"<{tag}{given}>{''.join(safe(part) for part in content)}</{tag}>")


def strong(text: str) -> Html:
    return element("strong", text)


@dataclass(frozen=True)
class Row:
    """A row of a table: its name, its cells, and whether it is ours."""

    name: str
    cells: Sequence[str]
    ours: bool = False


def table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence["Row | str"],
    groups: Sequence[tuple[str, int]] = (),
) -> Html:
    """A table that scrolls inside itself; `heads` begins with that of the names.

    rows: plain text stands above the rows that follow it, as their common name.
    groups: names of neighbouring columns, and how many each has, after the first.
    """
    lines = []
    if groups:
        over = [element("th", name, scope="colgroup", colspan=str(n)) for name, n in groups]
        lines.append(element("tr", element("td"), *over))
    lines.append(element("tr", *[element("th", head, scope="col") for head in heads]))
    bodies: list[list[Html]] = [[]]
    for row in rows:
        if isinstance(row, str):
            name = element("th", row, scope="rowgroup", colspan=str(len(heads)))
            bodies.append([element("tr", name, class_="band")])
        else:
            bodies[-1].append(_row(row))
    name = re.sub(r"\W+", "-", f"table {caption.partition('.')[0].lower()}")
    whole = element(
        "table",
        element("thead", *lines),
        *[element("tbody", *body) for body in bodies if body],
        aria_labelledby=name,
    )
    # what scrolls must be reachable with the keyboard, and then it needs a name; the
    # caption stands outside so that it does not scroll away
    scrolling = {"class_": "scroll", "tabindex": "0", "role": "region"}
    return joined(
        [
            element("p", caption, class_="caption", id=name),
            element("div", whole, aria_labelledby=name, **scrolling),
        ]
    )


def _row(row: Row) -> Html:
    # a long name breaks where its parts meet, not in the middle of a word
    name = Html(re.sub(r"([/_:])", r"\1<wbr>", safe(row.name)))
    return element(
        "tr",
        element("th", name, scope="row"),
        *[element("td", cell) for cell in row.cells],
        **({"class_": "ours"} if row.ours else {}),
    )


def figures(drawings: Sequence[tuple[Drawing, str]]) -> Html:
    """Pictures with their captions, side by side where there is room."""
    shown = [
        element("figure", Html(drawing.inline), element("figcaption", caption))
        for drawing, caption in drawings
    ]
    return element("div", *shown, class_="figures") if shown else Html("")


def folded(title: str, *content: str) -> Html:
    """What is opened only by those who want it."""
    inside = joined(content)
    return element("details", element("summary", title), inside) if inside else Html("")


@dataclass(frozen=True)
class Section:
    """A part of the page that the contents name."""

    anchor: str
    short: str
    """What the contents call it."""
    title: str
    lead: str
    content: Html

    @property
    def html(self) -> Html:
        heading = element("h2", self.title, id=f"{self.anchor}-title")
        return element(
            "section",
            heading,
            element("p", self.lead, class_="lead"),
            self.content,
            id=self.anchor,
            aria_labelledby=f"{self.anchor}-title",
        )


def page(title: str, top: Html, sections: Sequence[Section], foot: Html) -> str:
    """The whole document: style inside, nothing outside."""
    links = [
        element("li", element("a", section.short, href=f"#{section.anchor}"))
        for section in sections
    ]
    contents = element("nav", element("ol", *links), aria_label="Contents")
    body = joined(
        [
            element("header", top),
            contents if links else Html(""),
            element("main", joined(section.html for section in sections)),
            element("footer", foot),
        ]
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{STYLE.read_text(encoding="utf-8").strip()}
</style>
</head>
<body>
{body}
</body>
</html>
"""
