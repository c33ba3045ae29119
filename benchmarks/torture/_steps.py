"""Run work in a child whose every change of a file is seen before and after it happens.

    steps = traced(work, home)                  how many changes of files below `home` it makes
    traced(work, home, kill_at=7)               killed before the seventh of them
    traced(work, home, record=Recording())      what was written, renamed and synced, in order

The child is traced by ptrace, so that what SQLite and other libraries do themselves is seen as
well as what Python does. A filter of seccomp stops it at the calls of `_CALLS` alone, so that
the others, which are most, cost nothing. Linux alone, on the processors of `_CALLS`.
"""

import ctypes
import os
import platform
import signal
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CALLS: dict[str, dict[str, int]] = {
    "aarch64": {
        "mkdirat": 34,
        "unlinkat": 35,
        "symlinkat": 36,
        "linkat": 37,
        "renameat": 38,
        "truncate": 45,
        "ftruncate": 46,
        "fallocate": 47,
        "openat": 56,
        "write": 64,
        "writev": 66,
        "pwrite64": 68,
        "pwritev": 70,
        "sendfile": 71,
        "fsync": 82,
        "fdatasync": 83,
        "renameat2": 276,
        "copy_file_range": 285,
    },
    "x86_64": {
        "write": 1,
        "open": 2,
        "pwrite64": 18,
        "writev": 20,
        "sendfile": 40,
        "fsync": 74,
        "fdatasync": 75,
        "truncate": 76,
        "ftruncate": 77,
        "rename": 82,
        "mkdir": 83,
        "rmdir": 84,
        "link": 86,
        "unlink": 87,
        "symlink": 88,
        "openat": 257,
        "mkdirat": 258,
        "unlinkat": 263,
        "renameat": 264,
        "linkat": 265,
        "symlinkat": 266,
        "fallocate": 285,
        "pwritev": 296,
        "renameat2": 316,
        "copy_file_range": 326,
    },
}
_NAMES = {number: name for name, number in _CALLS.get(platform.machine(), {}).items()}
_TRACEME, _GO_ON, _TO_THE_END_OF_THE_CALL, _OPTIONS, _INFO = 0, 7, 24, 0x4200, 0x420E
_STOPS_TOLD_APART, _CHILDREN, _FILTERED, _ENDS_WITH_US = 1, 2 | 4 | 8, 0x80, 0x100000
_EVERY_THREAD = 0x40000000
_EXIT, _FILTER = 2, 3
_NO_NEW_RIGHTS, _SET_FILTER, _BY_PROGRAM = 38, 22, 2
_LOAD, _IS, _RETURN, _TELL, _ALLOW = 0x20, 0x15, 0x06, 0x7FF00000, 0x7FFF0000
"""Of a program of seccomp: operations, and the two answers it gives."""
_AT_CALL = signal.SIGTRAP | 7 << 8
_AT_CWD = -100
_PATHS = {  # call: places of (folder, path) among its arguments; None is the working folder
    "mkdirat": [(0, 1)],
    "unlinkat": [(0, 1)],
    "symlinkat": [(1, 2)],
    "linkat": [(0, 1), (2, 3)],
    "renameat": [(0, 1), (2, 3)],
    "renameat2": [(0, 1), (2, 3)],
    "truncate": [(None, 0)],
    "openat": [(0, 1)],
    "open": [(None, 0)],
    "rename": [(None, 0), (None, 1)],
    "link": [(None, 0), (None, 1)],
    "mkdir": [(None, 0)],
    "rmdir": [(None, 0)],
    "unlink": [(None, 0)],
    "symlink": [(None, 1)],
}
_TARGETS = {"sendfile": 0, "copy_file_range": 2}
"""Calls on open files whose file is not the first argument, or that only look like others."""
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, *[ctypes.c_ulong] * 2]


@dataclass
class Change:
    """One change of a file or a folder, when it has happened."""

    kind: str
    """write, truncate, create, mkdir, rename, exchange, remove, sync, said."""
    paths: list[str]
    file: tuple[int, int] | None = None
    """Device and inode, of what is done to an open file."""
    start: int = 0
    data: bytes = b""


