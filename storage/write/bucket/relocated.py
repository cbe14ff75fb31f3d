"""Messages of a writer that only takes existing rows to other buckets, made into messages of a compaction.

Such a writer believes its rows to be new. What its files hold was in the table before, so that they belong in a COMPACT
snapshot (or in the place of others, in an OVERWRITE); files that were compacted before anybody saw them are not needed.
Source: Paimon's BucketFiles.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from interbed.storage.lsm.compact.rewriter import CompactIncrement
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.write.commit_message import CommitMessage, DataIncrement


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocatedRows:
    """A message of compaction, and files of its bucket that it does not name any more."""

    message: CommitMessage
    needless: tuple[DataFileMeta, ...]

    @staticmethod
    def of(message: CommitMessage) -> "RelocatedRows":
        """The message with all its files as a compaction's."""
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
            # A file that only went to another level is the table's under the same name.
            needless=tuple(f for n, f in written.items() if n in compacted and n not in after),
        )


def as_compaction(store: FileStore, messages: Iterable[CommitMessage]) -> list[CommitMessage]:
    """All messages as those of a compaction; files that nobody needs are deleted."""
    moved = [RelocatedRows.of(message) for message in messages]
    for rows in moved:
        directory = store.paths.bucket_directory(rows.message.bucket_id)
        store.file_io.delete_quietly([path for f in rows.needless for path in f.paths_in(directory)])
    return [rows.message for rows in moved]
