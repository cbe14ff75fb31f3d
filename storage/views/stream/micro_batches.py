"""A stream as micro-batches: from one position to the next, in steps as large as limits allow.

The caller keeps the positions. Planning a step again gives the same splits, even with other limits. A step is counted
in units that do not depend on options: the files of an append table, the splits of a primary-key table. A snapshot may
be read in several steps, unless a key may be deleted by one of its splits and added by another. Source: documentation
page `spark/structured-streaming`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from interbed.storage.base.errors import InvalidInputError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.meta.bucket_mode import crosses_partitions
from interbed.storage.meta.file_store import FileStore
from interbed.storage.scan.split import Plan, Split
from interbed.storage.views.stream.position import NOTHING_READ, StreamCheckpoint, StreamPosition
from interbed.storage.views.stream.stream_scan import StreamScan


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Limits of the files, bytes and rows (before merging) in a step, which has at least one unit; None for no limit.

    Where keys cross partitions a step has at least the changes of one snapshot. With fewer than `min_rows` rows there
    is no step.
    """

    files: int | None = None
    size: int | None = None
    rows: int | None = None
    min_rows: int | None = None

    def __post_init__(self) -> None:
        for what, value in (("files", self.files), ("bytes", self.size), ("rows", self.rows), ("rows", self.min_rows)):
            if value is not None and value < 1:
                raise InvalidInputError(f"A limit of a stream is one or more {what}, not {value}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """An indivisible part of a snapshot; `origin` is the number of its split within the snapshot."""

    position: StreamPosition
    origin: int
    split: Split


class MicroBatches:
    """Plans the steps of one stream of a table, without state.

    Raises what StreamScan.plan raises, and NotSupportedError if the table's columns have changed since it was opened.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def start(self) -> StreamPosition:
        """Return the position where the stream begins now, by `scan.mode`, `consumer-id` and related options."""
        start = StreamScan(self._store).starting_point()
        if start is None:
            # The first snapshot is new to a stream of an empty table.
            return StreamPosition(snapshot_id=self._store.options.scan_snapshot_id or 1)
        if start.full is not None:
            return StreamPosition(snapshot_id=start.full, full=True)
        return StreamPosition(snapshot_id=start.next_snapshot, commit=start.passed)

    def newest(self) -> int | None:
        """Return the newest snapshot now, for a stream that ends there."""
        return self._store.snapshots.latest_id()

    def advance(
        self, after: StreamPosition, limits: BatchLimits | None = None, *, last_snapshot: int | None = None
    ) -> StreamPosition | None:
        """Return the end of the step after a position; None if there is nothing, or not enough, to read.

        The step does not extend beyond `last_snapshot`.
        """
        limits = limits or BatchLimits()
        end: StreamPosition | None = None
        # Keys that move to another partition are deleted and added by the same step.
        is_divided = not crosses_partitions(self._store.schema)
        last_end: StreamPosition | None = None
        files = size = rows = 0
        units = self._units(after, last_snapshot)
        while True:
            try:
                unit = next(units, None)
            except NotSupportedError:
                # Units before the change of columns can still be read.
                if end is None:
                    raise
                return end
            if unit is None:
                break
            # The rows that an overwrite deleted are read, too.
            files += len(unit.split.files) + len(unit.split.before or ())
            size += unit.split.byte_size
            rows += unit.split.row_count
            over = (
                (limits.files is not None and files > limits.files)
                or (limits.size is not None and size > limits.size)
                or (limits.rows is not None and rows > limits.rows)
            )
            if over and last_end is not None:
                return last_end
            end = unit.position
            if is_divided or end.is_complete or end.full:
                last_end = end
        if limits.min_rows is not None and rows < limits.min_rows:
            return None
        return end

    def splits(self, after: StreamPosition, end: StreamPosition) -> list[Split]:
        """Return the splits of the step between two positions; raises SnapshotNotFoundError if they are missing."""
        if end.order <= after.order:
            if end.order == after.order:
                return []
            raise self._missing(after, end)
        found: list[_Unit] = []
        for unit in self._units(after, end.snapshot_id):
            if unit.position.order > end.order:
                break
            found.append(unit)
        if not found or found[-1].position.order != end.order:
            raise self._missing(after, end)
        self._check_same(end, found[-1].position)
        if None not in (end.commit, found[-1].position.commit) and end.commit != found[-1].position.commit:
            raise self._missing(after, end)
        return _joined(found)

    def commit(self, end: StreamPosition) -> None:
        """Store the position as the progress of the table's consumer, if the stream has one.

        A snapshot that was read in part is retained. A position within the rows of a whole snapshot is not stored,
        because a consumer always resumes with changes.
        """
        scan = StreamScan(self._store)
        if end.is_complete:
            scan.notify_checkpoint_complete(StreamCheckpoint(end.snapshot_id + 1, end.commit))
        elif not end.full:
            scan.notify_checkpoint_complete(end.snapshot_id)

    def _units(self, after: StreamPosition, last_snapshot: int | None) -> Iterator[_Unit]:
        """Yield the units after a position, in order, up to a snapshot (None: to the newest)."""
        scan = StreamScan(self._store)
        if after.is_complete:
            scan.restore(StreamCheckpoint(after.snapshot_id + 1, after.commit))
        elif after.index == NOTHING_READ and not after.full:
            scan.restore(StreamCheckpoint(after.snapshot_id, after.commit))
        else:
            scan.restore(after.snapshot_id, full=after.full)
        if last_snapshot is not None and (scan.upcoming() or 0) > last_snapshot:
            # Nothing is planned, which would notice a rollback.
            scan.check_position()
        while True:
            upcoming = scan.upcoming()
            if last_snapshot is not None and upcoming is not None and upcoming > last_snapshot:
                return
            plan = scan.plan()
            if plan is None:
                return
            units = self._units_of(plan, scan.checkpoint(), full=after.full and upcoming == after.snapshot_id)
            if plan.snapshot_id == after.snapshot_id and not after.is_complete:
                if units:
                    self._check_commit(after, units[-1].position)
                    self._check_same(after, units[-1].position)
                units = units[after.index + 1 :]
            if units and last_snapshot is not None and units[0].position.snapshot_id > last_snapshot:
                return
            if units:
                check_columns(self._store, plan.snapshot_id, plan.schema_id)
            yield from units

    def _units_of(self, plan: Plan, next_: StreamCheckpoint | None, *, full: bool) -> list[_Unit]:
        """Return the units of a plan, after which the stream is at the checkpoint."""
        assert plan.snapshot_id is not None
        commit = None if next_ is None else next_.passed
        pieces = [(n, piece) for n, split in enumerate(plan.splits) for piece in self._pieces(split)]
        return [
            _Unit(
                position=StreamPosition(
                    snapshot_id=plan.snapshot_id, index=index, full=full, total=len(pieces), commit=commit
                ),
                origin=origin,
                split=piece,
            )
            for index, (origin, piece) in enumerate(pieces)
        ]

    def _pieces(self, split: Split) -> list[Split]:
        if self._store.schema.has_primary_key or split.before is not None:
            return [split]
        if self._store.options.data_evolution_enabled:
            from interbed.storage.lsm.column_groups import row_range_groups

            return [replace(split, files=group.files) for group in row_range_groups(split.files)]
        return [replace(split, files=(file,)) for file in split.files]

    def _check_commit(self, known: StreamPosition, planned: StreamPosition) -> None:
        """Raise SnapshotNotFoundError if the snapshot that was read in part is another commit now."""
        is_known = known.index != NOTHING_READ and None not in (known.commit, planned.commit)
        if is_known and known.commit != planned.commit:
            raise SnapshotNotFoundError(
                f"The stream of {self._store.location} resumes within snapshot {known.snapshot_id}, which is "
                "not the one that it has read. The table was recreated or rolled back; start a new stream."
            )

    def _check_same(self, known: StreamPosition, planned: StreamPosition) -> None:
        if known.index != NOTHING_READ and known.total is not None and known.total != planned.total:
            raise InvalidInputError(
                f"The stream of {self._store.location} resumes within snapshot {known.snapshot_id}, after part "
                f"{known.index + 1} of {known.total}, but the snapshot has {planned.total} parts now. Set the options "
                "that the stream was started with (especially 'source.split.target-size'), or start a new stream."
            )

    def _missing(self, after: StreamPosition, end: StreamPosition) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            f"The stream of {self._store.location} must read again from {after.to_json()} to {end.to_json()}, which "
            "the table no longer has: it was recreated or rolled back; start a new stream."
        )


def check_columns(store: FileStore, snapshot_id: int | None, schema_id: int) -> None:
    """Raise NotSupportedError if the columns of a snapshot with this schema differ from those of the file store."""
    schema = store.schema
    if schema_id <= schema.id:
        return
    if store.schemas.schema(schema_id).fields != schema.fields:
        raise NotSupportedError(
            f"The columns of the table at {store.location} were changed: snapshot {snapshot_id} has schema "
            f"{schema_id}, the stream reads by schema {schema.id}. Restart the query from its checkpoint to "
            "continue with the new columns."
        )


def _joined(units: list[_Unit]) -> list[Split]:
    """Return the splits of the units; consecutive units of one split are joined."""
    splits: list[Split] = []
    last: _Unit | None = None
    for unit in units:
        whole = last is not None and (
            last.position.snapshot_id,
            last.origin,
            last.split.partition,
            last.split.bucket,
        ) == (unit.position.snapshot_id, unit.origin, unit.split.partition, unit.split.bucket)
        if whole:
            splits[-1] = replace(splits[-1], files=(*splits[-1].files, *unit.split.files))
        else:
            splits.append(unit.split)
        last = unit
    return splits
