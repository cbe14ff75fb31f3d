"""Limits of a server's process: open files and connections, core dumps, and the time to end.

Threads that wait for an object store or a disk must not keep a process alive that was asked to end.
"""

import logging
import os
import resource
import threading
from functools import partial
from pathlib import Path

from interbed.catalog.server.threads import SupervisedThread, ThreadDeaths
from interbed.catalog.server.thrift.edge.loop import SHUTDOWN_SECONDS_MAX

logger = logging.getLogger(__name__)

OTHER_FILES = 256
"""Descriptors for everything but clients: the database's connections, log files, file systems."""

PROCESS_SECONDS_MAX = SHUTDOWN_SECONDS_MAX + 1.0
"""Time that a process has to end: that of running requests, and a little more."""

_CORE_FILTER = Path("/proc/self/coredump_filter")
"""The mappings of this process that a core dump has, on Linux."""

_started = threading.Event()


def allow_connections(connections: int) -> None:
    """Raise the limit of open files, as far as the system allows it, to the need of the clients. Most systems start
    a process with 1024, and allow it to raise the limit.
    """
    wanted = connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError) as error:
        logger.warning("the limit of %d open files could not be raised: %s", soft, error)
        return
    if allowed < wanted:
        logger.warning(
            "the system allows %d open files, so that about %d clients can be connected, not %d: raise its limit "
            "(ulimit -Hn, LimitNOFILE) or lower connections_max",
            allowed,
            max(allowed - OTHER_FILES, 0),
            connections,
        )


def leave_no_core_dump() -> None:
    """Have a crash of this process, and of those that it starts, leave no core dump: memory has tokens and passwords.

    The limit of the size is not that of dumps that the kernel passes to a program, so that the mappings are left out of
    those.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        if _CORE_FILTER.exists():
            _CORE_FILTER.write_text("0")
    except (OSError, ValueError) as error:
        logger.warning("a crash may leave a core dump with secrets: %s", error)


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
