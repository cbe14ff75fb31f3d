"""Format tables in Spark: their description, their handle, and the table of a handle in another process.

Definitions are JSON where they say more than a schema: those of Hive's own tables and partitions. The syntax of such
files is that of a SerDe, which no option of a table expresses.

A worker gets the directory, the schema and the options of the file system, as for other tables, the definition of files
of Hive's own tables, and the partitions that are not as their values say: in other directories, with a format of their
own, with equal values. It lists nothing: files to read are in the splits, and a commit is the driver's.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from interbed.catalog.client.options import options_of_files
from interbed.spark_ext.handle.ddl import spark_properties
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.values.spark_types import schema_to_spark
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.files.text.options import CsvOptions, JsonOptions, LineOptions, MalformedMode, TextFileOptions
from interbed.storage.io.resolve import file_io_for
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.directories import FormatDirectories, FormatPartition
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.thrift_idl.planner.ttypes import RowChanges, TableInfo, WriteClustering

_FORMAT = "file.format"


def definition_to_text(definition: FormatDefinition) -> str:
    """Return a definition without its columns as JSON; an empty text if the schema says all of it."""
    if definition == FormatDefinition.of(definition.schema):
        return ""
    return _to_text(definition)


def definition_from_text(text: str, schema: TableSchema) -> FormatDefinition:
    """Return the definition of definition_to_text, or of the definition of a partition, with columns of a schema."""
    if not text:
        return FormatDefinition.of(schema)
    value = json.loads(text)
    file_format = value["format"]
    if schema.options.get(_FORMAT) != file_format:
        schema = replace(schema, options={**schema.options, _FORMAT: file_format})
    return FormatDefinition(
        schema=schema,
        file_format=file_format,
        syntax=_syntax(file_format, value["syntax"]),
        any_case=value["anyCase"],
        read_only=value["readOnly"],
    )


def partition_to_json(partition: FormatPartition) -> list[Any]:
    """Return row, values, directory and own definition of a partition."""
    own = "" if partition.definition is None else _to_text(partition.definition)
    return [partition.row.hex(), dict(partition.spec), partition.location, own]


def partition_from_json(value: list[Any], schema: TableSchema) -> FormatPartition:
    """Return the partition of partition_to_json, of a table with a schema."""
    row, spec, location, own = value
    definition = definition_from_text(own, schema) if own else None
    return FormatPartition(row=bytes.fromhex(row), spec=spec, location=location, definition=definition)


def _to_text(definition: FormatDefinition) -> str:
    return json.dumps(
        {
            "format": definition.file_format,
            "syntax": None if definition.syntax is None else asdict(definition.syntax),
            "anyCase": definition.any_case,
            "readOnly": definition.read_only,
        }
    )


def _syntax(file_format: str, fields: Mapping[str, Any] | None) -> TextFileOptions | None:
    if fields is None:
        return None
    match file_format:
        case "csv":
            return CsvOptions(**{**fields, "mode": MalformedMode(fields["mode"])})
        case "json":
            return JsonOptions(**fields)
    return LineOptions(**fields)


class ListedPartitions:
    """PartitionRegister of a worker: the partitions that the driver has named, which it does not change."""

    def __init__(self, listed: Sequence[FormatPartition]) -> None:
        self._listed = listed

    def partitions(self) -> Iterable[tuple[Mapping[str, str], str, FormatDefinition | None]]:
        """Return values and directory of each partition, and its own format if it has one."""
        return [(each.spec, each.location, each.definition) for each in self._listed]

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
        format_definition=definition_to_text(table.definition),
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
    """Return the handle with the partitions that are not as a new one with their values would be.

    Other partitions with equal values, and with the same directory, are named with them.
    """
    found = table.directories.partitions() if table.partition_keys else []
    places = Counter(each.location for each in found)
    rows = {each.row for each in found if places[each.location] > 1 or not _as_new(each, table.directories)}
    named = tuple(json.dumps(partition_to_json(each)) for each in found if each.row in rows)
    return replace(handle, partitions_elsewhere=named)


def _as_new(partition: FormatPartition, directories: FormatDirectories) -> bool:
    """Return whether a new partition with the values of a partition would be the same."""
    try:
        return directories.new_partition(partition.row) == partition
    except InvalidInputError:
        # A metastore registers partitions that would have no directory of their names.
        return False


def open_format(handle: TableHandle) -> FormatTable:
    """Open the format table of a handle without its catalog, for reading and writing, not for commits."""
    schema = handle.schema
    if handle.tokens_of is None:
        file_io, location = file_io_for(handle.location, handle.file_system_options)
    else:
        file_io, location = handle.files_by_token(handle.tokens_of), handle.location
    register = ListedPartitions([partition_from_json(json.loads(each), schema) for each in handle.partitions_elsewhere])
    name = f"{handle.database}.{handle.table}"
    definition = definition_from_text(handle.format_definition, schema)
    table = FormatTable(name, location, file_io, definition, register, discovers=False)
    return table.copy(handle.dynamic_options) if handle.dynamic_options else table


def refuse_format(handle: TableHandle, what: str) -> None:
    """Raise NotSupportedError for the handle of a format table."""
    if handle.is_format:
        raise NotSupportedError(
            f"The format table '{handle.database}.{handle.table}' has no {what}: it is a directory of files without "
            "snapshots."
        )


def _added(options: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in options_of_files(options).items() if given.get(k) != v}


def _tokens_of(table: FormatTable) -> str | None:
    """Return the id of the table if a server has tokens for its files."""
    # By use: most tables need no client of REST.
    from interbed.catalog.client.rest.data_tokens import origin_of

    origin = origin_of(table.file_io)
    return None if origin is None else origin.table_id
