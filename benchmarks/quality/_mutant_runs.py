"""Tests that run once, and then again and again in forked processes with one change each."""

import ast
import contextlib
import functools
import gc
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import coverage
import pytest

from benchmarks.quality import mutants
from benchmarks.quality.mutants import Site

SLACK = 30
"""Seconds of the processor that tests may take beyond three times what they took before."""
_CACHES: list[Any] = []
"""What functions of Avow remember; found before the fork, for what is frozen is not listed."""
Keep = Callable[[Site, bool, str], None]


def run(left: Sequence[Site], files: Sequence[Path], keep: Keep) -> None:
    """Try these mutants with the tests of these files."""
    sys.path.insert(0, str(mutants.ROOT / "tests"))
    words = [
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not gpu and not long and not browser",
    ]
    with contextlib.chdir(mutants.ROOT):
        pytest.main([*words, *map(str, files)], plugins=[Trying(left, keep)])


class Trying:
    """In the place of pytest's own loop over the tests."""

    def __init__(self, left: Sequence[Site], keep: Keep):
        self.left, self.keep = left, keep
        self.paths = {str(mutants.source(target)): target for target in mutants.TARGETS}
        self.reached: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        """By target and line, the numbers of the tests."""
        self.seconds: list[float] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items, passed = session.items, []
        watched = coverage.Coverage(
            data_file=None, include=list(self.paths), config_file=False, messages=False
        )
        watched.start()
        for number, item in enumerate(items):
            watched.switch_context(str(number))
            started = time.process_time()
            after = items[(number + 1) % len(items)]  # what serves all of them stays
            reports = _protocol(item, after)
            self.seconds.append(time.process_time() - started)
            passed.append(all(report.passed for report in reports))
        watched.stop()
        for path, target in self.paths.items():
            for line, tests in watched.get_data().contexts_by_lineno(path).items():
                self.reached[target][line] = {int(test) for test in tests if test}
        self.items = [item if good else None for item, good in zip(items, passed, strict=True)]
        print(f"{sum(passed)} of {len(items)} tests, {sum(self.seconds):.0f} s", flush=True)
        functions = _functions(self.paths)
        for site in self.left:
            self._try(site, functions)
        return True

    def _try(self, site: Site, functions: dict[tuple[str, str], list[FunctionType]]) -> None:
        numbers = sorted(self._seeing(site), key=lambda number: self.seconds[number])
        while chosen := [number for number in numbers if self.items[number] is not None]:
            code, failed = self._forked(chosen, lambda: _put_in_place(site, functions))
            if failed is None or not self._forked([failed], lambda: None)[0]:
                break
            self.items[failed] = None  # it fails without any change
        else:
            self.keep(site, False, "no test reaches it")
            return
        why = {0: f"{len(chosen)} tests passed", 1: "a test failed", 3: "it cannot be used"}
        self.keep(site, code != 0, why.get(code, f"the process ended with {code}"))

    def _forked(
        self, numbers: Sequence[int], change: Callable[[], None]
    ) -> tuple[int, int | None]:
        """How tests end in a process with a change: its code, and the one that failed."""
        out, into = os.pipe()
        child = os.fork()
        if not child:
            status = 3
            try:
                _end_after(SLACK + round(3 * sum(self.seconds[n] for n in numbers)))
                _be_silent()
                change()
                status = self._tested(numbers, into)
            finally:
                os._exit(status)
        os.close(into)
        with open(out) as pipe:
            said = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, int(said) if said else None

    def _tested(self, numbers: Sequence[int], into: int) -> int:
        items = [self.items[number] for number in numbers]
        for place, item in enumerate(items):
            reports = _protocol(item, items[(place + 1) % len(items)])
            if any(report.failed for report in reports):
                os.write(into, str(numbers[place]).encode())
                return 1
        return 0

    def _seeing(self, site: Site) -> set[int]:
        reached = self.reached[site.target]
        if site.kind == "constant":
            lines = _mentions(site)
            found = set().union(*(reached[line] for line in lines))
            return found or set().union(*reached.values())
        first, last = site.lines
        return set().union(*(reached[line] for line in range(first, last + 1)))


def _end_after(seconds: int) -> None:
    """A mutant that hangs is one that tests see: busy for so long, or idle for longer."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(10 * seconds)


def _be_silent() -> None:
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)


def _protocol(item: Any, after: Any) -> list[Any]:
    from _pytest.runner import runtestprotocol

    if hasattr(item, "_initrequest"):  # it may have run before
        item._initrequest()
    return runtestprotocol(item, nextitem=after, log=False)


# --- putting a change in place ----------------------------------------------------------------


def _functions(paths: Any) -> dict[tuple[str, str], list[FunctionType]]:
    """The functions of the targets, as they live here: by target and name."""
    gc.unfreeze()
    found: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename in paths:
            found[paths[one.__code__.co_filename], one.__code__.co_qualname].append(one)
        elif type(one) is functools._lru_cache_wrapper and "avow" in str(one.__module__):
            _CACHES.append(one)
    gc.freeze()
    return found


def _put_in_place(site: Site, functions: dict[tuple[str, str], list[FunctionType]]) -> None:
    tree = mutants.mutated(site.target, site.place)
    module = import_module(f"avow.{site.target.replace('/', '.')}")
    here = functions[site.target, site.name]
    if site.kind == "constant":
        _assign(site.name, tree, module)
    elif site.kind == "body":
        whole = compile(tree, str(mutants.source(site.target)), "exec")
        (code,) = [one for one in _codes(whole) if one.co_qualname == site.name][:1]
        for function in here:
            function.__code__ = code
    else:
        namespace = dict(vars(module))
        definition = _definition(tree, site.name)
        definition.decorator_list = []
        exec(compile(ast.Module([definition], []), "changed", "exec"), namespace)
        fresh = namespace[definition.name]
        for function in here:
            function.__defaults__ = fresh.__defaults__
            function.__kwdefaults__ = fresh.__kwdefaults__
    for one in _CACHES:
        one.cache_clear()


def _assign(name: str, tree: ast.Module, module: Any) -> None:
    """Give a constant its other value, also where it was imported."""
    before = vars(module).get(name)
    statement = next(
        one
        for one in tree.body
        if isinstance(one, ast.Assign | ast.AnnAssign) and ast.unparse(one).startswith(name)
    )
    exec(compile(ast.Module([statement], []), "changed", "exec"), vars(module))
    for other in list(sys.modules.values()):
        if getattr(other, "__name__", "").startswith("avow.") and name in vars(other):
            if vars(other)[name] is before:
                vars(other)[name] = vars(module)[name]


def _definition(tree: ast.Module, name: str) -> Any:
    scope: Any = tree
    for part in name.split("."):
        scope = next(one for one in scope.body if getattr(one, "name", None) == part)
    return scope


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)


def _mentions(site: Site) -> list[int]:
    """The lines of a module in which a constant is used."""
    tree = ast.parse(mutants.source(site.target).read_text("utf-8"))
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and node.id == site.name
        and isinstance(node.ctx, ast.Load)
    ]