@dataclass
class Recording:
    """Changes in the order in which they happened."""

    changes: list[Change] = field(default_factory=list)


class Died(Exception):
    """The traced work failed by itself."""


@dataclass
class _Call:
    name: str
    args: tuple[int, ...]
    paths: list[str]
    existed: bool = False


SAID = ".said"
"""What is written to a file of this name below `home` is no change but a message."""


def traced(
    work: Callable[[], object],
    home: Path,
    kill_at: int | None = None,
    record: Recording | None = None,
) -> tuple[int, bool]:
    """Run `work` in a child; how many changes it made or began, and whether it was killed."""
    if not _NAMES:
        raise OSError(f"tracing is not known for {platform.machine()!r}")
    child = os.fork()
    if not child:
        _be_traced(work)
    os.waitpid(child, 0)
    options = _STOPS_TOLD_APART | _CHILDREN | _FILTERED | _ENDS_WITH_US
    if _libc.ptrace(_OPTIONS, child, None, options):
        raise OSError(ctypes.get_errno(), "the child cannot be traced")
    _libc.ptrace(_GO_ON, child, None, None)
    return _Tracer(child, os.path.realpath(home), kill_at, record).follow()


def _be_traced(work: Callable[[], object]) -> None:
    status = 1
    try:
        _libc.ptrace(_TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        _stop_at_calls()
        work()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _stop_at_calls() -> None:
    """Have the tracer told of the calls of `_CALLS`, in this process and those it starts."""
    step = struct.Struct("HBBI")
    numbers = sorted(_NAMES)
    tests = [
        step.pack(_IS, len(numbers) - place, 0, number) for place, number in enumerate(numbers)
    ]
    ends = [step.pack(_RETURN, 0, 0, _ALLOW), step.pack(_RETURN, 0, 0, _TELL)]
    steps = [step.pack(_LOAD, 0, 0, 0), *tests, *ends]
    program = ctypes.create_string_buffer(b"".join(steps))
    about = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(program))
    if _libc.prctl(_NO_NEW_RIGHTS, 1, None, 0, 0) or _libc.prctl(
        _SET_FILTER, _BY_PROGRAM, ctypes.create_string_buffer(about), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "calls cannot be filtered")


