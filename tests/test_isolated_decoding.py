"""Pictures of strangers are decoded elsewhere: to the same pixels, and at a bounded cost."""

import io
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from encoders import ColourEncoder, picture
from PIL import ExifTags, Image

from avow.api.pictures import uploaded
from avow.core import camera, isolated_decoding, photographs
from avow.core.errors import BadData
from avow.core.photographs import Unreadable, stretched, thumbnail
from avow.data.readers import sample
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.store.reading import NOT_FROM_STRANGERS, difference_hash


@pytest.fixture
def fresh():
    """Decoders have the limits of their first day, so a test of limits has its own."""
    isolated_decoding.end_all()
    yield
    isolated_decoding.end_all()


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2021:03:04 05:06:07"
    return exif


def cases() -> dict[str, bytes]:
    photograph = photographs.open_photograph((sample.build().splits["train"].files or ())[0])
    photograph.thumbnail((240, 240))
    clear = picture("red", (40, 30)).convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize((40, 30)))
    grey = Image.fromarray(np.linspace(0, 4000, 1200).reshape(30, 40).astype(np.uint16))
    return {
        "jpeg": encoded(photograph, "JPEG"),
        "turned jpeg": encoded(photograph, "JPEG", exif=turned(6)),
        "turned png": encoded(picture("red", (40, 30)), "PNG", exif=turned(8)),
        "turned tiff": encoded(picture("red", (40, 30)), "TIFF", exif=turned(6)),
        "palette": encoded(photograph.convert("P"), "PNG"),
        "palette with transparency": encoded(clear, "GIF"),
        "transparent": encoded(clear, "WEBP", lossless=True),
        "16 bits": encoded(grey, "PNG"),
        "cmyk": encoded(photograph.convert("CMYK"), "JPEG"),
        "one bit": encoded(photograph.convert("1"), "PNG"),
    }


CASES = cases()


def seen(data: bytes) -> list[object]:
    """All that Avow reads of a picture."""
    with photographs.opened(io.BytesIO(data)) as one:
        exif = camera.taken(one.exif), camera.place_tags(one.exif), camera.keywords(one.exif)
        pixels = stretched(one.image, 24)
        look = difference_hash(one.image)
    whole = np.asarray(photographs.on_paper(photographs.read(data)))
    return [one.width, one.height, *exif, look, pixels.tolist(), whole.tolist()]


@pytest.mark.parametrize("name", CASES)
def test_it_sees_what_this_process_would(monkeypatch, name):
    here = seen(CASES[name])
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    assert seen(CASES[name]) == here
    assert photographs.size(CASES[name]) == Image.open(io.BytesIO(CASES[name])).size


def test_places_and_words_of_the_camera_come_too(monkeypatch):
    exif = turned(1)
    exif[ExifTags.Base.XPKeywords] = "boat;sea".encode("utf-16-le")
    north, east = (48.0, 12.0, 0.0), (2.0, 21.0, 0.0)
    exif[ExifTags.IFD.GPSInfo] = {1: "N", 2: north, 3: "E", 4: east}
    data = encoded(picture("red", (40, 30)), "JPEG", exif=exif)
    with photographs.opened(io.BytesIO(data)) as one:
        here = camera.taken(one.exif), camera.place_tags(one.exif), camera.keywords(one.exif)
    assert all(here)
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    with photographs.opened(io.BytesIO(data)) as one:
        assert here == (
            camera.taken(one.exif),
            camera.place_tags(one.exif),
            camera.keywords(one.exif),
        )


@pytest.mark.parametrize("data", [b"", b"no picture", CASES["jpeg"][:700]])
def test_what_cannot_be_read_is_told_as_here(monkeypatch, data):
    def told() -> str:
        with pytest.raises(Exception) as refused:
            photographs.read(data)
        return photographs.why_unreadable(refused.value)

    here = told()
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    assert told() == here


def decoders() -> list[int]:
    """Processes that wait for files."""
    idle = []
    while not isolated_decoding._idle.empty():
        idle.append(isolated_decoding._idle.get())
    for one in idle:
        isolated_decoding._idle.put(one)
    return [one._process.pid for one in idle]


def test_a_decoder_is_used_again(monkeypatch, fresh):
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    photographs.read(CASES["jpeg"])
    first = decoders()
    with pytest.raises(Unreadable):
        photographs.read(b"no picture")
    photographs.read(CASES["palette"])
    assert decoders() == first and len(first) == 1


def test_no_file_of_the_folder_it_is_started_in_is_run(monkeypatch, fresh, tmp_path):
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    monkeypatch.chdir(tmp_path)
    for name in ("PIL", "json", "avow"):
        (tmp_path / f"{name}.py").write_text("open('was-here', 'w')")
    assert photographs.read(CASES["jpeg"]).size == (240, 240)
    assert not (tmp_path / "was-here").exists()


