"""How a scheduler behaves; times are milliseconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """`lease` is how long a scheduler, a worker or an attempt is waited for that says nothing, `task_timeout` how long
    an attempt may take at most. After a failure a table is left alone for `pause_first`, twice as long after each
    further one, up to `pause_most`; after it gave way to a writer for `pause_gave_way`, in the same way.

    `orphans_interval` None: orphan files are never looked for.
    """

    lease: int = 60_000
    task_timeout: int = 3_600_000
    attempts: int = 3
    pause_first: int = 60_000
    pause_most: int = 3_600_000
    pause_gave_way: int = 2_000
    expire_interval: int = 600_000
    orphans_interval: int | None = 86_400_000
    history: int = 7 * 86_400_000
    measured_at_once: int = 200
