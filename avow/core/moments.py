"""Moments of videos: when one begins and ends, and how that is written.

An item of an index that comes from a video is a moment of it. Its times stand in the `part` of
the item, as the name of a row stands there for an item of a table:

    72.000-80.500 key 75.000 of 312.480      seconds of the file; the key frame shows it
"""

import re
from dataclasses import dataclass

_PART = re.compile(r"(\d+\.\d{3})-(\d+\.\d{3}) key (\d+\.\d{3}) of (\d+\.\d{3})", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,4}):(\d{1,2}(?:\.\d{1,6})?)", re.ASCII)
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(s|sec|m|min|h)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
TOUCHING = 0.25
"""Seconds between the end of one moment and the start of the next that are no gap."""


@dataclass(frozen=True)
class Moment:
    """A span of a video, in seconds of its file."""

    start: float
    end: float
    key: float
    """When the frame is shown that stands for it."""
    duration: float
    """Of the whole video."""

    @property
    def part(self) -> str:
        """How the catalogue of an index keeps it."""
        times = f"{self.start:.3f}-{self.end:.3f}"
        return f"{times} key {self.key:.3f} of {self.duration:.3f}"

    @classmethod
    def parse(cls, part: str) -> "Moment | None":
        """The moment that `part` names; None where it names none."""
        match = _PART.fullmatch(part)
        return None if match is None else cls(*(float(number) for number in match.groups()))

    def touches(self, other: "Moment") -> bool:
        """Whether one begins where the other ends, or before."""
        return max(self.start, other.start) <= min(self.end, other.end) + TOUCHING

    def joined(self, other: "Moment") -> "Moment":
        """Both and what lies between, with the key frame of this one."""
        start, end = min(self.start, other.start), max(self.end, other.end)
        return Moment(start, end, self.key, self.duration)

    def __str__(self) -> str:
        """ "1:12-1:20" with the dash of a span; a moment ends at the second the next begins."""
        first = round(self.start)
        last = max(round(self.end), first + 1)
        return f"{clock(first)}\N{EN DASH}{clock(last)}"


def duration_of(part: str) -> float | None:
    """Seconds of the whole video that the part of an item names; None where it names none."""
    moment = Moment.parse(part)
    return None if moment is None else moment.duration


def clock(seconds: float | int) -> str:
    """ "0:07", "1:12", "1:02:03"."""
    whole = max(int(seconds), 0)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def seconds_of(text: str) -> float | None:
    """Seconds from "90", "90s", "1.5min", "2h", "1:30" or "1:02:03"; None for anything else."""
    if match := _CLOCK.fullmatch(text.strip()):
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        inside = seconds < 60 and (minutes < 60 or not match[1])
        return 3600 * hours + 60 * minutes + seconds if inside else None
    match = _SECONDS.fullmatch(text.strip())
    return float(match[1]) * _UNITS[(match[2] or "").lower()] if match else None
