"""Who waits when the processors are busy: the work, not those who are asked how it goes.

An event loop that shares two processors with its own threads and with a scan would else be
one of many that wait for their turn, and health with it.
"""

import os
import sys
from contextlib import suppress

WORK = 3
"""Of threads that search, draw, read and write for a server: behind its event loop."""
SCAN = 10
"""Of what indexes while nobody waits for it, in a server or beside one: behind searches."""


def step_back(levels: int) -> None:
    """Let the rest of the machine go first, from now on: this thread and all it starts.

    Where nothing else wants the processors it is as quick as before. Only Linux has priorities
    of threads; elsewhere nothing happens.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.nice(levels)
