"""Options whose values are taken as they are: the same as typer makes of them."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from avow.cli._plain_values import PlainCommand, PlainGroup


def called(words: list[str], group: type[TyperGroup], command: type[TyperCommand]):
    """What a command of every kind of option is called with, and what it says of a mistake."""
    seen = []
    program = typer.Typer(cls=group, rich_markup_mode=None, add_completion=False)

    @program.command(cls=command)
    def ask(
        text: Annotated[str | None, typer.Argument()] = None,
        count: Annotated[int, typer.Option("-k", min=1)] = 10,
        risk: float | None = None,
        kind: Literal["image", "text"] = "image",
        index: Path | None = None,
        there: Annotated[Path | None, typer.Option(exists=True)] = None,
        words: Annotated[list[str] | None, typer.Option()] = None,
        yes: bool = False,
    ) -> None:
        seen.append((text, count, risk, kind, index, there, words, yes))

    @program.command(cls=command)
    def other() -> None: ...

    done = CliRunner().invoke(program, ["ask", *words])
    return seen, done.exit_code, done.output


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "dogs --index HERE --yes",
        "dogs --index HERE/missing",
        "7 -k 3 --risk 0.1 --kind text --there HERE --words a --words b",
        "dogs -k 0",
        "dogs -k many",
        "dogs --risk high",
        "dogs --kind sound",
        "dogs --there HERE/missing",
        "dogs --index a\0b",
        "dogs cats",
    ],
)
def test_the_same_as_by_typer_alone(tmp_path, typed):
    words = typed.replace("HERE", str(tmp_path)).split()
    plain = called(words, PlainGroup, PlainCommand)
    assert plain == called(words, TyperGroup, TyperCommand)
    assert bool(plain[0]) == (plain[1] == 0)
