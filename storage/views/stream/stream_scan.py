"""Planning and iterating a stream: snapshot after snapshot, the splits that contain what it changed.

    for changes in table.stream(from_snapshot=1): apply(changes.to_arrow())

The state of a stream is the next snapshot to read, and the commit of the one before it: `checkpoint` returns both and
`restore` resumes from them, in the same process or another one. A stream fails if the table's history is not the one
that it has read. The changelog producer decides whether a full read leaves out level 0: where compactions write the
changelog, rows of level 0 will be in a later changelog. Source: paimon-core's DataTableStreamScan.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from interbed.storage.base.clock import Clock, now_millis
from interbed.storage.base.errors import InvalidInputError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.log import CHANGE_TRACKING
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, Snapshot
from interbed.storage.read.arrow_rows import ArrowRows, SplitsRead
from interbed.storage.read.change_read import ordered_groups
from interbed.storage.scan.change_plan import (
    SnapshotChangeRules,
    check_changes_readable,
    plan_of,
    record_splits,
    splits_of_snapshot,
    warn_of_overlooked,
)
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Plan, Split
from interbed.storage.scan.starting_point import earliest_changes, files_since, travels
from interbed.storage.scan.support import check_readable
from interbed.storage.views.stream.position import (
    StreamCheckpoint,
    StreamStart,
    commit_of,
    is_commit,
    start_at,
    stream_start,
)


def streamed(store: FileStore) -> FileStore:
    """Return the table as streams read it: with the current columns, even if the stream begins in the past."""
    return store.refreshed() if travels(store) else store


class StreamScan:
    """Plans one stream of a table's changes. Not safe for several threads.

    `predicate`, `partition_filter` and `buckets` are those of TableScan. `clock` returns milliseconds since the epoch,
    for `streaming.read.snapshot.delay`. Raises NotSupportedError for tables that this version cannot read.
    """

    def __init__(
        self,
        store: FileStore,
        *,
        predicate: Predicate | None = None,
        partition_filter: Mapping[str, object] | Predicate | None = None,
        buckets: Collection[int] | None = None,
        clock: Clock = now_millis,
    ) -> None:
        check_readable(store)
        if not store.options.tracks_changes:
            raise NotSupportedError(
                f"The table at {store.location} has '{CHANGE_TRACKING}' = 'false': it is for batch reads only. Set it "
                "to 'true' to read its changes."
            )
        check_changes_readable(store)
        self.store = store
        self._predicate = predicate
        self._partition_filter = partition_filter
        self._buckets = buckets
        self._clock = clock
        self._rules = SnapshotChangeRules.of_stream(store)
        # No changelog will contain rows of the postponed bucket, so they are read as they are written.
        self._reads_postponed = (
            buckets is None
            and bucket_mode(store.schema, store.options) is BucketMode.POSTPONED
            and store.options.changelog_producer is ChangelogProducer.NONE
        )
        self._changes = TableScan(
            store,
            predicate=predicate,
            partition_filter=partition_filter,
            buckets=buckets,
            postponed=self._reads_postponed,
        )
        self._consumers = ConsumerManager(store.file_io, store.paths)
        self._changelogs = ChangelogManager(store.file_io, store.paths)
        self._next: int | None = None
        self._passed: str | None = None
        self._planned: StreamCheckpoint | None = None
        self._full: int | None = None
        self._files_since: int | None = None
        self._was_empty = False
        self._watermark: int | None = None
        self._finished = False

    @property
    def watermark(self) -> int | None:
        """The watermark of the snapshot that was planned last, in milliseconds since the epoch."""
        return self._watermark

    @property
    def is_finished(self) -> bool:
        """Whether `scan.bounded.watermark` was reached, so that no plan will follow."""
        return self._finished

    def plan(self) -> Plan | None:
        """Plan the next snapshot; return None if there is nothing new.

        The first plan may have the rows of a whole snapshot; every other one has the changes of one snapshot. Snapshots
        without changes for a stream are skipped. Raises SnapshotNotFoundError if the next snapshot has expired, if the
        table has fewer snapshots than the stream has read, or if another commit has replaced the last snapshot that the
        stream has read; InvalidOptionError; what TableScan.plan raises.
        """
        if self._finished:
            return None
        if self._next is None:
            start = self.starting_point()
            if start is None:
                self._was_empty = True
                return None
            self._next, self._full, self._files_since = start.next_snapshot, start.full, start.files_since
            self._passed = start.passed
        if self._full is not None:
            return self._plan_full(self._full)
        is_checked = False
        while True:
            snapshot = self._due(self._next)
            if not is_checked:
                # After the next snapshot was read, so that a rollback in between is noticed now or by the next call.
                self._check_passed(self._next - 1)
                is_checked = True
            if snapshot is None:
                return None
            warn_of_overlooked(self.store.location, snapshot, self._rules)
            splits = splits_of_snapshot(self.store, self._changes, snapshot, self._rules.files_of(snapshot))
            self._planned = StreamCheckpoint(self._next, self._passed)
            self._next, self._passed = self._next + 1, commit_of(snapshot)
            if splits:
                self._watermark = snapshot.watermark
                return plan_of(snapshot, splits)

    def upcoming(self) -> int | None:
        """Return the snapshot that `plan` reads next, None before the first plan."""
        return self._next if self._full is None else self._full

    def check_position(self) -> None:
        """Raise SnapshotNotFoundError if the table no longer has the snapshots that the stream has read."""
        upcoming = self.upcoming()
        if upcoming is None:
            return
        self._check_in_range(upcoming if self._full is None else upcoming + 1)
        if self._full is None:
            self._check_passed(upcoming - 1)

    def checkpoint(self) -> StreamCheckpoint | None:
        """Return the next snapshot to read, None before the first plan; `restore` resumes from it."""
        return None if self._full is not None or self._next is None else StreamCheckpoint(self._next, self._passed)

    def checkpoint_before(self) -> StreamCheckpoint | None:
        """Return the checkpoint from which the last planned changes are planned again."""
        return self._planned

    def restore(self, next_snapshot: int | str | None, *, full: bool = False) -> None:
        """Resume from a checkpoint or its text; None restarts. With `full` the rows of that snapshot come first.

        A plain number resumes from that snapshot without verifying the history. Raises InvalidInputError for other
        texts.
        """
        checkpoint = None if next_snapshot is None else StreamCheckpoint.of(next_snapshot)
        self._next = None if checkpoint is None else int(checkpoint)
        self._passed = None if checkpoint is None else checkpoint.passed
        self._full = self._files_since = self._planned = None
        self._finished = False
        if self._next is not None and full:
            start = StreamStart.with_rows_of(self._next)
            self._next, self._full, self._files_since = start.next_snapshot, start.full, files_since(self.store)
            self._passed = None

    def notify_checkpoint_complete(self, next_snapshot: int | None) -> None:
        """Store the progress in the table, as the consumer `consumer-id`, if the option is set.

        Snapshots from there on do not expire while the consumer needs them.
        """
        consumer_id = self.store.options.consumer_id
        if consumer_id is not None and next_snapshot is not None:
            self._check_same_table()
            self._consumers.reset(consumer_id, int(next_snapshot), passed=StreamCheckpoint.of(next_snapshot).passed)

    def starting_point(self) -> StreamStart | None:
        """Return the start of a stream now: the progress of its consumer, otherwise by the table's options.

        Return None while the table has no snapshot. Raises InvalidOptionError and SnapshotNotFoundError.
        """
        options = self.store.options
        if options.consumer_id is not None and not options.consumer_ignore_progress:
            progress = self._consumers.progress(options.consumer_id)
            if progress is not None:
                self._check_unread(options.consumer_id, progress.next_snapshot)
                return start_at(self.store, progress.next_snapshot, passed=progress.passed)
        return stream_start(self.store, was_empty=self._was_empty)

    def _check_unread(self, consumer_id: str, next_snapshot: int) -> None:
        """Raise SnapshotNotFoundError if changes that the consumer has not read have expired."""
        oldest = earliest_changes(self.store)
        if oldest is not None and next_snapshot < oldest:
            raise SnapshotNotFoundError(
                f"The consumer {consumer_id!r} of {self.store.location} continues with snapshot {next_snapshot}, which "
                f"has expired; the oldest is {oldest}. It can't read the changes before that any more: reset it to "
                f"{oldest} to go on without them, or delete it to begin with the rows of the table."
            )

    def _plan_full(self, snapshot_id: int) -> Plan:
        snapshot = self.store.snapshots.read(snapshot_id)
        scan = TableScan(
            self.store,
            predicate=self._predicate,
            partition_filter=self._partition_filter,
            buckets=self._buckets,
            snapshot_id=snapshot_id,
            level_filter=self._levels_read(),
            files_since=self._files_since,
        )
        plan = scan.plan()
        if self._reads_postponed:
            plan = replace(plan, splits=(*plan.splits, *self._postponed(snapshot_id)))
        self._full, self._passed = None, commit_of(snapshot)
        self._watermark = snapshot.watermark
        self._finished = self._is_over(snapshot)
        return plan

    def _postponed(self, snapshot_id: int) -> list[Split]:
        """Return the splits of the postponed bucket of a snapshot, whose rows are read as records."""
        scan = TableScan(
            self.store, partition_filter=self._partition_filter, buckets=[POSTPONE_BUCKET], snapshot_id=snapshot_id
        )
        entries = sorted(scan.entries(), key=lambda e: e.file.creation_time_millis)
        return record_splits(self.store, snapshot_id, entries)

    def _levels_read(self) -> Callable[[int], bool] | None:
        """Return the filter of the levels whose rows no later changelog contains; None for an append table."""
        if not self.store.schema.has_primary_key:
            return None
        producer = self.store.options.changelog_producer
        if producer is ChangelogProducer.LOOKUP:
            return lambda level: level > 0
        if producer is ChangelogProducer.FULL_COMPACTION:
            highest = self.store.options.num_levels - 1
            return lambda level: level == highest
        return lambda level: True

    def _due(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot, None if it is missing or too young. Finish the stream at its bound."""
        manager = self.store.snapshots
        if manager.exists(snapshot_id):
            # Read again, because another process may have rolled back the cached snapshot.
            snapshot = manager.stored(snapshot_id)
            self._check_same_table(snapshot)
        else:
            changelog = self._changelogs.find(snapshot_id)
            if changelog is None:
                self._check_in_range(snapshot_id)
                return None
            snapshot = changelog
        if self._is_over(snapshot):
            self._finished = True
            return None
        delay = self.store.options.streaming_read_delay_millis
        if delay is not None and snapshot.time_millis > self._clock() - delay:
            return None
        return snapshot

    def _check_same_table(self, beside: Snapshot | None = None) -> None:
        """Raise SnapshotNotFoundError if another table has replaced the table of the stream."""
        if self.store.schemas.is_another(self.store.schema, beside):
            raise SnapshotNotFoundError(
                f"The table at {self.store.location} was dropped, and perhaps recreated, since its stream began; "
                "get it from its catalog again and start a new stream."
            )

    def _check_passed(self, snapshot_id: int) -> None:
        """Raise SnapshotNotFoundError if another commit has the id of the last snapshot that the stream has read.

        An expired snapshot can't be compared, nor can a stream without a known commit.
        """
        if self._passed is None or snapshot_id < FIRST_SNAPSHOT_ID:
            return
        try:
            found: Snapshot | None = self.store.snapshots.stored(snapshot_id)
        except SnapshotNotFoundError:
            found = self._changelogs.find(snapshot_id)
        if found is not None and not is_commit(found, self._passed):
            consumer = self.store.options.consumer_id
            raise SnapshotNotFoundError(
                f"The stream of {self.store.location} resumes after snapshot {snapshot_id}, which is not the one that "
                "it has read. The table was recreated or rolled back; start a new stream"
                + (f" after resetting the consumer {consumer!r}." if consumer is not None else ".")
            )

    def _is_over(self, snapshot: Snapshot) -> bool:
        bound = self.store.options.bounded_watermark
        return bound is not None and snapshot.watermark is not None and snapshot.watermark > bound

    def _check_in_range(self, snapshot_id: int) -> None:
        oldest, newest = self.store.snapshots.earliest_id(), self.store.snapshots.latest_id()
        if oldest is not None and snapshot_id < FIRST_SNAPSHOT_ID:
            raise SnapshotNotFoundError(
                f"The stream of {self.store.location} can't continue with snapshot {snapshot_id}: their numbers begin "
                f"with {FIRST_SNAPSHOT_ID}."
            )
        if oldest is not None and snapshot_id < oldest and not self.store.snapshots.exists(snapshot_id):
            raise SnapshotNotFoundError(
                f"The stream of {self.store.location} continues with snapshot {snapshot_id}, which has expired; the "
                f"oldest is {oldest}. Start a new stream, or resume from snapshot {oldest}. To keep snapshots until "
                "they are read, give the stream a 'consumer-id', or let them expire later ('snapshot.time-retained')."
            )
        if snapshot_id > (newest or 0) + 1:
            raise SnapshotNotFoundError(
                f"The stream of {self.store.location} continues with snapshot {snapshot_id}, but the newest is "
                f"{newest or 'missing'}. The table was recreated or rolled back; start a new stream."
            )


