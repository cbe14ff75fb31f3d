"""Registration of a table in a metastore, exactly as Paimon's Hive catalog registers it; and types by Hive's names.

Paimon, and Hive with Paimon's connector, recognise a table by its input and output format; the parameters are for
people. interbed adds one parameter, the pointer to the current snapshot. Columns have the names of Hive's types for
Paimon's: `array<struct<a:int,b:varchar(10)>>`. `type_of_hive` reads these names.

The location is in its own field, or with `location-in-properties` in the parameter `paimon_location`: for metastores
that would otherwise open an object store that they cannot reach. Then both are read, the parameter first, as Paimon
does.
"""

import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from interbed.catalog.client.hive.connection import current_user
from interbed.catalog.client.identifier import Identifier
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.arrow import data_type
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from interbed.storage.io.resolve import one_scheme
from interbed.storage.meta.options.format import TYPE, is_object_table
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.thrift_idl.hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor
from interbed.thrift_idl.hive_metastore.ttypes import Table as HiveTable

LOCATION_PARAMETER = "paimon_location"

_MAX_CHAR = 255
_MAX_VARCHAR = 65535

_PLAIN = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "tinyint",
    TypeRoot.SMALLINT: "smallint",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "bigint",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.DATE: "date",
    # Hive has no type for a time of day; Paimon's SerDe returns it as text.
    TypeRoot.TIME: "string",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamp with local time zone",
}

INPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
OUTPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
SERDE = "org.apache.paimon.hive.PaimonSerDe"
STORAGE_HANDLER = "org.apache.paimon.hive.PaimonStorageHandler"

VIRTUAL_VIEW = "VIRTUAL_VIEW"

_TRANSLATED = "TRANSLATED_TO_EXTERNAL"

CURRENT_SNAPSHOT = "interbed.current-snapshot-id"
"""Parameter that holds the id of the newest snapshot that an interbed writer made."""

COLUMN_CHANGES = "interbed.column-changes"
"""Property of a change of an entry: a JSON list of the name of each column before, and its name after or null. The
server's grants on columns follow it.
"""

MANAGED_AS = "interbed.managed-as"
"""Parameter of an entry that is external only during a rename: its usual table type."""

PARTITIONED_IN_METASTORE = "metastore.partitioned-table"

_RETENTION = 2**31 - 1
_COLUMN_COMMENT_MAX = 255
"""Metastores keep the comment of a column in 256 characters; those of partition keys and tables may be longer."""

_HIVE_PREFIX = "hive."
_ALWAYS_SYNCED = ("partition.expiration-time", "data-file.path-directory")
"""Options that other engines look for in the metastore even if the others are not copied."""
_FIXED_PARAMETERS = {"table_type": "PAIMON", "storage_handler": STORAGE_HANDLER}


@dataclass(frozen=True, slots=True)
class Locations:
    """Reader and writer of the locations of Database, Table and Partition structures."""

    in_parameters: bool = False

    def of_database(self, database: Any) -> str | None:
        """Return the location of a database; None when it has none."""
        return self._parameter(database) or database.locationUri or None

    def set_database(self, database: Any, location: str) -> None:
        """Set the location of a database."""
        if self.in_parameters:
            database.parameters = {**(database.parameters or {}), LOCATION_PARAMETER: location}
        else:
            database.locationUri = location

    def of(self, entry: Any) -> str:
        """Return the location of a table or partition; empty when it has none."""
        found = self._parameter(entry) or (entry.sd.location if entry.sd is not None else None)
        return found or ""

    def set(self, entry: Any, location: str) -> None:
        """Set the location of a table or partition, which has a storage descriptor."""
        if self.in_parameters:
            entry.parameters = {**(entry.parameters or {}), LOCATION_PARAMETER: location}
        else:
            entry.sd.location = location

    def _parameter(self, entry: Any) -> str | None:
        return (entry.parameters or {}).get(LOCATION_PARAMETER) if self.in_parameters else None


def same_location(left: str, right: str) -> bool:
    """Return whether two spellings name the same directory, such as `file:/x`, `file:///x` and `/x`, or `s3://b/x` and
    `s3a://b/x`.
    """
    return _plain(left) == _plain(right)


