#!/usr/bin/env python3
"""The licences of everything that Avow needs, may need, and ships.

    python scripts/licences.py      write scripts/licences.json anew from what is installed

`scripts/licences.json` has one entry for every package that a plain install or an extra brings:
its licence, and what brings it. Where the metadata of an installed package states a licence in
SPDX's terms, that one is taken; the others were read in the package by a person and are
written into the file by hand. `scripts/docs` makes docs/reference/licences.md from it, and
`tests/test_licences.py` fails when a package is missing there.
"""

import importlib.metadata
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ROOT / "scripts" / "licences.json"
WEIGHTS = ROOT / "scripts" / "licences_of_weights.md"
BASE = "avow"
CUDA = ("nvidia-", "cuda-", "triton")
"""What torch brings on Linux with a CUDA device; listed on the page in one line."""


def main() -> int:
    known = read_known()
    needed = closure(declared())
    found: dict[str, Any] = {}
    unknown = []
    for name in sorted(needed):
        before = known.get(name, {})
        licence = before.get("licence") or stated(name)
        if licence is None:
            unknown.append(name)
            continue
        note = {"note": before["note"]} if "note" in before else {}
        found[name] = {"licence": licence, "for": sorted(needed[name]), **note}
    KNOWN.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if unknown:
        print(
            f"These packages state no licence in SPDX's terms: {', '.join(unknown)}. Read it "
            f"in the package and add an entry to {KNOWN.relative_to(ROOT)}.",
            file=sys.stderr,
        )
    return bool(unknown)


def read_known() -> dict[str, dict[str, Any]]:
    return json.loads(KNOWN.read_text("utf-8")) if KNOWN.is_file() else {}


def declared() -> dict[str, list[str]]:
    """The requirements of pyproject.toml: of a plain install, and of every extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {BASE: project["dependencies"], **project["optional-dependencies"]}


def closure(groups: Mapping[str, list[str]]) -> dict[str, set[str]]:
    """Every package that the groups bring, as far as installed, and which groups do."""
    found: dict[str, set[str]] = {}
    for group, requirements in groups.items():
        seen: set[tuple[str, str]] = set()
        for requirement in requirements:
            for name in brought(Requirement(requirement), seen):
                found.setdefault(name, set()).add(group)
    return {name: brings for name, brings in found.items() if not name.startswith(CUDA)}


def brought(requirement: Requirement, seen: set[tuple[str, str]]) -> Iterator[str]:
    name = re.sub(r"[-_.]+", "-", requirement.name).lower()
    extras = requirement.extras or {""}
    if name == BASE or all((name, extra) in seen for extra in extras):
        return
    seen |= {(name, extra) for extra in extras}
    yield name
    try:
        inner = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for one in map(Requirement, inner):
        wanted = one.marker is None or any(
            one.marker.evaluate({"extra": extra}) for extra in extras | {""}
        )
        if wanted:
            yield from brought(one, seen)


def stated(name: str) -> str | None:
    """The licence in the metadata of an installed package, if it is an SPDX expression."""
    try:
        found = importlib.metadata.metadata(name).json.get("license_expression")
    except importlib.metadata.PackageNotFoundError:
        return None
    return str(found) if found else None


def page(head: str) -> str:
    """docs/reference/licences.md."""
    known = read_known()
    direct = {
        re.sub(r"[-_.]+", "-", Requirement(one).name).lower()
        for requirements in declared().values()
        for one in requirements
    }
    tools = {name for name, entry in known.items() if entry["for"] == ["dev"]}
    plain = {name for name, entry in known.items() if BASE in entry["for"]}
    parts = [
        head,
        "# Licences",
        "Avow itself is under the Apache License 2.0. This page lists what an install brings, "
        "and what the shipped weights were made from. In **bold**: what `pyproject.toml` "
        "names; the others come with those. It is no legal advice.",
        WEIGHTS.read_text("utf-8").strip(),
        "## A plain install",
        "`pip install avow` brings these packages: enough to index, search, serve, explain, "
        "calibrate and audit with the model that comes with Avow.",
        listing(known, plain, direct),
        "## Extras",
        "Nothing here is installed unless its extra is asked for, as in `pip install "
        "'avow[train]'`. On Linux, `torch` of the extra `train` also brings NVIDIA's CUDA "
        "libraries (`nvidia-*`, NVIDIA's own proprietary terms) and `triton` (MIT).",
        listing(known, set(known) - plain - tools, direct),
        "## Tools of development",
        "The extra `dev` also brings what tests and checks need. Users need none of it. It "
        "contains all other extras, `heic` too, because every one of them is tested.",
        listing(known, tools, direct),
    ]
    return "\n\n".join(parts) + "\n"


def listing(known: Mapping[str, dict[str, Any]], names: set[str], direct: set[str]) -> str:
    lines = ["| package | licence | brought by | note |", "| --- | --- | --- | --- |"]
    for name in sorted(names):
        entry = known[name]
        shown = f"**{name}**" if name in direct else name
        brings = ", ".join(f"`{one}`" for one in entry["for"] if one != "dev") or "`dev`"
        lines.append(f"| {shown} | {entry['licence']} | {brings} | {entry.get('note', '')} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
