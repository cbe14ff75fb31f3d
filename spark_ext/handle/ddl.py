"""Translation of Spark's CREATE TABLE and ALTER TABLE for the catalog; table properties are the table's options."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from interbed.spark_ext.values.defaults import default_from_spark
from interbed.spark_ext.values.spark_types import schema_from_spark, type_from_spark
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import DataField
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
from interbed.thrift_idl.planner.ttypes import ChangeKind

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
