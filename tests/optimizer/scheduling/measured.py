"""Measurements of imaginary tables, with defaults for all figures a test does not set."""

from collections.abc import Mapping

from interbed.optimizer.flow.tables import TableMeasurement
from interbed.storage.meta.options.optimizing import SelfOptimizing
from interbed.storage.upkeep.bucket_health import BucketHealth
from interbed.storage.upkeep.health import TableHealth


def bucket(
    *,
    runs: int = 1,
    files: int = 1,
    level0_files: int = 0,
    small_files: int = 0,
    delete_ratio: float = 0.0,
    bucket: int = 0,
    last_full_millis: int | None = None,
) -> BucketHealth:
    """Return a bucket of 1,000 rows and bytes."""
    return BucketHealth(
        partition=b"",
        bucket=bucket,
        runs=runs,
        files=files,
        bytes=1_000,
        rows=1_000,
        level0_files=level0_files,
        small_files=small_files,
        delete_rows=round(1_000 * delete_ratio),
        read_amplification=float(runs),
        last_full_millis=last_full_millis,
    )


def measurement(
    *buckets: BucketHealth,
    options: Mapping[str, str] | None = None,
    snapshot_id: int | None = 1,
    keyed: bool = True,
    snapshots: int = 1,
    snapshots_due: int = 0,
    next_expiry: int | None = None,
    manifests_due: int = 0,
    statistics: tuple[int, int] | None = None,
) -> TableMeasurement:
    """Return a table of those buckets; `statistics` are the rows counted by ANALYZE, and those changed since."""
    given = dict(options or {})
    health = TableHealth(
        snapshot_id=snapshot_id,
        has_primary_key=keyed,
        by_bucket=buckets,
        snapshots=snapshots,
        snapshots_due=snapshots_due,
        next_expiry_millis=next_expiry,
        manifests_due=manifests_due,
        statistics_rows=None if statistics is None else statistics[0],
        rows_since_statistics=None if statistics is None else statistics[1],
    )
    return TableMeasurement(health=health, optimizing=SelfOptimizing.of(given), options=given)


def runs(count: int, *, snapshot_id: int = 1, options: Mapping[str, str] | None = None) -> TableMeasurement:
    """Return a table with a primary key and sorted runs; more than five are too many by default."""
    return measurement(bucket(runs=count, level0_files=count - 1), snapshot_id=snapshot_id, options=options)
