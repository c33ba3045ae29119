"""The page in a real browser, over a real server, index and model."""

from pathlib import Path
from urllib.parse import urlencode

import pytest
import serving
from serving import CAT, ELEPHANT
from tiers import long

from avow.api import create_app
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.search import Retriever

pytestmark = pytest.mark.browser
FOUND, REFUSED = '.verdict[data-is="answer"]', '.verdict[data-is="nothing_found"]'
UNKNOWN = '.verdict[data-is="not_understood"]'
BROKEN = """[...document.images].filter((one) => one.currentSrc && one.complete
  && !one.naturalWidth).map((one) => one.src)"""
HEATED = "() => document.querySelector('#why .heat')?.complete"
SOON = 300_000  # milliseconds: it only ends a test that would hang


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return serving.index_once(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def address(index):
    retriever = serving.english(index)
    with serving.Server(app_of(retriever)) as where:
        yield where


@pytest.mark.long
def test_the_model_that_ships_with_avow_answers_and_refuses(visit, index, tmp_path):
    """No stand-in anywhere: its own model, its own trust, the same photographs."""
    index_folders([index.parent / "pictures"], index=tmp_path, encoder=open_encoder())
    with serving.Server(app_of(Retriever.open(tmp_path))) as address:
        seen = visit(f"{address}/?q=a+cup+of+coffee")
        first = ready(seen, FOUND).locator("#shown > .grid .look").first
        assert "coffee" in (first.get_attribute("aria-label") or first.inner_html())
        assert seen.page.locator("#risk-says").inner_text() == "6 or 15 %"
        ready(visit(f"{address}/?q=an+elephant+drinking+from+a+river"), REFUSED)


def app_of(retriever, **more):
    return create_app(retriever, limits=serving.PATIENT, **more)


def ready(seen, selector, **more):
    seen.page.wait_for_selector(selector, timeout=SOON, **more)
    return seen.page


def asked(visit, address, text, **more):
    """The page after somebody followed a link to a question: it shows no wall before."""
    return visit(f"{address}/?{urlencode({'q': text})}", **more)


def typed(visit, address, text, **more):
    """The page after somebody came and typed a question."""
    seen = visit(f"{address}/", **more)
    ready(seen, ".wall .look")
    return type_in(seen, text)


def type_in(seen, text):
    seen.page.fill("#text", text)
    seen.page.press("#text", "Enter")
    return seen


def calm(seen, address):
    """Nothing was complained of, nothing foreign asked for, no picture is broken."""
    seen.page.wait_for_load_state("networkidle")
    assert seen.complaints == []
    own = (address, "blob:")
    assert [one for one in seen.asked if not one.startswith(own)] == []
    assert seen.page.evaluate(BROKEN) == []


def names(page):
    return page.locator("#shown > .grid .name").all_inner_texts()


def test_a_search_is_answered(visit, address):
    seen = typed(visit, address, CAT)
    page = ready(seen, FOUND)
    assert page.locator(".verdict h2").inner_text() == "Answer"
    assert names(page) == ["chelsea.jpg"]
    assert page.locator("#shown > .grid .trust b").first.inner_text().endswith("%")
    assert "q=a+cat" in page.url and page.title().startswith(CAT)
    assert page.get_attribute("#verdict", "aria-live") == "polite"
    calm(seen, address)


def test_words_typed_before_the_index_is_known_stay(visit, address):
    seen, held = visit(f"{address}/"), []
    page = ready(seen, ".wall .look")
    page.route("**/api/index", lambda route: held.append(route))
    page.goto(f"{address}/")
    serving.wait_until(lambda: page.evaluate("1") and held)
    page.fill("#text", CAT)
    held.pop().continue_()
    ready(seen, ".wall .look")
    page.unroute("**/api/index")
    assert page.input_value("#text") == CAT
    page.press("#text", "Enter")
    assert "q=a+cat" in ready(seen, FOUND).url


def test_nothing_found_is_said_and_near_misses_wait(visit, address):
    seen = asked(visit, address, ELEPHANT)
    page = ready(seen, REFUSED)
    assert page.locator(".verdict h2").inner_text() == "Nothing found"
    assert not page.locator(".misses .look").first.is_visible()
    page.click(".misses summary")
    assert page.locator(".misses .look").first.is_visible()
    calm(seen, address)


def test_what_is_not_understood_is_told_and_one_press_searches_for_what_was_meant(
    visit, address
):
    seen = asked(visit, address, "a cat with long whiskrs")
    page = ready(seen, UNKNOWN)
    assert page.locator(".verdict h2").inner_text() == "Not understood"
    told = "I don't know 'whiskrs'. Did you mean 'whiskers'?"
    assert page.inner_text(".verdict .why") == told
    assert page.locator(".verdict .sure").count() == 0  # no number for what was not read
    assert page.locator("#shown > .grid").count() == 0
    assert not page.locator(".misses .look").first.is_visible()
    page.locator(".verdict").get_by_role("button", name=f"Search for “{CAT}”").press("Enter")
    ready(seen, FOUND)
    assert names(page) == ["chelsea.jpg"] and page.input_value("#text") == CAT
    assert page.locator(".verdict .offers").count() == 0
    assert page.evaluate("document.activeElement.id") == "answers"
    page.go_back()
    ready(seen, UNKNOWN)
    type_in(seen, "eine Katze mit langen Haaren")
    told = "This model reads English; this looks like German."
    ready(seen, f'{UNKNOWN} .why:has-text("{told}")')
    assert page.inner_text(".verdict .why") == told
    assert page.locator(".verdict button").count() == 0  # nothing to offer
    calm(seen, address)


def test_what_the_words_leave_out_can_be_put_back(visit, address):
    question = "a cat with no collar"
    seen = asked(visit, address, question)
    page = ready(seen, ".chip")
    chip = page.get_by_role("button", name="without collar")
    assert chip.inner_text() == "without collar \N{MULTIPLICATION SIGN}"
    assert page.input_value("#text") == question and page.input_value("#without") == ""
    page.locator(".look").first.evaluate("one => one.click()")
    ready(seen, "#why .word")  # what is left out adds nothing
    assert page.locator("#why .words li").all_inner_texts() == ["a", "cat"]
    page.keyboard.press("Escape")
    chip.press("Enter")
    ready(seen, ".verdict:not(:has(.chip))")
    assert page.input_value("#text") == question and "rewrite=false" in page.url
    assert page.evaluate("document.activeElement.id") == "answers"
    type_in(seen, "a cat with no hat")
    ready(seen, ".chip:has-text('without hat')")
    assert "rewrite" not in page.url
    calm(seen, address)


def test_the_banner_says_what_the_command_line_says(visit, address, index):
    """The words, and of how many hits the number is, from one place."""
    seen, retriever = asked(visit, address, CAT), serving.judged(serving.opened(index))
    answers = {12: "one of these fits", 3: "one of these 3 fits", 1: "this one fits"}
    for shown, these in answers.items():
        if shown != 12:
            seen.page.goto(f"{address}/?{urlencode({'q': CAT, 'k': shown})}")
        page = ready(seen, FOUND)
        found = retriever.search(CAT, k=shown)
        number, about = page.inner_text(".verdict .sure").split("\n")
        said = f"{page.inner_text('.verdict h2')}; {about}: {number}"
        assert said == str(found.heading) and about == f"that {these}"
        page.click(".numbers > summary")
        facts = page.inner_text(".numbers > .facts")
        assert f"That {these}\n{number}" in facts and "18 pictures" in facts


def test_the_risk_slider_asks_again(visit, address):
    seen = asked(visit, address, CAT)
    page = ready(seen, FOUND)
    assert page.locator("#risk-says").inner_text() == "10 %"
    assert "answers 40 % of questions" in page.locator("#risk-cost").inner_text()
    page.focus("#risk")
    page.press("#risk", "Home")
    ready(seen, FOUND)
    assert "risk=" not in page.url and page.locator("#risk-says").inner_text() == "10 %"
    page.press("#risk", "ArrowRight")
    ready(seen, '.verdict[data-is="check"]')
    assert "risk=0.01" in page.url and "cannot be promised" in page.inner_text("#risk-cost")
    calm(seen, address)


def test_the_slider_tells_kinds_of_questions_apart(visit, index):
    """Its first place is the usual risk of each; the next ones are one risk for both."""
    retriever = serving.english(index)
    policy = retriever.policy("text")
    usual = {"names": 0.05, "descriptions": 0.15}
    retriever.policy = lambda *_, **__: serving.with_risks(policy, usual)
    with serving.Server(app_of(retriever)) as address:
        page = ready(asked(visit, address, CAT), FOUND)
        assert page.locator("#risk-says").inner_text() == "5 or 15 %"
        lines = page.locator("#risk-cost > span").all_inner_texts()
        assert [line[:40] for line in lines] == [
            "At most 5 % wrong: answers 35 % of names",
            "At most 15 % wrong: answers 45 % of desc",
        ]
        page.focus("#risk")
        for _ in range(10):
            page.press("#risk", "ArrowRight")
        page.wait_for_url("**risk=0.1*", timeout=SOON)
        assert page.locator("#risk-says").inner_text() == "10 %"
        page.click("#about-open")
        table = page.locator("#about table")
        table.wait_for(state="attached", timeout=SOON)
        heads = table.locator("th").all_text_contents()
        assert heads == ["At most wrong", "Of names answered", "Of descriptions answered"]
        first = table.locator("tbody tr").first.locator("td").all_text_contents()
        assert first == ["5 or 15 %", "35 %", "45 %"]


def test_a_dropped_or_chosen_picture_is_searched_with(visit, address, index):
    seen = visit(f"{address}/")
    page = ready(seen, ".wall .look")
    content = list((index.parent / "pictures" / "coffee.jpg").read_bytes())
    held = page.evaluate_handle(
        """bytes => {
            const held = new DataTransfer();
            held.items.add(new File([new Uint8Array(bytes)], "mine.jpg", {type: "image/jpeg"}));
            return held;
        }""",
        content,
    )
    page.dispatch_event("main", "dragover", {"dataTransfer": held})
    assert page.locator("#drop").is_visible()
    page.dispatch_event("main", "drop", {"dataTransfer": held})
    ready(seen, '.verdict[data-is="unjudged"]')
    assert names(page)[0] == "coffee.jpg" and page.locator("#chosen img").is_visible()
    assert page.locator("#shown .unsaid").first.inner_text().startswith("similarity 1.0")
    page.click("#chosen-remove")
    ready(seen, ".wall .look")
    page.set_input_files("#file", str(index.parent / "pictures" / "notes.txt"))
    assert "no picture" in ready(seen, "#toast:not(:empty)").inner_text("#toast")
    page.set_input_files("#file", str(index.parent / "pictures" / "coffee.jpg"))
    ready(seen, '.verdict[data-is="unjudged"]')
    calm(seen, address)


def test_a_filter_chooses_and_a_wrong_one_is_told(visit, address):
    seen = visit(f"{address}/?q=a+cat&where=name~%22rocket*%22")
    page = ready(seen, ".verdict")
    assert page.locator("#more").get_attribute("open") is not None
    assert page.locator(".look").count() == 1
    page.fill("#where", "taken >> 3")
    page.press("#where", "Enter")
    ready(seen, '.state[data-is="mistake"]')
    assert "not understood" in page.inner_text("#shown")


def test_going_back_asks_the_question_before(visit, address):
    seen = typed(visit, address, CAT)
    page = ready(seen, FOUND)
    ready(type_in(seen, ELEPHANT), REFUSED)
    page.go_back()
    ready(seen, FOUND)
    assert page.input_value("#text") == CAT
    page.go_back()
    ready(seen, ".wall .look")
    assert page.input_value("#text") == ""
    calm(seen, address)


def test_why_shows_words_heat_and_what_is_similar(visit, address):
    seen = asked(visit, address, CAT)
    page = ready(seen, FOUND)
    page.click("#shown > .grid .look")
    ready(seen, "#why .word")
    assert page.locator("#why .words li").all_inner_texts() == CAT.split()
    assert page.locator("#why .word").all_inner_texts() == ["cat", "long", "whiskers"]
    assert "Does it fit?" in page.inner_text("#why .fits")
    ready(seen, "#why .wall .look")
    page.wait_for_function(HEATED, timeout=SOON)  # or it is given up for the next one
    before = page.get_attribute("#why .heat", "src")
    page.click("#why .word >> nth=1")
    assert page.get_attribute("#why .heat", "src") != before
    page.wait_for_function(HEATED, timeout=SOON)
    page.click("#heat-switch")
    assert page.get_attribute("#why .heat", "data-off") is not None
    assert "item=" in page.url
    page.keyboard.press("Escape")
    page.wait_for_selector("#why", state="hidden")
    page.wait_for_url(lambda url: "item=" not in url)
    assert page.evaluate("document.activeElement.className") == "look"
    calm(seen, address)


def test_feedback_is_kept_and_undone(visit, index, tmp_path_factory):
    retriever = serving.judged(serving.copy_of(index, tmp_path_factory.mktemp("told")))
    said = lambda: [(one.query["text"], one.good) for one in retriever.library.feedback()]  # noqa: E731
    with serving.Server(app_of(retriever)) as address:
        seen = asked(visit, address, CAT)
        page = ready(seen, FOUND)
        yes, no = page.locator("#shown > .grid .fits button").all()[:2]
        yes.click()
        ready(seen, "#toast:has-text('it fits')")
        assert (said(), yes.get_attribute("aria-pressed")) == ([(CAT, True)], "true")
        no.click()
        ready(seen, "#toast:has-text('does not fit')")
        assert (said(), yes.get_attribute("aria-pressed")) == ([(CAT, False)], "false")
        page.click("#toast button")
        ready(seen, "#toast:has-text('Taken back')")
        assert (said(), no.get_attribute("aria-pressed")) == ([], "false")
        calm(seen, address)


def test_the_index_tells_about_itself_and_scans(visit, index, tmp_path_factory):
    place = tmp_path_factory.mktemp("scanned")
    with serving.Server(app_of(serving.copy_of(index, place))) as address:
        seen = visit(f"{address}/")
        page = ready(seen, ".wall .look")
        assert page.inner_text("#index-line") == "18 pictures"
        assert "nothing is promised" in page.inner_text("#risk-cost")
        page.click("#about-open")
        ready(seen, "#about .folders li")
        page.click("#about summary:has-text('left out')")
        assert "broken.jpg" in page.inner_text("#about .skipped")
        (place / "pictures" / "rocket.jpg").rename(place / "pictures" / "missile.jpg")
        page.click("#about .folders button")
        ready(seen, ".job-place:has-text('1 moved')")
        calm(seen, address)


def test_keys_are_enough(visit, address):
    seen = visit(f"{address}/")
    page = ready(seen, ".wall .look")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"
    page.locator(".wall .look").first.focus()
    at = "[...document.querySelectorAll('.wall .look')].indexOf(document.activeElement)"
    for key, place in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 17)):
        page.keyboard.press(key)
        assert page.evaluate(at) == place
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(at) > 2
    assert page.locator(".wall .look[tabindex='0']").count() == 1
    page.evaluate("document.querySelector('.wall').dataset.seen = ''")
    page.keyboard.press("Enter")
    ready(seen, "#why[open] .facts")
    page.keyboard.press("Escape")
    page.wait_for_selector("#why", state="hidden")
    page.wait_for_url(f"{address}/", timeout=SOON)
    page.wait_for_load_state("networkidle")  # nothing is drawn anew that would lose the place
    calm(seen, address)
    assert page.evaluate(at) > 2
    assert page.locator(".wall[data-seen]").count() == 1  # not made anew, so nothing jumps


