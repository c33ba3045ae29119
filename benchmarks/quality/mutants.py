"""Change the code in one place at a time: do the tests see it?

    python -m benchmarks.quality.mutants [--count 200] [--only core/files] [--again]

A mutant is a module with one operator, constant, condition or returned value changed. The tests
that are named for the module run against it in a forked process, which ends at the first
failure; a mutant that no test sees survives, and is written down with its line. Which mutants
are drawn depends on a seed. Stopped at any moment, it goes on where it was.

mutmut and cosmic-ray start an interpreter for every mutant; with torch to import that is most
of the time. Here everything but Avow is imported once, before the fork.
"""

import argparse
import ast
import contextlib
import copy
import importlib.machinery
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
LONGEST = 600
"""Seconds after which a mutant is taken to hang, which tests see too."""
TARGETS: dict[str, tuple[str, ...]] = {
    "core/files": ("test_files",),
    "core/checksums": ("test_checksums", "test_files"),
    "core/documents": ("test_hostile",),
    "core/background": ("test_background",),
    "core/moments": ("test_video_search", "test_moments"),
    "core/opinion": ("test_opinion",),
    "trust/coherence": ("test_coherence",),
    "trust/conformal_sets": ("test_sets",),
    "trust/drift": ("test_shift",),
    "trust/evidence_sum": ("test_tail",),
    "trust/risk_control": ("test_promise",),
    "trust/policy_files": ("test_policy_files",),
    "indexes/exact": ("test_indexes",),
    "retrieval/store/row_blocks": ("test_damage",),
    "retrieval/store/row_checksums": ("test_damage",),
    "retrieval/store/rows": ("test_damage", "test_indexing"),
    "retrieval/store/walk": ("test_indexing",),
    "retrieval/store/feedback": ("test_search", "test_indexing"),
}
"""Modules, and the files of tests that are about them."""
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="mutants to try now")
    parser.add_argument("--only", choices=TARGETS, action="append")
    parser.add_argument("--again", action="store_true", help="forget what was tried")
    chosen = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    import pytest  # noqa: F401
    import torch  # noqa: F401

    tried = {} if chosen.again else _kept()
    order = [
        (target, place, told)
        for target in chosen.only or TARGETS
        for place, told in enumerate(described(target))
    ]
    random.Random(0).shuffle(order)
    sites, machine = sum(len(described(target)) for target in TARGETS), _machine()
    left = [one for one in order if f"{one[0]}:{one[1]}" not in tried]
    for done, (target, place, told) in enumerate(left[: chosen.count], 1):
        seen = killed(target, place)
        tried[f"{target}:{place}"] = {"told": told, "killed": seen}
        _keep(tried, sites, machine)
        print(f"{done} {'killed' if seen else 'SURVIVED'} {target} {told}", flush=True)


def _kept() -> dict[str, Any]:
    return json.loads(RESULTS.read_text())["mutants"] if RESULTS.is_file() else {}


def _machine() -> dict[str, Any]:
    """Told by another process: this one must not import what it changes."""
    asked = "import json; from benchmarks._report import machine; print(json.dumps(machine()))"
    told = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True
    )
    return json.loads(told.stdout)


def _keep(tried: dict[str, Any], sites: int, machine: dict[str, Any]) -> None:
    dead = sum(one["killed"] for one in tried.values())
    figures = {"sites": sites, "tried": len(tried), "killed": dead}
    content = {"machine": machine, **figures, "mutants": dict(sorted(tried.items()))}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


# --- mutants -------------------------------------------------------------------------------


def source(target: str) -> Path:
    return ROOT / "avow" / f"{target}.py"


def described(target: str) -> list[str]:
    """Every mutant of a module, in words."""
    tree = ast.parse(source(target).read_text("utf-8"))
    return [told for _, told in changes(tree)]


def mutated(target: str, place: int) -> str:
    """The text of a module with one change."""
    tree = ast.parse(source(target).read_text("utf-8"))
    for number, (change, _) in enumerate(changes(tree)):
        if number == place:
            change()
            break
    return ast.unparse(ast.fix_missing_locations(tree))


def changes(tree: ast.Module) -> Iterator[tuple[Any, str]]:
    """Every change that can be made, and its description; annotations are left alone."""
    for node in _inside(tree):
        line = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Compare):
            for at, operator in enumerate(node.ops):
                if other := _COMPARED.get(type(operator)):
                    yield (
                        _put(node.ops, at, other()),
                        f"{line}: {_shown(node)}, {other.__name__}",
                    )
        elif isinstance(node, ast.BinOp) and (computed := _COMPUTED.get(type(node.op))):
            yield _set(node, "op", computed()), f"{line}: {_shown(node)}, {computed.__name__}"
        elif isinstance(node, ast.BoolOp):
            swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield _set(node, "op", swapped), f"{line}: {_shown(node)}, and/or"
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            test = ast.UnaryOp(ast.Not(), copy.deepcopy(node.test))
            yield _set(node, "test", test), f"{line}: if not {_shown(node.test)}"
        elif isinstance(node, ast.Return) and node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                yield _set(node, "value", ast.Constant(None)), f"{line}: return None"
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            value = not node.value if isinstance(node.value, bool) else node.value + 1
            yield _set(node, "value", value), f"{line}: {node.value} becomes {value}"


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """All below a node but annotations, in a fixed order."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from _inside(child)


def _set(node: ast.AST, name: str, value: Any) -> Any:
    return lambda: setattr(node, name, value)


def _put(values: list[Any], at: int, value: Any) -> Any:
    return lambda: values.__setitem__(at, value)


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:80]


# --- one of them ---------------------------------------------------------------------------


def _put_in_place(target: str, place: int) -> None:
    """From now on the module is read as its mutant, by whatever reads modules."""
    loader, path = importlib.machinery.SourceFileLoader, str(source(target))
    text = mutated(target, place).encode()
    read, stats = loader.get_data, loader.path_stats

    def get_data(self: Any, asked: str) -> bytes:
        return text if asked == path else read(self, asked)

    def path_stats(self: Any, asked: str) -> Any:
        if asked == path:
            raise OSError("what was compiled before is of another text")
        return stats(self, asked)

    loader.get_data, loader.path_stats = get_data, path_stats  # type: ignore[method-assign]


def killed(target: str, place: int) -> bool:
    """Whether a test fails, or hangs, with this mutant."""
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(LONGEST)
            status = _tested(target, place)
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] != 0


def _tested(target: str, place: int) -> int:
    import pytest

    _put_in_place(target, place)
    files: Sequence[Path] = [ROOT / "tests" / f"{name}.py" for name in TARGETS[target]]
    words = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not gpu and not long"]
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        with contextlib.chdir(ROOT):
            return int(pytest.main([*words, *(str(one) for one in files if one.is_file())]))


if __name__ == "__main__":
    main()
