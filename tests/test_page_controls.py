"""Every control of the page, in a real browser: few visits that try many of them each."""

import csv
import io
import json
import os
import re
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
import serving
from browser import violations
from encoders import ColourEncoder
from PIL import Image
from serving import CAT, ELEPHANT
from test_web import FOUND, REFUSED, address, app_of, asked, calm, index, ready, type_in
from tiers import long

from avow.retrieval.answer import HowMany
from avow.retrieval.indexing import index_folders, make_empty
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever

__all__ = ["address", "index"]  # the fixtures
pytestmark = pytest.mark.browser
WEB = Path(serving.__file__).parent.parent / "avow" / "web"
LONGEST = 60 * 1024
PHONE = 390
LONG = bool(os.environ.get("AVOW_LONG_TESTS"))
SMALL = """() => [...document.querySelectorAll("button, a, input, select, summary")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: false })
    && !one.closest(".unseen, .skip") && !one.matches(".unseen, .skip"))
  .map((one) => [one, (one.closest(".pick") ?? one).getBoundingClientRect()])
  .filter(([, box]) => box.width < 43.5 || box.height < 43.5)
  .map(([one, box]) => `${one.outerHTML.slice(0, 90)} ${box.width} x ${box.height}`)"""


def test_scripts_stay_small():
    """What a browser must read before the page lives."""
    assert sum(file.stat().st_size for file in WEB.glob("*.js")) <= LONGEST


@pytest.mark.parametrize("width", [PHONE, long(1280)])
def test_everybody_can_use_it(visit, address, width):
    """WCAG 2.2 AA as far as axe-core can tell: home, answers, a picture, the index; twice."""
    seen = visit(f"{address}/", width=width)
    page, told = ready(seen, ".wall .look"), []
    schemes = ("light", "dark")

    def look(what, short=("light",)):
        told.extend(violations(page, what, schemes if LONG else short))

    look("home")
    ready(type_in(seen, CAT), FOUND)
    page.click("#more summary")
    page.click(".numbers > summary")
    page.click("#further .more")
    ready(seen, "#further .card:not(.wait)")
    page.locator(".pick input").first.check()
    look("answers")
    page.click("#shown > .grid .look")
    ready(seen, "#why .word")
    ready(seen, "#why .told .wall .look")
    look("a picture", ("dark",))
    page.keyboard.press("Escape")
    page.click("#about-open")
    ready(seen, "#about .folders li")
    look("the index")
    model = json.loads(page.request.get(f"{address}/api/index").text())["model_fingerprint"]
    assert f"({model})" in page.inner_text("#about .facts")  # as `avow status` has it
    page.keyboard.press("Escape")
    ready(type_in(seen, ELEPHANT), REFUSED)
    page.click(".misses summary")
    look("near misses", ("dark",))
    assert told == []
    assert not seen.scrolls_sideways()


def test_a_picture_is_looked_at_in_full(visit, address):
    seen = asked(visit, address, CAT)
    page = ready(seen, FOUND)
    page.click("#further .more")
    ready(seen, "#further .card:not(.wait)")
    page.click("#shown > .grid .look")
    ready(seen, "#why .words")
    name = page.inner_text("#why-name")
    links = page.locator("#tools a")
    assert links.all_inner_texts() == ["Open original", "Download"]
    sent = page.request.get(f"{address}/{links.first.get_attribute('href')}")
    assert sent.ok and sent.headers["content-type"] == "image/jpeg"
    with page.expect_download() as saved:
        links.last.click()
    assert saved.value.suggested_filename == name == "chelsea.jpg"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#tools >> text=Copy path")
    ready(seen, "#toast:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()").endswith("/pictures/chelsea.jpg")
    for chosen in (True, False):
        page.keyboard.press("x")
        assert page.locator("#tools .pick input").is_checked() is chosen
    assert page.evaluate(SMALL) == []
    # keys go on into the list behind the first answers, and back
    for key in ("ArrowRight", "ArrowRight"):
        before = page.inner_text("#why-name")
        page.keyboard.press(key)
        page.wait_for_function(
            "told => document.querySelector('#why-name').innerText != told", arg=before
        )
    swiped(page, 20, 200)
    page.wait_for_function(
        "told => document.querySelector('#why-name').innerText == told", arg=before
    )
    swiped(page, 20, 200)
    page.wait_for_function(
        "told => document.querySelector('#why-name').innerText == told", arg=name
    )
    page.click("#tools >> text=More like this")
    ready(seen, '.verdict[data-is="unjudged"]')
    assert "like=" in page.url and not page.locator("#why").is_visible()
    calm(seen, address)


