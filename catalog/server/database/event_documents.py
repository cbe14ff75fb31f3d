"""The bodies of notification events as they are stored: JSON, packed, for a partition's columns repeat its table's."""

import json
import zlib
from typing import Any

from interbed.catalog.server.database.documents import (
    constraint_document,
    constraint_from,
    database_document,
    database_from,
    function_document,
    function_from,
    partition_document,
    partition_from,
    table_document,
    table_from,
)
from interbed.catalog.server.service.events import EventBody
from interbed.catalog.server.service.model import Function, MetastoreCatalog, MetastoreDatabase, MetastoreTable

_PACKING = 1
"""zlib's quickest level: the log is written with every change and mostly never read."""


def packed_body(body: EventBody) -> bytes:
    """The bytes of an event's row."""
    fields: dict[str, Any] = {}
    for key, catalog in (("catalog", body.catalog), ("catalog_before", body.catalog_before)):
        if catalog is not None:
            fields[key] = [
                catalog.name,
                catalog.description,
                catalog.location,
                catalog.create_time,
                dict(catalog.parameters),
            ]
    for key, database in (("database", body.database), ("database_before", body.database_before)):
        if database is not None:
            fields[key] = [database.catalog, database.name, database_document(database)]
    for key, table in (("table", body.table), ("table_before", body.table_before)):
        if table is not None:
            fields[key] = [table.catalog, table.database, table.name, table.table_type, table_document(table)]
    for key, partitions in (("partitions", body.partitions), ("partitions_before", body.partitions_before)):
        if partitions:
            fields[key] = [partition_document(partition) for partition in partitions]
    if body.function is not None:
        function = body.function
        fields["function"] = [function.catalog, function.database, function.name, function_document(function)]
    if body.constraints:
        fields["constraints"] = [
            [each.catalog, each.database, each.table, each.name, int(each.kind), constraint_document(each)]
            for each in body.constraints
        ]
    if body.details:
        fields["details"] = dict(body.details)
    return zlib.compress(json.dumps(fields, separators=(",", ":")).encode(), _PACKING)


def unpacked_body(packed: bytes) -> EventBody:
    """The body that a row holds."""
    fields = json.loads(zlib.decompress(packed))
    return EventBody(
        catalog=_catalog(fields.get("catalog")),
        catalog_before=_catalog(fields.get("catalog_before")),
        database=_database(fields.get("database")),
        database_before=_database(fields.get("database_before")),
        table=_table(fields.get("table")),
        table_before=_table(fields.get("table_before")),
        partitions=tuple(partition_from(each) for each in fields.get("partitions", ())),
        partitions_before=tuple(partition_from(each) for each in fields.get("partitions_before", ())),
        function=_function(fields.get("function")),
        constraints=tuple(constraint_from(*each) for each in fields.get("constraints", ())),
        details=fields.get("details", {}),
    )


def _catalog(fields: Any) -> MetastoreCatalog | None:
    if fields is None:
        return None
    name, description, location, create_time, parameters = fields
    return MetastoreCatalog(
        name=name, description=description, location=location, create_time=create_time, parameters=parameters
    )


def _database(fields: Any) -> MetastoreDatabase | None:
    return None if fields is None else database_from(*fields)


def _table(fields: Any) -> MetastoreTable | None:
    return None if fields is None else table_from(*fields)


def _function(fields: Any) -> Function | None:
    return None if fields is None else function_from(*fields)
