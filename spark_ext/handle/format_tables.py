"""Format tables in Spark: their description, their handle, and the table of a handle in another process.

A worker gets the directory, the schema and the options of the file system, as for other tables, and the partitions that
a metastore has registered elsewhere. It lists nothing: files to read are in the splits, and a commit is the driver's.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from interbed.spark_ext.handle.ddl import spark_properties
from interbed.spark_ext.handle.table_handle import FILE_SYSTEM_PREFIXES, TableHandle
from interbed.spark_ext.values.spark_types import schema_to_spark
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.io.resolve import file_io_for
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.directories import FormatPartition
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.thrift_idl.planner.ttypes import RowChanges, TableInfo, WriteClustering


class ListedPartitions:
    """PartitionRegister of a worker: the partitions that the driver has named, which it does not change."""

    def __init__(self, listed: Sequence[tuple[Mapping[str, str], str]]) -> None:
        self._listed = listed

    def partitions(self) -> Iterable[tuple[Mapping[str, str], str]]:
        """Return the values and the directory of each partition."""
        return self._listed

    def add(self, partitions: Sequence[FormatPartition]) -> None:
        """Register nothing: the driver does."""

    def remove(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Remove nothing: the driver does."""


def format_table_info(reference: Any, table: FormatTable, given: Mapping[str, str]) -> TableInfo:
    """Describe a format table for Spark; `given` are the options of the catalog, with those of its server."""
    handle = TableHandle(
        catalog=reference.catalog.name,
        catalog_options=reference.catalog.options,
        database=reference.database,
        table=reference.table,
        location=table.location,
        schema_json=table.schema.to_json(),
        snapshot_id=None,
        server_options=_added(given, reference.catalog.options),
        tokens_of=_tokens_of(table),
        is_format=True,
    )
    return info_of_format(handle, table)


def info_of_format(handle: TableHandle, table: FormatTable) -> TableInfo:
    """Describe the format table of a handle for Spark."""
    refusal = (
        f"The format table '{handle.database}.{handle.table}' has rows that are appended or overwritten, by partitions "
        "or as a whole: its files have no keys, so that it takes no "
    )
    return TableInfo(
        schemaJson=schema_to_spark(table.schema.fields),
        partitionKeys=list(table.schema.partition_keys),
        primaryKeys=[],
        properties=spark_properties(table.schema, table.location),
        snapshotId=0,
        clustering=WriteClustering(columns=[], bucketCount=0, bucketColumns=[], strict=False),
        handle=handle.to_bytes(),
        rowChanges=RowChanges(
            rowId=[],
            toldOfRows={},
            refusals={name: f"{refusal}{name} of single rows" for name in ("DELETE", "UPDATE", "MERGE")},
            splitsUpdates=False,
        ),
    )


def with_registered(handle: TableHandle, table: FormatTable) -> TableHandle:
    """Return the handle with the partitions that are not in the directories of their names."""
    if table.directories.register is None:
        return handle
    elsewhere = tuple(
        (json.dumps(dict(each.spec)), each.location)
        for each in table.directories.partitions()
        if not table.directories.holds(each.location)
        or each.location != table.directories.new_partition(each.row).location
    )
    return replace(handle, partitions_elsewhere=elsewhere)


def open_format(handle: TableHandle) -> FormatTable:
    """Open the format table of a handle without its catalog, for reading and writing, not for commits."""
    schema = handle.schema
    if handle.dynamic_options:
        schema = replace(schema, options={**schema.options, **handle.dynamic_options})
    if handle.tokens_of is None:
        file_io, location = file_io_for(handle.location, handle.file_system_options)
    else:
        file_io, location = handle.files_by_token(handle.tokens_of), handle.location
    listed = [(json.loads(spec), place) for spec, place in handle.partitions_elsewhere]
    register = ListedPartitions(listed) if listed else None
    name = f"{handle.database}.{handle.table}"
    return FormatTable(name, location, file_io, FormatDefinition.of(schema), register)


def refuse_format(handle: TableHandle, what: str) -> None:
    """Raise NotSupportedError for the handle of a format table."""
    if handle.is_format:
        raise NotSupportedError(
            f"The format table '{handle.database}.{handle.table}' has no {what}: it is a directory of files without "
            "snapshots."
        )


def _added(options: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in options.items() if k.startswith(FILE_SYSTEM_PREFIXES) and given.get(k) != v}


def _tokens_of(table: FormatTable) -> str | None:
    """Return the id of the table if a server has tokens for its files."""
    # By use: most tables need no client of REST.
    from interbed.catalog.client.rest.data_tokens import origin_of

    origin = origin_of(table.file_io)
    return None if origin is None else origin.table_id
