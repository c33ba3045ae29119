"""The page of promises: each with the command that proves it and what it showed."""

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import benchmarks.torture
from avow.core import folder
from benchmarks._intervals import wilson
from benchmarks.pages import figures
from benchmarks.pages.figures import number

NOT_SEEN = "Not seen by the tests:"
ALIKE = "Not seen, and nobody could see them:"
NAME, BRANCHES, MUTANTS = "torture", "branches", "mutants"


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
        *_branches(),
        *_mutants(),
        *([figures.source(*filter(figures.exists, (BRANCHES, MUTANTS)))] if seen else []),
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
        parts.append(f"By the code of: {', '.join(seen['commits'])}. {_machines(seen)}.")
    return "\n\n".join(part for part in parts if part)


def _machines(seen: dict[str, Any]) -> str:
    return "; ".join(
        f"On {figures.hardware(one)} ({one['architecture']}), {one['date']}"
        for one in seen["machines"]
    )


def _branches() -> list[str]:
    """How much of the rooms behind the promises the tests reach."""
    if not figures.exists(BRANCHES):
        return []
    told = figures.load(BRANCHES)
    rows = [
        [
            f"`{room}`",
            number(one["lines"]),
            _share(one["lines_reached"], one["lines"]),
            number(one["branches"]),
            _share(one["branches_reached"], one["branches"]),
        ]
        for room, one in told["rooms"].items()
    ]
    return [
        "## Branches that the tests take",
        "Counted by coverage.py; of what only started processes reach, a part is seen. Run: "
        f"{len(told['tests'])} files of tests.",
        figures.table(["room", "lines", "reached", "branches", "taken"], rows),
        figures.command("python -m benchmarks.quality.branches"),
    ]


def _mutants() -> list[str]:
    """How many changes of the code the tests see."""
    if not figures.exists(MUTANTS):
        return []
    kept = figures.load(MUTANTS)
    alike = kept.get("equivalent", {})
    survivors = [key for key, one in kept["mutants"].items() if not one["killed"]]
    ends = [100 * end for end in wilson(kept["killed"] / kept["tried"], kept["tried"])]
    return [
        "## Changes of the code that the tests see",
        f"Of {number(kept['sites'])} possible changes of one place in modules of trust, core "
        f"and the stores, {number(kept['tried'])} were drawn and tried; tests failed for "
        f"{number(kept['killed'])} of them: {_share(kept['killed'], kept['tried'])}, with a "
        f"95 % interval from {number(ends[0], 1)} to {number(ends[1], 1)} %. Some tests "
        "were written for what this draw showed, so another would give less. `TARGETS` of the "
        "benchmark lists what is looked at.",
        figures.command("python -m benchmarks.quality.mutants"),
        *([NOT_SEEN, _listed(key for key in survivors if key not in alike)]),
        *([ALIKE, _listed(f"{key}: {why}" for key, why in alike.items())] if alike else []),
    ]


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- `{place}`: {rest}" for place, _, rest in _parted(lines)) or "- none"


def _parted(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    return (line.partition(": ") for line in lines)


def _share(part: int, whole: int) -> str:
    return f"{number(100 * part / whole, 1)} %" if whole else "none"
