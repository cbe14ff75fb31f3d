"""Conversion of an event to its message in Hive's notification log, format `json-0.2`.

A message is a JSON object; the event's type decides which fields it has. Objects in it are texts of their own: Thrift
structures as Thrift's TJSONProtocol writes them, so that every consumer reads them with its own generated classes.
Thrift's own writer does that byte by byte; `to_json` builds a tree of the fields and calls json once. A struct is
`{"<number>": {"<type>": value}}`, a list `["<type>", size, …]`, a map `["<key type>", "<value type>", size, {…}]`; keys
of maps are text.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thrift.Thrift import TType

from interbed.catalog.server.service.events import EventBody, EventType, NotificationEvent
from interbed.catalog.server.service.model import (
    ConstraintKind,
    Function,
    MetastoreCatalog,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
)
from interbed.catalog.server.thrift.structs import convert
from interbed.catalog.server.thrift.structs.table_parts import constraints_to_thrift
from interbed.thrift_idl.hive_metastore import ttypes

_NAMES = {
    TType.BOOL: "tf",
    TType.BYTE: "i8",
    TType.I16: "i16",
    TType.I32: "i32",
    TType.I64: "i64",
    TType.DOUBLE: "dbl",
    TType.STRING: "str",
    TType.STRUCT: "rec",
    TType.LIST: "lst",
    TType.SET: "set",
    TType.MAP: "map",
}

MESSAGE_FORMAT = "json-0.2"

_CONSTRAINT_FIELDS = {
    ConstraintKind.PRIMARY_KEY: "primaryKeyListJson",
    ConstraintKind.FOREIGN_KEY: "foreignKeyListJson",
    ConstraintKind.UNIQUE: "uniqueConstraintListJson",
    ConstraintKind.NOT_NULL: "notNullConstraintListJson",
    ConstraintKind.DEFAULT: "defaultConstraintListJson",
    ConstraintKind.CHECK: "checkConstraintListJson",
}


def to_json(structure: Any) -> str:
    """Return the text of a structure."""
    return json.dumps(_struct(structure), separators=(",", ":"), ensure_ascii=False)


def from_names(cls: Any, values: Mapping[str, Any]) -> Any:
    """Return the structure that a mapping from names of fields describes; bytes in it are base64 text. Unknown names
    are ignored.
    """
    structure = cls()
    for field in cls.thrift_spec or ():
        if field is not None and values.get(field[2]) is not None:
            setattr(structure, field[2], _from_plain(field[1], field[3], values[field[2]]))
    return structure


def _struct(structure: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field in structure.thrift_spec or ():
        if field is None:
            continue
        value = getattr(structure, field[2])
        if value is not None:
            fields[str(field[0])] = {_NAMES[field[1]]: _value(field[1], field[3], value)}
    return fields


def _value(kind: int, detail: Any, value: Any) -> Any:
    if kind == TType.STRUCT:
        return _struct(value)
    if kind in (TType.LIST, TType.SET):
        return [_NAMES[detail[0]], len(value), *(_value(detail[0], detail[1], each) for each in value)]
    if kind == TType.MAP:
        # A list as a key (the locations of skewed values) has no form in JSON: Thrift's own readers fail on it.
        entries = value.items() if detail[0] != TType.LIST else ()
        pairs = {str(key): _value(detail[2], detail[3], each) for key, each in entries}
        return [_NAMES[detail[0]], _NAMES[detail[2]], len(pairs), pairs]
    if kind == TType.BOOL:
        return 1 if value else 0
    if kind == TType.STRING and isinstance(value, bytes):
        # Thrift's JSON has no padding at the end of binaries.
        return base64.b64encode(value).decode().rstrip("=")
    if kind == TType.DOUBLE and value != value:
        return "NaN"
    if kind == TType.DOUBLE and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _from_plain(kind: int, detail: Any, value: Any) -> Any:
    if kind == TType.STRUCT:
        return from_names(detail[0], value)
    if kind in (TType.LIST, TType.SET):
        return [_from_plain(detail[0], detail[1], each) for each in value]
    if kind == TType.MAP:
        return {key: _from_plain(detail[2], detail[3], each) for key, each in value.items()}
    if kind == TType.STRING and detail != "UTF8":
        return base64.b64decode(value)
    return value


def event_to_thrift(event: NotificationEvent) -> Any:
    """Return a NotificationEvent structure."""
    return ttypes.NotificationEvent(
        eventId=event.id,
        eventTime=event.time,
        eventType=event.type,
        dbName=event.database,
        tableName=event.table,
        message=message(event),
        messageFormat=MESSAGE_FORMAT,
        catName=event.catalog,
    )


def message(event: NotificationEvent) -> str:
    """Return the event's message."""
    write = _WRITERS.get(event.type)
    fields = {"server": "", "servicePrincipal": "", "timestamp": event.time}
    if write is not None:
        fields.update(write(event, event.body))
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def _catalog(event: NotificationEvent, _body: EventBody) -> dict[str, Any]:
    return {"catalog": event.catalog}


