"""JSON documents in the database's text columns, without the keys that have columns of their own.

Absent fields are left out and read back as the default, so that a field added to a value later needs no migration. The
text is compact JSON in ASCII: PostgreSQL's text holds no NUL character, and JSON escapes it.
"""

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec

from interbed.catalog.server.service.model import (
    Constraint,
    ConstraintKind,
    Function,
    MetastoreColumn,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
    QualifiedTableName,
    SerDe,
    Skew,
    StorageDescriptor,
    column_of,
)

_latest = threading.local()
"""The table whose document the thread wrote last, and the one that it read last, with their documents."""

_encode_bytes = msgspec.json.Encoder().encode
_encode_ascii = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


def compact_json(value: Any, *, has_floats: bool = False) -> str:
    """Return compact JSON in ASCII. msgspec takes a tenth of the time of the standard library, which escapes what is
    not ASCII, and writes floats that are not finite.
    """
    if not has_floats:
        with suppress(UnicodeEncodeError):
            # A lone surrogate has no UTF-8.
            found: bytes = _encode_bytes(value)
            if found.isascii():
                return found.decode("ascii")
    return _encode_ascii(value)


def name_text(name: tuple[str, str, str] | None) -> str | None:
    """Return the text of the name of a table: catalog, database and table with dots in between, or JSON if they have
    dots themselves, as names of Iceberg's clients may.
    """
    if name is None:
        return None
    text = ".".join(name)
    return text if text.count(".") == len(name) - 1 else compact_json(name)


def name_from(text: str | None) -> tuple[str, str, str] | None:
    """Return the name of a table from its text."""
    if text is None:
        return None
    # The name of a catalog has no brackets.
    catalog, database, table = json.loads(text) if text.startswith("[") else text.split(".")
    return catalog, database, table


def database_document(database: MetastoreDatabase) -> str:
    """Return the document of a database: all of it but catalog and name."""
    return compact_json(
        _present(
            description=database.description,
            location=database.location,
            managed_location=database.managed_location,
            parameters=dict(database.parameters),
            owner_name=database.owner_name,
            owner_type=database.owner_type,
            create_time=database.create_time,
            made=list(database.made),
        )
    )


@lru_cache(maxsize=256)
def database_from(catalog: str, name: str, document: str) -> MetastoreDatabase:
    """Return the database of a row, which each call about one of its tables reads."""
    fields = json.loads(document)
    fields["made"] = tuple(fields.get("made", ()))
    return MetastoreDatabase(catalog=catalog, name=name, **fields)


def table_document(table: MetastoreTable) -> str:
    """Return the document of a table: all of it but catalog, database, name and type. It is written once for a table
    and its event. The document of the table that was read last is the one that was read.
    """
    if getattr(_latest, "read", None) is table:
        read: str = _latest.read_document
        return read
    if getattr(_latest, "table", None) is not table:
        _latest.document = _table_document(table)
        _latest.table = table
    document: str = _latest.document
    return document


def _table_document(table: MetastoreTable) -> str:
    return compact_json(
        _present(
            owner=table.owner,
            create_time=table.create_time,
            last_access_time=table.last_access_time,
            retention=table.retention,
            storage=_storage_json(table.storage),
            partition_keys=[[key.name, key.type, key.comment] for key in table.partition_keys],
            parameters=dict(table.parameters),
            view_original_text=table.view_original_text,
            view_expanded_text=table.view_expanded_text,
            extra=dict(table.extra),
            number=table.number,
        )
    )


def found_table(catalog: str, database: str, name: str, table_type: str, document: str, number: int) -> MetastoreTable:
    """Return the table of a row that was found by its name. A change finds it twice: when it is prepared, and in its
    transaction.
    """
    table = _found(catalog, database, name, table_type, document, number)
    if table.number != number:
        _latest.read, _latest.read_document = table, document
    return table


def table_from(
    catalog: str, database: str, name: str, table_type: str, document: str, number: int | None = None
) -> MetastoreTable:
    """Return the table of a row."""
    fields = json.loads(document)
    fields["storage"] = _storage_from(fields.get("storage"))
    fields["partition_keys"] = _columns_from(fields.get("partition_keys", ()))
    # Tables that were created before numbers were stored use the id of their row.
    is_whole = "number" in fields
    number = fields.pop("number", number)
    table = MetastoreTable(
        catalog=catalog, database=database, name=name, table_type=table_type, number=number, **fields
    )
    if is_whole:
        _latest.read, _latest.read_document = table, document
    return table


_found = lru_cache(maxsize=256)(table_from)


def partition_document(partition: MetastorePartition) -> str:
    """Return the document of a whole partition."""
    return compact_json(
        _present(
            values=list(partition.values),
            create_time=partition.create_time,
            last_access_time=partition.last_access_time,
            storage=_storage_json(partition.storage),
            parameters=dict(partition.parameters),
        )
    )


