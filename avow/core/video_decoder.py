"""From packets to frames with their times; damaged packets are skipped and counted."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from avow.core.video_files import LONGEST, opened, prepare_decoder, pyav
from avow.core.video_pixels import Turn, orientation

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_MOST_ERRORS_IN_A_ROW = 2000
_LEAP = 60.0  # seconds from one frame to the next, past the end that the headers give


class Decoder:
    """Frames of one open video, in the order they are shown."""

    def __init__(self, container: "InputContainer", stream: "VideoStream"):
        self.container, self.stream = container, stream
        self.damaged = 0
        self.keyframes_only = False
        self.aspect = _aspect(stream)
        self.scaler = pyav().video.reformatter.VideoReformatter()
        self._errors_in_a_row = 0
        self._turn: tuple[int, Turn] | None = None
        for other in container.streams:
            if other.index != stream.index:
                other.discard = pyav().stream.Discard.all  # not even read, where possible

    @property
    def frame_seconds(self) -> float:
        """How long one frame is shown, by the average rate."""
        rate = float(self.stream.average_rate or 0)
        return 1 / rate if math.isfinite(rate) and rate > 0 else 0.04

    @property
    def end(self) -> float | None:
        """When the video ends, as the headers say."""
        start, length = self.stream.start_time, self.stream.duration
        if length is not None and self.stream.time_base is not None:
            return float(((start or 0) + length) * self.stream.time_base)
        if self.container.duration is None:
            return None
        start, length = max(self.container.start_time or 0, 0), self.container.duration
        from_zero = self.container.format.name.startswith("matroska") and length > start
        return (length if from_zero else start + length) / 1e6

    def prepare(
        self, threads: int, skip: str = "DEFAULT", keyframes_only: bool = False
    ) -> None:
        """Before the first frame: how many threads, and which frames are left out."""
        self.keyframes_only = keyframes_only
        prepare_decoder(self.stream, threads, skip)

    def turn(self, frame: "VideoFrame") -> Turn:
        """How a frame becomes upright; its display matrix is read when its rotation changes.

        PyAV's side data and their frame hold each other, so that frames whose side data were
        asked for stay in memory until the garbage collector runs.
        """
        rotation = frame.rotation
        if self._turn is None or self._turn[0] != rotation:
            self._turn = rotation, orientation(frame)
        return self._turn[1]

    def seek(self, time: float) -> None:
        """Go to the keyframe before `time`; a file that cannot seek is read from its start."""
        base = self.stream.time_base
        if base is None or time <= 0:
            return
        try:
            self.container.seek(int(time / base), stream=self.stream)
        except (pyav().FFmpegError, OverflowError):
            self.damaged += 1

    def frames(self) -> "Iterator[tuple[float, VideoFrame]]":
        """Frames and when they are shown; times ascend."""
        last, first = -math.inf, math.inf
        end = self.end or 0.0  # headers of a live recording say nothing, or too little
        for packet in self._packets():
            for frame in self._decoded(packet):
                time = self._time(frame, last)
                leaps = time > max(last, end) + _LEAP and math.isfinite(last)
                if time <= last or leaps:
                    self.damaged += 0 if time == last else 1
                    continue
                last, first = time, min(first, time)
                if time - first > LONGEST:
                    return
                yield time, frame

    def _packets(self) -> "Iterator[Packet[VideoStream]]":
        """All packets of the pictures; an empty one comes last and empties the decoder."""
        packets = self.container.demux(self.stream)
        while self._errors_in_a_row < _MOST_ERRORS_IN_A_ROW:
            try:
                packet = next(packets)
            except StopIteration:
                return
            except pyav().FFmpegError:
                self.damaged += 1
                self._errors_in_a_row += 1
                packets = self.container.demux(self.stream)
                continue
            if packet.is_keyframe or not packet.size or not self.keyframes_only:
                yield packet

    def _decoded(self, packet: "Packet[VideoStream]") -> "list[VideoFrame]":
        try:
            frames = packet.decode()
        except (pyav().FFmpegError, ValueError):
            self.damaged += 1 if packet.size else 0
            self._errors_in_a_row += 1
            return []
        self._errors_in_a_row = 0
        return frames

    def _time(self, frame: "VideoFrame", last: float) -> float:
        time = frame.time
        if time is None and frame.dts is not None and frame.time_base is not None:
            time = float(frame.dts * frame.time_base)
        if time is None:
            time = last + self.frame_seconds if math.isfinite(last) else 0.0
        return time


def keyframe_times(path: Path) -> list[float]:
    """When frames that can be decoded alone are shown, from packets only; ascending."""
    times = set[float]()
    with opened(path) as (container, stream):
        decoder = Decoder(container, stream)
        base = stream.time_base or 0
        for packet in decoder._packets():
            moment = packet.pts if packet.pts is not None else packet.dts
            if packet.is_keyframe and packet.size and moment is not None:
                times.add(float(moment * base))
    return sorted(times)


def _aspect(stream: "VideoStream") -> float:
    """Width to height of one pixel; absurd values are errors of the file."""
    aspect = float(stream.sample_aspect_ratio or 1)
    return aspect if 0.25 <= aspect <= 4 else 1.0
