"""Entries of format tables in a metastore: ordinary tables of Hive, with the SerDe of their files.

A table that Paimon or interbed creates has the parameter `type` = `format-table` and the options of the table; interbed
adds its schema where Hive's columns do not say all of it. All other tables of Hive whose files are read here are format
tables by their SerDe: LazySimpleSerDe with its delimiters, escapes and null format, OpenCSVSerde, JSON, Parquet, ORC
and Avro. Their partitions are those of the metastore. Source: paimon-hive `HiveCatalog`, `HiveTableUtils`; Hive's
`serdeConstants`.
"""

import copy
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.connection import current_user
from interbed.catalog.client.hive.registration import (
    Locations,
    hive_type_name,
    is_of_flink,
    is_of_iceberg,
    is_ours,
    is_view,
    type_of_hive,
)
from interbed.catalog.client.identifier import Identifier
from interbed.storage.base.errors import InterbedError, NotSupportedError
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.text.options import CsvOptions, JsonOptions, MalformedMode
from interbed.storage.meta.options.format import FORMAT_TABLE, TYPE
from interbed.storage.meta.schema.table_schema import TableSchema, highest_field_id
from interbed.storage.table.format_table.definition import FormatDefinition
from interbed.storage.table.format_table.directories import FormatPartition
from interbed.thrift_idl.hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor
from interbed.thrift_idl.hive_metastore.ttypes import Partition as HivePartition
from interbed.thrift_idl.hive_metastore.ttypes import Table as HiveTable

SCHEMA = "interbed.format-table-schema"
"""Parameter with the JSON of the schema, for columns that Hive's types do not describe."""

HIVE_DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
_LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_AVRO_FORMAT = "org.apache.hadoop.hive.ql.io.avro.Avro"
_PARQUET_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquet"
_ORC_FORMAT = "org.apache.hadoop.hive.ql.io.orc.Orc"

_CLASSES: Mapping[str, tuple[str, str, str]] = {
    "csv": (_LAZY, _TEXT_INPUT, _TEXT_OUTPUT),
    "text": (_LAZY, _TEXT_INPUT, _TEXT_OUTPUT),
    "json": ("org.apache.hive.hcatalog.data.JsonSerDe", _TEXT_INPUT, _TEXT_OUTPUT),
    "parquet": (
        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
        f"{_PARQUET_FORMAT}InputFormat",
        f"{_PARQUET_FORMAT}OutputFormat",
    ),
    "orc": ("org.apache.hadoop.hive.ql.io.orc.OrcSerde", f"{_ORC_FORMAT}InputFormat", f"{_ORC_FORMAT}OutputFormat"),
    "avro": (
        "org.apache.hadoop.hive.serde2.avro.AvroSerDe",
        f"{_AVRO_FORMAT}ContainerInputFormat",
        f"{_AVRO_FORMAT}ContainerOutputFormat",
    ),
}
"""SerDe, input and output format by the format of the files; those of Java Paimon, and Hive's for Avro."""

_RETENTION = 2**31 - 1


def is_created_as_format_table(entry: HiveTable) -> bool:
    """Return whether Paimon or interbed created the table as a format table."""
    return bool((entry.parameters or {}).get(TYPE, "").lower() == FORMAT_TABLE)


def is_format_entry(entry: HiveTable) -> bool:
    """Return whether the entry is that of a format table: a table of Hive whose files are read here."""
    return _format_of(entry) is not None


def _format_of(entry: Any) -> str | None:
    """Return the format of a table's files by its SerDe; None for tables that are not read as files."""
    if is_ours(entry) or is_view(entry) or is_of_iceberg(entry) or is_of_flink(entry):
        return None
    if entry.sd is None or entry.sd.serdeInfo is None or not entry.sd.location:
        return None
    serde = (entry.sd.serdeInfo.serializationLib or "").lower()
    given = entry.sd.inputFormat or ""
    if "parquet" in serde:
        return "parquet"
    if "orc" in serde:
        return "orc"
    if "avro" in serde:
        return "avro"
    if "Text" not in given:
        return None
    if "json" in serde:
        return "json"
    if serde.endswith("opencsvserde"):
        return "csv"
    if serde != _LAZY.lower():
        return None
    return "text" if (entry.parameters or {}).get("table_type") == "TEXT" else "csv"


