"""`avow methods`: everything a recipe can name, with its settings."""

import json

import typer

from avow.cli._options import AsJson


def methods(
    as_json: AsJson = False,
) -> None:
    """List the methods, losses, backbones and dataset readers, and their settings."""
    from avow.assembly.contents import contents

    parts = contents()
    if as_json:
        typer.echo(json.dumps(parts))
        return
    for part, entries in parts.items():
        typer.echo(part)
        for entry in entries:
            typer.echo(f"  {entry['name']:<20} {entry['summary']}")
            settings = ", ".join(f"{key}={value}" for key, value in entry["settings"].items())
            if settings:
                typer.echo(f"  {'':<20} {settings}")
