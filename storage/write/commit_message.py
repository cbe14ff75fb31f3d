"""Commit messages: the files that a writer made and replaced in one bucket; and results and plans of compactions.

Messages travel from Spark's executors to its driver as bytes: a JSON document with base64 for binary values.

A writer that moves existing rows to other buckets reports them as new rows. `as_compaction` turns its messages into
those of a compaction, because the rows were in the table before: they belong in a COMPACT snapshot, or replace others
in an OVERWRITE. Source: Paimon's BucketFiles.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidInputError, plain_errors
from interbed.storage.lsm.compact.rewriter import NO_COMPACTION, CompactIncrement
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta, data_file_from_json, data_file_to_json
from interbed.storage.meta.manifest.index_manifest import IndexFileMeta, index_file_from_json, index_file_to_json

Progress = Callable[[int, int], None]
"""Callback after each bucket, with the number of finished buckets and their total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataIncrement:
    """The changes of a bucket by new records.

    `new_files` were written from them, `changelog_files` hold what they changed. `deleted_files` held rows that were
    deleted or rewritten (row-level deletes of append tables). `deleted_index_files` are those that the writer
    found and replaced by `new_index_files`.
    """

    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()

    def __bool__(self) -> bool:
        files = self.new_files or self.deleted_files or self.changelog_files
        return bool(files or self.new_index_files or self.deleted_index_files)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBasis:
    """The state on which a writer's choice of buckets is based; None means that it depends on nothing.

    A commit refuses messages whose basis another writer has changed. `hash_indexes` names the hash index files of the
    whole partition (dynamic buckets). `keys_as_of` is the snapshot in which the writer looked for keys in other
    partitions; `keys_identity` is its identity, because another commit may get its id after a rollback. `buckets_as_of`
    is the snapshot whose number of buckets it used (fixed buckets). 0 is the table before its first snapshot.
    """

    hash_indexes: tuple[str, ...] | None = None
    keys_as_of: int | None = None
    keys_identity: str | None = None
    buckets_as_of: int | None = None