def definition_of(identifier: Identifier, entry: Any) -> FormatDefinition:
    """Return the definition of a format table by its entry.

    Raises NotSupportedError for columns and features of Hive that are not read, InvalidOptionError for wrong options.
    """
    file_format = _format_of(entry)
    assert file_format is not None
    parameters = {str(k): str(v) for k, v in (entry.parameters or {}).items()}
    _check_plain(identifier, parameters)
    created = is_created_as_format_table(entry)
    options = _options(parameters, file_format) if created else {TYPE: FORMAT_TABLE, "file.format": file_format}
    if not created:
        # Hive's directories of partitions.
        options |= {"partition.default-name": HIVE_DEFAULT_PARTITION, "partition.legacy-name": "false"}
    schema = _schema(entry, parameters, options)
    if created:
        found = FormatDefinition.of(schema)
        if file_format == "csv" and "csv.field-delimiter" not in options:
            return FormatDefinition.of(
                _with_option(schema, "csv.field-delimiter", _of_serde(entry, "field.delim", ","))
            )
        return found
    return _definition_of_hive(identifier, entry, schema, file_format, parameters)


def _with_option(schema: TableSchema, key: str, value: str) -> TableSchema:
    return replace(schema, options={**schema.options, key: value})


_LAZY_AND_JSON: Mapping[str, str | None] = {
    "dots.in.keys": "true",
    "serialization.encoding": None,
    "timestamp.formats": None,
    "serialization.last.column.takes.rest": "true",
    "hive.lazysimple.extended_boolean_literal": "true",
}
_CHANGES_VALUES: Mapping[str, Mapping[str, str | None]] = {
    "csv": _LAZY_AND_JSON,
    "json": _LAZY_AND_JSON,
    "parquet": {"parquet.column.index.access": "true"},
    "orc": {"orc.force.positional.evolution": "true"},
    "avro": {"avro.schema.url": None},
}
"""Parameters with which files have other values than are read here, by format; None for any value of the parameter."""

_UTF8 = ("utf8", "usascii", "ascii")

_SPARK_SCHEMA = "spark.sql.sources.schema"
_SPARK_OPTIONS: Mapping[str, str | None] = {
    "pathglobfilter": None,
    "modifiedbefore": None,
    "modifiedafter": None,
    "datetimerebasemode": "legacy",
    "int96rebasemode": "legacy",
    "avroschema": None,
    "avroschemaurl": None,
    "positionalfieldmatching": "true",
}
"""Options of Spark's file sources with which a table has other rows than its files, in lower case, as above."""


def _check_serde(identifier: Identifier, entry: Any, file_format: str) -> None:
    """Raise NotSupportedError for a parameter of table or SerDe with which files have other values than are read."""
    serde = (entry.sd.serdeInfo.serializationLib or "").lower()
    changing = {} if serde.endswith("opencsvserde") else _CHANGES_VALUES.get(file_format, {})
    # Hive gives a SerDe the parameters of the table, too.
    for key, value in sorted({**(entry.sd.serdeInfo.parameters or {}), **(entry.parameters or {})}.items()):
        counts = key in changing and changing[key] in (None, value.lower())
        if key == "serialization.encoding" and value.lower().replace("-", "") in _UTF8:
            counts = False
        if "openx" in serde:
            counts |= key.startswith("mapping.") or (key == "case.insensitive" and value.lower() == "false")
        if key == "avro.schema.literal" and file_format == "avro":
            counts = _has_defaults(value)
        if counts:
            raise NotSupportedError(
                f"The table '{identifier}' has the parameter '{key}' = '{value[:200]}', which is not supported: its "
                "values would be others. Read it by Hive."
            )


