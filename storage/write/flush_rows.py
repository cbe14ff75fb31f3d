"""What a table's flushes do with buffered rows, and how the files that they make look: by keys and bucket mode."""

from typing import TypeAlias

from interbed.storage.files.format.layout import DataFileLayout, DataFileNames
from interbed.storage.lsm.merge_function.factory import merge_function_for
from interbed.storage.lsm.spill import SpillFiles
from interbed.storage.lsm.write_buffer import Spill
from interbed.storage.lsm.writer import BufferMerge
from interbed.storage.meta.bucket_mode import BucketMode
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.lsm import ChangelogProducer
from interbed.storage.meta.store import TableStore
from interbed.storage.write.append.writer import small_batches
from interbed.storage.write.postponed import PostponedRows, postponed_layout, postponed_prefix

FlushRows: TypeAlias = BufferMerge | PostponedRows
"""What makes files of the buffered rows of a table with a primary key."""


def layout_of(store: TableStore, mode: BucketMode) -> DataFileLayout:
    """The layout of new data files; raises what DataFileLayout.of raises."""
    if mode is BucketMode.POSTPONED:
        return postponed_layout(store.schema, store.options)
    return DataFileLayout.of(store.schema, store.options)


def names_of(store: TableStore, mode: BucketMode, commit_user: str) -> DataFileNames:
    """The names of one writer's data files."""
    postponed = mode is BucketMode.POSTPONED
    return DataFileNames(postponed_prefix(store.options, commit_user) if postponed else store.options.data_file_prefix)


def flush_rows_of(store: TableStore, mode: BucketMode, layout: DataFileLayout) -> FlushRows | None:
    """What makes files of rows with keys; None for an append table."""
    schema, options = store.schema, store.options
    if not schema.has_primary_key:
        return None
    if mode is BucketMode.POSTPONED:
        return PostponedRows(layout=layout)
    function = merge_function_for(schema, options, drop_deletes=False, looked_up=False)
    return BufferMerge(
        layout=layout,
        function=function,
        descending=options.descending_sequence_fields,
        tells_input=options.changelog_producer is ChangelogProducer.INPUT,
    )


def spill_of(options: CoreOptions, files: SpillFiles, rows: FlushRows | None) -> Spill | None:
    """How full buffers are spilled; None when they are flushed instead."""
    if rows is not None:
        spillable = options.write_buffer_spillable
        return Spill(files=files, arrange=rows.arrange, fan_in=options.local_sort_fan_in) if spillable else None
    # An append table with many buckets spills whatever the option says, as it has no other way to save memory.
    spillable = options.write_buffer_spillable or not options.write_buffer_for_append
    return Spill(files=files, arrange=small_batches) if spillable else None
