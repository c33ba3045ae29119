"""One place reads pictures: formats, limits, depth, and sizes no machine decodes at once."""

import io
import struct
import threading
import tracemalloc
import zlib

import numpy as np
import pytest
from PIL import ExifTags, Image
from tiers import long

from avow.core import formats, large_photographs, photographs


@pytest.fixture
def scene():
    """A picture with edges and gradients, whose sides no power of two divides."""
    rows, columns = np.mgrid[:301, :403]
    tones = np.stack([columns * 255 // 402, rows * 255 // 300, (rows // 20 % 2) * 200], -1)
    return Image.fromarray(tones.astype(np.uint8))


@pytest.fixture
def small_edge(monkeypatch):
    """Reduce to at most 100 pixels an edge, so that small files take the way of large ones."""
    monkeypatch.setattr(large_photographs, "EDGE", 100)


def saved(image, kind, **settings):
    stream = io.BytesIO()
    image.save(stream, kind, **settings)
    return stream.getvalue()


def reduced(content, largest=1000):
    with photographs.opened(io.BytesIO(content), largest) as one:
        return one


# --- 16 bits ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize("bits", [10, 12, 16])
def test_grey_of_more_than_eight_bits_keeps_its_tones(kind, bits):
    tones = np.linspace(0, 2**bits - 1, 300 * 200).reshape(300, 200).astype(np.uint16)
    read = photographs.read(saved(Image.fromarray(tones), kind))
    assert read.mode == "L"
    np.testing.assert_allclose(np.asarray(read), tones / (2**bits - 1) * 255, atol=0.51)


@pytest.mark.parametrize(
    ("low", "high", "tones"),
    [(0, 1, [0, 255]), (0, 255, [0, 255]), (-5, 5, [0, 255]), (0, 2**24, [0, 255])],
)
@pytest.mark.parametrize("mode", [np.int32, np.float32])
def test_grey_of_thirty_two_bits_spans_black_to_white(low, high, tones, mode):
    if mode is np.int32 and high == 1:
        tones = [0, 1]  # of 8 bits
    image = Image.fromarray(np.array([[low, high]], mode))
    assert np.asarray(photographs.read(saved(image, "TIFF"))).tolist() == [tones]


def test_a_big_endian_file_of_sixteen_bits_is_the_same_picture():
    tones = np.arange(0, 60000, 1000, np.uint16).reshape(6, 10)
    little, big = Image.fromarray(tones), Image.fromarray(tones.astype(">u2"))
    assert big.mode == "I;16B"
    one, other = photographs.eight_bits(little), photographs.eight_bits(big)
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_pixels_that_are_no_numbers_are_refused(value):
    content = saved(Image.fromarray(np.array([[0, value]], np.float32)), "TIFF")
    with pytest.raises(photographs.Unreadable, match="NaN or infinite"):
        photographs.read(content)


def test_a_uniform_picture_keeps_its_tone():
    grey = photographs.eight_bits(Image.new("I;16", (4, 4), 65535 * 3 // 5))
    assert grey.getextrema() == (153, 153)


# --- at a fraction of the size ---------------------------------------------------------


def written(scene, mode, kind, **settings):
    if mode == "I;16":
        grey = np.asarray(scene.convert("L"), np.uint16) * 257
        return saved(Image.fromarray(grey), kind, **settings)
    if mode == "P":
        return saved(scene.quantize(200), kind, **settings)
    if mode == "P4":
        return saved(scene.quantize(11), kind, bits=4, **settings)
    return saved(scene.convert(mode), kind, **settings)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGB", "RGBA", "P", "P4", "I;16"])
def test_a_png_in_bands_is_the_same_picture(scene, small_edge, monkeypatch, mode):
    monkeypatch.setattr(large_photographs, "_BAND", 20_000)  # several bands
    content = written(scene, mode, "PNG")
    one = reduced(content)
    assert one.image.size == (51, 38) and (one.width, one.height) == (403, 301)
    whole = photographs.read(content)
    whole = whole.convert({"P": "RGB", "1": "L"}.get(whole.mode, whole.mode))
    assert one.image.mode == whole.mode
    np.testing.assert_allclose(
        np.asarray(one.image, int), np.asarray(whole.reduce(8), int), atol=1
    )


@pytest.mark.parametrize(
    ("mode", "compression"),
    [
        (mode, kind) if "RGB" == mode or kind == "tiff_lzw" else long(mode, kind)
        for mode in ("1", "L", "RGB", "RGBA", "P", "I;16", "CMYK")
        for kind in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits")
    ],
)
def test_a_tiff_strip_by_strip_is_the_same_picture(scene, small_edge, mode, compression):
    content = written(scene, mode, "TIFF", compression=compression, strip_size=3000)
    one = reduced(content)
    assert one.image.size == (51, 38) and (one.width, one.height) == (403, 301)
    whole = photographs.read(content)
    whole = whole.convert({"P": "RGB", "1": "L"}.get(whole.mode, whole.mode))
    np.testing.assert_allclose(
        np.asarray(one.image, int), np.asarray(whole.reduce(8), int), atol=1
    )


def tiled_tiff(image, side):
    """An uncompressed RGB TIFF of tiles, which Pillow reads and does not write."""
    pixels = np.asarray(image)
    down, across = -(-pixels.shape[0] // side), -(-pixels.shape[1] // side)
    room = np.zeros((down * side, across * side, 3), np.uint8)
    room[: pixels.shape[0], : pixels.shape[1]] = pixels
    tiles = room.reshape(down, side, across, side, 3).swapaxes(1, 2).reshape(-1, side, side, 3)
    count, size = len(tiles), side * side * 3
    tags = [(256, 4, 1, image.width), (257, 4, 1, image.height), (258, 3, 3, 0)]
    tags += [(259, 3, 1, 1), (262, 3, 1, 2), (277, 3, 1, 3), (322, 4, 1, side)]
    tags += [(323, 4, 1, side), (324, 4, count, 0), (325, 4, count, 0)]
    start = 8 + 2 + 12 * len(tags) + 4
    bits, offsets, counts = start, start + 6, start + 6 + 4 * count
    data = counts + 4 * count
    places = {258: bits, 324: offsets, 325: counts}
    head = b"II*\0" + struct.pack("<IH", 8, len(tags))
    for tag, kind, many, value in tags:
        short = kind == 3 and many == 1
        entry = (
            struct.pack("<H2x", value) if short else struct.pack("<I", places.get(tag, value))
        )
        head += struct.pack("<HHI", tag, kind, many) + entry
    head += struct.pack("<I3H", 0, 8, 8, 8)
    head += struct.pack(f"<{count}I", *(data + size * n for n in range(count)))
    return head + struct.pack(f"<{count}I", *[size] * count) + tiles.tobytes()


def test_a_tiff_tile_by_tile_is_the_same_picture(scene, small_edge):
    content = tiled_tiff(scene, 48)
    whole = photographs.read(content)
    assert whole.tobytes() == scene.tobytes()
    np.testing.assert_allclose(
        np.asarray(reduced(content).image, int), np.asarray(scene.reduce(8), int), atol=1
    )


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG"])
def test_a_reduced_picture_is_turned_as_the_camera_was_held(scene, small_edge, kind):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    one = reduced(saved(scene, kind, exif=exif))
    assert (one.width, one.height) == (301, 403)
    turned = photographs.upright_rgb(one.image)
    assert turned.width < turned.height
    wanted = scene.transpose(Image.Transpose.ROTATE_270).resize(
        turned.size, Image.Resampling.BOX
    )
    apart = np.abs(np.asarray(turned, int) - np.asarray(wanted, int))[..., :2]  # smooth ones
    assert apart.mean() < 6


@pytest.mark.parametrize("progressive", [False, True])
def test_a_large_jpeg_is_decoded_smaller(scene, progressive, monkeypatch):
    content = saved(scene, "JPEG", quality=95, progressive=progressive)
    one = reduced(content)
    assert one.image.size == (202, 151) and (one.width, one.height) == (403, 301)
    assert large_photographs._needs_all_coefficients(io.BytesIO(content)) is progressive
    monkeypatch.setattr(large_photographs, "MEMORY", 300_000)
    if progressive:  # whose coefficients would all be held
        with pytest.raises(
            photographs.Unreadable, match="cannot be read in part; 1000 at most"
        ):
            reduced(content)
    else:
        assert reduced(content).image.size == (202, 151)


@pytest.mark.parametrize(
    ("kind", "settings", "title"),
    [("WEBP", {}, "WebP"), ("GIF", {}, "GIF"), ("BMP", {}, "BMP")],
)
def test_a_format_without_parts_is_refused_in_words(scene, kind, settings, title):
    with pytest.raises(photographs.Unreadable) as caught:
        reduced(saved(scene, kind, **settings))
    assert str(caught.value) == (
        f"a {title} of 121303 pixels; this format cannot be read in part; 1000 at most"
    )
    assert caught.value.reason == "size"


def claimed(side, data=b"\0" * 1000, depth=8, colour=2):
    """A PNG that claims to be `side` x `side` pixels."""

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body))
            + kind
            + body
            + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", side, side, depth, colour, 0, 0, 0)
    parts = [
        chunk(b"IHDR", header),
        chunk(b"IDAT", zlib.compress(data, 9)),
        chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_claims_without_pixels_cost_nothing():
    for side, words in [(9_800, "the file ends in row 0"), (60_000, "1000000000 at most")]:
        tracemalloc.start()
        with pytest.raises((photographs.Unreadable, OSError), match=words):
            photographs.read(claimed(side))
        assert tracemalloc.get_traced_memory()[1] < 20e6
        tracemalloc.stop()


def test_two_hundred_megapixels_are_read_in_little_memory(tmp_path):
    """One bit a pixel, so that packing and unpacking them takes little time."""
    side = 14_200
    row = b"\0" + b"\xff" * (side // 16) + b"\0" * (side // 8 - side // 16)
    (tmp_path / "large.png").write_bytes(claimed(side, row * side, 1, 0))
    tracemalloc.start()
    with photographs.opened(tmp_path / "large.png") as one:
        assert (one.width, one.height) == (side, side)
        assert one.image.size == (3550, 3550)
        assert one.image.getpixel((10, 3500)) == 255 and one.image.getpixel((3500, 10)) == 0
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()


def test_one_large_picture_is_decoded_at_a_time(scene, small_edge, monkeypatch):
    running, most, real = [], [], large_photographs._png

    def watched(stream):
        running.append(1)
        most.append(len(running))
        made = real(stream)
        running.pop()
        return made

    monkeypatch.setattr(large_photographs, "_png", watched)
    content = saved(scene, "PNG")
    threads = [threading.Thread(target=reduced, args=[content]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4


# --- formats ----------------------------------------------------------------------------


def test_only_listed_formats_are_tried(tmp_path):
    content = saved(Image.new("RGB", (9, 9)), "PPM")
    assert Image.open(io.BytesIO(content)).format == "PPM"
    with pytest.raises(photographs.Unreadable, match="not a picture of a known format"):
        photographs.read(content)


def test_an_upright_tiff_keeps_its_size():
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    with photographs.opened(
        io.BytesIO(saved(Image.new("L", (40, 20)), "TIFF", exif=exif))
    ) as one:
        assert (one.width, one.height) == (20, 40)


def test_every_suffix_belongs_to_one_format():
    every = [suffix for known in formats.FORMATS for suffix in known.suffixes]
    assert len(every) == len(set(every)) and all(one.startswith(".") for one in every)
    assert formats.titles() == "JPEG, PNG, WebP, GIF, TIFF, BMP or HEIC"
