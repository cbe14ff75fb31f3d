"""Messages of a writer that only takes existing rows to other buckets, made into messages of a compaction.

Such a writer believes its rows to be new. What its files hold was in the table before, so that they belong in a COMPACT
snapshot (or in the place of others, in an OVERWRITE); files that were compacted before anybody saw them are not needed.
Source: Paimon's BucketFiles.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from interbed.storage.meta.manifest.data_file import DataFileMeta
from interbed.storage.meta.store import TableStore
from interbed.storage.write.commit_message import CommitMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRows:
    """A message of compaction, and files of its bucket that it does not name any more."""

    message: CommitMessage
    needless: tuple[DataFileMeta, ...]

    @staticmethod
    def of(message: CommitMessage) -> "MovedRows":
        """The message with all its files as a compaction's."""
        after = {f.file_name for f in message.compact_after}
        written = {f.file_name: f for f in message.new_files}
        before = tuple(f for f in message.compact_before if f.file_name not in written)
        compacted = {f.file_name for f in message.compact_before}
        return MovedRows(
            message=replace(
                message,
                new_files=(),
                changelog_files=(),
                new_index_files=(),
                deleted_index_files=(),
                compact_before=before,
                compact_after=(*(f for n, f in written.items() if n not in compacted), *message.compact_after),
                compact_changelog=(*message.changelog_files, *message.compact_changelog),
                compact_new_index_files=(*message.new_index_files, *message.compact_new_index_files),
                compact_deleted_index_files=(*message.deleted_index_files, *message.compact_deleted_index_files),
            ),
            # A file that merely went to another level is the table's under the same name.
            needless=tuple(f for n, f in written.items() if n in compacted and n not in after),
        )


def as_compaction(store: TableStore, messages: Iterable[CommitMessage]) -> list[CommitMessage]:
    """All messages as those of a compaction; files that nobody needs are deleted."""
    moved = [MovedRows.of(message) for message in messages]
    for rows in moved:
        directory = store.paths.bucket_directory(rows.message.bucket_id)
        store.file_io.delete_quietly([f"{directory}/{name}" for f in rows.needless for name in f.names])
    return [rows.message for rows in moved]
