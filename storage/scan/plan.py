"""What a scan is going to read, and what it found it need not read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from interbed.storage.base.frozen import plain_errors
from interbed.storage.scan.split import Split


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatistics:
    """How much was left after each step of pruning, for explaining a plan.

    `files_total` counts all live files, also those of manifests that were not read. The next four count what was left
    of them, in this order; `files_after_indexes` by the file indexes in manifests. Those of `files_with_index_beside`
    are looked at when the file is read. `files_by_level` counts the planned files; level 0 is what writers flushed,
    higher is compacted.
    """

    manifests_total: int = 0
    manifests_read: int = 0
    files_total: int = 0
    files_after_partitions: int = 0
    files_after_buckets: int = 0
    files_after_statistics: int = 0
    files_after_indexes: int = 0
    files_planned: int = 0
    files_with_index_beside: int = 0
    partitions: int = 0
    buckets: int = 0
    files_by_level: Mapping[int, int] = field(default_factory=dict)
    rows_planned: int = 0
    bytes_planned: int = 0
    splits_raw: int = 0
    splits_merged: int = 0
    limit_pushed: bool = False


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The splits of one snapshot. `snapshot_id` is None for a table without snapshots."""

    snapshot_id: int | None
    schema_id: int
    splits: tuple[Split, ...]
    statistics: PlanStatistics = PlanStatistics()