def swiped(page, start, end):
    """A finger over the picture, from one place to another."""
    page.evaluate(
        """([from, to]) => {
          const figure = document.querySelector("#why .pictured");
          const send = (kind, clientX) => {
            const at = new Touch({ identifier: 1, target: figure, clientX, clientY: 50 });
            const touches = kind === "touchstart" ? [at] : [];
            figure.dispatchEvent(new TouchEvent(kind, { touches, changedTouches: [at] }));
          };
          send("touchstart", from);
          send("touchend", to);
        }""",
        [start, end],
    )


def test_picked_pictures_are_exported(visit, address):
    seen = asked(visit, address, CAT)
    page = ready(seen, FOUND)
    page.click("#further .more")
    ready(seen, "#further .card:not(.wait) .pick")
    page.locator("#shown .look").first.press("x")
    page.locator("#further .card:not(.wait) .pick").first.click()
    assert page.inner_text("#picked p") == "2 pictures picked"
    page.locator("#shown .fits button").first.click()
    ready(seen, "#toast:has-text('it fits')")  # above the bar, not over it
    boxes = page.evaluate(
        "['toast', 'picked'].map((id) => document.getElementById(id).getBoundingClientRect())"
    )
    assert boxes[0]["bottom"] <= boxes[1]["top"]
    page.click("#toast button")
    ready(seen, "#toast:has-text('Taken back')")
    with page.expect_download() as saved:
        page.click("#picked >> text=CSV")
    rows = list(csv.DictReader(io.StringIO(Path(saved.value.path()).read_text())))
    assert len(rows) == 2 and rows[0]["path"].endswith("/chelsea.jpg")
    assert 0.5 < float(rows[0]["p_relevant"]) <= 1 and rows[0]["question"] == CAT
    with page.expect_download() as saved:
        page.click("#picked >> text=Zip")
    with zipfile.ZipFile(saved.value.path()) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [Path(row["path"]).name for row in rows]
        assert archive.read("chelsea.jpg") == Path(rows[0]["path"]).read_bytes()
    other = Path(rows[1]["path"])
    away = other.rename(other.with_suffix(".away"))
    try:
        with page.expect_download() as saved:
            page.click("#picked >> text=Zip")
        ready(seen, "#toast:has-text('1 file is left out')")
    finally:
        away.rename(other)
    with zipfile.ZipFile(saved.value.path()) as archive:
        assert archive.namelist() == ["chelsea.jpg", "left out.txt"]
    page.click("#picked [aria-label='Pick none']")
    assert (
        page.locator("#picked").inner_text() == ""
        and not page.locator(":checked:not(option)").count()
    )
    calm(seen, address)


