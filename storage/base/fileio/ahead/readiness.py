"""Loading and starting what reading many files of a store needs, while the store is asked which files there are."""

from interbed.storage.base.fileio.ahead.limits import ReadAhead
from interbed.storage.base.fileio.ahead.needs import read_ahead_of
from interbed.storage.base.fileio.api import FileIO

_READY: set[ReadAhead] = set()


def is_ready(file_io: FileIO) -> bool:
    """Whether nothing is left to do for `get_ready`."""
    limits = read_ahead_of(file_io)
    return limits is None or limits in _READY


def get_ready(file_io: FileIO) -> None:
    """Load and start what reading files will need; for a thread that has nothing else to do."""
    limits = read_ahead_of(file_io)
    if limits is None or limits in _READY:
        return
    _READY.add(limits)
    import interbed.storage.base.fileio.ahead.file  # noqa: F401
    from interbed.storage.base.fileio.ahead.pool import pool_of

    pool = pool_of(limits)
    if pool is not None:
        pool.start_threads()
