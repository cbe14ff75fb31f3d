"""The tables of the metastore: catalogs, databases, tables, partitions, functions, constraints, statistics; the
notification log, moves, locks and counters; scheduled queries. `Base` is the declarative base of all tables.

Times of locks are milliseconds since the epoch, all others are seconds.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# SQLite gives out row ids by itself only for a column of exactly the type INTEGER.
RowId = BigInteger().with_variant(Integer(), "sqlite")

# SQLite keeps the declaration of the first migration: it does not enforce the length of names, and changing it means a
# new table there.
TableName = String(256).with_variant(String(128), "sqlite")

# Places are compared by code points: those in a directory are a range.
PlaceText = Text().with_variant(Text(collation="C"), "postgresql")

# Constraints get predictable names, so that a migration can refer to them on every database.
_NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}

# Names and values are ordered by code points, as Hive orders them, whatever the collation of the database.
OrderedText = Text().with_variant(Text(collation="C"), "postgresql")

KEY_COLUMNS = 4
"""Partition keys that have a column and an index; those of further keys share one column."""


class Base(DeclarativeBase):
    """The metadata that migrations are compared with."""

    metadata = MetaData(naming_convention=_NAMING)


class CatalogRow(Base):
    """A catalog: a namespace of databases."""

    __tablename__ = "catalogs"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    description: Mapped[str | None] = mapped_column(Text)
    location: Mapped[str] = mapped_column(Text)
    create_time: Mapped[int] = mapped_column(BigInteger, default=0)
    parameters: Mapped[str | None] = mapped_column(Text)


class DatabaseRow(Base):
    """A database; the document holds parameters, description, owner and locations."""

    __tablename__ = "databases"
    __table_args__ = (
        UniqueConstraint("catalog", "name"),
        Index("ix_databases_place", "place"),
        Index("ix_databases_owner", "owner"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    catalog: Mapped[str] = mapped_column(ForeignKey("catalogs.name"))
    name: Mapped[str] = mapped_column(String(128))
    document: Mapped[str] = mapped_column(Text)
    place: Mapped[str | None] = mapped_column(PlaceText)
    owner: Mapped[str | None] = mapped_column(Text)


class TableRow(Base):
    """A table or view; the document holds its columns, storage and parameters. `kind` is a TableKind
    (service/model.py), NULL in rows of an older interbed that were not filled yet. `owner` is the text of a grantee
    (service/access/objects.py), as in the rows of databases and functions.
    """

    __tablename__ = "tables"
    __table_args__ = (
        UniqueConstraint("database_id", "name"),
        Index("ix_tables_place", "place"),
        Index("ix_tables_owner", "owner", "database_id"),
        # PostgreSQL's has the name with the collation "C" (database/schema.py). The type is there for lists by type.
        Index("ix_tables_kind", "database_id", "kind", "name", "table_type"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    database_id: Mapped[int] = mapped_column(ForeignKey("databases.id"))
    name: Mapped[str] = mapped_column(TableName)
    table_type: Mapped[str] = mapped_column(String(32))
    comment: Mapped[str | None] = mapped_column(Text)
    document: Mapped[str] = mapped_column(Text)
    place: Mapped[str | None] = mapped_column(PlaceText)
    kind: Mapped[int | None] = mapped_column(SmallInteger)
    owner: Mapped[str | None] = mapped_column(Text)


class LinkedPlaceRow(Base):
    """The target of a table's or partition's location that contains links, if it differs from the location."""

    __tablename__ = "linked_places"
    __table_args__ = (Index("ix_linked_places_place", "place"),)

    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True)
    partition_name: Mapped[str] = mapped_column(PlaceText, primary_key=True)
    place: Mapped[str] = mapped_column(PlaceText)


class FunctionRow(Base):
    """A user-defined function of a database."""

    __tablename__ = "functions"
    __table_args__ = (UniqueConstraint("database_id", "name"), Index("ix_functions_owner", "owner", "database_id"))

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    database_id: Mapped[int] = mapped_column(ForeignKey("databases.id"))
    name: Mapped[str] = mapped_column(String(128))
    document: Mapped[str] = mapped_column(Text)
    owner: Mapped[str | None] = mapped_column(Text)


class ConstraintRow(Base):
    """A constraint of a table. A foreign key also names the table that it refers to; it is deleted with either table.
    The document holds the columns and the client's other fields.
    """

    __tablename__ = "constraints"
    __table_args__ = (
        UniqueConstraint("table_id", "name"),
        Index("ix_constraints_parent_table_id", "parent_table_id"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"))
    parent_table_id: Mapped[int | None] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"))
    kind: Mapped[int] = mapped_column(SmallInteger)
    name: Mapped[str] = mapped_column(String(256))
    document: Mapped[str] = mapped_column(Text)


class PartitionSetRow(Base):
    """The partitions of one table. Their locations are relative to `location`: renaming a table changes this row alone.
    A set whose table was dropped has no table. It is emptied in batches, unless `dropped_id` is the dropped object
    that it belongs to. `place` is the normal form of the location, by which it is compared with others.
    """

    __tablename__ = "partition_sets"
    __table_args__ = (
        UniqueConstraint("table_id"),
        Index("ix_partition_sets_place", "place"),
        Index("ix_partition_sets_dropped_id", "dropped_id"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    table_id: Mapped[int | None] = mapped_column(ForeignKey("tables.id", ondelete="SET NULL"))
    location: Mapped[str | None] = mapped_column(Text)
    place: Mapped[str | None] = mapped_column(PlaceText)
    dropped_id: Mapped[int | None] = mapped_column(BigInteger)


class PartitionStorageRow(Base):
    """A storage descriptor without its location; partitions of a set that have the same one share it."""

    __tablename__ = "partition_storages"
    __table_args__ = (UniqueConstraint("set_id", "digest"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    set_id: Mapped[int] = mapped_column(ForeignKey("partition_sets.id"))
    digest: Mapped[str] = mapped_column(String(64))
    document: Mapped[str] = mapped_column(Text)


class PartitionRow(Base):
    """A partition; `name` is `key=value/…` with escaped values, which is unique and the order of listings.

    `key_0` … are the search forms of the first values (service/filters/tree.py), `more_keys` is a JSON list of the
    others'. `location` is absent for the directory of this name below the set's, begins with `./` if it is another one
    below the set's, and is a location of its own otherwise; only then there is a `place`, by which it is compared with
    others. `value_list` is a JSON list of the values if the name does not contain them.
    """

    __tablename__ = "partitions"
    __table_args__ = (
        UniqueConstraint("set_id", "name"),
        # Each key has an index that begins with it and holds the others: a filter on several keys is answered from the
        # index of any key that is compared with one value, without reading the rows.
        Index("ix_partitions_key_0", "set_id", "key_0", "key_1", "key_2", "key_3"),
        *(
            Index(
                f"ix_partitions_key_{number}",
                "set_id",
                f"key_{number}",
                *(f"key_{other}" for other in range(KEY_COLUMNS) if other != number),
                sqlite_where=text(f"key_{number} IS NOT NULL"),
                postgresql_where=text(f"key_{number} IS NOT NULL"),
            )
            for number in range(1, KEY_COLUMNS)
        ),
        Index(
            "ix_partitions_location",
            "set_id",
            sqlite_where=text("location IS NOT NULL"),
            postgresql_where=text("location IS NOT NULL"),
        ),
        Index(
            "ix_partitions_place",
            "place",
            "set_id",
            sqlite_where=text("place IS NOT NULL"),
            postgresql_where=text("place IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    set_id: Mapped[int] = mapped_column(ForeignKey("partition_sets.id"))
    storage_id: Mapped[int | None] = mapped_column(BigInteger)
    name: Mapped[str] = mapped_column(OrderedText)
    key_0: Mapped[str] = mapped_column(OrderedText)
    key_1: Mapped[str | None] = mapped_column(OrderedText)
    key_2: Mapped[str | None] = mapped_column(OrderedText)
    key_3: Mapped[str | None] = mapped_column(OrderedText)
    more_keys: Mapped[str | None] = mapped_column(Text)
    value_list: Mapped[str | None] = mapped_column(Text)
    location: Mapped[str | None] = mapped_column(Text)
    place: Mapped[str | None] = mapped_column(PlaceText)
    create_time: Mapped[int] = mapped_column(BigInteger)
    last_access_time: Mapped[int] = mapped_column(BigInteger)
    parameters: Mapped[str | None] = mapped_column(Text)


class PartitionMarkRow(Base):
    """An event that a client reported for a partition, which need not exist."""

    __tablename__ = "partition_marks"

    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(OrderedText, primary_key=True)
    event_type: Mapped[int] = mapped_column(primary_key=True)


class TableStatisticsRow(Base):
    """Statistics of a table's column; the document holds the numbers. Each engine has its own."""

    __tablename__ = "table_statistics"

    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True)
    engine: Mapped[str] = mapped_column(String(128), primary_key=True)
    column_name: Mapped[str] = mapped_column(Text, primary_key=True)
    column_type: Mapped[str] = mapped_column(Text)
    analyzed_at: Mapped[int] = mapped_column(BigInteger)
    document: Mapped[str] = mapped_column(Text)