def test_a_fork_has_decoders_of_its_own(monkeypatch, fresh):
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    photographs.read(CASES["jpeg"])
    first = decoders()
    child = os.fork()
    if not child:
        os._exit(0 if not decoders() and photographs.read(CASES["palette"]).width else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert photographs.read(CASES["jpeg"]).width and decoders() == first


def test_a_decoder_that_dies_is_one_unreadable_file(monkeypatch, fresh):
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    photographs.read(CASES["jpeg"])
    with photographs.opened(io.BytesIO(CASES["jpeg"])) as one:
        os.kill(one.image._decoder._process.pid, signal.SIGSEGV)
        with pytest.raises(Unreadable, match="its decoder ended with signal 11"):
            one.image.load()
    assert photographs.read(CASES["jpeg"]).size == Image.open(io.BytesIO(CASES["jpeg"])).size


def test_a_decoder_that_hangs_is_ended(monkeypatch, fresh):
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    monkeypatch.setenv("AVOW_DECODE_SECONDS", "30")
    with photographs.opened(io.BytesIO(CASES["jpeg"])) as one:
        decoder = one.image._decoder
        os.kill(decoder._process.pid, signal.SIGSTOP)
        decoder.seconds = 0.2
        with pytest.raises(Unreadable, match=r"its decoder took more than 0\.2 seconds"):
            one.image.load()
        assert decoder._process.wait() == -signal.SIGKILL
    assert decoders() == []


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="the limit of memory is that of Linux")
def test_memory_is_limited(monkeypatch, fresh):
    """Eighty million pixels in a file of some kilobytes."""
    data = encoded(Image.new("L", (9000, 9000)), "PNG")
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    monkeypatch.setenv("AVOW_DECODE_MB", "300")
    with pytest.raises(Unreadable, match="more memory than a decoder may have"):
        photographs.read(data)
    assert photographs.read(CASES["jpeg"]).width


def test_a_child_writes_no_file(tmp_path):
    code = (
        "from avow.core.decoding_child import limit; limit(2**31); import signal;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); open('x', 'w').write('x' * 9999)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode and "File too large" in done.stderr
    assert (tmp_path / "x").stat().st_size == 0


def test_a_limit_that_is_no_number_is_told(monkeypatch, fresh):
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    monkeypatch.setenv("AVOW_DECODE_SECONDS", "soon")
    with pytest.raises(BadData, match=r"AVOW_DECODE_SECONDS is 'soon'\. Expected a number"):
        photographs.read(CASES["jpeg"])


def test_an_answer_is_not_believed():
    """What a decoder that was taken over might say."""
    for told in ({"edges": ["a", 2]}, {"edges": [2, 2], "mode": "evil", "palette": None}):
        with pytest.raises(Unreadable, match="gave no picture"):
            isolated_decoding._image({"mode": "RGB", "clear": None, **told}, b"1234")


def test_an_index_is_the_same_but_for_videos(tmp_path, monkeypatch):
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, data in enumerate(CASES.values()):
        (photos / f"{number}.{Image.open(io.BytesIO(data)).format.lower()}").write_bytes(data)
    (photos / "cut.jpg").write_bytes(CASES["jpeg"][:700])
    (photos / "film.mp4").write_bytes(b"\0\0\0 ftypisom")
    contents = []
    for name in ("here", "elsewhere"):
        index_folders([photos], index=tmp_path / name, encoder=ColourEncoder(), workers=2)
        with Library.open(tmp_path / name, ColourEncoder()) as library:
            ids = library.find()
            facts = [(one.path, one.width, one.taken, one.tags) for one in library.items(ids)]
            skipped = {os.path.basename(one.path): one.why for one in library.skipped()}
            contents.append((facts, library.vectors(ids).tolist(), skipped))
        monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    (facts, vectors, _), (facts_elsewhere, vectors_elsewhere, skipped) = contents
    assert len(facts) == len(CASES) and facts == facts_elsewhere
    assert vectors == vectors_elsewhere
    assert skipped["film.mp4"] == NOT_FROM_STRANGERS and "cut.jpg" in skipped


def test_uploads_and_thumbnails(tmp_path, monkeypatch, fresh):
    monkeypatch.setenv("AVOW_UNTRUSTED", "1")
    path = tmp_path / "turned.jpg"
    path.write_bytes(CASES["turned jpeg"])
    width, height = photographs.size(CASES["turned jpeg"])
    assert uploaded(path.read_bytes(), 10**8).size == (height, width)
    assert thumbnail(path, 32).height == 32
    assert len(decoders()) == 1
