"""Pictures too large to be decoded at once, at a fraction of their size.

    JPEG  the decoder scales by 2, 4 or 8 itself
    PNG   rows are unpacked band by band, unless they are interlaced
    TIFF  strips and tiles are decoded one after the other, each as a small TIFF

    band of full width --mean over squares of pixels--> rows of the small picture

Memory stays below `MEMORY`, and one such picture is decoded at a time in a process,
whatever the number of reading threads.
"""

import io
import math
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from PIL import Image, JpegImagePlugin, TiffImagePlugin

EDGE = 4096
"""No edge of the small picture is longer, and its longer one is at least half of that."""
MEMORY = 2**30
"""Bytes that decoding one picture may need."""
_AT_ONCE = 2**16  # bytes of a file that are unpacked at once
_BAND = 2**24  # bytes of pixels that are unpacked at once
_ONE = threading.Lock()

Band = tuple[int, Image.Image]
"""The first row of a band in the whole picture, and its pixels."""


def reduce(image: Image.Image, stream: io.BufferedIOBase) -> Image.Image | None:
    """The small picture; None where the file cannot be decoded in parts.

    image: the header, as `photographs.identify` gives it. stream: the file.
    """
    with _ONE:
        if isinstance(image, JpegImagePlugin.JpegImageFile):
            return _jpeg(image, stream)
        if image.format == "PNG":
            return _png(stream)
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            return _tiff(image, stream)
    return None


def _factor(width: int, height: int) -> int:
    """Pixels per edge of the squares that become one pixel; a power of two."""
    return 2 ** max(0, math.ceil(math.log2(max(width, height) / EDGE)))


