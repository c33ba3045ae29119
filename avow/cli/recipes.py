"""`avow recipes`: what can be trained by name, and what came out."""

import json
from typing import Annotated

import typer

from avow.cli._options import AsJson


def recipes(
    name: Annotated[str, typer.Argument(help="Show this one whole.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the recipes that come with Avow, or print one of them."""
    from avow.assembly.recipe import Recipe, header, names, source

    if name:
        recipe = Recipe.open(name)
        typer.echo(json.dumps(recipe.to_dict()) if as_json else source(name).rstrip())
        return
    if as_json:
        typer.echo(json.dumps({recipe_name: header(recipe_name) for recipe_name in names()}))
        return
    for recipe_name in names():
        typer.echo(f"{recipe_name:<28} {header(recipe_name).splitlines()[0]}")