def _check_spark(identifier: Identifier, entry: Any, parameters: Mapping[str, str]) -> None:
    """Raise NotSupportedError for what changes rows or filters in Spark's definition of a table, which Hive lacks."""
    for key, value in sorted((entry.sd.serdeInfo.parameters or {}).items()):
        if key.lower() in _SPARK_OPTIONS and _SPARK_OPTIONS[key.lower()] in (None, value.lower()):
            raise NotSupportedError(
                f"The table '{identifier}' has Spark's option '{key}' = '{value[:200]}', which is not supported: its "
                "rows would be others. Read it by Spark."
            )
    for field in _spark_fields(identifier, parameters):
        name, metadata = field.get("name"), field.get("metadata") or {}
        default = str(metadata.get("EXISTS_DEFAULT", "NULL"))
        if default.upper() != "NULL":
            raise NotSupportedError(
                f"The column '{name}' of '{identifier}' has Spark's default {default[:200]}, which Spark shows in the "
                "rows of files without the column; it is not supported. Read the table by Spark."
            )
        if "__COLLATIONS" in metadata:
            raise NotSupportedError(
                f"The column '{name}' of '{identifier}' has a collation of Spark's, by which filters would select "
                "other rows; it is not supported. Read the table by Spark."
            )


def _spark_fields(identifier: Identifier, parameters: Mapping[str, str]) -> list[Any]:
    """Return the columns as Spark's parameters of a table describe them, in JSON; none for tables of Hive."""
    parts = parameters.get(f"{_SPARK_SCHEMA}.numParts", "0")
    count = int(parts) if parts.isdecimal() else 0
    text = "".join(parameters.get(f"{_SPARK_SCHEMA}.part.{number}", "") for number in range(count))
    text = parameters.get(_SPARK_SCHEMA, text)
    if not text:
        return []
    try:
        return list(json.loads(text)["fields"])
    except (ValueError, TypeError, KeyError) as error:
        raise NotSupportedError(
            f"The parameter '{_SPARK_SCHEMA}' of '{identifier}' is no schema of Spark's; read the table by Spark."
        ) from error


def _has_defaults(literal: str) -> bool:
    """Return whether a schema of Avro gives columns that a file lacks a value, or columns another name in files."""
    try:
        fields = json.loads(literal)["fields"]
        return any(f.get("default") is not None or f.get("aliases") for f in fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return True


def _check_plain(identifier: Identifier, parameters: Mapping[str, str]) -> None:
    for key, what in (
        ("transactional", "has transactions of Hive's, whose changes lie in files of their own"),
        ("storage_handler", "is kept by a storage handler"),
    ):
        if parameters.get(key, "false").lower() not in ("", "false"):
            raise NotSupportedError(f"The table '{identifier}' {what}; read it by Hive.")
    if parameters.get("skip.footer.line.count", "0") != "0":
        raise NotSupportedError(f"The table '{identifier}' has 'skip.footer.line.count', which is not supported.")


def _options(parameters: Mapping[str, str], file_format: str) -> dict[str, str]:
    left_out = {"comment", "EXTERNAL", "table_type", SCHEMA, "transient_lastDdlTime", "path"}
    return {
        **{k: v for k, v in parameters.items() if k not in left_out},
        TYPE: FORMAT_TABLE,
        "file.format": file_format,
    }


def _schema(entry: Any, parameters: Mapping[str, str], options: Mapping[str, str]) -> TableSchema:
    stored = parameters.get(SCHEMA)
    if stored is not None:
        found = TableSchema.from_json(stored, source=f"the parameter '{SCHEMA}' of the table")
        if _hive_columns(found) == [(c.name.lower(), c.type.lower()) for c in _columns(entry)]:
            return TableSchema(
                id=0,
                fields=found.fields,
                highest_field_id=found.highest_field_id,
                partition_keys=found.partition_keys,
                options=options,
                comment=parameters.get("comment"),
            )
    fields = tuple(
        DataField(id=number, name=column.name, type=type_of_hive(column.type, column.name), description=column.comment)
        for number, column in enumerate(_columns(entry))
    )
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=highest_field_id(fields),
        partition_keys=tuple(key.name for key in entry.partitionKeys or ()),
        options=options,
        comment=parameters.get("comment"),
    )


def _columns(entry: Any) -> list[Any]:
    return [*(entry.sd.cols or ()), *(entry.partitionKeys or ())]


def _hive_columns(schema: TableSchema) -> list[tuple[str, str]]:
    """Return names and Hive's types of the columns in the order of an entry: partition columns come last."""
    keys = schema.partition_keys
    ordered = [*(f for f in schema.fields if f.name not in keys), *schema.partition_fields]
    return [(f.name.lower(), hive_type_name(f.type).lower()) for f in ordered]


