"""Column statistics, statistics of runs, and scheduled queries with their executions in SQL.

The numbers of column statistics are a JSON document; no query searches by them.
"""

import base64
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from interbed.catalog.server.database.engine import insert_unless_taken
from interbed.catalog.server.database.models import (
    PartitionRow,
    PartitionSetRow,
    PartitionStatisticsRow,
    RuntimeStatisticsRow,
    ScheduledExecutionRow,
    ScheduledQueryRow,
    TableStatisticsRow,
)
from interbed.catalog.server.service.column_statistics import ColumnStatistics, StatisticsData, StatisticsKind
from interbed.catalog.server.service.schedule import QueryState, RuntimeStatistics, ScheduledExecution, ScheduledQuery

ROWS_FETCHED = 10_000

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_PLAIN = ("nulls", "distinct", "length_max", "length_average", "trues", "falses")


class SqlStatistics:
    """Statistics of the columns of tables and of partitions, separate for each engine."""

    __slots__ = ("_connection", "_postgresql")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._postgresql = connection.dialect.name == "postgresql"

    def of_table(self, table_id: int, columns: Sequence[str] | None, engine: str) -> list[ColumnStatistics]:
        """Return the statistics of these columns, of all if None, in the order of their names."""
        row = TableStatisticsRow
        statement = (
            select(row.column_name, row.column_type, row.analyzed_at, row.document)
            .where(row.table_id == table_id, row.engine == engine)
            .order_by(row.column_name)
        )
        chosen = None if columns is None else set(columns)
        rows = self._connection.execute(statement)
        return [_statistics(each) for each in rows if chosen is None or each.column_name in chosen]

    def put_of_table(self, table_id: int, engine: str, statistics: Iterable[ColumnStatistics]) -> None:
        """Store statistics in place of the existing ones."""
        rows = [{"table_id": table_id, "engine": engine, **_row(each)} for each in statistics]
        if rows:
            self._connection.execute(self._upsert(TableStatisticsRow, ("table_id", "engine", "column_name")), rows)

    def remove_of_table(self, table_id: int, engine: str, columns: Sequence[str] | None) -> int:
        """Remove the statistics of these columns, all if None; return how many there were."""
        row = TableStatisticsRow
        statement = delete(row).where(row.table_id == table_id, row.engine == engine)
        if columns is not None:
            statement = statement.where(row.column_name.in_(columns))
        return self._connection.execute(statement).rowcount

    def keep_table_columns(self, table_id: int, keep: Collection[str]) -> None:
        """Remove the statistics of all columns of the table but these, whatever the engine."""
        row = TableStatisticsRow
        self._connection.execute(delete(row).where(row.table_id == table_id, row.column_name.not_in(keep)))

    def of_partitions(
        self, table_id: int, names: Sequence[str], columns: Sequence[str] | None, engine: str
    ) -> Iterator[tuple[str, ColumnStatistics]]:
        """Return the statistics of these columns of these partitions, with the partitions' names, in their order."""
        statement = (
            "SELECT p.name, c.column_name, c.column_type, c.analyzed_at, c.document "
            "FROM partition_sets s JOIN partitions p ON p.set_id = s.id "
            "JOIN partition_statistics c ON c.partition_id = p.id AND c.engine = :engine "
            f"WHERE s.table_id = :table_id AND p.name {self._among('names')}"
        )
        parameters = {"table_id": table_id, "engine": engine, "names": self._list(names)}
        if columns is not None:
            statement += f" AND c.column_name {self._among('columns')}"
            parameters["columns"] = self._list(columns)
        rows = self._connection.execute(text(statement + " ORDER BY p.name, c.column_name"), parameters)
        for part in rows.partitions(ROWS_FETCHED):
            yield from ((row.name, _statistics(row)) for row in part)

    def put_of_partitions(self, table_id: int, engine: str, statistics: Iterable[tuple[int, ColumnStatistics]]) -> None:
        """Store statistics, each with the row id of its partition, in place of the existing ones."""
        set_id = self._connection.execute(
            select(PartitionSetRow.id).where(PartitionSetRow.table_id == table_id)
        ).scalar_one_or_none()
        rows = [
            {"partition_id": partition_id, "engine": engine, "set_id": set_id, **_row(each)}
            for partition_id, each in statistics
        ]
        if rows:
            keys = ("partition_id", "engine", "column_name")
            self._connection.execute(self._upsert(PartitionStatisticsRow, keys), rows)

    def remove_of_partitions(self, partition_ids: Sequence[int], engine: str, columns: Sequence[str] | None) -> int:
        """Remove the statistics of these columns (all if None) of partitions; return how many there were."""
        statement = f"DELETE FROM partition_statistics WHERE partition_id {self._among('ids')} AND engine = :engine"
        parameters = {"ids": self._list(partition_ids), "engine": engine}
        if columns is not None:
            statement += f" AND column_name {self._among('columns')}"
            parameters["columns"] = self._list(columns)
        return self._connection.execute(text(statement), parameters).rowcount

    def keep_partition_columns(self, partition_id: int, keep: Collection[str]) -> None:
        """Remove the statistics of all columns of the partition but these, whatever the engine."""
        row = PartitionStatisticsRow
        self._connection.execute(delete(row).where(row.partition_id == partition_id, row.column_name.not_in(keep)))

    def keep_columns_of_partitions(self, table_id: int, keep: Collection[str]) -> None:
        """Remove the statistics of all columns of all partitions of the table but these, whatever the engine."""
        row = PartitionStatisticsRow
        ids = (
            select(PartitionRow.id)
            .join(PartitionSetRow, PartitionSetRow.id == PartitionRow.set_id)
            .where(PartitionSetRow.table_id == table_id)
        )
        self._connection.execute(delete(row).where(row.partition_id.in_(ids), row.column_name.not_in(keep)))

    def _upsert(self, model: Any, keys: Sequence[str]) -> Any:
        statement = (postgresql if self._postgresql else sqlite).insert(model)
        fields = ("column_type", "analyzed_at", "document")
        return statement.on_conflict_do_update(
            index_elements=list(keys), set_={name: getattr(statement.excluded, name) for name in fields}
        )

    def _among(self, parameter: str) -> str:
        return f"= ANY (:{parameter})" if self._postgresql else f"IN (SELECT value FROM json_each(:{parameter}))"

    def _list(self, values: Sequence[Any]) -> Any:
        return list(values) if self._postgresql else json.dumps(list(values))