def _means(bands: Iterator[Band], width: int, height: int, factor: int) -> Image.Image:
    """Average bands whose heights are multiples of `factor`, but for the last."""
    across, down = min(factor, width), min(factor, height)
    small = None
    for top, band in bands:
        part = band.reduce((across, down))
        if small is None:
            size = -(-width // across), -(-height // down)
            small = Image.new(part.mode, size)
        small.paste(part, (0, top // down))
    if small is None:
        raise OSError("the picture has no pixels")
    return small


# --- JPEG -----------------------------------------------------------------------------


def _jpeg(
    image: JpegImagePlugin.JpegImageFile, stream: io.BufferedIOBase
) -> Image.Image | None:
    width, height = image.size
    scale = next((one for one in (2, 4) if width * height <= (one * EDGE) ** 2), 8)
    if _needs_all_coefficients(stream):
        layers: Any = image.layer  # type: ignore[attr-defined]  # set while it is opened
        most = max(h for _, h, _, _ in layers) * max(v for _, _, v, _ in layers)
        samples = sum(h * v for _, h, v, _ in layers) / most
        if 2 * samples * width * height > MEMORY // 2:
            return None
    if 4 * width * height / scale**2 > MEMORY // 2:
        return None
    stream.seek(0)
    image.draft("RGB", (max(1, width // scale), max(1, height // scale)))
    image.load()
    return image.copy()


def _needs_all_coefficients(stream: io.BufferedIOBase) -> bool:
    """Whether a JPEG comes in several scans, all of which the decoder keeps in memory."""
    stream.seek(2)
    components = 0
    while True:
        mark = stream.read(2)
        while len(mark) == 2 and mark[1] == 0xFF:  # bytes to fill up
            mark = mark[1:] + stream.read(1)
        length = stream.read(2)
        if len(mark) < 2 or mark[0] != 0xFF or len(length) < 2:
            return True
        body = stream.read(struct.unpack(">H", length)[0] - 2)
        if 0xC0 <= mark[1] <= 0xCF and mark[1] not in (0xC4, 0xC8, 0xCC):
            components = body[5] if len(body) > 5 else 0
            if mark[1] not in (0xC0, 0xC1, 0xC9):
                return True
        elif mark[1] == 0xDA:
            return not body or body[0] < components


# --- PNG ------------------------------------------------------------------------------

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_CARRIERS = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
"""Modes by bytes a pixel: filters work on bytes, whatever these mean."""
_MODES = {(0, 8): "L", (2, 8): "RGB", (3, 8): "P", (4, 8): "LA", (6, 8): "RGBA"}
_PACKED = {(0, 1): "1", (0, 2): "L;2", (0, 4): "L;4"}
_PACKED |= {(3, 1): "P;1", (3, 2): "P;2", (3, 4): "P;4"}


def _png(stream: io.BufferedIOBase) -> Image.Image | None:
    stream.seek(16)
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", stream.read(13))
    channels = _CHANNELS.get(colour, 0)
    step = max(1, channels * depth // 8)
    if interlaced or step not in _CARRIERS or not channels:
        return None
    line = (width * channels * depth + 7) // 8
    factor = _factor(width, height)
    rows = factor * max(1, _BAND // (factor * max(line, 4 * width)))
    if 12 * rows * width > MEMORY:
        return None
    palette, data = _png_chunks(stream)
    lines = _png_lines(data, line, height, rows, step)
    bands = ((top, _png_band(raw, width, depth, colour, palette)) for top, raw in lines)
    return _means(bands, width, height, factor)


def _png_chunks(stream: io.BufferedIOBase) -> tuple[bytes, Iterator[bytes]]:
    """The palette, and the packed pixels piece by piece."""
    stream.seek(8)
    palette = b""
    while True:
        header = stream.read(8)
        if len(header) < 8:
            raise OSError("the file ends before its pixels")
        length, kind = struct.unpack(">I4s", header)
        if kind == b"IDAT":
            return palette, _png_data(stream, length)
        if kind == b"PLTE":
            palette = stream.read(length)
            stream.seek(4, io.SEEK_CUR)
        else:
            stream.seek(length + 4, io.SEEK_CUR)


def _png_data(stream: io.BufferedIOBase, length: int) -> Iterator[bytes]:
    kind = b"IDAT"
    while kind == b"IDAT":
        while length:
            piece = stream.read(min(length, _AT_ONCE))
            if not piece:
                return
            length -= len(piece)
            yield piece
        header = stream.read(12)[4:]  # a checksum, then the next chunk's length and kind
        if len(header) < 8:
            return
        length, kind = struct.unpack(">I4s", header)


def _png_lines(
    data: Iterator[bytes], line: int, height: int, rows: int, step: int
) -> Iterator[tuple[int, bytes]]:
    """The bytes of some rows at a time, with the filters of PNG undone.

    Pillow undoes them: each band is handed to its decoder below the last row of the band
    before, which is the only one that its filters refer to.
    """
    unpack, waiting, above = zlib.decompressobj(), bytearray(), bytes(line)
    carrier, top = _CARRIERS[step], 0
    while top < height:
        count = min(rows, height - top)
        wanted = count * (line + 1)
        while len(waiting) < wanted:
            packed = unpack.unconsumed_tail or next(data, b"")
            if not packed:
                raise OSError(f"the file ends in row {top + len(waiting) // (line + 1)}")
            waiting += unpack.decompress(packed, wanted)
        filtered = zlib.compress(b"\0" + above + waiting[:wanted], 0)
        del waiting[:wanted]
        size = (line // step, count + 1)
        plain = Image.frombytes(carrier, size, filtered, "zip", carrier, 0).tobytes()
        above = plain[-line:]
        yield top, plain[line:]
        top += count


def _png_band(raw: bytes, width: int, depth: int, colour: int, palette: bytes) -> Image.Image:
    if (colour, depth) in _PACKED:
        kind = _PACKED[colour, depth]
        size = width, len(raw) // ((width * depth + 7) // 8)
        band = Image.frombytes(kind[0], size, raw, "raw", kind)
    elif depth == 16:
        band = Image.frombytes("I;16B", (width, len(raw) // (2 * width)), raw).convert("I")
    else:
        mode = _MODES[colour, depth]
        band = Image.frombytes(mode, (width, len(raw) // (width * _CHANNELS[colour])), raw)
    if colour == 3:
        band.putpalette(palette)
        return band.convert("RGB")
    return band.convert("L") if band.mode == "1" else band


# --- TIFF -----------------------------------------------------------------------------

_WIDTH, _HEIGHT, _ROWS, _OFFSETS, _COUNTS = 256, 257, 278, 273, 279
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_COUNTS, _PLANAR = 322, 323, 324, 325, 284
_KEPT = (258, 259, 262, 266, 277, 317, 320, 338, 339, 347, 530)
"""Tags that say how a strip or tile is coded."""
_AVERAGED = {"P": "RGB", "1": "L", "I;16": "I", "I;16B": "I", "I;16L": "I"}
"""Modes whose values cannot be averaged, and those that can hold them."""


def _tiff(
    image: TiffImagePlugin.TiffImageFile, stream: io.BufferedIOBase
) -> Image.Image | None:
    tags = image.tag_v2
    width, height = int(tags[_WIDTH]), int(tags[_HEIGHT])
    across, down = width, min(int(tags.get(_ROWS, height)), height)
    offsets, counts = tags.get(_OFFSETS), tags.get(_COUNTS)
    if _TILE_OFFSETS in tags:
        across, down = int(tags[_TILE_WIDTH]), int(tags[_TILE_HEIGHT])
        offsets, counts = tags[_TILE_OFFSETS], tags.get(_TILE_COUNTS)
    if not offsets or not counts or tags.get(_PLANAR, 1) != 1 or min(across, down) < 1:
        return None
    factor = _factor(width, height)
    rows = math.lcm(factor, down)
    if 12 * rows * max(width, across) > MEMORY or 12 * across * down > MEMORY:
        return None
    places = list(zip(offsets, counts, strict=False))
    in_a_row = -(-width // across)
    if len(places) < in_a_row * -(-height // down):
        raise OSError("strips or tiles are missing")

    def piece(number: int) -> Image.Image:
        """One strip or tile as a TIFF of its own."""
        offset, count = places[number]
        stream.seek(offset)
        data = stream.read(min(count, MEMORY // 4))
        last = _TILE_OFFSETS not in tags and height - number * down < down
        one = TiffImagePlugin.ImageFileDirectory_v2(prefix=tags.prefix)
        for tag in _KEPT:
            if tag in tags:
                one.tagtype[tag] = tags.tagtype[tag]
                one[tag] = tags[tag]
        one[_WIDTH], one[_HEIGHT] = across, height - number * down if last else down
        one[_ROWS], one[_OFFSETS], one[_COUNTS] = one[_HEIGHT], 0, len(data)
        whole = io.BytesIO()
        one.save(whole)
        whole.write(data)
        whole.seek(0)
        decoded = TiffImagePlugin.TiffImageFile(whole)
        decoded.load()
        return decoded.convert(_AVERAGED.get(decoded.mode, decoded.mode))

    bands = _tiff_bands(piece, (width, height), (across, down), rows)
    return _means(bands, width, height, factor)


def _tiff_bands(
    piece: Callable[[int], Image.Image], whole: tuple[int, int], one: tuple[int, int], rows: int
) -> Iterator[Band]:
    """Full-width bands of `rows` rows, put together from strips or tiles.

    piece: decodes a strip or tile by its number. whole, one: sizes of the picture and of it.
    """
    (width, height), (across, down) = whole, one
    in_a_row = -(-width // across)
    for top in range(0, height, rows):
        band = None
        for y in range(top, min(top + rows, height), down):
            for column in range(in_a_row):
                part = piece(y // down * in_a_row + column)
                if band is None:
                    band = Image.new(part.mode, (width, min(rows, height - top)))
                band.paste(part, (column * across, y - top))
        if band is not None:
            yield top, band