@pytest.mark.parametrize("dark", [False, long(True)], ids=["light", "dark"])
def test_a_phone_shows_all_of_it(visit, address, dark):
    seen = typed(visit, address, CAT, width=390, height=844, dark=dark)
    page = ready(seen, FOUND)
    assert not seen.scrolls_sideways()
    assert page.evaluate("document.activeElement.id") != "text"  # no keyboard over the answers
    page.click("#more summary")
    assert not seen.scrolls_sideways()
    page.click("#shown > .grid .look")
    ready(seen, "#why .word")
    assert page.locator("#why").bounding_box()["width"] <= 390
    assert page.locator("#why").bounding_box()["x"] >= 0
    assert not seen.scrolls_sideways()
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 320, "height": 640})
    for text, selector in (("bycicle", UNKNOWN), ("a cat, no hat", ".chip")):
        ready(type_in(seen, text), selector)
        assert not seen.scrolls_sideways(), text
    calm(seen, address)


GROUND = "getComputedStyle(document.body).backgroundColor"
GROUNDS = {"light": "rgb(251, 250, 247)", "dark": "rgb(20, 23, 26)"}


@pytest.mark.long  # the words are read on these grounds too
def test_dark_is_dark(visit, address):
    found = [visit(f"{address}/", dark=dark).page.evaluate(GROUND) for dark in (False, True)]
    assert found == list(GROUNDS.values())