def _plain(location: str) -> str:
    path = location.rstrip("/")
    scheme, colon, rest = path.partition(":")
    if scheme == "file":
        return "/" + rest.lstrip("/")
    return f"{one_scheme(scheme)}:{rest}" if colon else path


def hive_type_name(data_type: DataType) -> str:
    """Return the name of the type in Hive, such as `array<struct<a:int,b:varchar(10)>>`."""
    match data_type:
        case AtomicType(root=TypeRoot.DECIMAL):
            return f"decimal({data_type.precision},{data_type.scale})"
        case AtomicType(root=TypeRoot.CHAR, length=length):
            return f"char({length})" if (length or 1) <= _MAX_CHAR else "string"
        case AtomicType(root=TypeRoot.VARCHAR, length=length):
            return f"varchar({length})" if (length or 1) <= _MAX_VARCHAR else "string"
        case AtomicType(root=root):
            return _PLAIN[root]
        case ArrayType(element=element):
            return f"array<{hive_type_name(element)}>"
        case MapType(key=key, value=value):
            return f"map<{hive_type_name(key)},{hive_type_name(value)}>"
        case MultisetType(element=element):
            return f"map<{hive_type_name(element)},int>"
        case RowType(fields=fields):
            inner = ",".join(f"{f.name}:{hive_type_name(f.type)}" for f in fields)
            return f"struct<{inner}>"
        case _:
            raise TypeError(f"Hive has no name for {data_type}.")


_EXTERNAL, _MANAGED = "EXTERNAL_TABLE", "MANAGED_TABLE"


def check_columns(schema: TableSchema) -> None:
    """Raise InvalidInputError for columns that a metastore can't distinguish, because it ignores the case of names."""
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInputError(
                f"The columns {other!r} and {name!r} differ in case only, which a Hive metastore does not distinguish."
            )


def is_ours(table: HiveTable) -> bool:
    """Return whether the metastore's table is in Paimon's format."""
    sd = table.sd
    return bool(sd is not None and sd.inputFormat == INPUT_FORMAT and sd.outputFormat == OUTPUT_FORMAT)


def is_of_iceberg(table: HiveTable) -> bool:
    """Return whether it is an Iceberg table, by the parameter that Iceberg's catalogs use."""
    return str((table.parameters or {}).get("table_type", "")).upper() == "ICEBERG"


def is_of_flink(table: HiveTable) -> bool:
    """Return whether Flink keeps a table of one of its connectors here. Its entry is that of a table of text files."""
    given = table.parameters or {}
    connectors = {given.get("flink.connector", "hive"), given.get("flink.connector.type", "hive")}
    return given.get("is_generic", "").lower() == "true" or connectors != {"hive"}


def is_view(table: HiveTable) -> bool:
    """Return whether the metastore's entry is a view."""
    return bool(table.tableType == VIRTUAL_VIEW)


def is_external(table: HiveTable) -> bool:
    """Return whether dropping the table leaves its files alone.

    Hive 4 registers a managed table without transactions as an external one that is purged when dropped: that is
    managed here.
    """
    parameters = table.parameters or {}
    if MANAGED_AS in parameters or all(_is_true(parameters, key) for key in (_TRANSLATED, "external.table.purge")):
        return False
    return table.tableType == _EXTERNAL or _is_true(parameters, "EXTERNAL")


def make_external(table: HiveTable) -> None:
    """Make an entry external until make_managed: metastores do not move the files of external tables.

    `is_external` still returns False for it.
    """
    parameters = table.parameters or {}
    managed_as = _TRANSLATED if _is_true(parameters, _TRANSLATED) else _MANAGED
    others = {name: value for name, value in parameters.items() if name != _TRANSLATED}
    table.parameters = {**others, "EXTERNAL": "TRUE", MANAGED_AS: managed_as}
    table.tableType = _EXTERNAL