def _syntax_of(sd: Any) -> tuple[str, str, Mapping[str, str]]:
    serde = sd.serdeInfo
    return serde.serializationLib or "", sd.inputFormat or "", dict(serde.parameters or {})


def _of_serde(entry: Any, key: str, default: str) -> str:
    parameters = entry.sd.serdeInfo.parameters or {}
    return str(parameters.get(key, default))


def _definition_of_hive(
    identifier: Identifier, entry: Any, schema: TableSchema, file_format: str, parameters: Mapping[str, str]
) -> FormatDefinition:
    """Return the definition of a table that Hive or Spark created: the syntax of its files is that of its SerDe."""
    _check_serde(identifier, entry, file_format)
    _check_spark(identifier, entry, parameters)
    header = parameters.get("skip.header.line.count", "0")
    lines = int(header) if header.isdecimal() else 0
    if file_format == "json":
        return FormatDefinition(
            schema=schema, file_format=file_format, syntax=JsonOptions(any_case=True), any_case=True
        )
    if file_format != "csv":
        return FormatDefinition(schema=schema, file_format=file_format, syntax=None, any_case=True)
    if (entry.sd.serdeInfo.serializationLib or "").lower().endswith("opencsvserde"):
        syntax = CsvOptions(
            delimiter=_of_serde(entry, "separatorChar", ","),
            quote=_of_serde(entry, "quoteChar", '"'),
            escape=_of_serde(entry, "escapeChar", "\\"),
            null_literal=None,
            header_lines=lines,
            blank_rows=True,
        )
        return FormatDefinition(
            schema=schema,
            file_format=file_format,
            syntax=syntax,
            any_case=True,
            read_only="its SerDe is OpenCSVSerde, whose files hold no NULL; write it by Hive",
        )
    delimiter = _of_serde(entry, "field.delim", _of_serde(entry, "serialization.format", "\x01"))
    escape = _of_serde(entry, "escape.delim", "")
    syntax = CsvOptions(
        # Hive's default of `serialization.format` is the number of the character.
        delimiter=chr(int(delimiter)) if delimiter.isdecimal() and len(delimiter) < 4 else delimiter,
        line_delimiter="\n",
        quote=None,
        escape=escape or None,
        null_literal=_of_serde(entry, "serialization.null.format", "\\N"),
        header_lines=lines,
        mode=MalformedMode.PERMISSIVE,
        escapes_all=True,
        blank_rows=True,
    )
    if len(syntax.delimiter) != 1:
        raise NotSupportedError(f"The delimiter {syntax.delimiter!r} of the table has more than one character.")
    return FormatDefinition(schema=schema, file_format=file_format, syntax=syntax, any_case=True)


