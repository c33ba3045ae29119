"""What a run of the index says: how far it is, and what it did."""

from dataclasses import asdict, dataclass, field
from typing import Any

from avow.core.formats import NEEDS_PYAV, VIDEO_INSTALL


@dataclass
class Report:
    """What a run did; a file counts once."""

    new: int = 0
    changed: int = 0
    moved: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Path and reason, of this run and earlier ones."""
    alike: int = 0
    """Items that are near-duplicates of another one, where they are grouped."""
    repaired: list[str] = field(default_factory=list)
    """Sentences about damage that a rebuild has put right."""
    seconds: float = 0.0
    stopped: bool = False
    absent: list["Absent"] = field(default_factory=list)
    """Folders of which most files are missing; these were kept, unless `prune` was given."""
    frame_rate: str = ""
    """One sentence where videos are read again, because another frame rate was asked for."""
    trust: str = ""
    """What was done to judge searches of a model that brings no policy; see `transfer`."""

    @property
    def videos_left_out(self) -> str:
        """One sentence about videos that cannot be read here; empty where there are none."""
        count = sum(why == NEEDS_PYAV for _, why in self.skipped)
        if not count:
            return ""
        left = "1 video was left out" if count == 1 else f"{count} videos were left out"
        return (
            f"{left}: reading videos needs PyAV. Install it with {VIDEO_INSTALL} and run the "
            "same command again."
        )

    @property
    def unreadable(self) -> list[tuple[str, str]]:
        """What was skipped for a reason of its own, which no package removes."""
        return [(path, why) for path, why in self.skipped if why != NEEDS_PYAV]

    @property
    def nothing_readable(self) -> str:
        """One sentence where files were found and none of them is in the index; else empty."""
        did = self.new or self.changed or self.moved or self.deleted or self.unchanged
        if did or self.stopped or not self.skipped:
            return ""
        return (
            "Nothing was indexed: none of the files can be read. Expected at least one "
            "picture, video or text that is whole; see above why each was skipped."
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "skipped": [{"path": path, "why": why} for path, why in self.skipped],
            "seconds": round(self.seconds, 2),
        }


@dataclass(frozen=True)
class Absent:
    """A folder of which most files are missing, as if its disk were not mounted."""

    folder: str
    files: int
    """Missing ones, all of which stay in the index."""
    known: int
    """That the index knew in this folder."""

    def __str__(self) -> str:
        return (
            f"Nothing was deleted of {self.folder!r}: {self.files} of {self.known} files are "
            "not there. Mount its disk; or, if they are meant to go, run `avow index --prune` "
            "with this folder."
        )


@dataclass(frozen=True)
class Progress:
    """How far a run is: files read of those that must be."""

    done: int
    total: int
    skipped: int
    video: str = ""
    """The name of the video that is being read; empty between files."""
    share: float | None = None
    """How much of it is read, where its length is known."""

    def in_words(self) -> str:
        """ "Reading holiday.mp4, 34 %." while a video is read; else empty."""
        share = "" if self.share is None else f", {100 * self.share:.0f} %"
        return f"Reading {self.video}{share}." if self.video else ""
