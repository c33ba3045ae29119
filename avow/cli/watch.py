"""`avow watch`: keep an index current while its folders change."""

from functools import cache, partial
from typing import Annotated

import typer

from avow.cli._options import AllowCode, AsJson
from avow.cli.index import EncoderDevice, ModelName, Where, open_named, tell

Watched = Annotated[list[str], typer.Argument(help="Folders to index and to watch.")]


def watch(
    folders: Watched,
    where: Where = None,
    model: ModelName = "default",
    device: EncoderDevice = "",
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Index FOLDERS, then again whenever a file below them changes; Ctrl-C ends it.

    Needs the extra `avow[watch]`. With --json every run is one line. On network drives, which
    give no notice of changes, set WATCHFILES_FORCE_POLLING=1.
    """
    from avow.retrieval.encoders.lazy import Deferred
    from avow.retrieval.watching import watch_folders

    opened = partial(open_named, device=device, allow_code=allow_code)
    chosen = Deferred.named(model, cache(opened))
    watch_folders(folders, index=where, encoder=chosen, tell=partial(tell, as_json=as_json))
