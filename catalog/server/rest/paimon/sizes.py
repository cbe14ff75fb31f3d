"""The sizes of tables: records, files and bytes of the newest snapshot, which its clients ask for with each read.

The sizes of a snapshot are those of the one before it with the files of its delta. Only the first snapshot of a table
that a process sees needs all of its manifests.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from interbed.catalog.client.partition import epoch_millis
from interbed.storage.base.errors import SnapshotNotFoundError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import FileKind
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.live_files import partition_sums
from interbed.storage.scan.manifest_reader import ManifestReader

SNAPSHOTS_MAX = 1000
"""Snapshots whose sizes are cached."""

_Key = tuple[str, str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """The records, bytes and files of a snapshot. `created_millis` is the time of the newest file that was added."""

    records: int
    bytes: int
    files: int
    created_millis: int


class TableSizes:
    """The sizes of the snapshots of tables. Safe for many threads."""

    def __init__(self, snapshots_max: int = SNAPSHOTS_MAX) -> None:
        self._snapshots_max = snapshots_max
        self._guard = threading.Lock()
        self._known: OrderedDict[_Key, TableSize] = OrderedDict()

    def of(self, store: FileStore, snapshot: Snapshot) -> TableSize:
        """Return the size of a snapshot. Raises CorruptFileError, StorageAccessError."""
        known = self._find(store, snapshot)
        if known is None:
            base = self._base(store, snapshot)
            known = _whole(store, snapshot) if base is None else _after(base, store, snapshot)
            with self._guard:
                self._known[_key(store, snapshot)] = known
                while len(self._known) > self._snapshots_max:
                    self._known.popitem(last=False)
        return known

    def _find(self, store: FileStore, snapshot: Snapshot) -> TableSize | None:
        key = _key(store, snapshot)
        with self._guard:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def _base(self, store: FileStore, snapshot: Snapshot) -> TableSize | None:
        try:
            return self._find(store, store.snapshots.stored(snapshot.id - 1))
        except SnapshotNotFoundError:
            return None


def _key(store: FileStore, snapshot: Snapshot) -> _Key:
    return store.location, store.paths.branch, snapshot.id, snapshot.delta_manifest_list


def _whole(store: FileStore, snapshot: Snapshot) -> TableSize:
    sums = partition_sums(store, snapshot).values()
    return TableSize(
        records=sum(each.records for each in sums),
        bytes=sum(each.bytes for each in sums),
        files=sum(each.files for each in sums),
        created_millis=max((epoch_millis(each.created_millis) for each in sums), default=0),
    )


def _after(base: TableSize, store: FileStore, snapshot: Snapshot) -> TableSize:
    reader = ManifestReader(store.file_io, store.paths)
    records, size, files, newest = base.records, base.bytes, base.files, base.created_millis
    for entry in reader.entries(reader.delta(snapshot)):
        sign = 1 if entry.kind is FileKind.ADD else -1
        records += sign * entry.file.row_count
        size += sign * entry.file.file_size
        files += sign
        if sign == 1:
            newest = max(newest, epoch_millis(entry.file.creation_time_millis))
    return TableSize(records=records, bytes=size, files=files, created_millis=newest)
