"""What one writer of one bucket hands to the commit: the files that it made and those that it replaced.

Messages travel from Spark's executors to its driver as bytes: a JSON document with base64 for binary values.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.meta.manifest.data_file import DataFileMeta, data_file_from_json, data_file_to_json
from interbed.storage.meta.manifest.index_file import IndexFileMeta, index_file_from_json, index_file_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """The changes of one bucket. `partition` is a serialised BinaryRow.

    `new_files` were written from new records; `deleted_files` held rows that are gone or were written anew (rewriting
    deletes of append tables); `compact_before` were replaced by `compact_after`, which hold the same rows.
    `changelog_files` tell what the new records changed, `compact_changelog` what the compaction found to have changed.
    Index files go and come with either part; `deleted_index_files` are those that the writer found and replaced.
    `hash_indexes` names the hash index files of the whole partition that the choice of dynamic buckets rests on,
    `keys_as_of` the snapshot in which the writer looked for keys in other partitions (0 for none); None where it did
    not. A commit refuses messages whose ground another writer has changed. `written_at` is the snapshot whose number of
    buckets the writer went by. `replaces` says of an overwrite's message that it deletes what is overwritten by itself.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    compact_new_index_files: tuple[IndexFileMeta, ...] = ()
    compact_deleted_index_files: tuple[IndexFileMeta, ...] = ()
    hash_indexes: tuple[str, ...] | None = None
    keys_as_of: int | None = None
    written_at: int | None = None
    replaces: bool = False

    @property
    def bucket_id(self) -> BucketId:
        """The bucket that it belongs to."""
        return BucketId(self.partition, self.bucket)

    @property
    def is_empty(self) -> bool:
        """Whether the message changes nothing."""
        return not any(getattr(self, name) for name in (*_DATA_FILES, *_INDEX_FILES))

    def changelog_only(self) -> "CommitMessage":
        """The message with nothing but the changelog of its new records."""
        return CommitMessage(
            partition=self.partition,
            bucket=self.bucket,
            total_buckets=self.total_buckets,
            changelog_files=self.changelog_files,
        )

    def to_bytes(self) -> bytes:
        """The message as bytes, for another process."""
        return json.dumps(
            {
                "partition": b64encode(self.partition).decode(),
                "bucket": self.bucket,
                "totalBuckets": self.total_buckets,
                "hashIndexes": self.hash_indexes,
                "keysAsOf": self.keys_as_of,
                "writtenAt": self.written_at,
                "replaces": self.replaces,
                **{member: [data_file_to_json(f) for f in getattr(self, n)] for n, member in _DATA_FILES.items()},
                **{member: [index_file_to_json(f) for f in getattr(self, n)] for n, member in _INDEX_FILES.items()},
            },
            separators=(",", ":"),
        ).encode()

    @staticmethod
    def from_bytes(content: bytes) -> "CommitMessage":
        """The message of bytes made by to_bytes; raises InvalidInputError for anything else."""
        try:
            value = json.loads(content)
            files: dict[str, Any] = {
                **{n: tuple(data_file_from_json(f) for f in value[member]) for n, member in _DATA_FILES.items()},
                **{n: tuple(index_file_from_json(f) for f in value[member]) for n, member in _INDEX_FILES.items()},
            }
            return CommitMessage(
                partition=b64decode(value["partition"]),
                bucket=value["bucket"],
                total_buckets=value["totalBuckets"],
                hash_indexes=None if value["hashIndexes"] is None else tuple(value["hashIndexes"]),
                keys_as_of=value["keysAsOf"],
                written_at=value["writtenAt"],
                replaces=value["replaces"],
                **files,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"Not a commit message: {error}") from error


_DATA_FILES = {
    "new_files": "newFiles",
    "deleted_files": "deletedFiles",
    "compact_before": "compactBefore",
    "compact_after": "compactAfter",
    "changelog_files": "changelogFiles",
    "compact_changelog": "compactChangelog",
}
_INDEX_FILES = {
    "new_index_files": "newIndexFiles",
    "deleted_index_files": "deletedIndexFiles",
    "compact_new_index_files": "compactNewIndexFiles",
    "compact_deleted_index_files": "compactDeletedIndexFiles",
}
