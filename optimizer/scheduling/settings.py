"""Settings of a scheduler; times are milliseconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Leases, timeouts, back-offs and intervals.

    `lease` is the time without a heartbeat after which a scheduler, a worker or an attempt counts as lost. An attempt
    may take `task_timeout` at most. The back-off of a table after a failure is `pause_first`, or `pause_gave_way` after
    a conflict with a writer; it doubles with each further failure up to `pause_most`. With `orphans_interval` None
    orphan files are never removed.
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
