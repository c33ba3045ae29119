"""A process that decodes pictures for another one, under limits; `isolated_decoding` starts it.

    request    8 bytes, a JSON object of that length, then `size` bytes of the file, if any
    answer     8 bytes, a JSON object of that length, then `size` bytes of pixels, if any

Nothing is pickled: what comes back is read by a process that trusts neither the file nor this
decoder of it. Requests: `size` and `open` with a file, `load` for the picture that is open.
"""

import io
import json
import sys
import warnings
from contextlib import ExitStack
from typing import IO, Any

from PIL import ExifTags, Image

from avow.core import photographs
from avow.core.photographs import Photograph, Unreadable

LENGTH = 8
"""Bytes that say how long a message is."""
PLAIN = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV")
"""Modes whose pixels travel as they are; others as red, green and blue."""
_FILES = 64


def main() -> None:
    limit(int(sys.argv[1]))
    warnings.simplefilter("ignore")
    source, target = sys.stdin.buffer, sys.stdout.buffer
    child = Child()
    while head := source.read(LENGTH):
        request = json.loads(source.read(int.from_bytes(head)))
        data = source.read(request.get("size", 0))
        answer, pixels = child.answered(request, data)
        send(target, answer, pixels)


def limit(memory: int) -> None:
    """Hold this process to some bytes of memory; it writes no file and leaves no core."""
    try:
        import resource
    except ImportError:  # a system without such limits: time is still limited
        return
    wanted = {"RLIMIT_AS": memory, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0, "RLIMIT_NOFILE": _FILES}
    for name, value in wanted.items():
        try:
            resource.setrlimit(getattr(resource, name), (value, value))
        except (AttributeError, ValueError, OSError):  # macOS has no limit of addresses
            continue


def send(stream: IO[bytes], message: dict[str, Any], data: bytes = b"") -> None:
    head = json.dumps(message | {"size": len(data)}).encode()
    stream.write(len(head).to_bytes(LENGTH) + head)
    stream.write(data)
    stream.flush()


class Child:
    """Holds the picture that is open."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._open: Photograph | None = None

    def answered(self, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        try:
            match request["do"]:
                case "size":
                    return {"edges": photographs.identify(io.BytesIO(data)).size}, b""
                case "open":
                    return self._opened(data, request["largest"]), b""
                case _:
                    return self._loaded(request["draft"])
        except MemoryError:
            return {"error": "it needs more memory than a decoder may have", "why": "size"}, b""
        except Unreadable as error:
            return {"error": str(error), "why": error.reason}, b""
        except Exception as error:  # decoders of broken files raise almost anything
            return {"error": photographs.why_unreadable(error), "why": "damaged"}, b""

    def _opened(self, data: bytes, largest: int) -> dict[str, Any]:
        self._held.close()
        stream = io.BytesIO(data)
        self._open = one = self._held.enter_context(photographs.opened(stream, largest))
        return {
            "edges": (one.width, one.height),
            "decoded": one.image.size,
            "mode": one.image.mode,
            "format": one.image.format,
            "exif": _exif_bytes(one.exif).hex(),
        }

    def _loaded(self, draft: list[Any] | None) -> tuple[dict[str, Any], bytes]:
        assert self._open is not None, "nothing is open"
        image = self._open.image
        if draft is not None:
            image.draft(draft[0], tuple(draft[1]))
        image.load()
        turned = image.getexif().get(ExifTags.Base.Orientation, 1)
        if image.mode not in PLAIN:
            image = image.convert("RGB")
        clear = image.info.get("transparency")
        about = {
            "mode": image.mode,
            "edges": image.size,
            "turned": turned if isinstance(turned, int) else 1,
            "palette": _palette(image),
            "clear": list(clear) if isinstance(clear, bytes | tuple) else clear,
            "clear_bytes": isinstance(clear, bytes),
        }
        return about, image.tobytes()


def _palette(image: Image.Image) -> list[str] | None:
    if image.palette is None:
        return None
    mode, data = image.palette.getdata()
    return [mode, bytes(data).hex()]


def _exif_bytes(exif: Image.Exif) -> bytes:
    try:
        return exif.tobytes() if len(exif) else b""
    except Exception:  # what cannot be written again is left out
        return b""


if __name__ == "__main__":
    main()
