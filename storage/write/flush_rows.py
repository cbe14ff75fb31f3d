"""What a table's flushes do with buffered rows, and how the files that they make look."""

from dataclasses import dataclass
from typing import TypeAlias

from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.spill import SpillFiles
from interbed.storage.lsm.write_buffer import Spill
from interbed.storage.lsm.writer import BufferMerge, RemovalRules
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.write.append.writer import small_batches
from interbed.storage.write.postponed import PostponedRows, postponed_layout, postponed_prefix

FlushRows: TypeAlias = BufferMerge | PostponedRows
"""What makes files of the buffered rows of a table with a primary key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushedFiles:
    """How the data files of one writer look, how they are named, and what makes them of buffered rows.

    `merge` is None for an append table, whose rows go to files in order of arrival.
    """

    layout: DataFileLayout
    names: DataFileNames
    merge: FlushRows | None

    @staticmethod
    def of(store: FileStore) -> "FlushedFiles":
        """Files of rows in their buckets; raises what DataFileLayout.of raises."""
        schema, options = store.schema, store.options
        layout = DataFileLayout.of(schema, options)
        merge = None
        if schema.has_primary_key:
            function = merge_function_for(schema, options, drop_deletes=False, looked_up=False)
            merge = BufferMerge(
                layout=layout,
                function=function,
                descending=options.descending_sequence_fields,
                tells_input=options.changelog_producer is ChangelogProducer.INPUT,
                removals=RemovalRules.of(schema, options, function),
            )
        return FlushedFiles(layout=layout, names=DataFileNames(options.data_file_prefix), merge=merge)

    @staticmethod
    def postponed(store: FileStore, commit_user: str) -> "FlushedFiles":
        """Files of rows that wait for their buckets."""
        layout = postponed_layout(store.schema, store.options)
        names = DataFileNames(postponed_prefix(store.options, commit_user))
        return FlushedFiles(layout=layout, names=names, merge=PostponedRows(layout=layout))


def spill_of(options: CoreOptions, files: SpillFiles, rows: FlushRows | None) -> Spill | None:
    """How full buffers are spilled; None when they are flushed instead."""
    if rows is not None:
        spillable = options.write_buffer_spillable
        return Spill(files=files, arrange=rows.arrange, fan_in=options.local_sort_fan_in) if spillable else None
    # An append table with many buckets spills whatever the option says, as it has no other way to save memory.
    spillable = options.write_buffer_spillable or not options.write_buffer_for_append
    return Spill(files=files, arrange=small_batches) if spillable else None