def test_controls_write_the_filter_and_read_it(visit, address):
    seen = visit(f"{address}/?q=a+cat&where=name~r+or+name~c")
    page = ready(seen, ".verdict")
    assert page.locator("#more").get_attribute("open") is not None
    page.fill("#from", "2020-02-03")
    wanted = "(name~r or name~c) and taken>=2020-02-03"
    page.wait_for_function(
        "text => document.querySelector('#where').value === text", arg=wanted
    )
    ready(seen, ".verdict:has-text('No picture passes the filter')")
    page.fill(
        "#where", 'taken<=2030-01-01 and folder~"pic\\"t" and tag=sea and size>=3MB and p>=0.3'
    )
    said = {
        key: page.input_value(f"#{key}")
        for key in ("from", "to", "folder", "tag", "size", "least")
    }
    assert said == {
        "from": "",
        "to": "2030-01-01",
        "folder": 'pic"t',
        "tag": "sea",
        "size": "3MB",
        "least": "0.3",
    }
    page.fill("#where", "kind=picture")
    page.select_option("#least", "50%")
    ready(seen, ".verdict:not(:has-text('No picture passes'))")
    assert (
        page.input_value("#where") == "kind=picture and p>=50%" and "p%3E%3D50%25" in page.url
    )
    stated = page.locator("#shown .trust b").all_inner_texts()
    assert stated and all(int(re.sub(r"\D", "", one)) >= 50 for one in stated)
    assert page.locator("#further button").count() == 0
    page.select_option("#least", "")
    page.wait_for_function("() => document.querySelector('#where').value === 'kind=picture'")
    assert page.evaluate(SMALL) == []
    calm(seen, address)


PASTE = """async (id) => {
  const content = await (await fetch(`api/items/${id}/picture`)).blob();
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([content], "pasted.jpg", { type: "image/jpeg" }));
  dispatchEvent(new ClipboardEvent("paste", { clipboardData }));
}"""


def test_every_other_control_does_something(visit, address):
    """Fields that write a filter, buttons that keys stand for, the way home, and a paste.

    In the long form panels move in and out, as they do for most people.
    """
    seen = asked(visit, address, CAT, moving=LONG)
    page = ready(seen, FOUND)
    page.click("#more summary")
    page.select_option("#k", "24")
    page.wait_for_url("**k=24*")
    settled = 'body[data-state="told"]'
    ready(seen, settled)
    for key, typed, clause in (("tag", "sea", 'tag="sea"'), ("folder", "pic", 'folder~"pic"')):
        for value, wanted in ((typed, clause), ("", "")):
            page.fill(f"#{key}", value)
            page.press(f"#{key}", "Tab")
            assert ready(seen, settled).input_value("#where") == wanted
    page.fill("#to", "2030-01-01")
    ready(seen, settled).select_option("#size", "1MB")
    ready(seen, settled)
    assert page.input_value("#where") == "taken<=2030-01-01 and size>=1MB"
    page.click("#home")
    ready(seen, ".wall .look")
    assert (page.input_value("#text"), page.input_value("#where")) == ("", "")
    page.click(".wall .look")
    told = "told => document.querySelector('#why-name').innerText != told"
    first = page.inner_text("#why-name")
    page.click("#why [aria-label^='The next picture']")
    page.wait_for_function(told, arg=first)
    second = page.inner_text("#why-name")
    page.click("#why [aria-label^='The picture before']")
    page.wait_for_function(told, arg=second)
    assert page.inner_text("#why-name") == first
    page.click("#why [aria-label^=Close]")
    assert not page.locator("#why").is_visible()
    page.click("#about-open")
    page.click("#about summary >> text=What each risk costs")
    assert page.locator("#about table").is_visible()
    page.click("#about [aria-label^=Close]")
    assert not page.locator("#about").is_visible()
    page.evaluate(PASTE, page.locator(".wall .look").first.get_attribute("data-id"))
    ready(seen, '.verdict[data-is="unjudged"]')
    assert page.locator("#chosen-picture").is_visible()
    calm(seen, address)


def test_panels_that_move_open_and_close(visit, address):
    seen = asked(visit, address, CAT, moving=True)
    page = ready(seen, FOUND)
    page.click("#about-open")
    ready(seen, "#about .folders li")
    page.click("#about [aria-label^=Close]")
    page.wait_for_selector("#about", state="hidden")
    calm(seen, address)


