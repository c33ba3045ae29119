"""Which formats of pictures and videos Avow reads: the one table for readers, scans and pages.

To support another format, add a row to `FORMATS`. This module imports nothing heavy, so
that a scan of unchanged folders stays quick; `avow.core.photographs` decodes pictures,
`avow.core.videos` videos.
"""

import importlib
import importlib.util
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """One picture format."""

    name: str
    """As Pillow calls it."""
    title: str
    """As people write it."""
    suffixes: tuple[str, ...]
    module: str
    """Importing it registers the format with Pillow."""
    register: str = ""
    """A function of `module` to call first, where importing alone is not enough."""
    install: str = ""
    """The command that installs `module`, where Pillow does not bring it."""
    signature: str = ""
    """What such files begin with, to recognise them while `module` is missing."""

    def available(self) -> bool:
        """Whether files of this format can be read here; registers it with Pillow."""
        try:
            module = importlib.import_module(self.module)
        except ImportError:
            return False
        if self.register:
            getattr(module, self.register)()
        return True


FORMATS: tuple[Format, ...] = (
    Format("JPEG", "JPEG", (".jpg", ".jpeg", ".jpe", ".jfif"), "PIL.JpegImagePlugin"),
    Format("PNG", "PNG", (".png",), "PIL.PngImagePlugin"),
    Format("WEBP", "WebP", (".webp",), "PIL.WebPImagePlugin"),
    Format("GIF", "GIF", (".gif",), "PIL.GifImagePlugin"),
    Format("TIFF", "TIFF", (".tif", ".tiff"), "PIL.TiffImagePlugin"),
    Format("BMP", "BMP", (".bmp",), "PIL.BmpImagePlugin"),
    Format(
        "HEIF",
        "HEIC",
        (".heic", ".heif"),
        "pillow_heif",
        register="register_heif_opener",
        install="pip install 'avow[heic]'",
        signature=r"(?s)....ftyp(?:hei[cmsx]|hev[cmsx]|mif1|msf1)",
    ),
)

VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi")
ANIMATION_SUFFIXES = (".gif", ".webp")
"""Pictures that may move; `avow.core.videos.is_animated` tells of one file."""
VIDEO_INSTALL = "pip install 'avow[video]'"
NEEDS_PYAV = f"a video; reading it needs PyAV: {VIDEO_INSTALL}"
"""Why a video is skipped where it cannot be decoded here."""


def is_video(suffix: str) -> bool:
    """Whether files with this suffix (lower case, with its dot) are read as videos."""
    return suffix in VIDEO_SUFFIXES


def videos_are_readable() -> bool:
    """Whether the package that decodes videos is installed."""
    return importlib.util.find_spec("av") is not None


def is_picture(suffix: str) -> bool:
    """Whether files with this suffix (lower case, with its dot) are read as pictures."""
    return any(suffix in image_format.suffixes for image_format in FORMATS)


def may_be_readable_now(suffix: str) -> bool | None:
    """Whether the package for this suffix is installed; None where none is needed."""
    if is_video(suffix):
        return videos_are_readable()
    for image_format in FORMATS:
        if suffix in image_format.suffixes and image_format.install:
            return importlib.util.find_spec(image_format.module) is not None
    return None


def lacking(prefix: bytes) -> Format | None:
    """The format of a file that begins with `prefix`, if only its package is missing."""
    for image_format in FORMATS:
        if image_format.signature and re.match(image_format.signature.encode(), prefix):
            return None if image_format.available() else image_format
    return None


def title(name: str | None) -> str:
    """How people write the format that Pillow calls `name`."""
    return next(
        (image_format.title for image_format in FORMATS if image_format.name == name),
        name or "picture",
    )


def titles(last: str = "or") -> str:
    """All formats, for a sentence."""
    *first, final = [image_format.title for image_format in FORMATS]
    return f"{', '.join(first)} {last} {final}"
