"""Options that several commands share; a command's own ones stand above it in its file."""

from pathlib import Path
from typing import Annotated

import typer

AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Import modules outside Avow that the files name; this runs their code.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]
Dataset = Annotated[str, typer.Argument(help="Dataset name, folder or file.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, …; default: best.")]
Features = Annotated[Path | None, typer.Option(help="Folder made by `avow features`.")]
IndexFolder = Annotated[
    Path | None,
    typer.Option(help="Folder of the index, or postgres:NAME; default under AVOW_HOME."),
]
ModelOfIndex = Annotated[
    str | None, typer.Option(help="Model of the index, where it has several.")
]
Count = Annotated[int, typer.Option("-k", min=1, help="Answers to show.")]
Where = Annotated[
    str | None,
    typer.Option(help="Only items like this: 'taken>=2024 and path~\"holiday\"'."),
]
