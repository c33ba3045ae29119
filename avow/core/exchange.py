"""Exchange two folders in one step, where the system can: Linux and macOS.

`os.rename` puts a folder only in the place of an empty one. Linux (`renameat2` with
RENAME_EXCHANGE) and macOS (`renamex_np` with RENAME_SWAP) exchange two names atomically, so
there is no moment at which neither folder has the name. Some file systems cannot (NFS, for
example), nor can Windows; callers then need another way.
"""

import ctypes
import errno
import os
import sys
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # linux/fs.h
_RENAME_SWAP = 2  # sys/stdio.h of macOS
_NOT_SUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV)


def exchange(one: Path, other: Path) -> bool:
    """Exchange what two names mean; False where the system or the file system cannot."""
    if sys.platform not in ("linux", "darwin"):
        return False
    system = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    if sys.platform == "linux" and hasattr(system, "renameat2"):
        failed = system.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
    elif sys.platform == "darwin" and hasattr(system, "renamex_np"):
        failed = system.renamex_np(first, second, _RENAME_SWAP)
    else:  # a C library from before these calls
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
