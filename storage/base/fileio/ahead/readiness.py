"""Loading and starting what reading many files of a store needs, while the store is asked which files there are."""

from interbed.storage.base.fileio.ahead.limits import ReadAhead


def get_ready(limits: ReadAhead) -> None:
    """Load and start what reading files will need; for a thread that has nothing else to do."""
    import interbed.storage.base.fileio.ahead.file  # noqa: F401
    from interbed.storage.base.fileio.ahead.pool import pool_of

    pool = pool_of(limits)
    if pool is not None:
        pool.start_threads()
