"""Definitions of tables for Spark: CREATE TABLE and ALTER TABLE, and the description and handle of format tables.

CREATE TABLE and ALTER TABLE are translated for the catalog; table properties are the table's options.

Handles of format tables are opened in other processes. Their definitions are JSON where they say more than a schema:
those of Hive's own tables and partitions. The syntax of such files is that of a SerDe, which no option of a table
expresses.

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
from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.spark_ext.values.defaults import default_from_spark
from interbed.spark_ext.values.spark_types import schema_from_spark, schema_to_spark, type_from_spark
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.text.options import CsvOptions, JsonOptions, LineOptions, MalformedMode, TextFileOptions
from interbed.storage.io.resolve import file_io_for
from interbed.storage.meta.options.core import BUCKET, BUCKET_KEY, PATH
from interbed.storage.meta.options.format import FORMAT_TABLE, TYPE
from interbed.storage.meta.schema.change import (
    AddColumn,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
    edit_field,
)
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.directories import FormatDirectories, FormatPartition
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.thrift_idl.planner.ttypes import ChangeKind, RowChanges, TableInfo, WriteClustering

PROVIDER = "provider"
PROVIDERS = ("interbed", "paimon")
# DataFrameWriter.saveAsTable names Spark's default source when the user names none. These three are file formats of
# tables, so that they are accepted.
FORMAT_PROVIDERS = ("parquet", "orc", "avro")
TEXT_PROVIDERS = ("csv", "json", "text")
"""Formats that only files of format tables have, as in Paimon's catalog."""

FILE_FORMAT = "file.format"
COMMENT = "comment"
LOCATION = "location"
# OPTIONS (…) come twice, once under this prefix.
OPTION_PREFIX = "option."
MANAGED_LOCATION = "is_managed_location"
# Properties that Spark adds by itself, and properties without a meaning here.
IGNORED_PROPERTIES = frozenset({"owner", MANAGED_LOCATION, "external", "table_type"})
NAMESPACE_IGNORED = frozenset({"owner"})
COLLATION = "collation"
BINARY_COLLATION = "UTF8_BINARY"
"""The collation of tables, which compare strings by their bytes."""
STORED_AS = "hive.stored-as"
# Spark's properties for ROW FORMAT and for the classes of STORED AS.
_HIVE_CLASSES = ("hive.serde", "hive.input-format", "hive.output-format")


def schema_to_create(schema_json: str, partitioning: Sequence[Any], properties: Mapping[str, str]) -> Schema:
    """Return the schema of a CREATE TABLE. `partitioning` are planner.thrift's PartitionTransforms.

    Raises NotSupportedError for transforms other than columns and one bucket(n, columns), for other table formats and
    for types without counterpart; InvalidInputError for contradictions.
    """
    properties = without_collation(properties)
    _check_row_format(properties)
    own = {*IGNORED_PROPERTIES, PROVIDER, COMMENT, LOCATION, STORED_AS}
    options = {k: v for k, v in properties.items() if k not in own and not k.startswith(OPTION_PREFIX)}
    _apply_provider(properties.get(PROVIDER), options)
    _apply_stored_as(properties.get(STORED_AS), options)
    if LOCATION in properties:
        options[PATH] = properties[LOCATION]
    partition_keys: list[str] = []
    for transform in partitioning:
        if transform.name == "identity":
            partition_keys.extend(transform.columns)
        elif transform.name == "bucket" and transform.bucketCount:
            _apply_buckets(transform, options)
        else:
            raise NotSupportedError(
                f"Tables are partitioned by columns, not by {transform.name}({', '.join(transform.columns)}). "
                "Add a column that holds the value and partition by it."
            )
    return Schema(
        fields=schema_from_spark(schema_json),
        partition_keys=tuple(partition_keys),
        primary_keys=(),
        options=options,
        comment=properties.get(COMMENT),
    )


def _apply_provider(provider: str | None, options: dict[str, str]) -> None:
    if provider is None or provider.lower() in PROVIDERS:
        return
    if provider.lower() in TEXT_PROVIDERS:
        if options.setdefault(TYPE, FORMAT_TABLE).lower() != FORMAT_TABLE:
            raise InvalidInputError(
                f"USING {provider} makes a format table, and not one of 'type' = '{options[TYPE]}'."
            )
    elif provider.lower() not in FORMAT_PROVIDERS:
        raise NotSupportedError(
            f"This catalog holds tables of its own format, not of '{provider}'. Leave USING out, "
            "or write USING interbed; USING csv, json and text make format tables."
        )
    options.setdefault(FILE_FORMAT, provider.lower())


