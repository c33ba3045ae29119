"""The page of promises: each with the command that proves it and what it showed."""

from types import ModuleType
from typing import Any

import benchmarks.torture
from avow.core import folder
from benchmarks.pages import figures
from benchmarks.pages.figures import number

NAME = "torture"


def render() -> str:
    modules = {
        name: folder.find(benchmarks.torture, name) for name in folder.names(benchmarks.torture)
    }
    seen = figures.load(NAME)["promises"] if figures.exists(NAME) else {}
    return figures.page(
        "Promises",
        "What Avow promises of its files and its server, and how each promise is proved. The "
        "long proofs take minutes to hours and can be stopped and continued; a short form of "
        "each is part of `make test`. A loss is a try in which the promise did not hold; a "
        "traceback is one that ended in neither a result nor a sentence.",
        figures.command("scripts/torture --list", "scripts/torture --minutes 60"),
        figures.table(
            ["promise", "command", "tries", "wanted", "losses", "tracebacks", "hours"],
            [_row(name, module, seen.get(name)) for name, module in modules.items()],
        ),
        *(_section(name, module, seen.get(name)) for name, module in modules.items()),
        *([figures.source(NAME)] if seen else []),
    )


def _row(name: str, module: ModuleType, seen: dict[str, Any] | None) -> list[str]:
    told = seen or {"tries": 0, "losses": 0, "tracebacks": 0, "hours": 0.0}
    return [
        module.PROMISE,
        f"`scripts/torture {name}`",
        number(told["tries"]),
        number(module.WANTED),
        *(str(told[key]) if seen else "not run yet" for key in ("losses", "tracebacks")),
        number(told["hours"], 2),
    ]


def _section(name: str, module: ModuleType, seen: dict[str, Any] | None) -> str:
    parts = [f"## {module.PROMISE.rstrip('.')}", module.PROOF]
    if seen:
        rows = [[key, number(value)] for key, value in seen["counts"].items()]
        rows += [[f"{key} (largest)", number(value, 2)] for key, value in seen["peaks"].items()]
        parts.append(figures.table(["seen", "figure"], rows) if rows else "")
        parts += [f"- {line}" for line in seen["told"][:5]]
        parts.append(f"By the code of: {', '.join(seen['commits'])}.")
    return "\n\n".join(part for part in parts if part)
