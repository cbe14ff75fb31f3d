"""The values of keys in a table's snapshots and in its eventual log, and the changes between them.

Rows are compared in the form of records: as the bytes of their JSON, with the current columns of the table.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from interbed.storage.base.errors import InterbedError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.log.api import LogRecords, RecordCodec
from interbed.storage.log.kafka import LogSettings
from interbed.storage.log.written import WrittenRange, WrittenRow
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.stream import IncrementalScanMode
from interbed.storage.meta.schema.evolution import map_fields
from interbed.storage.meta.snapshot.progress import LogPosition
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.read.change_read import ChangeRead
from interbed.storage.read.point_lookup import PointLookup
from interbed.storage.scan.change_plan import plan_between
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Split
from interbed.storage.scan.starting_point import SnapshotRange
from interbed.storage.views.stream.log_stream import check_log_stream

KEYS_AT_ONCE = 10_000
"""The number of keys that are looked up together, and whose changes are returned together."""

Values = Mapping[bytes, bytes | None]
"""The value of the record of each key, None for a key without a row."""


class EventualRows:
    """Looks up rows of a table with an eventual log. `store` is the table as streams read it."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._place = LogSettings.of(store.options).place
        self._codec = RecordCodec(store.schema)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Return a snapshot that a stream needs; raises SnapshotNotFoundError with the way out."""
        try:
            return self._store.snapshots.read(snapshot_id)
        except SnapshotNotFoundError as error:
            raise self._expired(snapshot_id) from error

    def check_in_history(self, base: Snapshot | None, newest: Snapshot | None) -> None:
        """Raise SnapshotNotFoundError if a rollback has removed the base from the history of the table.

        Without the base's snapshot file the history is assumed to be the same.
        """
        if base is None or (newest is not None and self._is_in_history(base, newest)):
            return
        raise self._rolled_back(base.id)

    def reached_snapshot(self, snapshot_id: int, uuid: str | None, newest: Snapshot | None) -> Snapshot | None:
        """Return the snapshot that a stream has reached, None for 0. `newest` is the newest snapshot of the table.

        Raises SnapshotNotFoundError if the snapshot has expired or was rolled back.
        """
        if not snapshot_id:
            return None
        if newest is None or newest.id < snapshot_id:
            raise self._rolled_back(snapshot_id)
        found = newest if newest.id == snapshot_id else self.snapshot(snapshot_id)
        if None not in (found.uuid, uuid) and found.uuid != uuid:
            raise self._rolled_back(snapshot_id)
        return found

    def splits_changed(self, base: Snapshot | None, newest: Snapshot) -> Sequence[Split]:
        """Return the splits with the keys that the snapshots after the base may have changed."""
        if base is None:
            return TableScan(self._store, snapshot_id=newest.id).plan().splits
        mode = IncrementalScanMode.DELTA
        try:
            between = [self._store.snapshots.read(i) for i in range(base.id + 1, newest.id + 1)]
        except SnapshotNotFoundError:
            between = []
        if not between or any(s.commit_kind is CommitKind.OVERWRITE for s in between):
            mode = IncrementalScanMode.DIFF
        self.snapshot(base.id)
        if newest.id == base.id:
            return ()
        changed = SnapshotRange(first=base.id, last=newest.id)
        return plan_between(self._store, TableScan(self._store), changed, mode).splits

    def keys_in(self, splits: Sequence[Split]) -> Iterator[Iterable[bytes]]:
        """Yield the keys of the rows in splits of `splits_changed`, batch by batch."""
        names = list(self._store.schema.primary_keys)
        for batch in ChangeRead(self._store, names, keep_deletes=True).to_reader(splits):
            yield (key for key in self._codec.keys(batch.select(names)) if key is not None)

    def at(self, snapshot: Snapshot | None, keys: Sequence[bytes]) -> Values:
        """Return the values of the keys in a snapshot."""
        values: dict[bytes, bytes | None] = dict.fromkeys(keys)
        if snapshot is None or not keys:
            return values
        asked = self._codec.key_rows(keys, place=self._place)
        try:
            rows = PointLookup(self._store).rows_at(snapshot, asked)
        except (InterbedError, OSError) as error:
            if self._store.snapshots.exists(snapshot.id):
                raise
            raise self._expired(snapshot.id) from error
        for batch in rows.to_batches():
            records = self._codec.upserts(batch, None)
            values.update((key, value) for key, value in zip(records.keys, records.values, strict=True) if key)
        return values

    def with_current_columns(self, rows: Sequence[WrittenRow]) -> Sequence[WrittenRow]:
        """Return records with the current columns of the table, whatever schema they were written by."""
        others = {row.by.schema_id for row in rows if row.by.schema_id != self._store.schema.id}
        changed = list(rows)
        for schema_id in others:
            written = self._store.schema_of(schema_id)
            codec, mapping = RecordCodec(written), map_fields(self._store.schema.fields, written.fields)
            places = [i for i, row in enumerate(rows) if row.by.schema_id == schema_id and row.value is not None]
            values = [rows[i].value for i in places]
            records = LogRecords(keys=[None] * len(values), values=values, kinds=np.full(len(values), -1, np.int8))
            batch, _ = codec.decoded(records, place=self._place)
            again = self._codec.upserts(mapping.apply(batch), None)
            for i, value in zip(places, again.values, strict=True):
                changed[i] = rows[i]._replace(value=value)
        return changed

    def _is_in_history(self, base: Snapshot, newest: Snapshot) -> bool:
        if newest.id < base.id:
            return False
        try:
            found = newest if newest.id == base.id else self._store.snapshots.read(base.id)
        except SnapshotNotFoundError:
            return True
        return None in (found.uuid, base.uuid) or found.uuid == base.uuid

    def _rolled_back(self, snapshot_id: int) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            f"The table at {self._store.location} was rolled back to before snapshot {snapshot_id}, which the stream "
            "has reached. Start a new stream."
        )

    def _expired(self, snapshot_id: int) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            f"The stream of the log of {self._store.location} needs the rows of snapshot {snapshot_id}, which is "
            "missing. Start a new stream; to keep snapshots longer, set 'snapshot.time-retained', or poll more often "
            "('continuous.discovery-interval')."
        )


def check_eventual_stream(store: FileStore) -> None:
    """Raise NotSupportedError for a table without a log, and for options that streams of an eventual log refuse."""
    check_log_stream(store)
    if store.options.consumer_id is not None:
        raise NotSupportedError(
            "A stream of an eventual log does not support 'consumer-id'; remove it, and store the checkpoint yourself."
        )


def check_emitted(emitted: tuple[int, int], bounds: WrittenRange, partition: int, settings: LogSettings) -> None:
    """Raise SnapshotNotFoundError if the log no longer has records that were emitted before they were committed."""
    begin, end = emitted
    if begin >= end:
        return
    low, high = bounds.begins.get(partition, 0), bounds.ends.get(partition, 0)
    if begin < low or end > high:
        raise SnapshotNotFoundError(
            f"Records {begin} to {end} of partition {partition} of the {settings.place} are missing. The stream "
            "emitted them before they were committed, so that it can no longer correct them. Start a new stream."
        )


def covered_by(snapshot: Snapshot, known: Mapping[int, int]) -> dict[int, int]:
    """Return the offsets before which a snapshot decides about the log, at least those known: they never decrease."""
    offsets = LogPosition.offsets_of(snapshot.log_offsets)
    return {p: max(known.get(p, 0), offsets.get(p, 0)) for p in known.keys() | offsets.keys()}


def differences(
    keys: Iterable[bytes], before: Values, after: Values, *, emit_unchanged: bool = False
) -> LogRecords | None:
    """Return the changes of keys from one value to another, with kinds; None without changes.

    With `emit_unchanged` unchanged keys are included, because a reader may have received another value before.
    """
    values: list[bytes] = []
    kinds: list[RowKind] = []
    for key in keys:
        old, new = before[key], after[key]
        if old == new and not emit_unchanged:
            continue
        if old is None and new is None:
            # A reader may have received a row; only its key is known.
            values.append(key_only_value(key))
            kinds.append(RowKind.DELETE)
        if old is not None:
            values.append(old)
            kinds.append(RowKind.DELETE if new is None else RowKind.UPDATE_BEFORE)
        if new is not None:
            values.append(new)
            kinds.append(RowKind.INSERT if old is None else RowKind.UPDATE_AFTER)
    return as_records(values, kinds) if values else None


def as_records(values: Sequence[bytes], kinds: Sequence[RowKind]) -> LogRecords:
    """Return values with kinds as records without keys."""
    return LogRecords(keys=[None] * len(values), values=values, kinds=np.array(kinds, np.int8))


def key_only_value(key: bytes) -> bytes:
    """Return the value of a row with its key columns only; the key is the JSON of such a row."""
    return b'{"before":null,"after":%b,"op":"c"}' % key
