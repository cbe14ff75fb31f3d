"""Notification events: what changed, recorded in the transaction that changed it.

A unit of work that changes metadata appends at least one event, as its last step: appending takes the
log's counter, which others wait for until the transaction ends, so that ids are dense and become visible in order.
The log is therefore also the generation of all metadata: a cache that has seen event n is up to date as long as
`Transaction.events.current()` is n; otherwise it drops what `Transaction.events.touched(n)` names.

An event holds values, not text: the server makes Hive's JSON message of them when a client reads the log
(thrift/structs/event_messages.py). Only the builders below make them; each takes the values before and after a change.
Statistics are given as plain dictionaries with the field names of Hive's ColumnStatistics structure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interbed.catalog.server.service.model import (
    Constraint,
    ConstraintKind,
    Function,
    MetastoreCatalog,
    MetastoreDatabase,
    MetastorePartition,
    MetastoreTable,
)


class EventType(StrEnum):
    """The types of Hive's notification log that interbed writes."""

    CREATE_CATALOG = "CREATE_CATALOG"
    ALTER_CATALOG = "ALTER_CATALOG"
    DROP_CATALOG = "DROP_CATALOG"
    CREATE_DATABASE = "CREATE_DATABASE"
    ALTER_DATABASE = "ALTER_DATABASE"
    DROP_DATABASE = "DROP_DATABASE"
    CREATE_TABLE = "CREATE_TABLE"
    ALTER_TABLE = "ALTER_TABLE"
    DROP_TABLE = "DROP_TABLE"
    ADD_PARTITION = "ADD_PARTITION"
    ALTER_PARTITION = "ALTER_PARTITION"
    DROP_PARTITION = "DROP_PARTITION"
    CREATE_FUNCTION = "CREATE_FUNCTION"
    DROP_FUNCTION = "DROP_FUNCTION"
    INSERT = "INSERT"
    ADD_PRIMARYKEY = "ADD_PRIMARYKEY"
    ADD_FOREIGNKEY = "ADD_FOREIGNKEY"
    ADD_UNIQUECONSTRAINT = "ADD_UNIQUECONSTRAINT"
    ADD_NOTNULLCONSTRAINT = "ADD_NOTNULLCONSTRAINT"
    ADD_DEFAULTCONSTRAINT = "ADD_DEFAULTCONSTRAINT"
    ADD_CHECKCONSTRAINT = "ADD_CHECKCONSTRAINT"
    DROP_CONSTRAINT = "DROP_CONSTRAINT"
    UPDATE_TABLE_COLUMN_STAT = "UPDATE_TABLE_COLUMN_STAT"
    UPDATE_PARTITION_COLUMN_STAT = "UPDATE_PARTITION_COLUMN_STAT"
    DELETE_TABLE_COLUMN_STAT = "DELETE_TABLE_COLUMN_STAT"
    DELETE_PARTITION_COLUMN_STAT = "DELETE_PARTITION_COLUMN_STAT"


