"""What data files add up to: by partition, by bucket."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from interbed.storage.meta.manifest.entry import ManifestEntry, merge_entries
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.manifest_reader import ManifestReader

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class FileSum:
    """A sum over files. `created_millis` is the newest one's wall-clock time, `buckets` how many its partition has."""

    records: int = 0
    bytes: int = 0
    files: int = 0
    created_millis: int = 0
    buckets: int = 0


def sum_files(entries: Iterable[ManifestEntry], key: Callable[[ManifestEntry], K]) -> dict[K, FileSum]:
    """The sums over the files of each key. One step for each file: entries are objects, decoded so by their reader."""
    sums: dict[K, FileSum] = {}
    for entry in entries:
        found = sums.setdefault(key(entry), FileSum())
        found.records += entry.file.row_count
        found.bytes += entry.file.file_size
        found.files += 1
        found.created_millis = max(found.created_millis, entry.file.creation_time_millis)
        found.buckets = entry.total_buckets
    return sums


def partition_sums(store: TableStore, snapshot: Snapshot) -> dict[bytes, FileSum]:
    """What the files of a snapshot add up to, by partition; without partition columns all are of one."""
    reader = ManifestReader(store.file_io, store.paths)
    return sum_files(merge_entries(reader.entries(reader.data(snapshot))), lambda entry: entry.partition)