def new_format_entry(
    identifier: Identifier,
    definition: FormatDefinition,
    location: str,
    *,
    external: bool,
    locations: Locations,
) -> HiveTable:
    """Return the metastore's entry of a new format table, as Java Paimon's catalog makes it."""
    schema, now = definition.schema, int(time.time())
    serde, input_format, output_format = _CLASSES[definition.file_format]
    parameters = {**schema.options, "table_type": definition.file_format.upper()}
    parameters |= {"file.format": definition.file_format, TYPE: FORMAT_TABLE}
    if external:
        parameters["EXTERNAL"] = "TRUE"
    if schema.comment is not None:
        parameters["comment"] = schema.comment
    of_serde = {}
    if isinstance(definition.syntax, CsvOptions):
        of_serde["field.delim"] = definition.syntax.delimiter
    keys = [_column(f) for f in schema.partition_fields]
    entry: Any = HiveTable(
        tableName=identifier.table,
        dbName=identifier.database,
        owner=current_user(),
        createTime=now,
        lastAccessTime=now,
        retention=_RETENTION,
        partitionKeys=keys,
        parameters=parameters,
        tableType="EXTERNAL_TABLE" if external else "MANAGED_TABLE",
        sd=StorageDescriptor(
            cols=[_column(f) for f in definition.data_fields],
            inputFormat=input_format,
            outputFormat=output_format,
            compressed=False,
            numBuckets=0,
            serdeInfo=SerDeInfo(serializationLib=serde, parameters=of_serde),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
    )
    locations.set(entry, location)
    if not _says_all(schema):
        columns = TableSchema(
            id=0,
            fields=schema.fields,
            highest_field_id=schema.highest_field_id,
            partition_keys=schema.partition_keys,
        )
        parameters[SCHEMA] = columns.to_json()
    return entry


def _says_all(schema: TableSchema) -> bool:
    """Return whether the columns of an entry say all about those of the schema. A metastore folds the case of names."""
    last = (*(f for f in schema.fields if f.name not in schema.partition_keys), *schema.partition_fields)
    return last == schema.fields and all(f.name == f.name.lower() and _is_of_hive(f) for f in schema.fields)


def _is_of_hive(field: DataField) -> bool:
    try:
        return type_of_hive(hive_type_name(field.type).lower(), field.name) == field.type
    except InterbedError:
        return False


def _column(field: DataField) -> FieldSchema:
    return FieldSchema(name=field.name, type=hive_type_name(field.type), comment=field.description)


class MetastoreRegister:
    """PartitionRegister of a table of a metastore; `to_path` makes a path of a location.

    `keys` are the table's names of its partition columns, whose case a metastore folds.
    """

    def __init__(
        self,
        client: HiveMetastoreClient,
        identifier: Identifier,
        entry: Any,
        locations: Locations,
        to_path: Any,
        keys: Sequence[str],
    ) -> None:
        self._client = client
        self._identifier = identifier
        self._entry = entry
        self._keys = tuple(keys)
        self._locations = locations
        self._to_path = to_path

    def partitions(self) -> Iterable[tuple[Mapping[str, str], str, FormatDefinition | None]]:
        """Return values and directory of each registered partition, and its own format if it has one."""
        database, table = self._identifier.database, self._identifier.table
        names = self._client.get_partition_names(database, table)
        for entry in self._client.get_partitions_by_names(database, table, names):
            spec = dict(zip(self._keys, entry.values, strict=True))
            yield spec, self._to_path(self._locations.of(entry)), self._own_definition(entry, spec)

    def _own_definition(self, partition: Any, spec: Mapping[str, str]) -> FormatDefinition | None:
        """Return the definition of a partition whose files are not of the table's format; None for all others."""
        table = self._entry
        if is_created_as_format_table(table) or _syntax_of(partition.sd) == _syntax_of(table.sd):
            return None
        alike = copy.copy(table)
        alike.sd = copy.copy(partition.sd)
        # Columns of text files have the places of the table's, those of other files their names.
        alike.sd.cols = table.sd.cols
        if _format_of(alike) is None:
            shown = ", ".join(f"{key}={value}" for key, value in spec.items())
            raise NotSupportedError(
                f"The partition {shown} of '{self._identifier}' has the SerDe "
                f"'{partition.sd.serdeInfo.serializationLib}', whose files are not read here; read the table by Hive."
            )
        own, whole = definition_of(self._identifier, alike), definition_of(self._identifier, table)
        return None if (own.file_format, own.syntax) == (whole.file_format, whole.syntax) else own

    def add(self, partitions: Sequence[FormatPartition]) -> None:
        """Register partitions; those that are registered stay as they are."""
        now = int(time.time())
        made = [self._new(each, now) for each in partitions]
        if made:
            self._client.add_partitions(self._identifier.database, self._identifier.table, made, if_not_exists=True)

    def _new(self, partition: FormatPartition, now: int) -> HivePartition:
        found = HivePartition(
            values=list(partition.spec.values()),
            dbName=self._identifier.database,
            tableName=self._identifier.table,
            createTime=now,
            lastAccessTime=now,
            sd=copy.copy(self._entry.sd),
            parameters={},
        )
        table = self._to_path(self._locations.of(self._entry)).rstrip("/")
        relative = partition.location.removeprefix(table)
        self._locations.set(found, f"{self._locations.of(self._entry).rstrip('/')}{relative}")
        return found

    def remove(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Remove partitions from the register; missing ones are no error."""
        for spec in specs:
            self._client.drop_partition(self._identifier.database, self._identifier.table, list(spec.values()))