SHOWN = [(CAT, FOUND), (ELEPHANT, REFUSED), ("bycicle", UNKNOWN), ("a cat, no hat", ".chip")]
CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)|transparent/.test(colour)) return colour;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !element.checkVisibility() || element.closest(".unseen, .skip")) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.push(`${element.className || element.tagName}: ${ratio.toFixed(2)}`);
  }
  return faint;
}"""


NAMELESS = """() => [...document.querySelectorAll("button, a, input, select")]
  .filter((one) => !(one.innerText || one.ariaLabel || one.labels?.length || one.title))
  .map((one) => one.outerHTML)"""


def test_every_word_can_be_read_and_verdicts_differ_in_more_than_colour(visit, address):
    """And everything to press has a name."""
    seen, shapes = visit(f"{address}/"), {}
    for text, selector in SHOWN:
        page = ready(type_in(seen, text), selector)
        verdict = page.get_attribute(".verdict", "data-is")
        shapes[verdict] = page.locator(".verdict svg path").get_attribute("d")
        assert page.locator(".verdict h2").inner_text()
        for scheme, colour in GROUNDS.items():
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.wait_for_function(f"colour => {GROUND} === colour", arg=colour)
            assert page.evaluate(CONTRAST) == [], f"{text}, {scheme}"
        assert page.evaluate(NAMELESS) == [], text
    assert len(set(shapes.values())) == len(shapes) >= 3


def test_a_server_that_went_away_is_told(visit, index):
    with serving.Server(app_of(serving.opened(index))) as address:
        seen = visit(f"{address}/")
        ready(seen, ".wall .look")
        seen.page.wait_for_load_state("networkidle")
    ready(type_in(seen, CAT), '.state[data-is="offline"]')
    assert "avow serve" in seen.page.inner_text("#shown")


def test_a_token_is_asked_for(visit, index):
    with serving.Server(app_of(serving.opened(index), token="open sesame")) as address:
        seen = visit(f"{address}/")
        page = ready(seen, '.state[data-is="locked"]')
        page.fill("#token", "open sesame")
        page.press("#token", "Enter")
        ready(seen, ".wall .look")
        assert "sesame" not in page.url


def test_a_name_cannot_become_markup(visit, index, tmp_path_factory):
    place = tmp_path_factory.mktemp("named")
    evil = "<img src=x onerror=alert(1)>.jpg"
    copied = serving.copy_of(index, place)
    (place / "pictures" / "chelsea.jpg").rename(place / "pictures" / evil)
    serving.index_folders([place / "pictures"], index=place / "index", encoder=copied.encoder)
    with serving.Server(app_of(serving.judged(copied))) as address:
        seen = asked(visit, address, CAT)
        page = ready(seen, FOUND)
        assert names(page) == [evil]
        calm(seen, address)


def test_the_page_asks_nobody_else():
    """Not even in a comment: no address in any file of the page but names of namespaces."""
    page = Path(serving.__file__).parent.parent / "avow" / "web"
    for file in page.iterdir():
        rest = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in rest and "https://" not in rest, file.name
