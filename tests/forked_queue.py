"""Run by test_paper_queue.py: the queue, whose runs are forked and need not import torch anew.

    python forked_queue.py [options of benchmarks.quality.paper_queue]

Each run has a process of its own, with the words and the log that the queue gives it.
"""

import os
import subprocess
import sys
import traceback
from types import SimpleNamespace
from typing import Any, BinaryIO

import torch._dynamo  # noqa: F401  (the first optimiser of every process would)

import avow.training.from_recipe  # noqa: F401
from benchmarks.quality import _afterwards  # noqa: F401
from benchmarks.quality import paper_queue as module


class Forked:
    """What the queue asks of a process that `subprocess.Popen` has started."""

    returncode: int | None = None

    def __init__(self, words: list[str], stdout: BinaryIO, stderr: BinaryIO, env: dict):
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(stdout.fileno(), 1)
            os.dup2(stderr.fileno(), 2)
            os.environ |= env
            os._exit(ended(words[words.index("-m") + 1 :]))

    def poll(self) -> int | None:
        found, status = os.waitpid(self.pid, os.WNOHANG)
        if found:
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def ended(words: list[str]) -> int:
    """The exit code of the queue, called with these words; its name is the first."""
    sys.argv = words
    try:
        module.main()
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    processes: Any = SimpleNamespace(Popen=Forked, TimeoutExpired=subprocess.TimeoutExpired)
    module.subprocess = processes
    module.main()
