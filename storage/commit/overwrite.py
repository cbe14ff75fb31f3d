"""What an overwrite changes: it deletes the files of the partitions that it replaces, and adds the new ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.commit.changes import MessageChanges
from interbed.storage.commit.pending_snapshot import BaseFiles
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.meta.manifest.entry import FileKind, ManifestEntry
from interbed.storage.meta.manifest.index_manifest import IndexManifestEntry
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.partition_filter import AllPartitions, PartitionFilter


class OverwriteChanges:
    """The changes of one overwrite against whichever snapshot is the newest when it is tried.

    With `keeps_postponed` rows that wait for their bucket are left alone.
    """

    def __init__(self, base: BaseFiles, new_files: Sequence[ManifestEntry], *, keeps_postponed: bool = False) -> None:
        self._base = base
        self._new_files = tuple(new_files)
        self._keeps_postponed = keeps_postponed

    def against(self, latest: Snapshot | None) -> tuple[ManifestEntry, ...]:
        """Deletions of all live files of the partitions, then the additions."""
        gone = self._base.at(latest)
        if self._keeps_postponed:
            gone = [e for e in gone if e.bucket != POSTPONE_BUCKET]
        return replaced_by(gone, self._new_files)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneStep:
    """An overwrite and the compaction of its new files as one change; `needless` files came and went within it."""

    files: tuple[ManifestEntry, ...]
    indexes: tuple[IndexManifestEntry, ...]
    changelog: tuple[ManifestEntry, ...]
    needless_files: tuple[ManifestEntry, ...]
    needless_indexes: tuple[IndexManifestEntry, ...]


def in_one_step(changes: MessageChanges) -> OneStep | None:
    """New files and their compaction taken together; None when the compaction takes other files away, too. Pure."""
    files = [*changes.append.files, *changes.compact.files]
    indexes = [*changes.append.indexes, *changes.compact.indexes]
    gone = {e.identifier for e in files if e.kind is FileKind.DELETE}
    gone_indexes = {(e.partition, e.bucket, e.file.file_name) for e in indexes if e.kind is FileKind.DELETE}
    added = [e for e in files if e.kind is FileKind.ADD]
    added_indexes = [e for e in indexes if e.kind is FileKind.ADD]
    if gone - {e.identifier for e in added}:
        return None
    stay = tuple(e for e in added if e.identifier not in gone)
    names = {e.file.file_name for e in stay}
    stay_indexes = tuple(e for e in added_indexes if (e.partition, e.bucket, e.file.file_name) not in gone_indexes)
    return OneStep(
        files=stay,
        indexes=stay_indexes,
        changelog=changes.compact.changelog,
        # A file that only moved to another level stays under its name.
        needless_files=tuple(e for e in added if e.file.file_name not in names),
        needless_indexes=tuple(e for e in added_indexes if e not in stay_indexes),
    )


def replaced_by(base: Sequence[ManifestEntry], new_files: Sequence[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """Deletions of the base files, then the additions. Pure."""
    return (*(replace(e, kind=FileKind.DELETE) for e in base), *new_files)


def check_keys_once(store: TableStore, reader: ManifestReader, target: PartitionFilter) -> None:
    """Refuse to overwrite a part of a table whose keys may be in any partition: they would be in two then.

    Raises NotSupportedError when partitions with files stay.
    """
    if bucket_mode(store.schema, store.options) is not BucketMode.CROSS_PARTITION:
        return
    latest = store.snapshots.latest()
    if latest is None:
        return
    live = {e.partition for e in BaseFiles(reader, store.snapshots, AllPartitions()).at(latest)}
    if live - target.select(live):
        raise NotSupportedError(
            f"The primary key of {store.location} leaves out a partition column, so that keys of the new rows may be "
            "in partitions that stay. Overwrite the whole table (partition={}), or truncate the partition and upsert "
            "the rows."
        )
