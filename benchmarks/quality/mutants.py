"""Change the code in one place at a time: do the tests see it?

    python -m benchmarks.quality.mutants [--count 250] [--only core/files]
    python -m benchmarks.quality.mutants --again [--tests files --tests opinion]

A mutant is a function with one operator, constant, condition or returned value changed, or a
module with another constant. First the tests that are about these modules run once, and which
of them reaches which line is noted. Then each mutant is put in place in a forked process, which
runs the tests that reach it, the quick ones first, and ends at the first failure; a test that
fails without the change as well does not count. A mutant that no test sees survives, and is
written down with its line. Which are drawn depends on a seed. Stopped at any moment, it goes on
where it was; `--again` tries only those that survived once more, as after new tests, which
`--tests` names where not all are needed.

mutmut and cosmic-ray start an interpreter for every mutant; with torch to import that is most
of the time. Here everything is imported and set up before the fork. Bodies of classes and
decorators are left alone: they have their effect while modules are imported.
"""

import argparse
import ast
import copy
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
TARGETS = (
    *("core/files", "core/checksums", "core/background", "core/opinion", "core/vector_forms"),
    *("core/false_discovery", "core/logistic", "trust/coherence", "trust/conformal_sets"),
    *("core/evidence_sum", "trust/risk_control", "trust/policy_files", "trust/top_k"),
    *("retrieval/merged_shards", "trust/gallery_sampling", "trust/drift", "indexes/exact"),
    *("retrieval/store/row_blocks", "retrieval/store/row_checksums", "retrieval/store/rows"),
    *("retrieval/store/walk", "retrieval/store/generations"),
)
TESTS = (
    *("files", "checksums", "background", "opinion", "vector_forms", "special_functions"),
    *("coherence", "expected_number", "sets", "tail", "promise", "policy_files", "shards"),
    *("shift", "indexes", "damage", "indexing", "stable_numbers", "relevant", "ticks"),
    *("trust_seldom", "trust"),
)
"""Files of tests that are about these modules."""
_SAME_LENGTH = "both have the same length"
_ANY_NEGATIVE = "numpy takes every negative length for the one that is left"
EQUIVALENT: dict[str, str] = {
    "core/background: line 51, 11: top is None or log_sum is None, and/or": (
        "both are None until the first block"
    ),
    "indexes/exact: line 35, 29: 1879048193 becomes 1879048194": (
        "that bit is 0 after the shift before it"
    ),
    "indexes/exact: line 123, 38: _SCORES_AT_ONCE // max(1, len(queries)), Mult": (
        "only how many rows are compared at once"
    ),
    "indexes/exact: line 191, 11: needed <= len(self._rows), Lt": (
        "room is made one row earlier"
    ),
    "retrieval/store/row_checksums: line 38, 57: True becomes False": (
        "SQLite may compute a checksum again that it has"
    ),
    "indexes/exact: line 255, 7: width < k, LtE": "only how many rows are compared again",
    "retrieval/store/row_blocks: line 135, 11: len(blocks) < _MANY, LtE": (
        "only whether threads share the work"
    ),
    "retrieval/store/row_blocks: line 140, 67: True becomes False": _SAME_LENGTH,
    "trust/top_k: line 315, 65: True becomes False": _SAME_LENGTH,
    "trust/gallery_sampling: line 258, 71: 0 becomes 1": "one more group, which is empty",
    "trust/gallery_sampling: line 266, 35: 1 becomes 2": "no gallery has a negative number",
    "trust/risk_control: line 128, 35: 1 becomes 2": "there is always a query",
    "trust/risk_control: line 201, 11: wrong <= alpha * answered, Lt": (
        "where both sides are equal the p-value is larger than any delta this is used for"
    ),
    "core/evidence_sum: line 222, 11: gram + ridge * np.eye(basis.shape[1]), Sub": (
        "1e-9 keeps the matrix regular with either sign"
    ),
    (
        "trust/conformal_sets: line 117, 13: counted >= (1 - alpha) * (len(members) + 1) - "
        "1e-09, Gt"
    ): "where both sides would be equal they differ by the 1e-9",
    "trust/conformal_sets: line 152, 42: 0 becomes 1": "what is added is cut off again",
    "core/evidence_sum: line 267, 58: 1 becomes 2": "fewer than three draws are not used",
    "core/evidence_sum: line 279, 29: 1 becomes 2": "fewer than three draws are not used",
    "trust/gallery_sampling: line 282, 58: 1 becomes 2": "no gallery has a negative number",
    "trust/gallery_sampling: line 292, 28: 1 becomes 2": _ANY_NEGATIVE,
    "trust/gallery_sampling: line 338, 41: 1 becomes 2": _ANY_NEGATIVE,
    (
        "trust/risk_control: line 165, 19: losses[last] + 1 <= alpha * (len(members) + 1) + "
        "1e-12, Lt"
    ): "where both sides would be equal they differ by the 1e-12",
}
"""Survivors that change nothing anyone could see, by target and description: and why."""
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
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Site:
    """A place that can be changed."""

    target: str
    place: int
    told: str
    kind: str
    """What holds it: a "body" of a function, a "default" of an argument, a "constant"."""
    name: str
    """Of the function, with those around it, or of the constant."""
    lines: tuple[int, int]
    """A test that reaches one of these may see the change."""

    @property
    def key(self) -> str:
        return f"{self.target}: {self.told}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=250, help="mutants to have tried")
    parser.add_argument("--only", choices=TARGETS, action="append")
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--tests", action="append", help="names of files; default: all")
    parser.add_argument("--join", type=Path, help="take in the results of another run")
    chosen = parser.parse_args()
    from benchmarks.quality import _mutant_runs

    tried, drawn = kept(), order(chosen.only or TARGETS)
    if chosen.join is not None:
        for key, one in kept(chosen.join).items():
            if not tried.get(key, {"killed": False})["killed"]:
                tried[key] = one
        write(tried)
        return
    left = [one for one in drawn[: chosen.count] if one.key not in tried]
    if chosen.again:
        survived = {key for key, one in tried.items() if not one["killed"]} - EQUIVALENT.keys()
        left = [one for one in drawn if one.key in survived]
    paths = [ROOT / "tests" / f"test_{name}.py" for name in chosen.tests or TESTS]
    _mutant_runs.run(left, paths, lambda site, killed, why: keep(tried, site, killed, why))