def _alter_catalog(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    return {
        "catalog": event.catalog,
        "catObjBeforeJson": _catalog_json(body.catalog_before),
        "catObjAfterJson": _catalog_json(body.catalog),
    }


def _database(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    return {"db": event.database, "dbJson": _database_json(body.database)}


def _alter_database(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    return {
        "db": event.database,
        "dbObjBeforeJson": _database_json(body.database_before),
        "dbObjAfterJson": _database_json(body.database),
    }


def _create_table(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    return {**_drop_table(event, body), "files": []}


def _drop_table(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    return {**_named(event, body.table), "tableObjJson": _table_json(body.table)}


def _alter_table(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    before = body.table_before
    return {
        "db": event.database if before is None else before.database,
        "table": event.table if before is None else before.name,
        "tableType": "" if before is None else before.table_type,
        "tableObjBeforeJson": _table_json(before),
        "tableObjAfterJson": _table_json(body.table),
        "isTruncateOp": _truncated(body),
        "writeId": -1,
    }


def _add_partition(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    return {
        **_drop_partition(event, body),
        "partitionListJson": [_partition_json(partition, body.table) for partition in body.partitions],
        "partitionFiles": [],
    }


def _alter_partition(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    before, after = _first(body.partitions_before), _first(body.partitions)
    return {
        **_drop_table(event, body),
        "isTruncateOp": _truncated(body),
        "keyValues": _key_values(body.table, before),
        "partitionObjBeforeJson": _partition_json(before, body.table),
        "partitionObjAfterJson": _partition_json(after, body.table),
        "writeId": -1,
    }


def _drop_partition(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    return {
        **_drop_table(event, body),
        "partitions": [_key_values(body.table, partition) for partition in body.partitions],
    }


def _insert(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    partition = _first(body.partitions)
    fields = {
        **_drop_table(event, body),
        "replace": "true" if body.details.get("replace") else "false",
        "files": list(body.details.get("files", ())),
    }
    return fields if partition is None else {**fields, "ptnObjJson": _partition_json(partition, body.table)}


def _create_function(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    return {"db": event.database, "functionObjJson": _function_json(body.function)}


def _drop_function(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    return {"db": event.database, "functionName": None if body.function is None else body.function.name}


def _add_constraint(_event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    rows = [to_json(row) for row in constraints_to_thrift(body.constraints)]
    return {_CONSTRAINT_FIELDS[body.constraints[0].kind]: rows} if body.constraints else {}


def _drop_constraint(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    name = body.constraints[0].name if body.constraints else None
    return {"dbName": event.database, "tableName": event.table, "constraintName": name}


def _update_table_statistics(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    statistics = from_names(ttypes.ColumnStatistics, body.details.get("statistics", {}))
    return {
        "db": event.database,
        "database": event.database,
        "colStatsJson": to_json(statistics),
        "parameters": {} if body.table is None else dict(body.table.parameters),
        "tableObjJson": _table_json(body.table),
        "writeId": -1,
    }


def _update_partition_statistics(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    partition = _first(body.partitions)
    return {
        **_update_table_statistics(event, body),
        "parameters": {} if partition is None else dict(partition.parameters),
        "partVals": [] if partition is None else list(partition.values),
    }


def _delete_table_statistics(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    return {
        "dbName": event.database,
        "tableName": event.table,
        "colName": body.details.get("column"),
        "engine": body.details.get("engine"),
    }


def _delete_partition_statistics(event: NotificationEvent, body: EventBody) -> dict[str, Any]:
    partition = _first(body.partitions)
    return {
        **_delete_table_statistics(event, body),
        "partName": body.details.get("partition"),
        "partValues": [] if partition is None else list(partition.values),
    }


_WRITERS: dict[str, Callable[[NotificationEvent, EventBody], dict[str, Any]]] = {
    EventType.CREATE_CATALOG: _catalog,
    EventType.ALTER_CATALOG: _alter_catalog,
    EventType.DROP_CATALOG: _catalog,
    EventType.CREATE_DATABASE: _database,
    EventType.ALTER_DATABASE: _alter_database,
    EventType.DROP_DATABASE: _database,
    EventType.CREATE_TABLE: _create_table,
    EventType.ALTER_TABLE: _alter_table,
    EventType.DROP_TABLE: _drop_table,
    EventType.ADD_PARTITION: _add_partition,
    EventType.ALTER_PARTITION: _alter_partition,
    EventType.DROP_PARTITION: _drop_partition,
    EventType.INSERT: _insert,
    EventType.CREATE_FUNCTION: _create_function,
    EventType.DROP_FUNCTION: _drop_function,
    EventType.ADD_PRIMARYKEY: _add_constraint,
    EventType.ADD_FOREIGNKEY: _add_constraint,
    EventType.ADD_UNIQUECONSTRAINT: _add_constraint,
    EventType.ADD_NOTNULLCONSTRAINT: _add_constraint,
    EventType.ADD_DEFAULTCONSTRAINT: _add_constraint,
    EventType.ADD_CHECKCONSTRAINT: _add_constraint,
    EventType.DROP_CONSTRAINT: _drop_constraint,
    EventType.UPDATE_TABLE_COLUMN_STAT: _update_table_statistics,
    EventType.UPDATE_PARTITION_COLUMN_STAT: _update_partition_statistics,
    EventType.DELETE_TABLE_COLUMN_STAT: _delete_table_statistics,
    EventType.DELETE_PARTITION_COLUMN_STAT: _delete_partition_statistics,
}


def _named(event: NotificationEvent, table: MetastoreTable | None) -> dict[str, Any]:
    return {"db": event.database, "table": event.table, "tableType": "" if table is None else table.table_type}


def _truncated(body: EventBody) -> str:
    return "true" if body.details.get("truncated") else "false"


def _first(partitions: Sequence[MetastorePartition]) -> MetastorePartition | None:
    return partitions[0] if partitions else None


def _key_values(table: MetastoreTable | None, partition: MetastorePartition | None) -> dict[str, str]:
    if table is None or partition is None:
        return {}
    return {key.name: value for key, value in zip(table.partition_keys, partition.values, strict=False)}


def _catalog_json(catalog: MetastoreCatalog | None) -> str | None:
    return None if catalog is None else to_json(convert.catalog_to_thrift(catalog))


def _database_json(database: MetastoreDatabase | None) -> str | None:
    return None if database is None else to_json(convert.database_to_thrift(database))


def _table_json(table: MetastoreTable | None) -> str | None:
    return None if table is None else to_json(convert.table_to_thrift(table))


def _partition_json(partition: MetastorePartition | None, table: MetastoreTable | None) -> str | None:
    return None if partition is None or table is None else to_json(convert.partition_to_thrift(partition, table))


def _function_json(function: Function | None) -> str | None:
    return None if function is None else to_json(convert.function_to_thrift(function))
