"""Upserts of a table whose primary key leaves out a partition column (documentation: primary-key table, data
distribution, cross partitions upsert; Paimon's GlobalIndexAssigner).

Such a table has no index files. A writer first reads the locations of all keys, then uses them and its own rows. The
merge engine decides about a row whose key is in another partition: `deduplicate` deletes the key there,
`partial-update` and `aggregation` write the row into the old partition, `first-row` drops it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrays import Ints, Mask
from interbed.storage.base.arrow_values import from_numpy, to_numpy
from interbed.storage.base.clock import Clock, local_millis
from interbed.storage.base.errors import SnapshotNotFoundError
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.row.kind import RowKind
from interbed.storage.lsm.write_buffer import Kinds
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.live_files import BucketRestore
from interbed.storage.scan.partition_filter import PartitionFilter
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Split
from interbed.storage.write.bucket.key_locations import NOWHERE, KeyHashes, KeyLocations, Locations
from interbed.storage.write.bucket.partition_buckets import MAX_BUCKET, DynamicBucketRules, take_space, too_many_buckets
from interbed.storage.write.bucket.route import PlacedRows, distinct_partitions

_BUCKET_BITS = 16
_BUCKET_MASK = (1 << _BUCKET_BITS) - 1


class CrossPartition:
    """Placement of rows for one writer, block by block. `restored` returns the files of the newest snapshot that the
    writer knows.

    Not for use by several threads. `close` releases memory and local disk.
    """

    def __init__(
        self,
        store: FileStore,
        commit_user: str,
        restored: Callable[[], BucketRestore],
        clock: Clock = local_millis,
    ) -> None:
        schema = store.schema
        self._store = store
        self._user = commit_user
        self._restored = restored
        self._clock = clock
        self._engine = store.options.merge_engine
        self._keys = schema.primary_keys
        self._key_types = [f.type for f in schema.fields_named(schema.primary_keys)]
        self._partitions = _Partitions(store)
        self._target = DynamicBucketRules.of(store.options).target_rows
        self._index: KeyLocations | None = None
        self._counts: list[dict[int, int]] = []
        self._as_of = 0
        self.identity: str | None = None
        """The identity of the snapshot `as_of`; None for an empty table."""
        self._is_checked = False

    def place(self, rows: pa.RecordBatch, kinds: "Kinds | None") -> PlacedRows:
        """Return the rows that are written instead of these, with their buckets.

        Raises InvalidInputError when a partition would need more buckets than possible, and the errors of reading the
        table.
        """
        index = self._up_to_date()
        found, codes = distinct_partitions(rows, self._store.schema)
        wanted = self._partitions.numbers(found)[codes]
        keys = KeyHashes.of([rows.column(name) for name in self._keys], self._key_types)
        order, starts = keys.grouped()
        groups = np.cumsum(starts) - 1
        heads = order[starts]
        distinct = keys.take(heads)
        known = index.find(distinct)
        self._record(found, distinct)
        if self._engine is MergeEngine.DEDUPLICATE:
            return self._moved(index, rows, kinds, keys, wanted, order, starts, groups, known)
        fresh = known == NOWHERE
        if fresh.any():
            arrival = np.argsort(heads[fresh], kind="stable")
            given = np.empty(len(arrival), np.int64)
            given[arrival] = self._assign(wanted[heads[fresh]][arrival])
            known[fresh] = given
            index.put(keys.take(heads[fresh]), given)
        own = np.empty(len(wanted), np.int64)
        own[order] = known[groups]
        partitions = own >> _BUCKET_BITS
        if self._engine is MergeEngine.FIRST_ROW:
            kept: Any = from_numpy(partitions == wanted)
            mask = np.asarray(kept)
            return PlacedRows(
                rows.filter(kept), None if kinds is None else kinds.filter(kept), own[mask] & _BUCKET_MASK
            )
        if not np.array_equal(partitions, wanted):
            rows = self._partitions.put_into(rows, partitions)
        return PlacedRows(rows, kinds, own & _BUCKET_MASK)

    @property
    def as_of(self) -> int | None:
        """The snapshot from which the locations of keys were read, 0 for an empty table; None until rows are placed."""
        return None if self._index is None else self._as_of

    def begin_next(self) -> None:
        """Check with the next rows whether other writers have moved keys."""
        self._is_checked = False

    def close(self) -> None:
        """Release the locations of keys."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def _record(self, partitions: Sequence[bytes], keys: KeyHashes) -> None:
        """Record the partitions and the keys of rows that were placed."""

    # -- deduplicate -----------------------------------------------------------------------------------------------

    def _moved(
        self,
        index: KeyLocations,
        rows: pa.RecordBatch,
        kinds: "Kinds | None",
        keys: KeyHashes,
        wanted: Ints,
        order: Ints,
        starts: Mask,
        groups: Ints,
        known: Locations,
    ) -> PlacedRows:
        """Return the rows in their new partitions, each moved key preceded by a row that deletes it in its old
        partition.
        """
        # All arrays are ordered by key, rows of one key by arrival; the location of a key is that of its previous row.
        part = wanted[order]
        before = np.empty(len(part), np.int64)
        before[1:] = part[:-1]
        before[starts] = np.where(known == NOWHERE, NOWHERE, known >> _BUCKET_BITS)
        moves = (before != NOWHERE) & (before != part)
        fresh = moves | (before == NOWHERE)
        location = np.empty(len(part), np.int64)
        location[starts] = known
        if fresh.any():
            # Buckets are given in the order of arrival over all keys.
            places = np.flatnonzero(fresh)
            places = places[np.argsort(order[places], kind="stable")]
            location[places] = self._assign(part[places])
        settled = np.maximum.accumulate(np.where(fresh | starts, np.arange(len(part)), 0))
        location = location[settled]
        ends = np.ones(len(starts), np.bool_)
        ends[:-1] = starts[1:]
        changed = location[ends] != known
        index.put(keys.take(order[starts][changed]), location[ends][changed])
        if not moves.any():
            buckets = np.empty(len(order), np.int64)
            buckets[order] = location & _BUCKET_MASK
            return PlacedRows(rows, kinds, buckets)
        previous = np.empty(len(part), np.int64)
        previous[1:] = location[:-1]
        previous[starts] = known
        self._release(previous[moves])
        return self._with_deletions(rows, kinds, order, moves, location, previous)

    def _with_deletions(
        self,
        rows: pa.RecordBatch,
        kinds: "Kinds | None",
        order: Ints,
        moves: Mask,
        location: Locations,
        previous: Locations,
    ) -> PlacedRows:
        count = len(order)
        is_moved, target, source = np.empty(count, np.bool_), np.empty(count, np.int64), np.empty(count, np.int64)
        is_moved[order], target[order], source[order] = moves, location, previous
        taken = np.repeat(np.arange(count), 1 + is_moved)
        # The first of the two copies of a moved row is the deletion.
        deletes = np.zeros(len(taken), np.bool_)
        deletes[:-1] = taken[1:] == taken[:-1]
        location = np.where(deletes, source[taken], target[taken])
        indices: Any = from_numpy(taken)
        placed = self._partitions.put_into(rows.take(indices), location >> _BUCKET_BITS)
        old = np.zeros(count, np.int8) if kinds is None else to_numpy(kinds)
        new: pa.Array[Any] = from_numpy(np.where(deletes, np.int8(RowKind.DELETE), old[taken]).astype(np.int8))
        return PlacedRows(placed, new, location & _BUCKET_MASK)

    # -- buckets ---------------------------------------------------------------------------------------------------

    def _assign(self, partitions: Ints) -> Locations:
        """Return a location for each of as many new keys, in partitions that are given by number."""
        given = np.empty(len(partitions), np.int64)
        # A loop over the block's partitions, not over keys.
        for partition in np.unique(partitions).tolist():
            rows = np.flatnonzero(partitions == partition)
            counts = self._count_of(partition)
            start = 0
            for bucket, keys in take_space(counts, sorted(counts), range(MAX_BUCKET + 1), len(rows), self._target):
                given[rows[start : start + keys]] = (partition << _BUCKET_BITS) | bucket
                start += keys
            if start < len(rows):
                raise too_many_buckets(self._target)
        return given

    def _release(self, locations: Locations) -> None:
        for location, count in zip(*np.unique(locations, return_counts=True), strict=True):
            counts = self._count_of(int(location) >> _BUCKET_BITS)
            counts[int(location) & _BUCKET_MASK] -= int(count)

    def _count_of(self, partition: int) -> dict[int, int]:
        while len(self._counts) <= partition:
            self._counts.append({})
        return self._counts[partition]

    # -- existing keys ---------------------------------------------------------------------------------------------

    def _up_to_date(self) -> KeyLocations:
        if self._index is not None and not self._is_checked and self._has_other_commits():
            self._index.close()
            self._index = None
        self._is_checked = True
        if self._index is None:
            self._index = self._read_table()
        return self._index

    def _has_other_commits(self) -> bool:
        snapshots = self._store.snapshots
        newest = self._restored().snapshot_id or 0
        if newest < self._as_of or self.identity != self._identity_of(self._as_of, self.identity):
            # A rollback has withdrawn the snapshot.
            return True
        try:
            found = [snapshots.snapshot(i) for i in range(self._as_of + 1, newest + 1)]
        except SnapshotNotFoundError:
            return True
        # The next check begins here, so that older snapshots may expire.
        self._as_of = newest
        if found:
            self.identity = found[-1].identity
        return any(s.commit_user != self._user and s.commit_kind is not CommitKind.COMPACT for s in found)

    def _identity_of(self, snapshot_id: int, expired: str | None) -> str | None:
        """Return the identity of a snapshot, `expired` for one that has expired, None for an empty table."""
        try:
            return self._store.snapshots.snapshot(snapshot_id).identity if snapshot_id else None
        except SnapshotNotFoundError:
            return expired

    def _read_table(self) -> KeyLocations:
        store = self._store
        index = KeyLocations(store.options.lookup_cache_max_memory_size)
        self._counts = []
        self._as_of = self._restored().snapshot_id or 0
        self.identity = self._identity_of(self._as_of, None)
        if not self._as_of:
            return index
        # Level 0 holds keys, too, also if readers skip it.
        scan = TableScan(store, snapshot_id=self._as_of, level_filter=lambda level: True)
        reader = TableRead(store, self._keys)
        for split in scan.plan().splits:
            if self._is_too_old(split):
                continue
            (partition,) = self._partitions.numbers([split.partition]).tolist()
            counts = self._count_of(partition)
            location = (partition << _BUCKET_BITS) | split.bucket
            for batch in reader.to_batches(split):
                index.put(KeyHashes.of(batch.columns, self._key_types), np.full(batch.num_rows, location, np.int64))
                counts[split.bucket] = counts.get(split.bucket, 0) + batch.num_rows
        return index

    def _is_too_old(self, split: Split) -> bool:
        ttl = self._store.options.cross_partition_index_ttl_millis
        if ttl is None:
            return False
        # Files record local time without a zone, as this clock does.
        now = self._clock()
        return all(now > f.creation_time_millis + ttl for f in split.files)


