"""The page of an audit in a browser: dense rows, keys, filters, undo, and nothing covered."""

from pathlib import Path

import pytest
from browser import violations
from search_samples import picture
from tiers import long

from avow.audit.files import read_decisions
from avow.audit.judge import Finding
from avow.audit.page import write_page

pytestmark = pytest.mark.browser
COUNT = 24


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("audit page")
    files = {}
    for number in range(COUNT):
        files[f"i{number}.png"] = home / f"i{number}.png"
        picture(number, 200).save(files[f"i{number}.png"])
    findings = [
        Finding(
            pair=number,
            split="train",
            image=f"i{number}.png",
            caption=f"a wall of colour number {number}, " + "painted long ago " * 4,
            probability=0.99 - 0.04 * number,
            in_sample=False,
            similarity=0.1,
            images_above=3,
            captions_above=2,
            better_image=f"i{(number + 1) % COUNT}.png",
            better_caption="another wall",
            why="3 other images suit the caption at least as well",
        )
        for number in range(COUNT)
    ]
    about = {"dataset": "mine", "split": "all", "pairs": 300, "images": 90, "share": 0.1}
    about |= {"judged_by": "a model", "in_sample": 0, "fingerprint": "abc"}
    return write_page(findings, about, home, files.get)


def boxes(page, selector: str) -> list[dict]:
    """Of all that is visible, asked for at once: the browser is another process."""
    return page.locator(selector).evaluate_all(
        """all => all.filter((one) => one.checkVisibility({ visibilityProperty: true }))
        .map((one) => one.getBoundingClientRect().toJSON())
        .filter((box) => box.width && box.height)"""
    )


@pytest.mark.parametrize(("width", "height", "least"), [(1280, 800, 5), (390, 844, 2)])
def test_rows_are_dense_and_the_bar_covers_nothing(page, visit, width, height, least):
    """One pair filled a screen, half of it empty, and the save bar covered text."""
    seen = visit(page)
    seen.page.set_viewport_size({"width": width, "height": height})
    head = seen.page.locator(".head").bounding_box()
    foot = seen.page.locator(".keys").bounding_box() or {"y": height}
    top, bottom = head["y"] + head["height"], foot["y"]
    inside = [
        box
        for box in boxes(seen.page, ".suspect")
        if box["y"] >= top - 1 and box["y"] + box["height"] <= bottom + 1
    ]
    assert len(inside) >= least
    for _ in range(COUNT - 1):  # the row that is looked at is seen whole, down to the last one
        seen.page.keyboard.press("j")
    box = seen.page.locator("[aria-current=true]").bounding_box()
    assert box["y"] >= top - 1 and box["y"] + box["height"] <= bottom + 1
    assert not seen.scrolls_sideways() and seen.complaints == []
    # only the list scrolls: the page had empty screens below its last row
    assert seen.page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    for target in boxes(seen.page, ".bar button, .bar select, .choice")[:8]:
        assert target["height"] >= 44


@pytest.mark.parametrize("width", [390, long(1280)])
def test_everybody_can_use_it(page, visit, width):
    """WCAG 2.2 AA as far as axe-core can tell, before and after a decision."""
    seen = visit(page, width=width)
    told = violations(seen.page, "as it opens")
    for key in "jx":
        seen.page.keyboard.press(key)
    assert told + violations(seen.page, "decided") == []


def test_keys_decide_and_take_back(page, visit, tmp_path):
    seen = visit(page)
    keys, rows = seen.page.keyboard, seen.page.locator(".suspect")
    told = seen.page.locator("#decided")
    for key in ("j", "x", "j", "r", "j", "m", "j", "x"):
        keys.press(key)
    assert told.inner_text() == f"4 of {COUNT} decided"
    assert [rows.nth(n).get_attribute("data-is") for n in range(4)] == [
        *("wrong", "right", "move", "wrong")
    ]
    keys.press("u")
    assert told.inner_text() == f"3 of {COUNT} decided"
    keys.press("k")
    keys.press("m")  # a second time takes it back
    assert told.inner_text() == f"2 of {COUNT} decided"
    seen.page.locator("#undo").click()
    assert told.inner_text() == f"3 of {COUNT} decided"
    with seen.page.expect_download() as waiting:
        keys.press("s")
    waiting.value.save_as(tmp_path / "decisions.csv")
    kept = {one.pair: one.choice for one in read_decisions(tmp_path / "decisions.csv")}
    assert kept == {0: "wrong", 1: "right", 2: "move"}
    seen.page.reload()  # progress is kept
    assert seen.page.locator("#decided").inner_text() == f"3 of {COUNT} decided"
    assert seen.page.locator("#share").get_attribute("value") in ("3", "0")
    assert seen.page.evaluate("document.getElementById('share').value") == 3
    assert seen.complaints == []


def test_filters_choose_rows(page, visit):
    seen = visit(page)
    rows = seen.page.locator(".suspect:visible")
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("number 7,")  # letters in the field are no keys
    assert rows.count() == 1 and "number 7," in rows.first.inner_text()
    assert seen.page.locator("#decided").inner_text() == f"0 of {COUNT} decided"
    seen.page.locator("#words").fill("")
    seen.page.locator("#least").select_option("0.9")
    assert rows.count() == 3
    seen.page.locator("#least").select_option("0.0")
    seen.page.locator("#words").press("Escape")
    seen.page.keyboard.press("j")
    seen.page.keyboard.press("x")
    seen.page.locator("#state").select_option("wrong")
    assert rows.count() == 1
    seen.page.locator("#state").select_option("open")
    assert rows.count() == COUNT - 1
    seen.page.locator("#state").select_option("right")
    assert rows.count() == 0 and seen.page.locator("#none").is_visible()
    assert seen.complaints == []
