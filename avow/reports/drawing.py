"""How pictures of the report look, and how they become files and parts of a page.

    paint --matplotlib--> SVG and PNG files, in colours for paper
                      '-> inline SVG whose colours follow the page, in light and in dark

matplotlib is no part of a plain install and is imported when the first picture is drawn.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from avow.core.errors import MissingExtra
from avow.core.files import room_needed

Axes = Any
"""matplotlib's, which cannot be named before it is imported."""

INK, MUTED, FAINT, PAPER = "#1c2024", "#6a7178", "#c9ced3", "#fffffe"
ACCENT, ACCENT_SOFT, ACCENT_PALE = "#0b6b75", "#5ba4ab", "#d3e6e8"
VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    FAINT: "faint",
    PAPER: "paper",
    ACCENT: "accent",
    ACCENT_SOFT: "accent-soft",
    ACCENT_PALE: "accent-pale",
}
"""Colours that the page's style sheet gives anew for dark screens."""

WIDTH = 4.8  # inches; at this width text stays readable on a telephone
_DOTS = 200
_STYLE: dict[Any, Any] = {
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.titlesize": 10.5,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "text.color": INK,
    "font.size": 10,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",  # text stays text, in the reader's own font
    "svg.hashsalt": "avow",  # the same study gives the same file
}


@dataclass(frozen=True)
class Drawing:
    """A finished picture: what it shows in words, and how it looks."""

    name: str
    alt: str
    svg: str
    png: bytes

    @property
    def inline(self) -> str:
        """An SVG element for a page: its colours are the page's, its ids its own."""
        root = ElementTree.fromstring(self.svg)
        for metadata in root.findall("{*}metadata"):
            root.remove(metadata)
        for part in root.iter():
            part.tag = _local(part.tag)
            for key, text in list(part.items()):
                del part.attrib[key]
                part.set(_local(key), self._on_page(_local(key), text))
        # the size of a picture on a page is the page's affair
        del root.attrib["width"], root.attrib["height"]
        root.attrib |= {"role": "img", "aria-label": self.alt}
        return ElementTree.tostring(root, encoding="unicode")

    def _on_page(self, attribute: str, text: str) -> str:
        """The value of an attribute where other pictures are on the same page."""
        if attribute == "id":
            return f"{self.name}-{text}"
        if attribute == "href" and text.startswith("#"):
            return f"#{self.name}-{text[1:]}"
        for colour, name in VARIABLES.items():
            text = text.replace(colour, f"var(--{name})")
        return text.replace("url(#", f"url(#{self.name}-")


def draw(
    name: str,
    alt: str,
    paint: Callable[[list[Axes]], None],
    panels: int = 1,
    height: float = 3.8,
) -> Drawing:
    """Give `paint` empty axes, one above the other, and keep what it paints."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtra("The report", "matplotlib", "report") from error
    svg, png = io.StringIO(), io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots(panels, 1, sharex=panels > 1, squeeze=False)
        paint(list(axes[:, 0]))
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.set_layout_engine("none")  # found already, and slow to find again
        figure.savefig(png, format="png", dpi=_DOTS)
    return Drawing(name, alt, svg.getvalue(), png.getvalue())


def _local(name: str) -> str:
    """Without its namespace, which HTML gives by itself."""
    return name.rpartition("}")[2]


def save(drawing: Drawing, folder: Path) -> None:
    """Write the picture as `name.svg` and `name.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    with room_needed(folder):
        (folder / f"{drawing.name}.svg").write_text(drawing.svg, encoding="utf-8")
        (folder / f"{drawing.name}.png").write_bytes(drawing.png)
