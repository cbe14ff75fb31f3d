"""Scheduled queries with their executions, and statistics of runs, in SQL."""

from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from interbed.catalog.server.database.models import RuntimeStatisticsRow, ScheduledExecutionRow, ScheduledQueryRow
from interbed.catalog.server.database.statement import insert_unless_taken
from interbed.catalog.server.service.schedule import QueryState, RuntimeStatistics, ScheduledExecution, ScheduledQuery


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