def partition_from(document: str) -> MetastorePartition:
    """Return the partition of a row."""
    fields = json.loads(document)
    fields["values"] = tuple(fields.get("values", ()))
    fields["storage"] = _storage_from(fields.get("storage"))
    return MetastorePartition(**fields)


def function_document(function: Function) -> str:
    """Return the document of a function: all of it but catalog, database and name."""
    return compact_json(
        _present(
            class_name=function.class_name,
            owner_name=function.owner_name,
            owner_type=function.owner_type,
            create_time=function.create_time,
            function_type=function.function_type,
            resources=[list(resource) for resource in function.resources],
        )
    )


def function_from(catalog: str, database: str, name: str, document: str) -> Function:
    """Return the function of a row."""
    fields = json.loads(document)
    fields["resources"] = tuple((kind, uri) for kind, uri in fields.get("resources", ()))
    return Function(catalog=catalog, database=database, name=name, **fields)


def constraint_document(constraint: Constraint) -> str:
    """Return the document of a constraint: all of it but the table, the name and the kind."""
    parent = constraint.parent
    return compact_json(
        _present(
            columns=list(constraint.columns),
            enabled=constraint.enabled or None,
            validated=constraint.validated or None,
            relied=constraint.relied or None,
            expression=constraint.expression,
            parent=None if parent is None else [parent.catalog, parent.database, parent.table],
            parent_columns=list(constraint.parent_columns),
            parent_key=constraint.parent_key,
            update_rule=constraint.update_rule or None,
            delete_rule=constraint.delete_rule or None,
        )
    )


def constraint_from(catalog: str, database: str, table: str, name: str, kind: int, document: str) -> Constraint:
    """Return the constraint of a row."""
    fields = json.loads(document)
    fields["columns"] = tuple(fields.get("columns", ()))
    fields["parent_columns"] = tuple(fields.get("parent_columns", ()))
    if "parent" in fields:
        parent_catalog, parent_database, parent_table = fields["parent"]
        fields["parent"] = QualifiedTableName(catalog=parent_catalog, database=parent_database, table=parent_table)
    return Constraint(catalog=catalog, database=database, table=table, name=name, kind=ConstraintKind(kind), **fields)


def _present(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None and value != {} and value != []}


def _storage_json(storage: StorageDescriptor | None) -> dict[str, Any] | None:
    if storage is None:
        return None
    serde = storage.serde
    skew = storage.skew
    # An empty storage descriptor differs from none: the key is written even if its value is empty.
    return {"present": True} | _present(
        columns=[[column.name, column.type, column.comment] for column in storage.columns],
        location=storage.location,
        input_format=storage.input_format,
        output_format=storage.output_format,
        compressed=storage.compressed or None,
        bucket_count=storage.bucket_count or None,
        serde=None
        if serde is None
        else {"present": True}
        | _present(
            name=serde.name,
            library=serde.library,
            parameters=None if serde.parameters is None else dict(serde.parameters) or None,
            extra=dict(serde.extra),
        ),
        bucket_columns=list(storage.bucket_columns),
        sort_columns=[list(order) for order in storage.sort_columns],
        parameters=None if storage.parameters is None else dict(storage.parameters),
        skew=None
        if skew is None
        else {
            "columns": list(skew.columns),
            "values": [list(values) for values in skew.values],
            "locations": [[list(values), location] for values, location in skew.locations],
        },
        stored_as_sub_directories=storage.stored_as_sub_directories,
        has_columns=None if storage.has_columns else False,
    )


def _storage_from(fields: Mapping[str, Any] | None) -> StorageDescriptor | None:
    if fields is None:
        return None
    serde = fields.get("serde")
    skew = fields.get("skew")
    return StorageDescriptor(
        columns=_columns_from(fields.get("columns", ())),
        location=fields.get("location"),
        input_format=fields.get("input_format"),
        output_format=fields.get("output_format"),
        compressed=fields.get("compressed", False),
        bucket_count=fields.get("bucket_count", 0),
        serde=None
        if serde is None
        else SerDe(
            name=serde.get("name"),
            library=serde.get("library"),
            parameters=serde.get("parameters", {}),
            extra=serde.get("extra", {}),
        ),
        bucket_columns=tuple(fields.get("bucket_columns", ())),
        sort_columns=tuple((name, order) for name, order in fields.get("sort_columns", ())),
        parameters=fields.get("parameters", {}),
        skew=None
        if skew is None
        else Skew(
            columns=tuple(skew["columns"]),
            values=tuple(tuple(values) for values in skew["values"]),
            locations=tuple((tuple(values), location) for values, location in skew["locations"]),
        ),
        stored_as_sub_directories=fields.get("stored_as_sub_directories"),
        has_columns=fields.get("has_columns", True),
    )


def _columns_from(columns: Any) -> tuple[MetastoreColumn, ...]:
    return tuple([column_of(name, column_type, comment) for name, column_type, comment in columns])
