"""The index manifest of the next snapshot: what the previous one lists, without what goes, with what comes
(specification page `spec/manifest`, index manifest).

Records are handed on as they are, fields that this version does not know included. A bucket has one index file of each
type, so a new one takes the place of its predecessor; in tables without buckets the deletion vectors of a partition may
be spread over several files, which come and go by name.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from interbed.storage.base.avro.records import RecordFile
from interbed.storage.base.columnar.records import ColumnFile
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.commit.manifest_writer import ManifestWriter
from interbed.storage.meta.manifest.entry import FileKind
from interbed.storage.meta.manifest.index_file import DELETION_VECTORS, HASH_INDEX
from interbed.storage.meta.manifest.index_manifest import LAYOUT, IndexManifestEntry, index_entry, index_record
from interbed.storage.meta.manifest.layout import read_file
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.scan.partition_filter import AllPartitions, PartitionFilter

_Record = dict[str, Any]


class IndexFiles:
    """The index manifest of the snapshots of one commit; a new one is written at most once for each predecessor.

    `overwritten` are partitions whose index files all go; `changes` come and go by themselves. `bucketed` says whether
    rows have a bucket each. `compacted` names the data files whose rows were written anew, but for those that were
    deleted by then.
    """

    def __init__(
        self,
        reader: ManifestReader,
        writer: ManifestWriter,
        overwritten: PartitionFilter | None,
        changes: Sequence[IndexManifestEntry] = (),
        *,
        bucketed: bool = True,
        compacted: Collection[str] = (),
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._overwritten = overwritten
        self._changes = changes
        self._bucketed = bucketed
        self._compacted = compacted
        self._known: dict[str | None, str | None] = {}

    def after(self, latest: Snapshot | None) -> str | None:
        """The name of the index manifest to refer to, None when there are no index files.

        Raises CommitConflictError when an index file that the changes replace is not the table's any more.
        """
        previous = None if latest is None else latest.index_manifest
        if isinstance(self._overwritten, AllPartitions):
            previous = None
        unchanged = self._overwritten is None and not self._compacted
        if not self._changes and (previous is None or unchanged):
            return previous
        if previous not in self._known:
            for superseded in self._known.values():
                # An earlier try's manifest belongs to a snapshot that another writer was faster than.
                if superseded is not None:
                    self._writer.discard([superseded])
            self._known = {previous: self._changed(previous)}
        return self._known[previous]

    def _changed(self, name: str | None) -> str | None:
        file = self._file(name)
        kept = records = file.records
        if self._overwritten is not None:
            gone = self._overwritten.select({r["_PARTITION"] for r in records})
            kept = [r for r in records if r["_PARTITION"] not in gone]
        kept = _combined(kept, self._changes, bucketed=self._bucketed)
        _check_no_vectors(kept, frozenset(self._compacted))
        if name is not None and kept == records:
            return name
        if not kept:
            return None
        return self._writer.put_index_manifest(replace(file, records=kept).to_bytes())

    def _file(self, name: str | None) -> RecordFile | ColumnFile:
        """An index manifest, with the schema and the codec by which the next one is written."""
        new = LAYOUT.new_file(self._writer.codec, self._writer.file_format)
        if name is None:
            return new
        content = self._reader.content(name)
        file = read_file(content, self._writer.codec, source=self._reader.path(name))
        if file.file_format != new.file_format:
            return replace(new, records=file.records)
        # New entries need all fields of today; what another version added beside them is kept where it is the wider.
        return file if not self._changes or LAYOUT.is_wider(file) else replace(new, records=file.records)


def _combined(records: list[_Record], changes: Sequence[IndexManifestEntry], *, bucketed: bool) -> list[_Record]:
    removed = [e for e in changes if e.kind is FileKind.DELETE]
    added = [e for e in changes if e.kind is FileKind.ADD]
    known = {r["_FILE_NAME"] for r in records} if changes else set()
    for entry in removed:
        if entry.file.file_name not in known:
            raise CommitConflictError(
                f"The index file {entry.file.file_name} of bucket {entry.bucket} is not the table's any more: another "
                "writer replaced it. Read the table again and redo the work."
            )
    names = {e.file.file_name for e in removed}
    places = {_place(e) for e in added if _one_a_bucket(e.file.index_type, bucketed)}
    _check_vectors_known(records, names, places)
    kept = [
        r
        for r in records
        if not changes
        or (r["_FILE_NAME"] not in names and (r["_PARTITION"], r["_BUCKET"], r["_INDEX_TYPE"]) not in places)
    ]
    if not bucketed:
        _check_vectors_once(kept, added)
    return [*kept, *(index_record(e) for e in added)]


def _check_vectors_known(
    records: Iterable[_Record], removed: Collection[str], places: Collection[tuple[bytes, int, str]]
) -> None:
    """Raise CommitConflictError when vectors would take the place of others that they do not follow from."""
    vectors = (r for r in records if r["_INDEX_TYPE"] == DELETION_VECTORS)
    for record in vectors:
        place = (record["_PARTITION"], record["_BUCKET"], DELETION_VECTORS)
        if place in places and record["_FILE_NAME"] not in removed:
            raise CommitConflictError(
                f"Another writer marked rows of bucket {record['_BUCKET']} as deleted at the same time. Read the table "
                "again and redo the work."
            )


def _check_vectors_once(kept: Iterable[_Record], added: Iterable[IndexManifestEntry]) -> None:
    """Raise CommitConflictError when a data file would have two deletion vectors: one of them would be lost."""
    owners = {v.data_file_name: e.file.file_name for e in added for v in e.file.deletion_vectors or ()}
    for record in kept:
        if record["_INDEX_TYPE"] != DELETION_VECTORS or not owners:
            continue
        for vector in index_entry(record, "the index manifest").file.deletion_vectors or ():
            if vector.data_file_name in owners:
                raise CommitConflictError(
                    f"Another writer deleted rows of {vector.data_file_name} at the same time. Read the table again "
                    "and redo the work."
                )


def _check_no_vectors(kept: Iterable[_Record], compacted: Collection[str]) -> None:
    """Raise CommitConflictError when a compacted file has a vector still: its rows would come back."""
    for record in kept:
        if record["_INDEX_TYPE"] != DELETION_VECTORS or not compacted:
            continue
        for vector in index_entry(record, "the index manifest").file.deletion_vectors or ():
            if vector.data_file_name in compacted:
                raise CommitConflictError(
                    f"Another writer deleted rows of {vector.data_file_name} while it was compacted. Compact again."
                )


def _one_a_bucket(index_type: str, bucketed: bool) -> bool:
    return index_type == HASH_INDEX or (index_type == DELETION_VECTORS and bucketed)


def _place(entry: IndexManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.index_type