def test_near_misses_and_numbers_are_those_of_the_command_line(visit, address, index):
    seen = asked(visit, address, ELEPHANT)
    page = ready(seen, REFUSED)
    result = serving.english(index).search(ELEPHANT, k=12)
    page.click(".misses summary")
    stated = page.locator(".misses .trust b").all_inner_texts()
    assert len(stated) == len(result.near_misses) == 12
    for told, hit in zip(stated, result.near_misses, strict=True):
        assert told == (
            "< 1 %" if 0 < hit.p_relevant < 0.01 else f"{hit.p_relevant:.0%}".replace("%", " %")
        )
    page.click(".numbers > summary")
    facts = page.inner_text(".numbers > .facts")
    assert "18 pictures" in facts and "fits" not in facts  # nothing is shown to fit
    assert not page.get_by_text("Uncertainty u =").is_visible()
    page.click(".numbers details summary")
    assert page.get_by_text("Uncertainty u =").is_visible()
    assert page.evaluate(SMALL) == []
    numbers = [2.5, 9.83, 43.4, 104.6, 255.0, 268.1, 1234.0]
    said = page.evaluate("all => import('./words.js').then(it => all.map(it.rounded))", numbers)
    for number, told in zip(numbers, said, strict=True):
        assert f" {told} pictures fit" in HowMany(number, 1.0, 9.0).in_words("picture")


def test_a_first_visit_makes_an_index_and_shows_it_while_it_grows(visit, index, tmp_path):
    held: list = []
    encoder = serving.encoder_of(index)
    made = make_empty(tmp_path / "index", encoder)
    retriever = Retriever(Library.open(made, encoder), encoder)
    with serving.Server(app_of(retriever, roots=[index.parent])) as address:
        seen = visit(f"{address}/")
        page = ready(seen, ".chooser .folders button")
        assert page.inner_text("#index-line") == "0 pictures"
        page.click(".chooser .folders button")
        page.click(".chooser .folders >> text=pictures")
        page.click(".chooser >> text=One folder up")
        ready(seen, ".chooser .folders >> text=pictures")
        page.route("**/api/folders?*", lambda route: held.append(route))
        page.click(".chooser .folders >> text=pictures")
        while not held:
            page.wait_for_timeout(20)
        assert page.get_by_text("Index this folder").is_visible()  # of the folder before
        assert page.locator(".chooser").get_attribute("inert") == ""
        held[0].continue_()
        ready(seen, ".chooser:not([inert]) >> text=Index this folder")
        assert "19 pictures and videos lie in it" in page.inner_text(".chooser")
        assert page.evaluate(SMALL) == []
        beside = page.locator(".chooser .below-picture button").all()
        assert len({one.bounding_box()["y"] for one in beside}) == 1
        page.click(".chooser >> text=Index this folder")
        ready(seen, ".wall .look")
        ready(seen, "#index-line:text-is('18 pictures')")
        refused = page.request.post(f"{address}/api/jobs", data={"folder": "/etc"})
        assert refused.status == 404 and "cannot be indexed from here" in refused.text()
        calm(seen, address)


@contextmanager
def choosing(visit, home, encoder):
    """A page without an index, on which the folder `pictures` of `home` was chosen."""
    made = make_empty(home / "index", encoder)
    retriever = Retriever(Library.open(made, encoder), encoder)
    with serving.Server(app_of(retriever, roots=[home / "pictures"])) as address:
        seen = visit(f"{address}/")
        ready(seen, ".chooser .folders button").click(".chooser .folders button")
        yield seen, address


def test_a_job_that_ends_before_it_is_looked_at_is_shown(visit, tmp_path):
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "pictures" / "one.png")
    with choosing(visit, tmp_path, ColourEncoder()) as (seen, address):
        page = seen.page
        ready(seen, ".chooser >> text=Index this folder")

        def has_ended() -> bool:
            with urlopen(f"{address}/api/jobs") as answer:
                return json.load(answer)["jobs"][0]["state"] == "done"

        def late(route):
            if route.request.method == "GET":
                serving.wait_until(has_ended)
            route.continue_()

        page.route("**/api/jobs", late)
        page.click(".chooser >> text=Index this folder")
        ready(seen, ".wall .look")
        page.unroute("**/api/jobs")
        calm(seen, address)