class _Tracer:
    def __init__(self, child: int, home: str, kill_at: int | None, record: Recording | None):
        self.child, self.home, self.kill_at, self.record = child, home, kill_at, record
        self.steps = 0
        self.pending: dict[int, _Call] = {}
        self.info = ctypes.create_string_buffer(128)

    def follow(self) -> tuple[int, bool]:
        """Until the child has ended."""
        while True:
            thread, status = os.waitpid(-1, _EVERY_THREAD)
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                if thread != self.child:
                    continue
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                    return self.steps, True
                if os.waitstatus_to_exitcode(status):
                    raise Died(f"the traced work ended with {status}")
                return self.steps, False
            stopped = os.WSTOPSIG(status)
            deliver = 0
            if status >> 8 == _AT_CALL or stopped == signal.SIGTRAP | 0x80:
                if self._at_call(thread):
                    os.kill(self.child, signal.SIGKILL)
                    continue
            elif stopped not in (signal.SIGTRAP, signal.SIGSTOP):
                deliver = stopped
            goes = _TO_THE_END_OF_THE_CALL if thread in self.pending else _GO_ON
            _libc.ptrace(goes, thread, None, deliver)

    def _at_call(self, thread: int) -> bool:
        """A call begins or ends; whether the child shall die now."""
        if _libc.ptrace(_INFO, thread, len(self.info), self.info) <= 0:
            return False
        if self.info.raw[0] == _FILTER:
            number, *args = struct.unpack_from("<7Q", self.info, 24)
            name = _NAMES.get(number)
            call = self._looked_at(thread, name, tuple(args)) if name else None
            if call is None:
                return False
            if self.record is not None:
                self.pending[thread] = call
            if not (call.paths[0].endswith(SAID) or call.name == "opened"):
                self.steps += 1
            return self.steps == self.kill_at
        if self.info.raw[0] == _EXIT and (call := self.pending.pop(thread, None)):
            value = struct.unpack_from("<q", self.info, 24)[0]
            if value >= 0 and self.record is not None:
                self.record.changes += self._changes(thread, call, value)
        return False

    def _looked_at(self, thread: int, name: str, args: tuple[int, ...]) -> _Call | None:
        """The call with what it is about, where that lies below `home`."""
        if name in _PATHS:
            paths = [self._path(thread, args, *where) for where in _PATHS[name]]
        else:
            paths = [_link(f"/proc/{thread}/fd/{args[_TARGETS.get(name, 0)]}")]
        if not any(path.startswith(self.home) for path in paths):
            return None
        existed = True
        if name in ("open", "openat"):
            flags = args[2 if name == "openat" else 1]
            existed = os.path.lexists(paths[0])
            makes = flags & os.O_CREAT and not existed
            if not makes and not (flags & os.O_TRUNC and existed):
                return None
        return _Call(name, args, paths, existed)

    def _path(self, thread: int, args: tuple[int, ...], at: int | None, place: int) -> str:
        text = _text(thread, args[place])
        number = None if at is None else ctypes.c_int(args[at]).value
        where = "cwd" if number in (None, _AT_CWD) else f"fd/{number}"
        path = os.path.join(_link(f"/proc/{thread}/{where}"), text)
        folder, name = os.path.split(os.path.normpath(path))
        return os.path.join(os.path.realpath(folder), name)

    def _changes(self, thread: int, call: _Call, value: int) -> list[Change]:
        """What a call that has succeeded did."""
        name, args, paths = call.name, call.args, call.paths
        if name in ("open", "openat"):
            opened = f"/proc/{thread}/fd/{value}"
            kind = "truncate" if call.existed else "create"
            return [Change(kind, paths, _identity(opened))]
        if name in _PATHS:
            return self._of_names(name, args, paths)
        number = args[_TARGETS.get(name, 0)]
        opened = f"/proc/{thread}/fd/{number}"
        file = _identity(opened)
        if name in ("fsync", "fdatasync"):
            return [Change("sync", paths, file)]
        if name == "ftruncate":
            return [Change("truncate", paths, file, args[1])]
        if name == "fallocate" or not value:
            return []
        start = (
            args[3] if name in ("pwrite64", "pwritev") else _position(thread, number) - value
        )
        with open(opened, "rb") as stream:
            stream.seek(start)
            data = stream.read(value)
        if paths[0].endswith(SAID):
            return [Change("said", paths, data=data)]
        return [Change("write", paths, file, start, data)]

    def _of_names(self, name: str, args: tuple[int, ...], paths: list[str]) -> list[Change]:
        if name.startswith("rename"):
            swap = name == "renameat2" and args[4] & 2
            return [Change("exchange" if swap else "rename", paths)]
        if name.startswith(("unlink", "rmdir")):
            return [Change("remove", paths)]
        if name.startswith("mkdir"):
            return [Change("mkdir", paths)]
        if name == "truncate":
            return [Change("truncate", paths, _identity(paths[0]), args[1])]
        raise NotImplementedError(f"nothing in an index is made by {name!r}")


def _identity(path: str) -> tuple[int, int]:
    about = os.stat(path)
    return about.st_dev, about.st_ino


def _position(thread: int, number: int) -> int:
    with open(f"/proc/{thread}/fdinfo/{number}") as stream:
        return int(stream.readline().split()[1])


def _link(path: str) -> str:
    try:
        return os.readlink(path).removesuffix(" (deleted)")
    except OSError:
        return ""


def _text(thread: int, address: int) -> str:
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        data: Any = memory.read(256)
        while data and b"\0" not in data and len(data) < 4096:
            data += memory.read(256)
    return os.fsdecode(data.partition(b"\0")[0])