class PartitionStatisticsRow(Base):
    """Statistics of a partition's column, likewise."""

    __tablename__ = "partition_statistics"
    __table_args__ = (Index("ix_partition_statistics_set_id", "set_id"),)

    partition_id: Mapped[int] = mapped_column(ForeignKey("partitions.id", ondelete="CASCADE"), primary_key=True)
    engine: Mapped[str] = mapped_column(String(128), primary_key=True)
    column_name: Mapped[str] = mapped_column(Text, primary_key=True)
    set_id: Mapped[int] = mapped_column(BigInteger)
    column_type: Mapped[str] = mapped_column(Text)
    analyzed_at: Mapped[int] = mapped_column(BigInteger)
    document: Mapped[str] = mapped_column(Text)


class EventRow(Base):
    """One change of metadata. The body is JSON packed with zlib; `previous` is the former name of a renamed table, as
    `catalog.database.table`.
    """

    __tablename__ = "events"
    __table_args__ = (Index("ix_events_time", "time"),)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    time: Mapped[int] = mapped_column(BigInteger)
    type: Mapped[str] = mapped_column(String(64))
    catalog: Mapped[str | None] = mapped_column(String(128))
    database: Mapped[str | None] = mapped_column(String(128))
    table: Mapped[str | None] = mapped_column(TableName)
    previous: Mapped[str | None] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(LargeBinary)