class ReplacingCrossPartition(CrossPartition):
    """Placement of the rows of an overwrite of some partitions, which also finds the old rows whose keys are not
    overwritten.
    """

    def __init__(self, store: FileStore, commit_user: str, restored: Callable[[], BucketRestore]) -> None:
        super().__init__(store, commit_user, restored)
        self._incoming_keys = KeyLocations(store.options.lookup_cache_max_memory_size)
        self.partitions_written: set[bytes] = set()
        """The partitions that rows were given for."""

    def rows_left(self, partitions: PartitionFilter) -> Iterator[pa.RecordBatch]:
        """Yield the old rows of the partitions whose keys were not written again."""
        self._up_to_date()
        if not self._as_of:
            return
        scan = TableScan(self._store, snapshot_id=self._as_of, level_filter=lambda level: True)
        reader = TableRead(self._store)
        for split in scan.plan().splits:
            if not partitions.select([split.partition]):
                continue
            for batch in reader.to_batches(split):
                keys = KeyHashes.of([batch.column(name) for name in self._keys], self._key_types)
                yield batch.filter(from_numpy(self._incoming_keys.find(keys) == NOWHERE))

    def close(self) -> None:
        self._incoming_keys.close()
        super().close()

    def _record(self, partitions: Sequence[bytes], keys: KeyHashes) -> None:
        self.partitions_written.update(partitions)
        self._incoming_keys.put(keys, np.zeros(len(keys), np.int64))


class _Partitions:
    """Numbers of partitions, in the order in which they occur."""

    def __init__(self, store: FileStore) -> None:
        self._schema = store.schema
        self._numbers: dict[bytes, int] = {}
        self._columns: Sequence[pa.Array[Any]] = ()
        self._decoded = 0

    def numbers(self, partitions: Sequence[bytes]) -> Ints:
        """Return the numbers of the partitions, which are serialised BinaryRows."""
        known = self._numbers
        return np.array([known.setdefault(p, len(known)) for p in partitions], np.int64)

    def put_into(self, rows: pa.RecordBatch, numbers: Ints) -> pa.RecordBatch:
        """Return the rows with the partition columns of other partitions."""
        if self._decoded < len(self._numbers):
            self._columns = decode_rows(list(self._numbers), self._schema.partition_types)
            self._decoded = len(self._numbers)
        columns = list(rows.columns)
        indices: Any = from_numpy(numbers)
        for name, values in zip(self._schema.partition_keys, self._columns, strict=True):
            place = rows.schema.get_field_index(name)
            columns[place] = values.take(indices).cast(rows.schema.field(place).type)
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