@dataclass(frozen=True, kw_only=True)
class StreamedChanges(ArrowRows):
    """The changes of one snapshot or a part of them, or the rows of the snapshot with which a stream begins.

    `checkpoint` is the `from_snapshot` of a stream that resumes after these changes were processed. It is the id of the
    next snapshot together with the commit before it; store `checkpoint.to_text()` outside of the process. If a snapshot
    is returned in parts, all parts but the last one have a checkpoint at that snapshot, or None for the rows of a whole
    snapshot.
    """

    plan: Plan
    checkpoint: StreamCheckpoint | None
    read: SplitsRead

    @property
    def snapshot_id(self) -> int | None:
        """The id of the snapshot."""
        return self.plan.snapshot_id

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits, which other processes can read by `Table.new_change_read`."""
        return self.plan.splits

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows: the requested columns, and `_row_kind`."""
        return self.read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the changes as a stream of batches, with memory bounded by a block."""
        return self.read.to_reader(self.plan.splits)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """Limits of the splits and files that are returned at a time; None for all changes of a snapshot.

    A split is never divided, so a split of more files is returned alone. The changes of a snapshot of a table whose
    keys cross partitions are not divided either, because a key may be deleted by one split and added by another.
    """

    splits: int | None = None
    files: int | None = None

    def __post_init__(self) -> None:
        for what, value in (("splits", self.splits), ("files", self.files)):
            if value is not None and value < 1:
                raise InvalidInputError(f"A stream returns at least one at a time, not {value} {what}.")

    def parts(self, groups: Iterable[Sequence[Split]]) -> list[tuple[Split, ...]]:
        """Divide groups of splits, in order, into parts within the limits; one empty part without splits."""
        parts: list[list[Split]] = [[]]
        for group in groups:
            together = [*parts[-1], *group]
            too_many = self.splits is not None and len(together) > self.splits
            too_large = self.files is not None and sum(_files_of(s) for s in together) > self.files
            if parts[-1] and (too_many or too_large):
                parts.append([])
            parts[-1] += group
        return [tuple(part) for part in parts]


@dataclass(frozen=True, kw_only=True)
class TableStream:
    """The result of `Table.stream`: an iterator over StreamedChanges that waits for new snapshots.

    It polls every `poll_seconds`, and ends after `idle_seconds` without a new snapshot (None: never; 0: at once), or at
    `scan.bounded.watermark`. The request for the next changes confirms that those before are processed: then the
    progress is stored in the table, if the stream has a `consumer-id`. `now` and `wait` are the clock, in seconds.
    """

    scan: StreamScan
    read: SplitsRead
    limits: StreamLimits = StreamLimits()
    poll_seconds: float = 10.0
    idle_seconds: float | None = None
    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], object] = time.sleep

    def __iter__(self) -> Generator[StreamedChanges]:
        last_change = self.now()
        stored: int | None = None
        while True:
            plan = self.scan.plan()
            if plan is not None:
                yield from self.parts(plan)
                last_change = self.now()
            if self.scan.checkpoint() != stored:
                stored = self.scan.checkpoint()
                self.scan.notify_checkpoint_complete(stored)
            if plan is not None:
                continue
            if self.scan.is_finished:
                return
            pause = self.poll_seconds
            if self.idle_seconds is not None:
                left = last_change + self.idle_seconds - self.now()
                if left <= 0:
                    return
                pause = min(pause, left)
            self.wait(pause)

    def parts(self, plan: Plan) -> Iterator[StreamedChanges]:
        """Yield the changes of the last plan, divided by the limits."""
        parts = self.limits.parts(ordered_groups(self.scan.store, plan.splits))
        for part in parts[:-1]:
            again = self.scan.checkpoint_before() if part[0].has_changes else None
            yield StreamedChanges(plan=replace(plan, splits=part), checkpoint=again, read=self.read)
        yield StreamedChanges(plan=replace(plan, splits=parts[-1]), checkpoint=self.scan.checkpoint(), read=self.read)


def _files_of(split: Split) -> int:
    return len(split.files) + len(split.before or ())
