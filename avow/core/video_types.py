"""What is known of a video and of one of its frames."""

from dataclasses import dataclass

import numpy as np

from avow.core.shapes import UInt8

EDGE = 512
"""Pixels of the longer side of a frame, unless asked otherwise: twice what the model takes."""


@dataclass(frozen=True)
class VideoInfo:
    """What the headers and the first frame say."""

    duration: float | None
    """Seconds from the first frame to the end; None where the headers do not say."""
    first: float
    """Time of the first frame: the clock of a file may begin anywhere."""
    width: int
    height: int
    """As it is shown: turned, with square pixels."""
    rotation: int
    """Degrees clockwise that the decoded frames are turned by to be upright."""
    codec: str
    container: str
    rate: float | None
    """Frames per second on average."""
    audio: bool
    streams: int


@dataclass(frozen=True)
class Frame:
    """One picture of a video, upright."""

    time: float
    """When it is shown first, in seconds of the file."""
    end: float
    """When the next frame that was asked for is shown, or the video ends; later than `time`."""
    image: UInt8[np.ndarray, "height width 3"]
    """Red, green and blue; what was transparent is white."""
    is_keyframe: bool
    change: float = 0.0
    """The largest change of brightness from one decoded frame to the next since the frame
    before this one, from 0 to 1: a cut inside the step shows here."""
    change_time: float = 0.0
    """When that change happened: the time of the frame after it, or the middle between both
    frames where they are far apart."""
    motion: float = 0.0
    """The median change in the step: what movement alone does here."""
