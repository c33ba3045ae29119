"""Cut a part out of a video without coding it again: packets are copied as they are.

    keyframe before the start ... start ... end      copied, sound included

A part can begin only at a frame that stands alone, so that the clip begins at the keyframe
before the start that was asked for, and says so.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from avow.core.errors import BadQuery
from avow.core.formats import ANIMATION_SUFFIXES
from avow.core.video_files import explained, opened, pyav, unreadable

if TYPE_CHECKING:
    from av.container import InputContainer, OutputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.stream import VideoStream

_MUXERS = {
    ".mp4": "mp4",
    ".m4v": "mp4",
    ".mov": "mov",
    ".mkv": "matroska",
    ".webm": "webm",
}


@dataclass(frozen=True)
class Clip:
    """What was written."""

    path: Path
    start: float
    """Time in the video where the clip begins: at or before the start asked for."""
    end: float
    """Time in the video where it ends."""


def cut(path: Path, start: float, end: float, out: Path) -> Clip:
    """Copy what is shown from `start` to `end` to a new file; its suffix says the container.

    A file that is there is replaced, once the new one is whole.
    """
    _check(path, start, end, out)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        with opened(path) as (container, stream):
            with explained(path, f"cut to a {out.suffix} file (try .mkv)"):
                span = _copy(
                    container, stream, (start, end), partial, _MUXERS[out.suffix.lower()]
                )
        if span is None:
            raise unreadable(path, f"nothing is shown from {start:g} to {end:g} seconds", "cut")
        os.replace(partial, out)
    finally:
        partial.unlink(missing_ok=True)
    return Clip(out, *span)


def _check(path: Path, start: float, end: float, out: Path) -> None:
    if path.suffix.lower() in ANIMATION_SUFFIXES:
        raise unreadable(path, "animated pictures have no packets to copy", "cut")
    if out.suffix.lower() not in _MUXERS:
        raise BadQuery(
            f"The clip {str(out)!r} has no known container. Expected a name that ends in "
            f"{', '.join(_MUXERS)}; change its suffix."
        )
    if not 0 <= start < end:
        raise BadQuery(
            f"There is no clip from '{start:g}' to '{end:g}' seconds. "
            "Expected 0 <= start < end; change the times."
        )
    if out.exists() and out.samefile(path):
        raise BadQuery(
            f"The clip {str(out)!r} would replace its own video. Expected another name."
        )


def _copy(
    container: "InputContainer",
    stream: "VideoStream",
    span: tuple[float, float],
    out: Path,
    muxer: str,
) -> tuple[float, float] | None:
    """Write packets whose time lies in the span; None where there is none."""
    sound = container.streams.best("audio")
    sources: list[Stream] = [stream] if sound is None else [stream, sound]
    container.seek(int(span[0] / (stream.time_base or 1)), stream=stream)
    av = pyav()
    with av.open(os.fspath(out), "w", format=muxer) as writer:
        copies = {one.index: _like(writer, one) for one in sources}
        return _Copier(writer, copies, stream.index, span).run(container.demux(sources))


def _like(writer: "OutputContainer", stream: "Stream") -> "Stream":
    copy = writer.add_stream_from_template(stream, opaque=True)
    copy.metadata.clear()  # titles and handler names of the source stay behind
    return copy


class _Copier:
    """Moves packets so that the first keyframe is at zero."""

    def __init__(
        self,
        writer: "OutputContainer",
        copies: "dict[int, Stream]",
        pictures: int,
        span: tuple[float, float],
    ):
        self.writer, self.copies, self.pictures, self.span = writer, copies, pictures, span
        self.first: float | None = None
        self.last = 0.0
        self._early: list[Packet[Any]] = []

    def run(self, packets: Any) -> tuple[float, float] | None:
        over: set[int] = set()
        for packet in packets:
            if packet.dts is None:
                continue
            if float(packet.dts * packet.time_base) >= self.span[1]:
                over.add(packet.stream_index)
                if len(over) == len(self.copies) or packet.stream_index == self.pictures:
                    break
                continue
            self._take(packet)
        return None if self.first is None else (self.first, max(self.last, self.first))

    def _take(self, packet: "Packet[Any]") -> None:
        moment = packet.dts if packet.pts is None else packet.pts
        time = float((moment or 0) * packet.time_base)
        if packet.stream_index == self.pictures:
            if self.first is None:
                if not packet.is_keyframe:
                    return
                self.first = time
            self.last = max(self.last, time + float((packet.duration or 0) * packet.time_base))
        elif self.first is None or time < self.first:
            return
        self._write(packet)

    def _write(self, packet: "Packet[Any]") -> None:
        assert self.first is not None
        shift = round(self.first / packet.time_base)
        packet.dts = None if packet.dts is None else packet.dts - shift
        packet.pts = None if packet.pts is None else packet.pts - shift
        packet.stream = self.copies[packet.stream_index]
        self.writer.mux_one(packet)
