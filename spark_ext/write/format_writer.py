"""Writes of format tables: tasks write hidden files, which the driver renames.

Such a commit may be repeated: files that have their names are left as they are. A task that Spark does not wait for may
leave hidden files, which the removal of orphan files deletes.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from interbed.spark_ext.handle.format_tables import open_format, partition_from_json, partition_to_json, with_registered
from interbed.spark_ext.handle.session_options import table_options
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.values.spark_types import batch_from_spark
from interbed.spark_ext.write.writer import CommitToken, mode_of
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.format_table.directories import FormatPartition
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.storage.table.format_table.writing import FormatTableWrite, StagedFile, check_rows_in_choice, commit
from interbed.storage.write.row_converter import RowConverter
from interbed.thrift_idl.planner.ttypes import CommitResult, WriteMode, WritePlan


def plan_format_write(handle: TableHandle, table: FormatTable, request: Any) -> WritePlan:
    """Plan planner.thrift's WriteRequest on a format table. Raises for a write that is not possible."""
    table.definition.check_writable(table.name)
    if request.mode == WriteMode.CHANGES:
        raise NotSupportedError(f"The format table '{table.name}' takes no changes of single rows.")
    own = with_registered(handle, table)
    token = CommitToken(
        handle=replace(own, dynamic_options={**own.dynamic_options, **table_options(request.options)}),
        commit_user="",
        mode=mode_of(request, table.schema),
        filters=tuple(request.filters),
    )
    if token.mode == WriteMode.OVERWRITE:
        token.static_partition()
    # Opened here for its checks of the options.
    open_format(token.handle)
    return token.plan()


class FormatTaskWriter:
    """Writer of the rows of one task attempt; finish or abort is its last call."""

    def __init__(self, token: CommitToken) -> None:
        table = open_format(token.handle)
        self._table = table
        self._arrow = table.arrow_schema
        self._converter = RowConverter(table.schema, table.name)
        self._write = FormatTableWrite(table.definition, table.directories)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of Spark's rows. Raises SchemaMismatchError and InvalidInputError for data that do not fit."""
        for rows in self._converter.batches(batch_from_spark(batch, self._arrow)):
            default = self._table.options.partition_default_name
            self._converter.check_new_rows(rows, None, default, self._write.row_count)
            self._write.write(rows)

    def finish(self) -> bytes:
        """Finish the files and return them for the driver's commit."""
        return json.dumps([_file_to_json(file) for file in self._write.finish()]).encode()

    def abort(self) -> None:
        """Delete the written files, also after finish if the result did not reach the driver."""
        self._write.abort()


def commit_format(token: CommitToken, table: FormatTable, messages: Iterable[bytes]) -> CommitResult:
    """Give the files of the tasks their names, and delete those that an overwrite replaces.

    An overwrite replaces the files that exist when it is committed. Called again, it completes the first call.
    """
    files = _files(messages, table.schema)
    directories, file_io = table.directories, table.file_io
    own = {file.path for file in files}
    replaced: list[FormatPartition] = []
    if token.mode == WriteMode.OVERWRITE_DYNAMIC:
        written = {file.partition.row: file.partition for file in files}
        # Other directories may have equal values.
        others = [each for each in directories.partitions() if each.row in written]
        replaced = list({each.location: each for each in (*written.values(), *others)}.values())
        directories.check_owned(others)
    elif token.mode == WriteMode.OVERWRITE:
        chosen: Any = token.static_partition()
        if table.partition_keys:
            check_rows_in_choice(directories, chosen, [file.partition.row for file in files], table.name)
        replaced = directories.chosen(chosen)
        directories.check_owned(replaced)
    listed = [file.path for each in replaced for file in directories.files(each) if file.path not in own]
    pending = [file for file in files if file_io.exists(file.staged) or not file_io.exists(file.path)]
    commit(directories, pending, replaced=listed)
    return CommitResult()


def abort_format(token: CommitToken, messages: Iterable[bytes]) -> None:
    """Delete the hidden files of the tasks."""
    table = open_format(token.handle)
    table.file_io.delete_quietly([file.staged for file in _files(messages, table.schema)])


def _file_to_json(file: StagedFile) -> dict[str, Any]:
    return {
        "staged": file.staged,
        "path": file.path,
        "rows": file.rows,
        "size": file.size,
        "partition": partition_to_json(file.partition),
    }


def _files(messages: Iterable[bytes], schema: TableSchema) -> list[StagedFile]:
    return [
        StagedFile(
            staged=each["staged"],
            path=each["path"],
            partition=partition_from_json(each["partition"], schema),
            rows=each["rows"],
            size=each["size"],
        )
        for message in messages
        for each in json.loads(message)
    ]