class Held(ColourEncoder):
    """Looks at a second batch of pictures only when it is let go."""

    def __init__(self):
        super().__init__()
        self.let_go = threading.Event()

    def encode_prepared(self, pixels):
        if self.photographs:
            self.let_go.wait()
        return super().encode_prepared(pixels)


def test_indexing_is_stopped_from_the_page_and_keeps_what_is_in(visit, tmp_path):
    (tmp_path / "pictures").mkdir()
    for number in range(200):
        colour = (number, 255 - number, 0)
        Image.new("RGB", (8, 8), colour).save(tmp_path / "pictures" / f"{number:03}.png")
    encoder = Held()
    with choosing(visit, tmp_path, encoder) as (seen, address):
        page = seen.page
        page.click(".chooser >> text=Index this folder")
        ready(seen, "#index-line:has-text('Indexing')")
        page.click("#about-open")  # the wall takes the place of the first job once it has one
        ready(seen, "#about .job-place progress")
        with page.expect_response("**/cancel"):
            page.click("#about .job-place >> text=Stop")
        encoder.let_go.set()
        serving.wait_until(lambda: state_of(page, address, "cancelled"))
        ready(seen, ".wall .look")
        assert 0 < page.request.get(f"{address}/api/index").json()["images"] < 200
        calm(seen, address)


def state_of(page, address, wanted) -> bool:
    """Whether the newest job is in a state."""
    return page.request.get(f"{address}/api/jobs").json()["jobs"][0]["state"] == wanted


def test_pictures_that_look_the_same_are_one_answer(visit, index, tmp_path):
    retriever = serving.copy_of(index, tmp_path)
    pictures = tmp_path / "pictures"
    with Image.open(pictures / "chelsea.jpg") as cat:
        cat.save(pictures / "again.jpg", quality=80)
    index_folders([pictures], index=tmp_path / "index", encoder=retriever.encoder, dedupe=True)
    with serving.Server(app_of(serving.judged(retriever))) as address:
        seen = asked(visit, address, CAT)
        page = ready(seen, FOUND)
        assert page.locator("#shown > .grid .card").count() == 1
        assert page.inner_text("#shown > .grid .same") == "2 alike"
        page.click("#shown > .grid .look")
        ready(seen, "#why h3:has-text('The same picture')")
        calm(seen, address)


def test_a_list_of_any_length_holds_only_what_is_in_view(visit, tmp_path):
    """Nothing waits for what is not looked at, and the end is a key away."""
    many = 10_000 if LONG else 400
    (tmp_path / "pictures").mkdir()
    for number in range(many):
        colour = (number % 256, number // 256 % 256, 128)
        Image.new("RGB", (4, 4), colour).save(tmp_path / "pictures" / f"{number:05}.png")
    encoder = ColourEncoder()
    index_folders([tmp_path / "pictures"], index=tmp_path / "index", encoder=encoder)
    retriever = Retriever(Library.open(tmp_path / "index", encoder), encoder)
    with serving.Server(app_of(retriever)) as address:
        seen = asked(visit, address, "red")
        page = ready(seen, "#further .more")
        page.locator("#further .more").scroll_into_view_if_needed()
        before = page.evaluate("scrollY")
        page.click("#further .more")
        ready(seen, "#further .card:not(.wait)")
        assert page.evaluate("scrollY") - before < 100  # not in the middle of the list
        held = "document.querySelectorAll('#further .card').length"
        assert page.evaluate(held) < 80
        page.locator("#further .card:not(.wait) .look").first.focus()
        page.keyboard.press("End")
        ready(seen, f"#further li[aria-posinset='{many - 12}'] .look:focus")
        assert page.evaluate(held) < 80
        names = page.locator("#further .name").all_inner_texts()
        assert len(set(names)) == len(names) > 4
        page.keyboard.press("Home")
        ready(seen, "#further li[aria-posinset='1'] .look:focus")
        calm(seen, address)
