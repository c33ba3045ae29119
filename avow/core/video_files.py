"""Opening a video: which containers and codecs are allowed, limits, and what went wrong.

    path --regular file?--> container --limits--> the picture stream --> decoder settings

FFmpeg reads hundreds of formats, among them playlists and scripts that open other files or
the network. Only containers that hold their own pictures are allowed here, and only files
are opened. PyAV is imported when the first video is opened.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from avow.core.errors import AvowError, MissingExtra, UnreadableVideo

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

LARGEST_FRAME = 40_000_000
"""Pixels of one frame; 8K has 33 million."""
LONGEST = 24 * 3600.0
"""Seconds of one video."""
MOST_STREAMS = 64
MOST_THREADS = 4
"""Threads of one decoder; each holds a few frames."""
EXPECTED = "Expected an MP4, MOV, MKV, WebM or AVI file with pictures"

_CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi"
_CODECS = (
    "h264 hevc av1 libdav1d vp8 vp9 mpeg4 mpeg2video mpeg1video h263 h263p flv msmpeg4v1 "
    "msmpeg4v2 msmpeg4 wmv1 wmv2 wmv3 vc1 theora mjpeg mjpegb prores dnxhd ffv1 huffyuv "
    "ffvhuff utvideo cinepak svq1 svq3 dvvideo rawvideo png jpeg2000 qtrle"
).split()
_OPTIONS = {
    "protocol_whitelist": "file",
    "format_whitelist": _CONTAINERS,
    "max_streams": str(MOST_STREAMS),
}


def pyav() -> Any:
    """The package `av`, or the sentence that says how to install it."""
    try:
        import av
    except ImportError as error:
        raise MissingExtra("Reading videos", "av", "video") from error
    return av


@contextmanager
def opened(path: Path) -> Iterator["tuple[InputContainer, VideoStream]"]:
    """A video and its stream of pictures, for as long as the block lasts.

    Whatever a decoder raises inside the block leaves it as `UnreadableVideo`.
    """
    av = pyav()
    with explained(path):
        _check_file(path)
        source = "file:" + os.fspath(path)
        container = av.open(source, "r", options=_OPTIONS, metadata_errors="replace")
        with container:
            yield container, _picture_stream(path, container)


@contextmanager
def explained(path: Path, doing: str = "read") -> Iterator[None]:
    """Turn whatever a decoder raises into one sentence about `path`."""
    try:
        yield
    except AvowError:
        raise
    except Exception as error:  # decoders of broken files raise almost anything
        raise unreadable(path, _cause(error), doing) from error


def unreadable(path: Path, why: str, doing: str = "read") -> UnreadableVideo:
    """The error sentence of a video."""
    sentence = f"The video {str(path)!r} cannot be {doing}: {why}. {EXPECTED}; check the file."
    return UnreadableVideo(sentence, why)


def prepare_decoder(stream: "VideoStream", threads: int = 0, skip: str = "DEFAULT") -> None:
    """Set limits and threads before the first packet is decoded.

    threads: 0 takes one per core, `MOST_THREADS` at most.
    skip: which frames are not decoded, as FFmpeg calls them ("NONREF", "NONINTRA").
    """
    context: Any = stream.codec_context
    context.options = {"max_pixels": str(LARGEST_FRAME)}
    context.thread_count = min(threads or os.cpu_count() or 1, MOST_THREADS)
    context.thread_type = "AUTO"
    context.skip_frame = skip


def _check_file(path: Path) -> None:
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):  # opening a pipe would wait for ever
        raise unreadable(path, "it is not a file")
    if not about.st_size:
        raise unreadable(path, "the file is empty")


def _picture_stream(path: Path, container: "InputContainer") -> "VideoStream":
    """The first stream of moving pictures; a cover of an album is none."""
    if len(container.streams) > MOST_STREAMS:
        raise unreadable(
            path, f"it has {len(container.streams)} streams; {MOST_STREAMS} at most"
        )
    av = pyav()
    covers = av.stream.Disposition.attached_pic | av.stream.Disposition.timed_thumbnails
    pictures = [one for one in container.streams.video if not one.disposition & covers]
    if not pictures:
        raise unreadable(path, "it has sound or text but no moving pictures")
    chosen = next((one for one in pictures if one.codec_context is not None), None)
    if chosen is None or chosen.codec_context.codec.name not in _CODECS:
        name = chosen.codec_context.codec.name if chosen else "unknown"
        raise unreadable(path, f"its pictures are coded as {name!r}, which is not supported")
    _check_limits(path, container, chosen)
    return chosen


def _check_limits(path: Path, container: "InputContainer", stream: "VideoStream") -> None:
    width, height = stream.codec_context.width, stream.codec_context.height
    if width * height > LARGEST_FRAME:
        why = f"its frames have {width} x {height} pixels; {LARGEST_FRAME} pixels at most"
        raise unreadable(path, why)
    seconds = (container.duration or 0) / 1_000_000
    if seconds > LONGEST:
        why = f"it lasts {seconds / 3600:.0f} hours; {LONGEST / 3600:.0f} at most"
        raise unreadable(path, why)


def _cause(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "the file is missing"
    if isinstance(error, PermissionError | IsADirectoryError):
        return f"it may not be opened ({error.strerror})"
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    name = type(error).__name__
    if name == "ArgumentError":  # a container outside the list, or one it refers to
        return "it is not in a container that is read"
    if name == "InvalidDataError":
        return "its data are damaged, incomplete, or not a video"
    message = " ".join(str(error).split())[:200] or name
    return f"it cannot be decoded ({message})"
