"""What keys have in a table's snapshots and in its eventual log, and the changes from one to the other.

Rows are compared as records have them: as the bytes of their JSON, with the columns that the table has today.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from interbed.storage.base.errors import InterbedError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.base.row.kind import RowKind
from interbed.storage.log.records import LogRecords, RecordCodec
from interbed.storage.log.settings import LogSettings
from interbed.storage.log.written import WrittenRange, WrittenRow
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.stream import IncrementalScanMode
from interbed.storage.meta.schema.evolution import map_fields
from interbed.storage.meta.snapshot.progress import LogPosition
from interbed.storage.meta.snapshot.snapshot import CommitKind, Snapshot
from interbed.storage.read.change_read import ChangeRead
from interbed.storage.read.point_lookup import PointLookup
from interbed.storage.scan.incremental import SnapshotRange, plan_between
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Split
from interbed.storage.views.stream.log_stream import check_log_stream

KEYS_AT_ONCE = 10_000
"""Keys that are looked up together, and whose changes are handed out together."""

Values = Mapping[bytes, bytes | None]
"""By key the value of its record, None for a key without a row."""


class EventualRows:
    """Looks up rows of a table with an eventual log. `store` is the table as streams see it."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._place = LogSettings.of(store.options).place
        self._codec = RecordCodec(store.schema)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """A snapshot that a stream needs; raises SnapshotNotFoundError that says so."""
        try:
            return self._store.snapshots.read(snapshot_id)
        except SnapshotNotFoundError as error:
            raise self._expired(snapshot_id) from error

    def check_in_line(self, base: Snapshot | None, newest: Snapshot | None) -> None:
        """Raise SnapshotNotFoundError when the base is none of the table's snapshots any more, as far as anybody can
        tell: it was taken back to an earlier one.
        """
        if base is None or (newest is not None and self._is_in_line(base, newest)):
            return
        raise self._taken_back(base.id)

    def found_again(self, snapshot_id: int, uuid: str | None, newest: Snapshot | None) -> Snapshot | None:
        """A snapshot that a stream has come to, None for 0; raises SnapshotNotFoundError when the table, whose newest
        snapshot is given, was taken back to an earlier one meanwhile, or does not have it any more.
        """
        if not snapshot_id:
            return None
        if newest is None or newest.id < snapshot_id:
            raise self._taken_back(snapshot_id)
        found = newest if newest.id == snapshot_id else self.snapshot(snapshot_id)
        if None not in (found.uuid, uuid) and found.uuid != uuid:
            raise self._taken_back(snapshot_id)
        return found

    def splits_changed(self, base: Snapshot | None, newest: Snapshot) -> Sequence[Split]:
        """Where the keys are that the snapshots after the base may have changed."""
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
        """The keys of the rows in splits that `splits_changed` found."""
        names = list(self._store.schema.primary_keys)
        for batch in ChangeRead(self._store, names, keep_deletes=True).to_reader(splits):
            yield (key for key in self._codec.keys(batch.select(names)) if key is not None)

    def at(self, snapshot: Snapshot | None, keys: Sequence[bytes]) -> Values:
        """The values of the keys in a snapshot."""
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

    def with_columns_of_today(self, rows: Sequence[WrittenRow]) -> Sequence[WrittenRow]:
        """Records with the columns that the table has, whatever schema they were written by."""
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

    def _is_in_line(self, base: Snapshot, newest: Snapshot) -> bool:
        if newest.id < base.id:
            return False
        try:
            found = newest if newest.id == base.id else self._store.snapshots.read(base.id)
        except SnapshotNotFoundError:
            return True
        return None in (found.uuid, base.uuid) or found.uuid == base.uuid

    def _taken_back(self, snapshot_id: int) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            f"The table at {self._store.location} was taken back to before snapshot {snapshot_id}, which the stream "
            "has come to. Start the stream anew."
        )

    def _expired(self, snapshot_id: int) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            f"The stream of the log of {self._store.location} needs the rows of snapshot {snapshot_id}, which is not "
            "there. Start it anew; to keep snapshots longer, set 'snapshot.time-retained', or look for new ones more "
            "often ('continuous.discovery-interval')."
        )


def check_eventual_stream(store: FileStore) -> None:
    """Raise NotSupportedError for a table without a log, and for options that streams of an eventual one do not carry
    out.
    """
    check_log_stream(store)
    if store.options.consumer_id is not None:
        raise NotSupportedError(
            "A stream of an eventual log does not know 'consumer-id'; remove it, and keep the checkpoint yourself."
        )


def check_told(told: tuple[int, int], bounds: WrittenRange, partition: int, settings: LogSettings) -> None:
    """Raise SnapshotNotFoundError when records that were told before they were committed are gone from the log."""
    begin, end = told
    if begin >= end:
        return
    low, high = bounds.begins.get(partition, 0), bounds.ends.get(partition, 0)
    if begin < low or end > high:
        raise SnapshotNotFoundError(
            f"Records {begin} to {end} of partition {partition} of the {settings.place} are gone, which the stream has "
            "told before they were committed, so that it is not known any more what it told. Start the stream anew."
        )


def covered_by(snapshot: Snapshot, known: Mapping[int, int]) -> dict[int, int]:
    """The offsets before which a snapshot judges the log, with those that are known: they never go back."""
    offsets = LogPosition.offsets_of(snapshot.log_offsets)
    return {p: max(known.get(p, 0), offsets.get(p, 0)) for p in known.keys() | offsets.keys()}


def differences(keys: Iterable[bytes], before: Values, after: Values, *, told_again: bool = False) -> LogRecords | None:
    """What changes keys from one value to another, with kinds; None when nothing does.

    What stays is `told_again` where a reader may have been told otherwise meanwhile.
    """
    values: list[bytes] = []
    kinds: list[RowKind] = []
    for key in keys:
        old, new = before[key], after[key]
        if old == new and not told_again:
            continue
        if old is None and new is None:
            # A reader may have been told of a row; only its key is known.
            values.append(with_key_alone(key))
            kinds.append(RowKind.DELETE)
        if old is not None:
            values.append(old)
            kinds.append(RowKind.DELETE if new is None else RowKind.UPDATE_BEFORE)
        if new is not None:
            values.append(new)
            kinds.append(RowKind.INSERT if old is None else RowKind.UPDATE_AFTER)
    return as_records(values, kinds) if values else None


def as_records(values: Sequence[bytes], kinds: Sequence[RowKind]) -> LogRecords:
    """Values of records with kinds."""
    return LogRecords(keys=[None] * len(values), values=values, kinds=np.array(kinds, np.int8))


def with_key_alone(key: bytes) -> bytes:
    """The value of a row that has nothing but its key, whose text is that of a row with these columns."""
    return b'{"before":null,"after":%b,"op":"c"}' % key
