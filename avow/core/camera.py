"""What a camera, or the software behind it, wrote into a picture: when, where, and which words.

A catalogue keeps the place as two tags, as photo sites write them ("geo:lat=48.2082"): every
index has a table of tags, and a picture without a place has none. What was written may be
anything, so whatever cannot be read is unknown; nothing is taken from the file's own time.
"""

import datetime
import re
from collections.abc import Iterable

from PIL import ExifTags, Image

PLACE_TAGS = {"latitude": "geo:lat=", "longitude": "geo:lon="}
"""How the tag of each degree begins."""
_KEYWORDS = 0x9C9E
_MOMENT = re.compile(r"(\d{4}):(\d\d):(\d\d)(?: (\d\d):(\d\d):(\d\d))?", re.ASCII)
_TIMES = (ExifTags.Base.DateTimeOriginal, ExifTags.Base.DateTimeDigitized)
_MOST = {"latitude": 90, "longitude": 180}


def taken(exif: Image.Exif) -> str | None:
    """When a camera says it took the picture."""
    try:
        inner = exif.get_ifd(ExifTags.IFD.Exif)
        written = next((inner[tag] for tag in _TIMES if inner.get(tag)), "")
        match = _MOMENT.match(str(written))
        if not match:
            return None
        year, month, day, hour, minute, second = map(int, match.groups("0"))
        return datetime.datetime(year, month, day, hour, minute, second).isoformat()
    except Exception:
        return None


def keywords(exif: Image.Exif) -> list[str]:
    """Words that photo software keeps with a picture, as Windows writes them."""
    written = exif.get(_KEYWORDS)
    if not isinstance(written, bytes):
        return []
    return written.decode("utf-16-le", "ignore").rstrip("\0").split(";")


def place_tags(exif: Image.Exif) -> list[str]:
    """Where a camera says it was, as tags; none where it does not say."""
    try:
        gps, tag = exif.get_ifd(ExifTags.IFD.GPSInfo), ExifTags.GPS
        north = _degrees(gps[tag.GPSLatitude], gps[tag.GPSLatitudeRef])
        east = _degrees(gps[tag.GPSLongitude], gps[tag.GPSLongitudeRef])
        at = {"latitude": north, "longitude": east}
    except Exception:
        return []
    # a camera without a fix writes zeros, which is a place in the sea
    known = any(at.values()) and all(abs(at[name]) <= most for name, most in _MOST.items())
    return [f"{start}{at[name]:.6f}" for name, start in PLACE_TAGS.items()] if known else []


def place_of(tags: Iterable[str]) -> tuple[float, float] | None:
    """Latitude and longitude in degrees, where tags tell both."""
    found = {}
    for tag in tags:
        for name, start in PLACE_TAGS.items():
            if tag.startswith(start):
                try:
                    found[name] = float(tag[len(start) :])
                except ValueError:
                    continue
    return (found["latitude"], found["longitude"]) if len(found) == 2 else None


def without_place(tags: Iterable[str]) -> list[str]:
    """The tags that are words of a person."""
    return [tag for tag in tags if not tag.startswith(tuple(PLACE_TAGS.values()))]


def _degrees(parts: Iterable[object], side: object) -> float:
    """Degrees, minutes and seconds as one number; south and west are below zero."""
    degrees, minutes, seconds = (float(part) for part in parts)  # type: ignore[arg-type]
    whole = degrees + minutes / 60 + seconds / 3600
    letter = side.decode() if isinstance(side, bytes) else str(side)
    return -whole if letter.strip("\0 ").upper() in ("S", "W") else whole
