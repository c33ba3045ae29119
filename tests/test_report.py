"""The page of a trust study: what it says, what it shows, what it leaves out."""

import copy
import re
import statistics
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from study import SOFTMAX, made_up_study
from tiers import long_but

from avow.core.errors import BadData, MissingExtra
from avow.reports.drawing import VARIABLES
from avow.reports.figures import corruption, perfect_band
from avow.reports.findings import findings
from avow.reports.page import STYLE
from avow.reports.report import write_report
from avow.reports.seeds import Number, Seeds
from avow.reports.tables import calibration
from avow.reports.thumbnails import thumbnail

OURS = "calibrated trust"
NEVER_CLOSED = {"meta", "img", "wbr", "br", "hr", "input", "link"}
SECTIONS = [
    "calibration",
    "rejection",
    "measures",
    "promises",
    "absent",
    "corruption",
    "doubts",
    "galleries",
    "people",
    "examples",
]
PARTS = {
    "calibration": "calibration",
    "curves": "rejection",
    "measures": "measures",
    "guarantee": "promises",
    "sets": "promises",
    "coverage": "promises",
    "absent": "absent",
    "shift": "absent",
    "corruption": "corruption",
    "scatter": "doubts",
    "sizes": "galleries",
    "extremes": "examples",
}
FIGURES = {"calibration", "curves", "corruption", "scatter", "sizes"}
DRAWN_ELSEWHERE = FIGURES - {"calibration"}
"""Parts with figures that take half a second; the page of a whole study has all of them."""


class Outline(HTMLParser):
    """Reads a page strictly: every element is closed in its turn."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.tables: list[list[list[str]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in NEVER_CLOSED:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def sections(self) -> list[str]:
        return [attributes["id"] for attributes in self.all("section")]

    def table_with(self, head: str) -> list[list[str]]:
        return next(rows for rows in self.tables if any(head in row for row in rows[:2]))


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wide and a tall photograph, used in turn."""
    folder = tmp_path_factory.mktemp("photographs")
    for name, size in (("wide", (640, 300)), ("tall", (300, 500))):
        ramp = np.add.outer(np.arange(size[1]), np.arange(size[0])) % 256
        Image.fromarray(ramp.astype(np.uint8)).save(folder / f"{name}.jpg")
    return folder


