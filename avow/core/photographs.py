"""Photographs: the one place that opens, limits, turns and converts picture files.

    file --identify--> header --limits--> decoded whole, or reduced --> 8 bits a channel

Files come from anywhere. Only the formats of `avow.core.formats` are tried, sizes are
checked before anything is unpacked, and a picture above `LARGEST` pixels is decoded at a
fraction of its size where its format allows that (`avow.core.large_photographs`).
"""

import io
import os
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

import numpy as np
from PIL import ExifTags, Image, ImageOps

from avow.core import formats
from avow.core.errors import BadData
from avow.core.shapes import UInt8

LARGEST = 89_478_485
"""Pixels that are decoded at once."""
LARGEST_REDUCED = 1_000_000_000
"""Pixels of a picture that is decoded at a fraction of its size."""
UNTRUSTED = "AVOW_UNTRUSTED"
"""The variable that says whether files come from strangers; see `untrusted`."""
LARGEST_FILE = 2**30
"""Bytes of a file that another process is given to decode."""
PAPER = (255, 255, 255)
_PREFIX = 16  # bytes that tell the formats apart
_TURNED = (5, 6, 7, 8)  # EXIF orientations that exchange width and height
_WHITE = (255.0, 1023.0, 4095.0, 16383.0, 65535.0)  # of 8, 10, 12, 14 and 16 bits
_ROWS = 256

Reason = Literal["format", "package", "size", "damaged"]


class Unreadable(ValueError):
    """Why a picture cannot be read; the message fits into brackets or after a colon."""

    def __init__(self, message: str, reason: Reason):
        super().__init__(message)
        self.reason: Reason = reason


@dataclass(frozen=True)
class Photograph:
    """An opened picture."""

    image: Image.Image
    """At most 8 bits a channel, not turned yet; decoded when it is first used."""
    width: int
    height: int
    """Of the whole picture, upright, whatever part of its resolution was decoded."""
    exif: Image.Exif


@contextmanager
def opened(
    source: Path | io.BufferedIOBase, largest: int | None = None
) -> Iterator[Photograph]:
    """Open a picture for as long as the block lasts; raise `Unreadable` where it cannot be.

    largest: pixels to decode at once; `LARGEST` unless given. With AVOW_UNTRUSTED=1 another
    process decodes it.
    """
    if untrusted():
        from avow.core import isolated_decoding

        with isolated_decoding.opened(_content(source), largest) as one:
            yield one
        return
    largest = LARGEST if largest is None else largest
    stream = source.open("rb") if isinstance(source, Path) else source
    try:
        header = identify(stream)
        if header.width * header.height > largest:
            yield _reduced(header, stream, largest)
        else:
            exif = header.getexif()
            yield Photograph(eight_bits(header), *_upright_size(header, exif), exif)
    finally:
        if isinstance(source, Path):
            stream.close()


def untrusted(what: Literal["pictures", "videos"] = "pictures") -> bool:
    """Whether pictures are decoded by other processes, with limits (`isolated_decoding`).

    Videos are not decoded at all where they are not trusted. AVOW_UNTRUSTED: 1 for both, or
    "pictures".
    """
    told = os.environ.get(UNTRUSTED, "").lower()
    return told in ("1", "true", "yes") or told == what


def size(content: bytes) -> tuple[int, int]:
    """Width and height as the header tells them; nothing is decoded."""
    if untrusted():
        from avow.core import isolated_decoding

        return isolated_decoding.size(content)
    return identify(io.BytesIO(content)).size


def _content(source: Path | io.BufferedIOBase) -> bytes:
    """All of a file, unless it is larger than any picture."""
    with source.open("rb") if isinstance(source, Path) else nullcontext(source) as stream:
        stream.seek(0)
        content = stream.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise Unreadable(f"more than {LARGEST_FILE} bytes", "size")
    return content


def identify(stream: io.BufferedIOBase) -> Image.Image:
    """The header of a picture in one of our formats; nothing is decoded.

    Unlike `Image.open` this leaves the limit on pixels to the caller.
    """
    stream.seek(0)
    prefix = stream.read(_PREFIX)
    if not prefix:
        raise Unreadable("the file is empty", "damaged")
    for image_format in formats.FORMATS:
        if not image_format.available():
            continue
        factory, accept = Image.OPEN[image_format.name]
        accepted = accept is None or accept(prefix)
        if not accepted or isinstance(accepted, str):  # a text says why it is not
            continue
        stream.seek(0)
        try:
            return factory(cast(IO[bytes], stream), "")
        except (SyntaxError, IndexError, TypeError, struct.error):
            continue
        except Image.DecompressionBombError as error:
            raise _too_large(image_format.title, f"more than {2 * LARGEST}", LARGEST) from error
    missing = formats.lacking(prefix)
    if missing is not None:
        package = missing.module.replace("_", "-")
        raise Unreadable(
            f"{missing.title} needs the package {package} ({missing.install})", "package"
        )
    raise Unreadable("not a picture of a known format", "format")


def read(source: Path | bytes, largest: int | None = None) -> Image.Image:
    """A picture, decoded; not turned yet."""
    with opened(io.BytesIO(source) if isinstance(source, bytes) else source, largest) as one:
        one.image.load()
        return one.image


