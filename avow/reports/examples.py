"""The most and the least trusted queries of a study, with their answers and photographs."""

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from avow.core.photographs import open_photograph, upright_rgb
from avow.reports.page import Html, element, joined, safe
from avow.reports.seeds import Seeds, plain
from avow.reports.words import percent

Pictures = Callable[[str], Path | None]
"""Where the photograph of an image lies, for images that have one."""

SHOWN, ANSWERS = 6, 5
LARGEST = (280, 160)
"""Width and height within which a photograph is kept."""
_QUALITY = 80


def examples(study: Seeds, direction: str, pictures: Pictures | None) -> Html:
    """Both ends of the order of trust, as the first seed has it."""
    found = study.at("directions", direction, "extremes").first or {}
    candidates = study.at("directions", direction, "candidates").number
    setting = f"K = {plain(candidates.mean, 0)}" if candidates else ""
    parts = []
    for key, title in (("most", "Most trusted"), ("least", "Least trusted")):
        cards = [
            _card(example, direction, setting, pictures)
            for example in (found.get(key) or [])[:SHOWN]
        ]
        if cards:
            named = f"{title}, {direction} queries"
            parts += [element("h3", named), element("ul", *cards, class_="examples")]
    return joined(parts)


def _card(
    example: dict[str, Any], direction: str, setting: str, pictures: Pictures | None
) -> Html:
    answers = (example.get("answers") or [])[:ANSWERS]
    if direction == "text":
        asked = element("blockquote", str(example["query"]))
        listed = [_picture_answer(answer, pictures) for answer in answers]
        kind = "pictured"
    else:
        asked = photograph(str(example["query"]), "Query photograph", "asked", pictures)
        listed = [_text_answer(answer) for answer in answers]
        kind = "written"
    shown = element("ol", *listed, class_=f"answers {kind}") if listed else Html("")
    return element("li", asked, _said(example, setting), shown, class_="example")


def _said(example: dict[str, Any], setting: str) -> Html:
    """Trust as a bar and in figures, u with its number of candidates, and the truth."""
    trust = float(example.get("trust", 0))
    width = f"width: {100 * min(max(trust, 0), 1):.1f}%"
    bar = element("span", element("span", style=width), class_="meter", aria_hidden="true")
    words: list[str] = [element("strong", f"trust {percent(trust)}")]
    if "u" in example:
        formed = f" ({setting})" if setting else ""
        words.append(f"u {plain(float(example['u']), 3)}{formed}")
    if "right" in example:
        words.append(f"first answer {'right' if example['right'] else 'wrong'}")
    line = Html(" · ".join(safe(part) for part in words))
    return joined([bar, element("p", line, class_="said")])


def _picture_answer(answer: dict[str, Any], pictures: Pictures | None) -> Html:
    told = _told(answer)
    picture = photograph(str(answer["id"]), "Photograph", "", pictures)
    return element("li", picture, element("span", told), **_class(answer))


def _text_answer(answer: dict[str, Any]) -> Html:
    said = element("span", str(answer["id"]))
    return element("li", element("span", _told(answer)), said, **_class(answer))


def _told(answer: dict[str, Any]) -> str:
    """How probable it is, and a mark that needs no colour where it is right."""
    probability = answer.get("probability")
    shown = "" if probability is None else percent(float(probability))
    return f"✓\N{NO-BREAK SPACE}{shown}".strip() if answer.get("right") else shown


def _class(answer: dict[str, Any]) -> dict[str, str]:
    return {"class_": "right"} if answer.get("right") else {}


def photograph(name: str, what: str, kind: str, pictures: Pictures | None) -> Html:
    path = pictures(name) if pictures is not None else None
    if path is None:
        return element("span", name, class_="unseen")
    image = thumbnail(path)
    text = base64.b64encode(_jpeg(image)).decode("ascii")
    given = {
        "src": f"data:image/jpeg;base64,{text}",
        "alt": f"{what} {name}",
        "width": str(image.width),
        "height": str(image.height),
        **({"class_": kind} if kind else {}),
    }
    return Html(element("img", **given).removesuffix("</img>"))


def thumbnail(path: Path) -> Image.Image:
    """A photograph the right way up, small enough to be part of a page."""
    image = upright_rgb(open_photograph(path))
    image.thumbnail(LARGEST, Image.Resampling.LANCZOS)
    return image


def _jpeg(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format="JPEG", quality=_QUALITY, optimize=True)
    return stream.getvalue()