@pytest.fixture(scope="module")
def report(photographs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of one whole study; the last digit of an image says which photograph."""

    def picture(name: str) -> Path | None:
        if name == "image-003":
            return None
        return photographs / ("wide.jpg" if int(name[-1]) % 2 else "tall.jpg")

    return write_report([made_up_study()], tmp_path_factory.mktemp("report"), picture)


@pytest.fixture(scope="module")
def outline(report: Path) -> Outline:
    return Outline(report.read_text("utf-8"))


def only(part: str, study: dict[str, Any]) -> dict[str, Any]:
    """A study that has nothing but one part of text queries."""
    whole = study["directions"]["text"]
    kept = {key: whole[key] for key in (part, "queries", "candidates")}
    return {"about": study["about"], "directions": {"text": kept}, "human": None}


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return made_up_study(texts=300, images=60)


# --- the page as a document -----------------------------------------------------------


def test_page_has_every_section_in_order(outline):
    assert outline.sections == SECTIONS
    links = [link["href"] for link in outline.all("a")]
    assert links == [f"#{name}" for name in SECTIONS]


def test_page_asks_nothing_of_a_network(report):
    text = report.read_text("utf-8")
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)
    assert not re.search(r"<(?:script|link|iframe|object|embed)\b", text)


def test_names_of_elements_are_unique_and_found(outline):
    named = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(named) == len(set(named))
    wanted = set()
    for _, attributes in outline.elements:
        wanted |= {attributes[key] for key in ("aria-labelledby",) if key in attributes}
        wanted |= {attributes["href"][1:]} if "href" in attributes else set()
        wanted |= set(re.findall(r"url\(#([^)]+)\)", " ".join(attributes.values())))
    assert wanted - set(named) == set()


def test_pictures_say_in_words_what_they_show(outline):
    drawn = outline.all("svg")
    assert len(drawn) == len(outline.all("figure")) == 12
    assert all(svg["role"] == "img" and len(svg["aria-label"]) > 40 for svg in drawn)
    assert all(image["alt"] for image in outline.all("img"))


def test_tables_can_be_reached_and_scrolled(outline):
    boxes = [box for box in outline.all("div") if box.get("class") == "scroll"]
    assert len(boxes) == len(outline.tables) > 8
    assert all(box["tabindex"] == "0" and box["aria-labelledby"] for box in boxes)


def test_text_from_a_dataset_stays_text(report):
    text = report.read_text("utf-8")
    assert "&lt;reading&gt; &amp; talking" in text
    assert "<reading>" not in text


@pytest.mark.parametrize("part", long_but(PARTS.keys() - DRAWN_ELSEWHERE, PARTS))
def test_a_part_alone_gives_its_section_alone(part, study, tmp_path):
    page = write_report([only(part, study)], tmp_path)
    found = Outline(page.read_text("utf-8"))
    assert found.sections == [PARTS[part]]
    assert bool(found.all("svg")) == (part in FIGURES)
    assert bool(list((tmp_path / "figures").iterdir())) == (part in FIGURES)


def test_people_alone(study, tmp_path):
    page = write_report([{"about": {}, "directions": {}, "human": study["human"]}], tmp_path)
    assert Outline(page.read_text("utf-8")).sections == ["people"]


def test_figures_are_written_both_ways(report, outline):
    folder = report.parent / "figures"
    names = {path.stem for path in folder.iterdir()}
    kinds = ("reliability", "rejection-r1", "rejection-r10", "corruption", "scatter", "sizes")
    assert names == {f"{kind}-{side}" for kind in kinds for side in ("text", "image")}
    for name in names:
        assert ET.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        with Image.open(folder / f"{name}.png") as picture:
            assert picture.width > 900


def test_an_old_figure_does_not_stay(study, tmp_path):
    write_report([only("sizes", study)], tmp_path)
    write_report([only("scatter", study)], tmp_path)
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"scatter-text"}


# --- colours --------------------------------------------------------------------------


def palettes() -> list[dict[str, str]]:
    """The colours of the style sheet: in light, and in dark."""
    light, dark = re.findall(r":root \{(.*?)\}", STYLE.read_text("utf-8"), re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#\w{6})", text)) for text in (light, dark)]


def test_colours_of_pictures_follow_the_page(report):
    text = report.read_text("utf-8")
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert set(re.findall(r"var\(--([\w-]+)\)", drawn)) <= set(VARIABLES.values())
    assert not [colour for colour in VARIABLES if colour in drawn]
    for palette in palettes():
        assert set(VARIABLES.values()) <= set(palette)


@pytest.mark.parametrize("ink", ["ink", "muted", "accent"])
@pytest.mark.parametrize("paper", ["paper", "wash"])
def test_text_can_be_read_in_light_and_dark(ink, paper):
    """The contrast that WCAG 2.2 asks of text (1.4.3)."""
    for palette in palettes():
        one, other = sorted((luminance(palette[ink]), luminance(palette[paper])))
        assert (other + 0.05) / (one + 0.05) >= 4.5


def luminance(colour: str) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# --- what it says ---------------------------------------------------------------------


def sentences(*studies: dict[str, Any]) -> list[str]:
    found = findings(Seeds.of([{"directions": study} for study in studies]))
    plain = [re.sub(r"<[^>]+>", "", finding.sentence) for finding in found]
    return [sentence.replace("\N{NO-BREAK SPACE}", " ") for sentence in plain]


def measured(**areas: float) -> dict[str, Any]:
    names = {"ours": OURS, "u": "evidential: u", "soft": SOFTMAX, "other": "two_way: back"}
    return {
        "measures": {
            names[key]: {"auroc": area, "interval": [area - 0.02, area + 0.02]}
            for key, area in areas.items()
        }
    }


def test_first_screen_tells_right_from_wrong():
    text, image = (measured(ours=0.84, u=u, soft=0.7, other=0.75) for u in (0.6, 0.57))
    assert sentences({"text": text, "image": image}) == [
        "Calibrated trust is higher for a right first answer than for a wrong one 84 % of the "
        "time with text and image queries; for comparison, u 60 % and 57 %, the softmax 70 % "
        "in both, the best of the others (two_way: back) 75 % in both."
    ]


def test_a_lead_inside_the_interval_is_called_none():
    (told,) = sentences({"text": measured(ours=0.84, u=0.6, soft=0.83)})
    assert told.endswith(
        "the softmax 83 %. It has no clear lead over scores: probability with text queries."
    )


def test_the_interval_of_the_difference_decides_where_there_is_one():
    part = measured(ours=0.84, soft=0.83)
    part["ahead"] = {SOFTMAX: {"by": 0.01, "low": 0.004, "high": 0.016}}
    assert "no clear lead" not in sentences({"text": part})[0]
    part["ahead"][SOFTMAX]["low"] = -0.001
    assert "no clear lead" in sentences({"text": part})[0]


@pytest.mark.parametrize(
    ("text", "image", "opening"),
    [
        (0.02, 0.03, "Stated probabilities come true, as far as this many queries can tell"),
        (0.06, 0.07, "Stated probabilities are further off than chance explains"),
        (
            0.02,
            0.07,
            "Stated probabilities come true for text queries and are off for image queries",
        ),
    ],
)
def test_first_screen_reads_the_error_beside_its_floor(text, image, opening):
    parts = {
        side: {"calibration": {"ece": error, "floor": 0.05}}
        for side, error in (("text", text), ("image", image))
    }
    assert sentences(parts) == [
        f"{opening}: the mean gap is {100 * text:.1f} percentage points for text queries and "
        f"{100 * image:.1f} for image queries, where a perfect forecaster would mostly stay "
        "below 5.0 in both."
    ]


def test_errors_stand_below_their_names(study):
    part = study["directions"]["text"]["calibration"]
    table = calibration(Seeds.of([study]))
    ours = next(row for row in table.rows if not isinstance(row, str))
    shown = dict(zip(table.heads[1:], map(float, ours.cells), strict=True))
    points = {"ECE ↓": "ece", "floor": "floor", "debiased ↓": "debiased"}
    assert len({part[key] for key in points.values()}) == 3
    assert shown == {
        **{head: round(100 * part[key], 1) for head, key in points.items()},
        "Brier ↓": round(part["brier"], 3),
        "skill ↑": round(part["brier_skill"], 3),
    }


def promised(alpha: float, coverage: float, exceeded: float = 0.04) -> dict[str, float]:
    return {"alpha": alpha, "delta": 0.1, "coverage": coverage, "exceeded": exceeded}


def test_first_screen_promises_at_ten_per_cent():
    rows = [promised(0.05, 0.2), promised(0.1, 0.31), promised(0.2, 0.5)]
    ten = [promised(0.1, 0.62)]
    part = {"guarantee": {"first answer": rows, "one of ten": ten}}
    assert sentences({"text": part}) == [
        "Answering 31 % of text queries, at most 10 % of the first answers are wrong, with "
        "90 % confidence. Answering 62 % of text queries, at most 10 % of the lists of ten "
        "hold nothing right."
    ]


def test_first_screen_says_when_nothing_can_be_promised():
    part = {"guarantee": {"first answer": [promised(0.4, 0.3), promised(0.2, 0.0)]}}
    assert sentences({"text": part}) == [
        "No query can be answered with the promise that at most 20 % of the first answers are "
        "wrong, with 90 % confidence."
    ]


def test_first_screen_owns_up_to_broken_promises():
    part = {"guarantee": {"first answer": [promised(0.1, 0.31, exceeded=0.23)]}}
    assert sentences({"text": part})[0].endswith(
        "The promise was broken in 23 % of the trials for text queries, where 10 % are allowed."
    )


def test_first_screen_says_what_is_refused():
    refused = {"probability of a match": 0.71, OURS: 0.5, "u": 0.3, "probability": 0.8}
    part = {"absent": {"refused": refused, "kept": 0.95}}
    assert sentences({"text": part}) == [
        "Of queries whose answer is not in the gallery, 71 % of text queries are refused while "
        "95 % of the right answers are kept; for comparison, u 30 %, the softmax 80 %."
    ]


def test_first_screen_escapes_names_and_figures():
    refused = {OURS: 0.5, "u": 1e-9, "a <b> & c": 0.8}
    parts = {"text": {"absent": {"refused": refused}}}
    (finding,) = findings(Seeds.of([{"directions": parts}]))
    assert "<strong>50\N{NO-BREAK SPACE}%</strong> of text queries" in finding.sentence
    assert "u &lt;\N{NO-BREAK SPACE}1\N{NO-BREAK SPACE}%" in finding.sentence
    assert "(a &lt;b&gt; &amp; c)" in finding.sentence


def test_areas_stand_where_table_2_has_them(outline):
    rows = outline.table_with("Caption retrieval")
    study = made_up_study()["directions"]
    cuts = ("r1", "r5", "r10", "median_rank")
    assert rows[1] == ["measure", *["R@1 ↑", "R@5 ↑", "R@10 ↑", "Med r ↓"] * 2]
    chance = [f"{study[side]['chance'][cut]:.1f}" for side in ("image", "text") for cut in cuts]
    assert rows[2] == ["chance level", *chance]
    for row in rows[3:]:
        areas = [study[side]["measures"][row[0]]["area"] for side in ("image", "text")]
        assert row[1:] == [f"{area[cut]:.1f}" for area in areas for cut in cuts]
    assert rows[3][0] == OURS
    assert {row[0] for row in rows[3:]} == set(study["text"]["measures"])


def test_every_area_under_roc_has_its_interval(outline):
    rows = outline.table_with("AURC ↓")
    study = made_up_study()["directions"]["text"]["measures"]
    for row in rows[2 : 2 + len(study)]:
        one = study[row[0]]
        low, high = one["interval"]
        assert row[1:4] == [
            f"{one['auroc']:.3f}",
            f"{low:.3f}\N{EN DASH}{high:.3f}",
            f"{one['aurc']:.3f}",
        ]


def test_baseline_beside_a_promise_is_the_best_that_kept_it(study, tmp_path):
    row = promised(0.1, 0.31)
    row["baselines"] = {
        "bold": {"coverage": 0.9, "exceeded": 0.5},
        "good": {"coverage": 0.25, "exceeded": 0.1},
        "poor": {"coverage": 0.1, "exceeded": 0.0},
    }
    part = {"guarantee": {"first answer": [row]}}
    page = write_report([{"directions": {"text": part}}], tmp_path)
    table = Outline(page.read_text("utf-8")).table_with("promise")
    assert table[2] == [
        "at most 10\N{NO-BREAK SPACE}% wrong",
        *["4.0", "\N{EN DASH}", "10.0", "31.0", "good 25.0"],
    ]


# --- several seeds --------------------------------------------------------------------


def test_seeds_are_shown_as_mean_and_spread(study, tmp_path):
    second = copy.deepcopy(study)
    second["about"] |= {"seed": 1, "run": "runs/another"}
    values = [study["directions"]["text"]["measures"][OURS]["auroc"], 0.9]
    second["directions"]["text"]["measures"][OURS]["auroc"] = values[1]
    found = Outline(
        write_report([only("measures", s) for s in (study, second)], tmp_path).read_text(
            "utf-8"
        )
    )
    row = next(row for row in found.table_with("AURC ↓") if row[0] == OURS)
    assert row[1] == f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"
    assert "mean of 2 seeds, ± standard deviation" in "".join(found.words)


def test_seeds_that_lack_a_part_are_left_out_of_its_mean():
    seeds = Seeds.of([{"human": {"pairs": 4}}, {"human": None}, {"human": {"pairs": 6}}])
    assert seeds.at("human", "pairs").number == Number((4.0, 6.0))
    assert not seeds.at("human", "queries")


def test_numbers_that_are_none_are_no_numbers():
    seeds = Seeds.of([{"a": float("nan")}, {"a": None}, {"a": True}])
    assert seeds.at("a").number is None


def test_rows_of_seeds_meet_by_what_they_are_about():
    seeds = Seeds(([{"alpha": 0.1, "x": 1}, {"alpha": 0.2, "x": 5}], [{"alpha": 0.2, "x": 7}]))
    assert [row.at("x").number for row in seeds.rows("alpha")] == [
        Number((1.0,)),
        Number((5.0, 7.0)),
    ]


# --- figures --------------------------------------------------------------------------


def test_band_holds_the_bins_of_a_perfect_forecaster():
    rng = np.random.default_rng(0)
    stated, count = np.array([0.03, 0.2, 0.5, 0.97]), np.array([40.0, 333.0, 100.0, 60.0])
    low, high = perfect_band(stated, count)
    drawn = rng.binomial(count.astype(int), stated, (20_000, 4)) / count
    inside = ((low <= drawn) & (drawn <= high)).mean(0)
    assert (inside >= 0.945).all()
    # one step narrower on both sides would hold too few
    narrower = ((low + 1 / count <= drawn) & (drawn <= high - 1 / count)).mean(0)
    assert (narrower < 0.95).all()


def test_reliability_says_how_many_bins_are_off(study, tmp_path):
    part = {"calibration": {"reliability": [[0.1, 0.11, 200], [0.5, 0.8, 200]]}}
    page = write_report([{"directions": {"text": part}}], tmp_path)
    (svg,) = Outline(page.read_text("utf-8")).all("svg")
    assert svg["aria-label"].replace("\N{NO-BREAK SPACE}", " ") == (
        "Reliability diagram, text queries: 1 of 2 bins lie within the band of a perfectly "
        "calibrated predictor. The largest gap is where 50 % is stated and 80 % comes true."
    )


def test_distributions_of_seeds_with_other_bins_are_one_picture():
    """A seed's own bins must not matter: the same values give the same lines."""
    values = np.random.default_rng(0).beta(2, 5, 40_000)

    def row(bins: int) -> dict[str, Any]:
        counts, edges = np.histogram(values, bins, (0, 1))
        histogram = {"edges": edges.tolist(), "counts": counts.tolist()}
        quantiles = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
        return {"ratio": 0, "u": {"quantiles": quantiles, "histogram": histogram}}

    one, two = ({"words": [row(bins)]} for bins in (400, 800))
    alone, together = corruption(Seeds((one,)), "text"), corruption(Seeds((one, two)), "text")
    assert alone.alt == together.alt
    assert f"words hidden {np.median(values):.3f}" in alone.alt
    heights = [
        np.array([float(y) for _, y in re.findall(r"L ([\d.]+) ([\d.]+)", drawing.svg)])
        for drawing in (alone, together)
    ]
    np.testing.assert_allclose(*heights, atol=2.0)  # points of a picture 173 points high


def test_the_same_study_gives_the_same_figure(study):
    part = Seeds.of([study]).at("directions", "text", "corruption", "kinds")
    assert corruption(part, "text").svg == corruption(part, "text").svg


# --- photographs ----------------------------------------------------------------------


def test_examples_show_their_photographs(outline):
    images = outline.all("img")
    assert all(image["src"].startswith("data:image/jpeg;base64,") for image in images)
    assert all(int(image["height"]) <= 160 for image in images)
    # 4 + 4 text queries with 5 answers each, 4 + 4 image queries; one image has none
    unseen = [span for span in outline.all("span") if span.get("class") == "unseen"]
    assert len(images) + len(unseen) == 2 * 4 * 5 + 2 * 4
    assert len(unseen) == 2 * 4 + 2
    assert "✓" in "".join(outline.words)
    assert sum("s 0.90" in part for part in outline.words) == 4 * 4  # of every first answer


def test_photograph_is_shown_the_right_way_up(tmp_path):
    picture, exif = Image.new("RGB", (400, 200)), Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    picture.save(tmp_path / "turned.jpg", exif=exif)
    assert thumbnail(tmp_path / "turned.jpg").size == (80, 160)


def test_doubt_is_never_shown_without_its_gallery(outline):
    told = [part for part in outline.words if re.search(r"\bu 0\.\d+", part)]
    assert told
    assert all("K = " in part for part in told)


# --- what can go wrong ----------------------------------------------------------------


def test_no_study():
    with pytest.raises(BadData) as caught:
        write_report([], Path("nowhere"))
    assert str(caught.value) == (
        "There is no study to report. Expected the content of at least one study.json; "
        "measure a run first."
    )


def test_studies_of_two_recipes():
    studies = [{"about": {"recipe": name}} for name in ("b/two", "a/one")]
    with pytest.raises(BadData) as caught:
        write_report(studies, Path("nowhere"))
    assert str(caught.value) == (
        "The studies are of more than one recipe: 'a/one', 'b/two'. Expected seeds of one "
        "recipe on one split; write a report for each."
    )


def test_without_matplotlib(study, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra) as caught:
        write_report([study], tmp_path)
    assert str(caught.value) == (
        "The report needs the package 'matplotlib', which is not installed. "
        "Install it with: pip install 'avow[report]'."
    )


# --- in a browser ---------------------------------------------------------------------


INK = "getComputedStyle(document.querySelector('svg text')).fill"


@pytest.mark.browser
def test_page_in_a_browser(report, visit):
    """On large and small screens, by day and by night, when pictures turn dark as well."""
    seen, inks = visit(report, height=844), set()
    seen.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for scheme in ("light", "dark"):
        seen.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for width in (1280, 390, 320):
            seen.page.set_viewport_size({"width": width, "height": 844})
            assert not seen.scrolls_sideways(), (width, scheme)
            assert seen.unseen_images() == [], (width, scheme)
        inks.add(seen.page.evaluate(INK))
    assert len(inks) == 2
    assert seen.complaints == []
    assert [url for url in seen.asked if not url.startswith("data:")] == [report.as_uri()]