def _row(statistics: ColumnStatistics) -> dict[str, Any]:
    return {
        "column_name": statistics.column,
        "column_type": statistics.type,
        "analyzed_at": statistics.analyzed_at,
        "document": _document(statistics.data),
    }


def _document(data: StatisticsData) -> str:
    fields: dict[str, Any] = {"kind": str(data.kind)}
    fields.update((name, getattr(data, name)) for name in _PLAIN)
    for name in ("low", "high"):
        number = getattr(data, name)
        fields[name] = str(number) if isinstance(number, Decimal) else number
    for name in ("bit_vectors", "histogram"):
        value = getattr(data, name)
        fields[name] = None if value is None else base64.b64encode(value).decode()
    return _encode({name: value for name, value in fields.items() if value is not None})


def _statistics(row: Any) -> ColumnStatistics:
    fields = json.loads(row.document)
    kind = StatisticsKind(fields.pop("kind"))
    for name in ("low", "high"):
        if kind is StatisticsKind.DECIMAL and name in fields:
            fields[name] = Decimal(fields[name])
    for name in ("bit_vectors", "histogram"):
        if name in fields:
            fields[name] = base64.b64decode(fields[name])
    return ColumnStatistics(
        column=row.column_name,
        type=row.column_type,
        analyzed_at=row.analyzed_at,
        data=StatisticsData(kind=kind, **fields),
    )


