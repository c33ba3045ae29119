"""Choosing folders to index from the page, below the roots that whoever serves has allowed."""

import os
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from avow.api.refusals import Refusal
from avow.api.searching import REFUSALS
from avow.api.service import Here
from avow.core.formats import is_picture, is_video

MOST = 500
"""Folders that are listed."""
_LOOKED_AT = 20_000  # entries of one folder
router = APIRouter(prefix="/api", responses=REFUSALS)


class Folder(BaseModel):
    path: str
    name: str


class Folders(BaseModel):
    """A folder with those in it; the roots where none is named."""

    path: str | None
    parent: str | None = Field(description="One folder up, where that is still allowed.")
    files: int = Field(description="Pictures and videos that lie in it.")
    folders: list[Folder] = Field(description="The first of them.")


@router.get("/folders")
async def folders(
    here: Here, path: Annotated[str | None, Query(max_length=4096)] = None
) -> Folders:
    """Folders that may be indexed from the page: below the roots of `avow serve --root`."""
    if path is None:
        listed = [Folder(path=root, name=root) for root in here.roots]
        return Folders(path=None, parent=None, files=0, folders=listed)
    return await here.reading.run(_listed, path, here.roots)


def allowed(path: str, roots: Sequence[str]) -> str | None:
    """The real folder behind a path, where it is a root or lies below one."""
    real = os.path.realpath(path) if "\0" not in path else ""
    for root in roots:
        below = real[len(os.path.join(root, "")) :]
        inside = real == root or real.startswith(os.path.join(root, ""))
        hidden = any(part.startswith(".") for part in below.split(os.sep))
        if inside and not hidden and os.path.isdir(real):
            return real
    return None


def _listed(path: str, roots: Sequence[str]) -> Folders:
    real = allowed(path, roots)
    if real is None:
        raise not_allowed(path)
    below, files = [], 0
    try:
        with os.scandir(real) as entries:
            for number, entry in enumerate(entries):
                if number == _LOOKED_AT:
                    break
                suffix = os.path.splitext(entry.name)[1].lower()
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    below.append(Folder(path=entry.path, name=entry.name))
                elif is_picture(suffix) or is_video(suffix):
                    files += 1
    except OSError as error:
        raise Refusal(404, f"The folder {path!r} cannot be read ({error.strerror}).") from error
    below.sort(key=lambda one: one.name.casefold())
    up = allowed(os.path.dirname(real), roots)
    return Folders(path=real, parent=up, files=files, folders=below[:MOST])


def not_allowed(path: str) -> Refusal:
    return Refusal(
        404,
        f"The folder {path!r} cannot be indexed from here. Expected a folder below one of the "
        "roots that GET /api/folders names; start the server with --root, or use `avow index`.",
    )
