"""The page of recipes: one line each; `avow recipes NAME` prints the whole of one."""

import re
import tomllib
from pathlib import Path
from typing import Any

HEAD = ["name", "what it is", "data", "method", "loss", "epochs"]


def rows(home: Path) -> list[list[str]]:
    return [row(path, home) for path in sorted(home.rglob("*.toml"))]


def row(path: Path, home: Path) -> list[str]:
    source = path.read_text("utf-8")
    name = path.relative_to(home).with_suffix("").as_posix()
    values = tomllib.loads(source)
    parts = [str(entry(values, part, "name")) for part in ("data", "method", "loss")]
    epochs = str(entry(values, "train", "epochs"))
    return [f"`{name}`", title(source), *(f"`{part}`" for part in parts), epochs]


def entry(values: dict[str, Any], table: str, key: str) -> Any:
    return values.get(table, {}).get(key, "")


def title(source: str) -> str:
    """The first sentence of the header comment, which may run over several lines."""
    lines = []
    for line in source.splitlines():
        text = line.removeprefix("#")
        if text == line or text.startswith("  "):  # no comment any more, or a command
            break
        lines.append(text.strip())
    whole = " ".join(lines)
    return re.split(r"(?<=\.)\s", whole, maxsplit=1)[0].rstrip(".")