def order(targets: Any) -> list[Site]:
    """All places, shuffled; the first so many are a sample of them."""
    listed = [site for target in targets for site in sites(target)]
    random.Random(0).shuffle(listed)
    return listed


def kept(path: Path = RESULTS) -> dict[str, Any]:
    """What was tried before, of places that are still there."""
    if not path.is_file():
        return {}
    there = {site.key for target in TARGETS for site in sites(target)}
    told = json.loads(path.read_text())["mutants"]
    return {key: one for key, one in told.items() if key in there}


def keep(tried: dict[str, Any], site: Site, killed: bool, why: str) -> None:
    """Write down how a mutant ended."""
    tried[site.key] = {"killed": killed, "why": why}
    write(tried)
    print(f"{len(tried)} {'killed' if killed else 'SURVIVED'} {site.key} ({why})", flush=True)


def write(tried: dict[str, Any]) -> None:
    """Keep what was tried, and how many of it tests saw."""
    equivalent = [key for key, one in tried.items() if not one["killed"] and key in EQUIVALENT]
    figures = {
        "sites": sum(len(sites(target)) for target in TARGETS),
        "tried": len(tried),
        "killed": sum(one["killed"] for one in tried.values()),
        "equivalent": {key: EQUIVALENT[key] for key in sorted(equivalent)},
    }
    content = {"machine": _machine(), **figures, "mutants": dict(sorted(tried.items()))}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


