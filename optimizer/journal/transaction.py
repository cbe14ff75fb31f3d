"""The statements of the journal, on an open connection: one unit of work."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.orm import DeclarativeBase

from interbed.catalog.server.database.models import (
    OptimizerGroupRow,
    OptimizerLeaseRow,
    OptimizerProcessRow,
    OptimizerRequestRow,
    OptimizerTableRow,
    OptimizerTaskRow,
    OptimizerWorkerRow,
)
from interbed.catalog.server.database.statement import insert_or_replace
from interbed.optimizer.flow.group import ResourceGroup
from interbed.optimizer.flow.process import Process, ProcessState
from interbed.optimizer.flow.request import TableRequest
from interbed.optimizer.flow.table_state import TableState
from interbed.optimizer.flow.task import Task
from interbed.optimizer.flow.worker import Worker
from interbed.optimizer.journal.api import Lease, check_lease
from interbed.optimizer.journal.rows import (
    listed_document,
    listed_row,
    process_from,
    process_row,
    request_from,
    request_row,
    table_from,
    table_row,
    task_from,
    task_row,
)

T = TypeVar("T")

NAMES_MAX = 1000
"""Values in one condition: databases take more, but not any number."""

_OPEN = tuple(state.value for state in ProcessState if not state.has_ended)


class JournalTransaction:
    """What the journal does within one transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lease(self, *, for_update: bool = False, for_share: bool = False) -> Lease | None:
        """Who schedules, or did last. PostgreSQL holds the row for this transaction, so that nobody else becomes the
        scheduler until it ends; on SQLite there is one writer at a time, and a reader sees one state.
        """
        statement = select(OptimizerLeaseRow.__table__)
        if for_update or for_share:
            statement = statement.with_for_update(read=for_share)
        row = self._connection.execute(statement).one()
        if row.number == 0:
            return None
        return Lease(holder=row.holder, number=row.number, until_millis=row.until_millis)

    def check(self, lease: Lease) -> None:
        """Whether the lease counts, and for this transaction will. Raises LeaseLostError."""
        check_lease(lease, self.lease(for_update=True))

    def set_lease(self, lease: Lease) -> None:
        """Store who schedules."""
        self._connection.execute(
            update(OptimizerLeaseRow).values(holder=lease.holder, number=lease.number, until_millis=lease.until_millis)
        )

    def set_tables(self, tables: Sequence[TableState]) -> None:
        """Store tables."""
        self._replace(OptimizerTableRow, {state.name: table_row(state) for state in tables}.values())

    def remove_tables(self, names: Sequence[str]) -> None:
        """Forget tables."""
        self._delete(OptimizerTableRow, OptimizerTableRow.name, names)

    def tables(self, names: Sequence[str] | None) -> list[TableState]:
        """All tables, or those named, by name."""
        statement = select(OptimizerTableRow.__table__)
        if names is None:
            return [table_from(row) for row in self._connection.execute(statement.order_by(OptimizerTableRow.name))]
        found = []
        for some in _parts(sorted(set(names))):
            wanted = statement.where(OptimizerTableRow.name.in_(some)).order_by(OptimizerTableRow.name)
            found += [table_from(row) for row in self._connection.execute(wanted)]
        return found

    def set_processes(self, processes: Sequence[Process]) -> None:
        """Store processes."""
        self._replace(OptimizerProcessRow, {process.id: process_row(process) for process in processes}.values())

    def processes(self, table: str | None, limit: int) -> list[Process]:
        """The newest processes, of all tables or of one."""
        newest = OptimizerProcessRow.created_millis.desc()
        statement = select(OptimizerProcessRow.__table__).order_by(newest, OptimizerProcessRow.id).limit(limit)
        if table is not None:
            statement = statement.where(OptimizerProcessRow.table_name == table)
        return [process_from(row) for row in self._connection.execute(statement)]

    def open_processes(self) -> list[Process]:
        """The processes that have not ended, the oldest first."""
        statement = (
            select(OptimizerProcessRow.__table__)
            .where(OptimizerProcessRow.state.in_(_OPEN))
            .order_by(OptimizerProcessRow.created_millis, OptimizerProcessRow.id)
        )
        return [process_from(row) for row in self._connection.execute(statement)]

    def expire(self, ended_before_millis: int) -> int:
        """Forget processes that ended before a time; how many."""
        # Not "in the states that end": of the two indexes, that of the time is the one that finds few.
        statement = delete(OptimizerProcessRow).where(
            OptimizerProcessRow.ended_millis < ended_before_millis, OptimizerProcessRow.state.not_in(_OPEN)
        )
        return int(self._connection.execute(statement).rowcount)

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Store tasks."""
        self._replace(OptimizerTaskRow, {(task.process, task.number): task_row(task) for task in tasks}.values())

    def remove_tasks_of_none(self, processes: Collection[str]) -> None:
        """Of these processes, forget the tasks of those that are not there or have ended."""
        is_open = (
            select(OptimizerProcessRow.id)
            .where(OptimizerProcessRow.id == OptimizerTaskRow.process_id, OptimizerProcessRow.state.in_(_OPEN))
            .exists()
        )
        self._delete(OptimizerTaskRow, OptimizerTaskRow.process_id, sorted(processes), ~is_open)

    def tasks(self) -> list[Task]:
        """All tasks, by process and number."""
        statement = select(OptimizerTaskRow.__table__)
        ordered = statement.order_by(OptimizerTaskRow.process_id, OptimizerTaskRow.number)
        return [task_from(row) for row in self._connection.execute(ordered)]

    def set_workers(self, workers: Sequence[Worker]) -> None:
        """Store that these are all workers."""
        self._set_list(OptimizerWorkerRow, workers)

    def workers(self) -> list[Worker]:
        """All workers."""
        return [Worker.from_json(document) for document in self._list(OptimizerWorkerRow)]

    def set_groups(self, groups: Sequence[ResourceGroup]) -> None:
        """Store that these are all groups."""
        self._set_list(OptimizerGroupRow, groups)

    def groups(self) -> list[ResourceGroup]:
        """All groups."""
        return [ResourceGroup.from_json(document) for document in self._list(OptimizerGroupRow)]

    def add_request(self, request: TableRequest) -> None:
        """Store a request."""
        self._connection.execute(insert(OptimizerRequestRow).values(request_row(request)))

    def remove_requests(self, ids: Sequence[int]) -> None:
        """Forget requests."""
        self._delete(OptimizerRequestRow, OptimizerRequestRow.id, ids)

    def requests(self) -> list[TableRequest]:
        """All requests, the oldest first."""
        statement = select(OptimizerRequestRow.__table__).order_by(OptimizerRequestRow.id)
        return [request_from(row) for row in self._connection.execute(statement)]

    def _replace(self, model: type[DeclarativeBase], rows: Collection[Mapping[str, Any]]) -> None:
        if rows:
            self._connection.execute(insert_or_replace(self._connection, model), list(rows))

    def _delete(self, model: type[DeclarativeBase], column: Any, values: Sequence[Any], *conditions: Any) -> None:
        for some in _parts(values):
            self._connection.execute(delete(model).where(column.in_(some), *conditions))

    def _set_list(self, model: Any, values: Sequence[Worker | ResourceGroup]) -> None:
        self._connection.execute(delete(model).where(model.position >= len(values)))
        self._replace(model, [listed_row(position, value) for position, value in enumerate(values)])

    def _list(self, model: Any) -> Iterator[Mapping[str, Any]]:
        for row in self._connection.execute(select(model.__table__).order_by(model.position)):
            yield listed_document(row)


def _parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), NAMES_MAX):
        yield values[start : start + NAMES_MAX]
