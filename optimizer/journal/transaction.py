"""Rows and statements of the journal's database: one unit of work on an open connection.

A row has columns for the fields that are searched, and a JSON document of the others (the value's to_json). The text is
compact JSON in ASCII: PostgreSQL's text holds no NUL character, and JSON escapes it.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.orm import DeclarativeBase

from interbed.catalog.server.database.engine import insert_or_replace
from interbed.catalog.server.database.models import (
    OptimizerGroupRow,
    OptimizerLeaseRow,
    OptimizerProcessRow,
    OptimizerRequestRow,
    OptimizerTableRow,
    OptimizerTaskRow,
    OptimizerWorkerRow,
)
from interbed.optimizer.flow.process import Process, ProcessState, Task, TaskFigures, TaskState, WorkKind
from interbed.optimizer.flow.tables import RequestKind, ResourceGroup, TableRequest, TableState, Worker
from interbed.optimizer.journal.api import Lease, check_lease

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode

_FIGURES = ("bytes_in", "bytes_out", "files_in", "files_out")
_PROCESS_COLUMNS = ("id", "kind", "state", "created_millis", "ended_millis", "tasks", "seconds", *_FIGURES)


def table_row(state: TableState) -> dict[str, Any]:
    """Return the row of a table."""
    fields = state.to_json()
    return {
        "name": fields.pop("table"),
        "group_name": _shown(state.group),
        "score": None if state.summary is None else state.summary.score,
        "document": _encode(fields),
    }


def table_from(row: Any) -> TableState:
    """Return the table of a row."""
    return TableState.from_json({"table": row.name, **json.loads(row.document)})


def process_row(process: Process) -> dict[str, Any]:
    """Return the row of a process."""
    fields = process.to_json()
    columns = {name: fields.pop(name) for name in _PROCESS_COLUMNS}
    return {
        **columns,
        "table_name": fields.pop("table"),
        "group_name": _shown(process.group),
        "document": _encode(fields),
    }


def process_from(row: Any) -> Process:
    """Return the process of a row."""
    columns = {name: getattr(row, name) for name in _PROCESS_COLUMNS}
    return Process.from_json({**columns, "table": row.table_name, **json.loads(row.document)})


def task_row(task: Task) -> dict[str, Any]:
    """Return the row of a task."""
    fields = {
        "cost": task.cost,
        "attempt": task.attempt,
        "worker": task.worker,
        "started_millis": task.started_millis,
        "lease_until_millis": task.lease_until_millis,
        "figures": task.figures.to_json(),
        "failure": task.failure,
    }
    return {
        "process_id": task.process,
        "number": task.number,
        "state": task.state.value,
        "document": _encode(fields),
        "payload": task.payload,
        "result": task.result,
    }


def task_from(row: Any) -> Task:
    """Return the task of a row."""
    fields = json.loads(row.document)
    return Task(
        process=row.process_id,
        number=row.number,
        state=TaskState(row.state),
        payload=row.payload,
        result=row.result,
        figures=TaskFigures.from_json(fields.pop("figures")),
        **fields,
    )


def listed_row(position: int, value: Worker | ResourceGroup) -> dict[str, Any]:
    """Return the row of a worker or a group at a position of their list."""
    return {"position": position, "document": _encode(value.to_json())}


def listed_document(row: Any) -> Mapping[str, Any]:
    """Return the JSON object of a worker or a group."""
    document: dict[str, Any] = json.loads(row.document)
    return document


def request_row(request: TableRequest) -> dict[str, Any]:
    """Return the row of a request; the database gives its id."""
    return {
        "table_name": request.table,
        "kind": request.kind.value,
        "work": None if request.work is None else request.work.value,
    }


def request_from(row: Any) -> TableRequest:
    """Return the request of a row."""
    return TableRequest(
        id=row.id,
        table=row.table_name,
        kind=RequestKind(row.kind),
        work=None if row.work is None else WorkKind(row.work),
    )


def _shown(group: str) -> str:
    """Return a group's name without characters that a database can't hold; this column is for reading by users only."""
    return group.encode(errors="replace").decode().replace("\0", "?")


T = TypeVar("T")

NAMES_MAX = 1000
"""Values in one condition; databases have limits, of which this is below all."""

_OPEN = tuple(state.value for state in ProcessState if not state.has_ended)


class JournalTransaction:
    """Statements of the journal within one transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lease(self, *, for_update: bool = False, for_share: bool = False) -> Lease | None:
        """Return the lease of the present or the last scheduler.

        On PostgreSQL a locked row keeps other processes from taking the lease until the transaction ends. On SQLite
        there is one writer at a time, and a reader sees one state.
        """
        statement = select(OptimizerLeaseRow.__table__)
        if for_update or for_share:
            statement = statement.with_for_update(read=for_share)
        row = self._connection.execute(statement).one()
        if row.number == 0:
            return None
        return Lease(holder=row.holder, number=row.number, until_millis=row.until_millis)

    def check(self, lease: Lease) -> None:
        """Check that the lease is valid until this transaction ends. Raises LeaseLostError."""
        check_lease(lease, self.lease(for_update=True))

    def set_lease(self, lease: Lease) -> None:
        """Store the lease of the scheduler."""
        self._connection.execute(
            update(OptimizerLeaseRow).values(holder=lease.holder, number=lease.number, until_millis=lease.until_millis)
        )

    def set_tables(self, tables: Sequence[TableState]) -> None:
        """Insert or replace tables."""
        self._replace(OptimizerTableRow, {state.name: table_row(state) for state in tables}.values())

    def remove_tables(self, names: Sequence[str]) -> None:
        """Delete tables by name."""
        self._delete(OptimizerTableRow, OptimizerTableRow.name, names)

    def tables(self, names: Sequence[str] | None) -> list[TableState]:
        """Return all tables, or those named, sorted by name."""
        statement = select(OptimizerTableRow.__table__)
        if names is None:
            return [table_from(row) for row in self._connection.execute(statement.order_by(OptimizerTableRow.name))]
        found = []
        for some in _parts(sorted(set(names))):
            wanted = statement.where(OptimizerTableRow.name.in_(some)).order_by(OptimizerTableRow.name)
            found += [table_from(row) for row in self._connection.execute(wanted)]
        return found

    def set_processes(self, processes: Sequence[Process]) -> None:
        """Insert or replace processes."""
        self._replace(OptimizerProcessRow, {process.id: process_row(process) for process in processes}.values())

    def processes(self, table: str | None, limit: int) -> list[Process]:
        """Return the newest processes, of all tables or of one."""
        newest = OptimizerProcessRow.created_millis.desc()
        statement = select(OptimizerProcessRow.__table__).order_by(newest, OptimizerProcessRow.id).limit(limit)
        if table is not None:
            statement = statement.where(OptimizerProcessRow.table_name == table)
        return [process_from(row) for row in self._connection.execute(statement)]

    def open_processes(self) -> list[Process]:
        """Return the processes that have not ended, the oldest first."""
        statement = (
            select(OptimizerProcessRow.__table__)
            .where(OptimizerProcessRow.state.in_(_OPEN))
            .order_by(OptimizerProcessRow.created_millis, OptimizerProcessRow.id)
        )
        return [process_from(row) for row in self._connection.execute(statement)]

    def expire(self, ended_before_millis: int) -> int:
        """Delete processes that ended before a time, and return their number."""
        # `not_in` the open states, so that the index of the time is used: it selects fewer rows than that of the state.
        statement = delete(OptimizerProcessRow).where(
            OptimizerProcessRow.ended_millis < ended_before_millis, OptimizerProcessRow.state.not_in(_OPEN)
        )
        return int(self._connection.execute(statement).rowcount)

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """Insert or replace tasks."""
        self._replace(OptimizerTaskRow, {(task.process, task.number): task_row(task) for task in tasks}.values())

    def remove_tasks_of_none(self, processes: Collection[str]) -> None:
        """Delete the tasks of those processes that are missing or have ended."""
        is_open = (
            select(OptimizerProcessRow.id)
            .where(OptimizerProcessRow.id == OptimizerTaskRow.process_id, OptimizerProcessRow.state.in_(_OPEN))
            .exists()
        )
        self._delete(OptimizerTaskRow, OptimizerTaskRow.process_id, sorted(processes), ~is_open)

    def tasks(self) -> list[Task]:
        """Return all tasks, sorted by process and number."""
        statement = select(OptimizerTaskRow.__table__)
        ordered = statement.order_by(OptimizerTaskRow.process_id, OptimizerTaskRow.number)
        return [task_from(row) for row in self._connection.execute(ordered)]

    def set_workers(self, workers: Sequence[Worker]) -> None:
        """Replace the list of workers."""
        self._set_list(OptimizerWorkerRow, workers)

    def workers(self) -> list[Worker]:
        """Return the list of workers."""
        return [Worker.from_json(document) for document in self._list(OptimizerWorkerRow)]

    def set_groups(self, groups: Sequence[ResourceGroup]) -> None:
        """Replace the list of groups."""
        self._set_list(OptimizerGroupRow, groups)

    def groups(self) -> list[ResourceGroup]:
        """Return the list of groups."""
        return [ResourceGroup.from_json(document) for document in self._list(OptimizerGroupRow)]

    def add_request(self, request: TableRequest) -> None:
        """Insert a user's request."""
        self._connection.execute(insert(OptimizerRequestRow).values(request_row(request)))

    def remove_requests(self, ids: Sequence[int]) -> None:
        """Delete requests by id."""
        self._delete(OptimizerRequestRow, OptimizerRequestRow.id, ids)

    def requests(self) -> list[TableRequest]:
        """Return all requests, the oldest first."""
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
