"""Pictures of strangers, decoded in processes of their own with limits of time and memory.

With AVOW_UNTRUSTED=1 `photographs.opened` goes this way. A file that makes a decoder crash,
hang or take too much memory ends that process, and is a file that cannot be read; the indexer
or the server goes on. A process is started when first needed, and used for many files.

    AVOW_DECODE_SECONDS   for one file, 60
    AVOW_DECODE_MB        of memory for one decoder, 2048
"""

import atexit
import json
import os
import queue
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from PIL import Image

from avow.core.decoding_child import LENGTH, PLAIN
from avow.core.errors import BadData
from avow.core.photographs import (
    LARGEST,
    UNTRUSTED,
    Photograph,
    Reason,
    Unreadable,
    turn_only,
)

_HEADER = 2**22  # bytes of an answer before its pixels; EXIF data is most of it
_PIECE = 2**16
_REASONS: tuple[Reason, ...] = ("format", "package", "size", "damaged")
_LIMITS = {"AVOW_DECODE_SECONDS": 60.0, "AVOW_DECODE_MB": 2048.0}


@contextmanager
def opened(data: bytes, largest: int | None = None) -> Iterator[Photograph]:
    """What `photographs.opened` gives, of a file that another process decodes."""
    largest = LARGEST if largest is None else largest
    with _free() as decoder:
        about = decoder.ask({"do": "open", "largest": largest}, data)[0]
        exif = Image.Exif()
        if written := bytes.fromhex(about["exif"]):
            exif.load(written)
        yield Photograph(_Elsewhere(decoder, about), *_edges(about["edges"]), exif)


def size(data: bytes) -> tuple[int, int]:
    """Width and height as the header tells them."""
    with _free() as decoder:
        return _edges(decoder.ask({"do": "size"}, data)[0]["edges"])


class _Elsewhere(Image.Image):
    """A picture whose pixels come when they are first needed, as those of a file do."""

    def __init__(self, decoder: "_Decoder", about: dict[str, Any]):
        super().__init__()
        self._decoder = decoder
        self._draft: Sequence[Any] | None = None
        self._size, self._mode = _edges(about["decoded"]), str(about["mode"])
        self.format = about["format"]

    def draft(self, mode: str | None, size: tuple[int, int] | None) -> None:
        """Ask for a fraction of the resolution, where the format allows that."""
        self._draft = [mode, size]

    def load(self) -> Any:
        image = _image(*self._decoder.ask({"do": "load", "draft": self._draft}))
        self.__class__ = Image.Image  # type: ignore[assignment]
        self.__dict__ = image.__dict__  # both as Pillow's own stubs do
        return image.load()


def _image(about: dict[str, Any], pixels: bytes) -> Image.Image:
    mode = about["mode"]
    if mode not in PLAIN:
        raise _broken()
    try:
        image = Image.frombytes(mode, _edges(about["edges"]), pixels)
        if about["palette"] is not None:
            image.putpalette(bytes.fromhex(about["palette"][1]), about["palette"][0])
    except (ValueError, TypeError, KeyError) as error:
        raise _broken() from error
    if (clear := about["clear"]) is not None:
        listed = bytes(clear) if about["clear_bytes"] else clear
        image.info["transparency"] = tuple(listed) if isinstance(listed, list) else listed
    if about["turned"] != 1:
        image.info["exif"] = turn_only(int(about["turned"]))
    return image


def _edges(told: Any) -> tuple[int, int]:
    if not isinstance(told, list) or len(told) != 2 or not all(type(n) is int for n in told):
        raise _broken()
    return told[0], told[1]


def _broken() -> Unreadable:
    return Unreadable("its decoder gave no picture", "damaged")


# --- processes --------------------------------------------------------------------------

_idle: "queue.SimpleQueue[_Decoder]" = queue.SimpleQueue()
_of_the_parent: list[object] = []  # kept, so that their pipes are not closed


@contextmanager
def _free() -> Iterator["_Decoder"]:
    """A decoder that nobody else uses."""
    try:
        decoder = _idle.get_nowait()
    except queue.Empty:
        decoder = _Decoder()
    try:
        yield decoder
    finally:
        if decoder.runs:
            _idle.put(decoder)
        else:
            decoder.end()


def _forget() -> None:
    """Decoders belong to the process that started them, not to a fork of it."""
    global _idle
    _of_the_parent.append(_idle)
    _idle = queue.SimpleQueue()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@atexit.register
def end_all() -> None:
    """End the decoders that are idle; they would end with this process anyway."""
    while not _idle.empty():
        _idle.get().end()


def _limit(name: str) -> float:
    told = os.environ.get(name, "")
    try:
        value = float(told) if told else _LIMITS[name]
        if not 0 < value < float("inf"):
            raise ValueError
        return value
    except ValueError as error:
        raise BadData(
            f"{name} is {told!r}. Expected a number above 0; change it or leave it out."
        ) from error


class _Decoder:
    """One process."""

    def __init__(self) -> None:
        self.seconds, self.memory = _limit("AVOW_DECODE_SECONDS"), _limit("AVOW_DECODE_MB")
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment = {**os.environ, **one_thread, UNTRUSTED: ""}
        self._process = subprocess.Popen(
            # -P: or a file of the folder that this was started in would be imported
            [
                *(sys.executable, "-P", "-m", "avow.core.decoding_child"),
                str(int(self.memory * 2**20)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def ask(self, request: dict[str, Any], data: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """The answer and its pixels; `Unreadable` where there is none."""
        until = time.monotonic() + self.seconds
        head = json.dumps(request | {"size": len(data)}).encode()
        try:
            self._write(len(head).to_bytes(LENGTH) + head, until)
            self._write(data, until)
            length = int.from_bytes(self._read(LENGTH, until))
            if length > _HEADER:
                raise ValueError("an answer of impossible length")
            answer = json.loads(self._read(length, until))
            pixels = self._read(answer["size"], until) if answer["size"] else b""
        except TimeoutError as error:
            self._process.kill()
            told = f"its decoder took more than {self.seconds:g} seconds"
            raise Unreadable(told, "damaged") from error
        except (EOFError, BrokenPipeError) as error:
            ended = self._process.wait()
            how = f"signal {-ended}" if ended < 0 else f"code {ended}"
            raise Unreadable(f"its decoder ended with {how}", "damaged") from error
        except (ValueError, TypeError, KeyError, MemoryError) as error:
            self._process.kill()
            raise _broken() from error
        if "error" in answer:
            why = answer.get("why")
            raise Unreadable(str(answer["error"])[:500], why if why in _REASONS else "damaged")
        return answer, pixels

    def _write(self, data: bytes, until: float) -> None:
        rest = memoryview(data)
        while rest:
            self._wait(self._to, select.POLLOUT, until)
            rest = rest[os.write(self._to, rest[:_PIECE]) :]

    def _read(self, count: int, until: float) -> bytes:
        if not 0 <= count <= 4 * LARGEST:
            raise ValueError("an answer of impossible length")
        read = bytearray()
        while len(read) < count:
            self._wait(self._from, select.POLLIN, until)
            piece = os.read(self._from, min(2**20, count - len(read)))
            if not piece:
                raise EOFError
            read += piece
        return bytes(read)

    def _wait(self, handle: int, what: int, until: float) -> None:
        poll = select.poll()
        poll.register(handle, what)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise TimeoutError
