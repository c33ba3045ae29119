"""Videos made of photographs, always the same for the same seed: what they show is known.

    photographs --plan--> shots and transitions --render--> frames --encode--> a file, its truth

Every shot is one photograph under a moving window (pan, zoom, unsteady hand). Shots follow each
other by a cut, a cross-fade, or a fade through black. Styles give codec, container, frame rate,
keyframes, rotation flag, noise, late starts and changing frame rates.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

WIDTH, HEIGHT = 320, 240
SHORTEST, LONGEST_SHOT = 2.5, 9.0
SHORTEST_FADE, LONGEST_FADE = 0.6, 2.0
TRANSITIONS = {"cut": 0.6, "fade": 0.3, "black": 0.1}
_TICKS = 90_000
_BLACK_OPENING = 1.5

_FAST = ("preset", "veryfast")


@dataclass(frozen=True)
class Style:
    """How one video is written."""

    name: str
    codec: str
    suffix: str
    rate: int
    options: tuple[tuple[str, str], ...] = ()
    rotation: int = 0
    noise: float = 0.0
    first: float = 0.0
    """Seconds on the clock of the file when the first frame is shown."""
    varying: bool = False
    """Whether the distances of frames change all the time."""
    black_opening: bool = False


STYLES = (
    Style("h264, keyframes at cuts", "libx264", ".mp4", 25, (_FAST,)),
    Style("h264, keyframe every 30, rotated", "libx264", ".mp4", 30,
          (_FAST, ("g", "30"), ("sc_threshold", "0")), rotation=90),
    Style("mpeg4, keyframe every 12", "mpeg4", ".avi", 15, (("g", "12"), ("qscale", "4"))),
    Style("vp9, noise", "libvpx-vp9", ".webm", 24,
          (("deadline", "realtime"), ("cpu-used", "8"), ("g", "120")), noise=8.0),
    Style("h264, varying rate, late start", "libx264", ".mkv", 24, (_FAST, ("g", "250")),
          first=1.7, varying=True),
    Style("hevc, keyframe every 60", "libx265", ".mp4", 20,
          (("preset", "ultrafast"), ("x265-params", "keyint=60:scenecut=0:log-level=none"))),
    Style("h264, one keyframe in 250, noise", "libx264", ".mov", 25,
          (_FAST, ("g", "250"), ("sc_threshold", "0")), noise=12.0),
    Style("mjpeg, black opening", "mjpeg", ".mov", 12, (("qscale", "3"),), black_opening=True),
)  # fmt: skip


@dataclass(frozen=True)
class Shot:
    """One photograph in a video."""

    photograph: int
    start: float
    end: float
    """Times of the file; in a fade, its middle."""
    transition: str
    """How it follows the shot before it; "" for the first."""
    fade: float
    """Seconds of that transition."""


@dataclass(frozen=True)
class Plan:
    """What one video shows."""

    source: str
    """Dataset and split of the photographs."""
    seed: int
    style: Style
    shots: tuple[Shot, ...]

    @property
    def first(self) -> float:
        return self.style.first

    @property
    def end(self) -> float:
        return self.shots[-1].end

    def key(self) -> str:
        """Changes with anything that is planned."""
        return f"{zlib.crc32(repr(asdict(self)).encode()):08x}"


def plan(source: str, seed: int, style: Style, photographs: Sequence[int]) -> Plan:
    """Draw lengths and transitions."""
    rng = np.random.default_rng([seed, 7])
    time = style.first + (_BLACK_OPENING if style.black_opening else 0.0)
    shots = list[Shot]()
    for number, photograph in enumerate(photographs):
        kind = (
            ""
            if not number
            else str(rng.choice(list(TRANSITIONS), p=list(TRANSITIONS.values())))
        )
        fade = (
            float(rng.uniform(SHORTEST_FADE, LONGEST_FADE))
            if kind in ("fade", "black")
            else 0.0
        )
        length = float(rng.uniform(SHORTEST, LONGEST_SHOT))
        shots.append(Shot(int(photograph), time, time + length, kind, fade))
        time += length
    return Plan(source, seed, style, tuple(shots))


def make(plan: Plan, files: Sequence[Path], out: Path) -> None:
    """Render and encode one video."""
    style = plan.style
    turned = style.rotation in (90, 270)
    with av.open(str(out), "w") as container:
        stream: Any = container.add_stream(
            style.codec, rate=style.rate, options=dict(style.options)
        )
        stream.width, stream.height = (HEIGHT, WIDTH) if turned else (WIDTH, HEIGHT)
        stream.pix_fmt = "yuvj420p" if style.codec == "mjpeg" else "yuv420p"
        stream.codec_context.time_base = Fraction(1, _TICKS if style.varying else style.rate)
        stream.thread_count = 1  # the same bytes on every machine
        if style.rotation:
            stream.set_display_rotation(style.rotation)
        for time, pixels in _Renderer(plan, files).frames():
            pixels = np.rot90(pixels, -style.rotation // 90)  # the flag turns it back
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), "rgb24")
            frame.time_base = stream.codec_context.time_base
            frame.pts = round(time / frame.time_base)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


class _Renderer:
    """Frames of a plan, one by one."""

    def __init__(self, plan: Plan, files: Sequence[Path]):
        self.plan = plan
        self.rng = np.random.default_rng([plan.seed, 8])
        self.images = [_opened(files[shot.photograph]) for shot in plan.shots]
        self.paths = [_window(self.rng) for _ in plan.shots]
        self.grain = self.rng.normal(0, 1, (HEIGHT, WIDTH, 3)).astype(np.float32)

    def frames(self) -> Iterator[tuple[float, np.ndarray]]:
        style = self.plan.style
        time = style.first
        while time < self.plan.end - 1e-6:
            pixels = self._shown(time)
            if style.noise:
                pixels = pixels + style.noise * self._noise()
            yield time, pixels.clip(0, 255).astype(np.uint8)
            step = self.rng.uniform(0.4, 2.2) if style.varying else 1.0
            time += step / style.rate

    def _noise(self) -> np.ndarray:
        """One field of noise, moved anywhere: drawing every pixel anew takes too long."""
        return np.roll(self.grain, self.rng.integers(0, (HEIGHT, WIDTH)), (0, 1))

    def _shown(self, time: float) -> np.ndarray:
        shots = self.plan.shots
        now = next((n for n, one in enumerate(shots) if one.start <= time < one.end), -1)
        if now < 0:
            return np.zeros((HEIGHT, WIDTH, 3), np.float32)
        for number in (now, now + 1):  # the middle of a fade is a border of two shots
            if 0 < number < len(shots) and shots[number].fade:
                share = (time - shots[number].start) / shots[number].fade + 0.5
                if 0 < share < 1:
                    return self._mixed(number, share, time)
        return self._photograph(now, time)

    def _mixed(self, number: int, share: float, time: float) -> np.ndarray:
        before, after = self._photograph(number - 1, time), self._photograph(number, time)
        if self.plan.shots[number].transition == "black":
            return before * max(1 - 2 * share, 0) + after * max(2 * share - 1, 0)
        return before * (1 - share) + after * share

    def _photograph(self, number: int, time: float) -> np.ndarray:
        shot = self.plan.shots[number]
        share = float(np.clip((time - shot.start) / (shot.end - shot.start), -0.2, 1.2))
        image = self.images[number]
        box = _box(self.paths[number], share, image.size)
        small = image.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR, box=box)
        return np.asarray(small, np.float32)


def _opened(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


def _window(rng: np.random.Generator) -> np.ndarray:
    """Size and centre of the window at the start and the end, as shares; and a shake."""
    sizes = (
        rng.uniform(0.6, 0.95, 2) if rng.random() < 0.5 else np.full(2, rng.uniform(0.65, 0.9))
    )
    centres = rng.uniform(0.0, 1.0, (2, 2))
    return np.array([*sizes, *centres.ravel(), rng.uniform(0, 0.012), rng.uniform(0, 6.28)])


def _box(
    path: np.ndarray, share: float, size: tuple[int, int]
) -> tuple[float, float, float, float]:
    width, height = size
    scale = path[0] + (path[1] - path[0]) * share
    centre = path[2:4] + (path[4:6] - path[2:4]) * share
    centre = centre + path[6] * np.sin(40 * share + path[7] + np.array([0.0, 1.3]))
    scale, centre = float(np.clip(scale, 0.5, 1.0)), np.clip(centre, 0.0, 1.0)
    left = centre[0] * width * (1 - scale)
    top = centre[1] * height * (1 - scale)
    return left, top, left + width * scale, top + height * scale
