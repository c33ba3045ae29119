"""What processes of a server do in tests: in a module that is quick to import in a new one."""

import signal
import threading

from avow.core.errors import CannotServe


def cannot_serve(ready):
    raise CannotServe("There is no such index. Expected one; make it.")


def will_not_end(ready):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready()
    threading.Event().wait(600.0)
