"""The end of a server's process at the latest: threads that wait for a store or a disk must not keep it."""

import logging
import os
import threading
from functools import partial

from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.loop import SHUTDOWN_SECONDS_MAX

logger = logging.getLogger(__name__)

PROCESS_SECONDS_MAX = SHUTDOWN_SECONDS_MAX + 1.0
"""How long a process may take to end after it was asked to: running requests have their time, and a little remains."""

_started = threading.Event()


def end_at_last(seconds: float = PROCESS_SECONDS_MAX) -> None:
    """End this process with code 0 after `seconds`, if it still runs then. Every change that was acknowledged is
    on disk. Safe in a signal handler, and more than once.
    """
    if not _started.is_set():
        _started.set()
        SupervisedThread(partial(_end, seconds), name="deadline", deaths=ThreadDeaths()).start()


def _end(seconds: float) -> None:
    threading.Event().wait(seconds)
    logger.warning("the process has not ended within %.1f s and is ended now; running requests are given up", seconds)
    os._exit(0)