NO_BASIS = WriteBasis()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """The changes of one bucket: `data` by new records, `compaction` by rewriting existing files.

    `total_buckets` is the number of buckets that the new files are recorded with. `replaces` marks a message of an
    overwrite whose own rows delete the rows that are overwritten.
    """

    bucket_id: BucketId
    total_buckets: int
    data: DataIncrement = DataIncrement()
    compaction: CompactIncrement = NO_COMPACTION
    basis: WriteBasis = NO_BASIS
    replaces: bool = False

    @staticmethod
    def deletion(bucket_id: BucketId, total_buckets: int, files: tuple[DataFileMeta, ...]) -> "CommitMessage":
        """Return the message of files that are deleted with their rows."""
        return CommitMessage(bucket_id=bucket_id, total_buckets=total_buckets, data=DataIncrement(deleted_files=files))

    @staticmethod
    def of_compaction(bucket_id: BucketId, total_buckets: int, compaction: CompactIncrement) -> "CommitMessage":
        """Return the message of a compaction without new records."""
        return CommitMessage(bucket_id=bucket_id, total_buckets=total_buckets, compaction=compaction)

    @property
    def partition(self) -> bytes:
        """The bucket's partition, a serialised BinaryRow."""
        return self.bucket_id.partition

    @property
    def bucket(self) -> int:
        """The bucket's number in its partition."""
        return self.bucket_id.bucket

    @property
    def is_empty(self) -> bool:
        """Whether the message changes nothing."""
        return not (self.data or self.compaction)

    def changelog_only(self) -> "CommitMessage":
        """Return the message with only the changelog of its new records."""
        return CommitMessage(
            bucket_id=self.bucket_id,
            total_buckets=self.total_buckets,
            data=DataIncrement(changelog_files=self.data.changelog_files),
        )

    def to_bytes(self) -> bytes:
        """Return the message as bytes, for another process."""
        basis = self.basis
        return json.dumps(
            {
                "partition": b64encode(self.partition).decode(),
                "bucket": self.bucket,
                "totalBuckets": self.total_buckets,
                "data": _to_json(self.data, _DATA),
                "compaction": _to_json(self.compaction, _COMPACTION),
                "lookedUp": None if self.compaction.looked_up is None else sorted(self.compaction.looked_up),
                "basis": [basis.hash_indexes, basis.keys_as_of, basis.buckets_as_of, basis.keys_identity],
                "replaces": self.replaces,
            },
            separators=(",", ":"),
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "CommitMessage":
        """Return the message of bytes made by to_bytes; raise InvalidInputError for other bytes."""
        try:
            value = json.loads(content)
            hash_indexes, keys_as_of, buckets_as_of, keys_identity = value["basis"]
            looked_up = value["lookedUp"]
            return CommitMessage(
                bucket_id=BucketId(b64decode(value["partition"]), value["bucket"]),
                total_buckets=value["totalBuckets"],
                data=DataIncrement(**_from_json(value["data"], _DATA)),
                compaction=CompactIncrement(
                    **_from_json(value["compaction"], _COMPACTION),
                    looked_up=None if looked_up is None else frozenset(looked_up),
                ),
                basis=WriteBasis(
                    hash_indexes=None if hash_indexes is None else tuple(hash_indexes),
                    keys_as_of=keys_as_of,
                    keys_identity=keys_identity,
                    buckets_as_of=buckets_as_of,
                ),
                replaces=value["replaces"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a commit message: {error}") from error


_DATA = ("new_files", "deleted_files", "changelog_files")
_COMPACTION = ("before", "after", "changelog")

_INDEXES = ("new_index_files", "deleted_index_files")
"""The members of both that are index files; the others are data files."""


def _to_json(part: DataIncrement | CompactIncrement, data_files: tuple[str, ...]) -> dict[str, Any]:
    return {
        **{name: [data_file_to_json(f) for f in getattr(part, name)] for name in data_files},
        **{name: [index_file_to_json(f) for f in getattr(part, name)] for name in _INDEXES},
    }


def _from_json(value: Mapping[str, Any], data_files: tuple[str, ...]) -> dict[str, Any]:
    return {
        **{name: tuple(data_file_from_json(f) for f in value[name]) for name in data_files},
        **{name: tuple(index_file_from_json(f) for f in value[name]) for name in _INDEXES},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocatedRows:
    """A message of a compaction, and files of its bucket that it no longer names."""

    message: CommitMessage
    needless: tuple[DataFileMeta, ...]

    @staticmethod
    def of(message: CommitMessage) -> "RelocatedRows":
        """Return the message with all its files as those of a compaction."""
        data, compaction = message.data, message.compaction
        after = {f.file_name for f in compaction.after}
        written = {f.file_name: f for f in data.new_files}
        before = tuple(f for f in compaction.before if f.file_name not in written)
        compacted = {f.file_name for f in compaction.before}
        everything = CompactIncrement(
            before=before,
            after=(*(f for n, f in written.items() if n not in compacted), *compaction.after),
            changelog=(*data.changelog_files, *compaction.changelog),
            new_index_files=(*data.new_index_files, *compaction.new_index_files),
            deleted_index_files=(*data.deleted_index_files, *compaction.deleted_index_files),
        )
        return RelocatedRows(
            message=replace(message, data=DataIncrement(deleted_files=data.deleted_files), compaction=everything),
            # A file that only moved to another level keeps its name and stays in the table.
            needless=tuple(f for n, f in written.items() if n in compacted and n not in after),
        )


def as_compaction(store: FileStore, messages: Iterable[CommitMessage]) -> list[CommitMessage]:
    """Return all messages as those of a compaction; delete files that were compacted before a commit."""
    moved = [RelocatedRows.of(message) for message in messages]
    for rows in moved:
        directory = store.paths.bucket_directory(rows.message.bucket_id)
        store.file_io.delete_quietly([path for f in rows.needless for path in f.paths_in(directory)])
    return [rows.message for rows in moved]


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """Result of a compaction. `snapshot_id` is None when there was nothing to do. Sizes in bytes."""

    snapshot_id: int | None
    buckets: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows_before: int
    rows_after: int

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return "nothing to compact"
        return (
            f"{self.buckets} bucket(s): {self.files_before} files of {self.rows_before:,} records became "
            f"{self.files_after} of {self.rows_after:,} ({self.bytes_before:,} -> {self.bytes_after:,} bytes), "
            f"snapshot {self.snapshot_id}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return asdict(self)


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCompaction:
    """Plan of a compaction of one bucket, and its reason. Sizes in bytes; files that move are not rewritten."""

    partition: Mapping[str, str]
    bucket: int
    reason: str
    detail: str
    output_level: int
    files_rewritten: int
    bytes_rewritten: int
    rows_rewritten: int
    files_moved: int
    runs_before: int
    runs_after: int

    def __str__(self) -> str:
        place = "/".join(f"{k}={v}" for k, v in self.partition.items())
        return (
            f"{place + ' ' if place else ''}bucket {self.bucket}: {self.reason} ({self.detail}): rewrite "
            f"{self.files_rewritten} file(s), {self.rows_rewritten:,} records, {self.bytes_rewritten:,} bytes, move "
            f"{self.files_moved}, to level {self.output_level}; {self.runs_before} -> {self.runs_after} sorted runs"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        return asdict(self)


def result_of(snapshot_id: int | None, messages: Sequence[CommitMessage]) -> CompactionResult:
    """Return the result of a compaction with these messages."""
    before = [f for m in messages for f in m.compaction.before]
    after = [f for m in messages for f in m.compaction.after]
    return CompactionResult(
        snapshot_id=snapshot_id,
        buckets=len(messages),
        files_before=len(before),
        files_after=len(after),
        bytes_before=sum(f.file_size for f in before),
        bytes_after=sum(f.file_size for f in after),
        rows_before=sum(f.row_count for f in before),
        rows_after=sum(f.row_count for f in after),
    )
