"""What each kind of work becomes due by, in figures of a table: `3 sorted runs, due above 5`. Pure.

`needs` decides; this only says by what, also where nothing is due.
"""

from interbed.optimizer.flow.kind import WorkKind
from interbed.optimizer.flow.tables import Measurement
from interbed.optimizer.scheduling.needs import runs_tolerated
from interbed.optimizer.scheduling.settings import SchedulerSettings


def trigger_text(kind: WorkKind, found: Measurement, settings: SchedulerSettings) -> str:
    """The figures that the kind looks at beside their bounds."""
    health, wishes = found.health, found.wishes
    if kind is WorkKind.MINOR:
        return _minor(found)
    if kind is WorkKind.MAJOR:
        worst = max((b.delete_ratio for b in health.by_bucket), default=0.0)
        return f"{worst:.0%} deleted in the worst bucket, due from {wishes.major_duplicate_ratio:.0%}"
    if kind is WorkKind.FULL:
        interval = wishes.full_interval_millis
        return "self-optimizing.full.trigger.interval is not set" if interval is None else f"due {_every(interval)}"
    if kind is WorkKind.EXPIRE:
        at_most = _every(settings.expire_interval)
        return f"{health.snapshots_due} of {health.snapshots} snapshots have expired; at most {at_most}"
    if kind is WorkKind.ORPHANS:
        interval = settings.orphans_interval
        return "never looked for" if interval is None else f"due {_every(interval)}"
    if kind is WorkKind.MANIFESTS:
        return f"{health.manifests} manifests, {health.manifests_due} more than commits should leave"
    if kind is WorkKind.ANALYZE:
        counted, since = health.statistics_rows, health.rows_since_statistics or 0
        if counted is None:
            return "ANALYZE never ran"
        return f"{since} rows came or went since {counted} were counted, due from a tenth"
    return "when it is asked for"


def _minor(found: Measurement) -> str:
    health, wishes = found.health, found.wishes
    most, interval = wishes.minor_file_count, wishes.minor_interval_millis
    by_time = "" if interval is None else f", for fewer {_every(interval)}"
    if not health.has_primary_key:
        small = max((b.small_files for b in health.by_bucket), default=0)
        return f"{small} small files, due from {most}{by_time}"
    fragments = max((b.level0_files for b in health.by_bucket), default=0)
    tolerated = runs_tolerated(found)
    return (
        f"{health.runs_max} sorted runs, due above {tolerated}; {fragments} files of level 0, due from {most}{by_time}"
    )


def _every(millis: int) -> str:
    return f"every {millis // 1000} s"
