"""The most suspect pairs as a page to look at and tick; the ticks are saved as a file.

The page stands alone: style, script and photographs are inside, and nothing is asked of a
network. `avow/reports/templates/audit.html` lays it out, in the design of the search page.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import avow
from avow.audit.judge import Finding
from avow.core.files import write_text
from avow.reports.page import render
from avow.reports.thumbnails import Pictures, embedded

PAGE = "index.html"
_HERE = Path(__file__)


def write_page(
    findings: Sequence[Finding], about: dict[str, Any], folder: Path, pictures: Pictures | None
) -> Path:
    """Write the page into `folder`; returns where it is."""
    text = render(
        "audit.html",
        about=about,
        findings=findings,
        embedded=partial(embedded, pictures=pictures),
        page_style=(Path(avow.__file__).parent / "web" / "style.css").read_text("utf-8"),
        audit_style=_HERE.with_name("audit.css").read_text("utf-8"),
        audit_script=_HERE.with_name("audit.js").read_text("utf-8"),
    )
    write_text(folder / PAGE, text)
    return folder / PAGE
