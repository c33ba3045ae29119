"""Recompute the recorded numbers of published systems, and say how far ours are from them.

    python benchmarks/parity.py DIR
    python benchmarks/parity.py DIR --only tcl_VSE vseinfty

DIR holds, per system, its inputs, its starting weights and what it computed from them
(`inputs_*.npz`, `*_weights.pt`, `*_out.npz`, `*_after_step*.pt`), and `tolerance.json`; or one
`.npz` per system with all of it, whose tolerance is that of its file in `parity_systems`.
Weights come in as `avow import` brings them in. Every recorded array must be claimed by a
file of `parity_systems`; the error of one is its largest difference over its largest entry.

Exits with 0 when every array that Avow can compute was checked and none is over its
tolerance. Arrays of what Avow does not compute yet are listed as such.
"""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args

import numpy as np
import parity_systems
import torch
from parity_systems._claims import Claim, error
from parity_systems._oracle import Oracle

from avow.core.errors import UnknownName

Status = Literal["ok", "OVER", "NOT CHECKED", "input", "not yet"]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    system: str
    array: str
    status: Status
    error: float | None = None
    tolerance: float | None = None
    why: str = ""

    def __str__(self) -> str:
        numbers = [f"{n:.1e}" if n is not None else "-" for n in (self.error, self.tolerance)]
        tail = f"{self.status}: {self.why}" if self.why else self.status
        return f"{self.system:<36} {self.array:<28} {numbers[0]:>9} {numbers[1]:>9}  {tail}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of names")
    chosen = parser.parse_args()
    torch.set_float32_matmul_precision("highest")
    print(f"{'system':<36} {'array':<28} {'error':>9} {'tolerance':>9}")
    rows = []
    for name in names(chosen.folder):
        if name.startswith(tuple(chosen.only)):
            for row in check(Oracle(chosen.folder, name)):
                print(row, flush=True)
                rows.append(row)
    count = {status: sum(row.status == status for row in rows) for status in get_args(Status)}
    passed, failed, unchecked = count["ok"], count["OVER"], count["NOT CHECKED"]
    print(f"inputs {count['input']} not-yet {count['not yet']}")
    print(f"checked {passed + failed} passed {passed} failed {failed} not-checked {unchecked}")
    return 0 if passed and not failed and not unchecked else 1


def names(folder: Path) -> list[str]:
    """The systems of which the folder has numbers or weights."""
    kinds = ("_out.npz", "_weights.pt")
    found = {path.name.removesuffix(kind) for kind in kinds for path in folder.glob(f"*{kind}")}
    alone = {path.stem for path in folder.glob("*.npz") if not path.name.endswith(kinds)}
    return sorted(found | {name for name in alone if not name.startswith("inputs_")})


def families() -> list[ModuleType]:
    found = pkgutil.iter_modules(parity_systems.__path__)
    return [
        importlib.import_module(f"parity_systems.{module.name}")
        for module in found
        if not module.name.startswith("_")
    ]


def check(oracle: Oracle) -> Iterator[Row]:
    """Every array and state of one system, claimed or not."""
    recorded = [*oracle.arrays, *oracle.states]
    left = dict.fromkeys(recorded, "no file of parity_systems claims it")
    family = next((f for f in families() if oracle.name.startswith(f.PREFIXES)), None)
    if family is None:
        why = "no file of parity_systems knows the system"
        left = dict.fromkeys(left, why) or {"(weights)": why}
    elif not oracle.arrays:
        left = {"(weights)": "there are no recorded numbers beside them"}
    else:
        try:
            for claim in family.recompute(oracle):
                if claim.array in recorded:
                    left.pop(claim.array, None)
                    yield judge(oracle, claim, getattr(family, "TOLERANCE", {}))
        except UnknownName as missing:
            left = dict.fromkeys(left, f"not yet built. {missing}".partition(" There are")[0])
        except Exception as broken:  # one system that fails must not hide the others
            left = dict.fromkeys(left, f"{type(broken).__name__}: {broken}".splitlines()[0])
    for name, why in left.items():
        yield Row(oracle.name, name, "NOT CHECKED", why=why)


def judge(oracle: Oracle, claim: Claim, usual: Mapping[str, float]) -> Row:
    """usual: the tolerance of a family, for systems whose one file has none beside it."""
    if claim.kind != "value":
        return Row(oracle.name, claim.array, claim.kind, why=claim.why)
    tolerance = oracle.tolerance or (usual if oracle.is_one_file else {})
    limit = tolerance.get(claim.when)
    if limit is None:
        why = f"tolerance.json has no {claim.when!r} for it"
        return Row(oracle.name, claim.label, "NOT CHECKED", why=why)
    expected = claim.expected if claim.expected is not None else oracle.arrays[claim.array]
    if claim.part is not None:
        expected = np.atleast_1d(expected)[claim.part]
    found = error(claim.found, expected)
    # written so that a NaN is over every tolerance
    status: Status = "ok" if found <= limit else "OVER"
    return Row(oracle.name, claim.label, status, found, limit)


if __name__ == "__main__":
    sys.exit(main())
