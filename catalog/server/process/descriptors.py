"""How many files and connections the system lets this process have."""

import logging
import resource

logger = logging.getLogger(__name__)

OTHER_FILES = 256
"""Descriptors for everything but clients: the database's connections, log files, file systems."""


def allow_connections(connections: int) -> None:
    """Raise the limit of open files, as far as the system allows it, to what so many clients need. Most systems start
    a process with 1024, and let it ask for more.
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
