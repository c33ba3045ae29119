"""What code a trained run depends on, as one short number that changes when the code does.

    recipe --method, loss--> their files, and what those import of methods, losses, blocks,
    training and the arithmetic of opinions --lines without comments--> digest

A run records the number of its day; `scripts/docs` compares it with that of the code as it is,
and says on the pages which figures are older. Comments and docstrings do not count.
"""

import ast
import hashlib
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "avow"
ROOMS = ("methods", "losses", "blocks", "training")
ARITHMETIC = ("core/opinion.py", "core/evidence.py", "core/gamma.py")
TRANSFORMERS = {"blocks/lora_text.py", "blocks/cached_text.py"}
"""They count where a recipe reads with a transformer, or asks one what fits."""
LENGTH = 12


def code_of(recipe: str) -> str | None:
    """The number of a recipe, with or without changes; None where it is no file of ours."""
    base, *changes = recipe.split("+")
    path = PACKAGE / "recipes" / f"{base}.toml"
    if not path.is_file():
        return None
    content = tomllib.loads(path.read_text("utf-8"))
    chosen = {
        f"{part}.{key}": str(value)
        for part in ("method", "loss")
        for key, value in content[part].items()
    } | {key: value for key, _, value in (change.partition("=") for change in changes)}
    starts = [f"methods/{chosen['method.name']}.py", f"losses/{chosen['loss.name']}.py"]
    files = _reached([*starts, "training/loop.py", *ARITHMETIC])
    if not _asks_a_transformer(chosen):
        files -= TRANSFORMERS
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file}\n{_meaning(file)}\n".encode())
    return digest.hexdigest()[:LENGTH]


def _asks_a_transformer(chosen: dict[str, str]) -> bool:
    reads = chosen.get("method.text", "gru") not in ("gru", "glove")
    return reads or "method.names" in chosen or "loss.others" in chosen


def _reached(starts: list[str]) -> set[str]:
    """The files and all that they import of the rooms that count."""
    known: set[str] = set()
    waiting = [file for file in starts if (PACKAGE / file).is_file()]
    while waiting:
        file = waiting.pop()
        if file not in known:
            known.add(file)
            waiting += _imported(file)
    return known


@cache
def _imported(file: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_imports(_tree(file))))


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("avow."):
            continue
        module = (node.module or "").removeprefix("avow.").replace(".", "/")
        inside = [f"{module}/{name.name}.py" for name in node.names]
        for file in (f"{module}.py", *inside):
            if file.partition("/")[0] in ROOMS and (PACKAGE / file).is_file():
                yield file


@cache
def _meaning(file: str) -> str:
    """The lines that compute; the same for every version of Python, as a tree is not."""
    texts = [node for node in ast.walk(_tree(file)) if _is_text(node)]
    silent = {line for one in texts for line in range(one.lineno, (one.end_lineno or 0) + 1)}
    lines = (PACKAGE / file).read_text("utf-8").splitlines()
    kept = [line for number, line in enumerate(lines, 1) if number not in silent]
    return "\n".join(line for line in kept if line.strip() and line.strip()[0] != "#")


def _is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _tree(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text("utf-8"))
