"""Pages from the templates beside this file, and the tables that they lay out.

Text is escaped wherever it enters a template; what is HTML already is `Markup`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from avow.reports.seeds import plain
from avow.reports.words import percent

STYLE = Path(__file__).with_name("report.css")
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    undefined=StrictUndefined,
    extensions=["jinja2.ext.do"],
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters |= {"percent": percent, "plain": plain}


def render(template: str, **values: Any) -> str:
    """A whole document that stands alone: its style is inside."""
    style = Markup(STYLE.read_text("utf-8").strip())
    return _TEMPLATES.get_template(template).render(style=style, **values)


def strong(text: str) -> Markup:
    return Markup("<strong>{}</strong>").format(text)


@dataclass(frozen=True)
class Row:
    """A row of a table: its name, its cells, and whether it is ours."""

    name: str
    cells: Sequence[str]
    ours: bool = False


@dataclass(frozen=True)
class Table:
    """What a table shows; one without rows is not shown."""

    caption: str
    heads: Sequence[str]
    """Of all columns; the first is that of the names."""
    rows: Sequence[Row | str]
    """Plain text stands above the rows that follow it, as their common name."""
    groups: Sequence[tuple[str, int]] = ()
    """Names of neighbouring columns, and how many each has, after the first."""

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def anchor(self) -> str:
        return re.sub(r"\W+", "-", f"table {self.caption.partition('.')[0].lower()}")