class SqlQueries:
    """Scheduled queries by namespace and name, and their executions."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, namespace: str, name: str, *, for_update: bool = False) -> tuple[int, ScheduledQuery] | None:
        """Return the query with the id of its row."""
        statement = select(ScheduledQueryRow.__table__).where(
            ScheduledQueryRow.namespace == namespace, ScheduledQueryRow.name == name
        )
        if for_update:
            statement = statement.with_for_update()
        return _query(self._connection.execute(statement).one_or_none())

    def add(self, query: ScheduledQuery) -> bool:
        """Store a new query; False if the name is taken."""
        statement = insert_unless_taken(self._connection, ScheduledQueryRow, ScheduledQueryRow.id)
        return self._connection.execute(statement.values(**_columns(query))).one_or_none() is not None

    def replace(self, query_id: int, query: ScheduledQuery) -> None:
        """Replace the query; a running execution stays."""
        self._connection.execute(
            update(ScheduledQueryRow).where(ScheduledQueryRow.id == query_id).values(**_columns(query))
        )

    def remove(self, query_id: int) -> None:
        """Remove the query and its executions."""
        self._connection.execute(delete(ScheduledQueryRow).where(ScheduledQueryRow.id == query_id))

    def due(self, namespace: str, now: int) -> tuple[int, ScheduledQuery] | None:
        """Return the enabled query that is overdue longest and does not run. One that another transaction is just
        starting is skipped: SKIP LOCKED on PostgreSQL; on SQLite there is one writer at a time.
        """
        statement = (
            select(ScheduledQueryRow.__table__)
            .where(
                ScheduledQueryRow.namespace == namespace,
                ScheduledQueryRow.next_execution <= now,
                ScheduledQueryRow.enabled.is_(True),
                ScheduledQueryRow.active_execution.is_(None),
            )
            .order_by(ScheduledQueryRow.next_execution, ScheduledQueryRow.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        return _query(self._connection.execute(statement).one_or_none())

    def start(self, query_id: int, next_execution: int | None, now: int) -> int:
        """Store that the query runs from now on and when it runs next; return the id of the execution."""
        execution_id = self._connection.execute(
            insert(ScheduledExecutionRow)
            .values(query_id=query_id, state=int(QueryState.INITED), started=now, updated=now)
            .returning(ScheduledExecutionRow.id)
        ).scalar_one()
        self._connection.execute(
            update(ScheduledQueryRow)
            .where(ScheduledQueryRow.id == query_id)
            .values(next_execution=next_execution, active_execution=execution_id)
        )
        return execution_id

    def execution(self, execution_id: int) -> ScheduledExecution | None:
        """Return an execution, locked for this transaction."""
        row = self._connection.execute(
            select(ScheduledExecutionRow.__table__).where(ScheduledExecutionRow.id == execution_id).with_for_update()
        ).one_or_none()
        if row is None:
            return None
        fields = dict(row._mapping)
        return ScheduledExecution(**{**fields, "state": QueryState(fields["state"])})

    def store_execution(self, execution: ScheduledExecution) -> None:
        """Replace the execution; if it has ended, its query may run again."""
        self._connection.execute(
            update(ScheduledExecutionRow)
            .where(ScheduledExecutionRow.id == execution.id)
            .values(
                state=int(execution.state),
                updated=execution.updated,
                ended=execution.ended,
                executor_query_id=execution.executor_query_id,
                error=execution.error,
            )
        )
        if execution.ended is not None:
            # Only if this is the active execution: a later one may run already.
            self._connection.execute(
                update(ScheduledQueryRow)
                .where(ScheduledQueryRow.id == execution.query_id, ScheduledQueryRow.active_execution == execution.id)
                .values(active_execution=None)
            )

    def silent(self, updated_before: int) -> list[int]:
        """Return the ids of running executions whose last report came before a time."""
        statement = select(ScheduledExecutionRow.id).where(
            ScheduledExecutionRow.updated < updated_before,
            ScheduledExecutionRow.state.in_((int(QueryState.INITED), int(QueryState.EXECUTING))),
        )
        return list(self._connection.execute(statement.order_by(ScheduledExecutionRow.id)).scalars())

    def expire_executions(self, started_before: int) -> int:
        """Remove the executions that have ended and began before a time; return their number."""
        statement = delete(ScheduledExecutionRow).where(
            ScheduledExecutionRow.started < started_before, ScheduledExecutionRow.ended.is_not(None)
        )
        return int(self._connection.execute(statement).rowcount)


def _columns(query: ScheduledQuery) -> dict[str, Any]:
    return {
        "namespace": query.namespace,
        "name": query.name,
        "enabled": query.enabled,
        "schedule": query.schedule,
        "user_name": query.user,
        "query": query.query,
        "next_execution": query.next_execution,
    }


def _query(row: Any) -> tuple[int, ScheduledQuery] | None:
    if row is None:
        return None
    return row.id, ScheduledQuery(
        namespace=row.namespace,
        name=row.name,
        enabled=row.enabled,
        schedule=row.schedule,
        user=row.user_name,
        query=row.query,
        next_execution=row.next_execution,
    )


class SqlRunStatistics:
    """Statistics of runs by their age."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, statistics: RuntimeStatistics) -> None:
        """Store statistics of a run."""
        self._connection.execute(
            insert(RuntimeStatisticsRow).values(
                create_time=statistics.create_time, weight=statistics.weight, payload=statistics.payload
            )
        )

    def newest(self, created_before: int | None) -> list[RuntimeStatistics]:
        """Return those created before a time (all if None), newest first."""
        statement = select(RuntimeStatisticsRow.__table__).order_by(
            RuntimeStatisticsRow.create_time.desc(), RuntimeStatisticsRow.id.desc()
        )
        if created_before is not None:
            statement = statement.where(RuntimeStatisticsRow.create_time < created_before)
        return [
            RuntimeStatistics(create_time=row.create_time, weight=row.weight, payload=row.payload)
            for row in self._connection.execute(statement)
        ]

    def expire(self, created_before: int) -> int:
        """Remove those created before a time; return their number."""
        statement = delete(RuntimeStatisticsRow).where(RuntimeStatisticsRow.create_time < created_before)
        return int(self._connection.execute(statement).rowcount)