_CONSTRAINT_TYPES = {
    ConstraintKind.PRIMARY_KEY: EventType.ADD_PRIMARYKEY,
    ConstraintKind.FOREIGN_KEY: EventType.ADD_FOREIGNKEY,
    ConstraintKind.UNIQUE: EventType.ADD_UNIQUECONSTRAINT,
    ConstraintKind.NOT_NULL: EventType.ADD_NOTNULLCONSTRAINT,
    ConstraintKind.DEFAULT: EventType.ADD_DEFAULTCONSTRAINT,
    ConstraintKind.CHECK: EventType.ADD_CHECKCONSTRAINT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBody:
    """The values that an event is about; its type decides which are present. `details` is plain JSON."""

    catalog: MetastoreCatalog | None = None
    catalog_before: MetastoreCatalog | None = None
    database: MetastoreDatabase | None = None
    database_before: MetastoreDatabase | None = None
    table: MetastoreTable | None = None
    table_before: MetastoreTable | None = None
    partitions: tuple[MetastorePartition, ...] = ()
    partitions_before: tuple[MetastorePartition, ...] = ()
    function: Function | None = None
    constraints: tuple[Constraint, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationEvent:
    """One entry of the log. The log assigns `id` and, unless it is given, `time` (seconds since the epoch).

    `catalog`, `database` and `table` name the object after the change; `previous` is the former name of a renamed
    table, as (catalog, database, table).
    """

    id: int = 0
    time: int = 0
    type: str
    catalog: str | None
    database: str | None = None
    table: str | None = None
    previous: tuple[str, str, str] | None = None
    body: EventBody = field(default_factory=EventBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedName:
    """The names of an object that one event changed, for caches. A rename gives two entries of the same id, the old
    name first.
    """

    id: int
    type: str
    catalog: str | None
    database: str | None
    table: str | None


def create_catalog(catalog: MetastoreCatalog) -> NotificationEvent:
    """Event of the creation of a catalog."""
    return NotificationEvent(type=EventType.CREATE_CATALOG, catalog=catalog.name, body=EventBody(catalog=catalog))


def alter_catalog(before: MetastoreCatalog, after: MetastoreCatalog) -> NotificationEvent:
    """Event of a change of a catalog."""
    return NotificationEvent(
        type=EventType.ALTER_CATALOG, catalog=after.name, body=EventBody(catalog=after, catalog_before=before)
    )


def drop_catalog(catalog: MetastoreCatalog) -> NotificationEvent:
    """Event of the drop of a catalog."""
    return NotificationEvent(type=EventType.DROP_CATALOG, catalog=catalog.name, body=EventBody(catalog=catalog))


def create_database(database: MetastoreDatabase) -> NotificationEvent:
    """Event of the creation of a database."""
    return _of_database(EventType.CREATE_DATABASE, database, EventBody(database=database))


def alter_database(before: MetastoreDatabase, after: MetastoreDatabase) -> NotificationEvent:
    """Event of a change of a database."""
    return _of_database(EventType.ALTER_DATABASE, after, EventBody(database=after, database_before=before))


def drop_database(database: MetastoreDatabase) -> NotificationEvent:
    """Event of the drop of a database; a drop_table event for each of its tables comes before it."""
    return _of_database(EventType.DROP_DATABASE, database, EventBody(database=database))


def create_table(table: MetastoreTable) -> NotificationEvent:
    """Event of the creation of a table or view."""
    return _of_table(EventType.CREATE_TABLE, table, EventBody(table=table))


def alter_table(before: MetastoreTable, after: MetastoreTable, *, truncated: bool = False) -> NotificationEvent:
    """Event of a change, a rename, or a truncation (`truncated`) of a table."""
    old = (before.catalog, before.database, before.name)
    new = (after.catalog, after.database, after.name)
    return NotificationEvent(
        type=EventType.ALTER_TABLE,
        catalog=after.catalog,
        database=after.database,
        table=after.name,
        previous=None if old == new else old,
        body=EventBody(table=after, table_before=before, details={"truncated": True} if truncated else {}),
    )


def drop_table(table: MetastoreTable) -> NotificationEvent:
    """Event of the drop of a table, with its partitions, statistics and constraints."""
    return _of_table(EventType.DROP_TABLE, table, EventBody(table=table))


def add_partition(table: MetastoreTable, partitions: Sequence[MetastorePartition]) -> NotificationEvent:
    """Event of partitions that one call added to a table."""
    return _of_table(EventType.ADD_PARTITION, table, EventBody(table=table, partitions=tuple(partitions)))


def alter_partition(
    table: MetastoreTable, before: MetastorePartition, after: MetastorePartition, *, truncated: bool = False
) -> NotificationEvent:
    """Event of a change, a rename (other values), or a truncation (`truncated`) of one partition."""
    return _of_table(
        EventType.ALTER_PARTITION,
        table,
        EventBody(
            table=table,
            partitions=(after,),
            partitions_before=(before,),
            details={"truncated": True} if truncated else {},
        ),
    )


def drop_partition(table: MetastoreTable, partitions: Sequence[MetastorePartition]) -> NotificationEvent:
    """Event of partitions that one call dropped. Only their values are kept."""
    bare = tuple(MetastorePartition(values=partition.values) for partition in partitions)
    return _of_table(EventType.DROP_PARTITION, table, EventBody(table=table, partitions=bare))


def insert(
    table: MetastoreTable, partition: MetastorePartition | None, *, files: Sequence[str] = (), replace: bool = False
) -> NotificationEvent:
    """Event of data files that a client reports as written into a table, or into one partition of it."""
    return _of_table(
        EventType.INSERT,
        table,
        EventBody(
            table=table,
            partitions=() if partition is None else (partition,),
            details={"files": list(files), "replace": replace},
        ),
    )


def create_function(function: Function) -> NotificationEvent:
    """Event of the creation of a function."""
    return _of_function(EventType.CREATE_FUNCTION, function)


def drop_function(function: Function) -> NotificationEvent:
    """Event of the drop of a function. A change is recorded as drop and create: Hive's log has no change of
    a function.
    """
    return _of_function(EventType.DROP_FUNCTION, function)


def add_constraints(constraints: Sequence[Constraint]) -> NotificationEvent:
    """Event of constraints of one kind that were added to a table."""
    first = constraints[0]
    return NotificationEvent(
        type=_CONSTRAINT_TYPES[first.kind],
        catalog=first.catalog,
        database=first.database,
        table=first.table,
        body=EventBody(constraints=tuple(constraints)),
    )


def drop_constraint(constraint: Constraint) -> NotificationEvent:
    """Event of the drop of a constraint."""
    return NotificationEvent(
        type=EventType.DROP_CONSTRAINT,
        catalog=constraint.catalog,
        database=constraint.database,
        table=constraint.table,
        body=EventBody(constraints=(constraint,)),
    )


def update_table_column_statistics(
    table: MetastoreTable, statistics: Mapping[str, Any], *, before: MetastoreTable | None = None
) -> NotificationEvent:
    """Event of an update of column statistics of a table.

    `statistics` has the field names of Hive's ColumnStatistics: `{"statsDesc": {"isTblLevel": True, "dbName": …,
    "tableName": …, "catName": …}, "statsObj": [{"colName": …, "colType": …, "statsData": {"longStats": {…}}}],
    "engine": "hive"}`; bytes as base64 text.
    """
    return _of_table(
        EventType.UPDATE_TABLE_COLUMN_STAT,
        table,
        EventBody(table=table, table_before=before, details={"statistics": dict(statistics)}),
    )


def update_partition_column_statistics(
    table: MetastoreTable, partition: MetastorePartition, statistics: Mapping[str, Any]
) -> NotificationEvent:
    """Event of an update of column statistics of one partition; `statistics` as for a table, with `partName` in
    statsDesc.
    """
    return _of_table(
        EventType.UPDATE_PARTITION_COLUMN_STAT,
        table,
        EventBody(table=table, partitions=(partition,), details={"statistics": dict(statistics)}),
    )


def delete_table_column_statistics(
    table: MetastoreTable, column: str | None, engine: str = "hive", *, before: MetastoreTable | None = None
) -> NotificationEvent:
    """Event of the deletion of the statistics of one column (of all if None) of a table."""
    return _of_table(
        EventType.DELETE_TABLE_COLUMN_STAT,
        table,
        EventBody(
            table=None if before is None else table,
            table_before=before,
            details={"column": column, "engine": engine},
        ),
    )


def delete_partition_column_statistics(
    table: MetastoreTable, partition: MetastorePartition, name: str, column: str | None, engine: str = "hive"
) -> NotificationEvent:
    """Event of the deletion of the statistics of one column (of all if None) of the partition called `name`."""
    return _of_table(
        EventType.DELETE_PARTITION_COLUMN_STAT,
        table,
        EventBody(
            partitions=(MetastorePartition(values=partition.values),),
            details={"column": column, "engine": engine, "partition": name},
        ),
    )


def _of_database(kind: EventType, database: MetastoreDatabase, body: EventBody) -> NotificationEvent:
    return NotificationEvent(type=kind, catalog=database.catalog, database=database.name, body=body)


def _of_table(kind: EventType, table: MetastoreTable, body: EventBody) -> NotificationEvent:
    return NotificationEvent(type=kind, catalog=table.catalog, database=table.database, table=table.name, body=body)


def _of_function(kind: EventType, function: Function) -> NotificationEvent:
    return NotificationEvent(
        type=kind, catalog=function.catalog, database=function.database, body=EventBody(function=function)
    )
