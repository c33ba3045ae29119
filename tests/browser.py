"""A real browser for tests of pages.

A test that uses `visit` carries the mark `browser`. The browser is a Chromium named in
AVOW_CHROMIUM or found on the PATH; without one the test is skipped with that reason, and
the summary names it.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "no Chromium on the PATH or in AVOW_CHROMIUM"


@dataclass(frozen=True)
class Visit:
    """An open page, and what it asked for and complained about since."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    """Errors of the console or of scripts, and requests that failed."""
    asked: list[str] = field(default_factory=list)
    """Every address the page asked for, itself included."""

    def scrolls_sideways(self) -> bool:
        """Whether the page as a whole is wider than the window."""
        widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        whole, window = self.page.evaluate(widths)
        return whole > window

    def unseen_images(self) -> list[str]:
        """Images that did not load, by their alternative text."""
        return self.page.evaluate(
            "[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.alt)"
        )


def chromium() -> str | None:
    named = os.environ.get("AVOW_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


# A module at a time: as long as it is open its event loop runs in this thread, where no
# other test could then start one of its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = chromium()
    if path is None:
        pytest.skip(MISSING)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        # root may not use the sandbox, and the pages are our own
        opened = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Open a file or an address: visit(where, width=390, height=844, dark=True)."""
    contexts = []

    def open_page(
        where: str | Path, width: int = 1280, height: int = 800, dark: bool = False
    ) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        context.set_default_timeout(300_000)  # it only ends a test that would hang
        contexts.append(context)
        seen = Visit(context.new_page())
        seen.page.on("console", lambda told: _note(seen, told))
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        seen.page.on("requestfailed", lambda request: seen.complaints.append(request.url))
        seen.page.on("request", lambda request: seen.asked.append(request.url))
        seen.page.goto(where.as_uri() if isinstance(where, Path) else where)
        return seen

    yield open_page
    for context in contexts:
        context.close()


def _note(seen: Visit, told: Any) -> None:
    if told.type in ("error", "warning"):
        seen.complaints.append(told.text)