def make_managed(table: HiveTable) -> bool:
    """Undo make_external; return False when there is nothing to undo."""
    parameters = dict(table.parameters or {})
    managed_as = parameters.pop(MANAGED_AS, None)
    if managed_as is None:
        return False
    if managed_as == _TRANSLATED:
        parameters[_TRANSLATED] = "TRUE"
    else:
        parameters.pop("EXTERNAL", None)
        table.tableType = managed_as
    table.parameters = parameters
    return True


def _is_true(parameters: Mapping[str, str], name: str) -> bool:
    return parameters.get(name, "").upper() == "TRUE"


def wants_external(schema: TableSchema) -> bool:
    """Return whether the table's own options ask for an external table, as Hive spells it."""
    return (schema.options.get("external") or schema.options.get("EXTERNAL") or "").upper() == "TRUE"


def is_partitioned_in_metastore(schema: TableSchema) -> bool:
    """Return whether the table's partitions are to be registered in the metastore."""
    return bool(schema.partition_keys) and schema.core.boolean(PARTITIONED_IN_METASTORE, False)


def new_hive_table(
    identifier: Identifier,
    schema: TableSchema,
    location: str,
    *,
    external: bool,
    sync_properties: bool,
    locations: Locations,
) -> HiveTable:
    """Return the metastore's entry for a new table."""
    now = int(time.time())
    parameters = dict(_FIXED_PARAMETERS)
    if external:
        parameters["EXTERNAL"] = "TRUE"
    table = HiveTable(
        tableName=identifier.table,
        dbName=identifier.database,
        owner=current_user(),
        createTime=now,
        lastAccessTime=now,
        retention=_RETENTION,
        partitionKeys=partition_columns(schema),
        parameters=parameters,
        tableType=_EXTERNAL if external else _MANAGED,
        sd=StorageDescriptor(
            cols=[],
            compressed=False,
            numBuckets=0,
            serdeInfo=SerDeInfo(serializationLib=SERDE, parameters={}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
    )
    locations.set(table, location)
    return with_schema(table, schema, previous=None, sync_properties=sync_properties)


def with_schema(
    table: HiveTable, schema: TableSchema, *, previous: TableSchema | None, sync_properties: bool
) -> HiveTable:
    """Return the entry updated to a version of the schema; options of the previous version are removed.

    Partition keys stay as they were created, because no metastore lets them change.
    """
    parameters: dict[str, str] = dict(table.parameters or {})
    if previous is not None:
        for key in synced_properties(previous, everything=sync_properties):
            parameters.pop(key, None)
    parameters.update(synced_properties(schema, everything=sync_properties))
    parameters.update(_FIXED_PARAMETERS)
    parameters.pop("comment", None)
    if schema.comment is not None:
        parameters["comment"] = schema.comment
    table.parameters = parameters
    keys = {key.name.lower(): key for key in table.partitionKeys or ()}
    for field in schema.partition_fields:
        if field.name.lower() in keys:
            keys[field.name.lower()].comment = field.description
    # In the generated structures every field may be missing.
    storage: Any = table.sd
    storage.cols = plain_columns(schema, keys)
    storage.inputFormat, storage.outputFormat = INPUT_FORMAT, OUTPUT_FORMAT
    storage.serdeInfo.serializationLib = SERDE
    return table


def plain_columns(schema: TableSchema, keys: Collection[str]) -> list[Any]:
    """Return the columns of the schema without the entry's partition keys, which are given in lower case."""
    return [_column(f, comment_max=_COLUMN_COMMENT_MAX) for f in schema.fields if f.name.lower() not in keys]


def partition_columns(schema: TableSchema) -> list[FieldSchema]:
    """Return the partition keys of a new entry."""
    return [_column(f) for f in schema.partition_fields] if is_partitioned_in_metastore(schema) else []


def same_columns(left: Iterable[Any], right: Iterable[Any]) -> bool:
    """Return whether the columns have equal names, types and comments, as far as a metastore keeps them."""
    return [_identity(c) for c in left] == [_identity(c) for c in right]


def column_changes(entry: Any, previous: TableSchema, schema: TableSchema) -> str | None:
    """Return the value of COLUMN_CHANGES for the change of an entry from one schema to another, by the ids of their
    fields; None if all columns keep their names, or if the entry is not that of the previous schema.
    """
    keys = {key.name.lower() for key in entry.partitionKeys or ()}
    columns = [column.name.lower() for column in entry.sd.cols]
    if columns != [column.name.lower() for column in plain_columns(previous, keys)]:
        return None
    ids = {field.name.lower(): field.id for field in previous.fields}
    names = {field.id: field.name.lower() for field in schema.fields}
    listed = [*columns, *(key.name.lower() for key in entry.partitionKeys or ())]
    pairs = [(name, names.get(ids[name])) for name in listed if name in ids]
    if len(pairs) != len(listed) or all(before == after for before, after in pairs):
        return None
    return json.dumps(pairs)


def differences(entry: Any, schema: TableSchema, *, everything: bool) -> list[str]:
    """Return the differences of the metastore's entry from the schema; `everything` as in synced_properties."""
    parameters: Mapping[str, str] = entry.parameters or {}
    keys = {key.name.lower() for key in entry.partitionKeys or ()}
    wanted = synced_properties(schema, everything=everything)
    differing = [f"property {k}" for k, v in sorted(wanted.items()) if parameters.get(k) != v]
    if not same_columns(plain_columns(schema, keys), entry.sd.cols):
        differing.insert(0, "columns")
    if parameters.get("comment") != schema.comment:
        differing.append("comment")
    return differing


def synced_properties(schema: TableSchema, *, everything: bool) -> Mapping[str, str]:
    """Return the parameters of the table's options: all of them and the keys with `sync-all-properties`.

    Otherwise only those for Hive, which have the prefix `hive.` in the options of a table and none in the metastore.
    """
    if not everything:
        always = (*_ALWAYS_SYNCED, TYPE) if is_object_table(schema.options) else _ALWAYS_SYNCED
        properties = {k.removeprefix(_HIVE_PREFIX): v for k, v in schema.options.items() if k.startswith(_HIVE_PREFIX)}
        return {**properties, **{k: schema.options[k] for k in always if k in schema.options}}
    properties = dict(schema.options)
    for key, names in (
        ("primary-key", schema.primary_keys),
        ("partition", schema.partition_keys),
        ("bucket-key", schema.bucket_keys),
    ):
        if names:
            properties[key] = ",".join(names)
    return properties


def _column(field: DataField, comment_max: int | None = None) -> FieldSchema:
    comment = field.description
    if comment is not None and comment_max is not None:
        comment = comment.replace("\n", " ").replace("\r", " ")
        if len(comment) > comment_max:
            comment = comment[: comment_max - 3] + "..."
    return FieldSchema(name=field.name, type=hive_type_name(field.type), comment=comment)


def _identity(column: Any) -> tuple[str, str, str]:
    return column.name.lower(), column.type.lower(), column.comment or ""


_PAIMON_NAMES = {
    "binary": "BYTES",
    "timestamp with local time zone": "TIMESTAMP_LTZ(6)",
    "timestamplocaltz": "TIMESTAMP_LTZ(6)",
    "timestamp": "TIMESTAMP(6)",
    "decimal": "DECIMAL(10, 0)",
}


def paimon_type(hive_name: str) -> str:
    """Return the text of Paimon's type by its name in Hive: `ROW<`a` INT>` for `struct<a:int>`."""
    text = hive_name.strip()
    name, bracket, rest = text.partition("<")
    if not bracket or not rest.endswith(">"):
        return _PAIMON_NAMES.get(text.lower(), text)
    parts = _split(rest[:-1])
    if name.lower() != "struct":
        return f"{name}<{', '.join(map(paimon_type, parts))}>"
    fields = (part.partition(":") for part in parts)
    return f"ROW<{', '.join(f'`{field.strip()}` {paimon_type(of)}' for field, _, of in fields)}>"


def type_of_hive(hive_name: str, column: str) -> DataType:
    """Return the type of a column of a metastore; raises NotSupportedError for one that Paimon lacks."""
    try:
        return data_type(paimon_type(hive_name))
    except InvalidInputError as error:
        raise NotSupportedError(f"The column {column!r} is of Hive's type {hive_name}, which is not read.") from error


def _split(text: str) -> list[str]:
    """Return the parts between the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