@cache
def _machine() -> dict[str, Any]:
    from benchmarks._report import machine

    return machine()


# --- mutants -------------------------------------------------------------------------------


def source(target: str) -> Path:
    return ROOT / "avow" / f"{target}.py"


@cache
def sites(target: str) -> tuple[Site, ...]:
    """Every place of a module that is changed, numbered."""
    tree = _parsed(target)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = []
    for place, (node, _, told) in enumerate(changes(tree)):
        if (held := _holder(node, above)) is not None:
            found.append(Site(target, place, told, *held))
    return tuple(found)


def described(target: str) -> list[str]:
    """Every change of a module, in words."""
    return [told for _, _, told in changes(_parsed(target))]


def mutated(target: str, place: int) -> ast.Module:
    """A module with one change."""
    tree = _parsed(target)
    for number, (_, change, _) in enumerate(changes(tree)):
        if number == place:
            change()
            break
    return ast.fix_missing_locations(tree)


def _parsed(target: str) -> ast.Module:
    return ast.parse(source(target).read_text("utf-8"))


def _holder(
    node: ast.AST, above: dict[ast.AST, ast.AST]
) -> tuple[str, str, tuple[int, int]] | None:
    """What holds a place: its kind, its name and its lines; None for what is left alone."""
    chain = [node]
    while chain[-1] in above:
        chain.append(above[chain[-1]])
    statement = next(one for one in chain if isinstance(one, ast.stmt))
    lines = (statement.lineno, getattr(node, "end_lineno", None) or statement.lineno)
    outer = [
        (inner, one) for inner, one in itertools.pairwise(chain) if isinstance(one, _FUNCTIONS)
    ]
    if not outer:
        named = next(
            (one for one in chain if isinstance(one, ast.Assign | ast.AnnAssign)), None
        )
        if named is None or not isinstance(above[named], ast.Module):
            return None
        target = named.targets[0] if isinstance(named, ast.Assign) else named.target
        return ("constant", target.id, lines) if isinstance(target, ast.Name) else None
    inner, function = outer[-1]
    classes = [
        one.name for one in chain[chain.index(function) :] if isinstance(one, ast.ClassDef)
    ]
    name = ".".join([*reversed(classes), function.name])
    if inner in function.body:
        return "body", name, lines
    if isinstance(inner, ast.arguments) and len(outer) == 1:
        return "default", name, (function.body[0].lineno, function.end_lineno or 0)
    return None


def changes(tree: ast.Module) -> Iterator[tuple[ast.AST, Any, str]]:
    """Every change that can be made, and its description; annotations are left alone."""
    for node in _inside(tree):
        line = f"line {getattr(node, 'lineno', 0)}, {getattr(node, 'col_offset', 0)}"
        if isinstance(node, ast.Compare):
            for at, operator in enumerate(node.ops):
                if other := _COMPARED.get(type(operator)):
                    told = f"{line}: {_shown(node)}, {other.__name__}"
                    yield node, _put(node.ops, at, other()), told
        elif isinstance(node, ast.BinOp) and (computed := _COMPUTED.get(type(node.op))):
            told = f"{line}: {_shown(node)}, {computed.__name__}"
            yield node, _set(node, "op", computed()), told
        elif isinstance(node, ast.BoolOp):
            swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, _set(node, "op", swapped), f"{line}: {_shown(node)}, and/or"
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            test = ast.UnaryOp(ast.Not(), copy.deepcopy(node.test))
            yield node.test, _set(node, "test", test), f"{line}: if not {_shown(node.test)}"
        elif isinstance(node, ast.Return) and node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                told = f"{line}: return None for {_shown(node.value)}"
                yield node, _set(node, "value", ast.Constant(None)), told
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            value = not node.value if isinstance(node.value, bool) else node.value + 1
            told = f"{line}: {node.value} becomes {value}"
            yield node, _set(node, "value", value), told


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


if __name__ == "__main__":
    main()
