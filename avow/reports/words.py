"""What the report calls things: directions, measures, events, and shares in words."""

import re
from collections.abc import Iterable, Mapping

from markupsafe import Markup

from avow.reports.seeds import Number, Seeds, plain, value

OURS = "calibrated trust"
PRESENT = "probability of a match"
"""What refusals go by, where it was fitted: that the gallery holds a match at all."""
DIRECTIONS = {"text": "text queries", "image": "image queries"}
SEARCHES = {"text": "text to image", "image": "image to text"}
LIKE_SOFTMAX = ("softmax", "probability", "softmax probability")
KINDS = {"words": "words hidden", "regions": "regions hidden", "both": "both hidden"}
CHANCES = {
    "mc_dropout": "dropout",
    "stochastic_bn": "drawn batch statistics",
    "stochastic_bn from pixels": "drawn batch statistics of the backbone",
}
EVENTS = {
    "first answer": "the first answer is right",
    "one of ten": "one of ten answers is right",
}


def find(names: Iterable[str], *wanted: str) -> str | None:
    """The measure that ends in one of `wanted`, whichever probe it stands under."""
    listed = list(names)
    for ending in wanted:
        for name in listed:
            if re.split(r"\s*[/:]\s*", name)[-1] == ending:
                return name
    return None


def is_ours(name: str) -> bool:
    return name in (OURS, PRESENT) or name.startswith(f"{OURS},")


def rivals(names: Iterable[str]) -> dict[str, str]:
    """What trust is compared with by name: u and the softmax, where they were measured."""
    listed = list(names)
    pairs = {"u": find(listed, "u"), "the softmax": find(listed, *LIKE_SOFTMAX)}
    return {said: name for said, name in pairs.items() if name is not None}


def ordered(measures: Seeds, figure: str = "auroc") -> list[str]:
    """Measures by name: ours first, the others from good to bad."""
    others = [name for name in measures.names if name != OURS]
    others.sort(key=lambda name: -_known(measures.at(name, figure).number))
    return [OURS, *others] if OURS in measures.names else others


def percent(share: float | Number | None, digits: int = 0) -> str:
    """A share from 0 to 1 in words: 84 %, and never 100 % or 0 % for almost that."""
    number = value(share) if share is None or isinstance(share, Number) else share
    step = 10.0**-digits
    if 0 < number < step / 200:
        return f"<\N{NO-BREAK SPACE}{plain(step, digits)}\N{NO-BREAK SPACE}%"
    if 1 - step / 200 < number < 1:
        return f">\N{NO-BREAK SPACE}{plain(100 - step, digits)}\N{NO-BREAK SPACE}%"
    return f"{plain(100 * number, digits)}\N{NO-BREAK SPACE}%"


def each(said: Mapping[str, str], unit: str = "", link: str = "of") -> Markup:
    """One value per direction: "84 % of text queries and 82 % of image queries".

    unit: said once, after the first value.
    """
    names = [DIRECTIONS[direction] for direction in said]
    if len(said) > 1 and len(set(said.values())) == 1:
        kinds = " and ".join(name.removesuffix(" queries") for name in names)
        first = next(iter(said.values()))
        return Markup("{}{} {} {} queries").format(first, unit, link, kinds)
    units = [unit, *[""] * len(said)]
    return Markup(" and ").join(
        Markup("{}{} {} {}").format(words, one, link, name)
        for words, one, name in zip(said.values(), units, names, strict=False)
    )


def both(said: Iterable[str]) -> str:
    """Values whose directions were named before: "69 % and 72 %", "69 % in both"."""
    listed = list(said)
    if len(listed) > 1 and len(set(listed)) == 1:
        return f"{listed[0]} in both"
    return " and ".join(listed)


def setting_of_u(study: Seeds, direction: str) -> str:
    """What u was formed with, which must stand beside it wherever it is shown."""
    about = study.at("about").first or {}
    parts = []
    kind = about.get("evidence", about.get("kind"))
    if candidates := study.at("directions", direction, "candidates").number:
        parts.append(f"K = {plain(candidates.mean, 0)}")
    if "tau" in about:
        parts.append(f"τ = {about['tau']:g}")
    if kind:
        parts.append(f"{kind} evidence")
    return ", ".join(parts)


def _known(number: Number | None) -> float:
    return -1.0 if number is None else number.mean