def open_photograph(path: Path) -> Image.Image:
    """A photograph, decoded; a file that is none is named."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(path)
    except Exception as error:  # decoders of broken files raise almost anything
        raise BadData(
            f"The photograph {str(path)!r} cannot be read: {why_unreadable(error)}. "
            "Expected an image file such as JPEG or PNG; check the path and the file."
        ) from error


def stretched(
    photograph: Image.Image,
    size: int,
    resample: Image.Resampling = Image.Resampling.BICUBIC,
) -> UInt8[np.ndarray, "size size 3"]:
    """The whole photograph upright, in RGB, stretched to `size` x `size`.

    Stretching rather than cropping loses no content, and a grid cell stays a
    rectangle of the photograph. A JPEG much larger than needed is decoded at a
    fraction of its resolution, never below twice the size asked for.
    """
    photograph.draft("RGB", (2 * size, 2 * size))
    return np.array(upright_rgb(photograph).resize((size, size), resample))


def thumbnail(source: Path, edge: int, largest: int | None = None) -> Image.Image:
    """A picture upright in RGB whose longer edge is at most `edge`; no data of the camera."""
    with opened(source, largest) as one:
        one.image.draft("RGB", (edge, edge))  # a JPEG is decoded at a fraction of its size
        one.image.load()
        small = ImageOps.exif_transpose(one.image)
    small.thumbnail((edge, edge), Image.Resampling.LANCZOS)
    return on_paper(small)


def upright_rgb(image: Image.Image) -> Image.Image:
    """Turned as the camera was held, in red, green and blue."""
    upright = ImageOps.exif_transpose(eight_bits(image))
    return upright if upright.mode == "RGB" else upright.convert("RGB")


def on_paper(image: Image.Image) -> Image.Image:
    """Red, green and blue; what was transparent becomes white."""
    image = eight_bits(image)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        above = image.convert("RGBA")
        paper = Image.new("RGBA", above.size, (*PAPER, 255))
        return Image.alpha_composite(paper, above).convert("RGB")
    return image.convert("RGB")


def eight_bits(image: Image.Image) -> Image.Image:
    """Grey of 16 or 32 bits in 8 bits; any other picture as it is.

    Cameras and scanners store 10, 12 and 14 bits in files of 16: the smallest of these
    depths that holds the largest value is taken for white. Fractions up to 1 are scaled by
    1. Values that fit none of this span black to white from the least to the greatest.
    """
    if not image.mode.startswith(("I", "F")):
        return image
    image.load()
    values = np.asarray(image)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Unreadable("it holds NaN or infinite pixels", "damaged")
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    white = next((one for one in _WHITE if high <= one), None)
    if values.dtype.kind == "f" and high <= 1:
        white = 1.0
    if low < 0 or white is None:
        low, white = float(values.min()), high
    grey = Image.fromarray(_scaled(values, low, white))
    grey.info = dict(image.info)
    return grey


def _scaled(
    values: np.ndarray, black: float, white: float
) -> UInt8[np.ndarray, "height width"]:
    """Tones from black to white as 0 to 255; some rows at a time, to need little memory."""
    out = np.empty(values.shape, np.uint8)
    scale = 255 / max(white - black, 1e-30)
    for start in range(0, len(values), _ROWS):
        part = (values[start : start + _ROWS].astype(np.float64) - black) * scale
        out[start : start + _ROWS] = (part + 0.5).clip(0, 255)
    return out


def why_unreadable(error: Exception) -> str:
    """What a decoder raised, in one line; decoders of broken files raise almost anything."""
    if isinstance(error, Unreadable):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "the file is missing"
    if isinstance(error, PermissionError | IsADirectoryError):
        return f"the file cannot be read ({error.strerror})"
    message = " ".join(str(error).split())[:200] or type(error).__name__
    return f"cannot be decoded ({message})"


def _reduced(header: Image.Image, stream: io.BufferedIOBase, largest: int) -> Photograph:
    """A picture above `largest` pixels, at a fraction of its size and upright."""
    from avow.core.large_photographs import reduce

    name, pixels = formats.title(header.format), header.width * header.height
    if pixels > LARGEST_REDUCED:
        raise _too_large(name, str(pixels), LARGEST_REDUCED)
    exif = _exif_of_header(header)
    size = _upright_size(header, exif)  # before `draft` makes a JPEG smaller
    image = reduce(header, stream)
    if image is None:
        raise _too_large(name, str(pixels), largest, "; this format cannot be read in part")
    image.info.pop("exif", None)
    if _orientation(exif) != 1:
        image.info["exif"] = turn_only(_orientation(exif))
    return Photograph(eight_bits(image), *size, exif)


def _too_large(name: str, pixels: str, most: int, more: str = "") -> Unreadable:
    return Unreadable(f"a {name} of {pixels} pixels{more}; {most} at most", "size")


def _exif_of_header(header: Image.Image) -> Image.Exif:
    """`getexif` of a PNG without any decodes all of it, to see what follows the pixels."""
    if header.format == "PNG" and "exif" not in header.info:
        return Image.Exif()
    return header.getexif()


def _upright_size(header: Image.Image, exif: Image.Exif) -> tuple[int, int]:
    """TIFF files are turned while they are decoded, and give their upright size."""
    turned = header.format != "TIFF" and _orientation(exif) in _TURNED
    return (header.height, header.width) if turned else header.size


def _orientation(exif: Image.Exif) -> int:
    orientation = exif.get(ExifTags.Base.Orientation, 1)
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1


def turn_only(orientation: int) -> bytes:
    """EXIF data that says how a picture is turned, and nothing else."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    return exif.tobytes()