class HistoryRow(Base):
    """A change of an object, with its origin. `object_id` is the number of a table. The body is that of an event
    without secrets, JSON packed with zlib.
    """

    __tablename__ = "history"
    __table_args__ = (
        Index("ix_history_name", "database", "name"),
        Index("ix_history_object_id", "object_id"),
        # An id that was removed is never given to another change.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    time_millis: Mapped[int] = mapped_column(BigInteger)
    kind: Mapped[str] = mapped_column(String(16))
    change: Mapped[str] = mapped_column(String(64))
    catalog: Mapped[str | None] = mapped_column(String(128))
    database: Mapped[str | None] = mapped_column(String(128))
    name: Mapped[str | None] = mapped_column(String(256))
    object_id: Mapped[int | None] = mapped_column(BigInteger)
    principal: Mapped[str | None] = mapped_column(Text)
    interface: Mapped[str] = mapped_column(String(32))
    operation: Mapped[str | None] = mapped_column(Text)
    request_id: Mapped[str | None] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(LargeBinary)


class PropertyRow(Base):
    """A single value of the whole metastore, for instance its identity."""

    __tablename__ = "properties"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class MoveRow(Base):
    """A directory that is about to be renamed together with a table or a partition; removed once both have happened."""

    __tablename__ = "moves"
    __table_args__ = (Index("ix_moves_table_id", "table_id"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    table_id: Mapped[int] = mapped_column(ForeignKey("tables.id", ondelete="CASCADE"))
    partition_name: Mapped[str | None] = mapped_column(Text)
    old_location: Mapped[str] = mapped_column(Text)
    new_location: Mapped[str] = mapped_column(Text)


class DroppedObjectRow(Base):
    """A table, view or database that was dropped and can be put back, or the announcement of a drop.

    `document` is that of the table or database. `attached` is a JSON object with the rows of other tables that are put
    back with it. `aside` is the present place of its directory, `target` the one that it is being moved to.
    """

    __tablename__ = "dropped_objects"
    __table_args__ = (
        Index("ix_dropped_objects_name", "catalog", "database", "name"),
        Index("ix_dropped_objects_parent_id", "parent_id"),
        Index("ix_dropped_objects_state", "state", "expires_at"),
        # An id that was removed is never given to another entry.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    parent_id: Mapped[int | None] = mapped_column(BigInteger)
    catalog: Mapped[str] = mapped_column(String(128))
    database: Mapped[str] = mapped_column(String(128))
    name: Mapped[str | None] = mapped_column(String(256))
    kind: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16))
    dropped_at: Mapped[int] = mapped_column(BigInteger)
    expires_at: Mapped[int] = mapped_column(BigInteger)
    dropped_by: Mapped[str | None] = mapped_column(Text)
    location: Mapped[str | None] = mapped_column(Text)
    aside: Mapped[str | None] = mapped_column(Text)
    target: Mapped[str | None] = mapped_column(Text)
    table_type: Mapped[str | None] = mapped_column(String(32))
    document: Mapped[str | None] = mapped_column(Text)
    attached: Mapped[str | None] = mapped_column(Text)


class SequenceRow(Base):
    """Counters that must never skip back: the last value given out."""

    __tablename__ = "sequences"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[int] = mapped_column(BigInteger)


class LockRow(Base):
    """A lock held or waited for; times are milliseconds since the epoch.

    `components` is a document of all that the lock covers. `database_name` is set where that is in one database,
    `table_name` where it is one table of it: a lock is found by them, and one that has none may conflict with any. The
    names need not exist, so that nothing here refers to databases or tables. `processes` are the concatenated marks,
    all of one length, of the server's processes with an open connection that asked for the lock or renewed it;
    `orphaned_at_ms` is when the last of these connections broke.
    """

    __tablename__ = "locks"
    __table_args__ = (Index("ix_locks_database_name", "database_name", "table_name"),)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    state: Mapped[int] = mapped_column(SmallInteger)
    user_name: Mapped[str] = mapped_column(Text)
    host: Mapped[str] = mapped_column(Text)
    agent: Mapped[str] = mapped_column(Text)
    requested_at_ms: Mapped[int] = mapped_column(BigInteger)
    acquired_at_ms: Mapped[int | None] = mapped_column(BigInteger)
    heartbeat_at_ms: Mapped[int] = mapped_column(BigInteger)
    heartbeat_count: Mapped[int] = mapped_column(Integer, default=0)
    database_name: Mapped[str | None] = mapped_column(Text)
    table_name: Mapped[str | None] = mapped_column(Text)
    components: Mapped[str] = mapped_column(Text, server_default="[]")
    processes: Mapped[str] = mapped_column(Text, server_default="")
    orphaned_at_ms: Mapped[int | None] = mapped_column(BigInteger)


class ScheduledQueryRow(Base):
    """A query with its schedule. `active_execution` is the run that has begun and not ended; it refers to a row of
    executions, which refers to this one.
    """

    __tablename__ = "scheduled_queries"
    __table_args__ = (
        UniqueConstraint("namespace", "name"),
        Index("ix_scheduled_queries_due", "namespace", "next_execution"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    namespace: Mapped[str] = mapped_column(String(256))
    name: Mapped[str] = mapped_column(String(256))
    enabled: Mapped[bool] = mapped_column(Boolean)
    schedule: Mapped[str | None] = mapped_column(Text)
    user_name: Mapped[str | None] = mapped_column(Text)
    query: Mapped[str | None] = mapped_column(Text)
    next_execution: Mapped[int | None] = mapped_column(BigInteger)
    active_execution: Mapped[int | None] = mapped_column(BigInteger)


class ScheduledExecutionRow(Base):
    """A run of a scheduled query; it is deleted with it."""

    __tablename__ = "scheduled_executions"
    __table_args__ = (
        Index("ix_scheduled_executions_query_id", "query_id"),
        Index("ix_scheduled_executions_updated", "updated"),
        Index("ix_scheduled_executions_started", "started"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    query_id: Mapped[int] = mapped_column(ForeignKey("scheduled_queries.id", ondelete="CASCADE"))
    state: Mapped[int] = mapped_column(SmallInteger)
    started: Mapped[int] = mapped_column(BigInteger)
    updated: Mapped[int | None] = mapped_column(BigInteger)
    ended: Mapped[int | None] = mapped_column(BigInteger)
    executor_query_id: Mapped[str | None] = mapped_column(Text)
    error: Mapped[str | None] = mapped_column(Text)


class RuntimeStatisticsRow(Base):
    """Statistics of a run of Hive."""

    __tablename__ = "runtime_statistics"
    __table_args__ = (Index("ix_runtime_statistics_create_time", "create_time"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    create_time: Mapped[int] = mapped_column(BigInteger)
    weight: Mapped[int] = mapped_column(Integer)
    payload: Mapped[bytes] = mapped_column(LargeBinary)


class IdempotencyKeyRow(Base):
    """The key of a request that was carried out, and the answer."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (Index("ix_idempotency_keys_claimed_at", "claimed_at"),)

    key: Mapped[str] = mapped_column(String(36), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    owner: Mapped[str] = mapped_column(String(32))
    claimed_at: Mapped[int] = mapped_column(BigInteger)
    answer: Mapped[bytes | None] = mapped_column(LargeBinary)
