"""Python commands without their imports: processes forked from one that has imported all.

Most of what a short command takes is `import torch`. Before its first test, each process of
tests leaves a copy of itself behind that has collected everything and has run nothing: no
threads, no patches, no open files of tests. `run` asks that copy to fork and to do what
`python -m module`, `python file` or `python -c code` would do. In the long form, and where a
process must begin with nothing, commands are started as by users.
"""

import atexit
import json
import logging
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

import checked_shapes

_started = subprocess.run  # a test may have put `run` in its place
_LONG = bool(os.environ.get("AVOW_LONG_TESTS"))
_ASKED: dict[int, tuple[IO[str], IO[str]]] = {}
"""Where a copy is asked and tells, by the process that left it behind."""


def prepare() -> None:
    """Leave a copy of this process behind, once; it ends when nobody can ask it any more."""
    if os.getpid() in _ASKED or _LONG or sys.platform != "linux":
        return
    asked, asks = os.pipe()
    tells, told = os.pipe()
    if not os.fork():
        os.close(asks)
        os.close(tells)
        _serve(os.fdopen(asked), os.fdopen(told, "w", buffering=1))
    os.close(asked)
    os.close(told)
    files = os.fdopen(asks, "w", buffering=1), os.fdopen(tells)
    for file in files:
        atexit.register(file.close)
    _ASKED[os.getpid()] = files


def run(
    command: Sequence[Any],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    **others: Any,
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` of a Python command gives, its output as text."""
    if os.getpid() not in _ASKED:
        kept = {} if "stdout" in others else {"capture_output": True}
        words = [str(word) for word in command]
        return _started(words, env=env, cwd=cwd, **{"text": True, **others, **kept})
    asks, tells = _ASKED[os.getpid()]
    words = [str(word) for word in command[1:]]
    with tempfile.TemporaryDirectory() as home:
        out, err = Path(home) / "out", Path(home) / "err"
        asked = [words, dict(env or os.environ), str(cwd or Path.cwd()), str(out), str(err)]
        asks.write(json.dumps(asked) + "\n")
        ended = int(tells.readline())
        if "stderr" in others:  # a file
            others["stderr"].write(err.read_text())
        return subprocess.CompletedProcess(words, ended, out.read_text(), err.read_text())


def _serve(asked: IO[str], told: IO[str]) -> NoReturn:
    """Everything that the copy does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in asked:
        words, env, cwd, out, err = json.loads(line)
        child = os.fork()
        if not child:
            asked.close()
            told.close()
            os.chdir(cwd)
            _do(words, env, out, err)
        told.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
    os._exit(0)


def _do(words: list[str], env: dict[str, str], out: str, err: str) -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    sys.stdin = open(os.devnull)
    checked_shapes.stop()
    warnings.resetwarnings()
    logging.getLogger().handlers.clear()
    code = _ended(words)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _ended(words: list[str]) -> int:
    """The exit code of what `python *words` does."""
    try:
        first, *rest = words
        if first == "-m":
            sys.argv = rest
            sys.path.insert(0, os.getcwd())
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(first).parent))
            runpy.run_path(first, run_name="__main__")
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
