"""Pixels of decoded frames: size, turn, colours, and how frames differ."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from avow.core.photographs import on_paper
from avow.core.shapes import Float32, UInt8

if TYPE_CHECKING:
    from av.video.frame import VideoFrame
    from av.video.reformatter import VideoReformatter

_ROWS, _COLUMNS = 27, 36  # points at which brightness is compared
_BLOCK = 3  # points are averaged by 3 x 3, so that noise and small movements count less


@dataclass(frozen=True)
class Turn:
    """How decoded pixels become upright: transposed first, then mirrored."""

    transposed: bool = False
    mirrored: bool = False
    upside_down: bool = False

    @property
    def degrees(self) -> int:
        """Clockwise; a picture that is also mirrored counts as its turn alone."""
        if self.transposed:
            return 270 if self.upside_down else 90
        return 180 if self.upside_down else 0

    def apply(self, pixels: np.ndarray) -> np.ndarray:
        pixels = pixels.swapaxes(0, 1) if self.transposed else pixels
        pixels = pixels[:, ::-1] if self.mirrored else pixels
        pixels = pixels[::-1] if self.upside_down else pixels
        return np.ascontiguousarray(pixels)


_TURNS = {
    90: Turn(True, False, True),
    180: Turn(False, True, True),
    270: Turn(True, True, False),
}
"""By degrees counterclockwise, as PyAV gives them."""


def orientation(frame: "VideoFrame") -> Turn:
    """From the display matrix: decoded (x, y) is shown at (a x + c y, b x + d y)."""
    try:
        data: Any = frame.side_data.get("DISPLAYMATRIX")
    except ValueError:  # a kind of side data that PyAV does not know stands beside it
        return _TURNS.get(frame.rotation % 360, Turn())
    if data is None:
        return Turn()
    a, b, _, c, d = np.frombuffer(bytes(data)[:20], np.int32)
    if abs(int(b)) > abs(int(a)):
        return Turn(True, bool(c < 0), bool(b < 0))
    return Turn(False, bool(a < 0), bool(d < 0))


def upright_size(frame: "VideoFrame", aspect: float, turn: Turn) -> tuple[int, int]:
    """Width and height as shown. aspect: of one pixel, width to height."""
    width, height = max(round(frame.width * aspect), 1), frame.height
    return (height, width) if turn.transposed else (width, height)


def rgb(
    frame: "VideoFrame", edge: int, aspect: float, turn: Turn, scaler: "VideoReformatter"
) -> UInt8[np.ndarray, "height width 3"]:
    """Upright in red, green and blue, the longer side at most `edge`.

    scaler: kept for all frames of a video, as its tables take megabytes.
    """
    width, height = max(round(frame.width * aspect), 1), frame.height
    scale = min(edge / max(width, height), 1.0)
    size: dict[str, Any] = {
        "width": max(round(width * scale), 1),
        "height": max(round(height * scale), 1),
        "interpolation": "AREA" if scale <= 0.5 else "BICUBIC",
    }
    if _has_alpha(frame):
        pixels = scaler.reformat(frame, format="rgba", **size).to_ndarray()
        pixels = np.asarray(on_paper(Image.fromarray(pixels)))
    else:
        pixels = scaler.reformat(frame, format="rgb24", **size).to_ndarray()
    return turn.apply(pixels)


def brightness(frame: "VideoFrame") -> Float32[np.ndarray, "rows columns"]:
    """Brightness of a few blocks, 0 to 1, read from the decoded plane where there is one."""
    points = _points(frame)
    if points is None:
        grey = frame.reformat(width=_COLUMNS, height=_ROWS, format="gray").to_ndarray()
        points = grey.astype(np.float32) / 255
    blocks = points.reshape(_ROWS // _BLOCK, _BLOCK, _COLUMNS // _BLOCK, _BLOCK)
    return blocks.mean((1, 3), dtype=np.float32)


def _points(frame: "VideoFrame") -> np.ndarray | None:
    """Every few pixels of the plane of brightness; None where there is no such plane."""
    layout = frame.format
    first = layout.components[0]
    if layout.is_rgb or layout.has_palette or not first.is_luma or not layout.is_planar:
        return None
    if (
        frame.width < _COLUMNS
        or frame.height < _ROWS
        or layout.is_big_endian != (sys.byteorder == "big")
    ):
        return None
    plane: Any = frame.planes[0]
    kind = np.uint8 if first.bits <= 8 else np.uint16
    values = np.frombuffer(plane, kind).reshape(plane.height, -1)
    rows = (np.arange(_ROWS) * 2 + 1) * frame.height // (2 * _ROWS)
    columns = (np.arange(_COLUMNS) * 2 + 1) * frame.width // (2 * _COLUMNS)
    return values[rows[:, None], columns].astype(np.float32) / (2**first.bits - 1)


def _has_alpha(frame: "VideoFrame") -> bool:
    return any(one.is_alpha for one in frame.format.components) or frame.format.name == "pal8"
