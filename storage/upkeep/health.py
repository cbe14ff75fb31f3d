"""The health of a table: figures that say what upkeep it needs, and a score from 0 to 100 with its reasons.

All of it comes from metadata: the newest snapshot with its manifests, and the names in the snapshot directory. No data
file is opened, and manifests that a plan has decoded are not decoded again. A table has 100 points, less these:

| what | points | at its worst |
|---|---|---|
| read amplification | 10 for each sorted run that a read merges beyond the first, on average | 50 |
| small files | 20 for the part of the files that a full compaction would save | 20 |
| deleted rows | 1 for every 2 % of the rows that are deleted or delete | 15 |
| expiry | 1 for every 20 snapshots that are due, or part of 20 | 5 |
| manifests | 1 for every 10 small manifests too many, or part of 10 | 5 |
| statistics | 5 when more than a tenth of the rows that ANALYZE counted came or went since | 5 |
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from interbed.storage.base.bucket_id import BucketId, by_bucket
from interbed.storage.base.clock import Clock, now_millis
from interbed.storage.base.errors import CorruptFileError, plain_errors
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import ManifestFileMeta
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, IndexManifestEntry
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.scan.live_files import LiveFiles, check_not_replaced
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.summary.estimate import TableStatistics, read_statistics
from interbed.storage.upkeep.bucket_health import BucketHealth, BucketRules, bucket_health, part
from interbed.storage.version.expire import SnapshotExpiry

BEST = 100
_READ_AMPLIFICATION, _A_RUN = 50, 10
_SMALL_FILES = 20
_DELETED_ROWS, _OF_DELETED_ROWS = 15, 50
_EXPIRY, _SNAPSHOTS = 5, 20
_MANIFESTS, _SMALL_MANIFESTS = 5, 10
_STATISTICS, _OF_ROWS = 5, 10


class ScoredFigures(Protocol):
    """Figures of a table that its score depends on; those of TableHealth."""

    @property
    def has_primary_key(self) -> bool:
        """Whether the table has a primary key."""
        ...

    @property
    def read_amplification(self) -> float:
        """Average number of sorted runs that a read merges, or an append table's relative read cost; 1.0 is best."""
        ...

    @property
    def files(self) -> int:
        """Number of the table's data files."""
        ...

    @property
    def spare_files(self) -> int:
        """Number of files that a full compaction would save."""
        ...

    @property
    def rows(self) -> int:
        """Rows of the files, before merging."""
        ...

    @property
    def delete_rows(self) -> int:
        """Rows that are deleted or delete."""
        ...

    @property
    def delete_ratio(self) -> float:
        """Share of the rows that are deleted or delete."""
        ...

    @property
    def snapshots_due(self) -> int:
        """Number of snapshots that are due for expiry."""
        ...

    @property
    def manifests_due(self) -> int:
        """Small manifests beyond the number that commits leave."""
        ...

    @property
    def statistics_rows(self) -> int | None:
        """Rows that ANALYZE counted; None where it never ran."""
        ...

    @property
    def rows_since_statistics(self) -> int | None:
        """Rows added or removed since ANALYZE; None where it never ran."""
        ...


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReason:
    """Deduction from a table's score: its points, its name, and a text with figures."""

    points: int
    name: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return the reason as JSON values."""
        return {"points": self.points, "name": self.name, "text": self.text}

    def __str__(self) -> str:
        return f"-{self.points} {self.name}: {self.text}"


def score_of(figures: ScoredFigures) -> int:
    """Return the score, from 0 for a table in the worst state to 100."""
    return BEST - sum(reason.points for reason in reasons_of(figures))


def reasons_of(figures: ScoredFigures) -> tuple[HealthReason, ...]:
    """Return the deductions from the score, the greatest first."""
    runs, files, spare = figures.read_amplification, figures.files, figures.spare_files
    since, counted = figures.rows_since_statistics or 0, figures.statistics_rows or 0
    found = [
        HealthReason(
            points=min(_READ_AMPLIFICATION, round(_A_RUN * (runs - 1))),
            name="read amplification",
            text=(
                f"a read merges {runs:.1f} sorted runs on average"
                if figures.has_primary_key
                else f"a read costs {runs:.1f} times what it would after a full compaction"
            ),
        ),
        HealthReason(
            points=min(_SMALL_FILES, round(_SMALL_FILES * spare / files)) if files else 0,
            name="small files",
            text=f"{spare} of {files} files would be saved by joining small ones",
        ),
        HealthReason(
            points=min(_DELETED_ROWS, round(_OF_DELETED_ROWS * figures.delete_ratio)),
            name="deleted rows",
            text=f"{figures.delete_rows} of {figures.rows} rows are deleted or delete ({figures.delete_ratio:.0%})",
        ),
        HealthReason(
            points=min(_EXPIRY, -(-figures.snapshots_due // _SNAPSHOTS)),
            name="expiry",
            text=f"{figures.snapshots_due} snapshots are to expire",
        ),
        HealthReason(
            points=min(_MANIFESTS, -(-figures.manifests_due // _SMALL_MANIFESTS)),
            name="manifests",
            text=f"{figures.manifests_due} small manifests more than commits should leave",
        ),
        HealthReason(
            points=_STATISTICS if since * _OF_ROWS > counted else 0,
            name="statistics",
            text=f"{since} rows came or went since ANALYZE counted {counted}",
        ),
    ]
    return tuple(sorted((r for r in found if r.points > 0), key=lambda r: -r.points))


_log = logging.getLogger(__name__)

_SNAPSHOTS_SINCE_STATISTICS = 100
"""Greatest number of snapshots that are read to count the rows since ANALYZE; each may be a request."""


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """State of a table by its newest snapshot. Sizes in bytes, times in milliseconds since the epoch.

    The figures of files are sums of those of `by_bucket`, where they are explained. `manifests_due` are small manifests
    beyond twice `manifest.merge-min-count`, which commits should not leave. `snapshots_due` are the snapshots that the
    table's options expire now; without more writes the oldest expires at `next_expiry_millis`, None for never. ANALYZE
    counted `statistics_rows` in the snapshot `statistics_snapshot_id`; `rows_since_statistics` were added or removed
    since, within the newest 100 snapshots; None where it never ran. `snapshot_id` and `newest_millis` are None for a
    table without snapshots.
    """

    snapshot_id: int | None = None
    newest_millis: int | None = None
    has_primary_key: bool = False
    by_bucket: tuple[BucketHealth, ...] = ()
    manifests: int = 0
    manifests_due: int = 0
    snapshots: int = 0
    snapshots_due: int = 0
    next_expiry_millis: int | None = None
    statistics_snapshot_id: int | None = None
    statistics_rows: int | None = None
    rows_since_statistics: int | None = None

    @property
    def partitions(self) -> int:
        """Number of partitions with files."""
        return len({b.partition for b in self.by_bucket})

    @property
    def buckets(self) -> int:
        """Number of buckets with files, with those of postponed rows."""
        return len(self.by_bucket)

    @property
    def files(self) -> int:
        """Number of the table's data files."""
        return sum(b.files for b in self.by_bucket)

    @property
    def bytes(self) -> int:
        """Total size of the data files in bytes."""
        return sum(b.bytes for b in self.by_bucket)

    @property
    def rows(self) -> int:
        """Rows of the files, before merging."""
        return sum(b.rows for b in self.by_bucket)

    @property
    def level0_files(self) -> int:
        """Files of level 0, which are not compacted yet; 0 for append tables."""
        return sum(b.level0_files for b in self.by_bucket)

    @property
    def small_files(self) -> int:
        """Files smaller than `compaction.small-file-ratio` of the target size."""
        return sum(b.small_files for b in self.by_bucket)

    @property
    def spare_files(self) -> int:
        """Files that a full compaction would save by joining small ones."""
        return sum(b.spare_files for b in self.by_bucket)

    @property
    def runs_max(self) -> int:
        """Greatest number of sorted runs of a bucket; 0 for an empty table."""
        return max((b.runs for b in self.by_bucket), default=0)

    @property
    def read_amplification(self) -> float:
        """Number of sorted runs that a read merges, averaged over the bytes; 1.0 after a full compaction."""
        total = self.bytes
        excess = sum(b.bytes * (b.read_amplification - 1) for b in self.by_bucket)
        return 1.0 + excess / total if total else 1.0

    @property
    def delete_rows(self) -> int:
        """Records that delete, and rows that deletion vectors mark."""
        return sum(b.delete_rows for b in self.by_bucket)

    @property
    def delete_ratio(self) -> float:
        """Share of the rows that are deleted or delete."""
        return part(self.delete_rows, self.rows)

    @property
    def vector_files(self) -> int:
        """Data files with a deletion vector."""
        return sum(b.vector_files for b in self.by_bucket)

    @property
    def duplicate_ratio(self) -> float:
        """Share of the bytes outside of the oldest sorted runs."""
        return part(sum(b.duplicate_bytes for b in self.by_bucket), self.bytes)

    @property
    def pending_bytes(self) -> int:
        """Bytes that a full compaction would rewrite, estimated."""
        return sum(b.pending_bytes for b in self.by_bucket)

    @property
    def last_full_millis(self) -> int | None:
        """Time of the last full compaction of a bucket; None for never."""
        return max((b.last_full_millis for b in self.by_bucket if b.last_full_millis is not None), default=None)

    @property
    def score(self) -> int:
        """Health of the table, from 0 to 100; see `interbed.storage.upkeep.health`."""
        return score_of(self)

    @property
    def reasons(self) -> tuple[HealthReason, ...]:
        """Deductions from the score, the greatest first."""
        return reasons_of(self)

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return f"health {self.score} of 100, no snapshot"
        lines = (
            f"health {self.score} of 100, snapshot {self.snapshot_id}: {self.files} files in {self.buckets} bucket(s), "
            f"{self.bytes:,} bytes, {self.pending_bytes:,} of them to compact",
            *map(str, self.reasons),
        )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values, with those of the buckets."""
        return {
            "snapshot_id": self.snapshot_id,
            "newest_millis": self.newest_millis,
            "has_primary_key": self.has_primary_key,
            "score": self.score,
            "reasons": [r.to_json() for r in self.reasons],
            "partitions": self.partitions,
            "buckets": self.buckets,
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "level0_files": self.level0_files,
            "small_files": self.small_files,
            "spare_files": self.spare_files,
            "runs_max": self.runs_max,
            "read_amplification": round(self.read_amplification, 4),
            "delete_rows": self.delete_rows,
            "delete_ratio": round(self.delete_ratio, 4),
            "vector_files": self.vector_files,
            "duplicate_ratio": round(self.duplicate_ratio, 4),
            "pending_bytes": self.pending_bytes,
            "last_full_millis": self.last_full_millis,
            "manifests": self.manifests,
            "manifests_due": self.manifests_due,
            "snapshots": self.snapshots,
            "snapshots_due": self.snapshots_due,
            "next_expiry_millis": self.next_expiry_millis,
            "statistics_snapshot_id": self.statistics_snapshot_id,
            "statistics_rows": self.statistics_rows,
            "rows_since_statistics": self.rows_since_statistics,
            "by_bucket": [b.to_json() for b in self.by_bucket],
        }


def table_health(store: FileStore, *, clock: Clock = now_millis) -> TableHealth:
    """Return the health of the newest snapshot, from metadata alone; `clock` returns the time since the epoch.

    The read amplification of a table with a primary key is the number of sorted runs that a read merges where their key
    ranges overlap, averaged over the bytes. Append tables merge nothing: their figure is the cost of a read relative to
    the cost after a full compaction. As in the packing of splits, the cost is the bytes and
    `source.split.open-file-cost` for each file. Either is 1.0 for an empty table, and for one that was compacted in
    full.

    Raises CorruptFileError naming the metadata that can't be read, InvalidInputError for a table that was replaced.
    """
    snapshot = store.newest_snapshot()
    keyed = store.schema.has_primary_key
    if snapshot is None:
        return TableHealth(has_primary_key=keyed)
    check_not_replaced(store, snapshot)
    now = clock()
    live = LiveFiles(store)
    entries, _ = live.entries(snapshot)
    if bucket_mode(store.schema, store.options) is BucketMode.POSTPONED:
        entries += LiveFiles(store, buckets=[POSTPONE_BUCKET]).entries(snapshot)[0]
    vectors = _vectors(live.index_entries(snapshot))
    rules = BucketRules.of(store)
    names: dict[bytes, str] = {}
    buckets = []
    for bucket_id, found in sorted(by_bucket(entries).items()):
        name = names.get(bucket_id.partition)
        if name is None:
            name = names[bucket_id.partition] = _name(store, bucket_id.partition)
        files = [e.file for e in found]
        marked = vectors.get(bucket_id, {})
        buckets.append(bucket_health(bucket_id, files, marked, rules, partition_name=name, now_millis=now))
    manifests = ManifestReader(store.file_io, store.paths).data(snapshot)
    statistics = _statistics(store, snapshot)
    expiry = SnapshotExpiry(store, clock=lambda: now / 1000)
    return TableHealth(
        snapshot_id=snapshot.id,
        newest_millis=snapshot.time_millis,
        has_primary_key=keyed,
        by_bucket=tuple(buckets),
        manifests=len(manifests),
        manifests_due=_manifests_due(store, manifests),
        snapshots=len(store.snapshots.ids()),
        snapshots_due=expiry.due(),
        next_expiry_millis=expiry.next_due_millis(),
        statistics_snapshot_id=None if statistics is None else statistics.snapshot_id,
        statistics_rows=None if statistics is None else statistics.row_count,
        rows_since_statistics=None if statistics is None else _rows_since(store, snapshot, statistics.snapshot_id),
    )


def _vectors(entries: Iterable[IndexManifestEntry]) -> Mapping[BucketId, Mapping[str, int | None]]:
    found: dict[BucketId, dict[str, int | None]] = {}
    for entry in entries:
        if entry.file.index_type == DELETION_VECTORS:
            bucket = found.setdefault(entry.bucket_id, {})
            bucket.update({v.data_file_name: v.cardinality for v in entry.file.deletion_vectors or ()})
    return found


def _name(store: FileStore, partition: bytes) -> str:
    return "/".join(f"{name}={value}" for name, value in store.paths.partition_spec(partition).items())


def _manifests_due(store: FileStore, manifests: Sequence[ManifestFileMeta]) -> int:
    options = store.options
    small = sum(m.file_size < options.manifest_target_file_size for m in manifests)
    # A commit merges them when there are that many, and adds its own; more than twice as many are overdue.
    return max(0, small - 2 * max(2, options.manifest_merge_min_count))


def _statistics(store: FileStore, snapshot: Snapshot) -> TableStatistics | None:
    try:
        return read_statistics(store, snapshot)
    except CorruptFileError as error:
        # The other figures do not depend on statistics.
        _log.warning("The statistics of snapshot %d are left out: %s", snapshot.id, error)
        return None


def _rows_since(store: FileStore, snapshot: Snapshot, analysed: int) -> int:
    rows = 0
    for seen, earlier in enumerate(store.snapshots.descending(snapshot.id)):
        if earlier.id <= analysed or seen == _SNAPSHOTS_SINCE_STATISTICS:
            break
        if earlier.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE):
            rows += abs(earlier.delta_record_count)
    return rows
