"""A real browser for tests of pages.

A test that uses `visit` carries the mark `browser`. The browser is a Chromium named in
AVOW_CHROMIUM or found on the PATH; without one the test is skipped with that reason, and
the summary names it.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENT = 300_000.0  # milliseconds: it only ends a test that would hang
TOLD = {"resultTypes": ["violations"]}  # what is right would be thousands of lines
OF_COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"], **TOLD}
"""What another scheme can change of a page that was looked at in one."""
STANDARD = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], **TOLD}
LASTING = """
const after = window.setTimeout;
window.setTimeout = (run, wait, ...rest) =>
  after(run, String(run).includes('fill("toast")') ? 300_000 : wait, ...rest);
"""
"""A sentence that goes by itself stays: a test must not have to be in time to read it."""
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


def violations(page: Any, what: str, schemes: Sequence[str] = ("light", "dark")) -> list[str]:
    """What axe-core says against WCAG 2.2 AA of a page as it is, in light and dark colours."""
    from axe_playwright_python.sync_playwright import Axe

    told = []
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        rules = STANDARD if scheme == schemes[0] else OF_COLOURS
        if not page.evaluate("'axe' in window"):
            page.evaluate(Axe().axe_script)
        asked = "rules => axe.run(rules).then((told) => told.violations)"
        for one in page.evaluate(asked, rules):
            told.append(f"{what}, {scheme}: {one['id']} at {one['nodes'][0]['target']}")
    return told


def chromium() -> str | None:
    named = os.environ.get("AVOW_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Pages:
    """Pages of one browser that tests use in turn: a new one costs more than a visit."""

    def __init__(self, browser: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = browser.new_context()
        self._context.set_default_timeout(PATIENT)
        self._context.add_init_script(LASTING)
        self._free: list[Any] = []

    def begin(self) -> None:
        """The browser is heard from now on."""
        asyncio._set_running_loop(self._loop)

    def rest(self) -> None:
        """Its loop stands still, and a test without pages may run one of its own."""
        asyncio._set_running_loop(None)

    def take(self) -> Any:
        return self._free.pop() if self._free else self._context.new_page()

    def give_back(self, page: Any, listeners: dict[str, Any]) -> None:
        """The page as a new one is: nothing stored, nothing cached, nobody listens.

        It leaves by itself: called away from outside it would lose its process, and starting
        another takes longer than most visits.
        """
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        page.unroute_all()
        scheme, _, rest = page.url.partition("://")
        origin = f"{scheme}://{rest.partition('/')[0]}"
        page.evaluate("location.replace('about:blank')")
        page.wait_for_url("about:blank")
        session = self._context.new_cdp_session(page)
        session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        session.send("Network.clearBrowserCache")
        session.detach()
        self._context.clear_cookies()
        self._context.clear_permissions()
        self._free.append(page)


@pytest.fixture(scope="session")
def pages() -> Iterator[Pages]:
    """Of one browser for all tests of this process: starting one takes three seconds, and
    another connection to it two.
    """
    path = chromium()
    if path is None:
        pytest.skip(MISSING)
    pytest.importorskip("playwright.sync_api")
    from playwright.sync_api import sync_playwright

    # root may not use the sandbox, and the pages are our own
    flags = ["--no-sandbox", "--disable-dev-shm-usage"]
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=flags, timeout=PATIENT)
        free = Pages(opened)
        free.rest()
        yield free
        free.begin()
        opened.close()


@pytest.fixture
def visit(pages: Pages) -> Iterator[Callable[..., Visit]]:
    """Open a file or an address: visit(where, width=390, height=844, dark=True).

    Nothing moves unless asked for: each picture of a movement is drawn by the processor.
    """
    taken = []

    def open_page(
        where: str | Path,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        moving: bool = False,
    ) -> Visit:
        seen = Visit(pages.take())
        listeners = {
            "console": lambda told: _note(seen, told),
            "pageerror": lambda error: seen.complaints.append(str(error)),
            "requestfailed": lambda request: seen.complaints.append(request.url),
            "request": lambda request: seen.asked.append(request.url),
        }
        for event, listener in listeners.items():
            seen.page.on(event, listener)
        taken.append((seen.page, listeners))
        seen.page.set_viewport_size({"width": width, "height": height})
        scheme = "dark" if dark else "light"
        motion = "no-preference" if moving else "reduce"
        seen.page.emulate_media(color_scheme=scheme, reduced_motion=motion)
        seen.page.goto(where.as_uri() if isinstance(where, Path) else where)
        return seen

    pages.begin()
    try:
        yield open_page
        for page, listeners in taken:
            pages.give_back(page, listeners)
    finally:
        pages.rest()


def _note(seen: Visit, told: Any) -> None:
    if told.type in ("error", "warning"):
        seen.complaints.append(told.text)