def without_collation(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without the collation of a DEFAULT COLLATION. Raises NotSupportedError for another one than
    that of tables.
    """
    collation = properties.get(COLLATION, BINARY_COLLATION)
    if collation.upper() != BINARY_COLLATION:
        raise NotSupportedError(
            f"DEFAULT COLLATION {collation} is not supported: tables compare strings by their bytes. Leave it out, and "
            f"write COLLATE {collation} in queries."
        )
    return {k: v for k, v in properties.items() if k != COLLATION}


def _check_row_format(properties: Mapping[str, str]) -> None:
    # OPTIONS (…) come a second time, without the prefix; properties of a SerDe do not.
    serde = [k for k in properties if k.startswith(OPTION_PREFIX) and k.removeprefix(OPTION_PREFIX) not in properties]
    if serde or any(k in properties for k in _HIVE_CLASSES):
        raise NotSupportedError(
            "ROW FORMAT and the classes of STORED AS describe files of Hive, which this table does not have. Leave "
            "them out, or create a table of text files with 'type' = 'format-table' and 'file.format' = 'csv'."
        )


def _apply_stored_as(stored_as: str | None, options: dict[str, str]) -> None:
    if stored_as is None:
        return
    if stored_as.lower() not in FORMAT_PROVIDERS:
        raise NotSupportedError(
            f"STORED AS {stored_as} is not supported: files of a table are {', '.join(FORMAT_PROVIDERS[:-1])} or "
            f"{FORMAT_PROVIDERS[-1]}. Leave it out, or create a table of other files with 'type' = 'format-table' and "
            "'file.format' = 'csv', 'json' or 'text'."
        )
    options.setdefault(FILE_FORMAT, stored_as.lower())


def _apply_buckets(transform: Any, options: dict[str, str]) -> None:
    for key, value in ((BUCKET, str(transform.bucketCount)), (BUCKET_KEY, ",".join(transform.columns))):
        if options.setdefault(key, value) != value:
            raise InvalidInputError(f"The option '{key}' and the bucketing clause contradict: {options[key]}, {value}.")


def spark_properties(schema: TableSchema, location: str) -> dict[str, str]:
    """Return the properties for SHOW TBLPROPERTIES and DESCRIBE: options, keys and Spark's own properties."""
    properties = dict(schema.options)
    if schema.primary_keys:
        properties["primary-key"] = ",".join(schema.primary_keys)
    properties[PROVIDER] = PROVIDERS[0]
    properties[LOCATION] = location
    if schema.comment:
        properties[COMMENT] = schema.comment
    return properties


def schema_changes(changes: Sequence[Any], columns: Mapping[str, DataField]) -> list[SchemaChange]:
    """Return the changes of an ALTER TABLE; `changes` are planner.thrift's TableChanges, `columns` the table's.

    Raises NotSupportedError for changes that the format does not have.
    """
    return [change for given in changes for change in _schema_changes(given, columns)]


def _schema_changes(given: Any, columns: Mapping[str, DataField]) -> list[SchemaChange]:
    if given.kind in (ChangeKind.SET_PROPERTY, ChangeKind.REMOVE_PROPERTY):
        if given.kind == ChangeKind.SET_PROPERTY and not without_collation({given.path[0]: given.value}):
            return []
        return [_option_change(given)]
    path = tuple(given.path)
    name = ".".join(path)
    match given.kind:
        case ChangeKind.ADD_COLUMN:
            if given.defaultValue is not None:
                raise NotSupportedError(
                    f"The column '{name}' can't be added with a default, which existing rows would not get. Add it, "
                    "then write ALTER COLUMN … SET DEFAULT for new rows."
                )
            added = type_from_spark(json.loads(given.value), column=name).with_nullable(given.nullable is not False)
            return [AddColumn(path, added, given.comment, _position(given))]
        case ChangeKind.DROP_COLUMN:
            return [] if given.ifExists and not _exists(path, columns) else [DropColumn(path)]
        case ChangeKind.RENAME_COLUMN:
            return [RenameColumn(path, given.value)]
        case ChangeKind.UPDATE_COLUMN_TYPE:
            return [UpdateColumnType(path, type_from_spark(json.loads(given.value), column=name))]
        case ChangeKind.UPDATE_COLUMN_NULLABILITY:
            return [UpdateColumnNullability(path, bool(given.nullable))]
        case ChangeKind.UPDATE_COLUMN_COMMENT:
            return [UpdateColumnComment(path, given.value or None)]
        case ChangeKind.UPDATE_COLUMN_POSITION:
            return [UpdateColumnPosition(path, _position(given) or Position())]
        case ChangeKind.UPDATE_COLUMN_DEFAULT:
            return [_default_change(given, path, columns)]
        case _:
            raise NotSupportedError(f"The change {given.kind} of the column '{name}' is not known.")


def _exists(path: tuple[str, ...], columns: Mapping[str, DataField]) -> bool:
    try:
        edit_field(tuple(columns.values()), path, lambda field: field)
    except (InvalidInputError, NotSupportedError):
        return False
    return True


def _default_change(given: Any, path: tuple[str, ...], columns: Mapping[str, DataField]) -> UpdateColumnDefault:
    name, *inside = path
    column = columns.get(name)
    if inside or column is None:
        raise NotSupportedError(f"'{'.'.join(path)}' can't have a default; only whole columns of the table can.")
    # An empty text of Spark's drops the default.
    default = default_from_spark(given.value, column.type, column=name) if given.value else None
    return UpdateColumnDefault(name, default)


def _option_change(given: Any) -> SchemaChange:
    key = given.path[0]
    value = given.value if given.kind == ChangeKind.SET_PROPERTY else None
    if key == COMMENT:
        return UpdateComment(value)
    if key in (PROVIDER, LOCATION):
        raise NotSupportedError(f"The property '{key}' of a table can't be changed.")
    return RemoveOption(key) if value is None else SetOption(key, value)


def _position(given: Any) -> Position | None:
    if given.position is None:
        return None
    return Position(given.after if given.position == "AFTER" else None)


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
